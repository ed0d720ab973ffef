//! Derives a twin's setup from the records of a run, without looking at its plan.

mod captured;
mod drops;
mod load;
mod paths;
mod pauses;
mod sessions;
mod store;
mod tunnels;

use std::time::Duration;

use wansan_insight::capture::Capture;
use wansan_insight::cause::Cause;
use wansan_insight::opcode::{DATA_IN, STATUS_BIT};
use wansan_insight::{Cell, CellSummary, Window, stall, summarise};
use wansan_iscsi::initiator::Schedule;
use wansan_path::Change;
use wansan_trace::event::{Role, Tcp};
use wansan_trace::{ConnectionId, Kinds, Layer, Sample, SessionId};

use crate::fit::MOST_SHARE_OFF;
use crate::setup::{Direction, Repeats, Setup, TARGET};

/// The longest simulated warm-up. A longer one is cut: TCP has settled by then.
pub const MOST_WARMUP: Duration = Duration::from_secs(10);
/// The longest simulated measurement.
pub const MOST_TIME: Duration = Duration::from_secs(10);

/// Warm-up of a capture, in which its connections may begin: one in this many parts of it, and at most this long.
const CAPTURE_WARMUP_PART: u64 = 4;
const CAPTURE_WARMUP_NS: u64 = 1_000_000_000;

/// Why a recording cannot be simulated, as one line of text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A record kind is missing.
    #[error(
        "there are no `{0}` records: record with `--record-kinds` (plans: `trace.kinds`) that include it"
    )]
    Missing(&'static str),
    /// Only a sample of the I/Os was recorded.
    #[error("one I/O in {0} was recorded: a twin needs all of them (`--record-sample 1`)")]
    Sampled(u32),
    /// Records were lost.
    #[error("{0} `{1}` records were lost for want of memory: give recorders more (`trace.memory`)")]
    Lost(u64, &'static str),
    /// No initiator recorded its I/Os.
    #[error("no initiator has recorded its I/Os: record with `wansan bench --record` as well")]
    NoInitiator,
    /// The session's keys were not recorded.
    #[error(
        "the `connection` records do not have the session's negotiated keys: they are by an earlier wansan"
    )]
    NoKeys,
    /// The sessions negotiated different keys.
    #[error("the sessions have negotiated different keys: a twin's target has the same for all")]
    Keys,
    /// There is more than one relay in between, or a relay and a tunnel.
    #[error(
        "a relay with a tunnel, or with another relay, is between initiator and target: that is not simulated"
    )]
    Relay,
    /// Which connections go through which tunnel is unknown.
    #[error(
        "which connections go through which tunnel is not known: record `packet` as well, and fewer connections"
    )]
    Tunnel,
    /// Connections without a session share the path.
    #[error("TCP connections that carry no session share the path: they are not simulated")]
    Others,
    /// A path has an effect that twins do not simulate.
    #[error("path `{path}` {what}: that is not simulated")]
    Path {
        /// Name of its direction.
        path: String,
        /// The effect.
        what: &'static str,
    },
    /// The route of a connection is unknown.
    #[error(
        "which paths connection {connection} of session {session} takes is not recorded: record `packet` as well"
    )]
    NoRoute {
        /// Its session.
        session: SessionId,
        /// Its CID.
        connection: u16,
    },
    /// Twins do not simulate this kind of load.
    #[error("the load of session {session} {what}: that is not simulated")]
    Load {
        /// Its session.
        session: SessionId,
        /// What the load does.
        what: String,
    },
    /// A connection was replaced, so that its CID occurs twice.
    #[error("session {0} lost connections or began anew: recovery is not simulated")]
    Recovery(SessionId),
    /// A capture without acknowledgements, as a display filter leaves it.
    #[error("the capture has no acknowledgements: without a display filter, it can be simulated")]
    Filtered,
    /// A capture of one direction only.
    #[error("the capture holds one direction of a connection only: capture both")]
    OneDirection,
    /// A capture without a complete I/O.
    #[error("the capture shows no complete I/O")]
    NoIos,
    /// A capture, or TCP samples, without a round-trip time.
    #[error("no round-trip time is known of the connections")]
    NoRoundTrip,
    /// The simulator lacks this congestion control.
    #[error("the connections use the congestion control `{0}`, which is not simulated")]
    CongestionControl(String),
}

