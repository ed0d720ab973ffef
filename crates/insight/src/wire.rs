//! Crossings of the `wire` layer, derived from packets and PDUs together.
//!
//! A PDU's offset in its TCP stream is recorded; a segment's sequence number relative to the SYN's
//! gives its offset in the same stream. The earliest delivered packet that covers the offset
//! is the crossing.
//!
//! `connection` records map a session's connections to flows: those of the initiator, or those of
//! the target if the initiator's connection ends at a relay before the observation point.
//! If a connection remains without a flow, there are no crossings at all: half a layer would be mistaken for
//! the whole.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use foldhash::HashMap;
use smallvec::SmallVec;
use wansan_trace::event::{Connection, Packet, Pdu, PduDirection, Role, Verdict};
use wansan_trace::file::{Row, Table};
use wansan_trace::{ConnectionId, Layer, SessionId};

use crate::join::{Joined, Tags, Task};
use crate::opcode::{BHS_BYTES, DATA_IN, SCSI_COMMAND, SCSI_RESPONSE};
use crate::traffic::{Ends, FlowDirection};

/// The PDUs that answer a command: SCSI Response and SCSI Data-In.
const ANSWERS: [u8; 2] = [SCSI_RESPONSE, DATA_IN];
/// TCP flags.
const SYN: u8 = 0x02;
/// TCP flags.
const ACK: u8 = 0x10;
/// Marks a window scale that no packet showed.
pub(crate) const UNKNOWN_SCALE: u8 = u8::MAX;
/// A crossing that lies outside its neighbours by more than this is discarded.
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
    /// Window scale shifts announced by the initiator and the target (RFC 7323 §2.2), if known.
    pub shifts: [Option<u32>; 2],
    /// The connection's beginning, if it is known from elsewhere than packet records.
    pub begin: Option<Begin>,
}

/// The source of the times at which segments left one end and reached the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Times {
    /// Both were observed.
    Seen,
    /// Derived from one observation point between the ends, by the handshake's round trip.
    ByHandshake,
    /// The same, by the delays of acknowledgements, which receivers may have delayed.
    ByAcknowledgements,
}

/// What a connection's SYNs say, or substitutes if the connection began before the packets did: for the initiator and
/// the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// Sequence numbers of the first bytes they send.
    pub first: [u32; 2],
    /// The longest payloads they send, in bytes; 0 if unknown.
    pub mss_bytes: [u64; 2],
    /// The source of the packet times at both ends.
    pub times: Times,
}

/// Adds the wire crossings to the I/Os that have none yet, and returns the TCP connections that carried them. For a
/// reinstated connection, the TCP connection with the most commands is returned.
pub fn derive(
    joined: &mut Joined,
    pdus: &[Row<Pdu>],
    packets: &Table<Packet>,
    connections: &[Row<Connection>],
) -> Vec<Carrier> {
    let flows = flows(packets);
    let logins = Logins::of(connections);
    let (commands, uses) = commands(pdus, &logins, &joined.tags);
    let carried: Option<Vec<(Carrier, &Flow)>> = commands
        .iter()
        .map(|commands| logins.carrier(commands, &flows))
        .collect();
    let Some(carried) = carried else {
        return Vec::new();
    };
    let mut of_session: HashMap<SessionId, Vec<usize>> = HashMap::default();
    let mut in_order: Vec<usize> = (0..commands.len()).collect();
    in_order.sort_by_key(|&place| commands[place].key());
    for &place in &in_order {
        let of_session = of_session.entry(commands[place].session);
        of_session.or_default().push(place);
    }
    for task in &mut joined.tasks {
        if task.passed(Layer::Wire) {
            continue;
        }
        // For a reinstated connection, the last TCP connection that can have carried the I/O.
        let places = of_session.get(&task.session).into_iter().flatten().rev();
        let passed = places.filter_map(|&place| {
            let (enter_ns, leave_ns) = crossings(task, &uses, place, carried[place].1);
            Some((enter_ns?, leave_ns))
        });
        let Some((enter_ns, leave_ns)) = { passed }.next() else {
            continue;
        };
        // An incomplete wire crossing of a completed I/O would count as a lost record.
        let done = task.leave_ns(Layer::Socket).is_some();
        if leave_ns.is_some() || !done {
            task.set(Layer::Wire, Some(enter_ns), leave_ns);
        }
    }
    joined.take_stock();
    let mut busiest: BTreeMap<(SessionId, ConnectionId), (usize, Carrier)> = BTreeMap::new();
    for place in in_order {
        let (count, carrier) = (commands[place].count, carried[place].0);
        let known = busiest.entry((carrier.session, carrier.connection));
        let known = known.or_insert((count, carrier));
        if known.0 < count {
            *known = (count, carrier);
        }
    }
    busiest.into_values().map(|(_, carrier)| carrier).collect()
}

