//! Slowing down the sender of a connection from the receiving end: ECN-Echo (RFC 3168 §6.1.3) on request, without a
//! loss or a mark on the path.
//!
//! An [`EceSignal`] is a congestion control for *receiving* sockets, loaded in the kernel as long as the value lives.
//! On a connection with it ([`EceSignal::attach`]) it inspects every arriving segment. It signals when its owner asks
//! ([`EceSignal::ask`]: like `ioctl(SIOECN)` of a patched kernel), or, following its [`Order`], when more data wait
//! than allowed. A signal is ECE on every acknowledgement until the sender answers with CWR, so a sender reduces its
//! window at most once per round trip.
//!
//! It requires ECN on the connection, which the client has to request (`net.ipv4.tcp_ecn=1` there) and the accepting
//! host to accept (`net.ipv4.tcp_ecn` 1 or the default 2 there). What such a socket sends itself is governed by Reno
//! (RFC 5681), as by the kernel's `reno`, and all of it is ECN-capable (docs/internals/relay-control.md).

#[cfg(not(feature = "ebpf"))]
#[path = "ece/absent.rs"]
mod signal;
#[cfg(feature = "ebpf")]
mod signal;

pub use signal::EceSignal;
pub use wansan_split::{Order, Signals};

/// Prefix of the kernel's names of all [`EceSignal`]s; each process adds a number.
pub const NAME: &str = "wansan_ece";
