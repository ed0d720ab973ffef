//! Crossings of the `wire` layer, told from packets and PDUs together.
//!
//! A PDU's place in its TCP stream is recorded; a segment's sequence number relative to the SYN's
//! gives its place in the same stream. The earliest packet that went on and that covers the place
//! is the crossing.
//!
//! Records do not say which addresses a session's connection has. It is told by fit: every sampled
//! request must pass the observation point after its PDU was queued for sending, and every answer
//! before its PDU was received. Several flows may fit when sessions run in step, so the flows are
//! shared out such that every connection has one, those with the shortest median time from
//! queueing to passing first. When that is not possible, nobody gets crossings: half a layer would
//! be taken for the whole.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;

use wansan_trace::event::{Packet, Pdu, PduDirection, Verdict};
use wansan_trace::file::{Row, Table};
use wansan_trace::{ConnectionId, Layer, SessionId, TaskTag};

use crate::join::{Joined, Task};
use crate::opcode::{DATA_IN, SCSI_COMMAND, SCSI_RESPONSE};
use crate::stall::Times;

/// Length of a Basic Header Segment (RFC 7143 §11.2).
const BHS_BYTES: u64 = 48;
/// SCSI Response and SCSI Data-In: what answers a command.
const ANSWERS: [u8; 2] = [SCSI_RESPONSE, DATA_IN];
/// TCP flags.
const SYN: u8 = 0x02;
/// TCP flags.
const ACK: u8 = 0x10;
/// Places of a connection that are looked at to find its flow.
const SAMPLES: usize = 64;
/// This share of the samples must fit.
const FITTING_SHARE: f64 = 0.9;
/// A crossing that falls outside its neighbours by more than this is not believed.
const DISORDER_NS: u64 = 1_000_000;

/// The TCP connection that carries a session's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Carrier {
    /// The session.
    pub session: SessionId,
    /// Its connection.
    pub connection: ConnectionId,
    /// The initiator's end.
    pub initiator: SocketAddr,
    /// The target's end.
    pub target: SocketAddr,
    /// What is known of its beginning, where records of packets do not tell it.
    pub begin: Option<Begin>,
}

/// What a connection's SYNs say, or what stands in their place where the connection began before the
/// packets did: of the initiator's and of the target's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// Sequence numbers of the first bytes that they send.
    pub first: [u32; 2],
    /// By how much the windows that they announce are shifted (RFC 7323 §2.2), if it is known.
    pub shifts: [Option<u32>; 2],
    /// The longest payloads that they send, in bytes; 0 when that is not known.
    pub mss_bytes: [u64; 2],
    /// Where the times of the packets at both ends are from.
    pub times: Times,
}

/// Adds the crossings of the wire to the I/Os that have none yet, and tells by which TCP
/// connections they went.
pub fn derive(joined: &mut Joined, pdus: &[Row<Pdu>], packets: &Table<Packet>) -> Vec<Carrier> {
    let flows = flows(packets);
    let mut connections = connections(pdus);
    let fits = assign(&mut connections, &flows);
    for task in &mut joined.tasks {
        if task.passed(Layer::Wire) {
            continue;
        }
        let place = connections
            .iter()
            .position(|c| c.session == task.session && c.requests_of.contains_key(&task.tag));
        let Some(place) = place else { continue };
        let Some(flow) = fits[place] else { continue };
        let (enter_ns, leave_ns) = crossings(task, &connections[place], &flows[flow]);
        // Half a passage of an I/O that is done would count as lost records.
        let done = task.leave_ns(Layer::Socket).is_some();
        if enter_ns.is_some() && (leave_ns.is_some() || !done) {
            task.set(Layer::Wire, enter_ns, leave_ns);
        }
    }
    joined.take_stock();
    let carrier = |(connection, fit): (&Connection, Option<usize>)| {
        let flow = &flows[fit?];
        Some(Carrier {
            session: connection.session,
            connection: connection.id,
            initiator: flow.initiator,
            target: flow.target,
            begin: None,
        })
    };
    connections.iter().zip(fits).filter_map(carrier).collect()
}

