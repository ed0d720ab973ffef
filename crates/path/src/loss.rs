//! Packets that are lost on the way, by one of three models.

mod gilbert_elliott;
mod listed;

pub use gilbert_elliott::{GilbertElliott, GilbertElliottError};
pub use listed::{Listed, ListedError};

use crate::probability::{Probability, Random};

/// Which packets are lost.
#[derive(Debug, Clone, PartialEq)]
pub enum LossModel {
    /// Each with the same probability, whatever happened to the others (Bernoulli).
    Bernoulli(Probability),
    /// In bursts.
    GilbertElliott(GilbertElliott),
    /// Those with these numbers.
    Listed(Listed),
}

impl LossModel {
    /// No loss.
    pub const NONE: LossModel = LossModel::Bernoulli(Probability::NEVER);

    /// The share of the packets that is lost in the long run; none of a list's.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            LossModel::Bernoulli(probability) => probability.value(),
            LossModel::GilbertElliott(model) => model.mean_loss(),
            LossModel::Listed(_) => 0.0,
        }
    }
}

/// Drops packets as its model says, and lets the others pass at once. The same seed drops the same
/// packets, whatever the rest of the path does.
#[derive(Debug, Clone)]
pub struct Loss {
    model: LossModel,
    random: Random,
    /// Packets that have come; behind where there was no loss, as none is asked about then.
    came: u64,
    /// Whether Gilbert and Elliott's channel is in its bad state.
    bad: bool,
}

impl Loss {
    /// Loss by this model. Packets count from 1, and a channel begins in its good state.
    #[must_use]
    pub fn new(model: LossModel, seed: u64) -> Self {
        Loss {
            model,
            random: Random::new(seed, "loss"),
            came: 0,
            bad: false,
        }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &LossModel {
        &self.model
    }

    /// Takes another model, after so many packets; a channel begins in its good state.
    pub(crate) fn set_model(&mut self, model: LossModel, came: u64) {
        self.model = model;
        self.came = came;
        self.bad = false;
    }

    /// Decides the fate of the next packet.
    pub(crate) fn drops(&mut self) -> bool {
        self.came += 1;
        match &self.model {
            LossModel::Bernoulli(probability) => self.random.decides(*probability),
            LossModel::GilbertElliott(model) => model.drops(&mut self.bad, &mut self.random),
            LossModel::Listed(list) => list.contains(self.came),
        }
    }
}
