//! What hides the latency of a remote disk from a program that asks for little at a time.
//!
//! - [`Cache`]: the machine between a program's requests and the disk's operations;
//! - [`Action`], [`Answer`], [`Failure`]: what is asked of a disk, on either side of it;
//! - [`Journal`]: writes kept in a local file until they are at the disk, above a cache;
//! - [`CacheConfig`]: how much it may keep; [`Counters`]: what it has done.
//!
//! The disk that the program sees is one with a volatile write cache, as SBC-3 §4.15 and NBD have it: a write
//! without FUA may be lost until a flush issued after its acknowledgement has completed, and requests
//! that overlap in time and place take effect in any order.

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
