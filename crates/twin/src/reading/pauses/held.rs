//! Senders that were late to send data for which acknowledgements had made room.

use std::time::Duration;

use wansan_sim::network::Begins;
use wansan_trace::event::{Packet, Verdict};

use super::{ACK, LEAST_NS, Late, SYN, unwrapped};

/// How long a sender may defer a burst to wait for more acknowledgements (`tcp_tso_should_defer`).
const DEFER_NS: u64 = 1_000_000;
/// For this long after a loss, acknowledgements make room for less new data, or none (RFC 6937).
const RECOVERY_NS: u64 = 1_000_000_000;

/// An acknowledgement that arrived at a sender.
struct Room {
    at_ns: u64,
    /// Stream position that it acknowledges, and the right edge of its window.
    acknowledged: u64,
    edge: u64,
}

/// When a sender was late with new data: more than [`DEFER_NS`] + [`LEAST_NS`] after the last acknowledgement that
/// made room, with the data already written, inside the window, and with no recent loss. `came` and `sent` are the
/// packets to the sender and from it; `written` has the stream positions up to which it had written, and when.
/// Acknowledged bytes and times count from `from_ns`; a pause may begin `slack_ns` sooner.
pub(super) fn held(
    [came, sent]: [&[&Packet]; 2],
    written: &[(u64, u64)],
    scale: u8,
    [from_ns, slack_ns]: [u64; 2],
) -> Vec<Late> {
    let Some(syn) = sent.iter().find(|packet| packet.flags & SYN != 0) else {
        return Vec::new();
    };
    let first_seq = syn.seq.wrapping_add(1);
    let mut rooms = rooms(came, first_seq, scale).into_iter().peekable();
    let (mut next, mut acknowledged, mut before) = (0, 0, 0);
    // The first acknowledgement since data was sent, and the time of the last.
    let mut since: Option<(Room, u64)> = None;
    let mut edge = 0;
    let mut lost_ns: Option<u64> = None;
    let mut late = Vec::new();
    for packet in sent.iter().filter(|packet| packet.payload_bytes > 0) {
        let at_ns = packet.time.ns();
        while let Some(room) = rooms.next_if(|room| room.at_ns < at_ns) {
            edge = edge.max(room.edge);
            if room.acknowledged <= acknowledged {
                continue;
            }
            acknowledged = room.acknowledged;
            let last_ns = room.at_ns;
            since = Some((since.map_or(room, |(first, _)| first), last_ns));
        }
        let start = unwrapped(packet.seq, first_seq, next);
        let end = start + u64::from(packet.payload_bytes);
        if start < next || packet.verdict != Verdict::Delivered {
            lost_ns = Some(at_ns);
        }
        let is_recovering = lost_ns.is_some_and(|lost_ns| at_ns - lost_ns < RECOVERY_NS);
        next = next.max(end);
        if at_ns < from_ns {
            before = next;
        }
        let Some((first, last_ns)) = since.take() else {
            continue;
        };
        let place = written.partition_point(|(written, _)| *written < end);
        let was_written = written.get(place).is_some_and(|pdu| pdu.1 <= first.at_ns);
        let is_late = at_ns > last_ns + DEFER_NS + LEAST_NS;
        if is_late && was_written && end <= edge && !is_recovering {
            late.push(Late {
                due_ns: first.at_ns,
                done_ns: at_ns,
                begins: Begins::Acknowledgement(
                    first.acknowledged.saturating_sub(before),
                    Duration::from_nanos(first.at_ns.saturating_sub(from_ns + slack_ns)),
                ),
            });
        }
    }
    late
}

/// The acknowledgements that arrived, in order.
fn rooms(came: &[&Packet], first_seq: u32, scale: u8) -> Vec<Room> {
    let delivered = |packet: &&&Packet| {
        packet.verdict == Verdict::Delivered && packet.flags & (ACK | SYN) == ACK
    };
    let mut came: Vec<&Packet> = came.iter().filter(delivered).copied().collect();
    came.sort_by_key(|packet| packet.departed);
    let mut acknowledged = 0;
    let rooms = came.iter().map(|packet| {
        acknowledged = unwrapped(packet.ack, first_seq, acknowledged);
        Room {
            at_ns: packet.departed.ns(),
            acknowledged,
            edge: acknowledged + (u64::from(packet.window) << scale),
        }
    });
    rooms.collect()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use wansan_trace::{Instant, NameId};

    use super::*;

    const MS: u64 = 1_000_000;
    const FIRST_SEQ: u32 = u32::MAX - 500;

    fn packet(time_ns: u64, byte: u32, payload_bytes: u16, flags: u8) -> Packet {
        let end = |last| SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 3260));
        Packet {
            time: Instant::from_ns(time_ns),
            departed: Instant::from_ns(time_ns),
            path: NameId(0),
            source: end(1),
            destination: end(2),
            seq: FIRST_SEQ.wrapping_add(byte),
            ack: FIRST_SEQ.wrapping_add(byte),
            payload_bytes,
            ip_bytes: payload_bytes + 52,
            window: 100,
            flags,
            ecn: 0,
            verdict: Verdict::Delivered,
        }
    }

    /// Late sends of a sender that had sent two segments and sends the third at `third_ns`, with all data written by
    /// `written_ns`. The first two are acknowledged at 10 ms and 12 ms.
    fn late(third_ns: u64, written_ns: u64, verdict: Verdict, scale: u8) -> Vec<Late> {
        let syn = packet(0, u32::MAX, 0, SYN);
        let second = Packet {
            verdict,
            ..packet(2 * MS, 1000, 1000, ACK)
        };
        let sent = [
            syn,
            packet(MS, 0, 1000, ACK),
            second,
            packet(third_ns, 2000, 1000, ACK),
        ];
        let came = [packet(10 * MS, 1000, 0, ACK), packet(12 * MS, 2000, 0, ACK)];
        let sent: Vec<&Packet> = sent.iter().collect();
        let came: Vec<&Packet> = came.iter().collect();
        held([&came, &sent], &[(3000, written_ns)], scale, [0, 4 * MS])
    }

    #[test]
    fn what_was_written_and_has_room_is_sent_at_once() {
        let expected = Late {
            due_ns: 10 * MS,
            done_ns: 20 * MS,
            begins: Begins::Acknowledgement(1000, Duration::from_millis(6)),
        };
        assert_eq!(late(20 * MS, 9 * MS, Verdict::Delivered, 7), [expected]);
        // In time, written later, no room, and after a loss.
        assert_eq!(late(13 * MS, 9 * MS, Verdict::Delivered, 7), []);
        assert_eq!(late(20 * MS, 19 * MS, Verdict::Delivered, 7), []);
        assert_eq!(late(20 * MS, 9 * MS, Verdict::Delivered, 0), []);
        assert_eq!(late(20 * MS, 9 * MS, Verdict::DroppedByLoss, 7), []);
    }
}
