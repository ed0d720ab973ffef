//! Results of streams and relays in a cell.

use wansan_insight::backlog::BacklogUse;
use wansan_schema::{RelayEnd, RelayResult, StreamReport, StreamResult};

use crate::plan::{Relay, Stream};

/// The result of a stream from its program's `report`.
#[must_use]
pub(crate) fn stream_result(stream: &Stream, report: StreamReport) -> StreamResult {
    let (latency, one_way) = (&report.latency_ns, &report.one_way_ns);
    let flows = || report.flows.iter();
    StreamResult {
        host: stream.host.clone(),
        through: stream.table.through.clone(),
        bytes_per_s: report.bytes_per_s,
        flow_bytes_per_s: report
            .bytes_per_s
            .map(|rate| rate / f64::from(stream.table.flows)),
        fairness: report.fairness,
        latency_min_ns: latency.as_ref().map(|latency| latency.min),
        latency_mean_ns: latency.as_ref().map(|latency| latency.mean),
        latency_p50_ns: latency.as_ref().map(|latency| latency.p50),
        latency_p99_ns: latency.as_ref().map(|latency| latency.p99),
        latency_max_ns: latency.as_ref().map(|latency| latency.max),
        one_way_mean_ns: one_way.as_ref().map(|latency| latency.mean),
        one_way_p50_ns: one_way.as_ref().map(|latency| latency.p50),
        one_way_p99_ns: one_way.as_ref().map(|latency| latency.p99),
        one_way_max_ns: one_way.as_ref().map(|latency| latency.max),
        retransmits: flows().map(|flow| flow.retransmits).sum(),
        slow_start_returns: flows().map(|flow| flow.slow_start_returns).sum(),
        measured_from_ns: report.measured_from_ns,
        measured_to_ns: report.measured_to_ns,
        flows: report.flows,
    }
}

/// The result of a relay that limited its backlog by `law`, from its final report `end`.
#[must_use]
pub(crate) fn relay_result(relay: &Relay, law: Option<&str>, end: RelayEnd) -> RelayResult {
    RelayResult {
        host: relay.host.clone(),
        finished: end.finished,
        lost: end.lost + end.cut_off,
        not_connected: end.refused + end.unreachable + end.timed_out + end.failed,
        onward_bytes: end.onward_bytes,
        back_bytes: end.back_bytes,
        law: law.map(str::to_owned),
        fallbacks: end.fallbacks,
        ..RelayResult::default()
    }
}

/// Adds a relay's records of the measurement: its backlog, and how often it signalled ECE.
pub(crate) fn add_relay_records(relay: &mut RelayResult, backlog: &BacklogUse, ece_signals: u64) {
    relay.backlog_mean_bytes = Some(backlog.mean_bytes);
    relay.backlog_p99_bytes = Some(backlog.p99_bytes);
    relay.backlog_max_bytes = Some(backlog.max_bytes);
    relay.backlog_mean_ns = Some(backlog.mean_ns);
    relay.backlog_p99_ns = Some(backlog.p99_ns as f64);
    relay.backlog_max_ns = Some(backlog.max_ns as f64);
    relay.ece_signals = Some(ece_signals);
}

/// The name in records of a relay or stream on a host. Neither name contains an underscore.
pub(crate) fn recorded_as(host: &str, name: &str) -> String {
    // Record names have at most 64 characters, plan names at most 32.
    let mut whole = format!("{host}_{name}");
    whole.truncate(64);
    whole
}
