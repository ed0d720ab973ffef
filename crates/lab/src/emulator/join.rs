//! Joins wire packets that are due together into super-frames, so that the receiving kernel processes them once, as
//! with a network card's receive offload.
//!
//! Only consecutive packets without a gap are joined, and only if the kernel's segmentation would recreate exactly
//! these packets.

use std::io::IoSlice;

use super::frame::Frame;
use super::superframe::{ETHERNET_BYTES, Layout, MAX_HEADER_BYTES, flag};
use super::virtio::{HEADER_BYTES, Kind, Segmentation};

/// Most payload of a super-frame: what an IPv4 packet holds besides the longest headers.
const MAX_PAYLOAD_BYTES: usize = 65_535 - (MAX_HEADER_BYTES - ETHERNET_BYTES);
/// Most packets of a super-frame. More would save nothing and delay the first one.
const MAX_PACKETS: usize = 64;

/// Packets sent as one frame, and its headers.
pub(super) struct Joined {
    /// Number of packets.
    pub(super) packets: usize,
    offload: [u8; HEADER_BYTES],
    header: [u8; MAX_HEADER_BYTES],
    header_bytes: usize,
    /// Whether to use the packet's own headers unchanged.
    as_it_came: bool,
}

impl Joined {
    /// The leading packets of `due` that can be sent as one frame: at least one, and of UDP not more unless `joins_udp`.
    /// `None` if `due` is empty.
    pub(super) fn first<'a>(
        mut due: impl Iterator<Item = &'a Frame>,
        joins_udp: bool,
    ) -> Option<Joined> {
        let first = due.next()?;
        let whole = first.whole();
        let mut offload = whole.offload();
        let mut joined = Joined {
            packets: 1,
            offload: [0; HEADER_BYTES],
            header: [0; MAX_HEADER_BYTES],
            header_bytes: 0,
            as_it_came: whole.segments() == 1,
        };
        let segment_bytes = first.payload().len();
        let mut payload_bytes = segment_bytes;
        let mut last = first;
        if let (Some(layout), Some(_)) = (whole.layout(), offload.checksum)
            && (layout.kind != Kind::Udp || joins_udp)
        {
            for next in due.take(MAX_PACKETS - 1) {
                let next_bytes = next.payload().len();
                let fits = next_bytes <= segment_bytes
                    && payload_bytes + next_bytes <= MAX_PAYLOAD_BYTES
                    && last.payload().len() == segment_bytes
                    && (last.is_cut_before(next) || continues(last, next, layout));
                if !fits {
                    break;
                }
                payload_bytes += next_bytes;
                joined.packets += 1;
                last = next;
            }
            offload.segmentation = (joined.packets > 1).then_some(Segmentation {
                kind: layout.kind,
                segment_bytes: segment_bytes as u16,
                header_bytes: layout.payload as u16,
                cwr: whole.tcp_flags(first.segment()) & flag::CWR != 0,
            });
        }
        joined.as_it_came &= joined.packets == 1;
        if !joined.as_it_came {
            let last_flags = last.whole().tcp_flags(last.segment());
            let segment = first.segment();
            joined.header_bytes =
                whole.write_header(segment, payload_bytes, last_flags, &mut joined.header);
        }
        joined.offload = offload.emit();
        Some(joined)
    }

    /// Appends the frame's slices, given its packets again, in the format of a packet socket with PACKET_VNET_HDR.
    pub(super) fn slices<'a>(
        &'a self,
        packets: impl Iterator<Item = &'a Frame>,
        into: &mut Vec<IoSlice<'a>>,
    ) {
        into.push(IoSlice::new(&self.offload));
        if self.as_it_came {
            into.extend(packets.map(|packet| IoSlice::new(packet.whole().bytes())));
        } else {
            into.push(IoSlice::new(&self.header[..self.header_bytes]));
            into.extend(packets.map(|packet| IoSlice::new(packet.payload())));
        }
    }
}

