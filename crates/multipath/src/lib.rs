//! Several unequal routes to one disk: expected completion times on each, learned from completions ([`Lane`]), so that
//! each request takes the route that completes it first; which routes to use where requests are ordered; one queue
//! above the sessions on these routes ([`Multipath`]); and when to retry a lost route ([`Flapping`]).
//!
//! Pure: time comes in as [`wansan_trace::Instant`]; this crate does no I/O.

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
