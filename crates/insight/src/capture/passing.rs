//! Analysis of live packets, in time slices.

use std::net::SocketAddr;
use std::ops::ControlFlow;

use pcap_parser::Linktype;

use super::frames::Frame;
use super::order::Order;
use super::{Capture, CaptureEnd, Reading};

/// An IP packet that has passed.
#[derive(Debug, Clone, Copy)]
pub struct PassingPacket<'a> {
    /// When it passed, in ns since 1970.
    pub time_ns: u64,
    /// The number of the interface that it passed.
    pub interface: u32,
    /// The packet from its IP header on; may be truncated.
    pub bytes: &'a [u8],
}

/// A socket of the host that captures.
#[derive(Debug, Clone, Copy)]
pub struct CapturingSocket {
    /// Its own end and the remote one.
    pub ends: [SocketAddr; 2],
    /// The window scales of both (RFC 7323 §2.2): their SYNs may have passed long before.
    pub scales: [u8; 2],
}

/// Takes packets as they pass; of their payloads it keeps only what is needed to find PDUs.
#[derive(Debug, Default)]
pub struct Passing {
    reading: Reading,
    order: Order,
    packets: u64,
    is_full: bool,
    sockets: Vec<CapturingSocket>,
}

impl Passing {
    /// Takes the next packet; breaks at the limit of [`MOST_KEPT`](super::MOST_KEPT) segments and PDUs.
    pub fn take(&mut self, packet: PassingPacket<'_>) -> ControlFlow<()> {
        if self.is_full {
            return ControlFlow::Break(());
        }
        self.packets += 1;
        let frame = Frame {
            number: self.packets,
            time_ns: packet.time_ns,
            interface: packet.interface,
            link: Linktype::RAW,
            bytes: packet.bytes,
            is_lost: false,
        };
        let taken = self.order.take(&frame, |frame| self.reading.take(frame));
        self.is_full = taken.is_break();
        taken
    }

    /// Tells of a socket of this host.
    pub fn know_socket(&mut self, socket: CapturingSocket) {
        self.sockets.push(socket);
    }

    /// Number of packets taken.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Ends a time slice and returns its packets as a capture; `None` if it had no PDUs. The state of connections
    /// carries over to the following slices, of which the next begins with the next packet.
    #[must_use]
    pub fn slice(&mut self) -> Option<Capture> {
        let rest = self.order.rest(|frame| self.reading.take(frame));
        let end = match self.is_full || rest.is_break() {
            true => CaptureEnd::Full,
            false => CaptureEnd::Whole,
        };
        self.is_full = false;
        for socket in &self.sockets {
            for connection in self.reading.connections.values_mut() {
                connection.know_socket(socket);
            }
        }
        self.reading.name_sessions();
        let next = self.reading.next_part();
        let slice = std::mem::replace(&mut self.reading, next);
        slice.capture(end).ok()
    }
}
