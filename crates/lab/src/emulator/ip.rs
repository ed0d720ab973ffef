//! The IP header of a frame, for marking and corruption.

use wansan_path::Ecn;

use super::superframe::{ETHERNET_BYTES, fill_ip_checksum};

const IPV6_HEADER_BYTES: usize = 40;

/// The IP version, and the header's length.
enum Header {
    /// RFC 791 §3.1; header length in bytes.
    V4(usize),
    /// RFC 8200 §3.
    V6,
}

/// The IP header of a frame, if it is complete.
fn header(frame: &[u8]) -> Option<Header> {
    let ethertype = frame.get(12..ETHERNET_BYTES)?;
    let ip = &frame[ETHERNET_BYTES..];
    match (ethertype, ip.first()? >> 4) {
        ([0x08, 0x00], 4) => {
            let bytes = usize::from(ip[0] & 0x0f) * 4;
            (20..=ip.len())
                .contains(&bytes)
                .then_some(Header::V4(bytes))
        }
        ([0x86, 0xdd], 6) => (ip.len() >= IPV6_HEADER_BYTES).then_some(Header::V6),
        _ => None,
    }
}

/// The ECN codepoint of a frame (RFC 3168 §5); non-IP frames are not ECN-capable.
pub(super) fn ecn(frame: &[u8]) -> Ecn {
    match header(frame) {
        Some(Header::V4(_)) => Ecn::from_bits(frame[ETHERNET_BYTES + 1]),
        // The traffic class is offset by four bits.
        Some(Header::V6) => Ecn::from_bits(frame[ETHERNET_BYTES + 1] >> 4),
        None => Ecn::NotCapable,
    }
}

/// Sets CE, and updates IPv4's header checksum.
pub(super) fn mark(frame: &mut [u8]) {
    match header(frame) {
        Some(Header::V4(bytes)) => {
            let ip = &mut frame[ETHERNET_BYTES..ETHERNET_BYTES + bytes];
            ip[1] |= Ecn::Congestion.bits();
            fill_ip_checksum(ip);
        }
        Some(Header::V6) => frame[ETHERNET_BYTES + 1] |= Ecn::Congestion.bits() << 4,
        None => {}
    }
}

/// Inverts bit `number`, modulo their number, of the IP payload, or of everything after the Ethernet header if it is
/// not IP or has no payload.
pub(super) fn spoil(frame: &mut [u8], number: u64) {
    let header_bytes = match header(frame) {
        Some(Header::V4(bytes)) => bytes,
        Some(Header::V6) => IPV6_HEADER_BYTES,
        None => 0,
    };
    let mut start = ETHERNET_BYTES + header_bytes;
    if start >= frame.len() {
        start = ETHERNET_BYTES.min(frame.len());
    }
    let payload = &mut frame[start..];
    if !payload.is_empty() {
        let bit = (number % (payload.len() as u64 * 8)) as usize;
        payload[bit / 8] ^= 1 << (bit % 8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(ethertype: [u8; 2], packet: &[u8]) -> Vec<u8> {
        [&[2; 12], &ethertype[..], packet].concat()
    }

    fn v4(tos: u8) -> Vec<u8> {
        let mut packet = vec![0x45, tos, 0, 24, 0, 1, 0, 0, 64, 50, 0, 0];
        packet.extend([10, 83, 0, 1, 10, 83, 0, 2]);
        fill_ip_checksum(&mut packet);
        packet.extend([0; 4]);
        frame([0x08, 0x00], &packet)
    }

    fn v6(class: u8) -> Vec<u8> {
        let mut packet = vec![0; 44];
        packet[0] = 0x60 | class >> 4;
        packet[1] = class << 4;
        frame([0x86, 0xdd], &packet)
    }

    #[test]
    fn marks_change_the_codepoint_and_nothing_else() {
        // The DSCP beside the codepoint is kept.
        for (mut marked, expected) in [(v4(0b1011_1010), v4(0b1011_1011)), (v6(0xb9), v6(0xbb))] {
            assert!(ecn(&marked).is_capable());
            mark(&mut marked);
            assert_eq!(ecn(&marked), Ecn::Congestion);
            assert_eq!(marked, expected);
        }
    }

    #[test]
    fn every_bit_of_the_payload_can_be_spoiled_and_no_other() {
        for (whole, header_bytes) in [(v4(0), 20), (v6(0), 40)] {
            for number in 0..32 {
                let mut spoiled = whole.clone();
                spoil(&mut spoiled, number + 64);
                let at = ETHERNET_BYTES + header_bytes + number as usize / 8;
                spoiled[at] ^= 1 << (number % 8);
                assert_eq!(spoiled, whole);
            }
        }
    }

    #[test]
    fn what_is_not_ip_is_left_alone_or_spoiled_anywhere() {
        let arp = frame([0x08, 0x06], &[7; 28]);
        let mut marked = arp.clone();
        mark(&mut marked);
        assert_eq!((ecn(&arp), &marked), (Ecn::NotCapable, &arp));
        let mut spoiled = arp.clone();
        spoil(&mut spoiled, 0);
        assert_eq!(spoiled[ETHERNET_BYTES], 6);
        for cut in 0..v4(0).len() {
            let mut cut = v4(0)[..cut].to_vec();
            mark(&mut cut);
            spoil(&mut cut, u64::MAX);
        }
    }
}
