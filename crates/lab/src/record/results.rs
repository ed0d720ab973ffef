//! results.json: the numbers of each cell, and what they say.
//!
//! What earlier versions of wansan did not write yet reads as missing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wansan_insight::below::BelowSocket;
use wansan_insight::cwnd::CwndUse;
use wansan_insight::finding::Finding;
use wansan_insight::gain::Gain;
use wansan_insight::stall::StallUse;
use wansan_stream::jain;
use wansan_trace::Layer;

use crate::netem::NetemResult;
use crate::plan::{Cell, Paper, Plan, Verdict};
use crate::vpn::RouterUsage;

use super::{PathChange, PathResult, RelayResult, StreamResult};

/// The content of results.json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The plan's name.
    pub plan: String,
    /// The plan's title.
    pub title: String,
    /// Whether it was run in its quick form.
    #[serde(default)]
    pub quick: bool,
    /// The axes of the sweep in the order of the plan, first the one that varies slowest.
    #[serde(default)]
    pub axes: Vec<String>,
    /// The cells in the order in which they ran.
    pub cells: Vec<CellResult>,
    /// What holds the system back, in the planned phase; null when the run did not get that far, or had
    /// no I/Os.
    pub finding: Option<Finding>,
    /// Whether a run without I/Os got as far as its expectations; false of any other.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_judged_without_ios: bool,
    /// What the advised change brought; null when there was none.
    pub advised: Option<Advised>,
    /// How the plan's expectations turned out.
    pub expectations: Vec<Verdict>,
    /// How many of them the quick form has no cells for.
    #[serde(default)]
    pub expectations_unchecked: usize,
    /// The numbers of the paper that the plan rebuilds, beside ours; null when it rebuilds none.
    pub paper: Option<Paper>,
}

/// The numbers of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// Its number, from 0.
    pub cell: usize,
    /// `planned` or `advised`.
    pub phase: String,
    /// Which repetition of the sweep, from 0.
    pub repeat: u32,
    /// The value that each axis of the sweep had; see [`Advised`] for what the advice has set.
    pub parameters: Map<String, Value>,
    /// Why it failed, if it did; what follows is empty or null then, but for what is known of its paths.
    pub failure: Option<String>,
    /// From when on all initiators were measured, CLOCK_MONOTONIC; null when it failed, as all that has
    /// to be measured.
    pub measured_from_ns: Option<u64>,
    /// Until when all of them were.
    pub measured_to_ns: Option<u64>,
    /// What each initiator's `wansan bench` says, with its host.
    pub initiators: Vec<Value>,
    /// What each stream measured, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub streams: BTreeMap<String, StreamResult>,
    /// What each relay did, by its name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub relays: BTreeMap<String, RelayResult>,
    /// Jain's index of fairness of the connections of all streams; null without streams.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fairness: Option<f64>,
    /// I/Os per second of all initiators together.
    pub iops: Option<f64>,
    /// Bytes of data per second of all initiators together; without any, of all streams.
    pub bytes_per_s: Option<f64>,
    /// Half of all I/Os took at most this long; without initiators, half of the marks of the stream whose
    /// marks took longest.
    pub latency_p50_ns: Option<u64>,
    /// All I/Os but one in a hundred took at most this long.
    pub latency_p99_ns: Option<u64>,
    /// The mean gap between data packets of a burst from the target; see
    /// [`wansan_insight::packet_gap`]. Null when no packets were recorded.
    pub packet_gap_mean_ns: Option<f64>,
    /// Half of these gaps are at most this long.
    pub packet_gap_p50_ns: Option<u64>,
    /// Nine in ten of these gaps are.
    pub packet_gap_p90_ns: Option<u64>,
    /// Processor time that the busiest router's VPN took for each 2^30 bytes through its tunnels;
    /// null without a VPN.
    #[serde(default)]
    pub vpn_cpu_s_per_gib: Option<f64>,
    /// What the tunnels of each router carried and cost meanwhile.
    #[serde(default)]
    pub routers: Vec<RouterUsage>,
    /// What carried the packets over its paths: `user` or `netem`; none in runs from before there was
    /// a choice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub emulator: Option<String>,
    /// What netem says of each direction of each path, when it carried them; `paths` is empty then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub netem: Vec<NetemResult>,
    /// Programs on hosts and routers that other work on the computer kept from the processors: the
    /// cell is slower than it would be on a quiet one.
    #[serde(default)]
    pub starved_programs: Vec<String>,
    /// Packets that the paths dropped, in all directions together; null when it failed.
    #[serde(default)]
    pub path_dropped: Option<u64>,
    /// Packets that they marked with CE.
    #[serde(default)]
    pub path_marked: Option<u64>,
    /// The most bytes that ever waited in one queue of theirs.
    #[serde(default)]
    pub path_queue_high_water_bytes: Option<u64>,
    /// What each direction of each emulated path did.
    #[serde(default)]
    pub paths: Vec<PathResult>,
    /// What was changed of them meanwhile, in the order in which it was asked for.
    #[serde(default)]
    pub timeline: Vec<PathChange>,
    /// Mean number of I/Os in flight at each recorded layer, of all initiators together.
    pub in_flight: BTreeMap<String, f64>,
    /// What the congestion windows of the end that sends the data did; null when TCP was not
    /// recorded.
    pub cwnd: Option<CwndUse>,
    /// Where its I/Os stood still and why; null when packets or PDUs were not recorded.
    #[serde(default)]
    pub stalls: Option<StallUse>,
    /// Where the latency goes below the socket; null when the kernel's stamps or PDUs were not recorded.
    #[serde(default)]
    pub below_socket: Option<BelowSocket>,
    /// What holds this cell back, judged by itself; null when it failed.
    pub finding: Option<CellFinding>,
}

