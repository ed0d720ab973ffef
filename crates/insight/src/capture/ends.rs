//! What both ends of a captured connection saw, derived from what passed one point between them.
//!
//! A segment passes the point half of the least round trip from there to its sender and back after
//! it was sent, and comes to its receiver half of the least round trip to that one later. Where the
//! two ways of a round trip take different times, both ends' clocks are off by a constant, which
//! changes no order of what an end hears and sends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::Excluded;

use super::connection::{Connection, Seen};

/// An acknowledgement that comes sooner behind a segment that was retransmitted than this part of the
/// least round trip is one of the first transmission.
const SOONER: f64 = 0.9;

/// A segment at both ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Passed {
    pub(super) seen: Seen,
    pub(super) sent_ns: u64,
    /// `None` when it was lost.
    pub(super) arrived_ns: Option<u64>,
}

/// The segments of a connection by the times at which they were sent.
pub(super) fn passed(connection: &Connection) -> Vec<Passed> {
    let mut seen = apart(with_lost(connection));
    for from in [0, 1] {
        find_lost(connection, from, &mut seen);
    }
    // To each end and back, by the end.
    let [to_other, to_first] = [0, 1].map(|from| connection.round_trip_ns(from).unwrap_or(0));
    let one_way_ns = [to_first / 2, to_other / 2];
    let at_ends = |seen: Seen| Passed {
        seen,
        sent_ns: seen.time_ns.saturating_sub(one_way_ns[seen.from]),
        arrived_ns: (!seen.is_lost).then(|| seen.time_ns + one_way_ns[1 - seen.from]),
    };
    let mut passed: Vec<Passed> = seen.into_iter().map(at_ends).collect();
    passed.sort_by_key(|passed| passed.sent_ns);
    passed
}

/// The segments of a connection, those that were lost in the places of the holes that they left.
///
/// Where wansan's emulator says that a segment was lost, it says so when that came to the path, but of
/// others when they leave it, by the sender's half of the way to the receiver and back later.
fn with_lost(connection: &Connection) -> Vec<Seen> {
    let mut seen: Vec<Seen> = connection.seen.clone();
    for lost in &connection.lost {
        let Some((place, end)) = lost.payload() else {
            continue;
        };
        let hole = seen.iter_mut().find(|hole| {
            hole.frame == 0
                && hole.from == lost.from
                && hole
                    .place
                    .is_some_and(|from| place < from + hole.payload_bytes && from < end)
        });
        let time_ns = match hole {
            Some(hole) => {
                hole.is_void = true;
                hole.time_ns
            }
            None => {
                let round_trip_ns = connection.round_trip_ns(1 - lost.from);
                lost.time_ns + round_trip_ns.unwrap_or(0)
            }
        };
        seen.push(Seen { time_ns, ..*lost });
    }
    seen.retain(|seen| !seen.is_void);
    seen.sort_by_key(|seen| (seen.time_ns, seen.from, seen.place));
    seen
}

/// The same, with the parts of a segment apart that were retransmitted by themselves: a host gives its
/// device many segments in one, of which the path may lose a single one.
fn apart(seen: Vec<Seen>) -> Vec<Seen> {
    let mut borders = [BTreeSet::new(), BTreeSet::new()];
    let mut highest = [0; 2];
    for segment in &seen {
        if let Some((place, end)) = segment.payload() {
            let highest = &mut highest[segment.from];
            if end <= *highest {
                borders[segment.from].extend([place, end]);
            }
            *highest = end.max(*highest);
        }
    }
    if borders.iter().all(BTreeSet::is_empty) {
        return seen;
    }
    let mut parts = Vec::with_capacity(seen.len());
    for segment in seen {
        let Some((place, end)) = segment.payload() else {
            parts.push(segment);
            continue;
        };
        let inside = borders[segment.from].range((Excluded(place), Excluded(end)));
        let mut from = place;
        for to in inside.copied().chain([end]) {
            let left_out_bytes = segment.payload_bytes - (to - from);
            let payload_bytes = to - from;
            let ip_bytes = match u64::from(segment.ip_bytes) {
                // It was not seen, nor is any of it.
                0 => 0,
                whole => whole.saturating_sub(left_out_bytes).max(payload_bytes),
            };
            parts.push(Seen {
                place: Some(from),
                payload_bytes,
                seq: segment.seq.wrapping_add((from - place) as u32),
                ip_bytes: ip_bytes as u16,
                ..segment
            });
            from = to;
        }
    }
    parts
}

