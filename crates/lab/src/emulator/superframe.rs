//! The units that a host's kernel passes to its link: a packet, or many packets of one flow in a *super-frame* that is
//! left to the network card to cut (TCP and UDP segmentation offload).
//!
//! Cutting is arithmetic on headers, as in Linux's software segmentation, so that each wire packet can pass the path
//! individually while all share the super-frame's bytes.

use wansan_path::Ecn;

use super::checksum::Sum;
use super::ip;
use super::virtio::{Kind, Offload};

/// Bytes of an Ethernet header without a VLAN tag.
pub(super) const ETHERNET_BYTES: usize = 14;
/// The longest headers: Ethernet, IPv4 (RFC 791 §3.1) and TCP (RFC 9293 §3.1), both with all options.
pub(super) const MAX_HEADER_BYTES: usize = ETHERNET_BYTES + 60 + 60;

const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const UDP_HEADER_BYTES: usize = 8;
/// IPv4's "more fragments" and its fragment offset.
const FRAGMENT: u16 = 0x3fff;

/// TCP flags with special treatment in segmentation.
pub(super) mod flag {
    pub(in crate::emulator) const FIN: u8 = 0x01;
    pub(in crate::emulator) const SYN: u8 = 0x02;
    pub(in crate::emulator) const RST: u8 = 0x04;
    pub(in crate::emulator) const PSH: u8 = 0x08;
    pub(in crate::emulator) const URG: u8 = 0x20;
    pub(in crate::emulator) const CWR: u8 = 0x80;
}

/// Offsets of the headers of a TCP segment or UDP datagram over IPv4 in its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) kind: Kind,
    /// Offset of the TCP or UDP header.
    pub(super) transport: usize,
    /// Offset of the payload.
    pub(super) payload: usize,
}

impl Layout {
    /// The layout of a frame with unfragmented TCP or UDP over IPv4. `headers` may be truncated anywhere after the
    /// headers; length fields are ignored.
    pub(super) fn of(headers: &[u8]) -> Option<Layout> {
        let ip = headers.get(ETHERNET_BYTES..)?;
        let ip_header_bytes = usize::from(ip.first()? & 0x0f) * 4;
        if headers[12..ETHERNET_BYTES] != ETHERTYPE_IPV4
            || ip[0] >> 4 != 4
            || ip_header_bytes < 20
            || be16(ip, 6)? & FRAGMENT != 0
        {
            return None;
        }
        let transport = ETHERNET_BYTES + ip_header_bytes;
        let (kind, header_bytes) = match *ip.get(9)? {
            PROTOCOL_TCP => {
                let header_bytes = usize::from(headers.get(transport + 12)? >> 4) * 4;
                (header_bytes >= 20).then_some((Kind::Tcp, header_bytes))?
            }
            PROTOCOL_UDP => (Kind::Udp, UDP_HEADER_BYTES),
            _ => return None,
        };
        let payload = transport + header_bytes;
        (payload <= headers.len()).then_some(Layout {
            kind,
            transport,
            payload,
        })
    }

    /// Offset of the transport checksum.
    pub(super) fn checksum(&self) -> usize {
        self.transport
            + match self.kind {
                Kind::Tcp => 16,
                Kind::Udp => 6,
            }
    }
}

/// One packet, or several of one flow.
#[derive(Debug)]
pub(super) struct SuperFrame {
    bytes: Vec<u8>,
    offload: Offload,
    layout: Option<Layout>,
    segments: u16,
}

impl SuperFrame {
    /// A frame with these bytes and remaining offload work; `None` if the work exceeds what a network card would do, so
    /// that no wire packets can be made of it.
    pub(super) fn new(bytes: Vec<u8>, offload: Offload) -> Option<SuperFrame> {
        // Padding after the IP packet, which no host here sends, makes a frame opaque.
        let layout = Layout::of(&bytes).filter(|_| {
            be16(&bytes, ETHERNET_BYTES + 2) == Some((bytes.len() - ETHERNET_BYTES) as u16)
        });
        // Only a checksum at the place that the headers imply can be moved to other frames.
        let checksum_fits = offload.checksum.is_none_or(|checksum| match layout {
            Some(layout) => {
                usize::from(checksum.start) == layout.transport
                    && layout.transport + usize::from(checksum.offset) == layout.checksum()
            }
            None => usize::from(checksum.start) + usize::from(checksum.offset) + 2 <= bytes.len(),
        });
        let segments = match offload.segmentation {
            None => 1,
            Some(segmentation) => {
                let layout = layout.filter(|layout| layout.kind == segmentation.kind)?;
                offload.checksum?;
                let segment_bytes = usize::from(segmentation.segment_bytes);
                let payload_bytes = bytes.len() - layout.payload;
                if segment_bytes == 0 {
                    return None;
                }
                u16::try_from(payload_bytes.div_ceil(segment_bytes).max(1)).ok()?
            }
        };
        checksum_fits.then_some(SuperFrame {
            bytes,
            offload,
            layout,
            segments,
        })
    }

