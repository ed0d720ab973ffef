//! Stalls of TCP that no window, buffer or rate of the other rules explains: what each I/O waits for by
//! itself, however many there are.

use super::limits::{Verdict, View};
use super::{Limit, Observed};
use crate::stall::{Cause, CauseUse};
use crate::summary::CellSummary;

/// Stalls count from this share of the latency on.
const STALLED_SHARE: f64 = 0.2;

/// The causes that have no rule of their own, the most costly first, and what each cost.
fn causes(summary: &CellSummary) -> impl Iterator<Item = (Cause, &CauseUse)> {
    let causes = summary.stalls.iter().flat_map(|stalls| &stalls.causes);
    causes
        .filter_map(|used| Some((Cause::by_name(&used.cause)?, used)))
        .filter(|(cause, _)| remedy(*cause).is_some())
}

pub(super) fn judge(view: &View<'_>) -> Option<Verdict> {
    let summary = view.summary;
    let cost_ns: f64 = causes(summary).map(|(_, used)| used.cost_ns).sum();
    if cost_ns < STALLED_SHARE * view.latency_ns {
        return None;
    }
    let ios = summary.stalls.as_ref().map_or(0, |stalls| stalls.ios);
    let in_flight = view.in_flight();
    let evidence = causes(summary).map(|(cause, used)| {
        format!(
            "{:.1} of the {:.1} ms of an I/O: {} ({} of {ios} I/Os)",
            used.cost_ns / 1e6,
            view.latency_ns / 1e6,
            cause.in_words(),
            used.ios,
        )
    });
    Some(Verdict {
        limit: Limit::Stalls,
        layer: None,
        above: None,
        wanted: in_flight,
        got: in_flight,
        waiting_share: cost_ns / view.latency_ns,
        evidence: evidence.collect(),
    })
}

/// The most costly of them.
pub(super) fn in_words(summary: &CellSummary) -> &'static str {
    causes(summary)
        .next()
        .map_or("", |(cause, _)| cause.in_words())
}

/// Against what costs most in the cells, all together.
pub(super) fn advice(binding: &[&Observed]) -> Option<&'static str> {
    let all = || {
        binding
            .iter()
            .flat_map(|observed| causes(&observed.summary))
    };
    let cost = |wanted: Cause| -> f64 {
        all()
            .filter(|(cause, _)| *cause == wanted)
            .map(|(_, used)| used.cost_ns)
            .sum()
    };
    let costliest = Cause::ALL
        .into_iter()
        .max_by(|a, b| cost(*a).total_cmp(&cost(*b)))?;
    remedy(costliest)
}

/// What to change; none against what other rules of the finding judge.
fn remedy(cause: Cause) -> Option<&'static str> {
    match cause {
        Cause::Nagle | Cause::NagleAgainstDelayedAck => Some(
            "turn Nagle's algorithm off where the held segment is sent (TCP_NODELAY; `--nagle off`), have \
             what belongs together sent at once (`--join-sends on`), or the status with the last data \
             (`--status in-data`)",
        ),
        Cause::DelayedAck => {
            Some("have the receiver acknowledge at once (TCP_QUICKACK; `--delayed-ack quick`)")
        }
        Cause::ExtraRoundTrips => Some(
            "let connections begin with a larger congestion window (`ip route change … initcwnd`), \
             use a congestion control made for long paths (`--congestion-control`), or find what \
             loses packets",
        ),
        Cause::SlowStartAfterIdle => {
            Some("let windows outlast idle times (`sysctl net.ipv4.tcp_slow_start_after_idle=0`)")
        }
        Cause::FastRetransmit | Cause::RetransmissionTimeout | Cause::TailLoss => {
            Some("find what loses packets; more I/Os in flight let losses be found sooner")
        }
        Cause::ReceiveWindow
        | Cause::SendBuffer
        | Cause::R2tWait
        | Cause::CommandWindow
        | Cause::RouteLockstep => None,
    }
}
