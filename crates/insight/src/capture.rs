//! Captures: pcap or pcapng files of any iSCSI connections, taken at any one point of their path, by
//! `tcpdump` or by the lab itself.
//!
//! - `frames` reads the file, `link` knows the link-layer headers, `segment` finds the TCP segment in a frame;
//! - `connection` keeps the segments of one connection, `framing` finds its PDUs even where bytes are missing,
//!   `login` reads its login phase;
//! - `ends` derives from the capture point what both ends saw;
//! - `records` turns that into the records of a [`Cell`], so that everything that reads a run's cell also reads a
//!   capture; `sights` keeps its packets, and `carried` its PDUs, and make their records on demand;
//! - `commands` holds the SCSI commands of its I/Os, by which kernel events of the same I/Os are matched;
//! - `recording` turns it into record files;
//! - `parts` reads long files, several files, or a stream, one part at a time;
//! - [`Passing`] takes live packets instead of a file;
//! - [`finding`] states the result in a sentence.
//!
//! Memory is bounded whatever a file holds: at most [`MOST_KEPT`] segments and PDUs are kept, of these only the
//! headers, and at most [`MOST_CONNECTIONS`] connections.

mod carried;
mod commands;
mod connection;
mod ends;
mod finding;
mod frames;
mod framing;
mod kept;
mod link;
mod login;
mod marks;
mod order;
mod parts;
mod passing;
mod pieces;
mod recording;
mod records;
mod segment;
mod sights;

use foldhash::{HashMap, HashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde::Serialize;
use wansan_trace::event::Tcp;
use wansan_trace::file::Row;
use wansan_trace::{ConnectionId, SessionId};

use crate::analysis::Analysis;
use crate::cause::Cause;
use crate::cell::Cell;
use crate::ledger::{NO_CAUSE, WaitUse};
use crate::opcode;
use crate::packets::Packets;
use crate::population::Population;
use crate::summary::{CellSummary, summarise};
use crate::traffic::Ends;
use crate::window::Window;
pub(crate) use carried::Carried;
pub use commands::CapturedCommand;
use commands::Commands;
use connection::Connection;
pub use finding::finding;
use frames::Frame;
use framing::is_request;
use link::Unread;
pub use link::{UnreadLink, unread_in_words};
use marks::Marks;
use order::Order;
pub use parts::{Whole, read_parts, read_stream};
pub use passing::{CapturingSocket, Passing, PassingPacket};
pub use records::MissingEnds;
use records::{INITIATOR, Session, TARGET};
use segment::Segment;
pub(crate) use sights::Sights;

/// The cause of stalls that cannot be known, as the capture lacks acknowledgements.
pub const UNKNOWN_CAUSE: &str = "unknown";
/// Maximum segments and PDUs kept; the rest is left out.
pub const MOST_KEPT: usize = 500_000;
/// Maximum connections analysed at once.
pub const MOST_CONNECTIONS: usize = 128;
/// Maximum connections remembered as carrying something other than iSCSI, or as beyond the limit.
const MOST_OTHERS: usize = 65_536;
/// Magic number of record files.
const PARQUET: &[u8] = b"PAR1";
/// Session ID of a connection without a captured login.
const NO_ID: SessionId = SessionId(0);

/// Why a capture cannot be explained. Each is one line.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The operating system reported an error.
    #[error("cannot read {path}: {reason}", path = .path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The system's error message.
        reason: String,
    },
    /// The file does not begin as a capture does.
    #[error("{path} is no capture: {is}; give a capture, or the folder of a run", path = .path.display())]
    NotACapture {
        /// The file.
        path: PathBuf,
        /// What it is, judging by its first bytes.
        is: &'static str,
    },
    /// There are no PDUs in it.
    #[error("{path}: no iSCSI PDUs were found in its {frames} frames with {connections} TCP connections{}; was it taken where the SAN's packets pass, unencrypted, with at least 100 bytes of each frame?", unread_in_words(.unread).map_or_else(String::new, |unread| format!(" ({unread})")), path = .path.display())]
    NoPdus {
        /// The file.
        path: PathBuf,
        /// Frames in it.
        frames: u64,
        /// TCP connections in it.
        connections: usize,
        /// Frames of unsupported link types.
        unread: Vec<UnreadLink>,
    },
}

