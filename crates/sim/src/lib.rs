//! A simulator in virtual time: TCP as in Linux, over the emulator's paths, without a kernel.
//!
//! - [`tcp`]: one end of a TCP connection as a pure state machine, usable on its own;
//! - [`network`]: connections over links;
//! - [`storage`]: iSCSI initiators with their loads, and a target, over a network.
//!
//! Nothing here reads a clock, uses unseeded randomness, or touches a socket or a thread.

mod caught;
pub mod network;
mod observe;
pub mod storage;
pub mod tcp;

pub use caught::caught;
