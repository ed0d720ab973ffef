//! Recent frames, to find those captured more than once: at several interfaces, or before and after an element of a
//! path.

use std::hash::{BuildHasher as _, Hasher as _};
use std::net::SocketAddr;

use super::frames::Frame;
use super::segment::Segment;

/// Number of recent frames among which a copy is found, and the maximum delay of a copy at the same interface.
const MOST_MARKS: usize = 65_536;
const COPY_NS: u64 = 1_000_000;
/// Number of hash slots. It is small so that they stay in the CPU cache: every frame is inserted, but few are looked
/// up.
const SLOTS: usize = 1 << 14;

/// First sights of frames, in a ring buffer, with the newest one for each value of the mark's lowest bits.
#[derive(Debug, Default)]
pub(super) struct Marks {
    by: foldhash::fast::RandomState,
    sights: Vec<Sight>,
    /// Number of sights so far.
    count: u32,
    /// By a mark's lowest bits: the number of the newest sight, from 1.
    newest: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Sight {
    mark: Mark,
    time_ns: u64,
    interface: u32,
    /// Its connection, and its index there.
    at: (u32, u32),
    /// The number of the previous sight with the same lowest bits.
    before: u32,
}

/// A hash that is equal for all captured copies of one segment, but differs for a retransmission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Marks {
    /// Computes the mark of a segment.
    pub(super) fn mark(&self, segment: &Segment<'_>) -> Mark {
        let mut hasher = self.by.build_hasher();
        for end in [segment.source, segment.destination] {
            match end {
                SocketAddr::V4(end) => hasher.write_u32(end.ip().to_bits()),
                SocketAddr::V6(end) => hasher.write_u128(end.ip().to_bits()),
            }
        }
        hasher.write_u16(segment.identification);
        hasher.write_u64(segment.payload_bytes);
        // The checksum is left out: offloading may fill it in on the way.
        let (before, behind) = segment.header.split_at(16);
        hasher.write(before);
        hasher.write(&behind[2..]);
        Mark(hasher.finish())
    }

    /// The index in its connection of the segment's first capture, if this frame is a copy of it.
    pub(super) fn copy_of(
        &self,
        mark: Mark,
        frame: &Frame<'_>,
        connection: usize,
    ) -> Option<usize> {
        let known = self.find(mark)?;
        let is_soon = frame.time_ns.saturating_sub(known.time_ns) <= COPY_NS;
        let is_copy = known.interface != frame.interface || is_soon;
        let (of, seen) = known.at;
        (of as usize == connection && is_copy).then_some(seen as usize)
    }

    fn find(&self, mark: Mark) -> Option<&Sight> {
        let mut number = *self.newest.get(slot(mark))?;
        while number > 0 && self.count - number < MOST_MARKS as u32 {
            let sight = &self.sights[place(number)];
            if sight.mark == mark {
                return Some(sight);
            }
            number = sight.before;
        }
        None
    }

    /// Remembers the first sight of a segment, with its connection and its index there.
    pub(super) fn remember(
        &mut self,
        mark: Mark,
        frame: &Frame<'_>,
        (connection, seen): (usize, usize),
    ) {
        if self.count == u32::MAX {
            self.sights.clear();
            self.newest.clear();
            self.count = 0;
        }
        self.newest.resize(SLOTS, 0);
        self.count += 1;
        let newest = &mut self.newest[slot(mark)];
        let sight = Sight {
            mark,
            time_ns: frame.time_ns,
            interface: frame.interface,
            at: (connection as u32, seen as u32),
            before: std::mem::replace(newest, self.count),
        };
        match self.sights.get_mut(place(self.count)) {
            Some(oldest) => *oldest = sight,
            None => self.sights.push(sight),
        }
    }
}

fn slot(mark: Mark) -> usize {
    mark.0 as usize % SLOTS
}

fn place(number: u32) -> usize {
    (number as usize - 1) % MOST_MARKS
}
