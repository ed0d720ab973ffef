//! Pauses of hosts and their programs, found in packets and PDUs by stream position, as losses are.
//!
//! The departure time in a packet's record is computed by the path's model, to the nanosecond, even if the emulator
//! ran late. The earliest possible reactions of the receiving host are recorded too: its kernel acknowledges every two
//! full segments at once (RFC 1122 §4.2.3.2, RFC 5681 §4.2) and sends what an acknowledgement made room for, and its
//! program reads a PDU once it is complete.

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

/// A reaction later than this after a packet's arrival is a pause: simulated hosts take up to a tenth of a
/// millisecond.
const LEAST_NS: u64 = 200_000;
/// Prefix of the names of congestion controls that pace.
const PACED: &str = "bbr";
/// TCP flags.
pub(super) const SYN: u8 = 0x02;
pub(super) const ACK: u8 = 0x10;

/// What the records of a cell show about pauses.
pub(super) struct Shown<'a> {
    by_ends: ByEnds<'a>,
    read: Ends,
    written: Ends,
    /// Window scale of each end's peer (RFC 7323).
    scales: HashMap<(SessionId, ConnectionId, Role), u8>,
    half_trip_ns: u64,
    /// The window that is simulated, warm-up included.
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

    /// The pauses of an initiator, and of the target in serving it, found on these connections. Those through tunnels
    /// and relays are skipped, since their packets show less.
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
                // Stream positions count from the start of the simulated window.
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

    /// The in-order arrivals at an end of a connection, and the packets that it sends.
    fn at(&self, role: Role, connection: &Connection) -> Option<(Arrived, &[&'a Packet])> {
        let [came, sent] = self.packets(role, connection)?;
        Some((Arrived::of(came)?, sent))
    }

    /// When an end was late to send data for which acknowledgements had made room.
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
        // A pacing sender is late by itself.
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

    /// Packets to an end of a connection, and from it.
    fn packets(&self, role: Role, connection: &Connection) -> Option<[&[&'a Packet]; 2]> {
        let own = usize::from(role == Role::Target);
        let [local, peer] = [own, 1 - own].map(|end| connection.addresses[end]);
        // The last direction of the route to this end, and the first of the route from it.
        let here = *connection.routes[1 - own].last()?;
        let away = *connection.routes[own].first()?;
        let came = self.by_ends.get(&(peer, local, here))?;
        let sent = self.by_ends.get(&(local, peer, away))?;
        Some([came, sent])
    }
}

/// Packets between two ends on a direction of a path, by its index.
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

/// Stream offset of the end of each PDU that an end has read or written, and the time of that, in ns.
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

/// An action that was later than it could have been.
#[derive(Debug, PartialEq, Eq)]
struct Late {
    due_ns: u64,
    done_ns: u64,
    /// The packet that it waited for, by stream position.
    begins: Begins,
}

/// In-order arrivals at an end.
struct Arrived {
    /// The sequence number of the stream's first byte.
    first_seq: u32,
    without_gap: Vec<Came>,
}

/// A packet whose arrival extended the data without a gap.
struct Came {
    /// Stream position of its first byte.
    byte: u64,
    /// End of the data without a gap after it.
    end: u64,
    at_ns: u64,
}

impl Arrived {
    /// From the packets to an end; `None` if they do not include the start of its connection.
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

    /// The packet that completed the first `bytes` bytes, if they arrived.
    fn of_bytes(&self, bytes: u64) -> Option<&Came> {
        let place = self.without_gap.partition_point(|came| came.end < bytes);
        self.without_gap.get(place)
    }

    /// Number of bytes that had arrived in order before that time.
    fn bytes_at(&self, at_ns: u64) -> u64 {
        let came = self.without_gap.partition_point(|came| came.at_ns < at_ns);
        self.without_gap[..came].last().map_or(0, |last| last.end)
    }

    /// The pause if a program was late to read the first `bytes` bytes.
    fn unread(&self, bytes: u64, read_ns: u64) -> Option<Late> {
        self.of_bytes(bytes)?.late(read_ns)
    }

    /// Pauses from those of these packets that were late to acknowledge two segments more than the ones before.
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
    /// The pause if the reaction at `done_ns` was so late that the host or its program must have stood still.
    fn late(&self, done_ns: u64) -> Option<Late> {
        (done_ns > self.at_ns + LEAST_NS).then_some(Late {
            due_ns: self.at_ns,
            done_ns,
            begins: Begins::Data(self.byte),
        })
    }
}

/// Stream position of a sequence number that is near a known position.
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

    /// A packet that arrives at the path and departs from it at these times.
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

    /// Four segments across the wrap of sequence numbers, of which the second arrives last.
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
        // A single segment may remain unacknowledged, and so may data behind a gap.
        let in_time = [
            acknowledges(3_500_000, 1_000),
            acknowledges(4_050_000, 4_000),
        ];
        assert_eq!(pauses(&in_time).len(), 0);
        let late = [
            acknowledges(3_500_000, 1_000),
            acknowledges(4_700_000, 4_000),
        ];
        // The pause began with the packet that filled the gap.
        let expected = Late {
            due_ns: 4_000_000,
            done_ns: 4_700_000,
            begins: Begins::Data(1_000),
        };
        assert_eq!(pauses(&late), [expected]);
    }
}
