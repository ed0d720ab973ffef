//! Joins the events of all layers and hosts, and names the layer that limits a SAN.
//!
//! - [`run`] reads a run folder's index, [`cell`] the record files of one cell, [`capture`] builds a cell from a
//!   capture file;
//! - [`join`] builds one task per I/O from the crossings of all hosts, and [`wire`] adds the
//!   `wire` crossings from packets and PDUs;
//! - [`population`] counts the I/Os in each layer over time, `waiting` splits each I/O's latency by layer,
//!   [`little`] checks that the two agree;
//! - [`command_window`], [`connections`], [`r2t`], [`transport`], [`congestion`], [`path`] and [`load`] examine the
//!   possible limits;
//! - [`pdus`] holds PDUs and [`packets`] packets, [`traffic`] maps these to connections, [`pdu_stream`] to PDUs,
//!   [`transfer`] lists an interval of them, and [`packet_gap`] measures the gaps between them as they leave the
//!   target;
//! - [`watched`] reports on connections with TCP records only;
//! - [`cwnd`] summarizes the congestion windows of a cell;
//! - [`model`] fits closed-form throughput models to a sweep of delays;
//! - [`stall`] finds the stalls of I/Os and their causes;
//! - [`below`] splits the time below the socket by the kernel's time stamps;
//! - [`report`] collects the data of the report page;
//! - [`analysis`] analyses a cell's records once, for the summary and the charts;
//! - [`summary`] computes a cell's numbers; [`finding`] names the limit, the change to make and the
//!   gain to expect; [`gain`] compares that with the measurement.
//!
//! Everything but [`run`], [`cell`] and [`capture`] is pure. Nothing here reads a plan's settings: a finding
//! comes from recorded events only.

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
pub mod pdus;
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
pub mod weights;
pub mod window;
pub mod wire;

pub use analysis::Analysis;
pub use cell::Cell;
pub use finding::{Finding, Observed, explain};
pub use read::ReadError;
pub use run::Run;
pub use summary::{CellSummary, summarise};
pub use window::Window;
