//! What may be changed while a chain runs.

use core::time::Duration;

use crate::capacity::Capacity;
use crate::jitter::{Jitter, JitterError};
use crate::limit::Limit;
use crate::loss::LossModel;
use crate::probability::Probability;

/// A change to one direction of a path, at a moment (see [`crate::Chain::apply`]).
///
/// A change concerns the first element of its kind in the chain. What was on its way at that moment
/// is neither lost nor reordered by it, but for [`Change::Down`].
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Another delay, for the packets that come to the delay element from now on. Those on the line
    /// leave when they would have; unless jitter lets packets overtake, none that comes later leaves
    /// before them, so a shorter delay shows when the line has run empty of them.
    Delay(Duration),
    /// Another jitter, or none, for the packets that come to the delay element from now on.
    Jitter(Option<Jitter>),
    /// Another capacity of the link. The packet that it is sending finishes at the new rate from now
    /// on; those that wait stay in their order. A trace of rates begins now.
    Rate(Capacity),
    /// Another limit of the link's queue. What waits stays, even beyond the limit; no packet comes in
    /// until it fits.
    QueueLimit(Limit),
    /// Another model of loss. Packets are counted on from the chain's beginning.
    Loss(LossModel),
    /// Another share of packets that is held back, and for how long. Those that are leave when they
    /// would have.
    Reorder {
        /// How likely a packet is held back.
        share: Probability,
        /// For how long.
        by: Duration,
    },
    /// Another probability of a copy.
    Duplicate(Probability),
    /// Another probability of a spoiled bit.
    Corrupt(Probability),
    /// Another probability of a mark.
    Mark(Probability),
    /// The path goes down: the packet that the link is sending and those that wait for it are lost,
    /// and so is what comes until it is up again; what is on the line arrives. When it is down
    /// already nothing happens.
    Down,
    /// The path comes up again. When it is up already nothing happens.
    Up,
}

/// Why a change was not made; then everything is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The chain has no element that it concerns.
    #[error("the path has no {0} element")]
    NoElement(&'static str),
    /// Packets would arrive before they were sent.
    #[error(transparent)]
    Jitter(#[from] JitterError),
}
