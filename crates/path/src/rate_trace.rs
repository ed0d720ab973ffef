//! A rate that changes with time.

use core::time::Duration;
use std::sync::Arc;

use wansan_trace::Instant;
use wansan_trace::time::duration_ns;

use crate::rate::{Moment, Rate};

/// Invalid steps of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RateTraceError {
    /// No steps, or too many.
    #[error("a rate trace has 1 to {max} steps, not {0}", max = RateTrace::MAX_STEPS)]
    Count(usize),
    /// A step has no duration.
    #[error("step {0} has no duration")]
    NoTime(usize),
    /// The total duration is too long.
    #[error("the rate trace is longer than {} days", RateTrace::MAX_PERIOD.as_secs() / 86_400)]
    TooLong,
    /// All rates are 0.
    #[error("every rate is 0: at least one step needs a rate above 0")]
    NoRate,
}

/// Consecutive rates, each with its duration, repeated after the last one. A rate of 0 is a pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RateTrace {
    steps: Arc<[Step]>,
    period_ns: u64,
    /// Nanobits sent in a period.
    period_nanobits: u128,
    fastest: Rate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    /// From the start of the period to the end of the step.
    until_ns: u64,
    bits_per_s: u64,
}

impl RateTrace {
    /// Most steps of a trace.
    pub const MAX_STEPS: usize = 1 << 16;
    /// Longest total duration.
    pub const MAX_PERIOD: Duration = Duration::from_secs(366 * 86_400);

    /// The trace of these steps: duration, and bits per second.
    ///
    /// # Errors
    /// [`RateTraceError`].
    pub fn new(steps: &[(Duration, u64)]) -> Result<Self, RateTraceError> {
        if !(1..=RateTrace::MAX_STEPS).contains(&steps.len()) {
            return Err(RateTraceError::Count(steps.len()));
        }
        if let Some(place) = steps.iter().position(|(time, _)| time.is_zero()) {
            return Err(RateTraceError::NoTime(place + 1));
        }
        let fastest = steps.iter().map(|&(_, bits_per_s)| bits_per_s).max();
        let fastest = fastest
            .and_then(Rate::from_bits_per_s)
            .ok_or(RateTraceError::NoRate)?;
        let mut until_ns = 0u64;
        let mut period_nanobits = 0u128;
        let mut placed = Vec::with_capacity(steps.len());
        for &(time, bits_per_s) in steps {
            let time_ns = duration_ns(time);
            until_ns = until_ns
                .checked_add(time_ns)
                .filter(|&until_ns| until_ns <= duration_ns(RateTrace::MAX_PERIOD))
                .ok_or(RateTraceError::TooLong)?;
            period_nanobits += u128::from(time_ns) * u128::from(bits_per_s);
            placed.push(Step {
                until_ns,
                bits_per_s,
            });
        }
        Ok(RateTrace {
            steps: placed.into(),
            period_ns: until_ns,
            period_nanobits,
            fastest,
        })
    }

