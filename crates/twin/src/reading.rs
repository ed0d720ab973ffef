//! What the records of a run show of what a twin is made of. A plan is never looked at.

mod load;
mod paths;
mod sessions;
mod store;

use std::time::Duration;

use wansan_insight::opcode::{DATA_IN, STATUS_BIT};
use wansan_insight::{Cell, CellSummary, Window, summarise};
use wansan_trace::event::{Role, Tcp};
use wansan_trace::{ConnectionId, Kinds, Layer, SessionId};

pub(crate) use paths::by_chance;

use crate::setup::Setup;

/// The longest warm-up that is simulated. A longer one is cut: what TCP has learnt in it is known by then.
pub const MOST_WARMUP: Duration = Duration::from_secs(10);
/// The longest measurement that is simulated.
pub const MOST_TIME: Duration = Duration::from_secs(10);

/// Why a recording cannot be simulated. Each is one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// Records of a kind are missing.
    #[error(
        "there are no `{0}` records: record with `--record-kinds` (plans: `trace.kinds`) that include it"
    )]
    Missing(&'static str),
    /// Records were lost.
    #[error("{0} `{1}` records were lost for want of memory: give recorders more (`trace.memory`)")]
    Lost(u64, &'static str),
    /// No initiator has recorded its I/Os.
    #[error("no initiator has recorded its I/Os: record with `wansan bench --record` as well")]
    NoInitiator,
    /// No keys were recorded.
    #[error(
        "the `connection` records do not have the session's negotiated keys: they are by an earlier wansan"
    )]
    NoKeys,
    /// Sessions differ in their keys.
    #[error("the sessions have negotiated different keys: a twin's target has the same for all")]
    Keys,
    /// A relay is in between.
    #[error("a relay is between initiator and target: a twin has no relays")]
    Relay,
    /// Packets are encrypted.
    #[error("the packets are encrypted: a twin has no tunnels")]
    Tunnel,
    /// Others use the path too.
    #[error("TCP connections that carry no session share the path: they are not simulated")]
    Others,
    /// A path does something that a twin lacks.
    #[error("path `{path}` {what}: that is not simulated")]
    Path {
        /// Its direction.
        path: String,
        /// What it does.
        what: &'static str,
    },
    /// Which way a connection goes is not known.
    #[error(
        "which paths connection {connection} of session {session} takes is not recorded: record `packet` as well"
    )]
    NoRoute {
        /// Its session.
        session: SessionId,
        /// Its CID.
        connection: u16,
    },
    /// The load is of a kind that a twin lacks.
    #[error("the load of session {session} {what}: that is not simulated")]
    Load {
        /// Its session.
        session: SessionId,
        /// What it does.
        what: String,
    },
    /// Connections came and went.
    #[error("session {0} lost connections or began anew: recovery is not simulated")]
    Recovery(SessionId),
    /// The simulator has no such congestion control.
    #[error("the connections use the congestion control `{0}`, which is not simulated")]
    CongestionControl(String),
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Reading {
    /// What the twin is made of.
    pub setup: Setup,
    /// The numbers of the recording, over as much time as the twin measures.
    pub recorded: CellSummary,
    /// What the records do not show, and what was taken instead, a line each.
    pub unknown: Vec<String>,
    /// How much of a long recording is simulated; empty where all of it is.
    pub shortened: Vec<String>,
}

