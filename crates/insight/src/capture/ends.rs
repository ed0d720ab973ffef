//! What both ends of a captured connection saw, derived from the packets at one point between them.
//!
//! A segment passes the capture point half of the minimum round trip between that point and its sender after it was
//! sent, and reaches its receiver half of the minimum round trip to the receiver later. If the two directions of a
//! round trip take different times, both ends' clocks are off by a constant, which does not change the order of what
//! an end receives and sends.
//!
//! An end whose own host captures receives segments when they are captured: Linux captures what arrives before TCP sees
//! it, but what leaves only after the queueing discipline, so that the whole round trip to that end is spent there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound::Excluded;

use super::connection::{Connection, Seen};
use super::pieces::Pieces;

/// An acknowledgement that follows a retransmission sooner than this fraction of the minimum round trip acknowledges
/// the original transmission.
const SOONER: f64 = 0.9;

/// The segments of a connection.
#[derive(Debug)]
pub(super) struct Passed {
    seen: Pieces<Seen>,
    /// Delay from each end to the capture point.
    leaving_ns: [u64; 2],
    /// Delay from the capture point to each end.
    arriving_ns: [u64; 2],
}

/// A segment at both ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment<'a> {
    pub(super) seen: &'a Seen,
    pub(super) sent_ns: u64,
    /// `None` if it was lost.
    pub(super) arrived_ns: Option<u64>,
}

impl Passed {
    /// Takes the segments of a connection.
    pub(super) fn of(connection: &mut Connection) -> Passed {
        let seen = with_lost(connection);
        let borders = borders(&seen);
        let was_sent_again = borders.each_ref().map(|borders| !borders.is_empty());
        let mut seen = apart(seen, &borders);
        for from in [0, 1].into_iter().filter(|from| was_sent_again[*from]) {
            find_lost(connection, from, &mut seen);
        }
        // Round trips to each end and back, by end.
        let round_trips_ns = [1, 0].map(|from| connection.round_trip_ns(from).unwrap_or(0));
        let arriving_ns = [0, 1].map(|end| match connection.is_captured_at[end] {
            true => 0,
            false => round_trips_ns[end] / 2,
        });
        let leaving_ns = [0, 1].map(|end| match connection.is_captured_at[end] {
            true => round_trips_ns[end],
            false => round_trips_ns[end] / 2,
        });
        Passed {
            seen,
            leaving_ns,
            arriving_ns,
        }
    }

    /// Number of segments.
    pub(super) fn len(&self) -> usize {
        self.seen.len()
    }

