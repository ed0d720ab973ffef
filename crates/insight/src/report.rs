//! The report: what a run's `report.html` is given, and how it is put into the page.
//!
//! While a cell's records are in memory, [`CellCharts::of`] draws from them what the page shows of
//! the cell. When the run is over, [`data`] joins the charts with the run's manifest and results,
//! and [`html`] places the whole in the page that `web/` builds.
//!
//! The page knows nothing but [`ReportData`], whose mirror is `web/src/report/data.ts`. Whatever a
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
use serde_json::{Map, Value};

pub use crate::packet_gap::PacketGaps;
pub use crate::stall::StallUse;
pub use assemble::{RunRecord, data};
pub use changes::ChangeMark;
pub use detail::Detail;
pub use packets::{Boundary, PacketDiagram, PacketFlow, PacketKind, StallMark, StallPackets};
pub use page::{PageError, html};
pub use time_axis::{Samples, TimeAxis};

/// All that the page shows.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReportData {
    /// The plan's name.
    pub plan: String,
    /// The plan's title.
    pub title: String,
    /// When it began, CLOCK_REALTIME since 1970.
    pub started_ns: Option<u64>,
    /// With which wansan it ran, and on what.
    pub facts: Vec<Fact>,
    /// What failed, is missing or must be read with care, a sentence each.
    pub problems: Vec<String>,
    /// What holds the system back.
    pub finding: Option<FindingText>,
    /// What the advised change brought.
    pub gain: Option<GainPoint>,
    /// What the plan expected.
    pub expectations: Vec<Expectation>,
    /// Numbers that the rebuilt paper gives, beside ours.
    pub paper: Option<PaperReport>,
    /// Whose throughput and latency a cell's own numbers are.
    pub load: Load,
    /// The cells in the order in which they ran.
    pub cells: Vec<CellReport>,
    /// The manifest as it is.
    pub manifest: Value,
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

/// A finding in the words that a reader is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FindingText {
    /// The limit's name.
    pub limit: String,
    /// What holds the system back, in a sentence.
    pub sentence: String,
    /// What it is told from.
    pub evidence: Vec<String>,
    /// The first layer that holds fewer than the one above it.
    pub layer: Option<String>,
    /// The layer above it.
    pub above: Option<String>,
    /// What to change.
    pub advice: Option<String>,
    /// The cell that it is told from.
    pub cell: Option<u64>,
}

/// The advised change, foretold and then measured, at the point of the sweep where most was
/// foretold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GainPoint {
    /// The parameter that was changed.
    pub parameter: String,
    /// Its advised value.
    pub value: String,
    /// The cell before the change.
    pub planned_cell: u64,
    /// The cell after it.
    pub advised_cell: u64,
    /// I/Os per second before the change.
    pub planned_iops: f64,
    /// I/Os per second that the finding foretold.
    pub predicted_iops: f64,
    /// I/Os per second after the change.
    pub measured_iops: f64,
}

/// What the plan expected of its results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Expectation {
    /// What was expected, in words.
    pub expected: String,
    /// What was found, in words.
    pub found: String,
    /// Whether that is so; `None` when it could not be judged.
    pub met: Option<bool>,
}

/// A paper and its numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PaperReport {
    /// Authors, title and year.
    pub title: String,
    /// Which of its figures or tables.
    pub figure: Option<String>,
    /// What it says without a number that could stand beside ours.
    pub remarks: Vec<String>,
    /// How the plan's experiment differs from the paper's.
    pub differs: Vec<String>,
    /// Its numbers.
    pub known: Vec<KnownReport>,
}

/// A number of a paper beside ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KnownReport {
    /// What it is, in words.
    pub about: String,
    /// The metric's dotted name.
    pub metric: String,
    /// The parameters of the cells that it is of.
    #[serde(rename = "where")]
    pub of: Map<String, Value>,
    /// Whether it is a ratio to the same metric of other cells.
    pub relative: bool,
    /// The paper's number.
    pub value: f64,
    /// Ours.
    pub ours: Option<f64>,
    /// Ours ÷ the paper's.
    pub ratio: Option<f64>,
}

/// A number of a cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measure {
    /// Its dotted name in the cell's results, with the unit at its end.
    pub metric: String,
    /// Its value.
    pub value: f64,
}

/// One cell of the sweep. A cell that failed has no numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellReport {
    /// Its number.
    pub cell: u64,
    /// `planned` or `advised`.
    pub phase: String,
    /// Which repetition of the sweep, from 0.
    pub repeat: u64,
    /// What the sweep has set, by dotted name.
    pub parameters: Map<String, Value>,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// I/Os per second of all initiators together.
    pub iops: Option<f64>,
    /// Bytes of data per second of all initiators together.
    pub bytes_per_s: Option<f64>,
    /// Half of the I/Os took at most this long.
    pub latency_p50_ns: Option<f64>,
    /// All I/Os but one in a hundred took at most this long.
    pub latency_p99_ns: Option<f64>,
    /// All its numbers but those per layer.
    pub measures: Vec<Measure>,
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
