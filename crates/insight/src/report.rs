//! The report: what a run's `report.html` is given, and how it is put into the page.
//!
//! While a cell's records are in memory, [`CellCharts::of`] draws from them what the page shows of
//! the cell. When the run is over, [`data`] joins the charts with the run's manifest and results,
//! and [`html`] places the whole in the page that `web/` builds.
//!
//! The page knows nothing but [`ReportData`], whose mirror is `web/src/report/data.ts`; the parts of results in it are those of `web/src/results.ts`. Whatever a
//! run did not record stands as `None` or as an empty list: the page says so instead of drawing
//! nothing.

mod assemble;
mod changes;
mod charts;
mod detail;
mod network;
mod packets;
mod page;
mod problems;
mod time_axis;

use std::collections::BTreeMap;

use serde::Serialize;
use wansan_schema::{Advised, Finding, Manifest, Paper, Parameters, StallUse, Verdict};

pub use crate::packet_gap::PacketGaps;
pub use assemble::{RunRecord, data};
pub use changes::ChangeMark;
pub use detail::Detail;
pub use packets::{Boundary, PacketDiagram, PacketFlow, PacketKind, StallMark, StallPackets};
pub use page::{PageError, html};
pub use time_axis::{Samples, TimeAxis};

/// All that the page shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportData<'a> {
    /// The plan's name.
    pub plan: &'a str,
    /// The plan's title.
    pub title: &'a str,
    /// When it began, CLOCK_REALTIME since 1970.
    pub started_ns: Option<u64>,
    /// With which wansan it ran, and on what.
    pub facts: Vec<Fact>,
    /// What failed, is missing or must be read with care, a sentence each.
    pub problems: Vec<String>,
    /// What holds the system back.
    pub finding: Option<&'a Finding>,
    /// What the advised change brought.
    pub advised: Option<&'a Advised>,
    /// How the plan's expectations turned out.
    pub expectations: &'a [Verdict],
    /// Numbers that the rebuilt paper gives, beside ours.
    pub paper: Option<&'a Paper>,
    /// Whose throughput and latency a cell's own numbers are.
    pub load: Load,
    /// The cells in the order in which they ran.
    pub cells: Vec<CellReport<'a>>,
    /// The manifest as it is.
    pub manifest: &'a Manifest,
}

/// What a run loaded its network with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Load {
    /// I/Os of initiators.
    Initiators,
    /// Streams, as there are no initiators.
    Streams,
}

/// A fact of the page's heading.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// Its name.
    pub label: &'static str,
    /// Its value.
    pub text: String,
}

/// One cell of the sweep. A cell that failed has no numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellReport<'a> {
    /// Its number.
    pub cell: u64,
    /// `planned` or `advised`.
    pub phase: &'a str,
    /// Which repetition of the sweep, from 0.
    pub repeat: u64,
    /// What the sweep has set, by dotted name.
    pub parameters: &'a Parameters,
    /// Why it failed, if it did.
    pub failure: Option<&'a str>,
    /// All its numbers, by their dotted names in the cell's results.
    pub measures: BTreeMap<String, f64>,
    /// What was changed of its paths while it ran, in order.
    pub changes: Vec<ChangeMark>,
    /// Changes that are too many to be shown.
    pub changes_left_out: usize,
    /// What its records show; all empty when they were not read.
    #[serde(flatten)]
    pub charts: CellCharts,
}

/// What the records of one cell show.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct CellCharts {
    /// How many sessions the layers' numbers are the sum of.
    pub sessions: usize,
    /// The recorded layers, top to bottom.
    pub layers: Vec<LayerReport>,
    /// Records lost because a recorder was full, by kind; kinds that lost none are left out.
    pub dropped: BTreeMap<String, u64>,
    /// Crossings that are missing of I/Os whose beginning and end were recorded.
    pub missing_crossings: u64,
    /// Layers where Little's law does not hold between the numbers shown.
    pub little_disagrees: Vec<&'static str>,
    /// The time axis of all samples below.
    pub time: Option<TimeAxis>,
    /// I/Os in flight at each recorded layer, of all sessions together.
    pub in_flight: Vec<LayerSamples>,
    /// The time axis of the connections' samples.
    pub tcp_time: Option<TimeAxis>,
    /// The connections' sending ends, busiest first.
    pub connections: Vec<ConnectionSamples>,
    /// Sending ends that carried too little to be shown, or are too many.
    pub connections_left_out: usize,
    /// The paths' directions.
    pub paths: Vec<PathSamples>,
    /// The packets of the first I/Os that were measured.
    pub packets: Option<PacketDiagram>,
    /// How far apart data packets left the target.
    pub packet_gaps: Option<PacketGaps>,
    /// What stalls cost the I/Os.
    pub stalls: Option<StallUse>,
    /// The packets of the costliest stall of each cause.
    pub stall_packets: Vec<StallPackets>,
}

/// One layer's part in a cell's I/Os.
///
/// Times are means over the I/Os completed while it was measured. Over all layers, the ways in,
/// the ways out and the service add up to the mean latency. Each has a part above the least that
/// its session saw: that part is waiting, the rest is what it takes when nobody is in the way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerReport {
    /// The layer's name.
    pub layer: &'static str,
    /// Mean number of I/Os in it, of all sessions together.
    pub in_flight_mean: f64,
    /// Most I/Os in it at once, of all sessions together.
    pub in_flight_max: u64,
    /// From entering the layer above to entering this one; 0 at the top.
    pub way_in_ns: f64,
    /// The part of it above the least.
    pub way_in_excess_ns: f64,
    /// From leaving this layer to leaving the one above; 0 at the top.
    pub way_out_ns: f64,
    /// The part of it above the least.
    pub way_out_excess_ns: f64,
    /// Inside this layer, for I/Os that went no deeper.
    pub service_ns: f64,
    /// The part of it above the least.
    pub service_excess_ns: f64,
}

/// A layer's population over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LayerSamples {
    /// The layer's name.
    pub layer: &'static str,
    /// Mean number in flight in each step.
    pub values: Samples,
}

/// One sending end of a TCP connection over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ConnectionSamples {
    /// Which host sends to which.
    pub name: String,
    /// The congestion window in segments. Where there are more samples than steps, the least and the
    /// greatest of two steps stand in them, in their order; a value holds until the next.
    pub cwnd_packets: Samples,
    /// The slow-start threshold, in the same way; `None` while none is set. Empty for all but the
    /// busiest ends.
    pub ssthresh_packets: Samples,
    /// Segments sent and not acknowledged, in the same way; empty for all but the busiest ends.
    pub in_flight_packets: Samples,
    /// When its window was cut, in order.
    pub cuts: Vec<CutMark>,
    /// Cuts that are too many to be shown.
    pub cuts_left_out: usize,
    /// Segments sent again while it was recorded.
    pub retransmits: u64,
}

/// A cut of a congestion window.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CutMark {
    /// When it was seen, in seconds since measuring began.
    pub at_s: f64,
    /// `cwr`, `recovery` or `loss`.
    pub why: &'static str,
}

/// One direction of a path over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathSamples {
    /// The path and direction.
    pub name: String,
    /// Most bytes seen waiting for the link in each step.
    pub queue_bytes: Samples,
    /// Share of each step for which the link was sending, 0 to 1.
    pub utilisation: Samples,
    /// Packets that the queue dropped while it was recorded.
    pub queue_drops: u64,
    /// Packets that the loss element took while it was recorded.
    pub loss_drops: u64,
}
