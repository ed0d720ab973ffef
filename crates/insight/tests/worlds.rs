//! Simulated worlds whose populations and limits are known.

#![expect(
    clippy::disallowed_methods,
    reason = "worlds write the records that are read back"
)]

mod changing_delay;
mod limits;
mod lockstep;
mod packets;
mod populations;
mod run_folder;
mod sampled;
mod simulation;
mod wire;
