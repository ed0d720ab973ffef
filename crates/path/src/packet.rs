//! Packets entering and leaving a chain.

use core::time::Duration;

use wansan_trace::Instant;

/// IP bytes of the largest super-frame that a host sends to an emulated path, which segments it (`gso_max_size` of the
/// host's link). TCP fills it less MAX_TCP_HEADER, which is 192 to 320 bytes, by the kernel's configuration: with each of
/// these, 11 full packets with an MTU of 1500 bytes and timestamps.
pub const SUPER_FRAME_MAX_BYTES: u32 = (16 << 10) - 128;

/// A packet: the properties that a path uses, and the caller's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet<T> {
    /// Bytes of the packet on the link and in its queue, layer 2 included.
    pub size_bytes: u32,
    /// Its ECN codepoint.
    pub ecn: Ecn,
    /// Its class, for priority queues: 0 goes first.
    pub class: u8,
    /// The caller's; the path never reads it.
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
    /// Not-ECT: its endpoints ignore marks.
    #[default]
    NotCapable = 0b00,
    /// ECT(1).
    Capable1 = 0b01,
    /// ECT(0).
    Capable0 = 0b10,
    /// CE: congestion experienced.
    Congestion = 0b11,
}

impl Ecn {
    /// The codepoint of the lower two bits.
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
    /// Dropped by the loss element.
    DroppedByLoss,
    /// Dropped by a full queue of a link, or by its discipline.
    DroppedByQueue,
    /// Dropped by a full delay line. The line of a well-built path holds all that its link can put into it, so this
    /// happens only to a delay without a link before it.
    DroppedByDelayLine,
    /// Dropped while the path was down.
    DroppedByOutage,
}

/// A packet that left the path, at the far end or by a drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departure<T> {
    /// The packet as it entered, except its ECN codepoint when it is `marked`.
    pub packet: Packet<T>,
    /// When it entered the path.
    pub entered: Instant,
    /// When it left: exactly by the path's arithmetic, however late the poll.
    pub departed: Instant,
    /// How long delay elements held it: the sum of its drawn delays.
    pub delayed: Duration,
    /// How it left.
    pub fate: Fate,
    /// Whether the path set CE: the caller, who has the bytes, sets it in the IP header.
    pub marked: bool,
    /// Whether the path flipped one bit of the payload, and which: bit number `n % bits` of its `bits` bits, where `n`
    /// is this random number.
    pub corrupted: Option<u64>,
    /// Whether this is a copy by a duplicate element, and not the original.
    pub copy: bool,
}

/// A packet inside a chain.
#[derive(Debug, Clone)]
pub(crate) struct Transit<T> {
    pub(crate) packet: Packet<T>,
    /// When it entered the chain.
    pub(crate) entered: Instant,
    /// When it entered or left the present element.
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

    /// Sets CE. A packet that arrived with CE does not count as marked by this path.
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
