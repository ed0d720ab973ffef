//! Several unequal routes to one disk.
//!
//! - [`Lane`]: what requests of one direction are expected to take on one route, learned from completions;
//! - [`Policy`]: which route takes the next request.
//!
//! Pure: time comes in as [`wansan_trace::Instant`], and nothing is sent or received here.

mod lane;
mod policy;
mod window;

pub use lane::{Lane, Sent};
pub use policy::{Policy, Selector, Way};
