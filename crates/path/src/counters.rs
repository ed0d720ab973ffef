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

    /// The greater of each.
    pub(crate) fn max(self, other: Tally) -> Tally {
        Tally {
            packets: self.packets.max(other.packets),
            bytes: self.bytes.max(other.bytes),
        }
    }
}

/// A chain's counters since it began. At every moment `entered + duplicated = delivered +
/// dropped_by_loss + dropped_by_queue + dropped_by_delay_line + dropped_by_outage + held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// What was put in.
    pub entered: Tally,
    /// Copies that were made on the way.
    pub duplicated: Tally,
    /// What came out at the far end.
    pub delivered: Tally,
    /// What loss elements took.
    pub dropped_by_loss: Tally,
    /// What full queues, or their disciplines, dropped.
    pub dropped_by_queue: Tally,
    /// What full delay lines dropped.
    pub dropped_by_delay_line: Tally,
    /// What came to a path that was down, or waited there when it went down.
    pub dropped_by_outage: Tally,
    /// What was marked with CE, by mark elements and by queues.
    pub marked: Tally,
    /// What had a bit spoiled.
    pub corrupted: Tally,
    /// What was held back so that others overtake it.
    pub held_back: Tally,
    /// What is inside now.
    pub held: Tally,
    /// The part of it that waits in links' queues.
    pub queued: Tally,
    /// The most that ever waited in one link's queue.
    pub queued_high_water: Tally,
    /// Time for which the busiest link has been sending.
    pub busy_ns: u64,
}

/// One element's counters since its chain began. At every moment `entered + duplicated = left +
/// dropped + held`; one that acts at once holds nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElementCounters<'a> {
    /// The element's name: its kind, such as `link`, and from the second of a kind on its number,
    /// such as `link-2`.
    pub name: &'a str,
    /// What came to it.
    pub entered: Tally,
    /// What went on from it.
    pub left: Tally,
    /// What it dropped, for whichever reason.
    pub dropped: Tally,
    /// What it marked with CE.
    pub marked: Tally,
    /// Copies that it made.
    pub duplicated: Tally,
    /// What it spoiled a bit of.
    pub corrupted: Tally,
    /// What it held back so that others overtake it.
    pub held_back: Tally,
    /// What it holds now, with the packet that a link is sending.
    pub held: Tally,
    /// What waits in a link's queue now; zero for any other element.
    pub queued: Tally,
    /// The most packets and the most bytes that it ever held, or for a link: that ever waited.
    pub high_water: Tally,
    /// Time for which a link has been sending; zero for any other element.
    pub busy_ns: u64,
}

/// What an element did, as far as it is counted packet by packet; the rest follows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Deeds {
    pub(crate) dropped: Tally,
    pub(crate) marked: Tally,
    pub(crate) duplicated: Tally,
    pub(crate) corrupted: Tally,
    pub(crate) held_back: Tally,
}
