//! Duplicated packets.

use crate::probability::{Probability, Random};

/// Copies each packet once with the same probability. The copy follows at once, through the elements after this one; it
/// needs transmission time on the link like the packet itself.
#[derive(Debug, Clone)]
pub struct Duplicate {
    probability: Probability,
    random: Random,
}

impl Duplicate {
    /// Copies with this probability. The same seed copies the same packets.
    #[must_use]
    pub fn new(probability: Probability, seed: u64) -> Self {
        Duplicate {
            probability,
            random: Random::new(seed, "duplicate"),
        }
    }

    /// Probability of a copy.
    #[must_use]
    pub fn probability(&self) -> Probability {
        self.probability
    }

    pub(crate) fn set_probability(&mut self, probability: Probability) {
        self.probability = probability;
    }

    /// Whether the next packet is copied.
    pub(crate) fn copies(&mut self) -> bool {
        self.random.decides(self.probability)
    }
}
