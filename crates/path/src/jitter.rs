//! Delays that vary from packet to packet.

use core::time::Duration;
use std::sync::Arc;

use wansan_trace::time::duration_ns;

use crate::probability::Random;

/// How far beyond its mean a normal delay may reach: the probability beyond is less than 10^-14.
const NORMAL_REACH: u64 = 8;

/// Variation of delay.
#[derive(Debug, Clone, PartialEq)]
pub struct Jitter {
    /// Distribution of the packets' delays.
    pub distribution: Distribution,
    /// Whether a packet with a shorter delay overtakes one with a longer delay. If not, it leaves together with its
    /// predecessor, so delays are longer than the distribution when packets follow each other within the jitter.
    pub overtaking: bool,
}

/// Distribution of the packets' delays around the constant delay.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Uniform from the delay minus `spread` to the delay plus `spread`.
    Uniform {
        /// At most the delay.
        spread: Duration,
    },
    /// Normal around the delay. A negative delay is drawn again, so the distribution is truncated at zero.
    Normal {
        /// The standard deviation before truncation.
        deviation: Duration,
    },
    /// From a table.
    Empirical(Quantiles),
}

/// Jitter that does not fit a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JitterError {
    /// Some packets would arrive before they were sent.
    #[error("jitter {jitter:?} exceeds the delay {delay:?}")]
    ExceedsDelay {
        /// The most that the jitter subtracts from the delay.
        jitter: Duration,
        /// The delay.
        delay: Duration,
    },
    /// A table needs at least two quantiles, the minimum and the maximum.
    #[error("a table of quantiles has 2 to {max} entries, not {0}", max = Quantiles::MAX)]
    Count(usize),
    /// Quantiles must not decrease.
    #[error("quantile {0} is less than the one before it")]
    Falls(usize),
}

/// A table of quantiles: the offset from the delay, in nanoseconds, at evenly spaced probabilities from 0 (the minimum)
/// to 1 (the maximum), with linear interpolation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantiles(Arc<[i64]>);

impl Quantiles {
    /// Most entries of a table.
    pub const MAX: usize = 1 << 16;

    /// The table of these quantiles, offsets from the delay in nanoseconds.
    ///
    /// # Errors
    /// [`JitterError::Count`] and [`JitterError::Falls`].
    pub fn new(offsets_ns: Vec<i64>) -> Result<Self, JitterError> {
        if !(2..=Quantiles::MAX).contains(&offsets_ns.len()) {
            return Err(JitterError::Count(offsets_ns.len()));
        }
        if let Some(place) = offsets_ns.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(JitterError::Falls(place + 2));
        }
        Ok(Quantiles(offsets_ns.into()))
    }

    /// The quantiles.
    #[must_use]
    pub fn offsets_ns(&self) -> &[i64] {
        &self.0
    }

    fn draw(&self, random: &mut Random) -> i64 {
        let steps = self.0.len() - 1;
        let place = random.unit() * steps as f64;
        // `unit` is less than 1, but its product with the steps may round up to them.
        let step = (place as usize).min(steps - 1);
        let (from, to) = (self.0[step], self.0[step + 1]);
        let rise = to.abs_diff(from) as f64 * (place - step as f64);
        from.saturating_add(rise.round() as i64)
    }
}

impl Jitter {
    /// Whether every delay is zero or more.
    ///
    /// # Errors
    /// [`JitterError::ExceedsDelay`].
    pub(crate) fn check(&self, delay: Duration) -> Result<(), JitterError> {
        let jitter = match &self.distribution {
            Distribution::Uniform { spread } => *spread,
            Distribution::Normal { .. } => Duration::ZERO,
            Distribution::Empirical(quantiles) => {
                Duration::from_nanos(quantiles.0[0].min(0).unsigned_abs())
            }
        };
        if jitter > delay {
            return Err(JitterError::ExceedsDelay { jitter, delay });
        }
        Ok(())
    }

    /// The minimum and maximum delay around `delay`.
    pub(crate) fn reach(&self, delay: Duration) -> (Duration, Duration) {
        let mean_ns = duration_ns(delay);
        let (least_ns, most_ns) = match &self.distribution {
            Distribution::Uniform { spread } => {
                let spread_ns = duration_ns(*spread);
                (
                    mean_ns.saturating_sub(spread_ns),
                    mean_ns.saturating_add(spread_ns),
                )
            }
            Distribution::Normal { deviation } => {
                let reach_ns = duration_ns(*deviation).saturating_mul(NORMAL_REACH);
                (
                    mean_ns.saturating_sub(reach_ns),
                    mean_ns.saturating_add(reach_ns),
                )
            }
            Distribution::Empirical(quantiles) => (
                mean_ns.saturating_add_signed(quantiles.0[0]),
                mean_ns.saturating_add_signed(quantiles.0[quantiles.0.len() - 1]),
            ),
        };
        (
            Duration::from_nanos(least_ns),
            Duration::from_nanos(most_ns),
        )
    }

    /// The next packet's delay.
    pub(crate) fn draw(&self, delay: Duration, random: &mut Random) -> Duration {
        let mean_ns = duration_ns(delay);
        let delay_ns = match &self.distribution {
            Distribution::Uniform { spread } => {
                let spread_ns = duration_ns(*spread);
                (mean_ns - spread_ns).saturating_add(random.up_to(spread_ns.saturating_mul(2)))
            }
            Distribution::Normal { deviation } => {
                let deviation_ns = duration_ns(*deviation) as f64;
                // At least half of the draws are above the mean, so this ends.
                let offset_ns = loop {
                    let offset_ns = (random.normal() * deviation_ns).round();
                    if mean_ns as f64 + offset_ns >= 0.0 {
                        break offset_ns;
                    }
                };
                mean_ns.saturating_add_signed(offset_ns as i64)
            }
            Distribution::Empirical(quantiles) => {
                mean_ns.saturating_add_signed(quantiles.draw(random))
            }
        };
        Duration::from_nanos(delay_ns)
    }
}