/// The TCP connections of sessions whose packets were captured at one point of the path, as their records say: the
/// records of such a capture already have the wire crossings.
#[must_use]
pub fn captured(packets: &Table<Packet>, connections: &[Row<Connection>]) -> Vec<Carrier> {
    let captured = |role| {
        let records = connections.iter().map(|row| &row.record);
        records.filter(move |record| record.is_captured && record.role == role)
    };
    if captured(Role::Initiator).next().is_none() {
        return Vec::new();
    }
    let begun: BTreeSet<(SocketAddr, SocketAddr)> = packets
        .rows
        .iter()
        .map(|row| &row.record)
        .filter(|packet| packet.flags & (SYN | ACK) == SYN)
        .map(|packet| (packet.source, packet.destination))
        .collect();
    let carriers = captured(Role::Initiator).map(|own| {
        let other = captured(Role::Target)
            .find(|other| (other.session, other.connection) == (own.session, own.connection));
        let scale = |scale: u8| (scale != UNKNOWN_SCALE).then_some(u32::from(scale));
        let ends = (own.local, own.remote);
        Carrier {
            session: own.session,
            connection: own.connection,
            initiator: own.local,
            target: own.remote,
            shifts: [
                scale(own.local_window_scale),
                scale(own.remote_window_scale),
            ],
            begin: Some(Begin {
                first: [own.first_sent_seq, own.first_received_seq],
                mss_bytes: [
                    u64::from(own.mss_bytes),
                    other.map_or(0, |other| u64::from(other.mss_bytes)),
                ],
                times: match begun.contains(&ends) {
                    true => Times::ByHandshake,
                    false => Times::ByAcknowledgements,
                },
            }),
        }
    });
    carriers.collect()
}

/// The TCP connections of each session's connections, in the order of their establishment, as recorded by the initiator
/// and by the target.
#[derive(Default)]
struct Logins(BTreeMap<(SessionId, ConnectionId), [Vec<Connection>; 2]>);

impl Logins {
    fn of(connections: &[Row<Connection>]) -> Logins {
        let mut logins = Logins::default();
        for record in connections.iter().map(|row| row.record) {
            let end = match record.role {
                Role::Initiator => 0,
                Role::Target => 1,
                _ => continue,
            };
            let of = logins.0.entry((record.session, record.connection));
            of.or_default()[end].push(record);
        }
        for of_end in logins.0.values_mut().flatten() {
            of_end.sort_by_key(|record| record.time);
        }
        logins
    }

    /// The index of the TCP connection that carried a PDU, in the list of the end that recorded the PDU.
    fn place(&self, pdu: &Pdu, by_initiator: bool) -> Option<usize> {
        let both = self.0.get(&(pdu.session, pdu.connection))?;
        let of_end = &both[usize::from(!by_initiator)];
        let after = of_end.partition_point(|record| record.time <= pdu.time);
        after.checked_sub(1)
    }

