//! The TCP segment inside a frame, or a tunnel's packet, for records.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::superframe::ETHERNET_BYTES;

const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_ESP: u8 = 50;
const UDP_HEADER_BYTES: u16 = 8;

/// Addresses and header fields of one TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segment {
    pub(super) source: SocketAddr,
    pub(super) destination: SocketAddr,
    pub(super) seq: u32,
    pub(super) ack: u32,
    pub(super) payload_bytes: u16,
    pub(super) ip_bytes: u16,
    pub(super) window: u16,
    pub(super) flags: u8,
    pub(super) ecn: u8,
}

impl Segment {
    /// Parses the segment in an Ethernet frame, of which the headers suffice; `None` for anything but TCP over IPv4
    /// (RFC 791 §3.1, RFC 9293 §3.1), for later fragments, and for inconsistent lengths.
    pub(super) fn parse(frame: &[u8]) -> Option<Segment> {
        let (ip, header_bytes, ip_bytes) = ipv4(frame)?;
        if *ip.get(9)? != PROTOCOL_TCP {
            return None;
        }
        let tcp = ip.get(header_bytes..)?;
        let tcp_header_bytes = usize::from(tcp.get(12)? >> 4) * 4;
        if tcp_header_bytes < 20 || tcp.len() < tcp_header_bytes {
            return None;
        }
        let headers_bytes = u16::try_from(header_bytes + tcp_header_bytes).ok()?;
        Some(Segment {
            source: socket_address(ip, 12, be16(tcp, 0)?)?,
            destination: socket_address(ip, 16, be16(tcp, 2)?)?,
            seq: be32(tcp, 4)?,
            ack: be32(tcp, 8)?,
            payload_bytes: ip_bytes.checked_sub(headers_bytes)?,
            ip_bytes,
            window: be16(tcp, 14)?,
            flags: tcp[13],
            ecn: ip[1] & 0b11,
        })
    }

    /// The visible fields of what may be a tunnel's packet, UDP (RFC 768) or ESP (RFC 4303 §2): addresses, lengths, and
    /// ESP's sequence number. Everything else is 0, including the flags, which are never 0 in a TCP segment.
    pub(super) fn sealed(frame: &[u8]) -> Option<Segment> {
        let (ip, header_bytes, ip_bytes) = ipv4(frame)?;
        let content = ip.get(header_bytes..)?;
        let beyond = u16::try_from(header_bytes).ok()?;
        let (source_port, destination_port, seq, beyond) = match *ip.get(9)? {
            PROTOCOL_UDP => (
                be16(content, 0)?,
                be16(content, 2)?,
                0,
                beyond + UDP_HEADER_BYTES,
            ),
            PROTOCOL_ESP => (0, 0, be32(content, 4)?, beyond),
            _ => return None,
        };
        Some(Segment {
            source: socket_address(ip, 12, source_port)?,
            destination: socket_address(ip, 16, destination_port)?,
            seq,
            ack: 0,
            payload_bytes: ip_bytes.checked_sub(beyond)?,
            ip_bytes,
            window: 0,
            flags: 0,
            ecn: ip[1] & 0b11,
        })
    }
}

/// The IPv4 packet in a frame, its header length, and its total length field.
fn ipv4(frame: &[u8]) -> Option<(&[u8], usize, u16)> {
    if frame.get(12..ETHERNET_BYTES)? != ETHERTYPE_IPV4 {
        return None;
    }
    let ip = &frame[ETHERNET_BYTES..];
    let header_bytes = usize::from(ip.first()? & 0x0f) * 4;
    let ip_bytes = be16(ip, 2)?;
    let fragment_offset = be16(ip, 6)? & 0x1fff;
    let whole = ip[0] >> 4 == 4 && header_bytes >= 20 && fragment_offset == 0;
    whole.then_some((ip, header_bytes, ip_bytes))
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    let field = bytes.get(at..at + 2)?;
    Some(u16::from_be_bytes(field.try_into().ok()?))
}

fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    let field = bytes.get(at..at + 4)?;
    Some(u32::from_be_bytes(field.try_into().ok()?))
}

fn socket_address(ip: &[u8], at: usize, port: u16) -> Option<SocketAddr> {
    let address = Ipv4Addr::from(be32(ip, at)?);
    Some(SocketAddr::new(IpAddr::V4(address), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ACK with the timestamp option and three bytes of payload, padded to Ethernet's minimum.
    fn frame() -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00];
        frame.extend([0x45, 0b11, 0, 55, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend([10, 83, 0, 2, 10, 83, 0, 1]);
        frame.extend([0x9c, 0x40, 0x0c, 0xbc, 0, 0, 0, 7, 0, 0, 1, 0]);
        frame.extend([0x80, 0x18, 0x01, 0xf6, 0, 0, 0, 0]);
        frame.extend([1; 12]);
        frame.extend(b"abc");
        frame.extend([0; 4]);
        frame
    }

    #[test]
    fn reads_every_field() {
        let segment = Segment::parse(&frame()).unwrap();
        let expected = Segment {
            source: "10.83.0.2:40000".parse().unwrap(),
            destination: "10.83.0.1:3260".parse().unwrap(),
            seq: 7,
            ack: 256,
            payload_bytes: 3,
            ip_bytes: 55,
            window: 502,
            flags: 0x18,
            ecn: 3,
        };
        assert_eq!(segment, expected);
    }

    #[test]
    fn of_a_tunnels_packet_the_ends_and_lengths_are_seen() {
        let mut frame = frame();
        assert_eq!(Segment::sealed(&frame), None);
        frame[ETHERNET_BYTES + 9] = 17;
        let udp = Segment::sealed(&frame).unwrap();
        assert_eq!(udp.source, "10.83.0.2:40000".parse().unwrap());
        assert_eq!((udp.payload_bytes, udp.ip_bytes), (27, 55));
        assert_eq!((udp.flags, udp.seq, udp.ecn), (0, 0, 3));
        frame[ETHERNET_BYTES + 9] = 50;
        let esp = Segment::sealed(&frame).unwrap();
        assert_eq!(esp.source, "10.83.0.2:0".parse().unwrap());
        assert_eq!((esp.payload_bytes, esp.seq), (35, 7));
        for cut in 0..ETHERNET_BYTES + 24 {
            assert_eq!(Segment::sealed(&frame[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn a_frame_cut_anywhere_is_no_segment() {
        let frame = frame();
        let headers_end = ETHERNET_BYTES + 52;
        for cut in 0..headers_end {
            assert_eq!(Segment::parse(&frame[..cut]), None, "cut at {cut}");
        }
    }

    #[test]
    fn nonsense_lengths_are_no_segment() {
        for (at, value) in [
            (12, 0x86),                  // another ethertype
            (ETHERNET_BYTES, 0x65),      // another IP version
            (ETHERNET_BYTES, 0x44),      // an IP header too short
            (ETHERNET_BYTES + 3, 51),    // a packet shorter than its headers
            (ETHERNET_BYTES + 7, 1),     // a later fragment
            (ETHERNET_BYTES + 9, 17),    // UDP
            (ETHERNET_BYTES + 32, 0x40), // a TCP header too short
            (ETHERNET_BYTES + 32, 0xf0), // and one too long
        ] {
            let mut frame = frame();
            frame[at] = value;
            assert_eq!(Segment::parse(&frame), None, "byte {at} = {value:#x}");
        }
    }
}
