//! What both ends of a captured connection saw, told from what passed one point between them.
//!
//! A segment passes the point half of the least round trip from there to its sender and back after
//! it was sent, and comes to its receiver half of the least round trip to that one later. Where the
//! two ways of a round trip take different times, both ends' clocks are off by a constant, which
//! changes no order of what an end hears and sends.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::Excluded;

use super::connection::{Connection, Seen};

/// An acknowledgement that comes sooner behind a segment that was sent again than this part of the
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
    let [to_other, to_first] = connection
        .streams
        .each_ref()
        .map(|s| s.round_trip_ns.unwrap_or(0));
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
                let way = &connection.streams[1 - lost.from];
                lost.time_ns + way.round_trip_ns.unwrap_or(0)
            }
        };
        seen.push(Seen { time_ns, ..*lost });
    }
    seen.retain(|seen| !seen.is_void);
    seen.sort_by_key(|seen| (seen.time_ns, seen.from, seen.place));
    seen
}

/// The same, with the parts of a segment apart that were sent again by themselves: a host gives its
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

/// Marks what `from` sent again and what had not arrived before.
fn find_lost(connection: &Connection, from: usize, seen: &mut [Seen]) {
    struct Open {
        place: u64,
        end: u64,
        index: usize,
        /// When its bytes were sent again first.
        again_ns: Option<u64>,
    }
    let round_trip_ns = connection.streams[from].round_trip_ns.unwrap_or(0);
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
#[derive(Debug, Default)]
pub(super) struct Journey {
    /// Ends of what left for the first time, with the times at the sender, at the point, by end.
    left: Vec<(u64, u64, u64)>,
    /// Ends of what had arrived in order, with the times, by end.
    came: Vec<(u64, u64)>,
}

impl Journey {
    /// Of what the end `from` sends.
    pub(super) fn of(passed: &[Passed], from: usize) -> Journey {
        let mut journey = Journey::default();
        let mut arrivals = Vec::new();
        for segment in passed.iter().filter(|passed| passed.seen.from == from) {
            let Some((place, end)) = segment.seen.payload() else {
                continue;
            };
            if journey
                .left
                .last()
                .is_none_or(|(highest, _, _)| end > *highest)
            {
                journey
                    .left
                    .push((end, segment.sent_ns, segment.seen.time_ns));
            }
            arrivals.extend(segment.arrived_ns.map(|at_ns| (at_ns, place, end)));
        }
        arrivals.sort_unstable();
        let mut next = arrivals
            .iter()
            .map(|(_, place, _)| *place)
            .min()
            .unwrap_or(0);
        let mut beyond: BTreeMap<u64, u64> = BTreeMap::new();
        for (at_ns, place, end) in arrivals {
            let longest = beyond.entry(place).or_insert(end);
            *longest = end.max(*longest);
            let before = next;
            while let Some(first) = beyond.first_entry().filter(|first| *first.key() <= next) {
                next = next.max(first.remove());
            }
            if next > before {
                journey.came.push((next, at_ns));
            }
        }
        journey
    }

    /// When the byte at `place` left its sender, and when it passed the point.
    pub(super) fn left_ns(&self, place: u64) -> Option<(u64, u64)> {
        let first = self.left.partition_point(|(end, _, _)| *end <= place);
        self.left
            .get(first)
            .map(|(_, sent_ns, seen_ns)| (*sent_ns, *seen_ns))
    }

    /// When its receiver had it, and all before it.
    pub(super) fn came_ns(&self, place: u64) -> Option<u64> {
        let first = self.came.partition_point(|(end, _)| *end <= place);
        self.came.get(first).map(|(_, at_ns)| *at_ns)
    }
}
