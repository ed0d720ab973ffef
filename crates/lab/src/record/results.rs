//! results.json: the numbers of each cell, and what they say.
//!
//! What earlier versions of wansan did not write yet reads as missing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wansan_insight::cwnd::CwndUse;
use wansan_insight::finding::Finding;
use wansan_insight::gain::Gain;
use wansan_trace::Layer;

use crate::plan::{Cell, Paper, Plan, Verdict};
use crate::vpn::RouterUsage;

use super::{PathChange, PathResult};

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
    /// The cells in the order in which they ran.
    pub cells: Vec<CellResult>,
    /// What holds the system back, in the planned phase; null when the run did not get that far.
    pub finding: Option<Finding>,
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
    /// Why it failed, if it did; what follows is empty then.
    pub failure: Option<String>,
    /// From when on all initiators were measured, CLOCK_MONOTONIC.
    pub measured_from_ns: u64,
    /// Until when all of them were.
    pub measured_to_ns: u64,
    /// What each initiator's `wansan bench` says, with its host.
    pub initiators: Vec<Value>,
    /// I/Os per second of all initiators together.
    pub iops: f64,
    /// Bytes of data per second of all initiators together.
    pub bytes_per_s: f64,
    /// Half of all I/Os took at most this long.
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
            cells: Vec::new(),
            finding: None,
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
            measured_from_ns: 0,
            measured_to_ns: 0,
            initiators: Vec::new(),
            iops: 0.0,
            bytes_per_s: 0.0,
            latency_p50_ns: None,
            latency_p99_ns: None,
            packet_gap_mean_ns: None,
            packet_gap_p50_ns: None,
            packet_gap_p90_ns: None,
            vpn_cpu_s_per_gib: None,
            routers: Vec::new(),
            path_dropped: None,
            path_marked: None,
            path_queue_high_water_bytes: None,
            paths: Vec::new(),
            timeline: Vec::new(),
            in_flight: BTreeMap::new(),
            cwnd: None,
            finding: None,
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

    /// Sums up what the initiators say; `reports` are the objects that `wansan bench --json`
    /// prints, each with its host.
    pub fn add_reports(&mut self, reports: Vec<Value>) {
        let number = |report: &Value, name: &str| report.get(name).and_then(Value::as_f64);
        let sum = |name: &str| {
            reports
                .iter()
                .filter_map(|report| number(report, name))
                .sum()
        };
        self.iops = sum("iops");
        self.bytes_per_s = sum("bytes_per_s");
        let moment = |name: &'static str| {
            reports
                .iter()
                .filter_map(move |report| report.get(name).and_then(Value::as_u64))
        };
        self.measured_from_ns = moment("measured_from_ns").max().unwrap_or(0);
        self.measured_to_ns = moment("measured_to_ns").min().unwrap_or(0);
        self.initiators = reports;
    }
}
