//! Joins the events of all layers and hosts, and names the layer that holds a SAN back.
//!
//! - [`run`] reads a run folder's index, [`cell`] the record files of one cell, [`capture`] makes a cell of a
//!   capture file;
//! - [`join`] makes one task per I/O out of the crossings of all hosts, and [`wire`] adds the
//!   crossings of the wire from packets and PDUs;
//! - [`population`] counts who is where at each moment, `waiting` where each I/O's latency goes,
//!   [`little`] checks that the two agree;
//! - [`command_window`], [`connections`], [`r2t`], [`transport`], [`congestion`], [`path`] and [`load`] look at what
//!   may hold I/Os back;
//! - [`packets`] holds packets, [`traffic`] tells whose they are, [`pdu_stream`] what they carried, [`transfer`] a stretch
//!   of them one by one, and [`packet_gap`] how far apart they left the target;
//! - [`watched`] says what TCP alone tells of connections that were only watched;
//! - [`cwnd`] puts the congestion windows of a cell into numbers;
//! - [`model`] fits closed forms of throughput to a sweep of delays;
//! - [`stall`] finds where I/Os could have gone on and did not, and why;
//! - [`below`] splits the time below the socket by the kernel's stamps;
//! - [`report`] gathers what a report page shows;
//! - [`analysis`] looks at a cell's records once, for the summary and the charts;
//! - [`summary`] puts a cell into numbers; [`finding`] names what binds, what to change and the
//!   gain to expect; [`gain`] puts that beside what was measured.
//!
//! Everything but [`run`], [`cell`] and [`capture`] is pure. Nothing here looks at a plan's settings: a finding
//! comes from recorded events alone.

pub mod analysis;
pub mod backlog;
pub mod below;
pub mod both_ends;
pub mod capture;
pub mod cause;
pub mod cell;
pub mod clock;
pub mod command_window;
pub mod congestion;
pub mod connections;
pub mod cwnd;
pub mod finding;
pub mod gain;
pub mod join;
pub mod latency;
pub mod ledger;
pub mod little;
pub mod load;
pub mod model;
pub mod opcode;
pub mod packet_gap;
pub mod packets;
pub mod path;
pub mod pdu_stream;
pub mod population;
pub mod processors;
pub mod r2t;
mod read;
pub mod report;
pub mod run;
pub mod served;
pub mod stall;
pub mod summary;
pub mod traffic;
pub mod transfer;
pub mod transport;
pub mod wait;
mod waiting;
pub mod watched;
pub mod window;
pub mod wire;

pub use analysis::Analysis;
pub use cell::Cell;
pub use finding::{Finding, Observed, explain};
pub use read::ReadError;
pub use run::Run;
pub use summary::{CellSummary, summarise};
pub use window::Window;
