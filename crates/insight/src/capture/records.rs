//! The records that both ends would have made of captured connections, as far as packets show.
//!
//! Packets do not show when a program gave a PDU to TCP. A PDU that continues the previous one (the next Data-In of a
//! read, its SCSI Response, the next Data-Out of a sequence) is taken to have been ready with that one; a solicited
//! Data-Out, when its R2T had arrived; any other PDU when its first byte left. If an answer shares a segment with the
//! end of the previous PDU, it was ready before the segment was built: TCP sends at once if it may, so bytes were
//! waiting in the sender's TCP. Such an answer is taken to have been ready with that PDU too, but not before its
//! command had arrived.

use foldhash::{HashMap, HashSet};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use wansan_iscsi::record::pdu_record;
use wansan_trace::event::{Pdu, PduDirection};
use wansan_trace::file::{Names, Row, Table};
use wansan_trace::{ConnectionId, Direction, Instant, Layer, NameId, SessionId, TaskTag};

use crate::cell::Cell;
use crate::join::{Task, join_each};
use crate::opcode::{
    self, DATA_IN, DATA_OUT, FINAL_BIT, R2T, SCSI_COMMAND, SCSI_RESPONSE, STATUS_BIT,
};
use crate::packets::Packets;
use crate::pdus::Pdus;
use crate::stall::Times;
use crate::wire::{Begin, Carrier};

use super::carried::{At, Carried, Crosses};
use super::commands::{Asked, Commands};
use super::connection::Connection;
use super::ends::{Came, Journey, Passed};
use super::sights::Sights;

/// The hosts of the records.
pub(super) const INITIATOR: NameId = NameId(0);
pub(super) const TARGET: NameId = NameId(1);
pub(super) const HOSTS: [NameId; 2] = [INITIATOR, TARGET];

/// A connection that carries PDUs, and which of its ends is the initiator.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) connection: Connection,
    /// The initiator's index in the connection's ends.
    pub(super) initiator: usize,
    pub(super) id: SessionId,
    pub(super) cid: ConnectionId,
}

/// When a PDU passed.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// Its index among the PDUs found in its stream.
    found: u32,
    /// Whether its first byte left in the same segment as the end of the previous PDU.
    is_joined: bool,
    /// When the last byte of a request, or the first byte of an answer, passed the capture point.
    seen_ns: u64,
    came: Option<Came>,
}

/// The PDUs that one end of a connection sent, with the times when they left, and their ways.
#[derive(Debug, Clone, Copy)]
struct Run<'a> {
    /// Index of the first among all PDUs.
    first: u32,
    pdus: &'a [Pdu],
    ways: &'a [Way],
}

impl<'a> Run<'a> {
    fn each(self) -> impl Iterator<Item = (&'a Pdu, &'a Way)> {
        self.pdus.iter().zip(self.ways)
    }

    fn numbered(self) -> impl Iterator<Item = (u32, (&'a Pdu, &'a Way))> {
        (self.first..).zip(self.each())
    }
}

/// Records of several connections. Only small keys of them are sorted.
#[derive(Default)]
struct Records {
    sights: Sights,
    pdus: Vec<Pdu>,
    /// When each end had each of them.
    pdus_at: Vec<At>,
    crossings: Vec<Crosses>,
    carriers: Vec<Carrier>,
    /// The commands of each session: CmdSN, index in `pdus`, and time of arrival.
    commands: BTreeMap<SessionId, Vec<(u32, u32, u64)>>,
    /// The contents of each command, by session, tag and the time when it left.
    asked: Vec<((SessionId, TaskTag, u64), Asked)>,
    /// For each connection, the times for which its PDUs are fully known.
    whole: HashMap<(SessionId, ConnectionId), Whole>,
    missing_ends: MissingEnds,
}

/// The times for which a connection's PDUs are all known.
#[derive(Debug, Clone, Copy)]
struct Whole {
    /// All commands that left before this time are known.
    commands_to_ns: u64,
    /// All answers that left after this time are known.
    answers_from_ns: u64,
}

impl Whole {
    /// Whether the capture has missed the other half of an I/O: the answer to a command, or the command of an answer.
    fn has_missed(&self, task: &Task) -> bool {
        let (enter_ns, leave_ns) = (task.enter_ns(Layer::Window), task.leave_ns(Layer::Window));
        match (enter_ns, leave_ns) {
            (Some(enter_ns), None) => enter_ns < self.answers_from_ns,
            (None, Some(leave_ns)) => leave_ns > self.commands_to_ns,
            (None, None) => true,
            (Some(_), Some(_)) => false,
        }
    }
}