    /// Its bytes as received.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The remaining offload work.
    pub(super) fn offload(&self) -> Offload {
        self.offload
    }

    /// Offsets of its headers, if it is TCP or UDP.
    pub(super) fn layout(&self) -> Option<Layout> {
        self.layout
    }

    /// Its ECN codepoint, common to all its wire packets.
    pub(super) fn ecn(&self) -> Ecn {
        ip::ecn(&self.bytes)
    }

    /// Number of wire packets.
    pub(super) fn segments(&self) -> u16 {
        self.segments
    }

    /// The payload of a wire packet; all bytes if opaque.
    pub(super) fn payload(&self, segment: u16) -> &[u8] {
        let payload = &self.bytes[self.header_bytes()..];
        match self.offload.segmentation {
            None => payload,
            Some(segmentation) => {
                let segment_bytes = usize::from(segmentation.segment_bytes);
                let rest = &payload[usize::from(segment) * segment_bytes..];
                &rest[..segment_bytes.min(rest.len())]
            }
        }
    }

    /// Header length of each wire packet; 0 if opaque.
    pub(super) fn header_bytes(&self) -> usize {
        self.layout.map_or(0, |layout| layout.payload)
    }

    /// Writes the headers of the wire packet `segment`, extended to cover the packets joined to it, and returns their
    /// length. `payload_bytes` is the total payload, `last_flags` are the TCP flags of the last packet. If the checksum
    /// is offloaded, its field gets the pseudo-header sum.
    ///
    /// As in the kernel: IDs and sequence numbers are incremented, CWR is set in the first segment only, FIN and PSH in
    /// the last only (RFC 9293 §3.1, RFC 3168 §6.1.2).
    pub(super) fn write_header(
        &self,
        segment: u16,
        payload_bytes: usize,
        last_flags: u8,
        room: &mut [u8; MAX_HEADER_BYTES],
    ) -> usize {
        let Some(layout) = self.layout else {
            return 0;
        };
        let header = &mut room[..layout.payload];
        header.copy_from_slice(&self.bytes[..layout.payload]);
        if self.offload.checksum.is_none() {
            return layout.payload;
        }
        let transport_bytes = (layout.payload - layout.transport + payload_bytes) as u16;
        let ip = &mut header[ETHERNET_BYTES..layout.transport];
        let ip_bytes = ip.len() as u16 + transport_bytes;
        ip[2..4].copy_from_slice(&ip_bytes.to_be_bytes());
        let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(segment);
        ip[4..6].copy_from_slice(&id.to_be_bytes());
        fill_ip_checksum(ip);
        let pseudo_header = Sum::default()
            .of(&ip[12..20])
            .word(u16::from(ip[9]))
            .word(transport_bytes)
            .folded();
        match layout.kind {
            Kind::Udp => {
                header[layout.transport + 4..][..2].copy_from_slice(&transport_bytes.to_be_bytes());
            }
            Kind::Tcp => {
                let at = layout.transport;
                let seq = self.seq(segment, layout);
                header[at + 4..at + 8].copy_from_slice(&seq.to_be_bytes());
                header[at + 13] = self.tcp_flags(segment) | last_flags & (flag::FIN | flag::PSH);
            }
        }
        header[layout.checksum()..][..2].copy_from_slice(&pseudo_header.to_be_bytes());
        layout.payload
    }

    /// TCP flags of a wire packet; 0 if it is not TCP.
    pub(super) fn tcp_flags(&self, segment: u16) -> u8 {
        let Some(Layout {
            kind: Kind::Tcp,
            transport,
            ..
        }) = self.layout
        else {
            return 0;
        };
        let mut flags = self.bytes[transport + 13];
        if segment > 0 {
            flags &= !flag::CWR;
        }
        if segment + 1 < self.segments {
            flags &= !(flag::FIN | flag::PSH);
        }
        flags
    }

