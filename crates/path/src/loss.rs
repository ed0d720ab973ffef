//! Independent loss.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A loss probability that is none.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("loss probability {0}: must be from 0 (never) to 1 (always)")]
pub struct LossError(pub f64);

/// Drops each packet with the same probability, whatever happened to the others. The same seed
/// drops the same packets.
#[derive(Debug, Clone)]
pub struct Bernoulli {
    random: Pcg64Mcg,
    /// The probability in units of 2^-64: a draw of 64 bits below it drops.
    threshold: u128,
}

impl Bernoulli {
    /// Loss with this probability (0 to 1).
    ///
    /// # Errors
    /// [`LossError`] when the probability is outside 0 to 1 or not a number.
    pub fn new(probability: f64, seed: u64) -> Result<Self, LossError> {
        if !(0.0..=1.0).contains(&probability) {
            return Err(LossError(probability));
        }
        Ok(Bernoulli {
            random: Pcg64Mcg::seed_from_u64(seed),
            threshold: (probability * 2f64.powi(64)) as u128,
        })
    }

    /// Decides the fate of the next packet.
    pub(crate) fn drops(&mut self) -> bool {
        u128::from(self.random.next_u64()) < self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drops_of_a_million(probability: f64, seed: u64) -> u32 {
        let mut loss = Bernoulli::new(probability, seed).unwrap();
        (0..1_000_000).map(|_| u32::from(loss.drops())).sum()
    }

    #[test]
    fn a_million_packets_lose_their_share() {
        for (probability, seed) in [(0.01f64, 1), (0.3, 2), (0.0001, 3)] {
            let mean = 1e6 * probability;
            let sigma = (mean * (1.0 - probability)).sqrt();
            let drops = f64::from(drops_of_a_million(probability, seed));
            assert!(
                (drops - mean).abs() <= 3.0 * sigma,
                "probability {probability}, seed {seed}: {drops} drops, expected {mean} ± {}",
                3.0 * sigma
            );
        }
    }

    #[test]
    fn never_and_always() {
        assert_eq!(drops_of_a_million(0.0, 4), 0);
        assert_eq!(drops_of_a_million(1.0, 4), 1_000_000);
    }

    #[test]
    fn refuses_what_is_no_probability() {
        for wrong in [-0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert!(Bernoulli::new(wrong, 0).is_err());
        }
    }
}
