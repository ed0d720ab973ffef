//! What stopped the senders of connections, derived from packets alone, without records of either end.
//!
//! Unsent data waits for the receive window if that has no room for another segment.
//! Otherwise it waits for acknowledgements, which arrive at the rate at which the path delivers data. If they arrive
//! without a pause, and round trips are longer than the path's delay because segments queue, the path's slowest link is
//! always busy: the data waits for that link. If they arrive in bursts with pauses, the link is idle between them, and
//! without a queue nothing waits for it: the amount in flight is the limit, by the congestion window, or by a send
//! buffer, which packets cannot distinguish.

use std::collections::{BTreeMap, VecDeque};

use super::senders::{Sender, Step};
use crate::cause::Cause;
use crate::stall::{Announced, Conversation, Segment};
use crate::traffic::FlowDirection;
use crate::window::Window;

/// Rates are measured over this many full segments, or over 1/`RATE_PARTS` of the bytes in flight if that is less: an
/// acknowledgement covers two segments, or as many as arrived together.
const RATE_SEGMENTS: u64 = 8;
const RATE_PARTS: u64 = 4;
/// A link that carries this share of its capacity is always busy, apart from the jitter of acknowledgements.
const BUSY: f64 = 0.9;
/// Utilization is computed over intervals of this many round trips, but at least of `LEAST_STRETCH_NS`.
const STRETCH_ROUND_TRIPS: u64 = 4;
const LEAST_STRETCH_NS: u64 = 100_000_000;
/// Of the round trips within this time, the shortest is kept.
const MEASURED_NS: u64 = 10_000_000;
/// With fewer round trips in an interval, those in the intervals before and after it are used too: a single one may include a
/// delayed acknowledgement.
const FEWEST_ROUND_TRIPS: usize = 3;
/// A link's rate is known if segments were queued in this share of the intervals without a pause, and an interval's rate is
/// the same within this share.
const LEAST_QUEUED: f64 = 0.25;
const SAME_RATE: f64 = 0.03;
/// A queue that lasts this share of the round trip without it is no jitter.
const LONG_QUEUE: f64 = 0.1;
/// With fewer acknowledgements per round trip, no pause can be detected.
const LEAST_ACKNOWLEDGEMENTS: f64 = 1.5;

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

/// An acknowledgement of new data.
#[derive(Debug, Clone, Copy)]
struct Acked {
    at_ns: u64,
    /// The acknowledged stream position.
    place: u64,
    /// Bytes in flight before it.
    in_flight: u64,
}

/// A measured round trip: when its acknowledgement arrived, and how long it took.
#[derive(Debug, Clone, Copy)]
struct RoundTrip {
    at_ns: u64,
    took_ns: u64,
}

/// The queue of a connection's path, as round trips show it.
struct Queue<'r> {
    /// The round trip without a queue.
    least_ns: u64,
    /// Round trips measured by each sender, in order of time. A capture between two links shows the queue of each to
    /// one sender only.
    samples: [&'r [RoundTrip]; 2],
}