/// What holds one cell back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CellFinding {
    /// What binds, by its name.
    pub limit: String,
    /// The first layer that holds fewer than the one above, if one does.
    pub layer: Option<String>,
    /// The layer above.
    pub above: Option<String>,
    /// The share of the latency spent waiting for it, 0 to 1.
    pub waiting_share: f64,
    /// All that as a storage engineer would say it.
    pub sentence: String,
}

impl From<Finding> for CellFinding {
    fn from(finding: Finding) -> Self {
        let name = |layer: Layer| layer.name().to_owned();
        CellFinding {
            limit: finding.limit.name().to_owned(),
            layer: finding.layer.map(name),
            above: finding.above.map(name),
            waiting_share: finding.waiting_share,
            sentence: finding.sentence,
        }
    }
}

/// The advised change.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Advised {
    /// The parameter that was changed.
    pub parameter: String,
    /// What it was in the planned phase, if the plan has a value for it.
    pub planned_value: Option<Value>,
    /// What it was changed to.
    pub value: Value,
    /// What that brought.
    #[serde(flatten)]
    pub gain: MeasuredGain,
}

/// The gain of the advised change, foretold and measured. The single numbers are those of the
/// point of the sweep where most was foretold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredGain {
    /// The cell before the change.
    pub planned_cell: u64,
    /// The cell after it.
    pub advised_cell: u64,
    /// I/Os per second before the change.
    pub planned_iops: f64,
    /// I/Os per second that were foretold.
    pub predicted_iops: f64,
    /// I/Os per second after it.
    pub measured_iops: f64,
    /// `predicted_iops` ÷ `planned_iops` − 1.
    pub predicted_gain: f64,
    /// `measured_iops` ÷ `planned_iops` − 1.
    pub measured_gain: f64,
    /// `measured_iops` ÷ `predicted_iops`: 1 where the prediction is right. Absent where none was predicted.
    pub measured_of_predicted: Option<f64>,
    /// Every point of the sweep.
    pub gains: Vec<Gain>,
}

