//! Records of a chain, as one direction of a path.

use wansan_trace::event::{self, Verdict};
use wansan_trace::time::duration_ns;
use wansan_trace::{Instant, NameId, Recorder};

use crate::{Chain, Fate, Limit, Tally};

impl From<Fate> for Verdict {
    fn from(fate: Fate) -> Verdict {
        match fate {
            Fate::Delivered => Verdict::Delivered,
            Fate::DroppedByLoss => Verdict::DroppedByLoss,
            Fate::DroppedByOutage => Verdict::DroppedByOutage,
            Fate::DroppedByQueue | Fate::DroppedByDelayLine => Verdict::DroppedByQueue,
        }
    }
}

/// Samples a chain and its elements as records, under names of their own.
#[derive(Debug, Clone)]
pub struct Sampler {
    id: NameId,
    elements: Vec<ElementState>,
}

/// State of one element.
#[derive(Debug, Clone, Copy)]
struct ElementState {
    id: NameId,
    /// Whether it has had any effect.
    acts: bool,
}

impl Sampler {
    /// For a chain of that name, such as `wan:forward`; its elements' names have it as prefix.
    pub fn new<P>(name: &str, chain: &Chain<P>, recorder: &mut Recorder) -> Sampler {
        let id = recorder.name(name);
        let elements = chain.elements().map(|(element, _)| ElementState {
            id: recorder.name(&format!("{name}:{element}")),
            acts: false,
        });
        let elements = elements.collect();
        Sampler { id, elements }
    }

    /// The chain's name in the recorder.
    #[must_use]
    pub fn id(&self) -> NameId {
        self.id
    }

    /// Records the counters of the chain, and of its elements that have any effect. `lateness_ns`: delay between the
    /// chain's departure times and the actual ones since the last sample.
    pub fn sample<P>(
        &mut self,
        now: Instant,
        chain: &Chain<P>,
        lateness_ns: u64,
        recorder: &mut Recorder,
    ) {
        let counters = chain.counters(now);
        let limit = chain.queue_limit().unwrap_or(Limit::packets(0));
        let packets = |tally: Tally| u32::try_from(tally.packets).unwrap_or(u32::MAX);
        let direction = event::Path {
            time: now,
            path: self.id,
            queue_packets: packets(counters.queued),
            queue_bytes: counters.queued.bytes,
            in_packets: counters.entered.packets,
            in_bytes: counters.entered.bytes,
            out_packets: counters.delivered.packets,
            out_bytes: counters.delivered.bytes,
            queue_drops: counters.dropped_by_queue.packets + counters.dropped_by_delay_line.packets,
            loss_drops: counters.dropped_by_loss.packets + counters.dropped_by_outage.packets,
            marks: counters.marked.packets,
            busy_ns: counters.busy_ns,
            delay_ns: duration_ns(chain.delay()),
            lateness_ns,
            bits_per_s: chain.bits_per_s().unwrap_or(0),
            queue_limit_packets: limit.packets,
            queue_limit_bytes: limit.bytes,
        };
        recorder.path(direction);
        let elements = chain.element_counters(now).zip(&mut self.elements);
        for (counters, state) in elements {
            let passed_on = counters.left.packets == counters.entered.packets;
            state.acts |= !passed_on || counters.high_water.packets > 0;
            state.acts |= counters.marked.packets + counters.corrupted.packets > 0;
            if !state.acts {
                continue;
            }
            let is = |kind: &str| counters.name.starts_with(kind);
            let depth = if is("link") {
                counters.queued
            } else {
                counters.held
            };
            let dropped = counters.dropped.packets;
            recorder.path(event::Path {
                path: state.id,
                queue_packets: packets(depth),
                queue_bytes: depth.bytes,
                in_packets: counters.entered.packets,
                in_bytes: counters.entered.bytes,
                out_packets: counters.left.packets,
                out_bytes: counters.left.bytes,
                queue_drops: if is("loss") || is("outage") {
                    0
                } else {
                    dropped
                },
                loss_drops: if is("loss") || is("outage") {
                    dropped
                } else {
                    0
                },
                marks: counters.marked.packets,
                busy_ns: counters.busy_ns,
                delay_ns: if is("delay") { direction.delay_ns } else { 0 },
                lateness_ns: 0,
                bits_per_s: if is("link") { direction.bits_per_s } else { 0 },
                queue_limit_packets: if is("link") { limit.packets } else { 0 },
                queue_limit_bytes: if is("link") { limit.bytes } else { 0 },
                ..direction
            });
        }
    }
}
