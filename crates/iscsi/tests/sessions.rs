//! Both ends of a session against each other, without sockets, and peers that break the rules.

mod combinations;
mod fences;
mod management;
mod memory;
mod misbehaviour;
pub(super) mod pair;
mod replay;
mod window;
