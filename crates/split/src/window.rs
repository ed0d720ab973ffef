//! Bounds the bytes that wait to be read by the window offered to the sender.

use super::{Memory, Reading, Sides};

/// A shorter receive queue is no basis for learning how much memory its bytes use.
const TELLING_BYTES: u64 = 16 << 10;

/// The data share of receive-buffer memory is counted in parts out of this number.
const PARTS: u64 = 256;

/// Granularity of buffer sizes, so that they are not reset for every byte.
const STEP: u64 = 2048;

/// The largest receive buffer that the kernel allows.
const MOST_BUFFER_BYTES: u64 = i32::MAX as u64 / STEP * STEP;

/// The receive buffer of a side under a law that bounds its window, as passed to SO_RCVBUF (socket(7): the kernel
/// doubles it for its own needs).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiveBuffer {
    /// Bytes requested by the law.
    pub asked_bytes: u64,
    /// Bytes granted by the kernel: fewer if `net.core.rmem_max` limits them.
    pub given_bytes: u64,
}

impl ReceiveBuffer {
    /// Whether the kernel granted less than requested.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.given_bytes < self.asked_bytes
    }
}

/// Holds one side's sender to a window.
///
/// The kernel offers the free part of the receive buffer, so the buffer size bounds the queue and the window together.
/// It is counted in memory, and the share of it filled by data depends on the sizes of the arriving segments.
#[derive(Debug)]
pub struct Window {
    /// The share of used memory that is data, in [`PARTS`].
    filled: u64,
    /// Result of the last buffer change.
    buffer: ReceiveBuffer,
    /// The largest window to offer beyond what has arrived, in bytes; 0 before the first change.
    clamp_bytes: u32,
    /// The largest permitted buffer, in bytes, from the listener's settings.
    most_bytes: u64,
    /// Where the kernel does not report the offered window: its highest possible right edge, in bytes since the
    /// connection began.
    edge: u64,
}

impl Window {
    /// Window of a side whose receive buffer is configured to the given size, if it is.
    #[must_use]
    pub fn new(receive_buffer_bytes: Option<usize>) -> Window {
        Window {
            filled: PARTS / 2,
            buffer: ReceiveBuffer::default(),
            clamp_bytes: 0,
            // The kernel doubles the requested size.
            most_bytes: receive_buffer_bytes.map_or(MOST_BUFFER_BYTES, |bytes| 2 * bytes as u64),
            edge: 0,
        }
    }

    /// Limits the bytes waiting in the receive queue of `side` plus those in flight to it. A window once offered is
    /// not taken back (RFC 9293 §3.8.6): the kernel never shrinks it, but a buffer without room for it would drop
    /// arriving data.
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
        // Every time: setting the first buffer changes the clamp, and newer kernels reset it when they relearn how
        // much memory data use.
        sides.set_window_clamp(side, clamp);
    }

    /// Result of the last buffer change; `None` before the first one.
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

    /// The bytes that the sender may still send within the window offered to it; `buffer_bytes` is the current buffer.
    /// If the kernel does not report the window, it is assumed to have offered as much as the clamp allowed at the
    /// time, or, before there was a clamp, the whole buffer, since each byte uses at least a byte of memory.
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

    /// The window to offer beyond what has arrived. Normally it is `bytes`. While an earlier offer keeps the buffer
    /// more than a quarter above its target, it is `bytes` less the `unread` ones: otherwise the space freed by each
    /// read would be offered again. Two segments of `mss` are always allowed, so that the connection never stalls.
    fn clamp_for(&self, buffer: u64, unread: u64, bytes: u32, mss: u32) -> u32 {
        let is_kept = 4 * buffer > 5 * self.memory(bytes.into()) + STEP;
        let taken = if is_kept { unread } else { 0 };
        let taken = u32::try_from(taken).unwrap_or(u32::MAX);
        let left = bytes.saturating_sub(taken).max(2 * mss);
        left.checked_next_multiple_of(STEP as u32).unwrap_or(left)
    }

    /// Memory used by that many bytes of data.
    fn memory(&self, bytes: u64) -> u64 {
        bytes * PARTS / self.filled
    }

    /// The buffer for a window of `bytes` when `promised` bytes are queued or offered and the buffer is `before`:
    /// memory that holds them is kept, up to the present buffer.
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
        // Half of it is in use when the window shrinks to a quarter.
        let smaller = window.buffer_for(1 << 19, before, 1 << 18);
        assert_eq!(smaller, 1 << 20);
        assert_eq!(window.buffer_for(1 << 10, smaller, 1 << 18), 1 << 19);
        // More than the kernel can have offered gets no room.
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