/// How the reading of a capture ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "how", content = "reason", rename_all = "snake_case")]
pub enum CaptureEnd {
    /// At the end of the file.
    Whole,
    /// In the middle of a frame.
    CutOff,
    /// At a damaged place; says how it is damaged.
    Damaged(String),
    /// At the limit of [`MOST_KEPT`] segments and PDUs.
    Full,
}

/// A captured connection that carries PDUs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CapturedConnection {
    /// The session, as ISID/TSIH; a number from 1 if no login was captured.
    pub session: String,
    /// Its CID.
    pub connection: u16,
    /// The initiator's end.
    pub initiator: SocketAddr,
    /// The target's end.
    pub target: SocketAddr,
    /// The initiator's name, if its login was captured.
    pub initiator_name: Option<String>,
    /// The target's name.
    pub target_name: Option<String>,
    /// Number of segments.
    pub segments: u64,
    /// Segments retransmitted by the initiator and by the target.
    pub sent_again: [u64; 2],
    /// Gaps in the captured stream that were acknowledged.
    pub missed: u64,
    /// Minimum round trip from the capture point to the initiator, in ns; `None` if unknown.
    pub initiator_round_trip_ns: Option<u64>,
    /// The same to the target.
    pub target_round_trip_ns: Option<u64>,
    /// The end whose segments are missing, if the capture holds one direction only.
    pub unheard: Option<End>,
    /// How often a PDU began in bytes that are not in the capture, cut off or missing with their frame. That PDU is
    /// unknown, as are those after it up to one that continues the sequence numbers.
    pub hidden: u64,
    /// Whether a display filter seems to have removed the segments in which no PDU begins: there are gaps that were
    /// acknowledged, and no pure ACKs. Results that need these are unknown, and minimum round trips are upper bounds.
    pub filtered: bool,
    /// Number of PDUs by name.
    pub pdus: BTreeMap<&'static str, u64>,
}

impl CapturedConnection {
    /// Whether this is the same connection in another part of a capture.
    #[must_use]
    pub fn is_same(&self, other: &CapturedConnection) -> bool {
        let key = |of: &CapturedConnection| (of.initiator, of.target, of.connection);
        key(self) == key(other) && self.session == other.session
    }

    /// Adds the same connection's counts from another part of the capture.
    pub fn merge(&mut self, other: &CapturedConnection) {
        let least = |one: Option<u64>, two: Option<u64>| one.into_iter().chain(two).min();
        self.initiator_name = self.initiator_name.take().or(other.initiator_name.clone());
        self.target_name = self.target_name.take().or(other.target_name.clone());
        self.segments += other.segments;
        for (own, others) in self.sent_again.iter_mut().zip(other.sent_again) {
            *own += others;
        }
        self.missed += other.missed;
        self.initiator_round_trip_ns =
            least(self.initiator_round_trip_ns, other.initiator_round_trip_ns);
        self.target_round_trip_ns = least(self.target_round_trip_ns, other.target_round_trip_ns);
        self.unheard = self.unheard.filter(|end| other.unheard == Some(*end));
        self.hidden += other.hidden;
        self.filtered |= other.filtered;
        for (name, count) in &other.pdus {
            *self.pdus.entry(name).or_default() += count;
        }
    }
}

/// Results that require a separate look at one session.
#[derive(Debug, Clone)]
pub struct CapturedSession {
    /// What its I/Os waited for.
    pub waits: WaitUse,
    /// How many of its commands were outstanding at each moment.
    pub outstanding: Population,
    /// What stopped its initiator from sending what it had, if it has one connection: intervals in order of time.
    pub initiator_stopped: Vec<(u64, u64, Cause)>,
}

/// An end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    /// The initiator.
    Initiator,
    /// The target.
    Target,
}