/// One direction of a TCP connection: which stretch of the stream passed when.
#[derive(Default)]
struct Stream {
    /// Sequence number of the stream's first byte.
    base: Option<u32>,
    highest: u64,
    /// Start, end (exclusive) and time, sorted by start.
    segments: Vec<(u64, u64, u64)>,
    longest_bytes: u64,
}

impl Stream {
    fn see(&mut self, packet: &Packet) {
        if packet.flags & SYN != 0 {
            self.base = Some(packet.seq.wrapping_add(1));
            self.highest = 0;
            self.segments.clear();
            return;
        }
        let Some(base) = self.base.filter(|_| packet.payload_bytes > 0) else {
            return;
        };
        // Where it is, counted from the highest place so far: sequence numbers wrap.
        let expected = base.wrapping_add(self.highest as u32);
        let distance = i64::from(packet.seq.wrapping_sub(expected) as i32);
        let Some(start) = self.highest.checked_add_signed(distance) else {
            return;
        };
        let length = u64::from(packet.payload_bytes);
        self.longest_bytes = self.longest_bytes.max(length);
        self.highest = self.highest.max(start + length);
        self.segments
            .push((start, start + length, packet.time.ns()));
    }

    /// When the byte at `place` first passed.
    fn passed_ns(&self, place: u64) -> Option<u64> {
        let after = self
            .segments
            .partition_point(|&(start, _, _)| start <= place);
        self.segments[..after]
            .iter()
            .rev()
            .take_while(|(start, _, _)| start + self.longest_bytes > place)
            .filter(|(_, end, _)| *end > place)
            .map(|&(_, _, time_ns)| time_ns)
            .min()
    }
}

/// Both directions of a TCP connection.
struct Flow {
    /// The end that sent the SYN, and the other.
    initiator: SocketAddr,
    target: SocketAddr,
    requests: Stream,
    answers: Stream,
}

/// The flows whose SYN was seen, from the end that sent it.
fn flows(packets: &Table<Packet>) -> Vec<Flow> {
    let mut flows: BTreeMap<(SocketAddr, SocketAddr), Flow> = BTreeMap::new();
    for packet in packets.rows.iter().map(|row| &row.record) {
        if packet.verdict != Verdict::Delivered {
            continue;
        }
        let ahead = (packet.source, packet.destination);
        let back = (packet.destination, packet.source);
        if packet.flags & (SYN | ACK) == SYN {
            let flow = flows.entry(ahead).or_insert_with(|| Flow {
                initiator: packet.source,
                target: packet.destination,
                requests: Stream::default(),
                answers: Stream::default(),
            });
            flow.requests.see(packet);
        } else if let Some(flow) = flows.get_mut(&ahead) {
            flow.requests.see(packet);
        } else if let Some(flow) = flows.get_mut(&back) {
            flow.answers.see(packet);
        }
    }
    let mut flows: Vec<Flow> = flows.into_values().collect();
    for flow in &mut flows {
        flow.requests.segments.sort_unstable();
        flow.answers.segments.sort_unstable();
    }
    flows
}

/// What one end recorded of one connection.
struct Connection {
    session: SessionId,
    id: ConnectionId,
    /// Whether the initiator recorded it; else the target did.
    by_initiator: bool,
    /// Time of the PDU and place of the request's last header byte, by time.
    requests_of: HashMap<TaskTag, Vec<(u64, u64)>>,
    /// Time of the PDU and place of the answer's first byte, by time.
    answers_of: HashMap<TaskTag, Vec<(u64, u64)>>,
    request_samples: Vec<(u64, u64)>,
    answer_samples: Vec<(u64, u64)>,
}

