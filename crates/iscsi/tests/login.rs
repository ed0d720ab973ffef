//! Logins in memory: wansan's initiator with wansan's target, known behaviour of foreign ends, and hostile ones.

mod authentication;
mod ends;
mod failures;
mod foreign_ends;
mod hostile_ends;
mod own_ends;