/// A capture.
#[derive(Debug)]
pub struct Capture {
    /// The records that both ends would have made, as far as packets show.
    pub cell: Cell,
    /// Its connections with PDUs.
    pub connections: Vec<CapturedConnection>,
    /// Number of TCP connections without PDUs.
    pub others: usize,
    /// Number of frames read.
    pub frames: u64,
    /// Those of unsupported link types, in which nothing was found.
    pub unread: Vec<UnreadLink>,
    /// From the first frame to the last, in ns since 1970.
    pub span: Window,
    /// How its reading ended.
    pub end: CaptureEnd,
    /// I/Os excluded because the capture has missed their command or status.
    pub unpaired: u64,
    /// I/Os excluded because they were not answered by its end.
    pub in_progress: u64,
    /// I/Os whose last bytes the capture has missed.
    pub missing_ends: MissingEnds,
    commands: Commands,
    /// Sessions that had I/Os, complete or partial.
    with_ios: BTreeSet<String>,
    /// Whether all sequence numbers of its PDUs were captured.
    has_numbers: bool,
}

impl Capture {
    /// Reads a capture file.
    ///
    /// # Errors
    /// [`CaptureError`] if it is not a capture, or holds no PDUs.
    pub fn read(path: &Path) -> Result<Capture, CaptureError> {
        let system = |error: std::io::Error| CaptureError::System {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        let mut file = File::open(path).map_err(system)?;
        let is = beginning(&mut file).map_err(system)?;
        let mut reading = Reading::default();
        let mut order = Order::default();
        let read = order.read(file, 0, |frame| reading.take(frame));
        let (mut end, _) = read.ok_or_else(|| CaptureError::NotACapture {
            path: path.to_owned(),
            is,
        })?;
        if order.rest(|frame| reading.take(frame)).is_break() {
            end = CaptureEnd::Full;
        }
        reading
            .capture(end)
            .map_err(|nothing| CaptureError::NoPdus {
                path: path.to_owned(),
                frames: nothing.frames,
                connections: nothing.connections,
                unread: nothing.unread,
            })
    }
}

impl Capture {
    /// Adds TCP samples that an end's kernel took meanwhile: local address, remote address, and the sample, with
    /// times since 1970 and ordered by time.
    pub fn add_samples(
        &mut self,
        samples: impl IntoIterator<Item = (SocketAddr, SocketAddr, Tcp)>,
    ) {
        let carriers = &self.cell.carriers;
        let rows = samples.into_iter().filter_map(|(local, remote, sample)| {
            let (carrier, host) = carriers.iter().find_map(|carrier| {
                let ends = (carrier.initiator, carrier.target);
                match (local, remote) {
                    of_initiator if of_initiator == ends => Some((carrier, INITIATOR)),
                    (local, remote) if (remote, local) == ends => Some((carrier, TARGET)),
                    _ => None,
                }
            })?;
            let record = Tcp {
                session: carrier.session,
                connection: carrier.connection,
                ..sample
            };
            Some(Row { host, record })
        });
        let rows: Vec<Row<Tcp>> = rows.collect();
        self.cell.tcp = (!rows.is_empty()).then(|| records::table(rows));
    }

    /// Whether the session with a connection between these ends had I/Os, complete or partial.
    #[must_use]
    pub fn has_ios(&self, initiator: SocketAddr, target: SocketAddr) -> bool {
        let mut connections = self.connections.iter();
        let found = connections.find(|of| (of.initiator, of.target) == (initiator, target));
        found.is_some_and(|of| self.with_ios.contains(&of.session))
    }

    /// The summary of the capture, and the results that require a separate look at each session, by its name.
    #[must_use]
    pub fn by_session(&self) -> (CellSummary, BTreeMap<String, CapturedSession>) {
        let window = self.cell.joined.records;
        let analysis = Analysis::of(&self.cell, Some(window));
        let mut spans: BTreeMap<SessionId, Vec<(u64, u64)>> = BTreeMap::new();
        let top = self.cell.joined.top();
        for task in &self.cell.joined.tasks {
            let span = top.and_then(|top| task.span_ns(top, window));
            spans.entry(task.session).or_default().extend(span);
        }
        let waits = WaitUse::by_session(&analysis.ledger).into_iter();
        let sessions = waits.map(|(session, waits)| {
            let spans = spans.remove(&session).unwrap_or_default();
            let outstanding = Population::of(spans);
            let found = CapturedSession {
                waits,
                outstanding,
                initiator_stopped: analysis.ledger.initiator_stopped(session).to_vec(),
            };
            (session.to_string(), found)
        });
        let sessions = sessions.collect();
        (self.without_unknowns(analysis.summary()), sessions)
    }

