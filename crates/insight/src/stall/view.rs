//! Builds the conversations of a cell from its records.

use foldhash::HashMap;

use wansan_trace::event::{PduDirection, Tcp, Verdict};
use wansan_trace::{ConnectionId, NameId, SessionId};

use crate::cell::Cell;
use crate::opcode;
use crate::packets::Packets;
use crate::pdus::Pdus;
use crate::traffic::{Content, FlowDirection, Traffic};
use crate::transfer::{Alike, Places};
use crate::wire::{Begin, Carrier};

use super::conversation::{
    Announced, Conversation, Queued, Sampled, Segment, Times, least_transits_ns,
};

/// The maximum window scale (RFC 7323 §2.3).
const MOST_SHIFT: u32 = 14;

/// The connections of sessions whose packets and PDUs were recorded.
#[must_use]
pub fn conversations(cell: &Cell, traffic: &Traffic) -> Vec<Conversation> {
    let (Some(packets), Some(pdus)) = (&cell.packet, &cell.pdu) else {
        return Vec::new();
    };
    let mut found: HashMap<usize, Conversation> = HashMap::default();
    let mut raw = collect(packets, traffic, &cell.carriers);
    let mut queued = queued(pdus);
    for (place, flow) in traffic.flows.iter().enumerate() {
        let Content::Session(session, connection) = flow.content else {
            continue;
        };
        let Some(mut segments) = raw.remove(&place) else {
            continue;
        };
        let Some(carrier) = carrier(&cell.carriers, session, connection) else {
            continue;
        };
        let begin = carrier.begin;
        let ends = match begin {
            Some(begin) => Ends::begun(&begin),
            None => Ends::of(cell, session, connection),
        };
        let times = begin.map_or(Times::Seen, |begin| begin.times);
        let off_ns = match times {
            Times::Seen | Times::ByHandshake => 0,
            Times::ByAcknowledgements => least_transits_ns(&segments).iter().sum::<u64>() / 2,
        };
        let unknown = |way: &FlowDirection| carrier.shifts[*way as usize].is_none();
        for way in FlowDirection::ALL.into_iter().filter(unknown) {
            let least = least_shift(&segments, way, off_ns);
            for segment in segments.iter_mut().filter(|segment| segment.way == way) {
                segment.window = Announced::AtLeast(unscaled(segment) << least);
            }
        }
        let mut given = |way| {
            let given = queued.remove(&(session, connection, way));
            given.unwrap_or_default()
        };
        let conversation = Conversation {
            session,
            connection,
            segments,
            requests: given(FlowDirection::ToTarget),
            answers: given(FlowDirection::ToInitiator),
            windows: ends.windows,
            request_mss_bytes: ends.request_mss_bytes,
            answer_mss_bytes: ends.answer_mss_bytes,
            times,
        };
        found.insert(place, conversation);
    }
    let mut places: Vec<usize> = found.keys().copied().collect();
    places.sort_unstable();
    places
        .into_iter()
        .filter_map(|place| found.remove(&place))
        .collect()
}

/// The carrier of a connection.
fn carrier(carriers: &[Carrier], session: SessionId, connection: ConnectionId) -> Option<&Carrier> {
    let mut carriers = carriers.iter();
    carriers.find(|it| it.session == session && it.connection == connection)
}

/// The window field of a segment whose scale is not known.
fn unscaled(segment: &Segment) -> u64 {
    match segment.window {
        Announced::Exactly(window) | Announced::AtLeast(window) => window,
    }
}

/// Segments by flow; their windows are unscaled where the scale is not known. A packet that passes several emulated
/// paths in succession is one segment, from the first to the last.
fn collect(
    packets: &Packets,
    traffic: &Traffic,
    carriers: &[Carrier],
) -> HashMap<usize, Vec<Segment>> {
    let mut flows: HashMap<usize, Vec<Segment>> = HashMap::default();
    let mut places = Places::of(traffic, carriers);
    let mut under_way: HashMap<Alike, (usize, NameId)> = HashMap::default();
    let loads = loads(packets, traffic);
    let shifts = traffic.flows.iter().map(|flow| match flow.content {
        Content::Session(session, connection) => carrier(carriers, session, connection),
        _ => None,
    });
    let shifts: Vec<[Option<u32>; 2]> = shifts
        .map(|carrier| carrier.map_or([None; 2], |carrier| carrier.shifts))
        .collect();
    packets.for_each_of_flows(traffic, |number, (flow, way), packet| {
        let (place, acked) = places.see((flow, way), packet);
        let (Some(place), Some(acked)) = (place, acked) else {
            return;
        };
        let segments =
            { flows.entry(flow) }.or_insert_with(|| Vec::with_capacity(loads[flow].packets));
        let left_ns = packet.departed.ns();
        let arrived_ns = (packet.verdict == Verdict::Delivered).then_some(left_ns);
        if loads[flow].has_several_paths {
            let alike = Alike::of(packet);
            if let Some((before, path)) = under_way.get_mut(&alike)
                && *path != packet.path
                && segments[*before]
                    .arrived_ns
                    .is_some_and(|at_ns| at_ns <= packet.time.ns())
            {
                *path = packet.path;
                segments[*before].arrived_ns = arrived_ns;
                return;
            }
            under_way.insert(alike, (segments.len(), packet.path));
        }
        let segment = Segment {
            packet: number,
            sent_ns: packet.time.ns(),
            arrived_ns,
            way,
            place,
            payload_bytes: u64::from(packet.payload_bytes),
            acked,
            window: match shifts[flow][way as usize] {
                Some(shift) => Announced::Exactly(u64::from(packet.window) << shift),
                None => Announced::AtLeast(u64::from(packet.window)),
            },
            is_seen: packet.ip_bytes > 0,
        };
        segments.push(segment);
    });
    flows
}

