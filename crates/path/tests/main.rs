//! Elements of paths and chains of them, in virtual time.

mod chain;
mod changes;
mod delays;
mod queues;