/// Result of reading the records.
#[derive(Debug, Clone)]
pub struct Reading {
    /// The twin's setup.
    pub setup: Setup,
    /// Bytes of data per second.
    pub bytes_per_s: f64,
    /// Other setups that the records allow. They are tried in order after `setup`; the first that fits is used.
    pub alternatives: Vec<Setup>,
    /// Numbers of the recording, over as much time as the twin measures.
    pub recorded: CellSummary,
    /// What the records do not show and what was assumed instead, one line each.
    pub unknown: Vec<String>,
    /// How much of a long recording is simulated; empty if all of it is.
    pub shortened: Vec<String>,
}

impl Reading {
    /// Reads packets captured at one point of a path.
    ///
    /// # Errors
    /// [`Unfit`] when it cannot be simulated.
    pub fn of_capture(capture: Capture) -> Result<Reading, Unfit> {
        Reading::of_capture_within(capture, MOST_TIME)
    }

    /// As [`Reading::of_capture`], with a measurement of at most `most` after the warm-up: a shorter one is simulated
    /// faster.
    ///
    /// # Errors
    /// [`Unfit`] when it cannot be simulated.
    pub fn of_capture_within(capture: Capture, most: Duration) -> Result<Reading, Unfit> {
        let connections = capture.connections.iter();
        if connections.clone().any(|it| it.unheard.is_some()) {
            return Err(Unfit::OneDirection);
        }
        if { connections }.any(|it| it.filtered) {
            return Err(Unfit::Filtered);
        }
        // Where sequence numbers are missing, the capture's own summary is more reliable than the cell's.
        let sessions = capture.summarise().sessions;
        let has_window = sessions.iter().all(|it| it.command_window.is_some());
        let lacks = captured::lacks(&capture);
        let mut reading = Reading::of_packets_within(capture.cell, has_window, most)?;
        reading.unknown.splice(0..0, lacks);
        Ok(reading)
    }

    /// Reads packets and PDUs alone; `has_window` tells whether the PDUs show the command window.
    ///
    /// # Errors
    /// [`Unfit`] when it cannot be simulated.
    pub fn of_packets(cell: Cell, has_window: bool) -> Result<Reading, Unfit> {
        Reading::of_packets_within(cell, has_window, MOST_TIME)
    }

    fn of_packets_within(
        mut cell: Cell,
        has_window: bool,
        most: Duration,
    ) -> Result<Reading, Unfit> {
        let mut unknown = Vec::new();
        cell.connection = Some(captured::connections(&cell, &mut unknown)?);
        let busy = cell.joined.busy_window();
        let warmup_ns = (busy.length_ns() / CAPTURE_WARMUP_PART).min(CAPTURE_WARMUP_NS);
        let from_ns = busy.from_ns + warmup_ns;
        let most_ns = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        let window = Window {
            from_ns,
            to_ns: busy.to_ns.min(from_ns.saturating_add(most_ns)),
        };
        let reading = Reading::of(&cell, Some(window));
        let mut reading = reading.map_err(|unfit| match unfit {
            Unfit::NoInitiator => Unfit::NoIos,
            other => other,
        })?;
        reading.setup.hides_queue = true;
        if !reading.setup.join_sends {
            let connections = reading.setup.connections_mut();
            connections.for_each(|connection| connection.ends[TARGET].nagle = true);
        }
        if !has_window {
            let initiators = reading.setup.initiators.iter();
            let most = initiators.map(|it| it.load.parallel).max().unwrap_or(1);
            reading.setup.command_window = u32::try_from(most).unwrap_or(u32::MAX);
            unknown.push(format!(
                "the command window: assumed to be the most commands outstanding, {most}"
            ));
        }
        let mut unrated: Vec<Setup> = vec![reading.setup];
        unrated.append(&mut reading.alternatives);
        let rates = [true, false].map(|is_there| captured::rate_bits_per_s(&cell, is_there));
        let rated: Vec<Setup> = unrated.iter().map(|it| with_rates(it, rates)).collect();
        let is_full = asks_for_more(&unrated[0], rates);
        let all = match is_full {
            true => rated,
            false => [unrated, rated].concat(),
        };
        let mut all = all.into_iter();
        reading.setup = all
            .next()
            .expect("there is one for each of the recording's");
        reading.alternatives = all.collect();
        reading.unknown.splice(0..0, unknown);
        Ok(reading)
    }

