//! What a chain counts.

/// A number of packets and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes, as [`crate::Packet::size_bytes`] says.
    pub bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, size_bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(size_bytes);
    }

    pub(crate) fn plus(self, other: Tally) -> Tally {
        Tally {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
        }
    }

    /// The greater of each.
    pub(crate) fn max(self, other: Tally) -> Tally {
        Tally {
            packets: self.packets.max(other.packets),
            bytes: self.bytes.max(other.bytes),
        }
    }
}

/// A chain's counters since it began. At every moment
/// `entered = delivered + dropped_by_loss + dropped_by_queue + dropped_by_delay_line + held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// What was put in.
    pub entered: Tally,
    /// What came out at the far end.
    pub delivered: Tally,
    /// What loss elements took.
    pub dropped_by_loss: Tally,
    /// What full queues dropped.
    pub dropped_by_queue: Tally,
    /// What full delay lines dropped.
    pub dropped_by_delay_line: Tally,
    /// What is inside now.
    pub held: Tally,
    /// The part of it that waits in links' queues.
    pub queued: Tally,
    /// The most that ever waited in one link's queue.
    pub queued_high_water: Tally,
    /// Time for which the busiest link has been sending.
    pub busy_ns: u64,
}
