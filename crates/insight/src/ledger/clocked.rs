//! What stopped the senders of connections, derived from packets alone, without records of either end.
//!
//! Unsent data waits for the receive window if that has no room for another segment.
//! Otherwise it waits for acknowledgements, which arrive at the rate at which the path delivers data. If they arrive
//! without a pause, and round trips are longer than the path's delay because segments queue, the path's slowest link is
//! always busy: the data waits for that link. If they arrive in bursts with pauses, the link is idle between them, and
//! without a queue nothing waits for it: the amount in flight is the limit, by the congestion window, or by a send
//! buffer, which packets cannot distinguish.

use std::collections::VecDeque;

use super::link::{Acked, Busy, Queue, RoundTrip};
use super::senders::{Sender, Step};
use crate::cause::Cause;
use crate::stall::{Announced, Conversation, Segment};
use crate::traffic::FlowDirection;
use crate::window::Window;

/// Of the round trips within this time, the shortest is kept.
const MEASURED_NS: u64 = 10_000_000;

/// The limits of a connection's two senders as packets show them; `round_trip_ns` is its round trip without a queue.
pub(super) fn senders(
    conversation: &Conversation,
    round_trip_ns: u64,
    window: Window,
) -> [(FlowDirection, Sender); 2] {
    let mut replays = FlowDirection::ALL.map(|way| Replay::new(conversation, way));
    for replay in &mut replays {
        replay.bridge(round_trip_ns);
    }
    let queue = Queue {
        least_ns: round_trip_ns,
        samples: replays.each_ref().map(|replay| &replay.round_trips[..]),
    };
    replays
        .each_ref()
        .map(|replay| (replay.way, replay.sender(&queue, window)))
}

fn push(steps: &mut Vec<Step>, (from_ns, to_ns, cause): Step) {
    match steps.last_mut() {
        Some(last) if last.1 == from_ns && last.2 == cause => last.1 = to_ns,
        _ if from_ns < to_ns => steps.push((from_ns, to_ns, cause)),
        _ => {}
    }
}

/// What a sender with more to send waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    ReceiveWindow,
    Acknowledgements,
}

/// One direction of a connection, as its sender sees it.
struct Replay {
    way: FlowDirection,
    mss: u64,
    acked: Vec<Acked>,
    states: Vec<(u64, u64, State)>,
    /// Measured from each segment's first transmission; of those within [`MEASURED_NS`], the shortest. A retransmission, or
    /// an earlier loss that holds back the acknowledgement, lengthens a sample and never shortens it.
    round_trips: Vec<RoundTrip>,
}

/// The segments that an end sends in this direction and those that arrive at it, with their times, in order of time.
fn passing(
    conversation: &Conversation,
    way: FlowDirection,
) -> impl Iterator<Item = (u64, &Segment)> {
    let of_way = move |is_own: bool| {
        let segments = conversation.segments.iter();
        segments.filter(move |segment| (segment.way == way) == is_own)
    };
    let mut sent = { of_way(true).map(|segment| (segment.sent_ns, segment)) }.peekable();
    let heard = || of_way(false).filter_map(|segment| Some((segment.arrived_ns?, segment)));
    let is_in_order = heard().is_sorted_by_key(|(at_ns, _)| at_ns);
    let mut reordered = Vec::new();
    if !is_in_order {
        // The path has reordered them.
        reordered.extend(heard());
        reordered.sort_by_key(|(at_ns, _)| *at_ns);
    }
    let in_order = is_in_order.then(heard).into_iter().flatten();
    let mut heard = in_order.chain(reordered).peekable();
    // At equal times, arrivals come first: they trigger what is sent.
    std::iter::from_fn(move || {
        let next_ns = sent.peek().map_or(u64::MAX, |(at_ns, _)| *at_ns);
        heard
            .next_if(|(at_ns, _)| *at_ns <= next_ns)
            .or_else(|| sent.next())
    })
}

impl Replay {
    fn new(conversation: &Conversation, way: FlowDirection) -> Replay {
        let mut replay = Replay {
            way,
            mss: conversation.mss_bytes(way).max(1),
            acked: Vec::new(),
            states: Vec::new(),
            round_trips: Vec::new(),
        };
        replay.run(passing(conversation, way));
        replay
    }

