//! Packet loss, by one of three models.

mod gilbert_elliott;
mod listed;

pub use gilbert_elliott::{GilbertElliott, GilbertElliottError};
pub use listed::{Listed, ListedError};

use crate::probability::{Probability, Random};

/// Which packets are lost.
#[derive(Debug, Clone, PartialEq)]
pub enum LossModel {
    /// Each packet with the same probability, independently (Bernoulli).
    Bernoulli(Probability),
    /// In bursts.
    GilbertElliott(GilbertElliott),
    /// Packets with these numbers.
    Listed(Listed),
}

impl LossModel {
    /// No loss.
    pub const NONE: LossModel = LossModel::Bernoulli(Probability::NEVER);

    /// The long-term loss rate; 0 for a list.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match self {
            LossModel::Bernoulli(probability) => probability.value(),
            LossModel::GilbertElliott(model) => model.mean_loss(),
            LossModel::Listed(_) => 0.0,
        }
    }
}

/// Drops packets by its model, and passes the others at once. The same seed drops the same packets, independently of
/// the rest of the path.
#[derive(Debug, Clone)]
pub struct Loss {
    model: LossModel,
    random: Random,
    /// Packets that have arrived; not updated while there is no loss.
    came: u64,
    /// Whether the Gilbert-Elliott channel is in its bad state.
    bad: bool,
}

impl Loss {
    /// Loss by this model. Packets are numbered from 1, and a channel begins in its good state.
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

    /// Sets the model after `came` packets; a channel begins in its good state.
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
