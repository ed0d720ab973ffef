//! Asking the sender of a connection to slow down, from the receiving end: ECN-Echo (RFC 3168 §6.1.3)
//! on a program's word, without a loss and without a mark on the path.
//!
//! An [`EceSignal`] is a congestion control for *receiving* sockets, which this process has in the
//! kernel as long as the value lives. A connection that was given it ([`EceSignal::attach`]) looks at
//! every arriving segment, in step with it. It signals when its owner asks ([`EceSignal::ask`]: what
//! `ioctl(SIOECN)` of a patched kernel was for), or, by the [`Order`] that it has, when more waits than
//! may. A signal is ECE on every acknowledgement until the sender answers with CWR, so a sender cuts
//! its window once in a round trip at most.
//!
//! Only a connection with ECN can have it, which its client has to offer (`net.ipv4.tcp_ecn=1` there)
//! and the accepting host to take up (`net.ipv4.tcp_ecn` 1 or 2, the kernel's usual one, there). What
//! such a socket sends itself is governed by Reno (RFC 5681), as `reno` of the kernel, and all of it
//! is ECN-capable (docs/internals/relay-control.md).

#[cfg(not(feature = "ebpf"))]
#[path = "ece/absent.rs"]
mod signal;
#[cfg(feature = "ebpf")]
mod signal;

pub use signal::EceSignal;
pub use wansan_split::{Order, Signals};

/// What the kernel's names of all [`EceSignal`]s begin with; each process that has one adds a number.
pub const NAME: &str = "wansan_ece";
