//! Tests of both machines together, and of each against bytes by hand.

mod disk;
mod handshake;
mod hostile;
mod machine;
mod pair;
mod replies;
mod requests;
mod servers;