/// The connections that carried commands; of two views of one, the initiator's.
fn connections(pdus: &[Row<Pdu>]) -> Vec<Connection> {
    let mut found: BTreeMap<(SessionId, ConnectionId, bool), Connection> = BTreeMap::new();
    for pdu in pdus.iter().map(|row| &row.record) {
        let request = pdu.opcode == SCSI_COMMAND;
        if !request && !ANSWERS.contains(&pdu.opcode) {
            continue;
        }
        let by_initiator = request == (pdu.direction == PduDirection::Sent);
        let connection = found
            .entry((pdu.session, pdu.connection, by_initiator))
            .or_insert_with(|| Connection {
                session: pdu.session,
                id: pdu.connection,
                by_initiator,
                requests_of: HashMap::new(),
                answers_of: HashMap::new(),
                request_samples: Vec::new(),
                answer_samples: Vec::new(),
            });
        let time_ns = pdu.time.ns();
        if request {
            let place = pdu.stream_offset + BHS_BYTES - 1;
            connection.request_samples.push((time_ns, place));
            let uses = connection.requests_of.entry(pdu.task).or_default();
            uses.push((time_ns, place));
        } else {
            let place = pdu.stream_offset;
            connection.answer_samples.push((time_ns, place));
            let uses = connection.answers_of.entry(pdu.task).or_default();
            uses.push((time_ns, place));
        }
    }
    let both: Vec<_> = found.keys().copied().collect();
    found
        .into_iter()
        .filter(|((session, id, by_initiator), _)| {
            *by_initiator || !both.contains(&(*session, *id, true))
        })
        .map(|(_, mut connection)| {
            thin_out(&mut connection.request_samples);
            thin_out(&mut connection.answer_samples);
            connection
        })
        .collect()
}

/// Keeps [`SAMPLES`] of them, evenly spread.
fn thin_out(samples: &mut Vec<(u64, u64)>) {
    let step = samples.len().div_ceil(SAMPLES).max(1);
    *samples = samples.iter().copied().step_by(step).collect();
}

/// The flow of each connection, each flow once: a perfect matching by augmenting paths (Kuhn 1955),
/// which tries the flows that fit best first. All `None` when there is no such matching.
fn assign(connections: &mut [Connection], flows: &[Flow]) -> Vec<Option<usize>> {
    let fits: Vec<Vec<usize>> = connections
        .iter()
        .map(|connection| {
            let mut fits: Vec<(u64, usize)> = flows
                .iter()
                .enumerate()
                .filter_map(|(f, flow)| Some((lag_ns(connection, flow)?, f)))
                .collect();
            fits.sort_unstable();
            fits.into_iter().map(|(_, f)| f).collect()
        })
        .collect();
    match_all(&fits, flows.len()).unwrap_or_else(|| vec![None; connections.len()])
}

/// Gives each entry of `fits` one of the flows that it lists, no flow twice.
fn match_all(fits: &[Vec<usize>], flows: usize) -> Option<Vec<Option<usize>>> {
    let mut owner = vec![None; flows];
    for c in 0..fits.len() {
        let mut tried = vec![false; flows];
        if !find_flow(c, fits, &mut owner, &mut tried) {
            return None;
        }
    }
    let mut assigned = vec![None; fits.len()];
    for (f, c) in owner.into_iter().enumerate() {
        if let Some(c) = c {
            assigned[c] = Some(f);
        }
    }
    Some(assigned)
}

/// Finds a flow for `c`, moving other connections to other flows where that makes room.
fn find_flow(
    c: usize,
    fits: &[Vec<usize>],
    owner: &mut [Option<usize>],
    tried: &mut [bool],
) -> bool {
    for &f in &fits[c] {
        if std::mem::replace(&mut tried[f], true) {
            continue;
        }
        let free = owner[f].is_none_or(|other: usize| find_flow(other, fits, owner, tried));
        if free {
            owner[f] = Some(c);
            return true;
        }
    }
    false
}

