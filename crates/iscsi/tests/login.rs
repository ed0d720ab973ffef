//! Logins in memory: of our initiator with our target, of foreign ends by what they are known to
//! send, and of hostile ones.

mod authentication;
mod ends;
mod failures;
mod foreign_ends;
mod hostile_ends;
mod own_ends;
