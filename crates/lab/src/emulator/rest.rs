//! Short rests of a real-time thread, lest the kernel give it a long one.
//!
//! The kernel lets real-time threads have 950 ms of each second of a processor (sched(7),
//! `sched_rt_runtime_us`); newer ones keep the rest for others by a server of theirs. A thread that
//! asks for more stands still for 50 ms, in which no packet moves on any path. One that has used too
//! much of the last time sleeps for what it owes instead: some 90 µs of each millisecond, when it is
//! never idle.

use std::time::Duration;

use wansan_trace::Instant;

/// What the thread may use of its processor's time, in percent.
const SHARE_PERCENT: i64 = 92;
/// The most that a thread has saved by being idle. With what it is granted meanwhile, it uses
/// 940 ms of any second at most, and a quarter of a second without a rest.
const MOST_SAVED_NS: i64 = 20_000_000;
/// The most that it may owe: what a processor's clock that ran wild cost.
const MOST_OWED_NS: i64 = 20_000_000;
/// A shorter sleep costs more than it is worth.
const LEAST_REST_NS: u64 = 50_000;
/// How often the time that was used is looked at, which takes a system call.
const LOOK_INTERVAL: Duration = Duration::from_millis(1);

/// What a thread may use of its processor's time.
pub(super) struct Allowance {
    looked: Instant,
    used_ns: u64,
    /// What it has saved; below zero, what it owes.
    saved_ns: i64,
}

impl Allowance {
    /// Of a thread that has used `used_ns` of its processor's time until `now`.
    pub(super) fn since(now: Instant, used_ns: u64) -> Allowance {
        Allowance {
            looked: now,
            used_ns,
            saved_ns: 0,
        }
    }

    /// How long the thread has to sleep now, if it has to. `used_ns` is asked once in a millisecond.
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
        // What is owed is granted while it sleeps.
        (owed_ns >= LEAST_REST_NS)
            .then(|| Duration::from_nanos(owed_ns * 100 / SHARE_PERCENT as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TURN: Duration = Duration::from_micros(10);

    /// A thread on a processor of its own.
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

        /// Works for a part of each ten microseconds, but for the rests.
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
