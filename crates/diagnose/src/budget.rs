//! Bounds the processor time of packet capture to a share of a core. It captures until its budget is spent, then waits
//! until there is enough for another slice.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use wansan_trace::Instant;

/// Share of a core that it may use. Excludes the kernel's cost of delivering packets, and the final analysis of the
/// last slice.
pub const CORE_SHARE: f64 = 0.02;
/// Budget at the start, and its maximum later.
const MOST: Duration = Duration::from_millis(60);
/// Budget required to start a slice.
const SLICE: Duration = Duration::from_millis(40);

/// The processor time available.
#[derive(Debug)]
pub(crate) struct Budget {
    left_ns: f64,
    earned: Instant,
}

impl Budget {
    /// The budget at the start.
    pub(crate) fn new(now: Instant) -> Budget {
        Budget {
            left_ns: MOST.as_nanos() as f64,
            earned: now,
        }
    }

    /// Accounts for elapsed time and the processor time used.
    pub(crate) fn settle(&mut self, now: Instant, used: Duration) {
        let earned = now - self.earned;
        self.earned = now;
        let left_ns = self.left_ns + earned.as_nanos() as f64 * CORE_SHARE;
        self.left_ns = left_ns.min(MOST.as_nanos() as f64) - used.as_nanos() as f64;
    }

    /// Whether it is spent.
    pub(crate) fn is_spent(&self) -> bool {
        self.left_ns <= 0.0
    }

    /// Time until there is enough for a slice.
    pub(crate) fn wait(&self) -> Duration {
        let lacking_ns = (SLICE.as_nanos() as f64 - self.left_ns).max(0.0);
        Duration::from_nanos((lacking_ns / CORE_SHARE) as u64)
    }
}

/// The processor time of the calling thread.
#[derive(Debug)]
pub(crate) struct Meter(Duration);

impl Meter {
    pub(crate) fn begin() -> Meter {
        Meter(thread_time())
    }

    /// Processor time used since the last call.
    pub(crate) fn used(&mut self) -> Duration {
        let now = thread_time();
        let used = now.saturating_sub(self.0);
        self.0 = now;
        used
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The share of a core used over an hour by slices without another limit, and their number.
    fn an_hour(used_share: f64, analysis: Duration) -> (f64, u64) {
        const STEP: Duration = Duration::from_millis(20);
        let (mut now, end) = (Instant::ZERO, Instant::from_ns(3_600_000_000_000));
        let mut budget = Budget::new(now);
        let (mut used, mut slices) = (Duration::ZERO, 0);
        while now < end {
            slices += 1;
            while !budget.is_spent() && now < end {
                now += STEP;
                let step = STEP.mul_f64(used_share);
                used += step;
                budget.settle(now, step);
            }
            used += analysis;
            budget.settle(now, analysis);
            now += budget.wait();
            budget.settle(now, Duration::ZERO);
        }
        (used.as_secs_f64() / 3600.0, slices)
    }

    #[test]
    fn however_much_there_is_to_see_the_share_of_a_core_is_kept() {
        for used_share in [0.05, 0.5, 1.0] {
            let (share, slices) = an_hour(used_share, Duration::from_millis(100));
            assert!(share <= CORE_SHARE * 1.01, "{share}");
            assert!(
                share > CORE_SHARE * 0.9 && slices > 100,
                "{share}, {slices}"
            );
        }
    }

    #[test]
    fn what_costs_little_is_looked_at_all_the_time() {
        let (share, slices) = an_hour(CORE_SHARE * 0.9, Duration::ZERO);
        assert_eq!(slices, 1, "{share}");
    }
}
