//! Contents of results.json.

use std::collections::BTreeMap;

use wansan_schema::{
    BenchReport, CellResult, NetemResult, PathResult, Results, RouterUsage, StreamResult,
};
use wansan_workload::stream::jain;

use crate::plan::{Cell, Plan, WorldKind, json};

/// Results without a cell.
#[must_use]
pub fn results(plan: &Plan) -> Results {
    let axes = plan.sweep().iter();
    Results {
        plan: plan.name(),
        title: plan.document().title.clone(),
        quick: plan.quick_unchecked().is_some(),
        axes: axes.map(|axis| axis.name().name().to_owned()).collect(),
        expectations_unchecked: plan.quick_unchecked().unwrap_or(0) as u64,
        ..Results::default()
    }
}

/// The result of a cell that is not measured yet.
#[must_use]
pub fn cell_result(number: u64, cell: &Cell) -> CellResult {
    let parameters = cell.parameters.iter();
    let parameters = parameters.map(|(name, value)| (name.name().to_owned(), json(value)));
    CellResult {
        cell: number,
        phase: cell.phase.name().to_owned(),
        repeat: u64::from(cell.repeat),
        parameters: parameters.collect(),
        emulator: Some(match cell.document.world.kind {
            WorldKind::Netns => cell.document.world.emulator.name().to_owned(),
            other => other.name().to_owned(),
        }),
        ..CellResult::default()
    }
}

/// Adds the traffic and cost of each router's tunnels.
pub(crate) fn add_routers(cell: &mut CellResult, routers: Vec<RouterUsage>) {
    let costs = routers.iter().filter_map(|router| router.cpu_s_per_gib);
    cell.vpn_cpu_s_per_gib = costs.reduce(f64::max);
    cell.routers = routers;
}

/// Adds the statistics of each direction of each path.
pub(crate) fn add_paths(cell: &mut CellResult, paths: Vec<PathResult>) {
    cell.path_dropped = Some(paths.iter().map(|path| path.dropped_packets).sum());
    cell.path_marked = Some(paths.iter().map(|path| path.marked_packets).sum());
    let high_water = paths.iter().map(|path| path.queue_high_water_bytes);
    cell.path_queue_high_water_bytes = Some(high_water.max().unwrap_or(0));
    cell.paths = paths;
}

/// Adds netem's counters of each direction of each path. It does not count marks, and does not separate the queue from
/// packets in transit.
pub(crate) fn add_netem(cell: &mut CellResult, paths: Vec<NetemResult>) {
    cell.path_dropped = Some(paths.iter().map(|path| path.dropped_packets).sum());
    cell.netem = paths;
}

/// Sums up the initiators' reports.
pub(crate) fn add_reports(cell: &mut CellResult, reports: Vec<BenchReport>) {
    let sum = |number: fn(&BenchReport) -> f64| {
        // An empty sum would be −0 otherwise.
        Some(reports.iter().fold(0.0, |sum, report| sum + number(report)))
    };
    cell.iops = sum(|report| report.iops);
    cell.bytes_per_s = sum(|report| report.bytes_per_s);
    cell.measured_from_ns = reports.iter().map(|report| report.measured_from_ns).max();
    cell.measured_to_ns = reports.iter().map(|report| report.measured_to_ns).min();
    cell.initiators = reports;
}

/// Adds the streams' results, after the initiators' reports. Without initiators, the cell's own numbers are those of
/// the streams.
pub(crate) fn add_streams(cell: &mut CellResult, streams: BTreeMap<String, StreamResult>) {
    if streams.is_empty() {
        return;
    }
    let rates: Option<Vec<f64>> = streams.values().flat_map(rates).collect();
    cell.fairness = rates.as_deref().map(jain);
    if cell.initiators.is_empty() {
        cell.bytes_per_s = rates.map(|rates| rates.iter().sum());
        let most = |of: fn(&StreamResult) -> Option<u64>| streams.values().filter_map(of).max();
        cell.latency_p50_ns = most(|stream| stream.latency_p50_ns);
        cell.latency_p99_ns = most(|stream| stream.latency_p99_ns);
        let from = streams.values().map(|stream| stream.measured_from_ns);
        cell.measured_from_ns = from.max();
        let to = streams.values().map(|stream| stream.measured_to_ns);
        cell.measured_to_ns = to.min();
    }
    cell.streams = streams;
}

/// The hosts of the initiator that ended first and of the one that began last, if there was no time at which all were
/// measured.
#[must_use]
pub(crate) fn apart(cell: &CellResult) -> Option<(String, String)> {
    if cell.measured_from_ns < cell.measured_to_ns {
        return None;
    }
    let initiators = || cell.initiators.iter();
    let ends = initiators().map(|report| (report.measured_to_ns, &report.host));
    let begins = initiators().map(|report| (report.measured_from_ns, &report.host));
    let streams = || cell.streams.values();
    let stream_ends = streams().map(|stream| (stream.measured_to_ns, &stream.host));
    let stream_begins = streams().map(|stream| (stream.measured_from_ns, &stream.host));
    let first = ends
        .chain(stream_ends)
        .find(|(ns, _)| Some(*ns) == cell.measured_to_ns)?;
    let mut begins = begins.chain(stream_begins);
    let last = begins.find(|(ns, _)| Some(*ns) == cell.measured_from_ns)?;
    Some((first.1.clone(), last.1.clone()))
}

/// The throughput of each connection of a stream, where known.
fn rates(stream: &StreamResult) -> impl Iterator<Item = Option<f64>> {
    stream.flows.iter().map(|flow| flow.bytes_per_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(reports: [(u64, u64); 3]) -> CellResult {
        let plan = "title = \"t\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
            [[path]]\nbetween = [\"a\", \"b\"]\n[target]\nhost = \"a\"\nluns = [\"memory:1MiB\"]\n\
            [[initiator]]\nhost = \"b\"\n[workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"1s\"\n";
        let plan = Plan::parse("t.toml".as_ref(), plan).unwrap();
        let cells = plan.cells(crate::plan::Phase::Planned, &[]).unwrap();
        let mut result = cell_result(0, &cells[0]);
        let reports = reports
            .into_iter()
            .enumerate()
            .map(|(place, (from, to))| BenchReport {
                host: format!("h{place}"),
                measured_from_ns: from,
                measured_to_ns: to,
                ..BenchReport::default()
            });
        add_reports(&mut result, reports.collect());
        result
    }

    #[test]
    fn loads_that_do_not_overlap_are_named() {
        assert_eq!(apart(&result([(10, 30), (15, 35), (20, 40)])), None);
        let apart = apart(&result([(10, 20), (15, 35), (20, 40)]));
        assert_eq!(apart, Some(("h0".to_owned(), "h2".to_owned())));
    }
}
