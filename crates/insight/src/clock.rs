//! The clock offset of another computer, from events that both computers observed.
//!
//! A message is sent before it is received. So messages in both directions bound the clock offset from below and from
//! above, as NTP's exchanges do (RFC 5905 §8). Clocks that are not stepped drift at a constant rate: the offset is
//! linear in time. With the true drift, the lower and upper bounds leave the widest channel between them, as wide as
//! the minimum delays of both directions together (Moon, Skelly and Towsley, INFOCOM 1999); its middle is the estimate.
//! Any line within all bounds may be the true one: the error is the distance of the farthest such line from the
//! estimate.

use wansan_trace::Instant;
use wansan_trace::clock::OtherClock;

/// The fastest rate at which Linux slews a clock (adjtimex(2): 500 parts per million).
const MAX_DRIFT: f64 = 500e-6;
/// Maximum slack added to contradicting bounds, in ns: a clock stepped by more cannot be used to join records.
const MAX_SLACK_NS: f64 = 1e9;
/// A drift that widens the channel by less than this share is indistinguishable from chance and taken as 0.
const TOLD_SHARE: f64 = 0.02;
/// Number of intervals that the time is divided into; only the tightest lower and upper bound of each are used.
const STRETCHES: u64 = 256;

/// The result of one exchange: at time `at` of the other clock, that clock was ahead of the local one by `low_ns` to
/// `high_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// A time of the other clock.
    pub at: Instant,
    /// The minimum offset, in ns.
    pub low_ns: i64,
    /// The maximum offset, in ns.
    pub high_ns: i64,
}

impl Bound {
    /// From an exchange begun here: request sent and reply received at `[sent, received]` of the local clock, request
    /// received and reply sent at `there` of the other clock.
    #[must_use]
    pub fn of_inner([sent, received]: [Instant; 2], there: [Instant; 2]) -> Bound {
        Bound {
            at: there[0],
            low_ns: ahead_ns(there[1], received),
            high_ns: ahead_ns(there[0], sent),
        }
    }

    /// The same for an exchange begun by the other end and answered here.
    #[must_use]
    pub fn of_outer(here: [Instant; 2], [sent, received]: [Instant; 2]) -> Bound {
        Bound {
            at: sent,
            low_ns: ahead_ns(sent, here[0]),
            high_ns: ahead_ns(received, here[1]),
        }
    }
}

fn ahead_ns(there: Instant, here: Instant) -> i64 {
    there.ns().wrapping_sub(here.ns()).cast_signed()
}

/// Another clock, with the error bound of the estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The clock.
    pub clock: OtherClock,
    /// The maximum error of a converted time, in ns.
    pub error_ns: u64,
}

impl Estimate {
    /// The local clock, without error.
    pub const SAME: Estimate = Estimate {
        clock: OtherClock {
            at: Instant::ZERO,
            ahead_ns: 0,
            drift_ppb: 0.0,
        },
        error_ns: 0,
    };

    /// Estimates the clock from bounds in any order. `None` if there are none, or if no clock of constant rate fits
    /// them.
    #[must_use]
    pub fn from_bounds(bounds: &[Bound]) -> Option<Estimate> {
        let first = bounds.iter().map(|bound| bound.at).min()?;
        let last = bounds.iter().map(|bound| bound.at).max()?;
        let narrowest = bounds.iter().min_by_key(|bound| width_ns(bound))?;
        // Offsets relative to it are small enough for floating point.
        let base_ns = narrowest.low_ns;
        let length_ns = (last - first).as_nanos() as u64;
        let within: Vec<Within> = told(bounds, first, length_ns)
            .map(|bound| Within {
                share: (bound.at - first).as_nanos() as f64 / length_ns.max(1) as f64,
                low: bound.low_ns.wrapping_sub(base_ns) as f64,
                high: bound.high_ns.wrapping_sub(base_ns) as f64,
            })
            .collect();
        let apart = MAX_DRIFT * length_ns as f64;
        let gained = gained(&within, apart);
        let channel = Channel::of(&within, gained);
        // A clock that is slewed meanwhile is not quite linear.
        let slack = (-channel.width() / 2.0).max(0.0) * 1.001;
        if slack > MAX_SLACK_NS {
            return None;
        }
        let begin = f64::midpoint(channel.low, channel.high);
        let farthest = Lines::within(&within, apart, slack).farthest([begin, begin + gained]);
        Some(Estimate {
            clock: OtherClock {
                at: first,
                ahead_ns: base_ns.wrapping_add(begin.round() as i64),
                drift_ppb: gained / length_ns.max(1) as f64 * 1e9,
            },
            error_ns: (farthest + slack).ceil() as u64,
        })
    }

