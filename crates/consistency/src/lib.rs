//! A machine that tries to catch the target breaking its word: a whole target with many initiators,
//! in one thread and in virtual time, and an oracle that knows what the standards allow.
//!
//! A [`History`] is plain data: the target, its units, what each initiator does and what happens to
//! the target. A seed generates one ([`History::of_seed`]); [`History::run`] carries it out. The
//! machines are the real ones ([`wansan_iscsi::target`], [`wansan_iscsi::initiator`]), and the seed
//! of the schedule decides which bytes move when and what the stores do when.
//!
//! [`History::run_against`] carries it out against a target in a process of its own, over TCP, with the same
//! initiators and the same oracle. Then the seed decides what is tried, and the machine when it happens.

mod arguments;
mod command;
mod generate;
pub mod history;
mod medium;
mod observer;
mod oracle;
mod page_cache;
mod random;
mod shrink;
mod store_queue;
mod target;
mod world;

pub use history::History;
pub use medium::FailureRates;
pub use oracle::kept::{Kept, Ledger};
pub use oracle::{Rule, Violation};
pub use world::{Ending, Outcome, Served};
