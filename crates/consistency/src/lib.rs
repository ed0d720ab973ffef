//! A simulation of a whole iSCSI target with many initiators, in one thread and in virtual time, and an
//! oracle that checks every answer against the standards.
//!
//! A [`History`] is plain data: the target, its logical units, the steps of each initiator, and the
//! restarts of the target. A seed generates one ([`History::of_seed`]); [`History::run`] executes it. The
//! state machines are those of the product ([`wansan_iscsi::target`], [`wansan_iscsi::initiator`]). The
//! seed of the schedule decides when bytes move and when stores work.
//!
//! [`History::run_against`] executes it against a target process over TCP, with the same initiators and
//! the same oracle. The seed then decides the steps, and the machine their timing.

mod arguments;
mod block;
mod command;
mod generate;
pub mod history;
mod initiator_port;
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
pub use oracle::kept::{Kept, Ledger};
pub use oracle::{Rule, Violation};
pub use page_cache::FailureRates;
pub use world::{Ending, Outcome, Served};
