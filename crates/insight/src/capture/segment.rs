//! The TCP segment in a frame.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

use etherparse::{
    EtherType, LaxNetSlice, LaxSlicedPacket, TcpOptionElement, TcpSlice, TransportSlice,
};

use super::frames::Frame;
use super::link::{Beginning, beginning};

/// Bytes that the time stamps take in each segment (RFC 7323 §3.2, with padding).
const TIMESTAMP_BYTES: u64 = 12;

/// A greater shift of windows counts as this (RFC 7323 §2.3).
const MOST_SHIFT: u32 = 14;

/// One TCP segment.
#[derive(Debug, Clone, Copy)]
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
    /// Length of the IP packet; 65,535 of a longer one that was not cut up yet.
    pub(super) ip_bytes: u16,
    /// What the file has of the payload, and how long that was.
    pub(super) payload: &'a [u8],
    pub(super) payload_bytes: u64,
    /// What a SYN says of its sender.
    pub(super) options: Options,
    /// Its time stamp and the one that it echoes (RFC 7323 §3.2).
    pub(super) stamps: Option<(u32, u32)>,
    /// The same for each sight of one segment, and another one when it is retransmitted.
    pub(super) mark: u64,
}

/// What a SYN says of its sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Options {
    /// The longest segment that it takes, without options.
    pub(super) mss_bytes: Option<u64>,
    /// By how much its windows are shifted.
    pub(super) shift: Option<u32>,
    pub(super) has_timestamps: bool,
}

impl Segment<'_> {
    /// Whether it begins a connection.
    pub(super) fn is_syn(&self) -> bool {
        const SYN: u8 = 0x02;
        const ACK: u8 = 0x10;
        self.flags & (SYN | ACK) == SYN
    }
}

impl Options {
    /// The longest payload that is sent to the end that has said this by one that has said `other`.
    pub(super) fn payload_bytes(&self, other: &Options) -> Option<u64> {
        let both = self.has_timestamps && other.has_timestamps;
        let stamps = if both { TIMESTAMP_BYTES } else { 0 };
        self.mss_bytes.map(|bytes| bytes.saturating_sub(stamps))
    }
}

/// The TCP segment in a frame, if it holds one that is no fragment and is not cut off before its end
/// of headers.
pub(super) fn segment<'a>(frame: &Frame<'a>) -> Option<Segment<'a>> {
    let packet = sliced(frame)?;
    let TransportSlice::Tcp(tcp) = packet.transport? else {
        return None;
    };
    let net = packet.net?;
    let declared = Declared::of(&net)?;
    let header_bytes = tcp.header_slice().len() as u64;
    let found_bytes = tcp.payload().len() as u64;
    let payload_bytes = match declared.tcp_bytes.checked_sub(header_bytes) {
        // What is not cut up yet may have no length of its own.
        None => found_bytes,
        Some(bytes) => bytes,
    };
    // Behind the packet stands what fills a short frame.
    let payload = &tcp.payload()[..found_bytes.min(payload_bytes) as usize];
    let mark = mark(&declared, &tcp);
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
        // No length of its own: at least that of what it carries.
        ip_bytes: u16::try_from(declared.ip_bytes.max(header_bytes + payload_bytes))
            .unwrap_or(u16::MAX),
        payload,
        payload_bytes,
        options,
        stamps,
        mark,
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

/// What the IP header says.
struct Declared {
    source: IpAddr,
    destination: IpAddr,
    ecn: u8,
    identification: u16,
    ip_bytes: u64,
    /// TCP header and payload.
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

fn mark(declared: &Declared, tcp: &TcpSlice<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (
        declared.source,
        declared.destination,
        declared.identification,
    )
        .hash(&mut hasher);
    // Checksums are filled in on the way.
    let header = tcp.header_slice();
    (&header[..16], header.get(18..), declared.tcp_bytes).hash(&mut hasher);
    hasher.finish()
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
