//! Implements a law's access to the kernel's sockets.

use wansan_split::{Memory, Order, Reading, Sides, Signals};
use wansan_tcp::buffers::{Buffer, BufferError};
use wansan_tcp::ece::EceSignal;
use wansan_tcp::{TcpInfo, options, queues};
use wansan_trace::event::Ecn;

use crate::side::Side;

/// Both sides of a flow, and its ECE signal under a law that signals.
pub(crate) struct Kernel<'a> {
    pub(crate) sides: &'a [Side; 2],
    pub(crate) signal: Option<&'a EceSignal>,
}

impl Sides for Kernel<'_> {
    fn reading(&self, side: usize) -> Option<Reading> {
        let info = TcpInfo::of(&self.sides[side]).ok()?;
        Some(reading(&info))
    }

    fn memory(&self, side: usize) -> Option<Memory> {
        let side = &self.sides[side];
        let memory = queues::memory(side).ok()?;
        Some(Memory {
            unread_bytes: queues::received_bytes(side).unwrap_or(0),
            taken_bytes: memory.received_bytes,
            buffer_bytes: memory.receive_buffer_bytes,
        })
    }

    fn set_receive_buffer(&mut self, side: usize, bytes: u64) -> u64 {
        match Buffer::Receive.set(&self.sides[side], bytes as usize) {
            Err(BufferError::TooSmall { granted_bytes, .. }) => granted_bytes as u64,
            // Any other error means that the connection is gone.
            Ok(()) | Err(BufferError::Socket(_)) => bytes,
        }
    }

    fn set_window_clamp(&mut self, side: usize, bytes: u32) {
        // Fails only if the connection is gone.
        let _ = options::set_window_clamp(&self.sides[side], bytes);
    }

    fn set_most_unsent(&mut self, side: usize, bytes: u32) {
        // Fails only if the connection is gone.
        let _ = options::set_most_unsent(&self.sides[side], bytes);
    }

    fn order(&mut self, side: usize, order: &Order) {
        if let Some(signal) = self.signal {
            // Fails if the connection is gone, or the kernel is out of memory: the window still bounds it.
            let _ = signal.order(&self.sides[side], order);
        }
    }

    fn signals(&self, side: usize) -> Signals {
        let signals = |signal: &EceSignal| signal.signals(&self.sides[side]);
        self.signal.map(signals).unwrap_or_default()
    }
}

/// The fields of TCP_INFO that laws need.
fn reading(info: &TcpInfo) -> Reading {
    Reading {
        cwnd_packets: info.cwnd_packets(),
        mss_bytes: info.mss_bytes(),
        advertised_mss_bytes: info.advertised_mss_bytes(),
        srtt_ns: info.srtt_ns(),
        min_rtt_ns: info.min_rtt_ns(),
        receiver_rtt_ns: info.receiver_rtt_ns(),
        peer_window_bytes: info.peer_window_bytes(),
        offered_window_bytes: info.offered_window_bytes(),
        pacing_bytes_per_s: info.pacing_bytes_per_s(),
        acked_bytes: info.acked_bytes(),
        received_bytes: info.received_bytes(),
        unsent_bytes: info.unsent_bytes(),
        busy_ns: info.busy_ns(),
        rwnd_limited_ns: info.rwnd_limited_ns(),
        has_ecn: info.ecn() != Ecn::Off,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::{AsFd, OwnedFd};
    use std::time::Duration;
    use wansan_split::Window;
    use wansan_trace::{ConnectionId, Instant, SessionId};

    /// A client and the relay's side of it, with the MSS of a LAN.
    fn connection() -> (TcpStream, [Side; 2]) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        options::set_mss(&listener, 1448).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        client.set_nonblocking(true).unwrap();
        let (server, _) = listener.accept().unwrap();
        // The other side of a flow is irrelevant here.
        let other = client.try_clone().unwrap();
        let sides = [OwnedFd::from(server), OwnedFd::from(other)];
        (client, sides.map(Side::new))
    }

    /// Bounds the window of the first side with the TCP_INFO of some kernel version.
    fn set(window: &mut Window, sides: &[Side; 2], told: &TcpInfo, bytes: u32) {
        let mut kernel = Kernel {
            sides,
            signal: None,
        };
        window.set(&mut kernel, 0, &reading(told), bytes);
    }

    /// The side's TCP_INFO as that kernel version returns it.
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
            let (mut client, sides) = connection();
            let side = &sides[0];
            let mut window = Window::new(None);
            let offered = u64::from(TcpInfo::of(&client).unwrap().peer_window_bytes());
            assert!(offered > 4 * u64::from(LESS), "{offered}");
            set(&mut window, &sides, &told(side, info_bytes), LESS);
            client.write_all(&vec![7; offered as usize]).unwrap();
            let began = std::time::Instant::now();
            while queues::received_bytes(side).unwrap() < offered {
                assert!(began.elapsed() < Duration::from_secs(20), "{kernel}");
                std::thread::sleep(Duration::from_millis(1));
            }
            // Data that did not fit was retransmitted. A tail loss probe (RFC 8985 §7), due on a busy processor, is no
            // sign of it: its data arrived twice.
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

            // Once as much arrived as could have been offered, the offer is smaller.
            let server = TcpStream::from(side.as_fd().try_clone_to_owned().unwrap());
            let patience = Some(Duration::from_secs(20));
            server.set_read_timeout(patience).unwrap();
            let mut rest = vec![0; offered as usize];
            (&server).read_exact(&mut rest).unwrap();
            for _ in 0..100 {
                set(&mut window, &sides, &told(side, info_bytes), LESS);
                client.write_all(&[7; 4096]).unwrap();
                (&server).read_exact(&mut rest[..4096]).unwrap();
            }
            while client.write(&[7; 1024]).is_ok() {}
            let waits = queues::received_bytes(side).unwrap();
            assert!(waits <= 2 * u64::from(LESS), "{kernel}: {waits} bytes wait");
        }
    }

    /// In its own thread, without the privilege for larger buffers.
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
            let (_client, sides) = connection();
            let mut window = Window::new(None);
            assert_eq!(window.buffer(), None);
            set(
                &mut window,
                &sides,
                &TcpInfo::of(&sides[0]).unwrap(),
                1 << 30,
            );
            let buffer = window.buffer().unwrap();
            let most = std::fs::read_to_string("/proc/sys/net/core/rmem_max").unwrap();
            assert_eq!(buffer.given_bytes.to_string(), most.trim());
            assert!(buffer.is_short(), "{buffer:?}");
            set(
                &mut window,
                &sides,
                &TcpInfo::of(&sides[0]).unwrap(),
                64 << 10,
            );
            assert!(!window.buffer().unwrap().is_short(), "{window:?}");
        });
    }
}
