//! Sorts frames by time. Interfaces with several queues, and files written by several interfaces, have neighbouring
//! frames out of order.

use std::collections::VecDeque;
use std::io::Read;
use std::ops::ControlFlow;

use super::CaptureEnd;
use super::frames::{Frame, Frames, Next, Placed};
use super::kept::Kept;

/// Maximum frames and bytes that wait for earlier frames.
const MOST_FRAMES: usize = 1024;
const MOST_BYTES: usize = 1 << 24;
/// A frame that is earlier by more than this, in ns, was not merely reordered: its clock was set, or files were
/// concatenated.
const OVERTAKEN_NS: u64 = 1_000_000_000;

/// A reordering buffer for frames.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// By time; frames with equal times in order of arrival.
    waiting: VecDeque<Placed>,
    waiting_bytes: usize,
    newest_ns: u64,
    kept: Kept,
}

impl Order {
    /// Reads a file, whose first frame is numbered `number` + 1, until its end, until it is damaged, or until `give`
    /// breaks; returns how that ended, and the number of the last frame. Frames that those of later files may precede
    /// keep waiting. `None` if this is not a capture.
    pub(super) fn read(
        &mut self,
        file: impl Read,
        number: u64,
        mut give: impl FnMut(&Frame<'_>) -> ControlFlow<()>,
    ) -> Option<(CaptureEnd, u64)> {
        let at = self.kept.end();
        let waiting = &self.waiting;
        let mut frames = Frames::open(file, number, &mut self.kept, || needed(waiting, at))?;
        let end = loop {
            match frames.next(&self.kept) {
                Next::Frame(placed) => {
                    if self.put(placed, &mut give).is_break() {
                        break CaptureEnd::Full;
                    }
                }
                Next::More => {
                    let (at, waiting) = (frames.at(), &self.waiting);
                    if let Err(end) = frames.read(&mut self.kept, || needed(waiting, at)) {
                        break end;
                    }
                }
                Next::End(end) => break end,
            }
        };
        Some((end, frames.number()))
    }

    /// Takes the next frame, and passes on those that can no longer be preceded by another.
    pub(super) fn take(
        &mut self,
        frame: &Frame<'_>,
        give: impl FnMut(&Frame<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let at = self.kept.end();
        self.kept.push(frame.bytes, || needed(&self.waiting, at));
        let length = frame.bytes.len();
        let placed = Placed {
            number: frame.number,
            time_ns: frame.time_ns,
            interface: frame.interface,
            link: frame.link,
            is_lost: frame.is_lost,
            place: self.kept.end() - length as u64,
            length,
        };
        self.put(placed, give)
    }

    fn put(
        &mut self,
        placed: Placed,
        mut give: impl FnMut(&Frame<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        if placed.time_ns.saturating_add(OVERTAKEN_NS) < self.newest_ns {
            self.rest(&mut give)?;
        }
        self.newest_ns = match self.waiting.is_empty() {
            true => placed.time_ns,
            false => self.newest_ns.max(placed.time_ns),
        };
        self.waiting_bytes += placed.length;
        let later = self.waiting.iter().rev();
        let later = later.take_while(|other| other.time_ns > placed.time_ns);
        match later.count() {
            0 => self.waiting.push_back(placed),
            later => self.waiting.insert(self.waiting.len() - later, placed),
        }
        while self.waiting.len() > MOST_FRAMES || self.waiting_bytes > MOST_BYTES {
            self.first(&mut give)?;
        }
        ControlFlow::Continue(())
    }

    /// Passes on all waiting frames.
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
        let Some(first) = self.waiting.pop_front() else {
            return ControlFlow::Continue(());
        };
        self.waiting_bytes -= first.length;
        give(&first.frame(&self.kept))
    }
}

/// Position of the first byte needed, if those from `next` on are.
fn needed(waiting: &VecDeque<Placed>, next: u64) -> u64 {
    let places = waiting.iter().map(|placed| placed.place);
    places.min().map_or(next, |first| first.min(next))
}

#[cfg(test)]
mod tests {
    use pcap_parser::Linktype;

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
