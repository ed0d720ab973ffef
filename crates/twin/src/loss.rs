//! The share of packets that a path loses at random, and how precisely a recording determines it.

use std::fmt;

use statrs::distribution::{ContinuousCDF, Gamma};
use wansan_path::{LossModel, Probability};

/// Confidence level of the printed range.
const SURE: f64 = 0.95;
/// Bisection steps for a quantile: as many as a number has digits.
const HALVINGS: u32 = 53;

/// A share of random loss.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum LossShare {
    /// Set by a change, 0 to 1.
    Set(f64),
    /// As recorded.
    Recorded {
        /// Packets lost.
        lost: u64,
        /// Packets subject to loss, including the lost ones.
        of: u64,
    },
}

impl LossShare {
    /// The share that was set or recorded, 0 to 1.
    #[must_use]
    pub fn estimate(self) -> f64 {
        match self {
            LossShare::Set(share) => share,
            LossShare::Recorded { lost, of } => lost as f64 / of.max(1) as f64,
        }
    }

    /// Independent random loss with that share.
    pub(crate) fn model(self) -> LossModel {
        by_chance(self.estimate())
    }

    /// The share that the true one does not exceed with this probability, 0 to 1. When k of n packets were lost
    /// independently, the share is distributed as Gamma(k + 1/2, n), by Jeffreys' prior for a Poisson rate (H.
    /// Jeffreys, "An Invariant Form for the Prior Probability in Estimation Problems", 1946; L. D. Brown, T. T. Cai
    /// and A. DasGupta, "Interval Estimation in Exponential Families", 2003), also if the recording did not end
    /// because of n. A path that lost nothing is assumed to be lossless.
    pub(crate) fn quantile(self, probability: f64) -> f64 {
        let LossShare::Recorded {
            lost: lost @ 1..,
            of,
        } = self
        else {
            return self.estimate();
        };
        let shape = lost as f64 + 0.5;
        let count = Gamma::new(shape, 1.0).expect("the shape is above zero");
        // Bisection works for any shape; the library's Newton iteration fails for large ones.
        let (mut below, mut above) = (0.0, shape + 10.0 * (shape.sqrt() + 1.0));
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(below, above);
            match count.cdf(middle) < probability {
                true => below = middle,
                false => above = middle,
            }
        }
        (above / of as f64).min(1.0)
    }

    /// The lowest and the highest share that the recording allows, with 95 % confidence.
    #[must_use]
    pub fn range(self) -> [f64; 2] {
        [(1.0 - SURE) / 2.0, (1.0 + SURE) / 2.0].map(|probability| self.quantile(probability))
    }

    /// Whether the throughputs at the two ends of the range differ by more than this share: throughput is proportional
    /// to 1/√p, where p is the loss share (M. Mathis et al., "The Macroscopic Behavior of the TCP Congestion Avoidance
    /// Algorithm", 1997).
    pub(crate) fn is_vague(self, apart: f64) -> bool {
        let [least, most] = self.range();
        (most / least).sqrt() > 1.0 + apart
    }
}

/// Independent random loss with that share.
pub(crate) fn by_chance(share: f64) -> LossModel {
    let probability = Probability::new(share.clamp(0.0, 1.0));
    LossModel::Bernoulli(probability.unwrap_or(Probability::NEVER))
}

/// In percent, with two significant digits of the uncertainty: `0.013 % (0.006 to 0.025 %)`.
impl fmt::Display for LossShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = self.estimate() * 100.0;
        let [least, most] = self.range().map(|share| share * 100.0);
        if least >= most {
            return write!(f, "{share} %");
        }
        let places = (1.0 - (most - least).log10().floor()).clamp(0.0, 9.0) as usize;
        write!(
            f,
            "{share:.places$} % ({least:.places$} to {most:.places$} %)"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(lost: u64, of: u64) -> LossShare {
        LossShare::Recorded { lost, of }
    }

    /// Twice a share distributed as Gamma(k + 1/2, 1) is χ² with 2k + 1 degrees of freedom, for which there are
    /// tables.
    #[test]
    fn quantiles_are_those_of_chi_squared() {
        let tables = [
            (1, 0.025, 0.215_795),
            (1, 0.5, 2.365_974),
            (1, 0.975, 9.348_404),
            (8, 0.025, 7.564_186),
            (8, 0.5, 16.338_182),
            (8, 0.975, 30.191_009),
            (50, 0.025, 75.083_542),
            (50, 0.975, 130.700_030),
        ];
        for (lost, probability, twice) in tables {
            let share = recorded(lost, 1_000_000).quantile(probability);
            let expected = twice / 2e6;
            assert!(
                (share / expected - 1.0).abs() < 1e-4,
                "{lost} {probability}: {share} is not {expected}"
            );
        }
    }

    #[test]
    fn the_range_gets_narrower_with_more_packets() {
        let mut before = f64::INFINITY;
        // The same share, with up to more packets than any recording has.
        for times in [1, 10, 100, 10_000, 1_000_000] {
            let share = recorded(8 * times, 60_074 * times);
            let [least, most] = share.range();
            assert!(least < share.estimate() && share.estimate() < most);
            assert!(most - least < before, "{share}");
            before = most - least;
        }
        assert!(recorded(8, 60_074).is_vague(0.05));
        assert!(!recorded(8_000_000, 60_074_000_000).is_vague(0.05));
    }

    #[test]
    fn what_is_set_and_what_was_never_lost_is_certain() {
        for share in [LossShare::Set(0.25), recorded(0, 1000), recorded(0, 0)] {
            assert_eq!(share.range(), [share.estimate(); 2]);
            assert!(!share.is_vague(0.05));
        }
        assert_eq!(recorded(10, 10).quantile(0.975), 1.0);
    }

    #[test]
    fn digits_are_those_that_are_known() {
        let said = recorded(8, 60_074).to_string();
        assert_eq!(said, "0.013 % (0.006 to 0.025 %)");
        let said = recorded(80_000, 80_000_000).to_string();
        assert_eq!(said, "0.1000 % (0.0993 to 0.1007 %)");
        assert_eq!(LossShare::Set(0.25).to_string(), "25 %");
    }
}
