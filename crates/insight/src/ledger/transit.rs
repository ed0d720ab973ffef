//! What the path takes at least, and what I/Os waited for beyond that.

use foldhash::HashMap;

use wansan_trace::{ConnectionId, Layer, SessionId};

use super::timeline::Timeline;
use crate::cause::Cause;
use crate::join::Task;
use crate::traffic::FlowDirection;

const DIRECTIONS: [FlowDirection; 2] = [FlowDirection::ToTarget, FlowDirection::ToInitiator];

/// The least time of each connection and way, of I/Os of which equally much was recorded, seen anew after each change of a path's delay.
#[derive(Debug, Default)]
pub(super) struct Transits {
    changes_ns: Vec<u64>,
    least_ns: HashMap<(SessionId, ConnectionId, FlowDirection, Option<Layer>, usize), u64>,
}

/// The last layer of which anything was recorded of an I/O.
fn deepest(task: &Task) -> Option<Layer> {
    Layer::ALL
        .into_iter()
        .rev()
        .find(|layer| task.passed(*layer))
}

impl Transits {
    pub(super) fn new(changes_ns: Vec<u64>) -> Transits {
        Transits {
            changes_ns,
            least_ns: HashMap::default(),
        }
    }

    /// The number of changes before it; `None` for an I/O that was under way at one.
    fn epoch(&self, timeline: &Timeline) -> Option<usize> {
        let before = |ns| {
            self.changes_ns
                .partition_point(|change_ns| *change_ns <= ns)
        };
        let (from_ns, to_ns) = timeline.span_ns();
        (before(from_ns) == before(to_ns)).then(|| before(to_ns))
    }

    /// Takes an I/O into account whose bytes take so long at the links' rate.
    pub(super) fn see(
        &mut self,
        task: &Task,
        timeline: &Timeline,
        links_ns: &HashMap<FlowDirection, u64>,
    ) {
        let Some(epoch) = self.epoch(timeline) else {
            return;
        };
        for way in DIRECTIONS {
            let link_ns = links_ns.get(&way).copied().unwrap_or(0);
            let took_ns = timeline.unknown_ns(way).saturating_sub(link_ns);
            let key = (task.session, task.connection, way, deepest(task), epoch);
            let least_ns = self.least_ns.entry(key).or_insert(u64::MAX);
            *least_ns = took_ns.min(*least_ns);
        }
    }

    /// Gives the path the least that it takes, and the link what the I/O's own bytes take. Senders and
    /// queues keep bytes before that, so it is the last of what is unknown.
    pub(super) fn settle(
        &self,
        task: &Task,
        timeline: &mut Timeline,
        links_ns: &HashMap<FlowDirection, u64>,
    ) {
        let epoch = self.epoch(timeline);
        for way in DIRECTIONS {
            let key = |epoch| (task.session, task.connection, way, deepest(task), epoch);
            let least_ns = epoch.and_then(|epoch| self.least_ns.get(&key(epoch)));
            // Of an I/O that was under way at a change nobody knows what it waited for.
            let least_ns = least_ns.copied().unwrap_or(u64::MAX);
            timeline.take_last(way, least_ns, Cause::Propagation);
            let link_ns = links_ns.get(&way).copied().unwrap_or(0);
            timeline.take_last(way, link_ns, Cause::Transmission);
        }
    }
}
