//! Probabilities, and the random numbers that apply them.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A number that is no probability.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("probability {0} is not from 0 (never) to 1 (always)")]
pub struct ProbabilityError(pub f64);

/// A probability, from 0 (never) to 1 (always).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Probability {
    /// The probability in units of 2^-64: true for a 64-bit draw below it.
    threshold: u128,
}

impl Probability {
    /// Never happens.
    pub const NEVER: Probability = Probability { threshold: 0 };

    /// A probability from 0 to 1.
    ///
    /// # Errors
    /// [`ProbabilityError`] when it is out of range or not a number.
    pub fn new(probability: f64) -> Result<Self, ProbabilityError> {
        if !(0.0..=1.0).contains(&probability) {
            return Err(ProbabilityError(probability));
        }
        Ok(Probability {
            threshold: (probability * 2f64.powi(64)) as u128,
        })
    }

    /// From 0 to 1.
    #[must_use]
    pub fn value(self) -> f64 {
        self.threshold as f64 / 2f64.powi(64)
    }
}

/// One element's sequence of random numbers, so that draws of one element do not affect another.
#[derive(Debug, Clone)]
pub(crate) struct Random(Pcg64Mcg);

impl Random {
    /// The sequence of the element `of` in a chain with this seed.
    pub(crate) fn new(seed: u64, of: &str) -> Self {
        // FNV-1a keeps the sequences of one seed apart.
        let name = of.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Random(Pcg64Mcg::seed_from_u64(seed ^ name))
    }

    /// Whether it happens this time. A probability of 0 draws no number.
    pub(crate) fn decides(&mut self, probability: Probability) -> bool {
        probability.threshold > 0 && u128::from(self.bits()) < probability.threshold
    }

    /// 64 random bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform from 0 to below 1, with 53 random bits.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / 2f64.powi(53)
    }

    /// Uniform from 0 to `most`.
    pub(crate) fn up_to(&mut self, most: u64) -> u64 {
        // The bias of not redrawing is below `most` / 2^64.
        ((u128::from(self.bits()) * (u128::from(most) + 1)) >> 64) as u64
    }

    /// Standard normal: mean 0 and standard deviation 1.
    pub(crate) fn normal(&mut self) -> f64 {
        rand_distr::Distribution::sample(&rand_distr::StandardNormal, &mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(probability: f64, seed: u64) -> f64 {
        let mut random = Random::new(seed, "test");
        let probability = Probability::new(probability).unwrap();
        let yes = (0..1_000_000).filter(|_| random.decides(probability));
        yes.count() as f64 / 1e6
    }

    #[test]
    fn of_a_million_its_share_happens() {
        for (probability, seed) in [(0.01, 1), (0.3, 2), (0.0001, 3), (0.999, 4)] {
            let sigma = (probability * (1.0 - probability) / 1e6f64).sqrt();
            let happened = share(probability, seed);
            assert!(
                (happened - probability).abs() <= 3.0 * sigma,
                "probability {probability}, seed {seed}: {happened}"
            );
        }
    }

    #[test]
    fn never_and_always() {
        assert_eq!(share(0.0, 5), 0.0);
        assert_eq!(share(1.0, 6), 1.0);
        assert_eq!(Probability::new(1.0).unwrap().value(), 1.0);
    }

    #[test]
    fn refuses_what_is_no_probability() {
        for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Probability::new(wrong).is_err());
        }
    }

    #[test]
    fn sequences_of_one_seed_are_kept_apart() {
        let first = |of| Random::new(7, of).bits();
        assert_ne!(first("loss"), first("mark"));
        assert_eq!(first("loss"), first("loss"));
    }

    #[test]
    fn up_to_reaches_both_ends() {
        let mut random = Random::new(8, "test");
        let drawn: Vec<u64> = (0..1_000).map(|_| random.up_to(3)).collect();
        assert_eq!(
            (drawn.iter().min(), drawn.iter().max()),
            (Some(&0), Some(&3))
        );
        assert_eq!(random.up_to(0), 0);
    }
}
