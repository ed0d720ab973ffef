//! Packets dropped by a direction of a path.
//!
//! Each is identified by what it carried: the twin's connections carry the same, in whatever order they share the
//! path. Packets in a tunnel can only be identified by their number.

use std::collections::HashMap;
use std::net::SocketAddr;

use wansan_insight::traffic::is_encrypted;
use wansan_sim::network::Lost;
use wansan_trace::event::{Packet, Verdict};

use super::pauses::{ACK, SYN, unwrapped};
use crate::setup::{Drop, Dropped};

/// The dropped ones of all packets that arrived at a direction, in order, since the loads began at `from_ns`.
pub(super) fn drops(packets: &[&Packet], from_ns: u64) -> Vec<Drop> {
    let by_queue = |packet: &Packet| match packet.verdict {
        Verdict::DroppedByLoss => Some(false),
        Verdict::DroppedByQueue => Some(true),
        _ => None,
    };
    if packets.iter().any(|packet| is_encrypted(packet)) {
        let numbered = packets.iter().zip(1..);
        let dropped = numbered.filter_map(|(packet, number)| {
            Some(Drop {
                packet: Dropped::Number(number),
                by_queue: by_queue(packet)?,
            })
        });
        return dropped.collect();
    }
    let mut flows: HashMap<[SocketAddr; 2], Flow> = HashMap::new();
    let dropped = packets.iter().filter_map(|packet| {
        let ends = [packet.source, packet.destination];
        let flow = flows.entry(ends).or_default();
        if packet.time.ns() < from_ns || packet.flags & SYN != 0 {
            flow.begin_after(packet);
            return None;
        }
        let carried = flow.carried(packet)?;
        Some(Drop {
            packet: Dropped::Carrying(ends, carried),
            by_queue: by_queue(packet)?,
        })
    });
    dropped.collect()
}

/// What one end has sent since the start of the loads.
#[derive(Default)]
struct Flow {
    /// The first sequence number and the first one acknowledged, if a packet has shown them.
    first_seq: Option<u32>,
    first_ack: Option<u32>,
    /// Bytes sent, and acknowledged.
    sent: u64,
    acknowledged: u64,
    /// Retransmitted ranges: the first byte, and the one after the last.
    again: Vec<(u64, u64)>,
}

impl Flow {
    /// Moves the start of the loads to after this packet.
    fn begin_after(&mut self, packet: &Packet) {
        let is_syn = packet.flags & SYN != 0;
        let later = |known: Option<u32>, new: u32| match known {
            Some(known) if !is_syn && new.wrapping_sub(known) as i32 <= 0 => known,
            _ => new,
        };
        let end = packet.seq.wrapping_add(u32::from(packet.payload_bytes));
        self.first_seq = Some(later(self.first_seq, end.wrapping_add(u32::from(is_syn))));
        if packet.flags & ACK != 0 {
            self.first_ack = Some(later(self.first_ack, packet.ack));
        }
    }

    /// What a packet carries; `None` if it has neither data nor an acknowledgement.
    fn carried(&mut self, packet: &Packet) -> Option<Lost> {
        if packet.flags & ACK != 0 {
            let first_ack = *self.first_ack.get_or_insert(packet.ack);
            let acknowledged = unwrapped(packet.ack, first_ack, self.acknowledged);
            self.acknowledged = self.acknowledged.max(acknowledged);
            if packet.payload_bytes == 0 {
                return Some(Lost::Acknowledgement {
                    bytes: acknowledged,
                });
            }
        }
        if packet.payload_bytes == 0 {
            return None;
        }
        let first_seq = *self.first_seq.get_or_insert(packet.seq);
        let byte = unwrapped(packet.seq, first_seq, self.sent);
        let end = byte + u64::from(packet.payload_bytes);
        let mut before = 0;
        if byte < self.sent {
            let earlier = self.again.iter();
            let same = earlier.filter(|(from, to)| (*from..*to).contains(&byte));
            before = 1 + same.count() as u32;
            self.again.push((byte, end));
        }
        self.sent = self.sent.max(end);
        Some(Lost::Data { byte, before })
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use wansan_trace::{Instant, NameId};

    use super::*;

    const FIRST_SEQ: u32 = u32::MAX - 1_500;

    fn packet(time_ns: u64, byte: u32, payload_bytes: u16, verdict: Verdict) -> Packet {
        let end = |last| SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 3260));
        Packet {
            time: Instant::from_ns(time_ns),
            departed: Instant::from_ns(time_ns),
            path: NameId(0),
            source: end(1),
            destination: end(2),
            seq: FIRST_SEQ.wrapping_add(byte),
            ack: 3_000_000_000_u32.wrapping_add(byte),
            payload_bytes,
            ip_bytes: payload_bytes + 52,
            window: 0,
            flags: ACK,
            ecn: 0,
            verdict,
        }
    }

    #[test]
    fn places_count_from_the_beginning_of_the_loads_across_the_end_of_sequence_numbers() {
        use Verdict::{Delivered, DroppedByLoss, DroppedByQueue};
        let syn = Packet {
            flags: SYN,
            ack: 0,
            ..packet(5, u32::MAX, 0, Delivered)
        };
        let packets = [
            syn,
            packet(10, 0, 400, DroppedByLoss),
            packet(20, 400, 1000, Delivered),
            packet(30, 1400, 1000, DroppedByQueue),
            packet(40, 400, 1000, DroppedByLoss),
            packet(50, 1400, 1000, DroppedByLoss),
            packet(60, 2400, 0, DroppedByLoss),
        ];
        let packets: Vec<&Packet> = packets.iter().collect();
        let found = drops(&packets, 15);
        let carried = |drop: &Drop| match drop.packet {
            Dropped::Carrying(_, carried) => (carried, drop.by_queue),
            Dropped::Number(_) => panic!("its connection is known"),
        };
        let data = |byte, before| Lost::Data { byte, before };
        let expected = [
            (data(1000, 0), true),
            (data(0, 1), false),
            (data(1000, 1), false),
            (Lost::Acknowledgement { bytes: 2400 }, false),
        ];
        assert_eq!(found.iter().map(carried).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn of_encrypted_packets_numbers_are_known() {
        let mut packets = [0, 1, 2].map(|n| packet(n, 0, 0, Verdict::Delivered));
        for packet in &mut packets {
            packet.flags = 0;
        }
        packets[2].verdict = Verdict::DroppedByLoss;
        let packets: Vec<&Packet> = packets.iter().collect();
        let [drop] = drops(&packets, 100)[..] else {
            panic!("one was dropped");
        };
        assert_eq!(drop.packet, Dropped::Number(3));
    }
}
