//! A world without a kernel: TCP as Linux has it, over the emulator's paths, in virtual time.
//!
//! - [`tcp`]: one end of a TCP connection as a pure state machine, which can be used alone;
//! - [`network`]: connections over links;
//! - [`storage`]: iSCSI initiators with their loads, and a target, over a network.
//!
//! Nothing here asks for the time, draws a number that no seed gave, or touches a socket or a thread.

mod caught;
pub mod network;
mod observe;
pub mod storage;
pub mod tcp;

pub use caught::caught;