    /// Converts the estimate of a clock relative to `through`'s clock into one relative to the local clock.
    #[must_use]
    pub fn through(self, through: Estimate) -> Estimate {
        let at = self.clock.at;
        let here = through.clock.here(self.clock.here(at));
        Estimate {
            clock: OtherClock {
                at,
                ahead_ns: ahead_ns(at, here),
                // The product of the drifts is negligible.
                drift_ppb: self.clock.drift_ppb + through.clock.drift_ppb,
            },
            error_ns: self.error_ns + through.error_ns,
        }
    }
}

fn width_ns(bound: &Bound) -> i64 {
    bound.high_ns.wrapping_sub(bound.low_ns)
}

/// The tightest bounds: the highest lower and the lowest upper bound of each interval.
fn told(bounds: &[Bound], first: Instant, length_ns: u64) -> impl Iterator<Item = &Bound> {
    let each_ns = length_ns / STRETCHES + 1;
    let mut best: Vec<[Option<&Bound>; 2]> = vec![[None; 2]; STRETCHES as usize + 1];
    for bound in bounds {
        let stretch = (bound.at - first).as_nanos() as u64 / each_ns;
        let [below, above] = &mut best[stretch as usize];
        if below.is_none_or(|other| other.low_ns < bound.low_ns) {
            *below = Some(bound);
        }
        if above.is_none_or(|other| other.high_ns > bound.high_ns) {
            *above = Some(bound);
        }
    }
    best.into_iter().flatten().flatten()
}

/// A bound on the line, at a share of its length from 0 to 1.
struct Within {
    share: f64,
    low: f64,
    high: f64,
}

/// The channel between the lower and upper bounds once a drift is subtracted.
struct Channel {
    low: f64,
    high: f64,
}

impl Channel {
    fn of(bounds: &[Within], gained: f64) -> Channel {
        let lows = bounds.iter().map(|bound| bound.low - gained * bound.share);
        let highs = bounds.iter().map(|bound| bound.high - gained * bound.share);
        Channel {
            low: lows.fold(f64::MIN, f64::max),
            high: highs.fold(f64::MAX, f64::min),
        }
    }

    fn width(&self) -> f64 {
        self.high - self.low
    }
}

/// The clock's gain from begin to end, within ±`apart`, that makes the channel widest; 0 if that is hardly wider.
fn gained(bounds: &[Within], apart: f64) -> f64 {
    let width = |gained| Channel::of(bounds, gained).width();
    // The width is a concave function of the gain: ternary search.
    let (mut from, mut to) = (-apart, apart);
    for _ in 0..100 {
        let third = (to - from) / 3.0;
        match width(from + third) < width(to - third) {
            true => from += third,
            false => to -= third,
        }
    }
    let widest = f64::midpoint(from, to);
    match width(0.0) < width(widest) * (1.0 - TOLD_SHARE) {
        true => widest,
        false => 0.0,
    }
}

/// All lines within the bounds, each as its heights at both ends: a convex polygon.
struct Lines(Vec<[f64; 2]>);

impl Lines {
    /// The lines within bounds widened by `slack` that rise or fall by at most `apart`.
    fn within(bounds: &[Within], apart: f64, slack: f64) -> Lines {
        let low = bounds
            .iter()
            .map(|bound| bound.low)
            .fold(f64::MAX, f64::min);
        let high = bounds
            .iter()
            .map(|bound| bound.high)
            .fold(f64::MIN, f64::max);
        let (low, high) = (low - slack - apart, high + slack + apart);
        let mut lines = Lines(vec![[low, low], [high, low], [high, high], [low, high]]);
        lines.cut(|[begin, end]| apart - (end - begin));
        lines.cut(|[begin, end]| apart - (begin - end));
        for bound in bounds {
            let height = |[begin, end]: [f64; 2]| begin + (end - begin) * bound.share;
            lines.cut(|line| height(line) - (bound.low - slack));
            lines.cut(|line| (bound.high + slack) - height(line));
        }
        lines
    }

    /// Clips the polygon to where the linear function `inside` is not negative (Sutherland and Hodgman).
    fn cut(&mut self, inside: impl Fn([f64; 2]) -> f64) {
        let corners = std::mem::take(&mut self.0);
        for (place, &corner) in corners.iter().enumerate() {
            let next = corners[(place + 1) % corners.len()];
            let (here, there) = (inside(corner), inside(next));
            if here >= 0.0 {
                self.0.push(corner);
            }
            if (here < 0.0) != (there < 0.0) {
                let share = here / (here - there);
                let between = |axis: usize| corner[axis] + (next[axis] - corner[axis]) * share;
                self.0.push([between(0), between(1)]);
            }
        }
    }