/// The median time between the PDU and its passing, if the flow fits the connection.
fn lag_ns(connection: &Connection, flow: &Flow) -> Option<u64> {
    // What the recording end sends passes later, what it receives passed earlier.
    let (sent, received) = if connection.by_initiator {
        (
            (&connection.request_samples, &flow.requests),
            (&connection.answer_samples, &flow.answers),
        )
    } else {
        (
            (&connection.answer_samples, &flow.answers),
            (&connection.request_samples, &flow.requests),
        )
    };
    let later = sent.0.iter().map(|&(pdu_ns, place)| {
        let passed_ns = sent.1.passed_ns(place)?;
        passed_ns.checked_sub(pdu_ns)
    });
    let earlier = received.0.iter().map(|&(pdu_ns, place)| {
        let passed_ns = received.1.passed_ns(place)?;
        pdu_ns.checked_sub(passed_ns)
    });
    let samples = sent.0.len() + received.0.len();
    let mut lags_ns: Vec<u64> = later.chain(earlier).flatten().collect();
    let needed = (samples as f64 * FITTING_SHARE).ceil() as usize;
    if lags_ns.is_empty() || lags_ns.len() < needed {
        return None;
    }
    let middle = lags_ns.len() / 2;
    let (_, median_ns, _) = lags_ns.select_nth_unstable(middle);
    Some(*median_ns)
}

/// When an I/O's request and answer passed.
fn crossings(task: &Task, connection: &Connection, flow: &Flow) -> (Option<u64>, Option<u64>) {
    let above = [Layer::TcpInitiator, Layer::Socket, Layer::Window];
    let below = [Layer::TcpTarget, Layer::Target, Layer::Device];
    let done_ns = above.iter().find_map(|layer| task.leave_ns(*layer));
    // Of several uses of a tag, the last that had begun when this one was done.
    let newest = |uses: Option<&Vec<(u64, u64)>>| {
        let place = uses?
            .iter()
            .rev()
            .find(|(pdu_ns, _)| done_ns.is_none_or(|done_ns| *pdu_ns <= done_ns + DISORDER_NS))?
            .1;
        Some(place)
    };
    // Data-In PDUs of one answer follow each other: its first byte is in the first of them.
    let first = |uses: Option<&Vec<(u64, u64)>>, from_ns: u64| {
        let found = uses?.iter().find(|(pdu_ns, _)| *pdu_ns >= from_ns)?;
        Some(found.1)
    };
    let begun_ns = above.iter().find_map(|layer| task.enter_ns(*layer));
    let enter_ns = newest(connection.requests_of.get(&task.tag))
        .and_then(|place| flow.requests.passed_ns(place));
    let leave_ns = first(connection.answers_of.get(&task.tag), begun_ns.unwrap_or(0))
        .and_then(|place| flow.answers.passed_ns(place));
    let enter_below = below.iter().find_map(|layer| task.enter_ns(*layer));
    (
        enter_ns.and_then(|ns| between(ns, begun_ns, enter_below)),
        // The first byte of a long answer passes before its last one is queued.
        leave_ns.and_then(|ns| between(ns, enter_ns, done_ns)),
    )
}

/// `ns` moved between its neighbours: a thread may write down that the socket took a PDU only
/// after the packet has passed. `None` when it is too far out to be believed.
fn between(ns: u64, least_ns: Option<u64>, most_ns: Option<u64>) -> Option<u64> {
    let least_ns = least_ns.unwrap_or(0);
    let most_ns = most_ns.unwrap_or(u64::MAX).max(least_ns);
    let inside_ns = ns.clamp(least_ns, most_ns);
    (inside_ns.abs_diff(ns) <= DISORDER_NS).then_some(inside_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_moves_on_so_that_another_has_a_flow() {
        // Both fit flow 0, only the first fits flow 1: taking the best first would leave one out.
        assert_eq!(
            match_all(&[vec![0, 1], vec![0]], 2),
            Some(vec![Some(1), Some(0)])
        );
        assert_eq!(match_all(&[vec![0], vec![0]], 2), None);
        assert_eq!(match_all(&[vec![]], 1), None);
    }
}
