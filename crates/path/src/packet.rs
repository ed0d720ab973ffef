//! What goes into a chain and what comes out.

use core::time::Duration;

use wansan_trace::Instant;

/// A packet: the properties that a path uses, and the payload of the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<T> {
    /// Bytes that the packet takes on the link and in its queue, layer 2 included.
    pub size_bytes: u32,
    /// Its ECN codepoint.
    pub ecn: Ecn,
    /// Its class, for queues with priorities: 0 goes first.
    pub class: u8,
    /// The caller's own; the path never looks at it.
    pub payload: T,
}

impl<T> Packet<T> {
    /// A packet that is not ECN-capable, of class 0.
    #[must_use]
    pub const fn new(size_bytes: u32, payload: T) -> Self {
        Packet {
            size_bytes,
            ecn: Ecn::NotCapable,
            class: 0,
            payload,
        }
    }
}

/// The two ECN bits of an IP header (RFC 3168 §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Ecn {
    /// Not-ECT: its ends do not look at marks.
    #[default]
    NotCapable = 0b00,
    /// ECT(1).
    Capable1 = 0b01,
    /// ECT(0).
    Capable0 = 0b10,
    /// CE: congestion was experienced.
    Congestion = 0b11,
}

impl Ecn {
    /// The codepoint of these bits; only the lower two are looked at.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Ecn::NotCapable,
            0b01 => Ecn::Capable1,
            0b10 => Ecn::Capable0,
            _ => Ecn::Congestion,
        }
    }

    /// The two bits.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Whether a mark takes the place of a drop: any codepoint but Not-ECT.
    #[must_use]
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotCapable)
    }
}

/// How a packet left the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fate {
    /// At the far end.
    Delivered,
    /// The loss element took it.
    DroppedByLoss,
    /// A link's queue was full, or its discipline chose to drop it.
    DroppedByQueue,
    /// A delay line was full. The line of a well-built path holds all that its link can put into
    /// it, so this happens only to a delay without a link before it.
    DroppedByDelayLine,
    /// The path was down.
    DroppedByOutage,
}

/// A packet that left the path, by its far end or by being dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure<T> {
    /// The packet as it was put in, but for its ECN codepoint when it is `marked`.
    pub packet: Packet<T>,
    /// When it came to the path.
    pub entered: Instant,
    /// When it left: exactly the time that the path's arithmetic gives, however late it is polled.
    pub departed: Instant,
    /// How long its delay elements held it, by what they drew for it.
    pub delayed: Duration,
    /// By which way it left.
    pub fate: Fate,
    /// Whether the path set CE: the caller, which has the bytes, sets it in the IP header.
    pub marked: bool,
    /// Whether the path spoiled one bit of the payload, and which: bit number `n % bits` of its
    /// `bits` bits, where `n` is this random number.
    pub corrupted: Option<u64>,
    /// Whether this is a copy that a duplicate element made, and not what was put in.
    pub copy: bool,
}

/// A packet inside a chain.
#[derive(Debug, Clone)]
pub(crate) struct Transit<T> {
    pub(crate) packet: Packet<T>,
    /// When it came to the chain.
    pub(crate) entered: Instant,
    /// When it came to the element that holds it, or leaves it.
    pub(crate) at: Instant,
    pub(crate) delayed: Duration,
    pub(crate) corrupted: Option<u64>,
    pub(crate) marked: bool,
    pub(crate) copy: bool,
}

impl<T> Transit<T> {
    pub(crate) fn entering(packet: Packet<T>, entered: Instant) -> Self {
        Transit {
            packet,
            entered,
            at: entered,
            delayed: Duration::ZERO,
            corrupted: None,
            marked: false,
            copy: false,
        }
    }

    pub(crate) fn size_bytes(&self) -> u32 {
        self.packet.size_bytes
    }

    /// Sets CE. One that came with CE is not marked by this path.
    pub(crate) fn mark(&mut self) {
        self.marked |= self.packet.ecn != Ecn::Congestion;
        self.packet.ecn = Ecn::Congestion;
    }

    pub(crate) fn leave(self, fate: Fate) -> Departure<T> {
        Departure {
            packet: self.packet,
            entered: self.entered,
            departed: self.at,
            delayed: self.delayed,
            fate,
            marked: self.marked,
            corrupted: self.corrupted,
            copy: self.copy,
        }
    }
}