    /// The summary of the capture. The packets of its stalls are given by frame number.
    #[must_use]
    pub fn summarise(&self) -> CellSummary {
        self.without_unknowns(summarise(&self.cell, Some(self.cell.joined.records)))
    }

    /// The summary without what this capture cannot show, and with frame numbers for packets.
    fn without_unknowns(&self, mut summary: CellSummary) -> CellSummary {
        let is_half = |session: &str| {
            let mut unpaired = self.connections.iter().filter(|c| c.unheard.is_some());
            unpaired.any(|half| half.session == session)
        };
        for session in &mut summary.sessions {
            if !self.has_numbers || is_half(&session.session) {
                session.command_window = None;
            }
        }
        if self.connections.iter().any(|of| of.filtered) {
            summary.packet_gaps = None;
            if let Some(stalls) = summary.stalls.as_mut().filter(|it| it.cause == NO_CAUSE) {
                stalls.cause = UNKNOWN_CAUSE.to_owned();
            }
        }
        let causes = summary
            .stalls
            .iter_mut()
            .flat_map(|stalls| &mut stalls.causes);
        let sights = self.cell.packet.as_ref().and_then(Packets::sights);
        for shown in causes.flat_map(|cause| &mut cause.example.packets) {
            let frame = sights.and_then(|sights| sights.frame(shown.packet as usize));
            shown.packet = frame.unwrap_or(0);
        }
        summary
    }
}

/// What a file is if it proves not to be a capture, judging by its first bytes. Rewinds it.
fn beginning(file: &mut File) -> std::io::Result<&'static str> {
    let mut bytes = Vec::new();
    file.by_ref()
        .take(PARQUET.len() as u64)
        .read_to_end(&mut bytes)?;
    file.rewind()?;
    Ok(match &bytes[..] {
        [] => "it is empty",
        bytes if bytes == PARQUET => "it holds records (Parquet), which are read by their folder",
        _ => "it begins neither as pcap nor as pcapng does",
    })
}

/// A capture that is being read.
#[derive(Debug)]
struct Reading {
    /// Maximum segments and PDUs kept.
    most_kept: usize,
    frames: u64,
    span: Option<Window>,
    /// Numbered in the order in which they were first seen.
    connections: BTreeMap<usize, Connection>,
    begun: usize,
    /// Connections with PDUs so far.
    numbered: u64,
    of: HashMap<Ends, usize>,
    /// Source and destination of the last segment, and its connection.
    last: Option<([SocketAddr; 2], usize)>,
    segments: usize,
    marks: Marks,
    /// Connections that carry something else, or are beyond the limit.
    others: HashSet<Ends>,
    unread: Unread,
}

/// Counts from a capture without PDUs.
struct Nothing {
    frames: u64,
    connections: usize,
    unread: Vec<UnreadLink>,
}

impl Default for Reading {
    fn default() -> Reading {
        Reading::keeping(MOST_KEPT)
    }
}

impl Reading {
    fn keeping(most_kept: usize) -> Reading {
        Reading {
            most_kept,
            frames: 0,
            span: None,
            connections: BTreeMap::new(),
            begun: 0,
            numbered: 0,
            of: HashMap::default(),
            last: None,
            segments: 0,
            marks: Marks::default(),
            others: HashSet::default(),
            unread: Unread::default(),
        }
    }

