//! Simulated worlds whose populations and limits are known.

mod limits;
mod populations;
mod simulation;
mod wire;
