//! When hosts and their programs stood still: packets and PDUs tell, by position, as they do of losses.
//!
//! A packet's record says when the path let it go to the exact nanosecond that its arithmetic gives, whoever carries it
//! being late or not. What the receiving host then does with it, at the soonest, is recorded too: its kernel
//! acknowledges two full segments at once (RFC 1122 §4.2.3.2, RFC 5681 §4.2), and its program reads a PDU that is whole.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use wansan_insight::{Cell, Window};
use wansan_iscsi::wire::BHS_BYTES;
use wansan_sim::network::Pauses;
use wansan_trace::event::{Packet, PduDirection, Role, Verdict};
use wansan_trace::file::Table;
use wansan_trace::{ConnectionId, SessionId};

use crate::setup::{Connection, Direction};

/// What takes longer from a packet's arrival is a pause: simulated hosts take up to a tenth of a millisecond by themselves.
const LEAST_NS: u64 = 200_000;
/// TCP flags.
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// What the records of a cell show of pauses.
pub(super) struct Shown<'a> {
    by_ends: ByEnds<'a>,
    read: Read,
    /// From the beginning of the loads.
    simulated: Window,
}

impl<'a> Shown<'a> {
    pub(super) fn of(cell: &'a Cell, directions: &[Direction], simulated: Window) -> Shown<'a> {
        let whole = cell.packet.as_ref();
        let whole = whole.filter(|table| table.dropped.values().all(|lost| *lost == 0));
        let by_ends = whole.map(|table| by_ends(table, directions));
        Shown {
            by_ends: by_ends.unwrap_or_default(),
            read: read(cell),
            simulated,
        }
    }

    /// The pauses of an initiator, and of the target in what it does for that one, which has these connections. None of
    /// those through tunnels and relays, whose packets tell less.
    pub(super) fn pauses(
        &self,
        session: SessionId,
        connections: &[(ConnectionId, Connection)],
    ) -> [Pauses; 2] {
        let plain = connections
            .iter()
            .filter(|(_, connection)| connection.through.is_none() && connection.relay.is_none());
        [Role::Initiator, Role::Target].map(|role| {
            let (mut host, mut program) = (Vec::new(), Vec::new());
            for (number, connection) in plain.clone() {
                let Some((arrived, sent)) = self.at(role, connection) else {
                    continue;
                };
                let peer = &connection.ends[usize::from(role == Role::Initiator)];
                host.extend(arrived.unacknowledged(sent, u64::from(peer.mss_bytes)));
                let read = self.read.get(&(session, *number, role));
                let read = read.into_iter().flatten();
                program.extend(read.filter_map(|&(end, at_ns)| arrived.unread(end, at_ns)));
            }
            Pauses {
                host: joined(host, self.simulated),
                program: joined(program, self.simulated),
            }
        })
    }

    /// What arrives at an end of a connection, and the packets that it sends.
    fn at(&self, role: Role, connection: &Connection) -> Option<(Arrived, &[&'a Packet])> {
        let own = usize::from(role == Role::Target);
        let [local, peer] = [own, 1 - own].map(|end| connection.addresses[end]);
        // The last direction of the way here, and the first of the way back.
        let here = *connection.routes[1 - own].last()?;
        let away = *connection.routes[own].first()?;
        let came = self.by_ends.get(&(peer, local, here))?;
        let sent = self.by_ends.get(&(local, peer, away))?;
        Some((Arrived::of(came)?, sent))
    }
}

/// Packets between two ends on a direction of a path, by its place.
type ByEnds<'a> = HashMap<(SocketAddr, SocketAddr, usize), Vec<&'a Packet>>;

fn by_ends<'a>(table: &'a Table<Packet>, directions: &[Direction]) -> ByEnds<'a> {
    let mut by_ends = ByEnds::new();
    let places: HashMap<_, usize> = directions
        .iter()
        .zip(0..)
        .filter_map(|(direction, place)| Some((table.names.find(&direction.name)?, place)))
        .collect();
    for packet in table.rows.iter().map(|row| &row.record) {
        if let Some(&place) = places.get(&packet.path) {
            let key = (packet.source, packet.destination, place);
            by_ends.entry(key).or_default().push(packet);
        }
    }
    by_ends
}

