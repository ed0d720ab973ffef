//! What servers of TCP connections share.
//!
//! [`Threads`] runs a [`Worker`] on each thread: an event loop over a [`poller`], which owns its connections and
//! shares no lock with others on the way of a byte. Threads talk by mail ([`Mailboxes`]). One of them accepts for
//! all ([`Acceptor`]), up to a number of [`Seats`], and hands connections on. [`Complaints`] keeps a flood of bad
//! connections out of the log; [`descriptors`] raises the limit of open files; [`ProcessorTime`] says how busy
//! a thread is; [`Changes`] says what a reload did.
//!
//! The loop of a worker, in this order: [`Worker::before_wait`], the wait, [`Worker::accept`], [`Worker::mail`] and
//! [`Worker::ready`] as events have come, [`Worker::after_events`].

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
