//! Counters of a chain.

/// A number of packets and their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Packets.
    pub packets: u64,
    /// Bytes, as in [`crate::Packet::size_bytes`].
    pub bytes: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, size_bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(size_bytes);
    }

    pub(crate) fn take(&mut self, size_bytes: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(size_bytes);
    }

    pub(crate) fn plus(self, other: Tally) -> Tally {
        Tally {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
        }
    }

    pub(crate) fn minus(self, other: Tally) -> Tally {
        Tally {
            packets: self.packets - other.packets,
            bytes: self.bytes - other.bytes,
        }
    }

    /// The maximum of each.
    pub(crate) fn max(self, other: Tally) -> Tally {
        Tally {
            packets: self.packets.max(other.packets),
            bytes: self.bytes.max(other.bytes),
        }
    }
}

/// A chain's counters since it began. Always `entered + duplicated = delivered + dropped_by_loss + dropped_by_queue +
/// dropped_by_delay_line + dropped_by_outage + held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Entered the path.
    pub entered: Tally,
    /// Copies made on the path.
    pub duplicated: Tally,
    /// Delivered at the far end.
    pub delivered: Tally,
    /// Dropped by loss elements.
    pub dropped_by_loss: Tally,
    /// Dropped by full queues, or by their disciplines.
    pub dropped_by_queue: Tally,
    /// Dropped by full delay lines.
    pub dropped_by_delay_line: Tally,
    /// Arrived at a path that was down, or queued there when it went down.
    pub dropped_by_outage: Tally,
    /// Marked with CE, by mark elements and by queues.
    pub marked: Tally,
    /// Corrupted by a bit error.
    pub corrupted: Tally,
    /// Held back for reordering.
    pub held_back: Tally,
    /// Inside the chain now.
    pub held: Tally,
    /// Of those held, the ones waiting in links' queues.
    pub queued: Tally,
    /// The most that ever waited in one link's queue.
    pub queued_high_water: Tally,
    /// Busy time of the busiest link.
    pub busy_ns: u64,
}

/// One element's counters since its chain began. Always `entered + duplicated = left + dropped + held`; an element that
/// acts at once holds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementCounters<'a> {
    /// The element's name: its kind, such as `link`, and from the second of a kind on a number, such as `link-2`.
    pub name: &'a str,
    /// Entered the element.
    pub entered: Tally,
    /// Left the element.
    pub left: Tally,
    /// Dropped, for any reason.
    pub dropped: Tally,
    /// Marked with CE.
    pub marked: Tally,
    /// Copies made.
    pub duplicated: Tally,
    /// Corrupted by a bit error.
    pub corrupted: Tally,
    /// Held back for reordering.
    pub held_back: Tally,
    /// Held now, including the packet that a link is sending.
    pub held: Tally,
    /// Waiting in a link's queue now; zero for any other element.
    pub queued: Tally,
    /// The most packets and the most bytes ever held, or for a link: ever queued.
    pub high_water: Tally,
    /// Busy time of a link; zero for any other element.
    pub busy_ns: u64,
}

/// Counts that an element keeps per packet; the others are derived.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Deeds {
    pub(crate) dropped: Tally,
    pub(crate) marked: Tally,
    pub(crate) duplicated: Tally,
    pub(crate) corrupted: Tally,
    pub(crate) held_back: Tally,
}
