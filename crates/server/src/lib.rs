//! Common parts of TCP servers.
//!
//! [`Threads`] runs a [`Worker`] on each thread: an event loop over a [`poller`], which owns its connections and
//! takes no shared lock on the data path. Threads exchange messages ([`Mailboxes`]). One of them accepts for
//! all ([`Acceptor`]), up to a number of [`Seats`], and hands connections over. [`Complaints`] rate-limits log lines
//! about bad connections; [`descriptors`] raises the limit of open files; [`ProcessorTime`] measures how busy
//! a thread is; [`Changes`] describes the effects of a reload.
//!
//! The loop of a worker, in this order: [`Worker::before_wait`], the wait, [`Worker::accept`], [`Worker::mail`] and
//! [`Worker::ready`] for the events, [`Worker::after_events`].

mod acceptor;
mod changes;
mod complaints;
pub mod descriptors;
mod mailbox;
pub mod poller;
mod processor;
mod seats;
mod threads;

pub use acceptor::{ACCEPTS_PER_TURN, Acceptor, Batch, Connection, Pause};
pub use changes::Changes;
pub use complaints::Complaints;
pub use mailbox::Mailboxes;
pub use poller::{Poller, Ready};
pub use processor::ProcessorTime;
pub use seats::{Seat, Seats};
pub use threads::{LISTENER, MAILBOX, Threads, Worker};
