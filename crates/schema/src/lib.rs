//! What a run folder's `manifest.json` and `results.json` hold, each result declared once.
//!
//! The lab fills and writes [`Results`] and [`Manifest`]; insight and `wansan lab` read them. Fields that an
//! earlier version of wansan did not write have their defaults. The tables that define the structs ([`table`])
//! have each field's unit, description and type, and its requirements on the plan; they generate
//!
//! - [`metric::metrics`], the names that `[[expect]]` and `[[paper.known]]` of plans accept,
//! - [`CellResult::singles`], the axes that the report offers, and the numbers that `wansan lab compare` and
//!   `wansan lab export` list,
//! - [`typescript::types`], the page's types,
//! - [`page::page`], `docs/reference/results.md`, and [`lake::page`], `docs/reference/lake.md`.
//!
//! A new result is a line in a table, and the code that fills it. The crate is pure.

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
