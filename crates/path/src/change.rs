//! Changes to a running chain.

use core::time::Duration;

use crate::capacity::Capacity;
use crate::jitter::{Jitter, JitterError};
use crate::limit::Limit;
use crate::loss::LossModel;
use crate::probability::Probability;

/// A change to one direction of a path at a moment (see [`crate::Chain::apply`]).
///
/// A change applies to the first element of its kind in the chain. It neither drops nor reorders packets already in the
/// chain, except [`Change::Down`].
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Sets the delay of packets that reach the delay element from now on. Packets on the line keep their departure
    /// times; unless jitter lets packets overtake, no later one leaves before them, so a shorter delay takes effect
    /// after they have left.
    Delay(Duration),
    /// Sets the jitter, or none, of packets that reach the delay element from now on.
    Jitter(Option<Jitter>),
    /// Sets the link's capacity. The rest of the packet being sent goes at the new rate; waiting packets keep their
    /// order. A trace of rates begins now.
    Rate(Capacity),
    /// Sets the limit of the link's queue. Queued packets stay, even beyond the limit; no packet is admitted until it
    /// fits.
    QueueLimit(Limit),
    /// Sets the loss model. Packet numbers continue from the chain's beginning.
    Loss(LossModel),
    /// Sets the share of packets that is held back, and for how long. Packets held already keep their departure times.
    Reorder {
        /// Probability that a packet is held back.
        share: Probability,
        /// How long.
        by: Duration,
    },
    /// Sets the probability of duplication.
    Duplicate(Probability),
    /// Sets the probability of corruption.
    Corrupt(Probability),
    /// Sets the probability of a mark.
    Mark(Probability),
    /// Takes the path down: the packet being sent and those queued for the link are lost, and so are arrivals until it
    /// is up again; packets on the line arrive. No effect when it is down already.
    Down,
    /// Brings the path up again. No effect when it is up already.
    Up,
}

/// Why a change was rejected; nothing has changed then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The chain has no such element.
    #[error("the path has no {0} element")]
    NoElement(&'static str),
    /// Packets would arrive before they were sent.
    #[error(transparent)]
    Jitter(#[from] JitterError),
}
