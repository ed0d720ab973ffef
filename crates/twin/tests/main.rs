//! Twins of recordings of simulated worlds, and what they predict.

mod captured;
mod recording;
mod refusals;
mod worlds;