/// I/Os whose last bytes the capture has missed: they count as done when the bytes before those had arrived.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct MissingEnds {
    /// Number of such I/Os.
    pub ios: u64,
    /// How much later they may have completed, in ns, as a mean over them.
    pub later_ns: f64,
}

impl MissingEnds {
    /// Adds those in another part of a capture.
    pub fn merge(&mut self, other: &MissingEnds) {
        let all_ns = [*self, *other].map(|part| part.ios as f64 * part.later_ns);
        self.ios += other.ios;
        self.later_ns = all_ns.iter().sum::<f64>() / self.ios.max(1) as f64;
    }
}

/// The records of captured connections, and counts.
pub(super) struct Recorded {
    pub(super) cell: Cell,
    pub(super) commands: Commands,
    /// Sessions that had I/Os, including excluded ones.
    pub(super) with_ios: BTreeSet<SessionId>,
    /// I/Os excluded because the capture has missed their command or status.
    pub(super) unpaired: u64,
    /// I/Os whose status had not come at the end.
    pub(super) in_progress: u64,
    pub(super) missing_ends: MissingEnds,
}

/// Derives the records of captured connections.
pub(super) fn recorded(sessions: Vec<Session>) -> Recorded {
    let mut records = Records::default();
    for session in sessions {
        records.add(session);
    }
    records.commands_in_order();
    let Records {
        mut sights,
        pdus,
        pdus_at,
        mut crossings,
        carriers,
        asked,
        whole,
        mut missing_ends,
        ..
    } = records;
    missing_ends.later_ns /= missing_ends.ios.max(1) as f64;
    sights.finish();
    let carried = Carried::of(pdus, pdus_at, whole.len());
    crossings.sort_by_key(|crosses| crosses.time_ns);
    let crossed = crossings.iter().map(|crosses| carried.crossing(crosses));
    let mut joined = join_each(crossed, asked.len());
    drop(crossings);
    let all = joined.tasks.len();
    let with_ios = joined.tasks.iter().map(|task| task.session).collect();
    joined.tasks.retain(|task| {
        let of = whole.get(&(task.session, task.connection));
        !of.is_some_and(|of| of.has_missed(task))
    });
    let unpaired = (all - joined.tasks.len()) as u64;
    let is_open = |task: &&Task| {
        task.enter_ns(Layer::Window).is_some() && task.leave_ns(Layer::Window).is_none()
    };
    let in_progress = joined.tasks.iter().filter(is_open).count() as u64;
    joined.take_stock();
    let cell = Cell {
        joined,
        io_dropped: BTreeMap::new(),
        pdu: Some(Pdus::captured(carried)),
        connection: None,
        tcp: None,
        stamp: None,
        packet: Some(Packets::captured(sights)),
        carriers,
        path: None,
        thread: None,
        request: None,
    };
    Recorded {
        commands: Commands::of(asked),
        cell,
        with_ios,
        unpaired,
        in_progress,
        missing_ends,
    }
}

/// A table of both hosts' records.
pub(super) fn table<T>(rows: Vec<Row<T>>) -> Table<T> {
    Table {
        rows,
        names: Names::of(["initiator", "target"]),
        dropped: BTreeMap::new(),
    }
}