    /// The maximum distance of these lines from the given one, at either end.
    fn farthest(&self, [begin, end]: [f64; 2]) -> f64 {
        let far = |corner: &[f64; 2]| (corner[0] - begin).abs().max((corner[1] - end).abs());
        self.0.iter().map(far).fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The other clock when the local one shows `here_ns`: 1000 s ahead, gaining 20 parts per million.
    fn there(here_ns: u64) -> Instant {
        Instant::from_ns(here_ns + 1_000_000_000_000 + here_ns / 50_000)
    }

    /// Exchanges every 10 ms for a minute; the way there takes 100 µs and the way back `quickest_back_ns`, plus up to 1
    /// ms each.
    fn exchanges(quickest_back_ns: u64) -> Vec<Bound> {
        let each = (0..6000_u64).map(|place| {
            let sent_ns = place * 10_000_000;
            let came_ns = sent_ns + 100_000 + place * 7919 % 1_000_000;
            let left_ns = came_ns + 30_000;
            let back_ns = left_ns + quickest_back_ns + place * 104_729 % 1_000_000;
            let here = [sent_ns, back_ns].map(Instant::from_ns);
            Bound::of_inner(here, [came_ns, left_ns].map(there))
        });
        each.collect()
    }

    fn wrong_by_ns(estimate: &Estimate) -> u64 {
        let moments = (0..60).map(|second| second * 1_000_000_000);
        let wrong = moments.map(|ns| estimate.clock.here(there(ns)).ns().abs_diff(ns));
        wrong.max().unwrap_or(u64::MAX)
    }

    #[test]
    fn a_clock_ahead_that_drifts_is_found() {
        let estimate = Estimate::from_bounds(&exchanges(100_000)).unwrap();
        let wrong_ns = wrong_by_ns(&estimate);
        assert!(wrong_ns < 15_000, "{wrong_ns} ns: {estimate:?}");
        let drift = estimate.clock.drift_ppb;
        assert!((drift - 20_000.0).abs() < 1_000.0, "{drift}");
        // Half the minimum round trip, plus a little because an interval's fastest trips are slower.
        let error_ns = estimate.error_ns;
        assert!((wrong_ns..120_000).contains(&error_ns), "{error_ns}");
    }

    #[test]
    fn a_way_back_that_takes_longer_is_within_the_error() {
        let estimate = Estimate::from_bounds(&exchanges(900_000)).unwrap();
        let wrong_ns = wrong_by_ns(&estimate);
        assert!(
            (380_000..=estimate.error_ns).contains(&wrong_ns),
            "{wrong_ns}, {estimate:?}"
        );
        assert!(estimate.error_ns < 530_000, "{estimate:?}");
    }

    #[test]
    fn one_exchange_says_how_far_they_are_apart() {
        let here = [1_000, 3_000].map(Instant::from_ns);
        let inner = [51_500, 52_500].map(Instant::from_ns);
        let bound = Bound::of_inner(here, inner);
        assert_eq!((bound.low_ns, bound.high_ns), (49_500, 50_500));
        let estimate = Estimate::from_bounds(&[bound]).unwrap();
        assert_eq!((estimate.clock.ahead_ns, estimate.error_ns), (50_000, 500));
        // The same bound, seen from the other side.
        let back = Bound::of_outer(inner, here);
        assert_eq!((back.low_ns, back.high_ns), (-50_500, -49_500));
        assert_eq!(Estimate::from_bounds(&[]), None);
    }

    #[test]
    fn bounds_that_contradict_each_other_a_little_widen_the_error() {
        let bound = |at, low_ns, high_ns| Bound {
            at: Instant::from_ns(at),
            low_ns,
            high_ns,
        };
        // No clock gains 10 µs in 1 µs.
        let bounds = [bound(1_000, 0, 1_000), bound(2_000, 11_000, 12_000)];
        let estimate = Estimate::from_bounds(&bounds).unwrap();
        assert!((5_000..20_000).contains(&estimate.error_ns), "{estimate:?}");
        let set = [
            bound(1_000, 0, 1_000),
            bound(2_000, 9_000_000_000, 9_000_001_000),
        ];
        assert_eq!(Estimate::from_bounds(&set), None, "it was set meanwhile");
    }

    #[test]
    fn a_clock_is_known_by_another_one() {
        let ahead = |ahead_ns, drift_ppb, error_ns| Estimate {
            clock: OtherClock {
                at: Instant::from_ns(10_000_000_000),
                ahead_ns,
                drift_ppb,
            },
            error_ns,
        };
        let [client, target] = [
            ahead(2_000_000_000, 100.0, 3),
            ahead(-1_000_000_000, -300.0, 4),
        ];
        let whole = client.through(target);
        assert_eq!(whole.error_ns, 7);
        for there in [10_000_000_000, 15_000_000_000, 40_000_000_000] {
            let there = Instant::from_ns(there);
            let by_steps = target.clock.here(client.clock.here(there));
            let off_ns = whole.clock.here(there).ns().abs_diff(by_steps.ns());
            assert!(off_ns <= 2, "{off_ns}");
        }
    }
}
