//! Several unequal routes to one disk: what requests are expected to take on each, learned from completions
//! ([`Lane`]), so that each may go where it is done first; which routes are worth taking where requests have an order; one queue above sessions that take these routes
//! ([`Multipath`]); and when to come back to a route that was lost ([`Flapping`]).
//!
//! Pure: time comes in as [`wansan_trace::Instant`], and nothing is sent or received here.

mod extents;
mod flapping;
mod in_order;
mod lane;
mod multipath;
mod plateau;
mod window;

pub use flapping::Flapping;
pub use in_order::{InOrder, Route};
pub use lane::{Lane, Sent};
pub use multipath::{Kind, Multipath, Request, RequestId};