impl Records {
    fn add(&mut self, mut session: Session) {
        let passed = Passed::of(&mut session.connection);
        let session = &session;
        let connection = &session.connection;
        let (initiator, target) = (session.initiator, 1 - session.initiator);
        let streams = [&connection.streams[initiator], &connection.streams[target]];
        let options = streams.map(|stream| stream.options.unwrap_or_default());
        let mss_bytes = [(0, 1), (1, 0)].map(|(own, peer)| {
            let told = options[peer].payload_bytes(&options[own]);
            told.unwrap_or_else(|| longest_payload(&passed, [initiator, target][own]))
        });
        let carrier = Carrier {
            session: session.id,
            connection: session.cid,
            initiator: connection.ends[initiator],
            target: connection.ends[target],
            shifts: shifts(connection, initiator),
            begin: Some(Begin {
                first: streams.map(|stream| stream.base.unwrap_or(0)),
                mss_bytes,
                times: match connection.has_begun {
                    true => Times::ByHandshake,
                    false => Times::ByAcknowledgements,
                },
            }),
        };
        // Without acknowledgements, it is unknown what a sender waited for.
        let is_told = !connection.is_filtered();
        self.carriers.extend(is_told.then_some(carrier));
        let of_target = Journey::of(&passed, target);
        let of_initiator = Journey::of(&passed, initiator);
        self.sights.add(connection.ends, passed);
        let mut pdus = std::mem::take(&mut self.pdus);
        let first = pdus.len();
        let count = streams.map(|stream| stream.pdus.len()).iter().sum();
        pdus.reserve(count);
        let mut ways = Vec::with_capacity(count);
        carry((&mut pdus, &mut ways), session, &of_initiator, initiator);
        let middle = pdus.len();
        carry((&mut pdus, &mut ways), session, &of_target, target);
        let (of_requests, of_answers) = ways.split_at(middle - first);
        let requests = Run {
            first: first as u32,
            pdus: &pdus[first..middle],
            ways: of_requests,
        };
        let answers = Run {
            first: middle as u32,
            pdus: &pdus[middle..],
            ways: of_answers,
        };
        let [commands_to, answers_from] = [
            connection.streams[initiator].framing.whole_to(),
            connection.streams[target].framing.whole_from(),
        ];
        let whole = Whole {
            commands_to_ns: of_initiator.left_ns(commands_to).unwrap_or(u64::MAX),
            answers_from_ns: of_target.left_ns(answers_from).unwrap_or(u64::MAX),
        };
        self.whole.insert((session.id, session.cid), whole);
        let asked = answers.each().filter(|(pdu, _)| pdu.opcode == R2T);
        let asked: HashMap<(TaskTag, u32), u64> = asked
            .filter_map(|(pdu, way)| Some(((pdu.task, pdu.transfer_tag), way.came?.at_ns)))
            .collect();
        let requests_ns = requests_ready(requests.pdus, &asked);
        let answers_ns = answers_ready(answers, requests);
        self.pdus_at.reserve(2 * ways.len());
        self.sent(requests, &requests_ns);
        self.sent(answers, &answers_ns);
        self.cross(session, requests, answers, &answers_ns);
        self.pdus = pdus;
    }

    /// Adds the records of both ends for PDUs that one end sent and had ready at `ready_ns`.
    fn sent(&mut self, run: Run<'_>, ready_ns: &[u64]) {
        let at = |(pdu, time_ns), is_sent| At {
            time_ns,
            pdu,
            is_sent,
        };
        // Each end's are nearly sorted already, so that sorting merges them.
        let ready = (run.first..).zip(ready_ns.iter().copied());
        self.pdus_at.extend(ready.map(|sent| at(sent, true)));
        let came = run.numbered();
        let came = came.filter_map(|(number, (_, way))| Some((number, way.came?.at_ns)));
        self.pdus_at.extend(came.map(|came| at(came, false)));
    }