impl Results {
    /// Results without a cell.
    #[must_use]
    pub fn begin(plan: &Plan) -> Results {
        Results {
            plan: plan.name(),
            title: plan.document().title.clone(),
            quick: plan.quick_unchecked().is_some(),
            axes: plan
                .sweep()
                .iter()
                .map(|axis| axis.name().name().to_owned())
                .collect(),
            cells: Vec::new(),
            finding: None,
            is_judged_without_ios: false,
            advised: None,
            expectations: Vec::new(),
            expectations_unchecked: plan.quick_unchecked().unwrap_or(0),
            paper: None,
        }
    }
}

impl CellResult {
    /// The result of a cell that has not been measured.
    #[must_use]
    pub fn begin(number: usize, cell: &Cell) -> CellResult {
        let parameters = cell.parameters.iter().map(|(parameter, value)| {
            let value = serde_json::to_value(value).expect("a plan is plain data");
            (parameter.name().to_owned(), value)
        });
        CellResult {
            cell: number,
            phase: cell.phase.name().to_owned(),
            repeat: cell.repeat,
            parameters: parameters.collect(),
            failure: None,
            measured_from_ns: None,
            measured_to_ns: None,
            initiators: Vec::new(),
            streams: BTreeMap::new(),
            relays: BTreeMap::new(),
            fairness: None,
            iops: None,
            bytes_per_s: None,
            latency_p50_ns: None,
            latency_p99_ns: None,
            packet_gap_mean_ns: None,
            packet_gap_p50_ns: None,
            packet_gap_p90_ns: None,
            vpn_cpu_s_per_gib: None,
            routers: Vec::new(),
            emulator: Some(cell.document.world.emulator.name().to_owned()),
            netem: Vec::new(),
            starved_programs: Vec::new(),
            path_dropped: None,
            path_marked: None,
            path_queue_high_water_bytes: None,
            paths: Vec::new(),
            timeline: Vec::new(),
            in_flight: BTreeMap::new(),
            cwnd: None,
            stalls: None,
            below_socket: None,
            finding: None,
        }
    }

    /// It with what another result knows of the paths, and of that alone.
    #[must_use]
    pub fn with_paths_of(self, known: CellResult) -> CellResult {
        CellResult {
            path_dropped: known.path_dropped,
            path_marked: known.path_marked,
            path_queue_high_water_bytes: known.path_queue_high_water_bytes,
            paths: known.paths,
            netem: known.netem,
            timeline: known.timeline,
            ..self
        }
    }

    /// Takes in what the tunnels of each router carried and cost.
    pub fn add_routers(&mut self, routers: Vec<RouterUsage>) {
        let costs = routers.iter().filter_map(|router| router.cpu_s_per_gib);
        self.vpn_cpu_s_per_gib = costs.reduce(f64::max);
        self.routers = routers;
    }

    /// Takes in what each direction of each path did.
    pub fn add_paths(&mut self, paths: Vec<PathResult>) {
        self.path_dropped = Some(paths.iter().map(|path| path.dropped_packets).sum());
        self.path_marked = Some(paths.iter().map(|path| path.marked_packets).sum());
        let high_water = paths.iter().map(|path| path.queue_high_water_bytes);
        self.path_queue_high_water_bytes = Some(high_water.max().unwrap_or(0));
        self.paths = paths;
    }

    /// Takes in what netem says of each direction of each path. It counts no marks, and does not tell
    /// what waits from what travels.
    pub fn add_netem(&mut self, paths: Vec<NetemResult>) {
        self.path_dropped = Some(paths.iter().map(|path| path.dropped_packets).sum());
        self.netem = paths;
    }

