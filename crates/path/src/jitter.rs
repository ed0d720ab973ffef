//! Delays that vary from packet to packet.

use core::time::Duration;
use std::sync::Arc;

use wansan_trace::time::duration_ns;

use crate::probability::Random;

/// How far beyond its mean a normal delay is taken to reach: further out lies less than one packet
/// in 10^14.
const NORMAL_REACH: u64 = 8;

/// Variation of a delay.
#[derive(Debug, Clone, PartialEq)]
pub struct Jitter {
    /// How the delays of packets are distributed.
    pub distribution: Distribution,
    /// Whether a packet with a shorter delay overtakes one with a longer delay. When it does not,
    /// it leaves together with the packet before it, so delays are longer than the distribution
    /// says when packets follow each other in less than the jitter.
    pub overtaking: bool,
}

/// How the delays of packets are distributed around the constant delay.
#[derive(Debug, Clone, PartialEq)]
pub enum Distribution {
    /// Evenly from the delay less `spread` to the delay plus `spread`.
    Uniform {
        /// At most the delay.
        spread: Duration,
    },
    /// Normally around the delay. A delay below zero is drawn again, so the distribution is
    /// truncated there.
    Normal {
        /// The standard deviation, before that.
        deviation: Duration,
    },
    /// As in a table.
    Empirical(Quantiles),
}

/// What cannot be added to a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JitterError {
    /// Some packets would arrive before they were sent.
    #[error("jitter {jitter:?} exceeds the delay {delay:?}")]
    ExceedsDelay {
        /// What the jitter takes off the delay at most.
        jitter: Duration,
        /// The delay.
        delay: Duration,
    },
    /// A table has two quantiles at least, the lowest and the highest.
    #[error("a table of quantiles has 2 to {max} entries, not {0}", max = Quantiles::MAX)]
    Count(usize),
    /// Quantiles do not fall.
    #[error("quantile {0} is less than the one before it")]
    Falls(usize),
}

/// A table of quantiles: what is added to the delay, in nanoseconds, at probabilities that are
/// evenly spaced from 0 (the least) to 1 (the greatest). Between two of them it is linear.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantiles(Arc<[i64]>);

impl Quantiles {
    /// The longest table.
    pub const MAX: usize = 1 << 16;

    /// The table of these quantiles, in nanoseconds that are added to the delay.
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
    /// Whether every delay is still zero or more.
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

    /// The shortest and the longest delay around `delay`.
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
                // Half of the draws at least are above the mean, so this ends.
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