impl Queue<'_> {
    /// How long segments were queued at least in an interval; `None` if a sender has measured no round trip near it.
    fn standing_ns(&self, from_ns: u64, length_ns: u64) -> Option<u64> {
        let queued_ns = self.samples.map(|samples| {
            let within = |from_ns: u64, to_ns: u64| {
                let first = samples.partition_point(|sample| sample.at_ns < from_ns);
                let behind = samples.partition_point(|sample| sample.at_ns < to_ns);
                &samples[first..behind.max(first)]
            };
            let to_ns = from_ns.saturating_add(length_ns);
            let mut near = within(from_ns, to_ns);
            if near.len() < FEWEST_ROUND_TRIPS {
                near = within(
                    from_ns.saturating_sub(length_ns),
                    to_ns.saturating_add(length_ns),
                );
            }
            let least_ns = near.iter().map(|sample| sample.took_ns).min()?;
            Some(least_ns.saturating_sub(self.least_ns))
        });
        let [one, other] = queued_ns;
        Some(one?.max(other?))
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
    /// The shortest of each [`MEASURED_NS`], from a segment's first transmission. That of one that was sent again, or
    /// acknowledged late as an earlier one was lost, is too long, never too short.
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

/// Whether the path's slowest link was always busy, by intervals.
struct Busy {
    from_ns: u64,
    stretch_ns: u64,
    /// The limit in each interval whose acknowledgements show one, and whether a long queue was measured, by interval number.
    stretches: BTreeMap<u64, (Cause, bool)>,
}

impl Busy {
    fn of(acked: &[Acked], mss: u64, queue: &Queue<'_>) -> Busy {
        let round_trip_ns = queue.least_ns;
        let stretch_ns = round_trip_ns
            .saturating_mul(STRETCH_ROUND_TRIPS)
            .max(LEAST_STRETCH_NS);
        let mut busy = Busy {
            from_ns: acked.first().map_or(0, |first| first.at_ns),
            stretch_ns,
            stretches: BTreeMap::new(),
        };
        let number = |at_ns: u64| at_ns.saturating_sub(busy.from_ns) / stretch_ns;
        let mut place = acked.first().map_or(0, |first| first.place);
        let end_ns = acked.last().map_or(0, |last| last.at_ns);
        let mut stretches: Vec<Stretch> = Vec::new();
        for some in acked.chunk_by(|one, next| number(one.at_ns) == number(next.at_ns)) {
            let [first, .., last] = some else {
                // One acknowledgement shows no pause.
                place = some[0].place;
                continue;
            };
            let carried = last.place.saturating_sub(place);
            place = last.place;
            // The last interval may be incomplete.
            let start_ns = busy.from_ns + number(first.at_ns) * stretch_ns;
            let length_ns = stretch_ns.min(end_ns - start_ns).max(1) as f64;
            let count = some.len() as f64 * round_trip_ns as f64 / length_ns;
            let Some(link) = link_bytes_per_ns(some, mss) else {
                continue;
            };
            let share = carried as f64 / (link * length_ns);
            let is_steady = share >= BUSY;
            if is_steady && count < LEAST_ACKNOWLEDGEMENTS {
                continue;
            }
            stretches.push(Stretch {
                number: number(first.at_ns),
                bytes_per_ns: carried as f64 / length_ns,
                is_steady,
                // A segment that finds the link busy is queued for as long as the link takes for one at least.
                queued_ns: queue.standing_ns(start_ns, stretch_ns),
                least_queued_ns: mss as f64 / link,
            });
        }
        let full_bytes_per_ns = full_bytes_per_ns(&stretches);
        let found = stretches.iter().map(|of| {
            let is_full = of.is_full(full_bytes_per_ns);
            let cause = match is_full {
                true => Cause::PathQueue,
                false => Cause::CongestionWindow,
            };
            let is_long = |queued_ns| queued_ns as f64 >= LONG_QUEUE * round_trip_ns as f64;
            let has_long_queue = is_full && of.queued_ns.is_some_and(is_long);
            (of.number, (cause, has_long_queue))
        });
        busy.stretches = found.collect();
        busy
    }

    /// The limits within an interval, each with whether a long queue was measured.
    fn causes(&self, from_ns: u64, to_ns: u64) -> impl Iterator<Item = (Step, bool)> + '_ {
        let first = from_ns.saturating_sub(self.from_ns) / self.stretch_ns;
        let last = to_ns.saturating_sub(self.from_ns) / self.stretch_ns;
        self.stretches
            .range(first..=last)
            .map(move |(number, (cause, has_long_queue))| {
                let start_ns = self.from_ns + number * self.stretch_ns;
                let end_ns = start_ns.saturating_add(self.stretch_ns);
                let step = (start_ns.max(from_ns), end_ns.min(to_ns), *cause);
                (step, *has_long_queue)
            })
    }
}

/// What an interval's acknowledgements show.
struct Stretch {
    number: u64,
    bytes_per_ns: f64,
    /// Whether they arrived without a pause.
    is_steady: bool,
    /// How long segments were queued at least, if known.
    queued_ns: Option<u64>,
    /// How long they are queued at least before a full link.
    least_queued_ns: f64,
}

impl Stretch {
    /// Whether segments were queued all the time, if known.
    fn is_queued(&self) -> Option<bool> {
        let queued_ns = self.queued_ns?;
        Some(queued_ns as f64 >= self.least_queued_ns)
    }

    /// Whether the link was always busy; `bytes_per_ns` is its rate, if known.
    fn is_full(&self, bytes_per_ns: Option<f64>) -> bool {
        let is_its = |rate: f64| (self.bytes_per_ns / rate - 1.0).abs() <= SAME_RATE;
        let is_full = || self.is_queued().unwrap_or(true) || bytes_per_ns.is_some_and(is_its);
        self.is_steady && is_full()
    }
}