/// Where each PDU that an end has read ends in its stream, and when it had read that, in ns.
type Read = HashMap<(SessionId, ConnectionId, Role), Vec<(u64, u64)>>;

fn read(cell: &Cell) -> Read {
    let mut read = Read::new();
    let pdus = cell.pdu.iter().flat_map(|table| &table.rows);
    for pdu in pdus.map(|row| &row.record) {
        if pdu.direction != PduDirection::Received {
            continue;
        }
        let role = match wansan_insight::opcode::is_request(pdu.opcode) {
            true => Role::Target,
            false => Role::Initiator,
        };
        let padded = u64::from(pdu.data_bytes).next_multiple_of(4);
        let end = pdu.stream_offset + BHS_BYTES as u64 + padded;
        let of_end = read.entry((pdu.session, pdu.connection, role)).or_default();
        of_end.push((end, pdu.time.ns()));
    }
    read
}

/// What has arrived at an end, in order.
struct Arrived {
    /// The sequence number of the stream's first byte.
    first_seq: u32,
    /// Bytes without a gap, and since when, in ns; both grow.
    without_gap: Vec<(u64, u64)>,
}

impl Arrived {
    /// Of the packets to an end; `None` where its connection's beginning is not among them.
    fn of(packets: &[&Packet]) -> Option<Arrived> {
        let mut delivered: Vec<&Packet> = packets.to_vec();
        delivered.retain(|packet| packet.verdict == Verdict::Delivered);
        delivered.sort_by_key(|packet| packet.departed);
        let begin = delivered.first().filter(|first| first.flags & SYN != 0)?;
        let first_seq = begin.seq.wrapping_add(1);
        let mut without_gap = Vec::new();
        let (mut bytes, mut beyond) = (0, BTreeMap::new());
        for packet in delivered.iter().filter(|packet| packet.payload_bytes > 0) {
            let start = unwrapped(packet.seq, first_seq, bytes);
            beyond.insert(start, start + u64::from(packet.payload_bytes));
            let before = bytes;
            while let Some(next) = beyond.first_entry().filter(|next| *next.key() <= bytes) {
                bytes = bytes.max(next.remove());
            }
            if bytes > before {
                without_gap.push((bytes, packet.departed.ns()));
            }
        }
        Some(Arrived {
            first_seq,
            without_gap,
        })
    }

    /// When as many bytes had arrived, if they had.
    fn at_ns(&self, bytes: u64) -> Option<u64> {
        let place = self.without_gap.partition_point(|(end, _)| *end < bytes);
        Some(self.without_gap.get(place)?.1)
    }

    /// The pause before a program had read so many bytes, if there was one.
    fn unread(&self, bytes: u64, read_ns: u64) -> Option<Range<u64>> {
        pause(self.at_ns(bytes)?, read_ns)
    }

    /// The pauses before these packets acknowledged two segments more than those before them.
    fn unacknowledged(&self, sent: &[&Packet], mss_bytes: u64) -> Vec<Range<u64>> {
        let mut acknowledged = 0;
        let acknowledging = sent.iter().filter(|packet| packet.flags & ACK != 0);
        let pauses = acknowledging.filter_map(|packet| {
            let due_ns = self.at_ns(acknowledged + 2 * mss_bytes);
            let bytes = unwrapped(packet.ack, self.first_seq, acknowledged);
            acknowledged = acknowledged.max(bytes);
            pause(due_ns?, packet.time.ns())
        });
        pauses.collect()
    }
}

fn pause(due_ns: u64, done_ns: u64) -> Option<Range<u64>> {
    (done_ns > due_ns + LEAST_NS).then_some(due_ns..done_ns)
}

/// The place in its stream that a sequence number near a known one means.
fn unwrapped(seq: u32, first_seq: u32, near: u64) -> u64 {
    let ahead = seq.wrapping_sub(first_seq).wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(i64::from(ahead))
}