impl Reading {
    /// Of a cell, in the window that was measured.
    ///
    /// # Errors
    /// [`Unfit`] when it cannot be simulated.
    pub fn of(cell: &Cell, window: Option<Window>) -> Result<Reading, Unfit> {
        check(cell)?;
        let window = window.unwrap_or_else(|| cell.joined.busy_window());
        let (mut unknown, mut shortened) = (Vec::new(), Vec::new());
        let loads = load::loads(cell, window)?;
        let began_ns = loads
            .iter()
            .map(|load| load.began_ns)
            .min()
            .unwrap_or(window.from_ns);
        let warmup = Duration::from_nanos(window.from_ns.saturating_sub(began_ns));
        let time = Duration::from_nanos(window.length_ns());
        if warmup > MOST_WARMUP || time > MOST_TIME {
            shortened.push(format!(
                "{} s of {:.1} s of warm-up and {} s of {:.1} s of measurement are simulated",
                warmup.min(MOST_WARMUP).as_secs_f64().round(),
                warmup.as_secs_f64(),
                time.min(MOST_TIME).as_secs_f64().round(),
                time.as_secs_f64(),
            ));
        }
        let time = time.min(MOST_TIME);
        let window = Window {
            from_ns: window.from_ns,
            to_ns: window.from_ns + time.as_nanos() as u64,
        };
        let recorded = summarise(cell, Some(window));
        let directions = paths::directions(cell, window, &mut unknown)?;
        let initiators = sessions::initiators(cell, &recorded, &directions, loads, &mut unknown)?;
        let windows = recorded.sessions.iter();
        let windows = windows.filter_map(|session| Some(session.command_window?.slots));
        let command_window = windows.max().ok_or(Unfit::Missing("pdu"))?;
        let setup = Setup {
            store: store::service(cell, &recorded, &mut unknown),
            directions,
            command_window: u32::try_from(command_window).unwrap_or(u32::MAX),
            separate_status: has_separate_status(cell),
            initiators,
            warmup: warmup.min(MOST_WARMUP),
            time,
            kinds: kinds(cell),
            relays: [None, None],
            has_rival: false,
        };
        Ok(Reading {
            setup,
            recorded,
            unknown,
            shortened,
        })
    }
}

/// What no twin can be made of.
fn check(cell: &Cell) -> Result<(), Unfit> {
    let connections = cell.connection.as_ref();
    let connections = connections.ok_or(Unfit::Missing("connection"))?;
    if cell.pdu.is_none() {
        return Err(Unfit::Missing("pdu"));
    }
    for kind in ["io", "pdu", "connection"] {
        let lost = cell
            .dropped()
            .get(kind)
            .map_or(0, |hosts| hosts.values().sum());
        if lost > 0 {
            return Err(Unfit::Lost(lost, kind));
        }
    }
    let has = |role| connections.rows.iter().any(|row| row.record.role == role);
    if has(Role::Relay) {
        return Err(Unfit::Relay);
    }
    if has(Role::Stream) {
        return Err(Unfit::Others);
    }
    if cell.joined.top() != Some(Layer::App) {
        return Err(Unfit::NoInitiator);
    }
    Ok(())
}

/// Whether a SCSI Response ends each read.
fn has_separate_status(cell: &Cell) -> bool {
    let pdus = cell.pdu.iter().flat_map(|table| &table.rows);
    let mut data_in = pdus
        .map(|row| &row.record)
        .filter(|pdu| pdu.opcode == DATA_IN);
    data_in.all(|pdu| pdu.flags & STATUS_BIT == 0)
}

/// The kinds that were recorded: the ledger of the twin rests on the same.
fn kinds(cell: &Cell) -> Kinds {
    Kinds {
        io: true,
        pdu: cell.pdu.is_some(),
        connection: true,
        tcp: cell.tcp.is_some(),
        packet: cell.packet.is_some(),
        path: cell.path.is_some(),
        ..Kinds::NONE
    }
}

/// TCP's samples at the end of a connection on one host, in the order of their times.
fn samples<'a>(
    cell: &'a Cell,
    host: &str,
    session: SessionId,
    connection: ConnectionId,
) -> impl Iterator<Item = &'a Tcp> {
    let table = cell.tcp.as_ref();
    let host = table.and_then(|table| table.names.find(host));
    let rows = table.into_iter().flat_map(|table| &table.rows);
    let of_end = rows.filter(move |row| {
        let of = (row.record.session, row.record.connection);
        Some(row.host) == host && of == (session, connection)
    });
    of_end.map(|row| &row.record)
}
