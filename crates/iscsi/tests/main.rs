//! The session state machines in memory: their wire format, logins, sessions and connections, and hostile peers.

mod connections;
mod hostile;
mod login;
mod negotiation;
mod sessions;
mod wire;