/// Whether `next`, of another super-frame, directly continues the flow of `last`, with headers that differ only as
/// those of consecutive segments.
fn continues(last: &Frame, next: &Frame, layout: Layout) -> bool {
    let (before, after) = (last.whole(), next.whole());
    if before.layout() != Some(layout)
        || after.layout() != Some(layout)
        || after.offload().checksum.is_none()
        || next.payload().is_empty()
    {
        return false;
    }
    let (a, b) = (before.bytes(), after.bytes());
    let same = |from: usize, to: usize| a[from..to] == b[from..to];
    let ip = ETHERNET_BYTES;
    let id = |bytes: &[u8], frame: &Frame| {
        u16::from_be_bytes([bytes[ip + 4], bytes[ip + 5]]).wrapping_add(frame.segment())
    };
    // MAC addresses, version, type of service; flags, TTL, protocol; IP addresses and options. With "don't fragment"
    // set, the ID has no meaning (RFC 6864 §4.1).
    let same_ip = same(0, ip + 2)
        && same(ip + 6, ip + 10)
        && same(ip + 12, layout.transport)
        && (id(a, last).wrapping_add(1) == id(b, next) || a[ip + 6] & 0x40 != 0);
    if !same_ip || !same(layout.transport, layout.transport + 4) {
        return false;
    }
    match layout.kind {
        Kind::Udp => true,
        Kind::Tcp => {
            const NEVER_JOINED: u8 = flag::SYN | flag::RST | flag::URG;
            let tcp = layout.transport;
            let (flags, next_flags) = (
                before.tcp_flags(last.segment()),
                after.tcp_flags(next.segment()),
            );
            let seq = before.seq(last.segment(), layout);
            seq.wrapping_add(last.payload().len() as u32) == after.seq(next.segment(), layout)
                // Acknowledgement and data offset; window; urgent pointer and options.
                && same(tcp + 8, tcp + 13)
                && same(tcp + 14, tcp + 16)
                && same(tcp + 18, layout.payload)
                && (flags | next_flags) & NEVER_JOINED == 0
                && flags & (flag::FIN | flag::PSH) == 0
                && next_flags & flag::CWR == 0
                && flags & !flag::CWR == next_flags & !(flag::FIN | flag::PSH)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::superframe::SuperFrame;
    use super::super::superframe::sample::{tcp, udp};
    use super::super::virtio::Offload;
    use super::*;

    /// Joins packets, and cuts the results again: the packets' bytes, per frame.
    fn joined(frames: &[Frame], joins_udp: bool) -> Vec<Vec<Vec<u8>>> {
        let mut rest = frames;
        let mut sent = Vec::new();
        while let Some(joined) = Joined::first(rest.iter(), joins_udp) {
            let (packets, later) = rest.split_at(joined.packets);
            rest = later;
            let mut slices = Vec::new();
            joined.slices(packets.iter(), &mut slices);
            let bytes: Vec<u8> = slices
                .iter()
                .flat_map(|slice| slice.iter().copied())
                .collect();
            let (header, bytes) = bytes.split_first_chunk().unwrap();
            let offload = Offload::parse(*header).unwrap();
            let whole = SuperFrame::new(bytes.to_vec(), offload).unwrap();
            sent.push(
                Frame::cut(whole, 0)
                    .map(|frame| frame.wire_bytes())
                    .collect(),
            );
        }
        sent
    }

    fn cut(wholes: impl IntoIterator<Item = SuperFrame>) -> Vec<Frame> {
        let wholes = wholes.into_iter();
        wholes.flat_map(|whole| Frame::cut(whole, 0)).collect()
    }

    /// Joins, checks that the receiving kernel would see the same packets, and returns the number of packets per frame.
    fn runs(frames: &[Frame]) -> Vec<usize> {
        let sent = joined(frames, true);
        let before: Vec<Vec<u8>> = frames.iter().map(Frame::wire_bytes).collect();
        assert_eq!(sent.concat(), before);
        sent.iter().map(Vec::len).collect()
    }

    const ACK: u8 = 0x10;

    #[test]
    fn a_super_frame_is_joined_again() {
        for flags in [ACK, 0x19, 0xd9] {
            let whole = tcp(0xffff_ff00, 65_530, flags, 100, &[7; 950]);
            assert_eq!(runs(&cut([whole])), [10]);
        }
        assert_eq!(runs(&cut([udp(65_530, 22, &[1; 100])])), [5]);
    }

    #[test]
    fn udp_stays_apart_where_the_kernel_does_not_pass_it_joined() {
        let frames = cut([udp(1, 22, &[1; 100]), tcp(1, 1, ACK, 100, &[7; 500])]);
        let sent = joined(&frames, false);
        let before: Vec<Vec<u8>> = frames.iter().map(Frame::wire_bytes).collect();
        assert_eq!(sent.concat(), before);
        let runs: Vec<usize> = sent.iter().map(Vec::len).collect();
        assert_eq!(runs, [1, 1, 1, 1, 1, 5]);
    }

    #[test]
    fn packets_that_are_missing_divide_it() {
        let mut frames = cut([tcp(1, 1, ACK, 100, &[7; 1000])]);
        frames.remove(7);
        frames.remove(3);
        assert_eq!(runs(&frames), [3, 3, 2]);
        frames.swap(0, 1);
        assert_eq!(runs(&frames), [1, 1, 1, 3, 2]);
        // A duplicate.
        let frame = frames[2].clone();
        assert_eq!(runs(&[frame.clone(), frame]), [1, 1]);
    }

    #[test]
    fn super_frames_that_follow_each_other_become_one() {
        let follow = |id, flags, next_flags| {
            cut([
                tcp(100, 1, flags, 100, &[1; 300]),
                tcp(400, id, next_flags, 100, &[2; 250]),
            ])
        };
        assert_eq!(runs(&follow(4, ACK, ACK)), [6]);
        assert_eq!(
            runs(&follow(4, ACK, 0x19)),
            [6],
            "PSH and FIN are the last one's"
        );
        assert_eq!(runs(&follow(4, 0x90, ACK)), [6], "CWR is the first one's");
        assert_eq!(
            runs(&follow(4, 0x18, ACK)),
            [3, 3],
            "PSH ends a super-frame"
        );
        assert_eq!(runs(&follow(4, ACK, 0x90)), [3, 3], "CWR begins one");
        assert_eq!(runs(&follow(4, ACK, 0x30)), [3, 3], "URG is sent alone");
        assert_eq!(runs(&follow(4, ACK, 0x50)), [3, 3], "ECE differs");
        assert_eq!(runs(&follow(5, ACK, ACK)), [3, 3], "an ID is missing");
        let short = cut([
            tcp(100, 1, ACK, 100, &[1; 250]),
            tcp(350, 4, ACK, 100, &[2; 9]),
        ]);
        assert_eq!(runs(&short), [3, 1], "only the last one is short");
        let single = cut((0..5).map(|n| udp(n, 22, &[n as u8; 22])));
        assert_eq!(runs(&single), [5]);
    }

    #[test]
    fn other_headers_are_not_joined() {
        let whole = |change: &dyn Fn(&mut Vec<u8>)| {
            let next = tcp(400, 4, ACK, 100, &[2; 250]);
            let mut bytes = next.bytes().to_vec();
            change(&mut bytes);
            let next = SuperFrame::new(bytes, next.offload()).unwrap();
            cut([tcp(100, 1, ACK, 100, &[1; 300]), next])
        };
        assert_eq!(runs(&whole(&|_| ())), [6]);
        // Address, type of service, TTL, addresses, ports, acknowledgement, window, options.
        for at in [5, 15, 22, 29, 33, 35, 37, 45, 49, 60] {
            let runs = runs(&whole(&|bytes| bytes[at] ^= 1));
            assert_eq!(runs, [3, 3], "byte {at}");
        }
    }

    #[test]
    fn acknowledgements_and_whole_checksums_are_sent_alone() {
        let acks = cut([tcp(1, 1, ACK, 100, &[]), tcp(1, 2, ACK, 100, &[])]);
        assert_eq!(joined(&acks, true).len(), 2);
        let complete = cut([udp(1, 22, &[0; 22]), udp(2, 22, &[0; 22])]);
        let complete = complete
            .iter()
            .map(|frame| SuperFrame::new(frame.wire_bytes(), Offload::default()).unwrap());
        assert_eq!(runs(&cut(complete)), [1, 1]);
    }
}