    /// Adds the crossings of layers that packets show: a command is in the window from when its first byte leaves
    /// until its status has arrived; it passes the wire at the capture point; it is at the target until its answer is
    /// ready.
    fn cross(
        &mut self,
        session: &Session,
        requests: Run<'_>,
        answers: Run<'_>,
        answers_ns: &[u64],
    ) {
        let at = |layer, direction, pdu, time_ns| Crosses {
            time_ns,
            pdu,
            layer,
            direction,
        };
        // Those of one kind are nearly sorted already, so that sorting merges them.
        let commands = || {
            let requests = requests.numbered();
            requests.filter(|(_, (pdu, _))| pdu.opcode == SCSI_COMMAND)
        };
        let count = commands().count();
        self.crossings.reserve(6 * count);
        self.asked.reserve(count);
        let left = commands().map(|(number, (command, _))| {
            at(Layer::Window, Direction::Enter, number, command.time.ns())
        });
        self.crossings.extend(left);
        let seen = commands()
            .map(|(number, (_, way))| at(Layer::Wire, Direction::Enter, number, way.seen_ns));
        self.crossings.extend(seen);
        let found = &session.connection.streams[session.initiator].pdus;
        let asked = commands().map(|(_, (command, way))| {
            let key = (session.id, command.task, command.time.ns());
            let bhs = &found[way.found as usize].bhs;
            // RFC 7143 §11.3.
            let asked = Asked {
                lun: std::array::from_fn(|at| bhs[8 + at]),
                cdb: std::array::from_fn(|at| bhs[32 + at]),
                cmd_sn: command.cmd_sn,
            };
            (key, asked)
        });
        self.asked.extend(asked);
        let mut begun: HashSet<TaskTag> = HashSet::default();
        let (mut passed, mut done) = (Vec::new(), Vec::new());
        for ((number, (record, way)), ready_ns) in answers.numbered().zip(answers_ns) {
            if !is_answer(record) {
                continue;
            }
            if begun.insert(record.task) {
                let left = at(Layer::Target, Direction::Leave, number, *ready_ns);
                self.crossings.push(left);
                let of_wire = at(Layer::Wire, Direction::Leave, number, way.seen_ns);
                passed.push(of_wire);
            }
            let has_status = record.opcode == SCSI_RESPONSE || record.flags & STATUS_BIT != 0;
            if has_status {
                begun.remove(&record.task);
            }
            if let Some(came) = way.came.filter(|_| has_status) {
                done.push(at(Layer::Window, Direction::Leave, number, came.at_ns));
                if came.latest_ns > came.at_ns {
                    self.missing_ends.ios += 1;
                    self.missing_ends.later_ns += (came.latest_ns - came.at_ns) as f64;
                }
            }
        }
        self.crossings.extend(passed);
        self.crossings.extend(done);
        let came = commands()
            .filter_map(|(number, (pdu, way))| Some((pdu.cmd_sn, number, way.came?.at_ns)));
        self.commands.entry(session.id).or_default().extend(came);
    }

    /// Adds the commands' entries into the target layer: a target takes commands in CmdSN order (RFC 7143 §4.2.2.1).
    fn commands_in_order(&mut self) {
        for commands in self.commands.values_mut() {
            let Some(first) = commands.first().map(|(cmd_sn, ..)| *cmd_sn) else {
                continue;
            };
            commands.sort_by_key(|(cmd_sn, ..)| cmd_sn.wrapping_sub(first) as i32);
            let mut last_ns = 0;
            for (_, pdu, came_ns) in commands {
                last_ns = last_ns.max(*came_ns);
                self.crossings.push(Crosses {
                    time_ns: last_ns,
                    pdu: *pdu,
                    layer: Layer::Target,
                    direction: Direction::Enter,
                });
            }
        }
    }
}

/// Whether a PDU answers a command.
fn is_answer(pdu: &Pdu) -> bool {
    matches!(pdu.opcode, SCSI_RESPONSE | DATA_IN)
}

/// When the initiator had each PDU ready; solicited ones, from when their R2Ts had arrived.
fn requests_ready(requests: &[Pdu], asked: &HashMap<(TaskTag, u32), u64>) -> Vec<u64> {
    let mut before: Option<(&Pdu, u64)> = None;
    let ready = requests.iter().map(|pdu| {
        let left_ns = pdu.time.ns();
        let went_on = before.filter(|(before, _)| goes_on(before, pdu));
        let ready_ns = match (went_on, asked.get(&(pdu.task, pdu.transfer_tag))) {
            (Some((_, ready_ns)), _) => ready_ns,
            (None, Some(asked_ns)) if pdu.opcode == DATA_OUT => *asked_ns,
            _ => left_ns,
        };
        let ready_ns = ready_ns.min(left_ns);
        before = Some((pdu, ready_ns));
        ready_ns
    });
    ready.collect()
}