    fn run<'s>(&mut self, segments: impl Iterator<Item = (u64, &'s Segment)>) {
        let (mut next, mut una) = (0, 0);
        // The ends of segments in flight, and when they were first sent.
        let mut timed: VecDeque<(u64, u64)> = VecDeque::new();
        let mut edge = None;
        let mut before: Option<(u64, State)> = None;
        for (at_ns, segment) in segments {
            if let Some((from_ns, state)) = before.filter(|(from_ns, _)| *from_ns < at_ns) {
                match self.states.last_mut() {
                    Some(last) if last.1 == from_ns && last.2 == state => last.1 = at_ns,
                    _ => self.states.push((from_ns, at_ns, state)),
                }
            }
            if segment.way == self.way {
                if segment.end() > next {
                    next = segment.end();
                    timed.push_back((next, at_ns));
                }
            } else if segment.acked >= una {
                if segment.acked > una {
                    self.acked.push(Acked {
                        at_ns,
                        place: segment.acked,
                        // Some of the data sent may not have been captured.
                        in_flight: u64::saturating_sub(next, una),
                    });
                }
                let mut newest = None;
                while timed.front().is_some_and(|(end, _)| *end <= segment.acked) {
                    newest = timed.pop_front();
                }
                if let Some((_, sent_ns)) = newest {
                    self.measure(at_ns, at_ns.saturating_sub(sent_ns));
                }
                una = segment.acked;
                edge = match segment.window {
                    Announced::Exactly(bytes) => Some(segment.acked + bytes),
                    Announced::AtLeast(_) => None,
                };
            }
            let is_closed = edge.is_some_and(|edge: u64| edge.saturating_sub(next) < self.mss);
            before = match (next > una, is_closed) {
                (true, true) => Some((at_ns, State::ReceiveWindow)),
                (true, false) => Some((at_ns, State::Acknowledgements)),
                // With nothing in flight, the sender waits for its program.
                (false, _) => None,
            };
        }
    }

    /// Takes a measured round trip.
    fn measure(&mut self, at_ns: u64, took_ns: u64) {
        match self.round_trips.last_mut() {
            Some(last) if at_ns.saturating_sub(last.at_ns) < MEASURED_NS => {
                last.took_ns = last.took_ns.min(took_ns);
            }
            _ => self.round_trips.push(RoundTrip { at_ns, took_ns }),
        }
    }

    /// What limited the sender.
    fn sender(&self, queue: &Queue<'_>, window: Window) -> Sender {
        let inside = self
            .acked
            .iter()
            .filter(|acked| window.contains(acked.at_ns));
        let places = inside.map(|acked| acked.place);
        let (least, most) = places.fold((u64::MAX, 0), |(least, most), acked| {
            (acked.min(least), acked.max(most))
        });
        let busy = Busy::of(&self.acked, self.mss, queue);
        let mut steps: Vec<Step> = Vec::new();
        let mut long_queues: Vec<Step> = Vec::new();
        for (from_ns, to_ns, state) in &self.states {
            match state {
                State::ReceiveWindow => push(&mut steps, (*from_ns, *to_ns, Cause::ReceiveWindow)),
                State::Acknowledgements => {
                    for (step, has_long_queue) in busy.causes(*from_ns, *to_ns) {
                        push(&mut steps, step);
                        if has_long_queue {
                            push(&mut long_queues, step);
                        }
                    }
                }
            }
        }
        Sender::by_packets(steps, long_queues, most.saturating_sub(least))
    }

    /// Counts an interval between two intervals with a closed window as window-limited too, if it is no longer than a
    /// round trip: a sender fills room as soon as it learns of it. A capture at the receiver's end derives that moment
    /// from the minimum delay, which is too early by as much as the acknowledgement was late.
    fn bridge(&mut self, round_trip_ns: u64) {
        for place in 1..self.states.len().saturating_sub(1) {
            let [before, here, behind] = [place - 1, place, place + 1].map(|at| self.states[at]);
            let is_closed = |state: State| state == State::ReceiveWindow;
            let is_joined = before.1 == here.0 && here.1 == behind.0;
            let is_short = here.1 - here.0 <= round_trip_ns;
            if is_closed(before.2) && is_closed(behind.2) && is_joined && is_short {
                self.states[place].2 = State::ReceiveWindow;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wansan_trace::{ConnectionId, SessionId};

    use super::*;
    use crate::stall::Times;

    const MS: u64 = 1_000_000;
    const SEGMENT_BYTES: u64 = 1000;

    /// A target that sends a segment every 10 ms over a path of 50 ms each way, of which every one is acknowledged, and
    /// an initiator that sends a short one every 100 ms. From the second second on, the queue delays the data.
    fn evenly_sent(queued_ns: u64) -> Conversation {
        let segment = |way, sent_ns, queued_ns, place, payload_bytes, acked| Segment {
            packet: 0,
            sent_ns,
            arrived_ns: Some(sent_ns + 50 * MS + queued_ns),
            way,
            place,
            payload_bytes,
            acked,
            window: Announced::Exactly(1 << 20),
            is_seen: true,
        };
        let data = (0..300_u64).map(|n| {
            let sent_ns = n * 10 * MS;
            let queued_ns = if n < 100 { 0 } else { queued_ns };
            let asked = 50 * ((sent_ns + 50 * MS) / (100 * MS));
            let place = n * SEGMENT_BYTES;
            let way = FlowDirection::ToInitiator;
            segment(way, sent_ns, queued_ns, place, SEGMENT_BYTES, asked)
        });
        let data: Vec<Segment> = data.collect();
        let acks = data.iter().map(|data| {
            let sent_ns = data.arrived_ns.unwrap_or(0);
            let asked = 50 * sent_ns.div_ceil(100 * MS);
            segment(FlowDirection::ToTarget, sent_ns, 0, asked, 0, data.end())
        });
        let requests = (0..30_u64).map(|n| {
            let sent_ns = n * 100 * MS;
            let arrived = |data: &&Segment| data.arrived_ns <= Some(sent_ns);
            let acked = data.iter().filter(arrived).map(Segment::end).max();
            let acked = acked.unwrap_or(0);
            segment(FlowDirection::ToTarget, sent_ns, 0, 50 * n, 50, acked)
        });
        let mut segments: Vec<Segment> = data.iter().copied().chain(acks).chain(requests).collect();
        segments.sort_by_key(|segment| segment.sent_ns);
        Conversation {
            session: SessionId(1),
            connection: ConnectionId(0),
            segments,
            requests: Vec::new(),
            answers: Vec::new(),
            windows: Vec::new(),
            request_mss_bytes: SEGMENT_BYTES,
            answer_mss_bytes: SEGMENT_BYTES,
            times: Times::Seen,
        }
    }

    #[test]
    fn acknowledgements_without_a_pause_show_a_full_link_only_where_segments_queue() {
        let later = Window {
            from_ns: 1500 * MS,
            to_ns: 2500 * MS,
        };
        let causes = |queued_ns| {
            let [_, (way, target)] = senders(&evenly_sent(queued_ns), 100 * MS, later);
            assert_eq!(way, FlowDirection::ToInitiator);
            let causes = target.causes(later.from_ns, later.to_ns);
            causes.map(|(_, _, cause)| cause).collect::<Vec<_>>()
        };
        assert_eq!(causes(0), [Cause::CongestionWindow]);
        assert_eq!(causes(5 * MS), [Cause::CongestionWindow]);
        assert_eq!(causes(25 * MS), [Cause::PathQueue]);
    }

    #[test]
    fn room_that_is_filled_within_a_round_trip_was_none() {
        use State::{Acknowledgements, ReceiveWindow};
        const ROUND_TRIP_NS: u64 = 20;
        let states = |all: [(u64, u64, State); 6]| {
            let mut replay = Replay {
                way: FlowDirection::ToInitiator,
                mss: 1448,
                acked: Vec::new(),
                states: all.to_vec(),
                round_trips: Vec::new(),
            };
            replay.bridge(ROUND_TRIP_NS);
            replay.states.into_iter().map(|state| state.2).collect()
        };
        let seen: Vec<State> = states([
            (0, 10, Acknowledgements),
            (10, 15, ReceiveWindow),
            (15, 35, Acknowledgements),
            (35, 40, ReceiveWindow),
            // The program had nothing to send before.
            (45, 50, Acknowledgements),
            (50, 55, ReceiveWindow),
        ]);
        let expected = [
            Acknowledgements,
            ReceiveWindow,
            ReceiveWindow,
            ReceiveWindow,
            Acknowledgements,
            ReceiveWindow,
        ];
        assert_eq!(seen, expected);
        let seen: Vec<State> = states([
            (0, 10, ReceiveWindow),
            // Limited by the congestion window for a while.
            (10, 31, Acknowledgements),
            (31, 40, ReceiveWindow),
            (40, 50, Acknowledgements),
            (50, 60, ReceiveWindow),
            (60, 61, Acknowledgements),
        ]);
        let expected = [
            ReceiveWindow,
            Acknowledgements,
            ReceiveWindow,
            ReceiveWindow,
            ReceiveWindow,
            Acknowledgements,
        ];
        assert_eq!(seen, expected);
    }
}