    fn take(&mut self, frame: &Frame<'_>) -> ControlFlow<()> {
        self.frames = self.frames.max(frame.number);
        let (from_ns, to_ns) = self
            .span
            .map_or((frame.time_ns, 0), |s| (s.from_ns, s.to_ns));
        self.span = Some(Window {
            from_ns: from_ns.min(frame.time_ns),
            to_ns: to_ns.max(frame.time_ns.saturating_add(1)),
        });
        self.unread.take(frame.link);
        if let Some(segment) = segment::segment(frame) {
            self.see(frame, &segment);
        }
        match self.segments >= self.most_kept {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn see(&mut self, frame: &Frame<'_>, segment: &Segment<'_>) {
        let Some(place) = self.connection(segment) else {
            return;
        };
        let Some(connection) = self.connections.get_mut(&place) else {
            return;
        };
        let mark = self.marks.mark(segment);
        if !connection.goes_on(segment)
            && let Some(seen) = self.marks.copy_of(mark, frame, place)
        {
            if frame.is_lost {
                connection.lose_seen(seen);
            }
            return;
        }
        let before = connection.kept();
        if frame.is_lost {
            connection.lose(frame.number, frame.time_ns, segment);
        } else {
            connection.see(frame.number, frame.time_ns, segment);
            let newest = connection.seen.len() - 1;
            self.marks.remember(mark, frame, (place, newest));
        }
        let after = connection.kept();
        self.segments += after - before;
        if connection.is_foreign() {
            self.segments -= after;
            let ends = Ends::between(segment.source, segment.destination);
            self.connections.remove(&place);
            self.of.remove(&ends);
            self.last = None;
            if self.others.len() < MOST_OTHERS {
                self.others.insert(ends);
            }
        }
    }

    /// The connection of a segment; `None` if it carries something else or is beyond the limit.
    fn connection(&mut self, segment: &Segment<'_>) -> Option<usize> {
        let (source, destination) = (segment.source, segment.destination);
        // Most segments belong to the same connection as the one before.
        if let Some(([one, other], place)) = self.last
            && ([one, other] == [source, destination] || [other, one] == [source, destination])
            && !segment.is_syn()
        {
            return Some(place);
        }
        let ends = Ends::between(source, destination);
        let known = self.of.get(&ends).copied();
        self.last = known.map(|place| ([source, destination], place));
        if let Some(place) = known
            && self
                .connections
                .get(&place)
                .is_some_and(|known| !known.is_over(segment))
        {
            return Some(place);
        }
        if self.others.contains(&ends) && !segment.is_syn() {
            return None;
        }
        if self.connections.len() >= MOST_CONNECTIONS {
            if self.others.len() < MOST_OTHERS {
                self.others.insert(ends);
            }
            return None;
        }
        self.begun += 1;
        self.last = None;
        self.others.remove(&ends);
        self.of.insert(ends, self.begun);
        self.connections
            .insert(self.begun, Connection::new(segment));
        Some(self.begun)
    }

    /// Assigns a session to each connection with PDUs that has none: the one in its login, or a number if that is
    /// unknown or taken.
    fn name_sessions(&mut self) {
        let connections = self.connections.values();
        let mut taken: HashSet<_> = connections.filter_map(|known| known.session).collect();
        for connection in self.connections.values_mut() {
            if connection.session.is_some() || initiator(connection).is_none() {
                continue;
            }
            self.numbered += 1;
            let (id, cid) = connection.login.ids().unwrap_or((NO_ID, ConnectionId(0)));
            let id = match id == NO_ID || taken.contains(&(id, cid)) {
                true => SessionId(self.numbered),
                false => id,
            };
            taken.insert((id, cid));
            connection.session = Some((id, cid));
        }
    }

    /// The state for the next part of the capture. Active connections are carried over; idle ones only if they have
    /// PDUs and there are at most half of [`MOST_CONNECTIONS`].
    fn next_part(&self) -> Reading {
        let live = self.connections.iter();
        let is_crowded = 2 * self.connections.len() > MOST_CONNECTIONS;
        let live = live.filter(|(_, connection)| {
            connection.kept() > 0 || connection.session.is_some() && !is_crowded
        });
        let connections: BTreeMap<usize, Connection> = live
            .map(|(place, connection)| (*place, connection.next_part()))
            .collect();
        let mut of = self.of.clone();
        of.retain(|_, place| connections.contains_key(place));
        Reading {
            frames: self.frames,
            connections,
            begun: self.begun,
            numbered: self.numbered,
            of,
            others: self.others.clone(),
            unread: self.unread.clone(),
            ..Reading::keeping(self.most_kept)
        }
    }

    /// The capture read so far.
    fn capture(mut self, end: CaptureEnd) -> Result<Capture, Nothing> {
        // Frees memory for the records.
        self.marks = Marks::default();
        self.connections.values_mut().for_each(Connection::finish);
        self.name_sessions();
        let all = self.connections.len() + self.others.len();
        let mut sessions: Vec<Session> = Vec::new();
        for connection in std::mem::take(&mut self.connections).into_values() {
            let (Some(initiator), Some((id, cid))) = (initiator(&connection), connection.session)
            else {
                continue;
            };
            sessions.push(Session {
                connection,
                initiator,
                id,
                cid,
            });
        }
        let Some(span) = self.span.filter(|_| !sessions.is_empty()) else {
            return Err(Nothing {
                frames: self.frames,
                connections: all,
                unread: self.unread.links(),
            });
        };
        let streams = sessions.iter().flat_map(|of| &of.connection.streams);
        let mut pdus = streams.flat_map(|stream| &stream.pdus);
        let has_numbers = pdus.all(|found| found.has_numbers);
        let connections: Vec<CapturedConnection> = sessions.iter().map(described).collect();
        let recorded = records::recorded(sessions);
        Ok(Capture {
            has_numbers,
            others: all - connections.len(),
            connections,
            commands: recorded.commands,
            with_ios: recorded.with_ios.iter().map(SessionId::to_string).collect(),
            cell: recorded.cell,
            frames: self.frames,
            unread: self.unread.links(),
            span,
            end,
            unpaired: recorded.unpaired,
            in_progress: recorded.in_progress,
            missing_ends: recorded.missing_ends,
        })
    }
}

/// Which end of a connection is the initiator; `None` if it carries no PDUs.
fn initiator(connection: &Connection) -> Option<usize> {
    let votes = connection.streams.each_ref().map(|stream| {
        let requests = stream
            .pdus
            .iter()
            .filter(|found| is_request(&found.bhs))
            .count();
        (requests, stream.pdus.len() - requests)
    });
    let is_first = votes[0].0 + votes[1].1;
    let is_second = votes[1].0 + votes[0].1;
    match (is_first, is_second) {
        (0, 0) => None,
        _ => Some(usize::from(is_second > is_first)),
    }
}

fn described(session: &Session) -> CapturedConnection {
    let connection = &session.connection;
    let (initiator, target) = (session.initiator, 1 - session.initiator);
    let mut by_opcode = [0; 64];
    for found in connection.streams.iter().flat_map(|stream| &stream.pdus) {
        by_opcode[usize::from(found.bhs[0] & 0x3f)] += 1;
    }
    let mut pdus: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (opcode, count) in (0..).zip(by_opcode).filter(|(_, count)| *count > 0) {
        *pdus.entry(opcode::name(opcode)).or_default() += count;
    }
    let mut segments = [0; 2];
    for seen in connection.seen.iter().filter(|seen| seen.frame != 0) {
        segments[seen.from()] += 1;
    }
    CapturedConnection {
        session: session.id.to_string(),
        connection: session.cid.0,
        initiator: connection.ends[initiator],
        target: connection.ends[target],
        initiator_name: connection.login.initiator_name.clone(),
        target_name: connection.login.target_name.clone(),
        segments: segments.iter().sum(),
        sent_again: [initiator, target].map(|end| connection.streams[end].sent_again),
        missed: connection.missed,
        // An end's segments are acknowledged by the other end, so its stream times the way to that one.
        initiator_round_trip_ns: connection.round_trip_ns(target),
        target_round_trip_ns: connection.round_trip_ns(initiator),
        unheard: match [segments[initiator], segments[target]] {
            [0, _] => Some(End::Initiator),
            [_, 0] => Some(End::Target),
            _ => None,
        },
        hidden: connection.streams.iter().map(|s| s.framing.hidden()).sum(),
        filtered: connection.is_filtered(),
        pdus,
    }
}
