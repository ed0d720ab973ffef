//! Frames in the order of their times. Interfaces with several queues, and files that several
//! interfaces write, have neighbours the wrong way round.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use pcap_parser::Linktype;

use super::frames::Frame;

/// What waits for an earlier frame, at most.
const MOST_FRAMES: usize = 1024;
const MOST_BYTES: usize = 1 << 24;
/// A frame that is earlier by more than this, in ns, has not been overtaken: its clock was set, or files
/// stand one behind the other.
const OVERTAKEN_NS: u64 = 1_000_000_000;

/// A frame that waits. The first two fields are its place.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    time_ns: u64,
    number: u64,
    interface: u32,
    link: i32,
    is_lost: bool,
    bytes: Vec<u8>,
}

/// Puts frames in order.
#[derive(Debug, Default)]
pub(super) struct Order {
    waiting: BinaryHeap<Reverse<Waiting>>,
    waiting_bytes: usize,
    newest_ns: u64,
    /// Memory of frames that have been given on, for those to come: to ask for it each time takes longer than to copy.
    spare: Vec<Vec<u8>>,
    spare_bytes: usize,
}

impl Order {
    /// Takes the next frame of the file, and gives on those that nothing can overtake any more.
    pub(super) fn take(
        &mut self,
        frame: &Frame<'_>,
        mut give: impl FnMut(&Frame<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if frame.time_ns.saturating_add(OVERTAKEN_NS) < self.newest_ns {
            self.rest(&mut give)?;
        }
        self.newest_ns = match self.waiting.is_empty() {
            true => frame.time_ns,
            false => self.newest_ns.max(frame.time_ns),
        };
        self.waiting_bytes += frame.bytes.len();
        let mut bytes = self.spare.pop().unwrap_or_default();
        self.spare_bytes -= bytes.capacity();
        bytes.extend_from_slice(frame.bytes);
        self.waiting.push(Reverse(Waiting {
            time_ns: frame.time_ns,
            number: frame.number,
            interface: frame.interface,
            link: frame.link.0,
            is_lost: frame.is_lost,
            bytes,
        }));
        while self.waiting.len() > MOST_FRAMES || self.waiting_bytes > MOST_BYTES {
            self.first(&mut give)?;
        }
        ControlFlow::Continue(())
    }

    /// Gives on all that waits.
    pub(super) fn rest(
        &mut self,
        mut give: impl FnMut(&Frame<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        while !self.waiting.is_empty() {
            self.first(&mut give)?;
        }
        ControlFlow::Continue(())
    }

    fn first(&mut self, give: &mut impl FnMut(&Frame<'_>) -> ControlFlow<()>) -> ControlFlow<()> {
        let Some(Reverse(mut first)) = self.waiting.pop() else {
            return ControlFlow::Continue(());
        };
        self.waiting_bytes -= first.bytes.len();
        let given = give(&Frame {
            number: first.number,
            time_ns: first.time_ns,
            interface: first.interface,
            link: Linktype(first.link),
            bytes: &first.bytes,
            is_lost: first.is_lost,
        });
        first.bytes.clear();
        if self.spare_bytes + first.bytes.capacity() <= MOST_BYTES {
            self.spare_bytes += first.bytes.capacity();
            self.spare.push(first.bytes);
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(times_ms: &[u64]) -> Vec<u64> {
        let mut order = Order::default();
        let mut given = Vec::new();
        let mut give = |frame: &Frame<'_>| {
            given.push(frame.number);
            ControlFlow::Continue(())
        };
        for (place, time_ms) in times_ms.iter().enumerate() {
            let frame = Frame {
                number: place as u64,
                time_ns: time_ms * 1_000_000,
                interface: 0,
                link: Linktype::ETHERNET,
                bytes: &[0; 60],
                is_lost: false,
            };
            assert_eq!(order.take(&frame, &mut give), ControlFlow::Continue(()));
            assert!(order.waiting.len() <= MOST_FRAMES);
        }
        assert_eq!(order.rest(&mut give), ControlFlow::Continue(()));
        given
    }

    #[test]
    fn neighbours_change_places_and_equal_times_do_not() {
        assert_eq!(order(&[5, 4, 7, 7, 6]), [1, 0, 4, 2, 3]);
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_the_files_order() {
        assert_eq!(order(&[9000, 9001, 100, 102, 101]), [0, 1, 2, 4, 3]);
    }

    #[test]
    fn a_long_file_is_in_order_without_all_of_it_in_memory() {
        let swapped: Vec<u64> = (0..5000).map(|place| place ^ 1).collect();
        assert_eq!(order(&swapped), swapped);
    }
}
