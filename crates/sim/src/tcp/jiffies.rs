//! The kernel's clock tick, the unit of some of TCP's times, and its timers.

/// Range of the first level of the timer wheel, in ticks; each further level reaches eight times as far.
const LEVEL_TICKS: u64 = 63;

/// Levels of the wheel.
const LEVELS: u32 = 9;

/// Clock ticks (jiffies) per second (CONFIG_HZ).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hz(pub u32);

impl Default for Hz {
    /// As in Debian's kernels.
    fn default() -> Self {
        Hz(250)
    }
}

impl Hz {
    /// A time in jiffies, rounded down (`tcp_jiffies32`).
    #[must_use]
    pub fn at(self, now_ns: u64) -> u64 {
        now_ns * u64::from(self.0) / 1_000_000_000
    }

    /// A duration in jiffies, rounded up (`usecs_to_jiffies`).
    #[must_use]
    pub fn from_us(self, us: u64) -> u64 {
        (us * u64::from(self.0)).div_ceil(1_000_000)
    }

    /// The length of a jiffy in nanoseconds.
    #[must_use]
    pub fn tick_ns(self) -> u64 {
        1_000_000_000 / u64::from(self.0)
    }

    /// When a timer set now for `delay_us` expires: never early, and coarser the longer the delay
    /// (kernel/time/timer.c).
    #[must_use]
    pub fn expiry_ns(self, now_ns: u64, delay_us: u64) -> u64 {
        let delay = self.from_us(delay_us);
        let level = (0..LEVELS).find(|level| delay < LEVEL_TICKS << (3 * level));
        let shift = 3 * level.unwrap_or(LEVELS - 1);
        let jiffies = ((self.at(now_ns) + delay) >> shift) + 1;
        (jiffies << shift) * self.tick_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_in_time_round_down_and_durations_up() {
        let hz = Hz::default();
        assert_eq!(hz.at(7_999_999), 1);
        assert_eq!(hz.at(8_000_000), 2);
        assert_eq!(hz.from_us(8_000), 2);
        assert_eq!(hz.from_us(8_001), 3);
    }

    #[test]
    fn timers_are_never_early_and_late_by_an_eighth_at_most() {
        let hz = Hz::default();
        for now_ns in (0..40_000_000).step_by(1_234_567) {
            for delay_us in [
                0,
                1,
                4_000,
                40_000,
                200_000,
                252_000,
                300_000,
                3_000_000,
                120_000_000,
            ] {
                let due_ns = now_ns + delay_us * 1_000;
                let late_ns = hz.expiry_ns(now_ns, delay_us) as i64 - due_ns as i64;
                let most_ns = 2 * hz.tick_ns() as i64 + delay_us as i64 * 1_000 / 7;
                assert!(
                    (0..=most_ns).contains(&late_ns),
                    "{now_ns} {delay_us}: {late_ns}"
                );
            }
        }
    }
}
