//! The summary of a cell's stalls.

use foldhash::{HashMap, HashSet};
use std::collections::BTreeMap;

use wansan_schema::{CauseUse, Example, ShownPacket, StallUse};
use wansan_trace::{SessionId, TaskTag};

use crate::cause::Cause;
use crate::cell::Cell;
use crate::stall::{Shown, Stall};
use crate::window::Window;

use super::WaitUse;

/// A cause that costs less than this fraction of the mean latency is not what makes I/Os slow.
const WORTH_NAMING: f64 = 0.05;

/// Used in place of a cause if none is worth naming.
pub const NO_CAUSE: &str = "none";

fn example(stall: &Stall) -> Example {
    let shown = |shown: &Shown| ShownPacket {
        role: shown.role.name().to_owned(),
        packet: shown.packet as u64,
        sent_ns: shown.sent_ns,
    };
    Example {
        session: stall.session.to_string(),
        task: stall.task.0,
        from_ns: stall.from_ns,
        to_ns: stall.to_ns,
        packets: stall.evidence.iter().map(shown).collect(),
    }
}

impl Cause {
    /// Whether a stall of this kind costs one more round trip.
    fn is_round_trip(self) -> bool {
        matches!(
            self,
            Cause::Nagle
                | Cause::NagleAgainstDelayedAck
                | Cause::ExtraRoundTrips
                | Cause::SlowStartAfterIdle
                | Cause::ReceiveWindow
                | Cause::SendBuffer
                | Cause::R2tWait
        )
    }
}

/// What `stalls` cost the I/Os of `cell` that completed in `window`, according to the ledger's `waits`; `None` if no
/// I/O completed, or if packets or PDUs, which stalls are found from, were not recorded.
#[must_use]
pub fn stall_use(
    cell: &Cell,
    window: Window,
    stalls: &[Stall],
    waits: &WaitUse,
) -> Option<StallUse> {
    cell.packet.as_ref().and(cell.pdu.as_ref())?;
    let spans = spans(cell, window, stalls);
    let is_of_an_io = |stall: &&Stall| {
        let spans = spans
            .get(&(stall.session, stall.task))
            .map_or(&[][..], Vec::as_slice);
        // I/Os with the same tag do not overlap.
        let next = spans.partition_point(|(_, leave_ns)| *leave_ns <= stall.from_ns);
        spans
            .get(next)
            .is_some_and(|(enter_ns, _)| *enter_ns < stall.to_ns)
    };
    let stalls: Vec<&Stall> = stalls.iter().filter(is_of_an_io).collect();
    (waits.ios > 0).then(|| cost_of(&stalls, waits))
}

/// What `stalls` cost the I/Os summed in `waits`.
#[must_use]
pub fn cost_of(stalls: &[&Stall], waits: &WaitUse) -> StallUse {
    let (ios, latency_ns) = (waits.ios, waits.latency_ns);
    let mut by_cause: BTreeMap<Cause, Vec<&Stall>> = BTreeMap::new();
    for &stall in stalls {
        by_cause.entry(stall.cause).or_default().push(stall);
    }
    let of_cause = |(cause, stalls): (Cause, Vec<&Stall>)| {
        let tasks: HashSet<(SessionId, TaskTag)> = stalls
            .iter()
            .map(|stall| (stall.session, stall.task))
            .collect();
        let costliest = stalls.iter().max_by_key(|stall| stall.cost_ns())?;
        Some(CauseUse {
            cause: cause.name().to_owned(),
            stalls: stalls.len() as u64,
            ios: tasks.len() as u64,
            cost_ns: waits.shown_ns(cause),
            example: example(costliest),
        })
    };
    let mut causes: Vec<CauseUse> = by_cause.into_iter().filter_map(of_cause).collect();
    // What looked like a stall may be the queue of a full link.
    causes.retain(|cause| cause.cost_ns > 0.0);
    causes.sort_by(|one, other| other.cost_ns.total_cmp(&one.cost_ns));
    let worth = |most: &&CauseUse| most.cost_ns >= WORTH_NAMING * latency_ns;
    let named = causes.first().filter(worth);
    let trips = stalls.iter().filter(|stall| stall.cause.is_round_trip());
    StallUse {
        cause: named.map_or_else(|| NO_CAUSE.to_owned(), |most| most.cause.clone()),
        ios,
        cost_ns: causes.iter().fold(0.0, |sum, cause| sum + cause.cost_ns),
        round_trips: 1.0 + trips.count() as f64 / ios.max(1) as f64,
        causes,
    }
}

/// When the I/Os of `stalls` that completed in the window were in flight, by tag.
fn spans(
    cell: &Cell,
    window: Window,
    stalls: &[Stall],
) -> HashMap<(SessionId, TaskTag), Vec<(u64, u64)>> {
    let tags = stalls
        .iter()
        .map(|stall| ((stall.session, stall.task), Vec::new()));
    let mut spans: HashMap<_, Vec<(u64, u64)>> = tags.collect();
    let Some(top) = cell.joined.top() else {
        return spans;
    };
    for task in &cell.joined.tasks {
        let span = task
            .both_ns(top)
            .filter(|(_, leave_ns)| window.contains(*leave_ns));
        if let (Some(span), Some(of_tag)) = (span, spans.get_mut(&(task.session, task.tag))) {
            of_tag.push(span);
        }
    }
    spans
}
