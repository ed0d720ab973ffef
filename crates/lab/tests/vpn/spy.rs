//! A spy in a router on the path, which sees every packet.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, Protocol, RawProtocol, RecvFlags, SocketType, recv, socket};

/// ETH_P_IP in network byte order, as packet(7) wants it.
const IPV4: u32 = 0x0800_u16.to_be() as u32;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// The port of ESP in UDP (RFC 3948).
const ESP_PORT: u16 = 4500;

/// The spy's observations.
#[derive(Debug, Default, Clone)]
pub(crate) struct Seen {
    pub(crate) udp_packets: u64,
    pub(crate) tcp_packets: u64,
    /// Packets of other protocols.
    pub(crate) other_packets: u64,
    pub(crate) fragments: u64,
    /// Longest IP packet.
    pub(crate) longest_bytes: usize,
    /// Whether any packet contained the pattern.
    pub(crate) readable: bool,
    /// Number of ESP packets in UDP (RFC 3948 §2.1), by destination and SPI.
    pub(crate) associations: BTreeMap<(Ipv4Addr, u32), u64>,
}

pub(crate) struct Spy {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

impl Spy {
    /// Searches every IPv4 packet in the calling thread's network namespace for `pattern`.
    pub(crate) fn begin(pattern: &'static [u8]) -> std::io::Result<Spy> {
        let protocol = RawProtocol::new(IPV4).map(Protocol::from_raw);
        let socket = socket(AddressFamily::PACKET, SocketType::DGRAM, protocol)?;
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(Duration::from_millis(50)))?;
        let _as_much_as_allowed = sockopt::set_socket_recv_buffer_size(&socket, 64 << 20);
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::spawn(move || watch(&socket, &told, pattern));
        Ok(Spy { stop, thread })
    }

    pub(crate) fn end(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("a spy does not panic")
    }
}

fn watch(socket: &OwnedFd, stop: &AtomicBool, pattern: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let mut packet = vec![0; 65_536];
    loop {
        match recv(socket, &mut *packet, RecvFlags::empty()) {
            Ok((length, _)) => seen.look(&packet[..length], pattern),
            // Idle: everything sent before the end has been seen.
            Err(_) if stop.load(Ordering::Relaxed) => return seen,
            Err(_) => {}
        }
    }
}

impl Seen {
    /// Examines an IPv4 packet.
    fn look(&mut self, packet: &[u8], pattern: &[u8]) {
        let Some((header, _)) = packet.split_at_checked(20) else {
            return;
        };
        let length = usize::from(u16::from_be_bytes([header[2], header[3]]));
        self.longest_bytes = self.longest_bytes.max(length);
        // More fragments, or an offset.
        if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
            self.fragments += 1;
        }
        match header[9] {
            TCP => self.tcp_packets += 1,
            UDP => {
                self.udp_packets += 1;
                let content = &packet[usize::from(header[0] & 15) * 4..];
                if let Some((udp, esp)) = content.split_at_checked(8)
                    && u16::from_be_bytes([udp[2], udp[3]]) == ESP_PORT
                    && let Some(&[a, b, c, d]) = esp.get(..4)
                    // A handshake's packet has 0 there (the non-ESP marker).
                    && [a, b, c, d] != [0; 4]
                {
                    let destination = [header[16], header[17], header[18], header[19]];
                    let spi = u32::from_be_bytes([a, b, c, d]);
                    *self
                        .associations
                        .entry((destination.into(), spi))
                        .or_default() += 1;
                }
            }
            _ => self.other_packets += 1,
        }
        self.readable |= packet
            .windows(pattern.len())
            .any(|window| window == pattern);
    }
}
