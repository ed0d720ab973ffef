//! Simulated worlds whose populations and limits are known.

mod limits;
mod populations;
mod run_folder;
mod simulation;
mod wire;
