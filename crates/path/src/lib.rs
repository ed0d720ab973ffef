//! WAN path elements as pure state machines, and chains of them.
//!
//! A [`Chain`] is one direction of one path: packets go in with the time they came, and come out
//! with the time they leave, which is computed in integer nanoseconds and does not depend on how
//! late anybody asked. No clock, socket or thread is touched; the same chain serves real frames,
//! a simulator and the tests.
//!
//! - [`packet`]: a [`Packet`] going in, a [`Departure`] coming out, and its [`Fate`];
//! - [`effects`]: one direction as a plan states it, and the usual chain for it;
//! - [`chain`]: elements in a stated order, and the order of calls;
//! - [`change`]: what may be changed while a chain runs;
//! - [`counters`]: what went in, came out, was dropped and is held, for a chain and each element;
//! - [`record`]: samples of these, as records;
//! - [`element`]: the kinds of element:
//!   [`loss`] (Bernoulli, Gilbert-Elliott, a list), [`outage`], [`mark`] (ECN), [`corrupt`],
//!   [`duplicate`], [`link`] (a [`capacity`] behind a [`queue`]: drop-tail, RED, CoDel, priority),
//!   [`reorder`], and [`delay`] (constant or with [`jitter`]);
//! - [`rate`] and [`rate_trace`]: what a link's capacity is made of;
//! - [`limit`]: what a queue may hold;
//! - [`probability`]: how likely things are.
//!
//! Each element is a file and a variant of [`Element`]. The same seed gives the same choices: every
//! element draws from a sequence of its own.

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
pub use packet::{Departure, Ecn, Fate, Packet};
pub use probability::{Probability, ProbabilityError};
pub use queue::{
    CoDel, CoDelError, CoDelParameters, DropTail, Priority, Queue, Red, RedError, RedParameters,
    Unit,
};
pub use rate::Rate;
pub use rate_trace::{RateTrace, RateTraceError};
pub use reorder::Reorder;
pub use sighting::{Boundary, Sighting};
