//! Turns a capture into record files, so that it can be explained again.

use wansan_trace::event::{Connection, Crossing, Role};
use wansan_trace::{Direction, Instant, Kinds, Layer, NameId, Recorder};

use super::Capture;
use super::records::TARGET;
use crate::wire::{Carrier, UNKNOWN_SCALE};

/// The kinds of records that packets and TCP samples provide.
const KINDS: Kinds = Kinds {
    io: true,
    pdu: true,
    connection: true,
    tcp: true,
    packet: true,
    ..Kinds::NONE
};

impl Capture {
    /// The records of the initiator's and the target's end, with `memory_bytes` for each; records that do not fit are
    /// counted in them. Of payloads, only PDU headers are recorded.
    #[must_use]
    pub fn record(&self, memory_bytes: usize) -> [(&'static str, Recorder); 2] {
        let mut ends =
            ["initiator", "target"].map(|name| (name, Recorder::new(KINDS, memory_bytes)));
        let place = |host: NameId| usize::from(host == TARGET);
        for carrier in &self.cell.carriers {
            for (end, role) in [(0, Role::Initiator), (1, Role::Target)] {
                let record = connection(carrier, role, Instant::from_ns(self.span.from_ns));
                ends[end].1.connection(record);
            }
        }
        for (host, crossing) in self.crossings() {
            ends[place(host)].1.crossing(
                crossing.time,
                crossing.session,
                crossing.connection,
                crossing.task,
                crossing.layer,
                crossing.direction,
            );
        }
        for row in self.cell.pdu.iter().flat_map(|table| &table.rows) {
            ends[place(row.host)].1.pdu(row.record);
        }
        for row in self.cell.packet.iter().flat_map(|table| &table.rows) {
            ends[place(row.host)].1.packet(row.record);
        }
        for row in self.cell.tcp.iter().flat_map(|table| &table.rows) {
            ends[place(row.host)].1.tcp(row.record);
        }
        ends
    }

    /// The crossings of its I/Os by time, each with its end.
    fn crossings(&self) -> Vec<(NameId, Crossing)> {
        let mut crossings = Vec::new();
        for task in &self.cell.joined.tasks {
            for layer in Layer::ALL {
                let host = NameId(u16::from(layer.depth() >= Layer::Target.depth()));
                let both = [
                    (Direction::Enter, task.enter_ns(layer)),
                    (Direction::Leave, task.leave_ns(layer)),
                ];
                crossings.extend(both.into_iter().filter_map(|(direction, ns)| {
                    let record = Crossing {
                        time: Instant::from_ns(ns?),
                        session: task.session,
                        task: task.tag,
                        connection: task.connection,
                        layer,
                        direction,
                    };
                    Some((host, record))
                }));
            }
        }
        crossings.sort_by_key(|(_, crossing)| crossing.time);
        crossings
    }
}

/// What an end would have recorded of a connection, as far as packets show.
fn connection(carrier: &Carrier, role: Role, time: Instant) -> Connection {
    let own = usize::from(role == Role::Target);
    let addresses = [carrier.initiator, carrier.target];
    let scale = |end: usize| {
        let shift = carrier.shifts[end].and_then(|shift| u8::try_from(shift).ok());
        shift.unwrap_or(UNKNOWN_SCALE)
    };
    let (first, mss_bytes) = match carrier.begin {
        Some(begin) => (begin.first, begin.mss_bytes[own]),
        None => ([0, 0], 0),
    };
    Connection {
        time,
        session: carrier.session,
        connection: carrier.connection,
        role,
        local: addresses[own],
        remote: addresses[1 - own],
        mss_bytes: u32::try_from(mss_bytes).unwrap_or(u32::MAX),
        local_window_scale: scale(own),
        remote_window_scale: scale(1 - own),
        is_captured: true,
        first_sent_seq: first[own],
        first_received_seq: first[1 - own],
        ..Connection::BLANK
    }
}