    /// The segments in the order in which they passed the capture point; those of one end are also in the order in
    /// which it sent them.
    pub(super) fn segments(&self) -> impl Iterator<Item = Segment<'_>> {
        self.seen.iter().map(|seen| self.at_both_ends(seen))
    }

    /// The segment with index `place`.
    pub(super) fn segment(&self, place: usize) -> Segment<'_> {
        self.at_both_ends(&self.seen[place])
    }

    fn at_both_ends<'a>(&self, seen: &'a Seen) -> Segment<'a> {
        let (from, to) = (seen.from(), 1 - seen.from());
        Segment {
            seen,
            sent_ns: seen.time_ns.saturating_sub(self.leaving_ns[from]),
            arrived_ns: (!seen.is_lost).then(|| seen.time_ns + self.arriving_ns[to]),
        }
    }

    /// The minimum transit time of the segments that each end sent and that arrived.
    pub(super) fn least_transits_ns(&self) -> [Option<u64>; 2] {
        let mut least_ns = [None; 2];
        for segment in self.segments() {
            if let Some(arrived_ns) = segment.arrived_ns {
                let took_ns = arrived_ns - segment.sent_ns;
                let least_ns = least_ns[segment.seen.from()].get_or_insert(took_ns);
                *least_ns = took_ns.min(*least_ns);
            }
        }
        least_ns
    }

    /// The segments in the order in which both ends sent them, with their indices.
    pub(super) fn by_sent(&self) -> impl Iterator<Item = (u32, Segment<'_>)> {
        let of = |end| {
            let placed = (0..).zip(self.segments());
            { placed.filter(move |(_, of): &(u32, Segment<'_>)| of.seen.from() == end) }.peekable()
        };
        let (mut firsts, mut others) = (of(0), of(1));
        std::iter::from_fn(move || {
            let key = |(place, of): &(u32, Segment<'_>)| (of.sent_ns, *place);
            let is_first = match (firsts.peek(), others.peek()) {
                (Some(first), Some(other)) => key(first) < key(other),
                (first, _) => first.is_some(),
            };
            match is_first {
                true => firsts.next(),
                false => others.next(),
            }
        })
    }
}

/// The segments of a connection, with lost ones in place of the holes that they left.
///
/// wansan's emulator reports a lost segment when it enters the path, but others when they leave it: later by the
/// path's delay, which is the round trip between the capture point and the sender.
fn with_lost(connection: &mut Connection) -> Pieces<Seen> {
    let seen = std::mem::take(&mut connection.seen);
    let by_time = |seen: &Seen| (seen.time_ns, seen.from(), seen.place());
    let has_voids = seen.iter().any(|seen| seen.is_void);
    if connection.lost.is_empty() && !has_voids && seen.iter().is_sorted_by_key(by_time) {
        return seen;
    }
    let mut seen: Vec<Seen> = seen.into_iter().collect();
    for lost in &connection.lost {
        let Some((place, end)) = lost.payload() else {
            continue;
        };
        let hole = seen.iter_mut().find(|hole| {
            hole.frame == 0
                && hole.from() == lost.from()
                && hole
                    .place()
                    .is_some_and(|from| place < from + hole.payload_bytes() && from < end)
        });
        let time_ns = match hole {
            Some(hole) => {
                hole.is_void = true;
                hole.time_ns
            }
            None => {
                let round_trip_ns = connection.round_trip_ns(1 - lost.from());
                lost.time_ns + round_trip_ns.unwrap_or(0)
            }
        };
        let mut lost = *lost;
        lost.time_ns = time_ns;
        seen.push(lost);
    }
    seen.retain(|seen| !seen.is_void);
    seen.sort_by_key(by_time);
    seen.into_iter().collect()
}

/// Start and end positions of retransmitted segments, by end.
fn borders(seen: &Pieces<Seen>) -> [BTreeSet<u64>; 2] {
    let mut borders = [BTreeSet::new(), BTreeSet::new()];
    let mut highest = [0; 2];
    for segment in seen.iter() {
        if let Some((place, end)) = segment.payload() {
            let highest = &mut highest[segment.from()];
            if end <= *highest {
                borders[segment.from()].extend([place, end]);
            }
            *highest = end.max(*highest);
        }
    }
    borders
}

/// Splits segments at the borders of retransmissions: a host hands its device many segments as one (TSO), of which
/// the path may lose a single one.
fn apart(seen: Pieces<Seen>, borders: &[BTreeSet<u64>; 2]) -> Pieces<Seen> {
    if borders.iter().all(BTreeSet::is_empty) {
        return seen;
    }
    let mut parts = Pieces::default();
    for segment in seen.into_iter() {
        let Some((place, end)) = segment.payload() else {
            parts.push(segment);
            continue;
        };
        let inside = borders[segment.from()].range((Excluded(place), Excluded(end)));
        let mut from = place;
        for to in inside.copied().chain([end]) {
            parts.push(segment.part(from, to));
            from = to;
        }
    }
    parts
}

/// Marks the segments of `from` as lost that were retransmitted and had not arrived before.
fn find_lost(connection: &Connection, from: usize, seen: &mut Pieces<Seen>) {
    struct Open {
        place: u64,
        end: u64,
        index: usize,
        /// When its bytes were first retransmitted.
        again_ns: Option<u64>,
    }
    let round_trip_ns = connection.round_trip_ns(from).unwrap_or(0);
    let least_ns = (round_trip_ns as f64 * SOONER) as u64;
    let mut open: VecDeque<Open> = VecDeque::new();
    let mut highest = 0;
    let mut lost = Vec::new();
    for (index, segment) in seen.iter().enumerate() {
        if segment.from() != from {
            let Some(acked) = segment.acked() else {
                continue;
            };
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

/// When the bytes of a stream first left their sender, and when their receiver had all up to them.
///
/// For bytes that the capture has missed, only bounds are known: they left after those before them, and had arrived
/// when they were acknowledged, or when bytes sent after them arrived.
#[derive(Debug, Default)]
pub(super) struct Journey {
    /// First transmissions, ordered by end position.
    left: Vec<Left>,
    /// In-order arrivals with their end positions, ordered by these.
    came: Vec<(u64, Came)>,
}

/// Bytes that left in one segment.
#[derive(Debug, Clone, Copy)]
struct Left {
    place: u64,
    end: u64,
    sent_ns: u64,
    seen_ns: u64,
}

/// When all bytes up to some position had arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Came {
    pub(super) at_ns: u64,
    /// The latest such time; differs from `at_ns` only for bytes that the capture has missed.
    pub(super) latest_ns: u64,
}

/// An event at a receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The bytes from the first position to the second arrive.
    Comes(u64, u64),
    /// It acknowledges all bytes up to the position.
    Acknowledges(u64),
}

impl Journey {
    /// The journey of what the end `from` sends.
    pub(super) fn of(passed: &Passed, from: usize) -> Journey {
        let carries = |seen: &&Seen| seen.from() == from && seen.payload().is_some();
        let count = passed.seen.iter().filter(carries).count();
        let mut journey = Journey {
            left: Vec::with_capacity(count),
            came: Vec::with_capacity(count),
        };
        let mut first = None;
        for segment in passed.segments().filter(|of| of.seen.from() == from) {
            let Some((place, end)) = segment.seen.payload() else {
                continue;
            };
            if segment.arrived_ns.is_some() {
                first = Some(first.map_or(place, |first: u64| first.min(place)));
            }
            let highest = journey.left.last().map(|last| last.end);
            if highest.is_none_or(|highest| end > highest) {
                journey.left.push(Left {
                    place,
                    end,
                    sent_ns: segment.sent_ns,
                    seen_ns: segment.seen.time_ns,
                });
            }
        }
        if let Some(first) = first {
            journey.receive(first, receivers_events(passed, from));
        }
        journey
    }

    /// Derives from a receiver's events when it had which bytes in order, from position `next` on.
    fn receive(&mut self, mut next: u64, events: impl Iterator<Item = (u64, Event)>) {
        // Out-of-order arrivals: end and time, by start position.
        let mut beyond: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for (now_ns, event) in events {
            let acked = match event {
                Event::Comes(place, end) if place <= next && beyond.is_empty() => {
                    self.has_come(&mut next, end, now_ns);
                    continue;
                }
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
                let before = self.came.last();
                let before_ns = before.map_or(latest_ns, |(_, before)| before.at_ns);
                let came = Came {
                    at_ns: before_ns.min(latest_ns),
                    latest_ns,
                };
                self.came.push((end, came));
                next = end;
                self.go_on(&mut next, &mut beyond);
            }
        }
    }

    /// Takes the arrivals that continue `next` without a hole; each counts from when all before it had arrived too.
    fn go_on(&mut self, next: &mut u64, beyond: &mut BTreeMap<u64, (u64, u64)>) {
        while let Some(first) = beyond.first_entry().filter(|first| first.key() <= next) {
            let (end, at_ns) = first.remove();
            self.has_come(next, end, at_ns);
        }
    }

    /// Notes an arrival that reaches from `next` or before to `end`.
    fn has_come(&mut self, next: &mut u64, end: u64, at_ns: u64) {
        if end <= *next {
            return;
        }
        *next = end;
        let before = self.came.last().map(|(_, before)| before);
        let came = Came {
            at_ns: before.map_or(at_ns, |before| before.at_ns.max(at_ns)),
            latest_ns: before.map_or(at_ns, |before| before.latest_ns.max(at_ns)),
        };
        self.came.push((end, came));
    }

    /// Begins lookups by position, which are fastest in increasing order.
    pub(super) fn ask(&self) -> Asking<'_> {
        Asking {
            journey: self,
            left: 0,
            came: 0,
        }
    }

    /// When the byte at `place` left its sender.
    pub(super) fn left_ns(&self, place: u64) -> Option<u64> {
        self.ask().left_ns(place).map(|(left_ns, _)| left_ns)
    }
}

/// A cursor over a journey, which remembers where the last lookups ended.
#[derive(Debug)]
pub(super) struct Asking<'a> {
    journey: &'a Journey,
    left: usize,
    came: usize,
}

impl Asking<'_> {
    /// When the byte at `place` left its sender, and when it passed the capture point; for a byte that the capture
    /// has missed, the times of the segment before it.
    pub(super) fn left_ns(&mut self, place: u64) -> Option<(u64, u64)> {
        let all = &self.journey.left;
        self.left = first_behind(all, self.left, |left| left.end <= place);
        let left = all.get(self.left)?;
        let before = self.left.checked_sub(1).map(|before| &all[before]);
        let of_it = before.filter(|_| left.place > place).unwrap_or(left);
        Some((of_it.sent_ns, of_it.seen_ns))
    }

    /// Whether the byte at `place` left in the same segment as the byte before it.
    pub(super) fn is_joined(&mut self, place: u64) -> bool {
        let all = &self.journey.left;
        self.left = first_behind(all, self.left, |left| left.end <= place);
        all.get(self.left).is_some_and(|left| left.place < place)
    }

    /// When the receiver had the byte at `place` and all before it.
    pub(super) fn came(&mut self, place: u64) -> Option<Came> {
        let all = &self.journey.came;
        self.came = first_behind(all, self.came, |(end, _)| *end <= place);
        all.get(self.came).map(|(_, came)| *came)
    }
}

/// Index of the first item for which `is_before` is false, usually at `from` or shortly after it.
fn first_behind<T>(all: &[T], from: usize, is_before: impl Fn(&T) -> bool) -> usize {
    /// Beyond this distance, a binary search is used.
    const SOON: usize = 16;
    let is_further = from == 0 || is_before(&all[from - 1]);
    let soon = &all[from..all.len().min(from + SOON)];
    match soon.iter().position(|one| !is_before(one)) {
        Some(ahead) if is_further => from + ahead,
        _ => all.partition_point(is_before),
    }
}

/// The events at the receiver of what `from` sends, by time.
fn receivers_events(passed: &Passed, from: usize) -> impl Iterator<Item = (u64, Event)> {
    let comes = passed.segments().filter_map(move |segment| {
        let (place, end) = { segment.seen.payload() }.filter(|_| segment.seen.from() == from)?;
        Some((segment.arrived_ns?, Event::Comes(place, end)))
    });
    let acknowledges = passed.segments().filter_map(move |segment| {
        let acked = segment
            .seen
            .acked()
            .filter(|_| segment.seen.from() != from)?;
        Some((segment.sent_ns, Event::Acknowledges(acked)))
    });
    // Both are in order except for events at the same time.
    let (mut comes, mut acknowledges) = (comes.peekable(), acknowledges.peekable());
    let mut at_one_moment: VecDeque<(u64, Event)> = VecDeque::new();
    std::iter::from_fn(move || {
        if at_one_moment.is_empty() {
            let next_ns = |next: Option<&(u64, Event)>| next.map_or(u64::MAX, |(ns, _)| *ns);
            let first = match next_ns(comes.peek()) <= next_ns(acknowledges.peek()) {
                true => comes.next(),
                false => acknowledges.next(),
            };
            let (now_ns, _) = first?;
            if now_ns < next_ns(comes.peek()).min(next_ns(acknowledges.peek())) {
                return first;
            }
            let is_now = |(ns, _): &(u64, Event)| *ns == now_ns;
            at_one_moment.extend(first);
            at_one_moment.extend(std::iter::from_fn(|| comes.next_if(is_now)));
            at_one_moment.extend(std::iter::from_fn(|| acknowledges.next_if(is_now)));
            at_one_moment.make_contiguous().sort_unstable();
        }
        at_one_moment.pop_front()
    })
}

#[cfg(test)]
mod tests {
    use super::Event::{Acknowledges, Comes};
    use super::*;

    /// For each position, when its byte had arrived, and when at the latest.
    fn came(events: &[(u64, Event)], places: &[u64]) -> Vec<Option<(u64, u64)>> {
        let mut journey = Journey::default();
        journey.receive(0, events.iter().copied());
        let of = |place: &u64| {
            let came = journey.ask().came(*place)?;
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
