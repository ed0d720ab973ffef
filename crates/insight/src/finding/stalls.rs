//! TCP stalls that no window, buffer or rate of the other limits explains: waits of individual
//! I/Os, independent of their number.

use super::limits::{Verdict, View};
use super::{Limit, Observed};
use crate::cause::Cause;
use crate::summary::CellSummary;

/// The causes that belong to no other limit, the most costly first, and what each cost an I/O in ns.
fn causes(summary: &CellSummary) -> Vec<(Cause, f64)> {
    let of_limit = Cause::ALL
        .into_iter()
        .filter(|cause| cause.limit() == Limit::Stalls);
    let costs = of_limit.map(|cause| (cause, summary.waits.mean_ns(cause)));
    let mut costs: Vec<(Cause, f64)> = costs.filter(|(_, ns)| *ns > 0.0).collect();
    costs.sort_by(|one, other| other.1.total_cmp(&one.1));
    costs
}

pub(super) fn judge(view: &View<'_>) -> Option<Verdict> {
    let summary = view.summary;
    let counted = summary.stalls.iter().flat_map(|stalls| &stalls.causes);
    let ios = |cause: Cause| {
        let mut of_cause = counted.clone().filter(|used| used.cause == cause.name());
        let used = of_cause.next();
        used.map_or_else(String::new, |used| {
            format!(" ({} of {} I/Os)", used.ios, summary.waits.ios)
        })
    };
    let evidence = causes(summary).into_iter().map(|(cause, cost_ns)| {
        format!(
            "{:.1} of the {:.1} ms of an I/O: {}{}",
            cost_ns / 1e6,
            view.latency_ns / 1e6,
            cause.in_words(),
            ios(cause),
        )
    });
    let in_flight = view.in_flight();
    Some(Verdict {
        limit: Limit::Stalls,
        layer: None,
        above: None,
        wanted: in_flight,
        got: in_flight,
        waiting_share: view.share(Limit::Stalls),
        evidence: evidence.collect(),
    })
}

/// The most costly of these causes, in words.
pub(super) fn in_words(summary: &CellSummary) -> &'static str {
    let costliest = causes(summary).into_iter().next();
    costliest.map_or("", |(cause, _)| cause.in_words())
}

/// The advice against the cause that costs most over all these cells.
pub(super) fn advice(binding: &[&Observed]) -> Option<&'static str> {
    let cost = |cause: Cause| -> f64 {
        let costs = binding
            .iter()
            .map(|observed| observed.summary.waits.mean_ns(cause));
        costs.sum()
    };
    let of_limit = Cause::ALL
        .into_iter()
        .filter(|cause| cause.limit() == Limit::Stalls);
    remedy(of_limit.max_by(|a, b| cost(*a).total_cmp(&cost(*b)))?)
}

/// What to change; `None` for causes that other rules judge.
fn remedy(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::Nagle | Cause::NagleAgainstDelayedAck => Some(
            "turn Nagle's algorithm off at the end that holds the segment (TCP_NODELAY; `--nagle off`), send \
             related PDUs together (`--join-sends on`), or send the status with the last data \
             (`--status in-data`)",
        ),
        Cause::DelayedAck => {
            Some("have the receiver acknowledge at once (TCP_QUICKACK; `--delayed-ack quick`)")
        }
        Cause::ExtraRoundTrips => Some(
            "start connections with a larger congestion window (`ip route change … initcwnd`), \
             use a congestion control designed for long paths (`--congestion-control`), or find the cause of \
             packet loss",
        ),
        Cause::SlowStartAfterIdle => Some(
            "keep windows open across idle periods (`sysctl net.ipv4.tcp_slow_start_after_idle=0`)",
        ),
        Cause::FastRetransmit | Cause::RetransmissionTimeout | Cause::TailLoss => Some(
            "find the cause of packet loss; with more I/Os in flight, losses are detected sooner",
        ),
        _ => None,
    }
}
