//! A wire packet in transit.

use std::sync::Arc;

use super::checksum::Sum;
use super::ip;
use super::superframe::{MAX_HEADER_BYTES, SuperFrame};
use super::virtio::{Kind, Offload};

/// A wire packet in transit through the chains. It shares its bytes with the others of its super-frame.
#[derive(Debug, Clone)]
pub struct Frame {
    whole: Arc<SuperFrame>,
    /// Its index in the super-frame, from 0.
    segment: u16,
    /// Destination port.
    to: u16,
}

impl Frame {
    /// Cuts a super-frame into wire packets for the port `to`.
    pub(super) fn cut(whole: SuperFrame, to: u16) -> impl Iterator<Item = Frame> {
        let whole = Arc::new(whole);
        (0..whole.segments()).map(move |segment| Frame {
            whole: Arc::clone(&whole),
            segment,
            to,
        })
    }

    /// Destination port.
    pub(super) fn to(&self) -> usize {
        usize::from(self.to)
    }

    /// Frame size on a wire, including the Ethernet header, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u32 {
        (self.whole.header_bytes() + self.payload().len()) as u32
    }

    /// Its super-frame.
    pub(super) fn whole(&self) -> &SuperFrame {
        &self.whole
    }

    /// Its index in the super-frame, from 0.
    pub(super) fn segment(&self) -> u16 {
        self.segment
    }

    /// Its payload after the headers; everything if it is neither TCP nor UDP.
    pub(super) fn payload(&self) -> &[u8] {
        self.whole.payload(self.segment)
    }

    /// Writes its headers as on the wire, except the transport checksum; returns their length.
    pub(super) fn write_header(&self, room: &mut [u8; MAX_HEADER_BYTES]) -> usize {
        let payload_bytes = self.payload().len();
        self.whole
            .write_header(self.segment, payload_bytes, 0, room)
    }

    /// Whether `next` directly follows it in the same super-frame.
    pub(super) fn is_cut_before(&self, next: &Frame) -> bool {
        Arc::ptr_eq(&self.whole, &next.whole) && self.segment + 1 == next.segment
    }

    /// The packet with CE set in its IP header (RFC 3168 §5).
    #[must_use]
    pub(super) fn marked(self) -> Frame {
        if self.whole.layout().is_none() {
            let mut bytes = self.wire_bytes();
            ip::mark(&mut bytes);
            return self.remade(bytes, Offload::default());
        }
        let mut room = [0; MAX_HEADER_BYTES];
        let header_bytes = self.write_header(&mut room);
        ip::mark(&mut room[..header_bytes]);
        let bytes = [&room[..header_bytes], self.payload()].concat();
        let offload = Offload {
            segmentation: None,
            ..self.whole.offload()
        };
        self.remade(bytes, offload)
    }

    /// The packet with one bit of the IP payload inverted, bit `bit` modulo their number, so that the TCP or UDP
    /// checksum fails.
    #[must_use]
    pub(super) fn corrupted(self, bit: u64) -> Frame {
        let mut bytes = self.wire_bytes();
        ip::spoil(&mut bytes, bit);
        self.remade(bytes, Offload::default())
    }

    /// A packet with other bytes in place of this one.
    fn remade(&self, bytes: Vec<u8>, offload: Offload) -> Frame {
        let whole = SuperFrame::new(bytes, offload);
        Frame {
            whole: Arc::new(whole.expect("a packet that is not to be cut is a frame")),
            segment: 0,
            to: self.to,
        }
    }

    /// The bytes of the frame on a wire, including the Ethernet header, with all checksums.
    #[must_use]
    pub fn wire_bytes(&self) -> Vec<u8> {
        let mut room = [0; MAX_HEADER_BYTES];
        let header_bytes = self.write_header(&mut room);
        let mut bytes = [&room[..header_bytes], self.payload()].concat();
        if let Some(checksum) = self.whole.offload().checksum {
            let start = usize::from(checksum.start);
            let at = start + usize::from(checksum.offset);
            let is_udp = self
                .whole
                .layout()
                .is_some_and(|layout| layout.kind == Kind::Udp);
            // A UDP checksum of 0 means none (RFC 768).
            let filled = match !Sum::default().of(&bytes[start..]).folded() {
                0 if is_udp => 0xffff,
                filled => filled,
            };
            bytes[at..at + 2].copy_from_slice(&filled.to_be_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::superframe::ETHERNET_BYTES;
    use super::super::superframe::sample::{tcp, udp};
    use super::*;

    fn wire(whole: SuperFrame) -> Vec<Vec<u8>> {
        Frame::cut(whole, 0)
            .map(|frame| {
                let bytes = frame.wire_bytes();
                assert_eq!(bytes.len(), frame.size_bytes() as usize);
                bytes
            })
            .collect()
    }

    fn field(bytes: &[u8], at: usize, length: usize) -> u64 {
        let field = bytes[at..at + length].iter();
        field.fold(0, |value, &byte| value << 8 | u64::from(byte))
    }

    /// The sum that any correct TCP or UDP checksum over IPv4 yields.
    fn transport_sum(bytes: &[u8], transport: usize) -> u16 {
        Sum::default()
            .of(&bytes[ETHERNET_BYTES + 12..ETHERNET_BYTES + 20])
            .word(u16::from(bytes[ETHERNET_BYTES + 9]))
            .word((bytes.len() - transport) as u16)
            .of(&bytes[transport..])
            .folded()
    }

    #[test]
    fn tcp_is_cut_as_the_kernel_cuts_it() {
        let payload: Vec<u8> = (0..250).collect();
        // CWR, ECE, PSH, ACK and FIN; near the wraparound of ID and sequence number.
        let packets = wire(tcp(0xffff_ffc0, 0xffff, 0xd9, 100, &payload));
        let lengths = packets.iter().map(Vec::len);
        assert!(lengths.eq([166, 166, 116]));
        for (number, packet) in packets.iter().enumerate() {
            let ip = ETHERNET_BYTES;
            assert_eq!(field(packet, ip + 2, 2), packet.len() as u64 - 14);
            assert_eq!(field(packet, ip + 4, 2), [0xffff, 0, 1][number]);
            assert_eq!(Sum::default().of(&packet[ip..34]).folded(), 0xffff);
            assert_eq!(
                field(packet, 38, 4),
                [0xffff_ffc0, 0x24, 0x88][number],
                "sequence number"
            );
            assert_eq!(field(packet, 47, 1), [0xd0, 0x50, 0x59][number], "flags");
            assert_eq!(transport_sum(packet, 34), 0xffff);
            assert!(payload[number * 100..].starts_with(&packet[66..]));
            // The options, and the other TCP fields.
            assert!(packet[54..66] == packets[0][54..66] && packet[48..50] == packets[0][48..50]);
        }
    }

    #[test]
    fn udp_is_cut_as_the_kernel_cuts_it() {
        let packets = wire(udp(7, 22, &[5; 50]));
        assert!(packets.iter().map(Vec::len).eq([64, 64, 48]));
        for (number, packet) in packets.iter().enumerate() {
            assert_eq!(field(packet, ETHERNET_BYTES + 4, 2), 7 + number as u64);
            assert_eq!(field(packet, 38, 2), packet.len() as u64 - 34);
            assert_eq!(transport_sum(packet, 34), 0xffff);
        }
    }

    #[test]
    fn a_mark_is_two_bits_and_the_header_checksum() {
        let frames = Vec::from_iter(Frame::cut(tcp(1, 9, 0x19, 100, &[7; 250]), 0));
        assert_eq!(frames.len(), 3);
        for frame in frames {
            let plain = frame.wire_bytes();
            let marked = frame.marked();
            let bytes = marked.wire_bytes();
            assert_eq!(bytes[ETHERNET_BYTES + 1], 0b11);
            let same = |at: usize| plain[at] == bytes[at] || [15, 24, 25].contains(&at);
            assert!((0..plain.len()).all(same) && plain.len() == bytes.len());
            assert_eq!(
                Sum::default().of(&bytes[ETHERNET_BYTES..34]).folded(),
                0xffff
            );
            assert!(
                marked.whole().offload().checksum.is_some(),
                "a checksum was made early"
            );
        }
    }

    #[test]
    fn a_corrupted_packet_is_one_bit_off_and_no_checksum_is_made_for_it() {
        for bit in [0, 160, 1_599, u64::MAX] {
            let frame = Frame::cut(tcp(1, 9, 0x19, 100, &[7; 250]), 0)
                .nth(1)
                .unwrap();
            let plain = frame.wire_bytes();
            let corrupted = frame.corrupted(bit);
            let bytes = corrupted.wire_bytes();
            let off = plain.iter().zip(&bytes).map(|(a, b)| (a ^ b).count_ones());
            assert_eq!(off.sum::<u32>(), 1);
            assert_eq!(plain[..ETHERNET_BYTES], bytes[..ETHERNET_BYTES]);
            assert_eq!(corrupted.whole().offload(), Offload::default());
        }
    }

    #[test]
    fn what_is_no_tcp_or_udp_passes_as_it_is() {
        let bytes: Vec<u8> = (0..60).collect();
        let whole = SuperFrame::new(bytes.clone(), Default::default()).unwrap();
        assert_eq!(wire(whole), [bytes]);
    }
}