/// These pauses in their order, those that touch as one, within a window and from its beginning.
fn joined(mut pauses: Vec<Range<u64>>, window: Window) -> Vec<Range<Duration>> {
    pauses.retain(|pause| pause.start < window.to_ns && pause.end > window.from_ns);
    pauses.sort_by_key(|pause| pause.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for pause in pauses {
        match joined.last_mut() {
            Some(last) if pause.start <= last.end => last.end = last.end.max(pause.end),
            _ => joined.push(pause),
        }
    }
    let after = |at_ns: u64| Duration::from_nanos(at_ns.saturating_sub(window.from_ns));
    let joined = joined.into_iter();
    joined
        .map(|pause| after(pause.start)..after(pause.end))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use wansan_trace::{Instant, NameId};

    use super::*;

    const MSS_BYTES: u64 = 1_000;
    const FIRST_SEQ: u32 = u32::MAX - 1_500;

    /// A packet that comes to the path and leaves it at these times.
    fn packet(time_ns: u64, departed_ns: u64, seq: u32, payload_bytes: u16, flags: u8) -> Packet {
        let end = |last| SocketAddr::from((Ipv4Addr::new(10, 0, 0, last), 3260));
        Packet {
            time: Instant::from_ns(time_ns),
            departed: Instant::from_ns(departed_ns),
            path: NameId(0),
            source: end(1),
            destination: end(2),
            seq,
            ack: 0,
            payload_bytes,
            ip_bytes: payload_bytes + 52,
            window: 0,
            flags,
            ecn: 0,
            verdict: Verdict::Delivered,
        }
    }

    /// Four segments across the end of the sequence numbers, of which the second comes last.
    fn arrived() -> Arrived {
        let segment = |at_ns, number: u32| {
            let seq = FIRST_SEQ.wrapping_add(1 + number * MSS_BYTES as u32);
            packet(at_ns - 1, at_ns, seq, MSS_BYTES as u16, ACK)
        };
        let packets = [
            packet(0, 5, FIRST_SEQ, 0, SYN),
            segment(1_000_000, 0),
            segment(2_000_000, 2),
            segment(3_000_000, 3),
            segment(4_000_000, 1),
        ];
        Arrived::of(&packets.iter().collect::<Vec<_>>()).expect("it has a beginning")
    }

    #[test]
    fn what_is_behind_a_gap_has_not_arrived() {
        let arrived = arrived();
        assert_eq!(arrived.at_ns(1), Some(1_000_000));
        assert_eq!(arrived.at_ns(1_000), Some(1_000_000));
        assert_eq!(arrived.at_ns(1_001), Some(4_000_000));
        assert_eq!(arrived.at_ns(4_000), Some(4_000_000));
        assert_eq!(arrived.at_ns(4_001), None);
    }

    #[test]
    fn a_pdu_that_is_read_late_tells_of_a_pause() {
        let arrived = arrived();
        assert_eq!(arrived.unread(1_000, 1_000_000 + LEAST_NS), None);
        assert_eq!(arrived.unread(1_000, 1_500_000), Some(1_000_000..1_500_000));
        assert_eq!(arrived.unread(2_000, 4_100_000), None);
    }

    #[test]
    fn two_segments_that_are_acknowledged_late_tell_of_a_pause() {
        let acknowledges = |at_ns: u64, bytes: u32| Packet {
            ack: FIRST_SEQ.wrapping_add(1 + bytes),
            ..packet(at_ns, at_ns, 0, 0, ACK)
        };
        let pauses = |sent: &[Packet]| {
            let sent: Vec<&Packet> = sent.iter().collect();
            arrived().unacknowledged(&sent, MSS_BYTES)
        };
        // One alone may wait, and so may what is behind a gap.
        let in_time = [
            acknowledges(3_500_000, 1_000),
            acknowledges(4_050_000, 4_000),
        ];
        assert_eq!(pauses(&in_time).len(), 0);
        let late = [
            acknowledges(3_500_000, 1_000),
            acknowledges(4_700_000, 4_000),
        ];
        assert_eq!(pauses(&late), vec![4_000_000..4_700_000]);
    }

    #[test]
    fn pauses_that_touch_are_one_and_begin_with_the_window() {
        let window = Window {
            from_ns: 100,
            to_ns: 200,
        };
        let after = Duration::from_nanos;
        let pauses = vec![150..160, 90..110, 105..120, 160..170, 10..20, 200..210];
        let joined = joined(pauses, window);
        assert_eq!(joined, vec![after(0)..after(20), after(50)..after(70)]);
    }
}
