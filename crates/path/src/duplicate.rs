//! Packets that come twice.

use crate::probability::{Probability, Random};

/// Makes one copy of each packet with the same probability. The copy follows at once, through the
/// elements that come after this one; it takes its time on the link as the packet itself does.
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

    /// How likely a copy is.
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