/// Marks what `from` retransmitted and what had not arrived before.
fn find_lost(connection: &Connection, from: usize, seen: &mut [Seen]) {
    struct Open {
        place: u64,
        end: u64,
        index: usize,
        /// When its bytes were retransmitted first.
        again_ns: Option<u64>,
    }
    let round_trip_ns = connection.round_trip_ns(from).unwrap_or(0);
    let least_ns = (round_trip_ns as f64 * SOONER) as u64;
    let mut open: VecDeque<Open> = VecDeque::new();
    let mut highest = 0;
    let mut lost = Vec::new();
    for (index, segment) in seen.iter().enumerate() {
        if segment.from != from {
            let Some(acked) = segment.acked else { continue };
            while let Some(first) = open.front().filter(|first| first.end <= acked) {
                let by_again = |again_ns| segment.time_ns >= again_ns + least_ns;
                if first.again_ns.is_some_and(by_again) {
                    lost.push(first.index);
                }
                open.pop_front();
            }
        } else if let Some((place, end)) = segment.payload() {
            if end <= highest {
                let covered = open.iter_mut().filter(|o| o.place < end && place < o.end);
                for earlier in covered {
                    earlier.again_ns.get_or_insert(segment.time_ns);
                }
            }
            highest = highest.max(end);
            let after = open.partition_point(|other| other.end <= end);
            open.insert(
                after,
                Open {
                    place,
                    end,
                    index,
                    again_ns: None,
                },
            );
        }
    }
    lost.extend(
        open.iter()
            .filter(|o| o.again_ns.is_some())
            .map(|o| o.index),
    );
    for index in lost {
        seen[index].is_lost = true;
    }
}

/// When the bytes of a stream left their sender first, and when their receiver had all up to them.
///
/// Of bytes that the capture has missed only so much is known: they left after those before them, and had
/// come when they were acknowledged, or when what was sent behind them came.
#[derive(Debug, Default)]
pub(super) struct Journey {
    /// What left for the first time, by end.
    left: Vec<Left>,
    /// What had arrived in order, by end.
    came: Vec<Came>,
}

/// Bytes that left in one segment.
#[derive(Debug, Clone, Copy)]
struct Left {
    place: u64,
    end: u64,
    sent_ns: u64,
    seen_ns: u64,
}

/// When the bytes before `end` had come, in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Came {
    end: u64,
    pub(super) at_ns: u64,
    /// The same at the latest: later than `at_ns` only for what the capture has missed.
    pub(super) latest_ns: u64,
}

/// What a receiver does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The bytes from the first place to the second come.
    Comes(u64, u64),
    /// It acknowledges all up to there.
    Acknowledges(u64),
}

impl Journey {
    /// Of what the end `from` sends.
    pub(super) fn of(passed: &[Passed], from: usize) -> Journey {
        let mut journey = Journey::default();
        let mut events = Vec::new();
        for segment in passed {
            if segment.seen.from != from {
                let acked = segment.seen.acked.map(Event::Acknowledges);
                events.extend(acked.map(|acked| (segment.sent_ns, acked)));
                continue;
            }
            let Some((place, end)) = segment.seen.payload() else {
                continue;
            };
            let highest = journey.left.last().map(|last| last.end);
            if highest.is_none_or(|highest| end > highest) {
                journey.left.push(Left {
                    place,
                    end,
                    sent_ns: segment.sent_ns,
                    seen_ns: segment.seen.time_ns,
                });
            }
            let comes = Event::Comes(place, end);
            events.extend(segment.arrived_ns.map(|at_ns| (at_ns, comes)));
        }
        events.sort_unstable();
        let places = events.iter().filter_map(|(_, event)| match event {
            Event::Comes(place, _) => Some(*place),
            Event::Acknowledges(_) => None,
        });
        if let Some(first) = places.min() {
            journey.receive(first, &events);
        }
        journey
    }

