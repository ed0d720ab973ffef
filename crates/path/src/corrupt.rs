//! Bits that change on the way.

use crate::packet::Transit;
use crate::probability::{Probability, Random};

/// Spoils one bit of the payload of each packet with the same probability.
///
/// The element never sees the bytes: it leaves a random number in the packet, from which
/// the caller, which has them, derives the bit (see [`crate::Departure::corrupted`]).
#[derive(Debug, Clone)]
pub struct Corrupt {
    probability: Probability,
    random: Random,
}

impl Corrupt {
    /// Corrupts with this probability. The same seed spoils the same bits of the same packets.
    #[must_use]
    pub fn new(probability: Probability, seed: u64) -> Self {
        Corrupt {
            probability,
            random: Random::new(seed, "corrupt"),
        }
    }

    /// How likely it is that a packet is spoiled.
    #[must_use]
    pub fn probability(&self) -> Probability {
        self.probability
    }

    pub(crate) fn set_probability(&mut self, probability: Probability) {
        self.probability = probability;
    }

    /// Spoils the packet or not, and says whether it did.
    pub(crate) fn affects<T>(&mut self, transit: &mut Transit<T>) -> bool {
        let spoiled = self.random.decides(self.probability);
        if spoiled {
            transit.corrupted = Some(self.random.bits());
        }
        spoiled
    }
}