/// A summary of a flow's packets.
#[derive(Debug, Clone, Copy, Default)]
struct Load {
    packets: usize,
    /// The path of the first one, in each direction.
    first_path: [Option<NameId>; 2],
    has_several_paths: bool,
}

/// The summary of each flow.
fn loads(packets: &Packets, traffic: &Traffic) -> Vec<Load> {
    let mut loads = vec![Load::default(); traffic.flows.len()];
    if let Some(sights) = packets.sights() {
        // Captured packets have passed one point only.
        for ([one, other], count) in sights.ends().zip(sights.counts()) {
            if let Some((flow, _)) = traffic.between(one, other) {
                loads[flow].packets += count;
            }
        }
        return loads;
    }
    packets.for_each_of_flows(traffic, |_, (flow, way), packet| {
        let load = &mut loads[flow];
        let first = *load.first_path[way as usize].get_or_insert(packet.path);
        load.packets += 1;
        load.has_several_paths |= first != packet.path;
    });
    loads
}

/// The PDUs that each sender passed to TCP, from its own records, by stream position. A receiver's records do not show
/// when that was.
fn queued(pdus: &Pdus) -> HashMap<(SessionId, ConnectionId, FlowDirection), Vec<Queued>> {
    let mut queued: HashMap<_, Vec<Queued>> = HashMap::default();
    pdus.for_each(|_, pdu| {
        if pdu.direction != PduDirection::Sent {
            return;
        }
        let way = match opcode::is_request(pdu.opcode) {
            true => FlowDirection::ToTarget,
            false => FlowDirection::ToInitiator,
        };
        let given = queued.entry((pdu.session, pdu.connection, way));
        given.or_default().push(Queued {
            at_ns: pdu.time.ns(),
            offset: pdu.stream_offset,
            task: pdu.task,
            opcode: pdu.opcode,
        });
    });
    for of_way in queued.values_mut() {
        of_way.sort_by_key(|pdu| pdu.offset);
    }
    queued
}

/// What TCP reported about both ends of a connection.
#[derive(Debug, Default)]
struct Ends {
    request_mss_bytes: u64,
    answer_mss_bytes: u64,
    windows: Vec<Sampled>,
}

impl Ends {
    /// From the options of the SYNs.
    fn begun(begin: &Begin) -> Ends {
        Ends {
            request_mss_bytes: begin.mss_bytes[0],
            answer_mss_bytes: begin.mss_bytes[1],
            windows: Vec::new(),
        }
    }

    fn of(cell: &Cell, session: SessionId, connection: ConnectionId) -> Ends {
        let (Some(tcp), Some(pdus)) = (&cell.tcp, &cell.pdu) else {
            return Ends::default();
        };
        // Each file has its own ids for the same names.
        let sends = |host: &str, requests: bool| {
            let host = pdus.names.find(host);
            pdus.rows.iter().any(|row| {
                Some(row.host) == host
                    && row.record.session == session
                    && row.record.direction == PduDirection::Sent
                    && opcode::is_request(row.record.opcode) == requests
            })
        };
        let mut by_host: HashMap<&str, Vec<&Tcp>> = HashMap::default();
        for row in &tcp.rows {
            if row.record.session == session && row.record.connection == connection {
                let host = tcp.names.get(row.host);
                by_host.entry(host).or_default().push(&row.record);
            }
        }
        let mut ends = Ends::default();
        for (host, samples) in by_host {
            let mss = samples
                .last()
                .map_or(0, |sample| u64::from(sample.mss_bytes));
            let way = if sends(host, true) {
                ends.request_mss_bytes = mss;
                FlowDirection::ToTarget
            } else if sends(host, false) {
                ends.answer_mss_bytes = mss;
                FlowDirection::ToInitiator
            } else {
                continue;
            };
            ends.windows.extend(samples.iter().map(|sample| Sampled {
                at_ns: sample.time.ns(),
                way,
                window_bytes: u64::from(sample.cwnd_packets) * mss,
                is_all_sent: sample.unsent_bytes == 0,
            }));
        }
        ends.windows.sort_by_key(|sampled| sampled.at_ns);
        ends
    }
}

/// The minimum scale of the windows announced in this direction: no sender exceeds its peer's window. Windows may have
/// arrived up to `off_ns` earlier.
fn least_shift(seen: &[Segment], way: FlowDirection, off_ns: u64) -> u32 {
    let mut events: Vec<(u64, bool, u64, u64)> = Vec::new();
    for segment in seen {
        if segment.way == way {
            let came_ns = segment.arrived_ns.map(|at_ns| at_ns.saturating_sub(off_ns));
            events.extend(came_ns.map(|at_ns| (at_ns, false, segment.acked, unscaled(segment))));
        } else if segment.payload_bytes > 0 {
            events.push((segment.sent_ns, true, segment.end(), 0));
        }
    }
    events.sort_unstable();
    let mut announced: Option<(u64, u64)> = None;
    let mut least = 0;
    for (_, sends, place, window) in events {
        match announced {
            Some((acked, window)) if sends && window > 0 => {
                let sent = place.saturating_sub(acked);
                while least < MOST_SHIFT && window << least < sent {
                    least += 1;
                }
            }
            Some((acked, _)) if sends || place < acked => {}
            _ if sends => {}
            _ => announced = Some((place, window)),
        }
    }
    least
}
