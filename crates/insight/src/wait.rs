//! An interval of an I/O's latency with one cause.

use wansan_trace::Layer;

use crate::cause::Cause;
use crate::traffic::FlowDirection;

/// What a wait's cause is derived from, in ascending order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// Crossings of layers.
    Crossings,
    /// Kernel time stamps.
    Stamps,
    /// Sequence numbers and times of PDUs.
    Pdus,
    /// A replay of packets.
    Packets,
    /// Samples of TCP_INFO.
    TcpInfo,
    /// Samples of a path, or of programs' threads.
    Resources,
}

impl Source {
    /// All sources.
    pub const ALL: [Source; 6] = [
        Source::Crossings,
        Source::Stamps,
        Source::Pdus,
        Source::Packets,
        Source::TcpInfo,
        Source::Resources,
    ];

    /// The source with that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<Source> {
        Source::ALL.into_iter().find(|source| source.name() == name)
    }

    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Source::Crossings => "crossings",
            Source::Stamps => "stamps",
            Source::Pdus => "pdus",
            Source::Packets => "packets",
            Source::TcpInfo => "tcp_info",
            Source::Resources => "resources",
        }
    }
}

/// A part of an I/O's latency with one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Its first nanosecond.
    pub from_ns: u64,
    /// The first nanosecond after it.
    pub to_ns: u64,
    /// The lowest layer that the I/O had entered and not left.
    pub layer: Layer,
    /// The direction of the bytes that waited; `None` while a program or the store had the I/O.
    pub way: Option<FlowDirection>,
    /// The cause of the wait.
    pub cause: Cause,
    /// What the cause is derived from.
    pub source: Source,
    /// How much of it may belong to the adjacent waits.
    pub uncertain_ns: u64,
}

impl Wait {
    /// How long it is.
    #[must_use]
    pub fn length_ns(&self) -> u64 {
        self.to_ns - self.from_ns
    }
}