/// When the target had each PDU ready.
fn answers_ready(answers: Run<'_>, requests: Run<'_>) -> Vec<u64> {
    let commands = { requests.each() }.filter(|(pdu, _)| pdu.opcode == SCSI_COMMAND);
    // A task tag is reused once its command has been answered.
    let mut came: HashMap<TaskTag, (SmallVec<[u64; 1]>, usize)> = HashMap::default();
    for (command, way) in commands {
        let (times_ns, _) = came.entry(command.task).or_default();
        times_ns.extend(way.came.map(|came| came.at_ns));
    }
    let mut before: Option<(&Pdu, u64)> = None;
    // When the first of the PDUs that share segments left.
    let mut run_ns = answers.pdus.first().map_or(0, |first| first.time.ns());
    let ready = answers.each().map(|(pdu, way)| {
        let left_ns = pdu.time.ns();
        if !way.is_joined {
            run_ns = left_ns;
        }
        let began_ns = came.get_mut(&pdu.task).and_then(|(times_ns, at)| {
            // The last command with this tag that had arrived before this answer left.
            while { times_ns.get(*at + 1) }.is_some_and(|next_ns| *next_ns <= left_ns) {
                *at += 1;
            }
            times_ns.get(*at).copied()
        });
        let ready_ns = match before {
            Some((before, ready_ns)) if goes_on(before, pdu) => ready_ns,
            Some(_) if is_answer(pdu) => run_ns.max(began_ns.unwrap_or(0)),
            _ => left_ns,
        };
        let ready_ns = ready_ns.min(left_ns);
        before = Some((pdu, ready_ns));
        ready_ns
    });
    ready.collect()
}

/// Whether a PDU continues what the previous one in its stream began.
fn goes_on(before: &Pdu, this: &Pdu) -> bool {
    let one_answer = before.opcode == DATA_IN && matches!(this.opcode, DATA_IN | SCSI_RESPONSE);
    let unasked = before.opcode == SCSI_COMMAND && this.transfer_tag == u32::MAX;
    let one_sequence = before.opcode == DATA_OUT
        && before.transfer_tag == this.transfer_tag
        && before.flags & FINAL_BIT == 0;
    let one_write = this.opcode == DATA_OUT && (unasked || one_sequence);
    before.task == this.task && (one_answer || one_write)
}

/// Window scales, the initiator's first. They apply only if both SYNs had the option (RFC 7323 §2.2), and are unknown
/// if a SYN was not seen.
fn shifts(connection: &Connection, initiator: usize) -> [Option<u32>; 2] {
    let own = |end: usize| connection.streams[end].options.map(|options| options.shift);
    match (own(initiator), own(1 - initiator)) {
        (Some(Some(one)), Some(Some(other))) => [Some(one), Some(other)],
        (Some(_), Some(_)) => [Some(0), Some(0)],
        _ => [None, None],
    }
}

/// Adds the PDUs that the end `from` sent, and their ways.
fn carry(
    (kept, ways): (&mut Vec<Pdu>, &mut Vec<Way>),
    session: &Session,
    journey: &Journey,
    from: usize,
) {
    let requests = from == session.initiator;
    let pdus = (0..).zip(&session.connection.streams[from].pdus);
    let of_way = pdus.filter(|(_, found)| opcode::is_request(found.bhs[0] & 0x3f) == requests);
    let mut first = journey.ask();
    let mut last = journey.ask();
    for (number, found) in of_way {
        let last_place = found.last_offset();
        let (Some((left_ns, first_ns)), Some((_, last_ns))) =
            (first.left_ns(found.offset), last.left_ns(last_place))
        else {
            continue;
        };
        kept.push(pdu_record(
            Instant::from_ns(left_ns),
            session.id,
            session.cid,
            PduDirection::Sent,
            &found.bhs,
            found.offset,
        ));
        ways.push(Way {
            found: number,
            is_joined: first.is_joined(found.offset),
            seen_ns: if requests { last_ns } else { first_ns },
            came: last.came(last_place),
        });
    }
}

/// The longest payload that an end sends, if no SYN was seen: the longest seen, unless that may precede segmentation
/// (TSO).
fn longest_payload(passed: &Passed, from: usize) -> u64 {
    /// Payload limits of ordinary and of jumbo Ethernet frames. Hardly any link has an MTU between them, but a packet
    /// that a host hands to its device may have any length.
    const ORDINARY_BYTES: u64 = 1460;
    const JUMBO_BYTES: std::ops::RangeInclusive<u64> = 8900..=8960;
    /// Payload of a 1500-byte packet with IPv4 and TCP headers and TCP timestamps.
    const USUAL_BYTES: u64 = 1448;
    let of_end = passed.segments().filter(|of| of.seen.from() == from);
    let longest = of_end.map(|of| of.seen.payload_bytes()).max().unwrap_or(0);
    if longest <= ORDINARY_BYTES || JUMBO_BYTES.contains(&longest) {
        longest
    } else {
        USUAL_BYTES
    }
}
