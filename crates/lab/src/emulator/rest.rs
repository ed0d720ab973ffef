//! Short sleeps of a real-time thread, so that the kernel does not throttle it for longer.
//!
//! The kernel limits real-time threads to 950 ms of each second of a processor (sched(7), `sched_rt_runtime_us`); newer
//! kernels reserve the rest for others with a deadline server. A thread above the limit is stopped for 50 ms, in which
//! no packet moves on any path. To prevent this, a thread that has used too much recently sleeps off its debt: some 90
//! µs of each millisecond if it is never idle.

use std::time::Duration;

use wansan_trace::Instant;

/// Processor time that the thread may use, in percent.
const SHARE_PERCENT: i64 = 92;
/// Largest credit from being idle. Together with what accrues meanwhile, the thread uses at most 940 ms of any second,
/// and a quarter of a second without a sleep.
const MOST_SAVED_NS: i64 = 20_000_000;
/// Largest debt: bounds the effect of an erratic processor clock.
const MOST_OWED_NS: i64 = 20_000_000;
/// Shortest worthwhile sleep.
const LEAST_REST_NS: u64 = 50_000;
/// Interval for querying the time used, which takes a system call.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// Processor time budget of a thread.
pub(super) struct Allowance {
    looked: Instant,
    used_ns: u64,
    /// Credit; negative for debt.
    saved_ns: i64,
}

impl Allowance {
    /// For a thread that has used `used_ns` of processor time by `now`.
    pub(super) fn since(now: Instant, used_ns: u64) -> Allowance {
        Allowance {
            looked: now,
            used_ns,
            saved_ns: 0,
        }
    }

    /// The sleep that is due now, if any. Calls `used_ns` at most once per millisecond.
    pub(super) fn rest(&mut self, now: Instant, used_ns: impl FnOnce() -> u64) -> Option<Duration> {
        let passed = now - self.looked;
        if passed < LOOK_INTERVAL {
            return None;
        }
        let used_ns = used_ns();
        let granted_ns = passed.as_nanos() as i64 * SHARE_PERCENT / 100;
        let spent_ns = used_ns.saturating_sub(self.used_ns) as i64;
        let saved_ns = self.saved_ns + granted_ns - spent_ns;
        self.saved_ns = saved_ns.clamp(-MOST_OWED_NS, MOST_SAVED_NS);
        self.looked = now;
        self.used_ns = used_ns;
        let owed_ns = u64::try_from(-self.saved_ns).unwrap_or(0);
        // The debt is worked off while it sleeps.
        (owed_ns >= LEAST_REST_NS)
            .then(|| Duration::from_nanos(owed_ns * 100 / SHARE_PERCENT as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: Duration = Duration::from_micros(10);

    /// A thread with its own processor.
    struct Thread {
        now: Instant,
        used: Duration,
        allowance: Allowance,
        rests: Vec<Duration>,
    }

    impl Thread {
        fn new() -> Thread {
            Thread {
                now: Instant::ZERO,
                used: Duration::ZERO,
                allowance: Allowance::since(Instant::ZERO, 0),
                rests: Vec::new(),
            }
        }

        /// Works for a fraction `part` of each ten microseconds, apart from sleeps.
        fn works(&mut self, part: f64, time: Duration) {
            let end = self.now + time;
            while self.now < end {
                let used_ns = self.used.as_nanos() as u64;
                if let Some(rest) = self.allowance.rest(self.now, || used_ns) {
                    self.now += rest;
                    self.rests.push(rest);
                }
                self.now += TURN;
                self.used += TURN.mul_f64(part);
            }
        }
    }

    #[test]
    fn a_thread_that_is_never_idle_rests_often_and_shortly() {
        let mut thread = Thread::new();
        thread.works(1.0, Duration::from_secs(2));
        let share = thread.used.as_secs_f64() / 2.0;
        assert!((0.91..0.925).contains(&share), "{share}");
        let longest = thread.rests.iter().max().unwrap();
        assert!(*longest < Duration::from_micros(100), "{longest:?}");
    }

    #[test]
    fn one_that_is_idle_enough_takes_none() {
        let mut thread = Thread::new();
        thread.works(0.9, Duration::from_secs(2));
        assert!(thread.rests.is_empty(), "{:?}", thread.rests);
    }

    #[test]
    fn no_second_has_more_than_the_kernel_grants_however_long_it_was_idle() {
        let mut thread = Thread::new();
        thread.works(0.0, Duration::from_secs(10));
        thread.works(1.0, Duration::from_millis(240));
        assert!(thread.rests.is_empty(), "{:?}", thread.rests);
        thread.works(1.0, Duration::from_millis(760));
        assert!(
            thread.used < Duration::from_millis(945),
            "{:?}",
            thread.used
        );
    }

    #[test]
    fn a_rest_that_took_too_long_counts() {
        let mut thread = Thread::new();
        thread.works(1.0, Duration::from_millis(5));
        let rests = thread.rests.len();
        thread.now += Duration::from_millis(2);
        thread.works(1.0, Duration::from_millis(20));
        assert_eq!(thread.rests.len(), rests);
    }
}