    /// The flow that carried the commands.
    fn carrier<'f>(&self, commands: &Commands, flows: &'f Flows) -> Option<(Carrier, &'f Flow)> {
        let both = self.0.get(&(commands.session, commands.id))?;
        let views = both.iter().filter_map(|of_end| of_end.get(commands.login));
        let found = views.filter_map(|record| {
            let own = (record.local, u32::from(record.local_window_scale));
            let peer = (record.remote, u32::from(record.remote_window_scale));
            let [initiator, target] = match record.role {
                Role::Initiator => [own, peer],
                _ => [peer, own],
            };
            let carrier = Carrier {
                session: commands.session,
                connection: commands.id,
                initiator: initiator.0,
                target: target.0,
                shifts: [Some(initiator.1), Some(target.1)],
                begin: None,
            };
            Some((carrier, flows.begun(initiator.0, target.0)?))
        });
        { found }.next()
    }
}

/// One direction of a TCP connection: when each segment passed.
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
        // The offset relative to the highest one so far: sequence numbers wrap.
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

    /// When the byte at offset `place` first passed.
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

/// Flows, and the flow and direction of packets by their ends.
#[derive(Default)]
struct Flows {
    flows: Vec<Flow>,
    directions: HashMap<Ends, (usize, FlowDirection)>,
}

impl Flows {
    /// The latest flow that `by` opened with a SYN to `to`.
    fn begun(&self, by: SocketAddr, to: SocketAddr) -> Option<&Flow> {
        match self.directions.get(&Ends::of(by, to)) {
            Some(&(flow, FlowDirection::ToTarget)) => Some(&self.flows[flow]),
            _ => None,
        }
    }

    /// The stream that a packet belongs to; a SYN creates or restarts it.
    fn stream(&mut self, packet: &Packet) -> Option<&mut Stream> {
        let ahead = Ends::of(packet.source, packet.destination);
        let known = self.directions.get(&ahead).copied();
        let begins = packet.flags & (SYN | ACK) == SYN;
        let (flow, direction) = match known {
            Some(known @ (_, FlowDirection::ToTarget)) => known,
            Some(known) if !begins => known,
            None if !begins => return None,
            _ => {
                let flow = (self.flows.len(), FlowDirection::ToTarget);
                self.flows.push(Flow::default());
                self.directions.insert(ahead, flow);
                let back = Ends::of(packet.destination, packet.source);
                let answers = (flow.0, FlowDirection::ToInitiator);
                self.directions.entry(back).or_insert(answers);
                flow
            }
        };
        let Flow { requests, answers } = &mut self.flows[flow];
        Some(match direction {
            FlowDirection::ToTarget => requests,
            FlowDirection::ToInitiator => answers,
        })
    }
}

/// Both directions of a TCP connection.
#[derive(Default)]
struct Flow {
    requests: Stream,
    answers: Stream,
}

/// The flows whose SYN was seen, directed from the end that sent it.
fn flows(packets: &Table<Packet>) -> Flows {
    let mut flows = Flows::default();
    let delivered = |packet: &&Packet| packet.verdict == Verdict::Delivered;
    for packet in { packets.rows.iter().map(|row| &row.record) }.filter(delivered) {
        if let Some(stream) = flows.stream(packet) {
            stream.see(packet);
        }
    }
    for flow in &mut flows.flows {
        flow.requests.segments.sort_unstable();
        flow.answers.segments.sort_unstable();
    }
    flows
}

/// A PDU of one use of a tag, as recorded by an end.
struct Use {
    /// The index of the TCP connection among [`Commands`].
    commands: usize,
    /// Time of the PDU.
    pdu_ns: u64,
    /// Stream offset of the request's last header byte, or of the answer's first byte.
    place: u64,
}

/// Mostly a single one.
type Uses = SmallVec<[Use; 1]>;

/// The requests and the answers of each tag, by the tag's index and then by time.
struct UsesOf {
    requests: Vec<Uses>,
    answers: Vec<Uses>,
}

/// One TCP connection that carried commands.
struct Commands {
    session: SessionId,
    id: ConnectionId,
    /// The index of the TCP connection among those of the session's connection.
    login: usize,
    /// Number of commands it carried.
    count: usize,
}

impl Commands {
    fn key(&self) -> (SessionId, ConnectionId, usize) {
        (self.session, self.id, self.login)
    }
}

