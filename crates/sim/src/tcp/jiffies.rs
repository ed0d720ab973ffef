//! The kernel's clock tick, in which some of TCP's times are counted.

/// How often the clock ticks in a second (CONFIG_HZ). A tick is a jiffy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hz(pub u32);

impl Default for Hz {
    /// As Debian builds its kernels.
    fn default() -> Self {
        Hz(250)
    }
}

impl Hz {
    /// Jiffies that have passed at a time (`tcp_jiffies32`).
    #[must_use]
    pub fn at(self, now_ns: u64) -> u64 {
        now_ns * u64::from(self.0) / 1_000_000_000
    }

    /// A duration in jiffies, rounded up (`usecs_to_jiffies`).
    #[must_use]
    pub fn from_us(self, us: u64) -> u64 {
        (us * u64::from(self.0)).div_ceil(1_000_000)
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
}
