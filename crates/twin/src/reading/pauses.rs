//! When hosts and their programs stood still: packets and PDUs tell, by position, as they do of losses.
//!
//! A packet's record says when the path let it go to the exact nanosecond that its arithmetic gives, whoever carries it
//! being late or not. What the receiving host then does with it, at the soonest, is recorded too: its kernel
//! acknowledges two full segments at once (RFC 1122 §4.2.3.2, RFC 5681 §4.2), it sends what an acknowledgement has made
//! room for, and its program reads a PDU that is whole.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use wansan_insight::{Cell, Window};
use wansan_iscsi::wire::BHS_BYTES;
use wansan_sim::network::{Begins, Pause, Pauses};
use wansan_trace::event::{Packet, PduDirection, Role, Verdict};
use wansan_trace::file::Table;
use wansan_trace::{ConnectionId, SessionId};

use crate::setup::{Connection, Direction};

mod held;

/// What takes longer from a packet's arrival is a pause: simulated hosts take up to a tenth of a millisecond by themselves.
const LEAST_NS: u64 = 200_000;
/// What the names of congestion controls that pace begin with.
const PACED: &str = "bbr";
/// TCP flags.
pub(super) const SYN: u8 = 0x02;
pub(super) const ACK: u8 = 0x10;

/// What the records of a cell show of pauses.
pub(super) struct Shown<'a> {
    by_ends: ByEnds<'a>,
    read: Ends,
    written: Ends,
    /// By how many digits each end's peer scales its window.
    scales: HashMap<(SessionId, ConnectionId, Role), u8>,
    half_trip_ns: u64,
    /// From the beginning of the loads.
    simulated: Window,
}

impl<'a> Shown<'a> {
    pub(super) fn of(cell: &'a Cell, directions: &[Direction], simulated: Window) -> Shown<'a> {
        let whole = cell.packet.as_ref();
        let whole = whole.filter(|table| table.dropped.values().all(|lost| *lost == 0));
        let by_ends = whole.map(|table| by_ends(table, directions));
        let delays = directions.iter().map(|it| it.delay);
        let least_trip = 2 * delays.min().unwrap_or_default();
        Shown {
            by_ends: by_ends.unwrap_or_default(),
            read: pdus(cell, PduDirection::Received),
            written: pdus(cell, PduDirection::Sent),
            scales: scales(cell),
            half_trip_ns: least_trip.as_nanos() as u64 / 2,
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
            let mut pauses = Pauses::default();
            for (number, connection) in plain.clone() {
                let Some((arrived, sent)) = self.at(role, connection) else {
                    continue;
                };
                let peer = &connection.ends[usize::from(role == Role::Initiator)];
                let [near, far] = connection.addresses;
                let flow = match role {
                    Role::Initiator => [far, near],
                    _ => [near, far],
                };
                let late = arrived.unacknowledged(sent, u64::from(peer.mss_bytes));
                let mut host = late;
                host.extend(self.held(session, *number, role, connection));
                let read = self.read.get(&(session, *number, role));
                let read = read.into_iter().flatten();
                let program = read.filter_map(|&(end, at_ns)| arrived.unread(end, at_ns));
                // Places count from what had come before.
                let before = arrived.bytes_at(self.simulated.from_ns);
                let pause = |late: Late| {
                    let begins = match late.begins {
                        Begins::Data(byte) => Begins::Data(byte.saturating_sub(before)),
                        acknowledgement => acknowledgement,
                    };
                    let lasts = Duration::from_nanos(late.done_ns - late.due_ns);
                    let is_simulated = self.simulated.contains(late.due_ns);
                    is_simulated.then_some(Pause {
                        flow,
                        begins,
                        lasts,
                    })
                };
                pauses.host.extend(host.into_iter().filter_map(pause));
                pauses.program.extend(program.filter_map(pause));
            }
            pauses
        })
    }