/// The rate of the link that queued segments in many of the intervals without a pause. A sender that paces itself at a link's
/// rate, as BBR does, lets the queue run empty now and then: at the same rate, the link is as full.
fn full_bytes_per_ns(stretches: &[Stretch]) -> Option<f64> {
    let steady = stretches.iter().filter(|of| of.is_steady);
    let known: Vec<(f64, bool)> = steady
        .filter_map(|of| Some((of.bytes_per_ns, of.is_queued()?)))
        .collect();
    let queued = known.iter().filter(|(_, is_queued)| *is_queued);
    let mut rates: Vec<f64> = queued.map(|(rate, _)| *rate).collect();
    let middle = rates.len() / 2;
    let are_enough = !rates.is_empty() && rates.len() as f64 >= LEAST_QUEUED * known.len() as f64;
    are_enough.then(|| *rates.select_nth_unstable_by(middle, f64::total_cmp).1)
}

/// The rate at which acknowledgements arrive within bursts: the median over runs of a few segments.
fn link_bytes_per_ns(acked: &[Acked], mss: u64) -> Option<f64> {
    let mut rates: Vec<f64> = Vec::new();
    for (place, from) in acked.iter().enumerate() {
        let least_bytes = (from.in_flight / RATE_PARTS).clamp(mss, RATE_SEGMENTS * mss);
        let mut behind = acked[place..].iter();
        let Some(to) = behind.find(|to| to.place >= from.place + least_bytes) else {
            break;
        };
        let bytes = (to.place - from.place) as f64;
        rates.push(bytes / (to.at_ns - from.at_ns).max(1) as f64);
    }
    let middle = rates.len() / 2;
    (!rates.is_empty()).then(|| *rates.select_nth_unstable_by(middle, f64::total_cmp).1)
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
    fn a_link_s_rate_is_known_where_segments_often_queue() {
        let stretch = |bytes_per_ns, queued_ns| Stretch {
            number: 0,
            bytes_per_ns,
            is_steady: true,
            queued_ns,
            least_queued_ns: 10.0,
        };
        let (queued, idle, unknown) = (Some(10), Some(9), None);
        let pause = Stretch {
            is_steady: false,
            ..stretch(0.1, idle)
        };
        assert!(!pause.is_full(Some(0.1)));
        let mut stretches = vec![pause, stretch(2.5, queued), stretch(9.0, unknown)];
        assert_eq!(full_bytes_per_ns(&stretches), Some(2.5));
        stretches.extend((0..3).map(|_| stretch(2.4, idle)));
        let full = full_bytes_per_ns(&stretches);
        assert_eq!(full, Some(2.5));
        stretches.push(stretch(2.4, idle));
        assert_eq!(full_bytes_per_ns(&stretches), None);

        assert!(stretch(1.0, queued).is_full(None));
        assert!(stretch(1.0, unknown).is_full(None));
        assert!(!stretch(2.5, idle).is_full(None));
        assert!(stretch(2.44, idle).is_full(full));
        assert!(!stretch(2.4, idle).is_full(full) && !stretch(2.6, idle).is_full(full));
    }

    #[test]
    fn a_queue_shows_in_the_round_trips_of_either_end_near_the_time() {
        let samples = |all: &[(u64, u64)]| {
            let samples = all
                .iter()
                .map(|&(at_ns, took_ns)| RoundTrip { at_ns, took_ns });
            samples.collect::<Vec<_>>()
        };
        let standing_ns = |one: &[(u64, u64)], other: &[(u64, u64)]| {
            let (one, other) = (samples(one), samples(other));
            let queue = Queue {
                least_ns: 50,
                samples: [&one, &other],
            };
            queue.standing_ns(100, 100)
        };
        let many = [(100, 55), (150, 53), (199, 54)];
        assert_eq!(standing_ns(&many, &[(120, 58)]), Some(8));
        assert_eq!(standing_ns(&[(120, 58)], &many), Some(8));
        // Few inside, and others next to them.
        assert_eq!(
            standing_ns(&many, &[(99, 56), (120, 90), (200, 57)]),
            Some(6)
        );
        assert_eq!(standing_ns(&many, &[(0, 51)]), Some(3));
        // Too far away, or none.
        assert_eq!(standing_ns(&many, &[(300, 56)]), None);
        assert_eq!(standing_ns(&[], &many), None);
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
