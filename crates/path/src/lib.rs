//! WAN path elements as pure state machines, and chains of them.
//!
//! A [`Chain`] is one direction of one path: packets enter with their arrival times, and leave with their departure
//! times, which are computed in integer nanoseconds and do not depend on how late the caller polls. It uses no clock,
//! socket or thread; the same chain serves real frames, a simulator and the tests.
//!
//! - [`packet`]: an entering [`Packet`], a [`Departure`], and its [`Fate`];
//! - [`effects`]: one direction as configured in a plan, and its standard chain;
//! - [`chain`]: elements in series, and the order of calls;
//! - [`change`]: changes to a running chain;
//! - [`counters`]: entered, delivered, dropped and held packets, of a chain and of each element;
//! - [`record`]: samples of the counters, as records;
//! - [`element`]: kinds of elements: [`loss`] (Bernoulli, Gilbert-Elliott, a list), [`outage`], [`mark`] (ECN),
//!   [`corrupt`], [`duplicate`], [`link`] (a [`capacity`] behind a [`queue`]: drop-tail, RED, CoDel, priority),
//!   [`reorder`], and [`delay`] (constant or with [`jitter`]);
//! - [`rate`] and [`rate_trace`]: constant and changing rates of a link;
//! - [`limit`]: limits of queues;
//! - [`probability`]: probabilities and random numbers.
//!
//! Each element is a file and a variant of [`Element`]. The same seed gives the same random choices: every element
//! draws from its own sequence.

pub mod capacity;
pub mod chain;
pub mod change;
pub mod corrupt;
pub mod counters;
pub mod delay;
mod delay_line;
pub mod duplicate;
pub mod effects;
pub mod element;
pub mod jitter;
pub mod limit;

pub mod link;
pub mod loss;
pub mod mark;
mod occupancy;
pub mod outage;
pub mod packet;
pub mod probability;
pub mod queue;
pub mod rate;
pub mod rate_trace;
pub mod record;
pub mod reorder;
pub mod sighting;
mod sink;

pub use capacity::Capacity;
pub use chain::Chain;
pub use change::{Change, ChangeError};
pub use corrupt::Corrupt;
pub use counters::{Counters, ElementCounters, Tally};
pub use delay::Delay;
pub use duplicate::Duplicate;
pub use effects::{Discipline, Effects, EffectsError};
pub use element::Element;
pub use jitter::{Distribution, Jitter, JitterError, Quantiles};
pub use limit::Limit;
pub use link::Link;
pub use loss::{GilbertElliott, GilbertElliottError, Listed, ListedError, Loss, LossModel};
pub use mark::Mark;
pub use outage::Outage;
pub use packet::{Departure, Ecn, Fate, Packet, SUPER_FRAME_MAX_BYTES};
pub use probability::{Probability, ProbabilityError};
pub use queue::{
    CoDel, CoDelError, CoDelParameters, DropTail, Priority, Queue, Red, RedError, RedParameters,
    Unit,
};
pub use rate::Rate;
pub use rate_trace::{RateTrace, RateTraceError};
pub use reorder::Reorder;
pub use sighting::{Boundary, Sighting};
