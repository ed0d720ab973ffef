//! The window that a sender is offered, as a bound on what waits to be read.

use super::{Memory, Reading, Sides};

/// Less than this in the receive queue does not tell how much memory bytes take.
const TELLING_BYTES: u64 = 16 << 10;

/// A receive buffer of memory stands for so many parts of it in bytes of data, out of 256.
const PARTS: u64 = 256;

/// Buffers are multiples of this, so that they are not set anew for every byte.
const STEP: u64 = 2048;

/// The largest receive buffer that the kernel has.
const MOST_BUFFER_BYTES: u64 = i32::MAX as u64 / STEP * STEP;

/// The receive buffer of a side under a law that bounds its window, as SO_RCVBUF has it (socket(7):
/// the kernel doubles it for its own needs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiveBuffer {
    /// What the law asked for, in bytes.
    pub asked_bytes: u64,
    /// What the kernel gave, in bytes: less where `net.core.rmem_max` bounds it.
    pub given_bytes: u64,
}

impl ReceiveBuffer {
    /// Whether the law got less than it asked for.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.given_bytes < self.asked_bytes
    }
}

/// What holds one side's sender to a window.
///
/// The kernel offers what is free of the receive buffer, so the buffer is what bounds the queue and the
/// window together. It is counted in memory, of which data fill a share that depends on how they come.
#[derive(Debug)]
pub struct Window {
    /// The share that data fill of the memory that they take, in [`PARTS`].
    filled: u64,
    /// What came of the last change of the buffer.
    buffer: ReceiveBuffer,
    /// The most that may be offered beyond what has come, in bytes; 0 before the first change.
    clamp_bytes: u32,
    /// The most that it may be, in bytes: what the listener's settings say.
    most_bytes: u64,
    /// Where the kernel does not tell what it has offered: how far that may reach, in bytes since the
    /// connection began.
    edge: u64,
}

impl Window {
    /// Of a side whose receive buffer is set to so many bytes, if it is.
    #[must_use]
    pub fn new(receive_buffer_bytes: Option<usize>) -> Window {
        Window {
            filled: PARTS / 2,
            buffer: ReceiveBuffer::default(),
            clamp_bytes: 0,
            // The kernel doubles what it is asked for.
            most_bytes: receive_buffer_bytes.map_or(MOST_BUFFER_BYTES, |bytes| 2 * bytes as u64),
            edge: 0,
        }
    }

    /// Lets at most so many bytes wait in the receive queue of that side and be under way to it. What was
    /// offered already stays offered (RFC 9293 §3.8.6): the kernel never takes back a window, but a
    /// buffer without room for it would have what comes dropped.
    pub fn set(&mut self, sides: &mut impl Sides, side: usize, info: &Reading, bytes: u32) {
        // A connection that is gone needs no window.
        let Some(memory) = sides.memory(side) else {
            return;
        };
        let Memory {
            unread_bytes,
            taken_bytes,
            buffer_bytes,
        } = memory;
        let before = u64::from(buffer_bytes);
        self.learn(unread_bytes, taken_bytes.into());
        let promised = unread_bytes + self.offered(info, before);
        let buffer = self.buffer_for(promised, before, bytes);
        let clamp = self.clamp_for(buffer, unread_bytes, bytes, info.advertised_mss_bytes);
        let asked = buffer / 2;
        if asked != self.buffer.asked_bytes {
            self.buffer = ReceiveBuffer {
                asked_bytes: asked,
                given_bytes: sides.set_receive_buffer(side, asked),
            };
        }
        self.clamp_bytes = clamp;
        // Each time: the first buffer sets it, and so does a newer kernel when it has learnt anew how much
        // memory data take.
        sides.set_window_clamp(side, clamp);
    }

    /// What came of the last change; `None` before the first one.
    #[must_use]
    pub fn buffer(&self) -> Option<ReceiveBuffer> {
        (self.clamp_bytes > 0).then_some(self.buffer)
    }

    fn learn(&mut self, unread: u64, memory: u64) {
        if unread >= TELLING_BYTES && memory > 0 {
            let filled = (unread * PARTS / memory).clamp(PARTS / 16, PARTS);
            self.filled = (7 * self.filled + filled).div_ceil(8);
        }
    }