    /// What arrives at an end of a connection, and the packets that it sends.
    fn at(&self, role: Role, connection: &Connection) -> Option<(Arrived, &[&'a Packet])> {
        let [came, sent] = self.packets(role, connection)?;
        Some((Arrived::of(came)?, sent))
    }

    /// When an end sent late what acknowledgements had made room for.
    fn held(
        &self,
        session: SessionId,
        number: ConnectionId,
        role: Role,
        connection: &Connection,
    ) -> Vec<Late> {
        let own = usize::from(role == Role::Target);
        let packets = self.packets(role, connection);
        let scale = self.scales.get(&(session, number, role));
        let written = self.written.get(&(session, number, role));
        let (Some(packets), Some(&scale), Some(written)) = (packets, scale, written) else {
            return Vec::new();
        };
        // One that paces sends later by itself.
        match connection.ends[own].congestion_control.starts_with(PACED) {
            true => Vec::new(),
            // Bursts are a round trip apart.
            false => held::held(
                packets,
                written,
                scale,
                [self.simulated.from_ns, self.half_trip_ns],
            ),
        }
    }

    /// The packets to an end of a connection, and from there.
    fn packets(&self, role: Role, connection: &Connection) -> Option<[&[&'a Packet]; 2]> {
        let own = usize::from(role == Role::Target);
        let [local, peer] = [own, 1 - own].map(|end| connection.addresses[end]);
        // The last direction of the way here, and the first of the way back.
        let here = *connection.routes[1 - own].last()?;
        let away = *connection.routes[own].first()?;
        let came = self.by_ends.get(&(peer, local, here))?;
        let sent = self.by_ends.get(&(local, peer, away))?;
        Some([came, sent])
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

/// Where each PDU that an end has read, or written, ends in its stream, and when it had done that, in ns.
type Ends = HashMap<(SessionId, ConnectionId, Role), Vec<(u64, u64)>>;

fn pdus(cell: &Cell, direction: PduDirection) -> Ends {
    let mut ends = Ends::new();
    let pdus = cell.pdu.iter().flat_map(|table| &table.rows);
    for pdu in pdus.map(|row| &row.record) {
        if pdu.direction != direction {
            continue;
        }
        let is_request = wansan_insight::opcode::is_request(pdu.opcode);
        let role = match is_request == (direction == PduDirection::Sent) {
            true => Role::Initiator,
            false => Role::Target,
        };
        let padded = u64::from(pdu.data_bytes).next_multiple_of(4);
        let end = pdu.stream_offset + BHS_BYTES as u64 + padded;
        let of_end = ends.entry((pdu.session, pdu.connection, role)).or_default();
        of_end.push((end, pdu.time.ns()));
    }
    ends
}

fn scales(cell: &Cell) -> HashMap<(SessionId, ConnectionId, Role), u8> {
    let connections = cell.connection.iter().flat_map(|table| &table.rows);
    let each = connections.map(|row| {
        let record = &row.record;
        let key = (record.session, record.connection, record.role);
        (key, record.remote_window_scale)
    });
    each.collect()
}

/// Something that was done later than it could have been.
#[derive(Debug, PartialEq, Eq)]
struct Late {
    due_ns: u64,
    done_ns: u64,
    /// The packet for which it waited, by its place in its stream.
    begins: Begins,
}

/// What has arrived at an end, in order.
struct Arrived {
    /// The sequence number of the stream's first byte.
    first_seq: u32,
    without_gap: Vec<Came>,
}

/// A packet after which there was no gap before a place.
struct Came {
    /// The first byte in it.
    byte: u64,
    /// That place.
    end: u64,
    at_ns: u64,
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
                without_gap.push(Came {
                    byte: start,
                    end: bytes,
                    at_ns: packet.departed.ns(),
                });
            }
        }
        Some(Arrived {
            first_seq,
            without_gap,
        })
    }

    /// The packet with which as many bytes had arrived, if they had.
    fn of_bytes(&self, bytes: u64) -> Option<&Came> {
        let place = self.without_gap.partition_point(|came| came.end < bytes);
        self.without_gap.get(place)
    }

    /// How many bytes had arrived then.
    fn bytes_at(&self, at_ns: u64) -> u64 {
        let came = self.without_gap.partition_point(|came| came.at_ns < at_ns);
        self.without_gap[..came].last().map_or(0, |last| last.end)
    }

    /// Whether a program read so many bytes late.
    fn unread(&self, bytes: u64, read_ns: u64) -> Option<Late> {
        self.of_bytes(bytes)?.late(read_ns)
    }

    /// Which of these packets were late to acknowledge two segments more than those before them.
    fn unacknowledged(&self, sent: &[&Packet], mss_bytes: u64) -> Vec<Late> {
        let mut acknowledged = 0;
        let acknowledging = sent.iter().filter(|packet| packet.flags & ACK != 0);
        let late = acknowledging.filter_map(|packet| {
            let due = self.of_bytes(acknowledged + 2 * mss_bytes);
            let bytes = unwrapped(packet.ack, self.first_seq, acknowledged);
            acknowledged = acknowledged.max(bytes);
            due?.late(packet.time.ns())
        });
        late.collect()
    }
}

impl Came {
    /// What was done then, if it was so late that the host or its program stood still.
    fn late(&self, done_ns: u64) -> Option<Late> {
        (done_ns > self.at_ns + LEAST_NS).then_some(Late {
            due_ns: self.at_ns,
            done_ns,
            begins: Begins::Data(self.byte),
        })
    }
}

/// The place in its stream that a sequence number near a known one means.
pub(super) fn unwrapped(seq: u32, first_seq: u32, near: u64) -> u64 {
    let ahead = seq.wrapping_sub(first_seq).wrapping_sub(near as u32) as i32;
    near.saturating_add_signed(i64::from(ahead))
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
        let at_ns = |bytes| arrived.of_bytes(bytes).map(|came| came.at_ns);
        let expected = [1, 1_000, 1_001, 4_000].map(at_ns);
        assert_eq!(expected, [1, 1, 4, 4].map(|ms| Some(ms * 1_000_000)));
        assert_eq!(at_ns(4_001), None);
        assert_eq!(arrived.bytes_at(4_000_000), 1_000);
        assert_eq!(arrived.bytes_at(4_000_001), 4_000);
    }

    #[test]
    fn a_pdu_that_is_read_late_tells_of_a_pause() {
        let arrived = arrived();
        assert_eq!(arrived.unread(1_000, 1_000_000 + LEAST_NS), None);
        let late = Late {
            due_ns: 1_000_000,
            done_ns: 1_500_000,
            begins: Begins::Data(0),
        };
        assert_eq!(arrived.unread(1_000, 1_500_000), Some(late));
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
        // The packet that filled the gap began it.
        let expected = Late {
            due_ns: 4_000_000,
            done_ns: 4_700_000,
            begins: Begins::Data(1_000),
        };
        assert_eq!(pauses(&late), [expected]);
    }
}
