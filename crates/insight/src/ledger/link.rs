//! Whether the slowest link of a connection's path was always busy, from the acknowledgements of its segments.
//!
//! At a full link, acknowledgements arrive without a pause at the link's rate, and segments queue. At one that is idle now and
//! then, they arrive in bursts with pauses between them; evenly spread, they find no queue.

use std::collections::BTreeMap;

use super::senders::Step;
use crate::cause::Cause;

/// Rates are measured over this many full segments, or over 1/`RATE_PARTS` of the bytes in flight if that is less: an
/// acknowledgement covers two segments, or as many as arrived together.
const RATE_SEGMENTS: u64 = 8;
const RATE_PARTS: u64 = 4;
/// A link that carries this share of its capacity is always busy, apart from the jitter of acknowledgements.
const BUSY: f64 = 0.9;
/// Utilization is computed over intervals of this many round trips, but at least of `LEAST_STRETCH_NS`.
const STRETCH_ROUND_TRIPS: u64 = 4;
const LEAST_STRETCH_NS: u64 = 100_000_000;
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

/// An acknowledgement of new data.
#[derive(Debug, Clone, Copy)]
pub(super) struct Acked {
    pub(super) at_ns: u64,
    /// The acknowledged stream position.
    pub(super) place: u64,
    /// Bytes in flight before it.
    pub(super) in_flight: u64,
}

/// A measured round trip: when its acknowledgement arrived, and how long it took.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundTrip {
    pub(super) at_ns: u64,
    pub(super) took_ns: u64,
}

/// The queue of a connection's path, as round trips show it.
pub(super) struct Queue<'r> {
    /// The round trip without a queue.
    pub(super) least_ns: u64,
    /// Round trips measured by each sender, in order of time. A capture between two links shows the queue of each to
    /// one sender only.
    pub(super) samples: [&'r [RoundTrip]; 2],
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

/// Whether the path's slowest link was always busy, by intervals.
pub(super) struct Busy {
    from_ns: u64,
    stretch_ns: u64,
    /// The limit in each interval whose acknowledgements show one, and whether a long queue was measured, by interval number.
    stretches: BTreeMap<u64, (Cause, bool)>,
}

impl Busy {
    pub(super) fn of(acked: &[Acked], mss: u64, queue: &Queue<'_>) -> Busy {
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
    pub(super) fn causes(
        &self,
        from_ns: u64,
        to_ns: u64,
    ) -> impl Iterator<Item = (Step, bool)> + '_ {
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
    use super::*;

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
}