    /// Length of a period.
    #[must_use]
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period_ns)
    }

    /// The mean rate of a period, in bits per second, rounded down.
    #[must_use]
    pub fn mean_bits_per_s(&self) -> u64 {
        (self.period_nanobits / u128::from(self.period_ns)) as u64
    }

    /// The maximum rate.
    #[must_use]
    pub fn fastest(&self) -> Rate {
        self.fastest
    }

    /// The rate at `at`, in bits per second, of a trace that began at `begun`.
    pub(crate) fn bits_per_s(&self, begun: Instant, at: Instant) -> u64 {
        self.step(begun, at.ns()).0
    }

    /// When the transmission of `nanobits` that began at `start` ends.
    pub(crate) fn finish(&self, begun: Instant, start: Moment, nanobits: u128) -> Moment {
        if nanobits == 0 {
            return start;
        }
        let mut left = nanobits + u128::from(start.part);
        // A whole period sends the same amount from any of its moments. At least one nanobit remains, so that a
        // transmission that ends before a pause does not wait for its end.
        let periods = (left - 1) / self.period_nanobits;
        left -= periods * self.period_nanobits;
        let skipped_ns = periods.saturating_mul(u128::from(self.period_ns));
        let skipped_ns = u64::try_from(skipped_ns).unwrap_or(u64::MAX);
        let mut ns = start.ns.saturating_add(skipped_ns);
        loop {
            let (bits_per_s, until_ns) = self.step(begun, ns);
            let room = u128::from(until_ns - ns) * u128::from(bits_per_s);
            if left <= room {
                let rate = u128::from(bits_per_s);
                let end = Moment {
                    ns: ns + (left / rate) as u64,
                    part: (left % rate) as u64,
                };
                return end;
            }
            if until_ns == u64::MAX {
                return Moment {
                    ns: u64::MAX,
                    part: 0,
                };
            }
            left -= room;
            ns = until_ns;
        }
    }

    /// Nanobits sent from `from` until `end`.
    pub(crate) fn sent(&self, begun: Instant, from: Instant, end: Moment) -> u128 {
        let whole_ns = end.ns.saturating_sub(from.ns());
        let periods = whole_ns / self.period_ns;
        let mut nanobits = u128::from(periods) * self.period_nanobits + u128::from(end.part);
        let mut ns = from.ns() + periods * self.period_ns;
        while ns < end.ns {
            let (bits_per_s, until_ns) = self.step(begun, ns);
            let until_ns = until_ns.min(end.ns);
            nanobits += u128::from(until_ns - ns) * u128::from(bits_per_s);
            ns = until_ns;
        }
        nanobits
    }

    /// The rate at a moment, and until when it lasts.
    fn step(&self, begun: Instant, ns: u64) -> (u64, u64) {
        let offset_ns = ns.saturating_sub(begun.ns()) % self.period_ns;
        let place = self
            .steps
            .partition_point(|step| step.until_ns <= offset_ns);
        let step = self.steps[place];
        (
            step.bits_per_s,
            ns.saturating_add(step.until_ns - offset_ns),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::NANOBITS_PER_BYTE;

    const BEGUN: Instant = Instant::from_ns(1_000);

    /// 8 kbit/s (a byte takes a millisecond) for 10 ms, a pause of 5 ms, 16 kbit/s for 10 ms:
    /// 10 bytes and 20 bytes in a period of 25 ms.
    fn trace() -> RateTrace {
        let ms = Duration::from_millis;
        RateTrace::new(&[(ms(10), 8_000), (ms(5), 0), (ms(10), 16_000)]).unwrap()
    }

    /// When a transmission of `bytes` that begins at `start_us` of the period ends.
    fn end_us(start_us: u64, bytes: u128) -> u64 {
        let start = BEGUN + Duration::from_micros(start_us);
        let end = trace().finish(BEGUN, start.into(), bytes * NANOBITS_PER_BYTE);
        assert_eq!(end.part, 0);
        (end.ns - BEGUN.ns()) / 1_000
    }

    #[test]
    fn packets_span_steps_pauses_and_periods() {
        assert_eq!(end_us(0, 4), 4_000);
        assert_eq!(
            end_us(0, 10),
            10_000,
            "what ends with its step does not wait"
        );
        assert_eq!(end_us(0, 11), 15_500);
        assert_eq!(end_us(9_000, 3), 16_000);
        assert_eq!(end_us(12_000, 2), 16_000, "what begins in a pause waits");
        assert_eq!(end_us(24_000, 4), 27_000);
        assert_eq!(end_us(0, 30), 25_000);
        assert_eq!(end_us(0, 31), 26_000);
        assert_eq!(end_us(3_000, 30 * 40 + 2), 1_005_000);
        assert_eq!(end_us(12_000, 0), 12_000);
    }

    #[test]
    fn what_is_sent_is_the_inverse_of_when_it_ends() {
        let trace = trace();
        for start_us in (0..60_000).step_by(700) {
            for bytes in [1, 9, 10, 11, 30, 31, 299] {
                let start = BEGUN + Duration::from_micros(start_us);
                let nanobits = bytes * NANOBITS_PER_BYTE + 12_345;
                let end = trace.finish(BEGUN, start.into(), nanobits);
                assert_eq!(trace.sent(BEGUN, start, end), nanobits);
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let second = Duration::from_secs(1);
        let refused = |steps: &[(Duration, u64)]| RateTrace::new(steps).unwrap_err();
        assert_eq!(refused(&[]), RateTraceError::Count(0));
        assert_eq!(refused(&[(second, 0)]), RateTraceError::NoRate);
        assert_eq!(
            refused(&[(second, 1), (Duration::ZERO, 1)]),
            RateTraceError::NoTime(2)
        );
        assert_eq!(
            refused(&[(Duration::MAX, 1), (Duration::MAX, 1)]),
            RateTraceError::TooLong
        );
        assert_eq!(trace().mean_bits_per_s(), 9_600);
    }

    #[test]
    fn the_end_of_time_is_no_trap() {
        let slow = RateTrace::new(&[(Duration::from_secs(1), 1)]).unwrap();
        let end = slow.finish(BEGUN, Instant::FAR_FUTURE.into(), NANOBITS_PER_BYTE);
        assert_eq!(end.rounded_up(), Instant::FAR_FUTURE);
    }
}