    /// Reads a cell; `window` is the measured one.
    ///
    /// # Errors
    /// [`Unfit`] when it cannot be simulated.
    pub fn of(cell: &Cell, window: Option<Window>) -> Result<Reading, Unfit> {
        let window = window.unwrap_or_else(|| cell.joined.busy_window());
        Reading::of_window(cell, window, None)
    }

    /// As [`Reading::of`], for a cell that has been summarised, in the window of that summary.
    ///
    /// # Errors
    /// [`Unfit`] when it cannot be simulated.
    pub fn of_summary(cell: &Cell, known: &CellSummary) -> Result<Reading, Unfit> {
        Reading::of_window(cell, known.window, Some(known))
    }

    fn of_window(
        cell: &Cell,
        window: Window,
        known: Option<&CellSummary>,
    ) -> Result<Reading, Unfit> {
        check(cell)?;
        let (mut unknown, mut shortened) = (Vec::new(), Vec::new());
        let moved = load::Moved::of(cell);
        let loads = load::loads(cell, &moved, window)?;
        let measured = window;
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
        let recorded = match known {
            Some(known) if window == known.window => known.clone(),
            _ => summarise(cell, Some(window)),
        };
        let done_bytes: u64 = loads.iter().map(|load| load.done_bytes).sum();
        let simulated = Window {
            from_ns: window.from_ns - warmup.min(MOST_WARMUP).as_nanos() as u64,
            ..window
        };
        let directions = paths::directions(cell, simulated, &mut unknown)?;
        let (initiators, tunnels) = sessions::initiators(
            cell,
            &recorded,
            &directions,
            loads,
            [window, simulated],
            &mut unknown,
        )?;
        let windows = recorded.sessions.iter();
        let windows = windows.filter_map(|session| Some(session.command_window?.slots));
        let command_window = windows.max().ok_or(Unfit::Missing("pdu"))?;
        let setup = Setup {
            store: store::service(
                cell,
                &|task| moved.is_read(cell, task),
                &recorded,
                &mut unknown,
            ),
            directions,
            tunnels,
            command_window: u32::try_from(command_window).unwrap_or(u32::MAX),
            costs: [None; 2],
            separate_status: has_separate_status(cell),
            join_sends: !holds_at_target(cell, &recorded),
            initiators,
            warmup: warmup.min(MOST_WARMUP),
            time,
            kinds: kinds(cell),
            relays: [None, None],
            hides_queue: false,
            has_rival: false,
        };
        Ok(Reading {
            bytes_per_s: done_bytes as f64 / measured.seconds().max(1e-9),
            alternatives: alternatives(&setup),
            setup,
            recorded,
            unknown,
            shortened,
        })
    }
}

/// Other setups for the same records: other schedules, and each variant with the recorded queue drops repeated instead
/// of simulated ones. Which packets a short queue drops is chance, yet determines a congestion window for seconds.
fn alternatives(setup: &Setup) -> Vec<Setup> {
    let mut others = with_other_schedules(setup);
    let repeating = std::iter::once(setup)
        .chain(&others)
        .filter_map(repeating_drops);
    let repeating: Vec<Setup> = repeating.collect();
    others.extend(repeating);
    others
}

/// The same setup, repeating the recorded queue drops; `None` if there are none.
fn repeating_drops(setup: &Setup) -> Option<Setup> {
    let mut changed = setup.clone();
    let directions = changed.directions.iter_mut();
    // Drops at one queue limit would not have happened at another.
    let has_one_bound = |direction: &&mut Direction| {
        let mut changes = direction.changes.iter();
        !changes.any(|(_, change)| matches!(change, Change::QueueLimit(_)))
    };
    let dropping = directions.filter(|it| it.drops.iter().any(|drop| drop.by_queue));
    let dropping = dropping.filter(has_one_bound);
    let repeating = dropping.map(|direction| direction.repeats = Repeats::All);
    (repeating.count() > 0).then_some(changed)
}