    /// TCP sequence number of a wire packet.
    pub(super) fn seq(&self, segment: u16, layout: Layout) -> u32 {
        let at = layout.transport + 4;
        let field = [0, 1, 2, 3].map(|byte| self.bytes[at + byte]);
        let before = u32::from(segment)
            * self
                .offload
                .segmentation
                .map_or(0, |segmentation| u32::from(segmentation.segment_bytes));
        u32::from_be_bytes(field).wrapping_add(before)
    }
}

/// Fills in the checksum of an IPv4 header.
pub(super) fn fill_ip_checksum(ip: &mut [u8]) {
    ip[10..12].fill(0);
    let checksum = !Sum::default().of(ip).folded();
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes(field.try_into().ok()?))
}

/// Frames for tests.
#[cfg(test)]
pub(super) mod sample {
    use super::super::virtio::{Checksum, Segmentation};
    use super::*;

    /// A TCP super-frame with the timestamp option, as a host's kernel passes it to its card.
    pub(in crate::emulator) fn tcp(
        seq: u32,
        id: u16,
        flags: u8,
        segment_bytes: u16,
        payload: &[u8],
    ) -> SuperFrame {
        let mut header = vec![0x9c, 0x40, 0x0c, 0xbc];
        header.extend(seq.to_be_bytes());
        header.extend([0, 0, 1, 0, 0x80, flags, 0x01, 0xf6, 0, 0, 0, 0]);
        header.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]);
        over_ip(PROTOCOL_TCP, id, Kind::Tcp, segment_bytes, &header, payload)
    }

    /// A super-frame of UDP.
    pub(in crate::emulator) fn udp(id: u16, segment_bytes: u16, payload: &[u8]) -> SuperFrame {
        let header = [0, 9, 0, 9, 0, 0, 0, 0];
        over_ip(PROTOCOL_UDP, id, Kind::Udp, segment_bytes, &header, payload)
    }

    fn over_ip(
        protocol: u8,
        id: u16,
        kind: Kind,
        segment_bytes: u16,
        header: &[u8],
        payload: &[u8],
    ) -> SuperFrame {
        let ip_bytes = (20 + header.len() + payload.len()) as u16;
        let mut bytes = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00, 0x45, 0b10];
        bytes.extend(ip_bytes.to_be_bytes());
        bytes.extend(id.to_be_bytes());
        bytes.extend([0, 0, 64, protocol, 0, 0, 10, 83, 0, 2, 10, 83, 0, 1]);
        bytes.extend(header);
        bytes.extend(payload);
        let layout = Layout::of(&bytes).unwrap();
        let offload = Offload {
            checksum: Some(Checksum {
                start: layout.transport as u16,
                offset: (layout.checksum() - layout.transport) as u16,
            }),
            segmentation: Some(Segmentation {
                kind,
                segment_bytes,
                header_bytes: layout.payload as u16,
                cwr: false,
            })
            .filter(|_| payload.len() > usize::from(segment_bytes)),
        };
        SuperFrame::new(bytes, offload).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::super::virtio::{Checksum, Segmentation};
    use super::*;

    #[test]
    fn what_no_card_could_cut_is_refused() {
        let good = sample::tcp(1, 1, 0x10, 100, &[0; 250]);
        let (bytes, offload) = (good.bytes, good.offload);
        assert!(SuperFrame::new(bytes.clone(), offload).is_some());
        let segmentation = offload.segmentation.unwrap();
        let refused = [
            Offload {
                checksum: None,
                ..offload
            },
            Offload {
                checksum: Some(Checksum {
                    start: 34,
                    offset: 6,
                }),
                ..offload
            },
            Offload {
                segmentation: Some(Segmentation {
                    segment_bytes: 0,
                    ..segmentation
                }),
                ..offload
            },
            Offload {
                segmentation: Some(Segmentation {
                    kind: Kind::Udp,
                    ..segmentation
                }),
                ..offload
            },
        ];
        for offload in refused {
            assert!(
                SuperFrame::new(bytes.clone(), offload).is_none(),
                "{offload:?}"
            );
        }
        for end in 0..bytes.len() {
            assert!(
                SuperFrame::new(bytes[..end].to_vec(), offload).is_none(),
                "cut at {end}"
            );
        }
    }
}
