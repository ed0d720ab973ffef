//! When the kernel's timers run out: the wheel of kernel/time/timer.c turns in ticks, and slower for far times.

/// Ticks up to which a level of the wheel counts: 63, 504, 4032 and so on.
const LEVEL_TICKS: u64 = 63;

/// A kernel's tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    ns: u64,
}

impl Tick {
    /// That of a kernel with so many ticks in a second (CONFIG_HZ).
    ///
    /// # Panics
    /// When there are none.
    #[must_use]
    pub fn of_hz(hz: u32) -> Tick {
        assert!(hz > 0, "a kernel ticks");
        Tick {
            ns: 1_000_000_000 / u64::from(hz),
        }
    }

    /// Its length in microseconds.
    #[must_use]
    pub fn us(self) -> u64 {
        self.ns / 1_000
    }

    /// The tick at a time.
    #[must_use]
    pub fn at(self, now_ns: u64) -> u64 {
        now_ns / self.ns
    }

    /// When a timer runs out that is set now for `delay_us`: never early, and the later the coarser.
    #[must_use]
    pub fn expiry_ns(self, now_ns: u64, delay_us: u64) -> u64 {
        let delay = (delay_us * 1_000).div_ceil(self.ns);
        let mut shift = 0;
        let mut reach = LEVEL_TICKS;
        while delay >= reach && shift < 24 {
            shift += 3;
            reach <<= 3;
        }
        let ticks = ((self.at(now_ns) + delay) >> shift) + 1;
        (ticks << shift) * self.ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_never_early_and_late_by_an_eighth_at_most() {
        let tick = Tick::of_hz(250);
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
                let late =
                    tick.expiry_ns(now_ns, delay_us) as i64 - (now_ns + delay_us * 1_000) as i64;
                let most = 2 * 4_000_000 + delay_us as i64 * 1_000 / 7;
                assert!((0..=most).contains(&late), "{now_ns} {delay_us}: {late}");
            }
        }
    }
}
