//! Explains a run's records.

use std::path::Path;

use wansan_insight::backlog::{backlog_use, ece_signals};
use wansan_insight::cwnd::cwnd_use;
use wansan_insight::finding::{Finding, Observed, Prediction};
use wansan_insight::gain;
use wansan_insight::report::{CellCharts, Detail};
use wansan_insight::transport::transport_use;
use wansan_insight::window::Window;
use wansan_insight::{Analysis, Cell as Records, ReadError};
use wansan_schema::{Advised, CellResult};
use wansan_trace::event::Tcp;
use wansan_trace::file;

use crate::plan::Cell;
use crate::record::{add_relay_records, recorded_as};

/// A cell's explanation, and its charts.
pub(super) type Explained = (Observed, CellCharts);

/// Adds to a cell's result what only its records show, and draws its charts at the resolution `detail`. Its labels are
/// those of the sweep only, so that cells of both phases can be compared.
pub(super) fn cell(
    records: &Records,
    folder: &Path,
    result: &mut CellResult,
    detail: Detail,
) -> Result<Explained, ReadError> {
    let [from_ns, to_ns] = result.measured_ns().unwrap_or_default();
    let window = Window { from_ns, to_ns };
    records.check_measured(folder, window)?;
    let analysis = Analysis::of(records, Some(window));
    let summary = analysis.summary();
    let latency = summary.total.latency;
    result.latency_p50_ns = Some(latency.p50_ns);
    result.latency_p99_ns = Some(latency.p99_ns);
    let gaps = summary.packet_gaps.as_ref();
    result.packet_gap_mean_ns = gaps.map(|gaps| gaps.mean_ns);
    result.packet_gap_p50_ns = gaps.map(|gaps| gaps.p50_ns);
    result.packet_gap_p90_ns = gaps.map(|gaps| gaps.p90_ns);
    let starved = summary.programs.iter().filter(|used| used.is_starved());
    result.starved_programs = starved.map(|used| used.program.clone()).collect();
    result.waits = (summary.waits.ios > 0).then(|| summary.waits.result());
    result.stalls.clone_from(&summary.stalls);
    result.below_socket.clone_from(&summary.below_socket);
    result.in_flight = summary
        .in_flight()
        .into_iter()
        .map(|(layer, mean)| (layer.to_owned(), mean))
        .collect();
    let tcp = records.tcp.as_ref();
    result.cwnd = tcp.and_then(|table| cwnd_use(table, &summary.transport, window));
    let charts = CellCharts::of(&analysis, &summary, detail);
    let observed = Observed {
        cell: result.cell,
        parameters: result.parameters.clone(),
        summary,
    };
    let alone = wansan_insight::finding::explain(std::slice::from_ref(&observed));
    result.finding = Some(alone.into());
    Ok((observed, charts))
}

/// Adds to a cell's result what TCP's records show of its relays and, without I/Os, of its streams.
pub(super) fn flows(
    folder: &Path,
    records: Option<&Records>,
    cell: &Cell,
    result: &mut CellResult,
) -> Result<(), ReadError> {
    let has_ios = !cell.scenario.initiators.is_empty();
    if result.relays.is_empty() && has_ios {
        return Ok(());
    }
    let read = match records {
        Some(_) => None,
        None => file::read_folder::<Tcp>(folder)?,
    };
    let Some(table) = records.map_or(read.as_ref(), |records| records.tcp.as_ref()) else {
        return Ok(());
    };
    let [from_ns, to_ns] = result.measured_ns().unwrap_or_default();
    let window = Window { from_ns, to_ns };
    if !has_ios {
        result.cwnd = cwnd_use(table, &transport_use(table, window), window);
    }
    for relay in &cell.scenario.relays {
        let host = recorded_as(&relay.host, &relay.table.name);
        if let (Some(backlog), Some(of_relay)) = (
            backlog_use(table, &host, window),
            result.relays.get_mut(&relay.table.name),
        ) {
            add_relay_records(of_relay, &backlog, ece_signals(table, &host, window));
        }
    }
    Ok(())
}

/// The limiting factor of the planned sweep.
pub(super) fn finding(planned: &[Observed]) -> Finding {
    wansan_insight::finding::explain(planned)
}

/// The gain of the advised over the planned sweep, beside the prediction. The representative point is the one with the
/// largest predicted gain.
pub(super) fn advised(
    predicted: &[Prediction],
    planned: &[Observed],
    advised: &[Observed],
) -> Option<Advised> {
    let gains = gain::compare(predicted, planned, advised);
    let greatest = gains
        .iter()
        .max_by(|a, b| a.predicted_gain.total_cmp(&b.predicted_gain))?
        .clone();
    let place = |cells: &[Observed]| {
        let same = |cell: &&Observed| cell.parameters == greatest.parameters;
        cells.iter().find(same).map(|observed| observed.cell)
    };
    Some(Advised {
        planned_cell: place(planned)?,
        advised_cell: place(advised)?,
        planned_iops: greatest.planned_iops,
        predicted_iops: greatest.predicted_iops,
        measured_iops: greatest.advised_iops,
        predicted_gain: greatest.predicted_gain,
        measured_gain: greatest.measured_gain,
        measured_of_predicted: (greatest.predicted_iops > 0.0)
            .then(|| greatest.advised_iops / greatest.predicted_iops),
        gains,
        ..Advised::default()
    })
}
