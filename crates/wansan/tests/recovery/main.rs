//! The initiator's recovery over real sockets: a proxy cuts, holds and corrupts connections to a
//! target that is a process of its own, while a load that knows what the disk has to contain keeps
//! 64 writes in flight.
//!
//! Each test prints its seed and takes another from `WANSAN_SEED`; `WANSAN_ROUNDS` sets how many
//! faults each brings.

mod faults;
mod model;
mod proxy;
