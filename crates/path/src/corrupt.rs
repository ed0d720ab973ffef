//! Bit errors.

use crate::packet::Transit;
use crate::probability::{Probability, Random};

/// Flips one bit of each packet's payload with the same probability.
///
/// The element never accesses the bytes: it leaves a random number in the packet, from which the caller, who has them,
/// derives the bit (see [`crate::Departure::corrupted`]).
#[derive(Debug, Clone)]
pub struct Corrupt {
    probability: Probability,
    random: Random,
}

impl Corrupt {
    /// Corrupts with this probability. The same seed flips the same bits of the same packets.
    #[must_use]
    pub fn new(probability: Probability, seed: u64) -> Self {
        Corrupt {
            probability,
            random: Random::new(seed, "corrupt"),
        }
    }

    /// Probability that a packet is corrupted.
    #[must_use]
    pub fn probability(&self) -> Probability {
        self.probability
    }

    pub(crate) fn set_probability(&mut self, probability: Probability) {
        self.probability = probability;
    }

    /// Decides whether to corrupt the packet; returns whether it did.
    pub(crate) fn affects<T>(&mut self, transit: &mut Transit<T>) -> bool {
        let spoiled = self.random.decides(self.probability);
        if spoiled {
            transit.corrupted = Some(self.random.bits());
        }
        spoiled
    }
}