/// The TCP connections, and their commands as recorded by the initiator, or else by the target.
fn commands(pdus: &[Row<Pdu>], logins: &Logins, tags: &Tags) -> (Vec<Commands>, UsesOf) {
    let mut commands: Vec<Commands> = Vec::new();
    let [requests, answers] = [(); 2].map(|()| (0..tags.count()).map(|_| Uses::new()).collect());
    let mut uses = UsesOf { requests, answers };
    // Whether the initiator recorded it, and its index.
    let mut known: HashMap<(SessionId, ConnectionId, usize), (bool, usize)> = HashMap::default();
    for by_initiator in [true, false] {
        for pdu in pdus.iter().map(|row| &row.record) {
            let request = pdu.opcode == SCSI_COMMAND;
            let is_sent = pdu.direction == PduDirection::Sent;
            if (request == is_sent) != by_initiator || !(request || ANSWERS.contains(&pdu.opcode)) {
                continue;
            }
            let Some(login) = logins.place(pdu, by_initiator) else {
                continue;
            };
            let key = (pdu.session, pdu.connection, login);
            let &mut (is_of_initiator, place) = known.entry(key).or_insert_with(|| {
                let (session, id, login) = key;
                commands.push(Commands {
                    session,
                    id,
                    login,
                    count: 0,
                });
                (by_initiator, commands.len() - 1)
            });
            if is_of_initiator != by_initiator {
                continue;
            }
            commands[place].count += usize::from(request);
            let Some(tag) = tags.place(pdu.session, pdu.task) else {
                continue;
            };
            let (of, at) = match request {
                true => (&mut uses.requests, pdu.stream_offset + BHS_BYTES - 1),
                false => (&mut uses.answers, pdu.stream_offset),
            };
            of[tag].push(Use {
                commands: place,
                pdu_ns: pdu.time.ns(),
                place: at,
            });
        }
    }
    (commands, uses)
}

/// When an I/O's request and answer passed, if the TCP connection at `commands` carried them.
fn crossings(
    task: &Task,
    uses: &UsesOf,
    commands: usize,
    flow: &Flow,
) -> (Option<u64>, Option<u64>) {
    let above = [Layer::TcpInitiator, Layer::Socket, Layer::Window];
    let below = [Layer::TcpTarget, Layer::Target, Layer::Device];
    let done_ns = above.iter().find_map(|layer| task.leave_ns(*layer));
    let begun_ns = above.iter().find_map(|layer| task.enter_ns(*layer));
    let tag = task.tag_place as usize;
    let is_own = |it: &&Use| it.commands == commands;
    // Of several uses of a tag, the last that had begun when this I/O completed.
    let is_before_done = |it: &&Use| done_ns.is_none_or(|ns| it.pdu_ns <= ns + DISORDER_NS);
    let mut requests = uses.requests[tag].iter().rev().filter(is_own);
    let enter_ns = requests.find(is_before_done).map(|it| it.place);
    let enter_ns = enter_ns.and_then(|place| flow.requests.passed_ns(place));
    // The Data-In PDUs of one answer are consecutive: its first byte is in the first of them.
    let mut answers = uses.answers[tag].iter().filter(is_own);
    let leave_ns = answers.find(|it| it.pdu_ns >= begun_ns.unwrap_or(0));
    let leave_ns = leave_ns.and_then(|it| flow.answers.passed_ns(it.place));
    let enter_below = below.iter().find_map(|layer| task.enter_ns(*layer));
    (
        enter_ns.and_then(|ns| between(ns, begun_ns, enter_below)),
        // The first byte of a long answer passes before its last one is queued.
        leave_ns.and_then(|ns| between(ns, enter_ns, done_ns)),
    )
}

/// `ns` clamped between its neighbours: a thread may record that the socket took a PDU only after the packet has
/// passed. `None` if it is off by more than [`DISORDER_NS`].
fn between(ns: u64, least_ns: Option<u64>, most_ns: Option<u64>) -> Option<u64> {
    let least_ns = least_ns.unwrap_or(0);
    let most_ns = most_ns.unwrap_or(u64::MAX).max(least_ns);
    let inside_ns = ns.clamp(least_ns, most_ns);
    (inside_ns.abs_diff(ns) <= DISORDER_NS).then_some(inside_ns)
}