    /// Sums up what the initiators say; `reports` are the objects that `wansan bench --json`
    /// prints, each with its host.
    pub fn add_reports(&mut self, reports: Vec<Value>) {
        let number = |report: &Value, name: &str| report.get(name).and_then(Value::as_f64);
        let sum = |name: &str| {
            let numbers = reports.iter().filter_map(|report| number(report, name));
            // A sum of nothing is −0 otherwise.
            Some(numbers.fold(0.0, |sum, each| sum + each))
        };
        self.iops = sum("iops");
        self.bytes_per_s = sum("bytes_per_s");
        let moment = |name: &'static str| {
            reports
                .iter()
                .filter_map(move |report| report.get(name).and_then(Value::as_u64))
        };
        self.measured_from_ns = moment("measured_from_ns").max();
        self.measured_to_ns = moment("measured_to_ns").min();
        self.initiators = reports;
    }

    /// Takes in what the streams measured, after the initiators' reports. Where there are no initiators,
    /// the cell's own numbers are those of the streams.
    pub fn add_streams(&mut self, streams: BTreeMap<String, StreamResult>) {
        if streams.is_empty() {
            return;
        }
        let rates: Vec<f64> = streams.values().flat_map(StreamResult::rates).collect();
        self.fairness = Some(jain(&rates));
        if self.initiators.is_empty() {
            self.bytes_per_s = Some(rates.iter().sum());
            let most = |of: fn(&StreamResult) -> Option<u64>| streams.values().filter_map(of).max();
            self.latency_p50_ns = most(|stream| stream.latency_p50_ns);
            self.latency_p99_ns = most(|stream| stream.latency_p99_ns);
            let from = streams.values().map(|stream| stream.measured_from_ns);
            self.measured_from_ns = from.max();
            let to = streams.values().map(|stream| stream.measured_to_ns);
            self.measured_to_ns = to.min();
        }
        self.streams = streams;
    }

    /// The time in which all initiators were measured, in nanoseconds of CLOCK_MONOTONIC, if it was.
    #[must_use]
    pub fn measured_ns(&self) -> Option<[u64; 2]> {
        Some([self.measured_from_ns?, self.measured_to_ns?])
    }

    /// The host of the initiator that was done first and that of the one that began last, when there
    /// was no time at which all were measured.
    #[must_use]
    pub fn apart(&self) -> Option<(String, String)> {
        if self.measured_from_ns < self.measured_to_ns {
            return None;
        }
        let host = |name: &str, moment: Option<u64>| {
            let mut reports = self.initiators.iter();
            let of = reports.find(|report| report[name].as_u64() == moment);
            let of_stream = || {
                let mut streams = self.streams.values();
                let is_it = |stream: &&StreamResult| match name {
                    "measured_to_ns" => Some(stream.measured_to_ns) == moment,
                    _ => Some(stream.measured_from_ns) == moment,
                };
                Some(streams.find(is_it)?.host.clone())
            };
            match of {
                Some(report) => Some(report["host"].as_str()?.to_owned()),
                None => of_stream(),
            }
        };
        Some((
            host("measured_to_ns", self.measured_to_ns)?,
            host("measured_from_ns", self.measured_from_ns)?,
        ))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn result(reports: [(u64, u64); 3]) -> CellResult {
        let plan = "title = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
            [[path]]\nbetween = [\"a\", \"b\"]\n[target]\nhost = \"a\"\nluns = [\"memory:1MiB\"]\n\
            [[initiator]]\nhost = \"b\"\n[workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"1s\"\n";
        let plan = Plan::parse("t.toml".as_ref(), plan).unwrap();
        let cells = plan.cells(crate::plan::Phase::Planned, &[]).unwrap();
        let mut result = CellResult::begin(0, &cells[0]);
        let reports = reports.into_iter().enumerate().map(|(place, (from, to))| {
            json!({ "host": format!("h{place}"), "measured_from_ns": from, "measured_to_ns": to })
        });
        result.add_reports(reports.collect());
        result
    }

    #[test]
    fn loads_that_do_not_overlap_are_named() {
        assert_eq!(result([(10, 30), (15, 35), (20, 40)]).apart(), None);
        let apart = result([(10, 20), (15, 35), (20, 40)]).apart();
        assert_eq!(apart, Some(("h0".to_owned(), "h2".to_owned())));
    }
}
