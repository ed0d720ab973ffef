//! Twins of recordings of simulated worlds, and what they predict.

mod recording;
mod refusals;
mod worlds;
