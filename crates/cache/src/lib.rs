//! Hides the latency of a remote disk from a program with a low queue depth.
//!
//! - [`Cache`]: the state machine between a program's requests and the disk's operations;
//! - [`Action`], [`Answer`], [`Failure`]: requests to a disk and its answers, above and below the cache;
//! - [`Journal`]: keeps writes in a local file until the disk has them, above a cache;
//! - [`CacheConfig`]: its limits; [`Counters`]: its statistics.
//!
//! The program sees a disk with a volatile write cache, as defined by SBC-3 §4.15 and NBD: a write without FUA may be
//! lost until a flush issued after its acknowledgement has completed, and concurrent overlapping requests take effect
//! in any order.

mod action;
mod ahead;
mod cache;
mod clean;
mod config;
mod dirty;
mod estimate;
mod journal;
mod mark;
mod range;

pub use action::{Action, Answer, Extent, Failure, Outcome};
pub use cache::{Cache, Done, Operation};
pub use config::{CacheConfig, Counters};
pub use estimate::Estimate;
pub use journal::{Identity, Journal, JournalConfig, JournalFile, OpenError, Superblock};
pub use mark::Mark;
pub use range::Range;
