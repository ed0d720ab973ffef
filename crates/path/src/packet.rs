//! What goes into a chain and what comes out.

use wansan_trace::Instant;

/// A packet: its size as the path counts it, and whatever the caller carries with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<T> {
    /// Bytes that the packet takes on the link and in its queue.
    pub size_bytes: u32,
    /// The caller's own; the path never looks at it.
    pub payload: T,
}

/// How a packet left the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// At the far end.
    Delivered,
    /// The loss element took it.
    DroppedByLoss,
    /// A link's queue was full.
    DroppedByQueue,
    /// A delay line was full. The line of a well-built path holds all that its link can put into
    /// it, so this happens only to a delay without a link before it.
    DroppedByDelayLine,
}

/// A packet that left the path, by its far end or by being dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure<T> {
    /// The packet as it was put in.
    pub packet: Packet<T>,
    /// When it came to the path.
    pub entered: Instant,
    /// When it left: exactly the time that the path's arithmetic gives, however late it is polled.
    pub departed: Instant,
    /// By which way it left.
    pub fate: Fate,
}

/// A packet inside a chain.
#[derive(Debug, Clone)]
pub(crate) struct Transit<T> {
    pub(crate) packet: Packet<T>,
    /// When it came to the chain.
    pub(crate) entered: Instant,
    /// When it came to the element that holds it, or left the one that handed it out.
    pub(crate) at: Instant,
}

impl<T> Transit<T> {
    pub(crate) fn leave(self, fate: Fate) -> Departure<T> {
        Departure {
            packet: self.packet,
            entered: self.entered,
            departed: self.at,
            fate,
        }
    }
}
