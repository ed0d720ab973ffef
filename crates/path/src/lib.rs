//! WAN path elements as pure state machines, and chains of them.
//!
//! A [`Chain`] is one direction of one path: packets go in with the time they came, and come out
//! with the time they leave, which is computed in integer nanoseconds and does not depend on how
//! late anybody asked. No clock, socket or thread is touched; the same chain serves real frames,
//! a simulator and the tests.
//!
//! - [`packet`]: a [`Packet`] going in, a [`Departure`] coming out, and its [`Fate`];
//! - [`chain`]: elements in a stated order, and the order of calls;
//! - [`loss`]: independent (Bernoulli) loss;
//! - [`link`]: a sender of constant [`rate`] behind a drop-tail [`queue`];
//! - [`delay`]: constant propagation delay;
//! - [`limit`]: what a queue may hold;
//! - [`counters`]: what went in, came out, was dropped and is held.
//!
//! Each element is a file and a variant of [`chain::Element`].

pub mod chain;
pub mod counters;
pub mod delay;
pub mod limit;
pub mod link;
pub mod loss;
pub mod packet;
pub mod queue;
pub mod rate;

pub use chain::{Chain, ChainError, Element};
pub use counters::{Counters, Tally};
pub use delay::Delay;
pub use limit::Limit;
pub use link::Link;
pub use loss::{Bernoulli, LossError};
pub use packet::{Departure, Fate, Packet};
pub use queue::DropTail;
pub use rate::Rate;