    /// What the sender may send yet, by what it was offered, where the buffer is `buffer_bytes` now. A
    /// kernel that does not tell has offered as much as the clamp let it, beyond what had come then, and
    /// before there was one as much as the buffer, less than which no byte takes.
    fn offered(&mut self, info: &Reading, buffer_bytes: u64) -> u64 {
        if let Some(bytes) = info.offered_window_bytes {
            return bytes.into();
        }
        let most = match self.clamp_bytes {
            0 => buffer_bytes,
            clamp => u64::from(clamp),
        };
        let received = info.received_bytes;
        self.edge = self.edge.max(received + most);
        self.edge - received
    }

    /// What may be offered beyond what has come. As a rule that is `bytes`; but while a promise keeps the
    /// buffer a quarter larger than it is to be, only what is left of them where `unread` wait: whatever is
    /// read would be promised anew. Two segments of `mss` always may come, so that none waits for ever.
    fn clamp_for(&self, buffer: u64, unread: u64, bytes: u32, mss: u32) -> u32 {
        let is_kept = 4 * buffer > 5 * self.memory(bytes.into()) + STEP;
        let taken = if is_kept { unread } else { 0 };
        let taken = u32::try_from(taken).unwrap_or(u32::MAX);
        let left = bytes.saturating_sub(taken).max(2 * mss);
        left.checked_next_multiple_of(STEP as u32).unwrap_or(left)
    }

    /// What so many bytes take.
    fn memory(&self, bytes: u64) -> u64 {
        bytes * PARTS / self.filled
    }

    /// The memory for a window of `bytes` where so many are taken up or promised of a buffer that is
    /// `before` now: what has room for them stays as it is, or grows.
    fn buffer_for(&self, promised: u64, before: u64, bytes: u32) -> u64 {
        let kept = self.memory(promised).min(before);
        let buffer = self.memory(bytes.into()).max(kept);
        let most = self.most_bytes.min(MOST_BUFFER_BYTES);
        buffer.next_multiple_of(STEP).min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_law_makes_a_buffer_larger_than_the_settings_have_it() {
        for (set, given) in [
            (None, 2 << 20),
            (Some(100_000), 200_000),
            (Some(4 << 20), 2 << 20),
        ] {
            let window = Window::new(set);
            assert_eq!(window.buffer_for(0, 200_000, 1 << 20), given, "{set:?}");
        }
    }

    #[test]
    fn a_buffer_has_room_for_what_was_promised() {
        let window = Window::new(None);
        let before = window.buffer_for(0, 0, 1 << 20);
        assert_eq!(before, 2 << 20);
        // Half of it is in use when the window is to be a quarter.
        let smaller = window.buffer_for(1 << 19, before, 1 << 18);
        assert_eq!(smaller, 1 << 20);
        assert_eq!(window.buffer_for(1 << 10, smaller, 1 << 18), 1 << 19);
        // What the kernel could not have promised has no room.
        assert_eq!(window.buffer_for(1 << 30, smaller, 1 << 18), smaller);
        assert_eq!(window.buffer_for(0, 0, u32::MAX), MOST_BUFFER_BYTES);
    }

    #[test]
    fn what_is_read_is_not_promised_anew_while_too_much_is() {
        let window = Window::new(None);
        let right = window.buffer_for(0, 0, 1 << 18);
        assert_eq!(window.clamp_for(right, 1 << 18, 1 << 18, 1448), 1 << 18);
        let larger = 2 * right;
        assert_eq!(window.clamp_for(larger, 1 << 17, 1 << 18, 1448), 1 << 17);
        assert_eq!(window.clamp_for(larger, 1 << 20, 1 << 18, 1448), 4096);
    }

    #[test]
    fn memory_is_learnt_from_what_waits() {
        let mut window = Window::new(None);
        for _ in 0..50 {
            window.learn(100_000, 125_000);
        }
        assert!(window.filled.abs_diff(PARTS * 4 / 5) <= 8, "{window:?}");
        window.learn(100, 100_000);
        assert!(window.filled.abs_diff(PARTS * 4 / 5) <= 8, "{window:?}");
    }
}
