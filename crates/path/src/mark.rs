//! Random ECN marks.

use crate::packet::{Ecn, Transit};
use crate::probability::{Probability, Random};

/// Sets CE on each ECN-capable packet with the same probability; others, and those with CE already, are not affected
/// and draw no random number.
#[derive(Debug, Clone)]
pub struct Mark {
    probability: Probability,
    random: Random,
}

impl Mark {
    /// Marks with this probability. The same seed marks the same packets.
    #[must_use]
    pub fn new(probability: Probability, seed: u64) -> Self {
        Mark {
            probability,
            random: Random::new(seed, "mark"),
        }
    }

    /// Probability of a mark.
    #[must_use]
    pub fn probability(&self) -> Probability {
        self.probability
    }

    pub(crate) fn set_probability(&mut self, probability: Probability) {
        self.probability = probability;
    }

    /// Decides whether to mark the packet; returns whether it did.
    pub(crate) fn affects<T>(&mut self, transit: &mut Transit<T>) -> bool {
        let can_change = matches!(transit.packet.ecn, Ecn::Capable0 | Ecn::Capable1);
        let marked = can_change && self.random.decides(self.probability);
        if marked {
            transit.mark();
        }
        marked
    }
}
