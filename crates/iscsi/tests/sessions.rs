//! Both ends of a session connected without sockets, and peers that violate the protocol.

mod combinations;
mod damage;
mod fences;
mod management;
mod memory;
mod misbehaviour;
pub(super) mod pair;
mod replay;
mod window;
