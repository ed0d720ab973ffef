//! Data that a sender has sent and for which it has received no acknowledgement.

use std::collections::VecDeque;

use super::conversation::Segment;

/// An unacknowledged transmission.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) segment: Segment,
    /// The earliest time at which it can have left.
    pub(super) since_ns: u64,
    pub(super) is_again: bool,
}

/// What an acknowledgement covers of the outstanding data.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Acknowledged {
    pub(super) segments: u64,
    /// The last in the stream; of several transmissions of it, the latest.
    pub(super) newest: Option<Segment>,
    /// When the first of them to arrive did so.
    pub(super) oldest_ns: Option<u64>,
    /// Whether a short segment was outstanding before.
    pub(super) short_was_out: bool,
}

/// All unacknowledged transmissions. There may be a thousand, and an acknowledgement for every other one.
#[derive(Debug)]
pub(super) struct Outstanding {
    /// A segment below this is short.
    mss: u64,
    /// Transmissions of new data: each ends after the one before it.
    first: VecDeque<Sent>,
    /// Retransmissions, in order of time.
    again: Vec<Sent>,
    /// The number of short ones in both.
    short: usize,
}

impl Outstanding {
    pub(super) fn new(mss: u64) -> Outstanding {
        Outstanding {
            mss,
            first: VecDeque::new(),
            again: Vec::new(),
            short: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.first.len() + self.again.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// New data by stream position, then retransmissions by time.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Sent> {
        self.first.iter().chain(&self.again)
    }

    pub(super) fn push(&mut self, sent: Sent) {
        self.short += usize::from(sent.segment.payload_bytes < self.mss);
        match sent.is_again {
            true => self.again.push(sent),
            false => self.first.push_back(sent),
        }
    }

    /// Removes what is acknowledged by `acked`.
    pub(super) fn acknowledge(&mut self, acked: u64) -> Acknowledged {
        let mut found = Acknowledged {
            short_was_out: self.short > 0,
            ..Acknowledged::default()
        };
        let is_acked = |sent: &Sent| sent.segment.end() <= acked;
        let count = self.first.partition_point(is_acked);
        for sent in self.first.drain(..count) {
            self.short -= usize::from(sent.segment.payload_bytes < self.mss);
            found.add(&sent.segment);
        }
        for sent in self.again.extract_if(.., |sent| is_acked(sent)) {
            self.short -= usize::from(sent.segment.payload_bytes < self.mss);
            found.add(&sent.segment);
        }
        found
    }
}

impl Acknowledged {
    fn add(&mut self, segment: &Segment) {
        self.segments += 1;
        let age = |segment: &Segment| (segment.end(), segment.sent_ns);
        if self
            .newest
            .is_none_or(|newest| age(segment) >= age(&newest))
        {
            self.newest = Some(*segment);
        }
        self.oldest_ns = match (self.oldest_ns, segment.arrived_ns) {
            (Some(oldest_ns), Some(arrived_ns)) => Some(arrived_ns.min(oldest_ns)),
            (known, new) => known.or(new),
        };
    }
}
