//! How much of a long PDU the kernel gathers before it wakes a thread.
//!
//! A path delivers bytes to a receiver in small pieces, a segment or two at a time. A PDU of a write can be handled
//! only when it is complete, so waking up for each piece only takes processor time from other work.

use std::os::fd::AsFd;

use wansan_tcp::TcpInfo;
use wansan_tcp::options::set_least_readable;

/// The most to gather, in bytes: 0.3 ms at 1 Gbit/s.
const MOST_BYTES: u32 = 32 << 10;

/// With fewer bytes to gather, the thread is woken for each piece: a system call would not pay.
const LEAST_BYTES: u32 = 8 << 10;

/// The window offered to the initiator advances only as bytes are read: this fraction of it may wait.
const WINDOW_PART: u32 = 16;

/// The socket options of a connection.
#[derive(Debug)]
pub(super) struct Gathering {
    /// The limit set by the window, in bytes; 0 while that is unknown.
    most_bytes: u32,
    /// The present SO_RCVLOWAT.
    set_bytes: u32,
}

impl Gathering {
    pub(super) fn new() -> Gathering {
        Gathering {
            most_bytes: 0,
            set_bytes: 1,
        }
    }

    /// Reads the size of the window offered to the initiator. On a kernel that does not report it (before Linux 6.2),
    /// nothing is gathered.
    pub(super) fn look_at_window(&mut self, socket: impl AsFd) {
        let offered = TcpInfo::of(socket).ok();
        let offered = offered.and_then(|info| info.offered_window_bytes());
        self.most_bytes = (offered.unwrap_or(0) / WINDOW_PART).min(MOST_BYTES);
    }

    /// At least this many bytes of the current PDU are missing.
    pub(super) fn await_bytes(&mut self, socket: impl AsFd, missing_bytes: usize) {
        let bytes = u32::try_from(missing_bytes).unwrap_or(u32::MAX);
        let bytes = match bytes.min(self.most_bytes) {
            0..LEAST_BYTES => 1,
            bytes => bytes,
        };
        // If it fails, the previous value remains.
        if bytes != self.set_bytes && set_least_readable(socket, bytes).is_ok() {
            self.set_bytes = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Duration;

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let sender = TcpStream::connect(listener.local_addr().expect("its own")).expect("a peer");
        (sender, listener.accept().expect("a connection").0)
    }

    /// Whether it becomes readable; if it must not, a short wait is enough to see that it does.
    fn is_readable(socket: &TcpStream, time: Duration) -> bool {
        let time = Timespec::try_from(time).expect("short");
        poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&time)).expect("polled") > 0
    }

    #[test]
    fn a_long_pdu_is_gathered_and_a_short_one_is_not() {
        const MOMENT: Duration = Duration::from_millis(50);
        const LONG: Duration = Duration::from_secs(20);
        let (mut sender, receiver) = pair();
        let mut gathering = Gathering::new();
        gathering.await_bytes(&receiver, 1 << 20);
        assert_eq!(gathering.set_bytes, 1, "the window is not known yet");
        gathering.look_at_window(&receiver);
        if gathering.most_bytes < LEAST_BYTES {
            // A kernel with short windows, or one that does not report them.
            gathering.most_bytes = LEAST_BYTES;
        }
        gathering.await_bytes(&receiver, LEAST_BYTES as usize);
        sender.write_all(&[7; 4096]).expect("sent");
        assert!(!is_readable(&receiver, MOMENT));
        sender.write_all(&[7; 4096]).expect("sent");
        assert!(is_readable(&receiver, LONG));
        // The rest of it is short.
        gathering.await_bytes(&receiver, LEAST_BYTES as usize + 100);
        gathering.await_bytes(&receiver, 100);
        assert!(is_readable(&receiver, LONG));
        // End of file is reported at any time.
        gathering.await_bytes(&receiver, 1 << 20);
        drop(sender);
        assert!(is_readable(&receiver, LONG));
    }

    #[test]
    fn a_short_window_stays_open() {
        let mut gathering = Gathering::new();
        let (_sender, receiver) = pair();
        rustix::net::sockopt::set_socket_recv_buffer_size(&receiver, 64 << 10).expect("set");
        wansan_tcp::options::set_window_clamp(&receiver, 32 << 10).expect("set");
        gathering.look_at_window(&receiver);
        gathering.await_bytes(&receiver, 1 << 20);
        assert_eq!(gathering.set_bytes, 1);
    }
}
