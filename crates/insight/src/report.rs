//! The report: the data of a run's `report.html`, and how it is embedded in the page.
//!
//! While a cell's records are in memory, [`CellCharts::of`] extracts the data of its charts.
//! After the run, [`data`] joins the charts with the run's manifest and results,
//! and [`html`] embeds all of it in the page that `web/` builds.
//!
//! The page knows only [`ReportData`], whose types in `web/src/report/data.ts` are generated from the tables
//! here. Missing records are `None` or an empty list: the page says so instead of
//! drawing nothing.

mod assemble;
mod changes;
mod charts;
mod detail;
mod ios;
mod network;
mod packets;
mod page;
mod problems;
mod sessions;
mod time_axis;
#[cfg(test)]
mod typescript;

use std::collections::BTreeMap;

use wansan_schema::{
    Advised, Finding, Manifest, Paper, Parameters, StallUse, Verdict, WaitUse, tables,
};

pub use crate::packet_gap::PacketGaps;
pub use assemble::{RunRecord, data};
pub use changes::ChangeMark;
pub use detail::Detail;
pub use ios::{ShownIo, ShownWait};
pub use packets::{Boundary, PacketDiagram, PacketFlow, PacketKind, StallPackets};
pub use page::{PageError, html};
pub use time_axis::{Samples, TimeAxis};

tables! {
    /// All that the page shows.
    ReportData {
        /// The plan's name.
        plan: String,
        /// The plan's title.
        title: String,
        /// When it began, CLOCK_REALTIME since 1970.
        started_ns: Option<u64>,
        /// With which wansan it ran, and on what.
        facts: Vec<Fact>,
        /// What failed, is missing or must be read with care, a sentence each.
        problems: Vec<String>,
        /// What holds the system back.
        finding: Option<Finding>,
        /// What the advised change brought.
        advised: Option<Advised>,
        /// How the plan's expectations turned out.
        expectations: Vec<Verdict>,
        /// Numbers that the rebuilt paper gives, beside ours.
        paper: Option<Paper>,
        /// Whose throughput and latency a cell's own numbers are: of `initiators`, or of `streams` where there are
        /// no initiators.
        load: String,
        /// The cells in the order in which they ran.
        cells: Vec<CellReport>,
        /// The manifest as it is.
        manifest: Manifest,
    }

    /// A fact of the page's heading.
    Fact {
        /// Its name.
        label: String,
        /// Its value.
        text: String,
    }

    /// One cell of the sweep. A cell that failed has no numbers.
    CellReport with charts: CellCharts {
        /// Its number.
        cell: u64,
        /// `planned` or `advised`.
        phase: String,
        /// Which repetition of the sweep, from 0.
        repeat: u64,
        /// What the sweep has set, by dotted name.
        parameters: Parameters,
        /// Why it failed, if it did.
        failure: Option<String>,
        /// All its numbers, by their dotted names in the cell's results.
        measures: BTreeMap<String, f64>,
        /// What was changed of its paths while it ran, in order.
        changes: Vec<ChangeMark>,
        /// Changes that are too many to be shown.
        changes_left_out: usize,
        /// What its I/Os waited for.
        waits: Option<WaitUse>,
        /// Where they stood still and why.
        stalls: Option<StallUse>,
    }

    /// What the records of one cell show.
    CellCharts {
        /// How many sessions the layers' numbers are the sum of.
        sessions: usize,
        /// The recorded layers, top to bottom.
        layers: Vec<LayerReport>,
        /// Records lost because a recorder was full, by kind; kinds that lost none are left out.
        dropped: BTreeMap<String, u64>,
        /// Crossings that are missing of I/Os whose beginning and end were recorded.
        missing_crossings: u64,
        /// Layers where Little's law does not hold between the numbers shown.
        little_disagrees: Vec<String>,
        /// The time axis of all samples below.
        time: Option<TimeAxis>,
        /// I/Os in flight at each recorded layer, of all sessions together.
        in_flight: Vec<LayerSamples>,
        /// The time axis of the connections' samples.
        tcp_time: Option<TimeAxis>,
        /// The connections' sending ends, busiest first.
        connections: Vec<ConnectionSamples>,
        /// Sending ends that carried too little to be shown, or are too many.
        connections_left_out: usize,
        /// The paths' directions.
        paths: Vec<PathSamples>,
        /// The packets of the first I/Os that were measured.
        packets: Option<PacketDiagram>,
        /// How far apart data packets left the target.
        packet_gaps: Option<PacketGaps>,
        /// The packets of the costliest stall of each cause.
        stall_packets: Vec<StallPackets>,
    }

    /// How many I/Os one layer held, of all sessions together.
    LayerReport {
        /// The layer's name.
        layer: String,
        /// Mean number of I/Os in it.
        in_flight_mean: f64,
        /// Most I/Os in it at once; unknown from a sample of them.
        in_flight_max: Option<u64>,
    }

    /// A layer's population over time.
    LayerSamples {
        /// The layer's name.
        layer: String,
        /// Mean number in flight in each step.
        values: Samples,
    }

    /// One sending end of a TCP connection over time.
    ConnectionSamples {
        /// Which host sends to which.
        name: String,
        /// The congestion window in segments. Where there are more samples than steps, the least and the
        /// greatest of two steps are in them, in their order; a value holds until the next.
        cwnd_packets: Samples,
        /// The slow-start threshold, in the same way; `None` while none is set. Empty for all but the
        /// busiest ends.
        ssthresh_packets: Samples,
        /// Segments sent and not acknowledged, in the same way; empty for all but the busiest ends.
        in_flight_packets: Samples,
        /// When its window was cut, in order.
        cuts: Vec<CutMark>,
        /// Cuts that are too many to be shown.
        cuts_left_out: usize,
        /// Segments retransmitted while it was recorded.
        retransmits: u64,
    }

    /// A cut of a congestion window.
    CutMark {
        /// When it was seen, in seconds since measuring began.
        at_s: f64,
        /// `cwr`, `recovery` or `loss`.
        why: String,
    }

    /// One direction of a path over time.
    PathSamples {
        /// The path and direction.
        name: String,
        /// Most bytes seen waiting for the link in each step.
        queue_bytes: Samples,
        /// Share of each step for which the link was sending, 0 to 1.
        utilisation: Samples,
        /// Packets that the queue dropped while it was recorded.
        queue_drops: u64,
        /// Packets that the loss element took while it was recorded.
        loss_drops: u64,
    }
}