    /// Tells from a receiver's events what it had in order when, from the place `next` on.
    fn receive(&mut self, mut next: u64, events: &[(u64, Event)]) {
        // Ends of what has come and when, by where it begins.
        let mut beyond: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for &(now_ns, event) in events {
            let acked = match event {
                Event::Comes(place, end) => {
                    let longest = beyond.entry(place).or_insert((end, now_ns));
                    if end > longest.0 {
                        *longest = (end, now_ns);
                    }
                    next
                }
                Event::Acknowledges(acked) => acked,
            };
            self.go_on(&mut next, &mut beyond);
            while next < acked {
                let behind = beyond.first_key_value();
                let behind = behind.filter(|(place, _)| **place < acked);
                let (end, latest_ns) = behind.map_or((acked, now_ns), |(place, of)| (*place, of.1));
                let before_ns = self.came.last().map_or(latest_ns, |before| before.at_ns);
                self.came.push(Came {
                    end,
                    at_ns: before_ns.min(latest_ns),
                    latest_ns,
                });
                next = end;
                self.go_on(&mut next, &mut beyond);
            }
        }
    }

    /// Takes what follows `next` without a hole, each when it came and all before it had.
    fn go_on(&mut self, next: &mut u64, beyond: &mut BTreeMap<u64, (u64, u64)>) {
        while let Some(first) = beyond.first_entry().filter(|first| first.key() <= next) {
            let (end, at_ns) = first.remove();
            if end <= *next {
                continue;
            }
            *next = end;
            let before = self.came.last();
            self.came.push(Came {
                end,
                at_ns: before.map_or(at_ns, |before| before.at_ns.max(at_ns)),
                latest_ns: before.map_or(at_ns, |before| before.latest_ns.max(at_ns)),
            });
        }
    }

    /// When the byte at `place` left its sender, and when it passed the point; of one that the capture has
    /// missed, those before it.
    pub(super) fn left_ns(&self, place: u64) -> Option<(u64, u64)> {
        let next = self.left.partition_point(|left| left.end <= place);
        let left = self.left.get(next)?;
        let before = next.checked_sub(1).map(|before| &self.left[before]);
        let of_it = before.filter(|_| left.place > place).unwrap_or(left);
        Some((of_it.sent_ns, of_it.seen_ns))
    }

    /// Whether the byte at `place` left in one segment with the byte before it.
    pub(super) fn is_joined(&self, place: u64) -> bool {
        let next = self.left.partition_point(|left| left.end <= place);
        let left = self.left.get(next);
        left.is_some_and(|left| left.place < place)
    }

    /// When its receiver had it, and all before it.
    pub(super) fn came(&self, place: u64) -> Option<Came> {
        let first = self.came.partition_point(|came| came.end <= place);
        self.came.get(first).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Event::{Acknowledges, Comes};
    use super::*;

    /// Of bytes that came, when, and when at the latest.
    fn came(events: &[(u64, Event)], places: &[u64]) -> Vec<Option<(u64, u64)>> {
        let mut journey = Journey::default();
        journey.receive(0, events);
        let of = |place: &u64| {
            let came = journey.came(*place)?;
            Some((came.at_ns, came.latest_ns))
        };
        places.iter().map(of).collect()
    }

    #[test]
    fn what_the_capture_has_missed_came_between_what_it_has() {
        let events = [
            (10, Comes(0, 100)),
            (30, Comes(400, 500)),
            (50, Acknowledges(500)),
            (60, Acknowledges(700)),
        ];
        let places = [99, 399, 499, 699, 700];
        let times = [(10, 10), (10, 30), (30, 30), (30, 60)].map(Some);
        assert_eq!(came(&events, &places)[..4], times);
        assert_eq!(came(&events, &places)[4], None);
    }

    #[test]
    fn what_came_before_a_hole_was_filled_waits_for_it() {
        let events = [
            (10, Comes(0, 100)),
            (20, Comes(200, 300)),
            (45, Comes(100, 200)),
            (50, Acknowledges(300)),
        ];
        let times = [(10, 10), (45, 45), (45, 45)].map(Some);
        assert_eq!(came(&events, &[0, 150, 250]), times);
    }
}
