//! Packets that are looked at while they pass, in slices of time.

use std::net::SocketAddr;
use std::ops::ControlFlow;

use pcap_parser::Linktype;

use super::frames::Frame;
use super::order::Order;
use super::{Capture, CaptureEnd, Reading};

/// An IP packet that has passed.
#[derive(Debug, Clone, Copy)]
pub struct PassingPacket<'a> {
    /// When, since 1970.
    pub time_ns: u64,
    /// The number of the interface that it passed.
    pub interface: u32,
    /// The packet from its IP header on, or its beginning.
    pub bytes: &'a [u8],
}

/// Takes packets as they pass; of their payloads it keeps what tells of PDUs.
#[derive(Debug, Default)]
pub struct Passing {
    reading: Reading,
    order: Order,
    packets: u64,
    is_full: bool,
    scales: Vec<([SocketAddr; 2], [u8; 2])>,
}

impl Passing {
    /// Takes the next packet; breaks once as many are kept as are looked at
    /// ([`MOST_KEPT`](super::MOST_KEPT)).
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

    /// Says by how much the windows are shifted that two ends announce (RFC 7323 §2.2), each in the place of its end:
    /// their SYNs may have passed long before.
    pub fn know_scales(&mut self, ends: [SocketAddr; 2], scales: [u8; 2]) {
        self.scales.push((ends, scales));
    }

    /// How many have passed.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Ends a slice of time: what has passed in it, as a capture; `None` when there were no PDUs in it. What is known of
    /// connections is known in the slices that follow, of which the next begins with the next packet.
    #[must_use]
    pub fn slice(&mut self) -> Option<Capture> {
        let rest = self.order.rest(|frame| self.reading.take(frame));
        let end = match self.is_full || rest.is_break() {
            true => CaptureEnd::Full,
            false => CaptureEnd::Whole,
        };
        self.is_full = false;
        for (ends, scales) in &self.scales {
            for connection in self.reading.connections.values_mut() {
                connection.know_scales(*ends, *scales);
            }
        }
        self.reading.name_sessions();
        let next = self.reading.next_part();
        let slice = std::mem::replace(&mut self.reading, next);
        slice.capture(end).ok()
    }
}
