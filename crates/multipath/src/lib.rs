//! Several unequal routes to one disk: what requests are expected to take on each, learned from completions
//! ([`Lane`]), so that each may go where it is done first.
//!
//! Pure: time comes in as [`wansan_trace::Instant`], and nothing is sent or received here.

mod lane;
mod window;

pub use lane::{Lane, Sent};
