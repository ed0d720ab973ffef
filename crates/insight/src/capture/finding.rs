//! The main finding of a capture, in a sentence.

use wansan_trace::Layer;

use super::UNKNOWN_CAUSE;
use crate::cause::Limit;
use crate::stall::Cause;
use crate::summary::CellSummary;

/// A command window closed for at least this share of the time is the bottleneck.
const CLOSED_SHARE: f64 = 0.5;

/// Limits for which bytes wait in the sender's TCP although they are ready to be sent.
const IN_TCP: [Limit; 4] = [
    Limit::PathRate,
    Limit::ReceiveWindow,
    Limit::SendBuffer,
    Limit::CongestionWindow,
];

/// States what costs the I/Os most, as far as packets show.
#[must_use]
pub fn finding(summary: &CellSummary) -> String {
    let total = &summary.total;
    if total.ios == 0 {
        return "No I/O began and ended in the capture; were both directions captured, for long enough?".to_owned();
    }
    let latency_ns = total.latency.mean_ns;
    let mean_ms = latency_ns / 1e6;
    let stalls = summary.stalls.as_ref();
    let named = stalls.and_then(|stalls| {
        let most = stalls
            .causes
            .iter()
            .find(|cause| cause.cause == stalls.cause)?;
        Some((Cause::by_name(&most.cause)?, most.cost_ns))
    });
    if let Some((cause, cost_ns)) = named {
        return format!(
            "I/Os stall: {}, which costs {:.2} ms of the {mean_ms:.2} ms that an I/O takes.",
            cause.in_words(),
            cost_ns / 1e6,
        );
    }
    let windows = summary
        .sessions
        .iter()
        .filter_map(|session| session.command_window);
    let fullest = windows
        .filter_map(|window| Some((window, window.closed_share?)))
        .max_by(|one, other| one.1.total_cmp(&other.1));
    if let Some((window, closed_share)) = fullest.filter(|(_, share)| *share >= CLOSED_SHARE) {
        return format!(
            "The command window is full: MaxCmdSN let at most {} commands be outstanding, and the \
             newest CmdSN stood at it {:.0} % of the time; whether more commands waited, the \
             initiator alone knows.",
            window.slots,
            closed_share * 100.0,
        );
    }
    let longest = Cause::ALL.into_iter().max_by(|one, other| {
        summary
            .waits
            .mean_ns(*one)
            .total_cmp(&summary.waits.mean_ns(*other))
    });
    if let Some(cause) = longest.filter(|cause| IN_TCP.contains(&cause.limit())) {
        return format!(
            "I/Os wait in TCP: {}, which takes {:.2} ms of the {mean_ms:.2} ms that an I/O takes.",
            cause.in_words(),
            summary.waits.mean_ns(cause) / 1e6,
        );
    }
    let at_target_ns = total
        .layer(Layer::Target)
        .map_or(0.0, |held| held.service_ns);
    if stalls.is_some_and(|stalls| stalls.cause == UNKNOWN_CAUSE) {
        return format!(
            "Stalls in TCP are unknown, as the capture seems filtered: an I/O takes {mean_ms:.2} ms, of which \
             it is at the target for {:.2} ms and on its way for the rest.",
            at_target_ns / 1e6,
        );
    }
    format!(
        "Nothing stalls: an I/O takes {mean_ms:.2} ms, of which it is at the target for {:.2} ms and \
         on its way for the rest.",
        at_target_ns / 1e6,
    )
}
