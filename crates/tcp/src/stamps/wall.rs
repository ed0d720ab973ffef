//! From CLOCK_REALTIME, which the kernel stamps with, to CLOCK_MONOTONIC, which records use.
//!
//! Both clocks run at the same rate: NTP disciplines them together, and their difference changes only when somebody
//! sets CLOCK_REALTIME. So pairs of readings form stretches of one difference each, and a stamp belongs to the stretch
//! in which it is plausible.

use std::collections::VecDeque;

use wansan_trace::Instant;
use wansan_trace::clock::Both;

/// Differences closer than this are equal: reading two clocks takes time.
const SAME_NS: i64 = 20_000;
/// Most stretches kept.
const STRETCHES: usize = 8;

/// A time in which the clock was not set.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    first: Instant,
    last: Instant,
    ahead_ns: i64,
}

/// The history of CLOCK_REALTIME.
#[derive(Debug, Default)]
pub(super) struct Wall {
    /// Oldest first.
    stretches: VecDeque<Stretch>,
}

impl Wall {
    /// Adds a pair of readings, no older than the last.
    pub(super) fn anchor(&mut self, both: Both) {
        let (now, ahead_ns) = (both.monotonic, both.ahead_ns());
        if let Some(current) = self.stretches.back_mut()
            && current.ahead_ns.abs_diff(ahead_ns) <= SAME_NS.unsigned_abs()
        {
            current.last = now;
            return;
        }
        if self.stretches.len() == STRETCHES {
            self.stretches.pop_front();
        }
        self.stretches.push_back(Stretch {
            first: now,
            last: now,
            ahead_ns,
        });
    }

    /// When the kernel took a stamp, which was not before `since`; `None` when the clock was set so that several times,
    /// or none, are possible.
    pub(super) fn moment(&self, realtime_ns: u64, since: Instant) -> Option<Instant> {
        let mut found: Option<Instant> = None;
        for (place, stretch) in self.stretches.iter().enumerate() {
            // The clock was set at some time between two stretches.
            let before = place.checked_sub(1).map(|place| self.stretches[place].last);
            let after = self.stretches.get(place + 1).map(|next| next.first);
            let from_ns = before.unwrap_or(Instant::ZERO).max(since).ns();
            let to_ns = after.unwrap_or(stretch.last).ns();
            let Some(ns) = realtime_ns.checked_add_signed(-stretch.ahead_ns) else {
                continue;
            };
            let slack_ns = SAME_NS.unsigned_abs();
            if ns + slack_ns < from_ns || ns > to_ns + slack_ns {
                continue;
            }
            if found.is_some() {
                return None;
            }
            found = Some(Instant::from_ns(ns));
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use wansan_trace::clock;

    use super::*;

    const YEARS_NS: u64 = 1_700_000_000_000_000_000;
    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * MS)
    }

    fn wall(readings: &[(u64, i64)]) -> Wall {
        let mut wall = Wall::default();
        for &(ms, set_ms) in readings {
            let realtime_ns = YEARS_NS + ms * MS;
            let realtime_ns = realtime_ns.checked_add_signed(set_ms * MS as i64).unwrap();
            wall.anchor(Both {
                monotonic: at(ms),
                realtime_ns,
                width_ns: 0,
            });
        }
        wall
    }

    #[test]
    fn a_clock_that_nobody_sets_gives_the_moment() {
        let wall = wall(&[(100, 0), (200, 0)]);
        let stamp = YEARS_NS + 150 * MS;
        assert_eq!(wall.moment(stamp, at(140)), Some(at(150)));
        assert_eq!(wall.moment(YEARS_NS + 50 * MS, at(0)), Some(at(50)));
        assert_eq!(wall.moment(stamp, at(160)), None);
        assert_eq!(wall.moment(YEARS_NS + 300 * MS, at(0)), None);
    }

    #[test]
    fn a_step_keeps_the_moments_on_both_sides() {
        for step_ms in [3_600_000, -3_600_000, 1_000, -1_000] {
            let wall = wall(&[(100, 0), (200, 0), (210, step_ms), (300, step_ms)]);
            let old = YEARS_NS + 205 * MS;
            assert_eq!(wall.moment(old, at(190)), Some(at(205)), "{step_ms}");
            let new = old.checked_add_signed(step_ms * MS as i64).unwrap();
            assert_eq!(wall.moment(new, at(190)), Some(at(205)), "{step_ms}");
        }
    }

    #[test]
    fn a_stamp_that_fits_on_both_sides_of_a_step_is_given_up() {
        let wall = wall(&[(100, 0), (200, 0), (220, 5), (300, 5)]);
        assert_eq!(wall.moment(YEARS_NS + 210 * MS, at(190)), None);
        // A stamp before the change by the old clock cannot be after it by the new one.
        assert_eq!(wall.moment(YEARS_NS + 190 * MS, at(180)), Some(at(190)));
        assert_eq!(wall.moment(YEARS_NS + 260 * MS, at(180)), Some(at(255)));
    }

    #[test]
    fn many_steps_are_remembered_to_a_bound() {
        let readings: Vec<(u64, i64)> = (0..100).map(|n| (100 + n, n as i64 * 1_000)).collect();
        let wall = wall(&readings);
        assert_eq!(wall.stretches.len(), STRETCHES);
        let stamp = YEARS_NS + (199 + 99 * 1_000) * MS;
        assert_eq!(wall.moment(stamp, at(150)), Some(at(199)));
    }

    #[test]
    fn both_clocks_are_read() {
        let (first, second) = (Both::now(), Both::now());
        let mut wall = Wall::default();
        wall.anchor(first);
        let realtime_ns = clock::realtime_ns();
        wall.anchor(Both::now());
        assert!(second.monotonic >= first.monotonic);
        let moment = wall.moment(realtime_ns, Instant::ZERO).unwrap();
        assert!(
            moment.ns() + 1_000_000 > second.monotonic.ns(),
            "{moment:?}"
        );
    }
}
