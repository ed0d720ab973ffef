//! Advice against R2T round trips, and the time that it saves.

use std::collections::BTreeMap;

use wansan_trace::units::format_bytes;

use super::Advice;
use crate::r2t::R2tUse;
use crate::summary::CellSummary;

/// From this mean number of round trips, data is solicited in several rounds.
const SEVERAL_ROUNDS: f64 = 1.5;
/// More R2Ts per command than this are not advised: longer bursts need fewer.
const MOST_R2TS: u64 = 64;
/// The longest burst that can be negotiated (RFC 7143 §13.13, §13.14).
const MAX_BURST_BYTES: u64 = (1 << 24) - 1;

/// The wait for solicited data that the advice saves, in ns, as a mean over all I/Os of the cell: the rounds after the
/// first if there are several, otherwise the only one.
pub(super) fn saved_ns(summary: &CellSummary) -> f64 {
    per_io(summary, |used| {
        if used.rounds >= SEVERAL_ROUNDS {
            used.waited_ns * (used.rounds - 1.0) / used.rounds
        } else {
            used.waited_ns
        }
    })
}

fn per_io(summary: &CellSummary, value: impl Fn(&R2tUse) -> f64) -> f64 {
    let sum: f64 = summary
        .sessions
        .iter()
        .filter_map(|session| Some((session.scope.ios as f64, session.r2t?)))
        .map(|(ios, used)| ios * used.asked_share * value(&used))
        .sum();
    sum / summary.total.ios.max(1) as f64
}

/// The R2T use of the sessions with solicited data.
pub(super) fn uses(summary: &CellSummary) -> impl Iterator<Item = &R2tUse> {
    let sessions = summary.sessions.iter();
    sessions.filter_map(|session| session.r2t.as_ref())
}

/// Which of the keys is the limit, according to the records, and the value that lifts it.
pub(super) fn advice(uses: &[&R2tUse]) -> Option<Advice> {
    let most = |value: fn(&R2tUse) -> u64| uses.iter().map(|used| value(used)).max().unwrap_or(0);
    let rounds = uses.iter().map(|used| used.rounds).max_by(f64::total_cmp)?;
    let transfer_bytes = most(|used| used.transfer_bytes_max);
    let unasked_bytes = most(|used| used.immediate_bytes_max + used.unsolicited_bytes_max);
    let burst_bytes = transfer_bytes.next_multiple_of(512).min(MAX_BURST_BYTES);
    let burst = format_bytes(burst_bytes);
    let mut with = BTreeMap::new();
    let sequence_bytes = most(|used| used.sequence_bytes_max).max(1);
    let r2ts = transfer_bytes
        .saturating_sub(unasked_bytes)
        .div_ceil(sequence_bytes);
    let (text, parameter, value) = if rounds >= SEVERAL_ROUNDS && r2ts <= MOST_R2TS {
        (
            format!(
                "allow {r2ts} outstanding R2Ts per command (MaxOutstandingR2T, \
                 `--max-outstanding-r2t` of both ends), or let one R2T request {burst} (MaxBurstLength)"
            ),
            "session.max_outstanding_r2t",
            r2ts.to_string(),
        )
    } else if rounds >= SEVERAL_ROUNDS {
        (
            format!("let one R2T request {burst} (MaxBurstLength, `--max-burst` of both ends)"),
            "session.max_burst",
            burst,
        )
    } else if most(|used| used.unsolicited_bytes_max) == 0 {
        with.insert("session.first_burst".to_owned(), burst.clone());
        (
            format!(
                "allow unsolicited data (InitialR2T=No, `--initial-r2t no` of both \
                 ends) with a FirstBurstLength of at least {burst}"
            ),
            "session.initial_r2t",
            "false".to_owned(),
        )
    } else {
        (
            format!(
                "send all data unsolicited: raise FirstBurstLength (`--first-burst` \
                 of both ends) to {burst}, and MaxBurstLength to at least that"
            ),
            "session.first_burst",
            burst,
        )
    };
    Some(Advice {
        text,
        parameter: Some(parameter.to_owned()),
        value: Some(value),
        with,
    })
}
