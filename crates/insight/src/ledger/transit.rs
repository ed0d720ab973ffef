//! The minimum latency of the path, and the waits beyond it.

use foldhash::HashMap;

use wansan_trace::event::PduDirection;
use wansan_trace::{ConnectionId, Layer, Sample, SessionId, TaskTag};

use super::bytes::LinksNs;
use super::paths::Paths;
use super::round_trips::RoundTrips;
use super::senders::SenderKey;
use super::timeline::Timeline;
use crate::cause::Cause;
use crate::cell::Cell;
use crate::join::Task;
use crate::opcode::R2T;
use crate::stall::Conversation;
use crate::traffic::FlowDirection;

/// The most that hosts add to a path's delay.
const HOSTS_NS: u64 = 500_000;

/// The minimum transit time per connection and direction, over I/Os with the same deepest recorded layer, measured anew
/// after each change of a path's delay.
#[derive(Debug, Default)]
pub(super) struct Transits {
    changes_ns: Vec<u64>,
    /// The minimum transit time of a segment, of connections whose paths are otherwise unknown: a sender that always
    /// has more than it may send delays every I/O.
    segments_ns: HashMap<SenderKey, u64>,
    /// R2Ts of each I/O as sent by its target, and as received by its initiator.
    r2ts: HashMap<(SessionId, TaskTag), [u32; 2]>,
    least: HashMap<(SessionId, ConnectionId, FlowDirection, Option<Layer>, usize), Least>,
    /// Which of the I/Os were recorded.
    sample: Sample,
}

/// In a sample of the I/Os, the minimum is that of all of them or more. With 95 % confidence, it is more by at most this
/// many times the distance to the next one (Robson and Whitlock, Estimation of a truncation point, Biometrika 51, 1964:
/// (1 − α) ÷ α).
const UNSEEN_GAPS: u64 = 19;

/// The two shortest transit times.
#[derive(Debug, Clone, Copy)]
struct Least {
    ns: u64,
    next_ns: u64,
}

impl Least {
    const NONE: Least = Least {
        ns: u64::MAX,
        next_ns: u64::MAX,
    };

    fn see(&mut self, took_ns: u64) {
        if took_ns < self.ns {
            self.next_ns = std::mem::replace(&mut self.ns, took_ns);
        } else {
            self.next_ns = took_ns.min(self.next_ns);
        }
    }

    /// By how much the minimum of all I/Os may be lower than that of a sample.
    fn unseen_ns(&self) -> u64 {
        (self.next_ns - self.ns).saturating_mul(UNSEEN_GAPS)
    }
}

/// The last recorded layer of an I/O.
fn deepest(task: &Task) -> Option<Layer> {
    Layer::ALL
        .into_iter()
        .rev()
        .find(|layer| task.passed(*layer))
}

impl Transits {
    pub(super) fn new(
        cell: &Cell,
        changes_ns: Vec<u64>,
        conversations: &[Conversation],
        round_trips: &RoundTrips,
    ) -> Transits {
        let mut r2ts: HashMap<(SessionId, TaskTag), [u32; 2]> = HashMap::default();
        let pdus = cell.pdu.as_ref().filter(|pdus| pdus.has(R2T));
        let rows = pdus.map_or(&[][..], |table| &table.rows);
        for pdu in rows.iter().map(|row| &row.record) {
            if pdu.opcode == R2T {
                let received = usize::from(pdu.direction == PduDirection::Received);
                r2ts.entry((pdu.session, pdu.task)).or_default()[received] += 1;
            }
        }
        let unknown = conversations.iter().filter(|_| cell.path.is_none());
        let segments = unknown.flat_map(|conversation| {
            let least_ns = round_trips.transits_ns(conversation);
            FlowDirection::ALL.map(|way| {
                let key = (conversation.session, conversation.connection, way);
                (key, least_ns[way as usize])
            })
        });
        Transits {
            changes_ns,
            segments_ns: segments.collect(),
            r2ts,
            least: HashMap::default(),
            sample: cell.joined.sample,
        }
    }

    /// The number of delay changes before the I/O; `None` if it was in flight during one.
    fn epoch(&self, timeline: &Timeline) -> Option<usize> {
        let before = |ns| {
            self.changes_ns
                .partition_point(|change_ns| *change_ns <= ns)
        };
        let (from_ns, to_ns) = timeline.span_ns();
        (before(from_ns) == before(to_ns)).then(|| before(to_ns))
    }

    /// Updates the minima with an I/O; `links_ns` is how long its bytes take at the links' rate.
    pub(super) fn see(&mut self, task: &Task, timeline: &Timeline, links_ns: &LinksNs) {
        let Some(epoch) = self.epoch(timeline) else {
            return;
        };
        for way in FlowDirection::ALL {
            let link_ns = links_ns.of(way);
            // A stall delays bytes that cross the path too: without its time, they would seem to have crossed it in less.
            let took_ns = timeline.crossing_ns(way).saturating_sub(link_ns);
            let key = (task.session, task.connection, way, deepest(task), epoch);
            self.least.entry(key).or_insert(Least::NONE).see(took_ns);
        }
    }

    /// The time that the paths' delays account for in this direction: a write's data crosses them again after each R2T,
    /// and so do the R2Ts. A standing queue is part of the observed minimum, but not of this.
    fn delayed_ns(
        &self,
        task: &Task,
        way: FlowDirection,
        span_ns: (u64, u64),
        paths: &Paths,
    ) -> Option<u64> {
        let least_ns = |way| {
            let key = (task.session, task.connection, way);
            let seen_ns = self.segments_ns.get(&key).copied();
            paths.delay_ns(task, way, span_ns).or(seen_ns)
        };
        let delay_ns = least_ns(way)?;
        let delay_ns = delay_ns.saturating_add(HOSTS_NS);
        if way == FlowDirection::ToInitiator {
            return Some(delay_ns);
        }
        let r2ts = self.r2ts.get(&(task.session, task.tag));
        let r2ts = r2ts.map_or(0, |[sent, received]| u64::from(*sent.max(received)));
        let back_ns = least_ns(FlowDirection::ToInitiator);
        let back_ns = back_ns.map_or(delay_ns, |back_ns| back_ns.saturating_add(HOSTS_NS));
        let round_trips_ns = delay_ns.saturating_add(back_ns).saturating_mul(r2ts);
        Some(delay_ns.saturating_add(round_trips_ns))
    }

    /// Attributes the path's minimum latency to propagation, and the time of the I/O's own bytes at the links' rate to
    /// transmission. Senders and queues hold bytes before that, so these are the last of the unknown time.
    pub(super) fn settle(
        &self,
        task: &Task,
        timeline: &mut Timeline,
        links_ns: &LinksNs,
        paths: &Paths,
    ) {
        let epoch = self.epoch(timeline);
        let span_ns = timeline.span_ns();
        for way in FlowDirection::ALL {
            let key = |epoch| (task.session, task.connection, way, deepest(task), epoch);
            let least = epoch.and_then(|epoch| self.least.get(&key(epoch)));
            // An I/O in flight during a change has no observed minimum; only the configured delay limits it.
            let least = least.copied().unwrap_or(Least::NONE);
            let delayed_ns = self.delayed_ns(task, way, span_ns, paths);
            let least_ns = least.ns.min(delayed_ns.unwrap_or(u64::MAX));
            timeline.take_last(way, least_ns, Cause::Propagation);
            if self.sample != Sample::ALL {
                timeline.doubt(way, Cause::Propagation, least.unseen_ns());
            }
            let link_ns = links_ns.of(way);
            timeline.take_last(way, link_ns, Cause::Transmission);
        }
    }
}
