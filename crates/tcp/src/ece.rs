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

use wansan_trace::Instant;

#[cfg(not(feature = "ebpf"))]
#[path = "ece/absent.rs"]
mod signal;
#[cfg(feature = "ebpf")]
mod signal;

pub use signal::EceSignal;

/// What the kernel's names of all [`EceSignal`]s begin with; each process that has one adds a number.
pub const NAME: &str = "wansan_ece";

/// What is wanted of a receiving socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Order {
    /// How often ECE was asked for since the connection began: one more is one signal, at the next
    /// segment that comes.
    pub asked: u64,
    /// Of the bytes that came on the connection, those that do not wait any more, …
    pub passed_bytes: u64,
    /// … at that moment.
    pub passed_at: Instant,
    /// Of those that wait, the ones that go although nobody does anything more, in bytes: as a kernel
    /// sends what was written.
    pub going_bytes: u64,
    /// How fast they go, in bytes per second.
    pub drain_bytes_per_s: u64,
    /// When more waits, it is signalled, in bytes, by the law of docs/internals/relay-control.md; 0: never.
    pub bound_bytes: u64,
    /// What has to be left to wait at the lowest point after a signal, in bytes: where it would be
    /// less, nothing is signalled.
    pub least_bytes: u64,
}

impl Order {
    /// `struct order` of `bpf/ece.bpf.c`.
    #[cfg(feature = "ebpf")]
    fn bytes(&self) -> Vec<u8> {
        let words = [
            self.asked,
            self.passed_bytes,
            self.passed_at.ns(),
            self.going_bytes,
            self.drain_bytes_per_s,
            self.bound_bytes,
            self.least_bytes,
        ];
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// What came of it, since the connection began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signals {
    /// Segments that were looked at: those that came since there was an order, on a connection with
    /// ECN.
    pub segments: u64,
    /// Times that ECE began.
    pub signals: u64,
    /// Times that the sender answered with CWR.
    pub answers: u64,
    /// Segments above the bound at which nothing was signalled, as the last cut was still at work.
    pub recovering: u64,
    /// Those at which a cut would have let what waits run out.
    pub spared: u64,
    /// Those at which a signal would have had no effect: the smallest window of a sender, two segments
    /// in a round trip, is more than drains.
    pub powerless: u64,
    /// The most that waited at an arriving segment, in bytes.
    pub backlog_max_bytes: u64,
    /// From the last signal to its answer, in ns, with what the sender waited until it sent the next
    /// segment; 0 before the first answer.
    pub loop_ns: u64,
    /// How fast bytes came in the last whole round trip, in bytes per second.
    pub arrival_bytes_per_s: u64,
}

impl Signals {
    /// From `struct told` of `bpf/ece.bpf.c`; none when the bytes are none.
    #[cfg(feature = "ebpf")]
    fn of_bytes(bytes: &[u8]) -> Option<Signals> {
        let word = |place: usize| {
            let word = bytes.get(place * 8..place * 8 + 8)?;
            Some(u64::from_ne_bytes(word.try_into().ok()?))
        };
        Some(Signals {
            segments: word(0)?,
            signals: word(1)?,
            answers: word(2)?,
            recovering: word(3)?,
            spared: word(4)?,
            powerless: word(5)?,
            backlog_max_bytes: word(6)?,
            loop_ns: word(7)?,
            arrival_bytes_per_s: word(8)?,
        })
    }
}
