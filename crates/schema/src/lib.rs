//! What a run folder's `manifest.json` and `results.json` hold, each result declared once.
//!
//! [`Results`] and [`Manifest`] are what the lab fills and writes, and what insight and `wansan lab` read
//! again. What an earlier version of wansan did not write yet is absent there: a field has its default
//! then. The tables that the structs are made of ([`table`]) know each field's unit, sentence and type, and
//! what a plan must have for it; from them come
//!
//! - [`metric::metrics`], the names that `[[expect]]` and `[[paper.known]]` of plans accept,
//! - [`CellResult::singles`], from which the report offers its axes, and which `wansan lab compare` and
//!   `wansan lab export` put side by side,
//! - [`typescript::types`], the page's types,
//! - [`page::page`], `docs/reference/results.md`, and [`lake::page`], `docs/reference/lake.md`.
//!
//! A new result is a line in a table, and the place that fills it. The crate is pure.

mod cell;
mod change;
mod finding;
mod flows;
pub mod lake;
mod manifest;
mod measured;
pub mod metric;
pub mod page;
mod path;
mod reports;
mod results;
pub mod table;
pub mod typescript;

use std::collections::BTreeMap;

use serde_json::Value;

pub use cell::CellResult;
pub use change::PathChange;
pub use finding::{Advice, Advised, CellFinding, Finding, Gain, Prediction};
pub use flows::{RelayResult, RouterUsage, StreamResult};
pub use lake::{LakeSession, LakeWait};
pub use manifest::{
    CellFacts, ClockAnchor, ClockFacts, ControlFacts, FileFacts, HostFacts, Machine, Manifest,
    MeasuredPath, NodeFacts, PathFacts, TunnelFacts, WorkerFacts,
};
pub use measured::{
    BelowSocket, CauseUse, CwndUse, Example, LegUse, ShownPacket, StallUse, StampCount, WaitCause,
    WaitSum, WaitUse,
};
pub use path::{ElementResult, NetemResult, PathResult};
pub use reports::{
    BenchReport, ConnectionReport, FlowReport, IoLatency, MarkLatency, RelayEnd, StreamReport,
};
pub use results::{KnownNumber, Paper, Results, Verdict};

/// Parameters of a plan by their dotted names.
pub type Parameters = BTreeMap<String, Value>;
