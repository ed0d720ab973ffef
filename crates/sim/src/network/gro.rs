//! GRO: merging of packets that a host receives together (`tcp_gro_receive`, `inet_gro_receive`).

use wansan_path::Ecn;

use super::IP_BYTES;
use crate::tcp::segment::Segment;

/// Maximum size of a merged packet: IP and TCP headers with all data (GRO_LEGACY_MAX_SIZE).
const MOST_BYTES: u32 = 65_535;

/// Merges a packet into the one before it, of the same flow, if possible. This requires consecutive data, otherwise
/// equal headers, and only full packets so far: a smaller packet, PSH or FIN ends a merged packet.
pub(super) fn joins(before: &mut (Segment, Ecn), (next, ecn): &(Segment, Ecn)) -> bool {
    let (one, of_one) = before;
    let full = one.full_bytes();
    let is_full = one.bytes.is_multiple_of(full.max(1));
    // Options, flags and window must be the same.
    let is_alike = (one.ack, one.window_bytes, one.ece) == (next.ack, next.window_bytes, next.ece)
        && (one.ts_value, one.ts_echo, one.sack) == (next.ts_value, next.ts_echo, next.sack)
        && of_one == ecn;
    let is_open = is_full && !one.push && !one.fin && !one.cwr && !one.syn && one.bytes > 0;
    let fits = IP_BYTES + one.header_bytes() + one.bytes + next.bytes <= MOST_BYTES;
    let goes_on = next.seq == one.end() && (1..=full).contains(&next.bytes);
    let joins = is_alike && is_open && fits && goes_on && !next.cwr && !next.syn;
    if joins {
        one.packet_bytes = full;
        one.bytes += next.bytes;
        one.push = next.push;
        one.fin = next.fin;
    }
    joins
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(seq: u64, bytes: u32) -> Segment {
        Segment {
            seq,
            bytes,
            ack: 7,
            window_bytes: 1 << 20,
            ts_value: 3,
            ..Segment::default()
        }
    }

    /// The merged packets: sequence number, bytes of data, bytes of a full packet.
    fn taken(packets: &[Segment]) -> Vec<(u64, u32, u32)> {
        let mut taken: Vec<(Segment, Ecn)> = Vec::new();
        for packet in packets {
            let next = (*packet, Ecn::NotCapable);
            if !taken.last_mut().is_some_and(|last| joins(last, &next)) {
                taken.push(next);
            }
        }
        let of = |(one, _): (Segment, Ecn)| (one.seq, one.bytes, one.full_bytes());
        taken.into_iter().map(of).collect()
    }

    #[test]
    fn full_packets_in_order_become_one_which_a_smaller_one_ends() {
        let packets = [(0, 1000), (1000, 1000), (2000, 400), (2400, 1000)];
        let packets = packets.map(|(seq, bytes)| packet(seq, bytes));
        assert_eq!(taken(&packets), [(0, 2400, 1000), (2400, 1000, 1000)]);
    }

    #[test]
    fn a_hole_a_larger_packet_and_an_acknowledgement_join_nothing() {
        let packets = [(0, 1000), (2000, 1000), (3000, 1200), (4200, 0), (4200, 0)];
        let packets = packets.map(|(seq, bytes)| packet(seq, bytes));
        assert_eq!(taken(&packets).len(), packets.len());
    }

    #[test]
    fn whatever_differs_in_the_header_begins_another() {
        let first = packet(0, 1000);
        let next = packet(1000, 1000);
        assert_eq!(taken(&[first, next]).len(), 1);
        let others: [fn(&mut Segment); 6] = [
            |it| it.ack += 1,
            |it| it.window_bytes += 1,
            |it| it.ts_value += 1,
            |it| it.ts_echo += 1,
            |it| it.ece = true,
            |it| it.cwr = true,
        ];
        for change in others {
            let mut other = next;
            change(&mut other);
            assert_eq!(taken(&[first, other]).len(), 2);
        }
        let marked = (next, Ecn::Congestion);
        assert!(!joins(&mut (first, Ecn::Capable0), &marked));
    }

    #[test]
    fn push_ends_one_and_stays_in_it() {
        let pushed = Segment {
            push: true,
            ..packet(1000, 1000)
        };
        let mut one = (packet(0, 1000), Ecn::NotCapable);
        assert!(joins(&mut one, &(pushed, Ecn::NotCapable)));
        assert!(one.0.push);
        assert!(!joins(&mut one, &(packet(2000, 1000), Ecn::NotCapable)));
    }

    #[test]
    fn one_holds_64_kib_with_its_headers() {
        let packets: Vec<Segment> = (0..100).map(|n| packet(n * 1448, 1448)).collect();
        assert_eq!(taken(&packets)[0], (0, 45 * 1448, 1448));
    }
}
