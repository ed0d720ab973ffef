//! The TCP segment in a frame.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use etherparse::{
    EtherType, LaxNetSlice, LaxSlicedPacket, TcpOptionElement, TcpSlice, TransportSlice,
};
use pcap_parser::Linktype;

use super::frames::Frame;
use super::link::{Beginning, beginning};

/// Bytes of the TCP timestamps option in each segment (RFC 7323 §3.2), with padding.
const TIMESTAMP_BYTES: u64 = 12;

/// Maximum window scale; a greater one counts as this (RFC 7323 §2.3).
const MOST_SHIFT: u32 = 14;

/// One TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment<'a> {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) seq: u32,
    pub(super) ack: u32,
    /// The TCP flag byte.
    pub(super) flags: u8,
    /// The window field as sent.
    pub(super) window: u16,
    pub(super) ecn: u8,
    /// Length of the IP packet; 65,535 if it is longer, before segmentation.
    pub(super) ip_bytes: u16,
    /// The captured part of the payload, and its full length.
    pub(super) payload: &'a [u8],
    pub(super) payload_bytes: u64,
    /// TCP options of a SYN.
    pub(super) options: Options,
    /// Its timestamp value and timestamp echo reply (RFC 7323 §3.2).
    pub(super) stamps: Option<(u32, u32)>,
    /// The Identification field of its IPv4 header; 0 for IPv6.
    pub(super) identification: u16,
    /// Its TCP header.
    pub(super) header: &'a [u8],
}

/// TCP options of a SYN.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// The MSS option: the longest segment accepted, without options.
    pub(super) mss_bytes: Option<u64>,
    /// The window scale option.
    pub(super) shift: Option<u32>,
    pub(super) has_timestamps: bool,
}

impl Segment<'_> {
    /// Whether it begins a connection: a SYN without ACK.
    pub(super) fn is_syn(&self) -> bool {
        const SYN: u8 = 0x02;
        const ACK: u8 = 0x10;
        self.flags & (SYN | ACK) == SYN
    }
}

impl Options {
    /// The longest payload in segments to the end with these options, from the end with the options `other`.
    pub(super) fn payload_bytes(&self, other: &Options) -> Option<u64> {
        let both = self.has_timestamps && other.has_timestamps;
        let stamps = if both { TIMESTAMP_BYTES } else { 0 };
        self.mss_bytes.map(|bytes| bytes.saturating_sub(stamps))
    }
}

/// The TCP segment in a frame, if there is one, it is not a fragment, and its headers are complete.
pub(super) fn segment<'a>(frame: &Frame<'a>) -> Option<Segment<'a>> {
    plain(frame).or_else(|| of_any(frame))
}

/// A fast path for the most common frames: Ethernet and IPv4 without IP options, TCP with no options or timestamps
/// only, and captured in full.
fn plain<'a>(frame: &Frame<'a>) -> Option<Segment<'a>> {
    const ETHERNET_BYTES: usize = 14;
    const IP_BYTES: usize = 20;
    const IPV4: [u8; 3] = [0x08, 0x00, 0x45];
    const TCP: u8 = 6;
    const SYN: u8 = 0x02;
    /// NOP, NOP, and the kind and length of the timestamps option.
    const STAMPS: [u8; 4] = [1, 1, 8, 10];
    if frame.link != Linktype::ETHERNET {
        return None;
    }
    let (ethernet, packet) = frame.bytes.split_at_checked(ETHERNET_BYTES)?;
    let (ip, segment) = packet.split_first_chunk::<IP_BYTES>()?;
    let tcp = segment.first_chunk::<IP_BYTES>()?;
    let word = |bytes: &[u8; 20], at: usize| {
        u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    let half = |bytes: &[u8; 20], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let ip_bytes = half(ip, 2);
    let is_fragment = half(ip, 6) & 0x3fff != 0;
    let is_plain = ethernet[12..] == IPV4[..2] && ip[0] == IPV4[2] && ip[9] == TCP && !is_fragment;
    let (header_bytes, flags) = (usize::from(tcp[12] >> 4) * 4, tcp[13]);
    if !is_plain || flags & SYN != 0 {
        return None;
    }
    let packet = packet.get(IP_BYTES..usize::from(ip_bytes))?;
    let (header, payload) = packet.split_at_checked(header_bytes)?;
    let stamps = match header.len() {
        20 => None,
        32 if header[20..24] == STAMPS => {
            let (words, _) = header[24..].as_chunks::<4>();
            Some((u32::from_be_bytes(words[0]), u32::from_be_bytes(words[1])))
        }
        _ => return None,
    };
    let end = |ip_at: usize, port_at: usize| {
        SocketAddr::new(
            Ipv4Addr::from_bits(word(ip, ip_at)).into(),
            half(tcp, port_at),
        )
    };
    Some(Segment {
        source: end(12, 0),
        destination: end(16, 2),
        seq: word(tcp, 4),
        ack: word(tcp, 8),
        flags,
        window: half(tcp, 14),
        ecn: ip[1] & 0b11,
        ip_bytes,
        payload,
        payload_bytes: payload.len() as u64,
        options: Options::default(),
        stamps,
        identification: half(ip, 4),
        header,
    })
}

