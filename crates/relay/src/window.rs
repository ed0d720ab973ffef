//! The window that a sender is offered, as a bound on what waits to be read.

use wansan_tcp::buffers::{Buffer, BufferError};
use wansan_tcp::{TcpInfo, options, queues};

use crate::side::Side;

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
pub(crate) struct Window {
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
    pub(crate) fn new(receive_buffer_bytes: Option<usize>) -> Window {
        Window {
            filled: PARTS / 2,
            buffer: ReceiveBuffer::default(),
            clamp_bytes: 0,
            // The kernel doubles what it is asked for.
            most_bytes: receive_buffer_bytes.map_or(MOST_BUFFER_BYTES, |bytes| 2 * bytes as u64),
            edge: 0,
        }
    }

    /// Lets at most so many bytes wait in the receive queue of `side` and be under way to it. What was
    /// offered already stays offered (RFC 9293 §3.8.6): the kernel never takes back a window, but a
    /// buffer without room for it would have what comes dropped.
    pub(crate) fn set(&mut self, side: &Side, info: &TcpInfo, bytes: u32) {
        // A connection that is gone needs no window.
        let Ok(memory) = queues::memory(side) else {
            return;
        };
        let before = u64::from(memory.receive_buffer_bytes);
        let unread = queues::received_bytes(side).unwrap_or(0);
        self.learn(unread, memory.received_bytes.into());
        let promised = unread + self.offered(info, before);
        let buffer = self.buffer_for(promised, before, bytes);
        let clamp = self.clamp_for(buffer, unread, bytes, info.advertised_mss_bytes());
        let asked = buffer / 2;
        if asked != self.buffer.asked_bytes {
            self.buffer = ReceiveBuffer {
                asked_bytes: asked,
                given_bytes: give(side, asked),
            };
        }
        self.clamp_bytes = clamp;
        // Each time: the first buffer sets it, and so does a newer kernel when it has learnt anew how much
        // memory data take. It fails only at a connection that is gone.
        let _ = options::set_window_clamp(side, clamp);
    }

    /// What came of the last change; `None` before the first one.
    pub(crate) fn buffer(&self) -> Option<ReceiveBuffer> {
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
    fn offered(&mut self, info: &TcpInfo, buffer_bytes: u64) -> u64 {
        if let Some(bytes) = info.offered_window_bytes() {
            return bytes.into();
        }
        let most = match self.clamp_bytes {
            0 => buffer_bytes,
            clamp => u64::from(clamp),
        };
        let received = info.received_bytes();
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

/// Sets the receive buffer; what the kernel has given.
fn give(side: &Side, bytes: u64) -> u64 {
    match Buffer::Receive.set(side, bytes as usize) {
        Err(BufferError::TooSmall { granted_bytes, .. }) => granted_bytes as u64,
        // Anything else fails only at a connection that is gone.
        Ok(()) | Err(BufferError::Socket(_)) => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd, OwnedFd};
    use std::time::Duration;
    use wansan_trace::{ConnectionId, Instant, SessionId};

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

    /// A client and the relay's side of it, with segments as a LAN has them.
    fn connection() -> (TcpStream, Side) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        options::set_mss(&listener, 1448).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        client.set_nonblocking(true).unwrap();
        let (server, _) = listener.accept().unwrap();
        (client, Side::new(OwnedFd::from(server)))
    }

    /// The side as a kernel of that age tells of it.
    fn told(side: &Side, info_bytes: usize) -> TcpInfo {
        let info = TcpInfo::of(side).unwrap();
        let mut bytes = vec![0; info_bytes];
        bytes[128..136].copy_from_slice(&info.received_bytes().to_ne_bytes());
        if let (Some(room), Some(offered)) = (bytes.get_mut(232..236), info.offered_window_bytes())
        {
            room.copy_from_slice(&offered.to_ne_bytes());
        }
        TcpInfo::parse(&bytes)
    }

    #[test]
    fn what_was_offered_before_the_first_bound_comes() {
        const LESS: u32 = 8 << 10;
        const KERNELS: [(&str, usize); 2] = [("6.1", 232), ("6.2", 240)];
        for (kernel, info_bytes) in KERNELS {
            let (mut client, side) = connection();
            let mut window = Window::new(None);
            let offered = u64::from(TcpInfo::of(&client).unwrap().peer_window_bytes());
            assert!(offered > 4 * u64::from(LESS), "{offered}");
            window.set(&side, &told(&side, info_bytes), LESS);
            client.write_all(&vec![7; offered as usize]).unwrap();
            let began = std::time::Instant::now();
            while queues::received_bytes(&side).unwrap() < offered {
                assert!(began.elapsed() < Duration::from_secs(20), "{kernel}");
                std::thread::sleep(Duration::from_millis(1));
            }
            // What found no room was sent a second time. A probe of the tail (RFC 8985 §7), due on a
            // busy processor, is no sign of it: its data came twice.
            let of_client = || {
                let info = TcpInfo::of(&client).unwrap();
                let record = info.record(Instant::ZERO, SessionId(0), ConnectionId(0));
                (record.retransmits, info.duplicates())
            };
            while of_client().0 > of_client().1 {
                let counted = of_client();
                let waited = began.elapsed();
                assert!(waited < Duration::from_secs(20), "{kernel}: {counted:?}");
                std::thread::sleep(Duration::from_millis(1));
            }

            // When as much has come as could have been offered, it is less.
            let server = TcpStream::from(side.as_fd().try_clone_to_owned().unwrap());
            let patience = Some(Duration::from_secs(20));
            server.set_read_timeout(patience).unwrap();
            let mut rest = vec![0; offered as usize];
            (&server).read_exact(&mut rest).unwrap();
            for _ in 0..100 {
                window.set(&side, &told(&side, info_bytes), LESS);
                client.write_all(&[7; 4096]).unwrap();
                (&server).read_exact(&mut rest[..4096]).unwrap();
            }
            while client.write(&[7; 1024]).is_ok() {}
            let waits = queues::received_bytes(&side).unwrap();
            assert!(waits <= 2 * u64::from(LESS), "{kernel}: {waits} bytes wait");
        }
    }

    /// In a thread of its own, which has not the right to larger buffers than others.
    fn without_rights(test: impl FnOnce() + Send + 'static) {
        use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
        let tested = std::thread::spawn(|| {
            let mut rights = capabilities(None).unwrap();
            rights.effective.remove(CapabilitySet::NET_ADMIN);
            set_capabilities(None, rights).unwrap();
            test();
        });
        tested.join().unwrap();
    }

    #[test]
    fn a_buffer_that_the_machine_does_not_give_is_known() {
        without_rights(|| {
            let (_client, side) = connection();
            let mut window = Window::new(None);
            assert_eq!(window.buffer(), None);
            window.set(&side, &TcpInfo::of(&side).unwrap(), 1 << 30);
            let buffer = window.buffer().unwrap();
            let most = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
            assert_eq!(buffer.given_bytes.to_string(), most.trim());
            assert!(buffer.is_short(), "{buffer:?}");
            window.set(&side, &TcpInfo::of(&side).unwrap(), 64 << 10);
            assert!(!window.buffer().unwrap().is_short(), "{window:?}");
        });
    }
}
