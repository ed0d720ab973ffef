//! Twins of recordings of simulated worlds, and what they predict.

mod captured;
mod loss;
mod mishaps;
mod recording;
mod refusals;
mod worlds;