/// The same for any frame.
fn of_any<'a>(frame: &Frame<'a>) -> Option<Segment<'a>> {
    let packet = sliced(frame)?;
    let TransportSlice::Tcp(tcp) = packet.transport? else {
        return None;
    };
    let net = packet.net?;
    let declared = Declared::of(&net)?;
    let header_bytes = tcp.header_slice().len() as u64;
    let found_bytes = tcp.payload().len() as u64;
    let payload_bytes = match declared.tcp_bytes.checked_sub(header_bytes) {
        // A packet before segmentation may have a length of 0.
        None => found_bytes,
        Some(bytes) => bytes,
    };
    // The packet may be followed by Ethernet padding.
    let payload = &tcp.payload()[..found_bytes.min(payload_bytes) as usize];
    let options = if tcp.syn() {
        options(&tcp)
    } else {
        Options::default()
    };
    let mut elements = tcp.options_iterator().flatten();
    let stamps = elements.find_map(|element| match element {
        TcpOptionElement::Timestamp(value, echo) => Some((value, echo)),
        _ => None,
    });
    Some(Segment {
        source: SocketAddr::new(declared.source, tcp.source_port()),
        destination: SocketAddr::new(declared.destination, tcp.destination_port()),
        seq: tcp.sequence_number(),
        ack: tcp.acknowledgment_number(),
        flags: tcp.header_slice()[13],
        window: tcp.window_size(),
        ecn: declared.ecn,
        // If the IP header has no length, at least that of the TCP segment.
        ip_bytes: u16::try_from(declared.ip_bytes.max(header_bytes + payload_bytes))
            .unwrap_or(u16::MAX),
        payload,
        payload_bytes,
        options,
        stamps,
        identification: declared.identification,
        header: tcp.header_slice(),
    })
}

/// The headers in a frame.
fn sliced<'a>(frame: &Frame<'a>) -> Option<LaxSlicedPacket<'a>> {
    let frame_bytes = frame.bytes;
    match beginning(frame.link)? {
        Beginning::Ethernet => LaxSlicedPacket::from_ethernet(frame_bytes).ok(),
        Beginning::Cooked { protocol, bytes } => {
            let kind = frame_bytes.get(protocol..protocol + 2)?;
            let kind = EtherType(u16::from_be_bytes([kind[0], kind[1]]));
            let packet = frame_bytes.get(bytes..)?;
            Some(LaxSlicedPacket::from_ether_type(kind, packet))
        }
        Beginning::Ip { behind } => LaxSlicedPacket::from_ip(frame_bytes.get(behind..)?).ok(),
    }
}

/// The fields of the IP header.
struct Declared {
    source: IpAddr,
    destination: IpAddr,
    ecn: u8,
    identification: u16,
    ip_bytes: u64,
    /// Length of TCP header and payload.
    tcp_bytes: u64,
}

impl Declared {
    fn of(net: &LaxNetSlice<'_>) -> Option<Declared> {
        match net {
            LaxNetSlice::Ipv4(ip) if !ip.is_payload_fragmented() => {
                let header = ip.header();
                let ip_bytes = u64::from(header.total_len());
                let before = u64::from(header.ihl()) * 4;
                Some(Declared {
                    source: header.source_addr().into(),
                    destination: header.destination_addr().into(),
                    ecn: header.ecn().value(),
                    identification: header.identification(),
                    ip_bytes,
                    tcp_bytes: ip_bytes.saturating_sub(before),
                })
            }
            LaxNetSlice::Ipv6(ip) if !ip.is_payload_fragmented() => {
                let header = ip.header();
                let after = u64::from(header.payload_length());
                let between = ip.extensions().slice().len() as u64;
                Some(Declared {
                    source: header.source_addr().into(),
                    destination: header.destination_addr().into(),
                    ecn: header.ecn().value(),
                    identification: 0,
                    ip_bytes: after + 40,
                    tcp_bytes: after.saturating_sub(between),
                })
            }
            _ => None,
        }
    }
}

fn options(tcp: &TcpSlice<'_>) -> Options {
    let mut options = Options::default();
    for option in tcp.options_iterator().flatten() {
        match option {
            TcpOptionElement::MaximumSegmentSize(bytes) => {
                options.mss_bytes = Some(u64::from(bytes));
            }
            TcpOptionElement::WindowScale(shift) => {
                options.shift = Some(u32::from(shift).min(MOST_SHIFT));
            }
            TcpOptionElement::Timestamp(..) => options.has_timestamps = true,
            _ => {}
        }
    }
    options
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A segment with TCP timestamps and five bytes of payload, in Ethernet and IPv4.
    const FRAME: [u8; 71] = {
        let mut frame = [7; 71];
        (frame[12], frame[13], frame[14], frame[15]) = (0x08, 0x00, 0x45, 0);
        (frame[16], frame[17], frame[20], frame[21], frame[23]) = (0, 57, 0x40, 0, 6);
        (frame[46], frame[47]) = (0x80, 0x18);
        (frame[54], frame[55], frame[56], frame[57]) = (1, 1, 8, 10);
        frame
    };

    fn of(bytes: &[u8]) -> Frame<'_> {
        Frame {
            number: 1,
            time_ns: 0,
            interface: 0,
            link: Linktype::ETHERNET,
            bytes,
            is_lost: false,
        }
    }

    #[test]
    fn an_ordinary_segment_is_read_at_once() {
        let segment = plain(&of(&FRAME)).expect("it is plain");
        assert_eq!(segment.payload, [7; 5]);
        assert_eq!(segment.stamps, Some((0x0707_0707, 0x0707_0707)));
    }

    proptest! {
        #[test]
        fn a_segment_that_is_read_at_once_is_what_its_headers_say(
            changes in prop::collection::vec((0..60_usize, any::<u8>()), 0..4),
            bytes in 40..71_usize,
        ) {
            let mut frame = FRAME;
            for (place, byte) in changes {
                frame[place] = byte;
            }
            let frame = of(&frame[..bytes]);
            if let Some(segment) = plain(&frame) {
                prop_assert_eq!(Some(segment), of_any(&frame));
            }
        }
    }
}