/// The same setup with other schedules, which are not recorded; none if no session has several connections.
fn with_other_schedules(setup: &Setup) -> Vec<Setup> {
    let several = setup.initiators.iter().any(|it| it.connections.len() > 1);
    let others = [Schedule::RoundRobin, Schedule::Earliest].into_iter();
    let changed = others.filter(|_| several).map(|schedule| {
        let mut changed = setup.clone();
        for initiator in &mut changed.initiators {
            initiator.schedule = schedule;
        }
        changed
    });
    changed.collect()
}

/// Whether the loads' data in flight per round trip exceeds the lower of these path rates, there and back, in bits per
/// second.
fn asks_for_more(setup: &Setup, rates: [Option<u64>; 2]) -> bool {
    let round_trip: Duration = setup.directions.iter().map(|it| it.delay).sum();
    let loads = setup.initiators.iter().map(|it| &it.load);
    let in_flight = loads.map(|load| load.parallel as f64 * f64::from(load.block_bytes));
    let most_bits_per_s = in_flight.sum::<f64>() * 8.0 / round_trip.as_secs_f64();
    let rates = rates.into_iter().flatten();
    rates
        .min()
        .is_some_and(|rate| most_bits_per_s > rate as f64)
}

/// The same setup with these path rates, there and back, in bits per second.
fn with_rates(setup: &Setup, rates: [Option<u64>; 2]) -> Setup {
    let mut changed = setup.clone();
    for (direction, rate) in changed.directions.iter_mut().zip(rates) {
        direction.rate_bits_per_s = rate;
    }
    changed
}

/// Rejects cells of which no twin can be made.
fn check(cell: &Cell) -> Result<(), Unfit> {
    let connections = cell.connection.as_ref();
    let connections = connections.ok_or(Unfit::Missing("connection"))?;
    if cell.pdu.is_none() {
        return Err(Unfit::Missing("pdu"));
    }
    if cell.joined.sample != Sample::ALL {
        return Err(Unfit::Sampled(cell.joined.sample.number()));
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
    if has(Role::Stream) {
        return Err(Unfit::Others);
    }
    // A capture shows commands only from the time they are sent.
    if !matches!(cell.joined.top(), Some(Layer::App | Layer::Window)) {
        return Err(Unfit::NoInitiator);
    }
    Ok(())
}

/// Whether every read ends with a separate SCSI Response.
fn has_separate_status(cell: &Cell) -> bool {
    let pdus = cell.pdu.iter().flat_map(|table| &table.rows);
    let mut data_in = pdus
        .map(|row| &row.record)
        .filter(|pdu| pdu.opcode == DATA_IN);
    data_in.all(|pdu| pdu.flags & STATUS_BIT == 0)
}

/// Whether Nagle's algorithm held segments of a target, beyond what a twin may lack: it passes PDUs to TCP one by one.
fn holds_at_target(cell: &Cell, recorded: &CellSummary) -> bool {
    let causes = [Cause::Nagle, Cause::NagleAgainstDelayedAck];
    let held_ns: f64 = causes
        .map(|cause| recorded.waits.mean_ns(cause))
        .iter()
        .sum();
    let stalls = recorded.stalls.iter().flat_map(|stalls| &stalls.causes);
    let of_nagle = stalls.filter(|it| causes.iter().any(|cause| cause.name() == it.cause));
    // The costliest stands for all.
    let mut shown = of_nagle.flat_map(|it| &it.example.packets);
    let held = shown.find(|shown| shown.role == stall::Role::Held.name());
    let sender = held.and_then(|held| {
        let row = cell.packet.as_ref()?.rows.get(held.packet as usize)?;
        Some(row.record.source)
    });
    let is_target = cell.carriers.iter().any(|it| Some(it.target) == sender);
    is_target && held_ns > MOST_SHARE_OFF * recorded.waits.latency_ns
}

/// The recorded kinds, so that the twin's ledger has the same basis.
fn kinds(cell: &Cell) -> Kinds {
    Kinds {
        io: true,
        pdu: cell.pdu.is_some(),
        connection: true,
        tcp: cell.tcp.is_some(),
        packet: cell.packet.is_some(),
        path: cell.path.is_some(),
        thread: cell.thread.is_some(),
        ..Kinds::NONE
    }
}

/// TCP samples of one end of a connection, on one host, in order of time.
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
