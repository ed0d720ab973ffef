//! An initiator: its session and load, from the first login to the logout.

use std::time::Duration;

use wansan_iscsi::initiator::{
    AdmitError, Command, Completion, Handshake, HandshakeError, LoginSettings, Schedule, Session,
    SessionError, Splitter, Tally, Transfer,
};
use wansan_iscsi::scsi::capacity::Capacity;
use wansan_iscsi::scsi::{Malformed, Sense, SenseKey, cdb};
use wansan_iscsi::wire::{Lun, TaskAttribute};
use wansan_schema::BenchReport;
use wansan_trace::{Instant, Recorder};
use wansan_workload::{Load, LoadConfig, connections_between, failure, pieces};

use super::client::Client;
use super::dial::{Dial, Line, Patience};
use super::multipath::Several;
use super::sessions::Sessions;
use super::socket::{ConnectionConfig, Owner, Sockets};

/// The settings of an initiator.
#[derive(Debug)]
pub struct InitiatorConfig {
    /// Its login settings, without CHAP.
    pub login: LoginSettings,
    /// The connections of its session, at least one.
    pub connections: Vec<ConnectionConfig>,
    /// Whether each connection is a session of its own instead (multipath).
    pub multipath: bool,
    /// How commands are distributed over the connections.
    pub schedule: Schedule,
    /// The unit under load.
    pub lun: Lun,
    /// The load.
    pub load: LoadConfig,
    /// How long it waits for logins, and for recovery.
    pub patience: Patience,
    /// Where its records go.
    pub trace: Recorder,
}

/// Why an initiator failed.
#[derive(Debug, thiserror::Error)]
pub enum InitiatorError {
    /// Its login failed.
    #[error("{0}")]
    Login(#[from] HandshakeError),
    /// Its login took too long.
    #[error("login did not complete within {} s", .0.as_secs_f64())]
    Slow(Duration),
    /// A connection could not join the session.
    #[error("{0}")]
    Admit(#[from] AdmitError),
    /// The target closed a connection.
    #[error("the target closed the connection")]
    Closed,
    /// The target was silent for too long.
    #[error("the target does not respond, not even to a NOP-Out")]
    Silent,
    /// The target violated the protocol.
    #[error("{0}")]
    Session(#[from] SessionError),
    /// The session was lost and not recovered.
    #[error(
        "the session was lost ({cause}) and not recovered within {} s: {}",
        timeout.as_secs_f64(),
        last_attempt(last_failure.as_deref())
    )]
    NotBack {
        /// The cause of the loss.
        cause: Box<InitiatorError>,
        /// The time allowed for recovery.
        timeout: Duration,
        /// Why the last attempt failed, if any completed.
        last_failure: Option<Box<InitiatorError>>,
    },
    /// The last I/Os wait for a session that has no connection.
    #[error("{ios} I/Os wait for a session that has had no connection for {} s", cut_off.as_secs_f64())]
    CutOff {
        /// I/Os in flight.
        ios: usize,
        /// How long the session has had no connection.
        cut_off: Duration,
    },
    /// The target grants fewer connections.
    #[error("the target allows {granted} connections per session, not {asked}")]
    TooFewConnections {
        /// Connections in the configuration.
        asked: usize,
        /// MaxConnections as negotiated.
        granted: u16,
    },
    /// The unit did not report its capacity.
    #[error("the unit did not report its capacity: {0}")]
    Capacity(String),
    /// The capacity data is malformed.
    #[error("the unit's capacity: {0}")]
    Malformed(#[from] Malformed),
    /// The I/Os do not fit the unit.
    #[error("I/Os of {block_bytes} bytes do not fit a unit of {capacity_bytes} bytes")]
    Misfit {
        /// Bytes per I/O.
        block_bytes: u32,
        /// Bytes of the unit.
        capacity_bytes: u64,
    },
}

/// Why the last recovery attempt failed.
fn last_attempt(failure: Option<&InitiatorError>) -> String {
    match failure {
        Some(failure) => format!("the last attempt failed: {failure}"),
        None => "no attempt completed in that time".to_owned(),
    }
}

impl InitiatorError {
    /// Whether the session cannot continue without this connection.
    pub(super) fn ends_session(&self) -> bool {
        matches!(self, InitiatorError::Session(source) if source.ends_session())
    }

    /// Whether the path to the target failed, which may recover, rather than one of the two ends.
    pub(super) fn is_of_the_path(&self) -> bool {
        match self {
            InitiatorError::Closed | InitiatorError::Silent => true,
            InitiatorError::Session(source) => source.is_of_the_path(),
            _ => false,
        }
    }
}

/// The stage it has reached.
#[derive(Debug)]
enum Stage {
    /// The first (leading) connection logs in.
    Leading(Box<InitiatorConfig>, Box<Dial>),
    /// The others log in, concurrently.
    Joining(Box<Joining>),
    /// The sessions over several routes log in, concurrently.
    Raising(Box<Several>),
    /// Reads the unit's capacity.
    Asking(Sessions),
    /// Waits for the other loads.
    Ready(Sessions, Capacity),
    Loading(Sessions, Box<Load>),
    /// The load is over: logs out, and waits until that time for its connections to end.
    Leaving(Sessions, Box<Load>, Instant),
    /// Placeholder during a transition.
    Nothing,
}

/// A session whose further connections are logging in.
#[derive(Debug)]
struct Joining {
    config: InitiatorConfig,
    session: Session,
    leading: Line,
    /// Each with whether its login is complete.
    dials: Vec<(Dial, bool)>,
}

/// An initiator.
#[derive(Debug)]
pub(super) struct Initiator {
    owner: Owner,
    stage: Stage,
    /// Counters at the beginning and at the end of the measurement.
    tallies: [Option<Vec<(String, Tally)>>; 2],
    /// Whether all its connections have ended.
    has_left: bool,
}

/// How long a target may take to close the connections of a session that has logged out.
const FAREWELL: Duration = Duration::from_secs(2);

/// Length of the READ CAPACITY (16) data.
const CAPACITY_BYTES: u32 = 32;

impl Initiator {
    /// Starts an initiator with that index, which connects at once.
    pub(super) fn start(
        place: usize,
        config: InitiatorConfig,
        sockets: &mut Sockets,
    ) -> Result<Initiator, InitiatorError> {
        let owner = Owner::Initiator(place);
        if config.multipath {
            let several = Several::new(owner, config, sockets.now());
            let mut initiator = Initiator {
                owner,
                stage: Stage::Raising(Box::new(several)),
                tallies: [None, None],
                has_left: false,
            };
            initiator.turn(sockets)?;
            return Ok(initiator);
        }
        let handshake = Handshake::lead(&config.login)?;
        let dial = Dial::begin(&config, owner, 0, handshake, config.patience.login, sockets);
        Ok(Initiator {
            owner,
            stage: Stage::Leading(Box::new(config), Box::new(dial)),
            tallies: [None, None],
            has_left: false,
        })
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready(..))
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        matches!(self.stage, Stage::Leaving(_, _, until) if now >= until || self.has_left)
    }

    /// What it is doing, in words.
    pub(super) fn stage(&self) -> String {
        match &self.stage {
            Stage::Leading(..) | Stage::Joining(_) | Stage::Raising(_) | Stage::Nothing => {
                "connecting and logging in".to_owned()
            }
            Stage::Asking(_) => "waiting for the unit's capacity".to_owned(),
            Stage::Ready(..) => "waiting for others".to_owned(),
            Stage::Loading(_, load) => {
                format!("waiting for the last {} I/Os in flight", load.in_flight())
            }
            Stage::Leaving(..) => "logging out".to_owned(),
        }
    }

    /// The progress of its load, from 0 to 1.
    pub(super) fn progress(&self, now: Instant) -> f64 {
        match &self.stage {
            Stage::Loading(_, load) => load.progress(now).0,
            Stage::Leaving(..) => 1.0,
            _ => 0.0,
        }
    }

    /// When its next timer is due.
    pub(super) fn wakes_at(&self, now: Instant) -> Instant {
        match &self.stage {
            Stage::Leading(_, dial) => dial.deadline(),
            Stage::Joining(joining) => {
                let waiting = joining.dials.iter().filter(|(_, is_done)| !is_done);
                let deadlines = waiting.map(|(dial, _)| dial.deadline());
                deadlines.min().unwrap_or(Instant::FAR_FUTURE)
            }
            Stage::Raising(several) => several.wakes_at(),
            Stage::Asking(sessions) | Stage::Ready(sessions, _) => sessions.wakes_at(),
            Stage::Loading(sessions, load) => sessions.wakes_at().min(load.wakes_at(now)),
            Stage::Leaving(_, _, until) if !self.is_over(now) => *until,
            Stage::Leaving(..) | Stage::Nothing => Instant::FAR_FUTURE,
        }
    }

    /// Begins its load.
    pub(super) fn begin(&mut self, now: Instant) {
        self.stage = match std::mem::replace(&mut self.stage, Stage::Nothing) {
            Stage::Ready(sessions, capacity) => {
                let config = sessions.config();
                let load = Load::new(&config.load, config.lun, &capacity, now);
                Stage::Loading(sessions, Box::new(load))
            }
            other => other,
        };
    }

    /// Does everything that can be done now.
    pub(super) fn turn(&mut self, sockets: &mut Sockets) -> Result<(), InitiatorError> {
        loop {
            let mut has_done = match self.sessions() {
                Some(sessions) => sessions.turn(sockets)?,
                None => false,
            };
            has_done |= self.advance(sockets)?;
            if !has_done {
                return Ok(());
            }
        }
    }

    fn sessions(&mut self) -> Option<&mut Sessions> {
        match &mut self.stage {
            Stage::Asking(sessions)
            | Stage::Ready(sessions, _)
            | Stage::Loading(sessions, _)
            | Stage::Leaving(sessions, ..) => Some(sessions),
            Stage::Leading(..) | Stage::Joining(_) | Stage::Raising(_) | Stage::Nothing => None,
        }
    }

    /// Advances login and load; returns whether anything was done.
    fn advance(&mut self, sockets: &mut Sockets) -> Result<bool, InitiatorError> {
        let now = sockets.now();
        match &mut self.stage {
            Stage::Leading(_, dial) => {
                let is_done = dial.step(sockets)?;
                if is_done {
                    self.lead(sockets)?;
                }
                Ok(is_done)
            }
            Stage::Joining(joining) => {
                for (dial, is_done) in &mut joining.dials {
                    if !*is_done {
                        *is_done = dial.step(sockets)?;
                    }
                }
                let is_done = joining.dials.iter().all(|(_, is_done)| *is_done);
                if is_done {
                    self.join(sockets)?;
                }
                Ok(is_done)
            }
            Stage::Raising(several) => {
                let has_done = several.turn(sockets)?;
                let has_begun = several.has_begun()?;
                if has_begun {
                    self.raised(now);
                }
                Ok(has_done || has_begun)
            }
            Stage::Asking(_) => self.capacity(now),
            Stage::Loading(..) => self.load(now),
            Stage::Leaving(sessions, ..) => {
                self.has_left = sessions.has_left(sockets);
                Ok(false)
            }
            Stage::Ready(..) | Stage::Nothing => Ok(false),
        }
    }

    /// The first connection has logged in: begins the logins of the others.
    fn lead(&mut self, sockets: &mut Sockets) -> Result<(), InitiatorError> {
        let Stage::Leading(config, dial) = std::mem::replace(&mut self.stage, Stage::Nothing)
        else {
            return Ok(());
        };
        let (leading, handshake) = dial.into_parts();
        let tasks = Splitter::session_tasks(config.load.parallel.max(1));
        let mut session = handshake.into_session(tasks)?;
        session.set_schedule(config.schedule);
        let asked = config.connections.len();
        let granted = session.parameters().max_connections;
        if asked > usize::from(granted) {
            return Err(InitiatorError::TooFewConnections { asked, granted });
        }
        let mut dials = Vec::new();
        for (place, cid) in (1..asked).zip(1..) {
            let handshake = session.join(&config.login, cid)?;
            let patience = config.patience.login;
            let dial = Dial::begin(&config, self.owner, place, handshake, patience, sockets);
            dials.push((dial, false));
        }
        self.stage = Stage::Joining(Box::new(Joining {
            config: *config,
            session,
            leading,
            dials,
        }));
        Ok(())
    }

    /// All connections have logged in.
    fn join(&mut self, sockets: &Sockets) -> Result<(), InitiatorError> {
        let Stage::Joining(joining) = std::mem::replace(&mut self.stage, Stage::Nothing) else {
            return Ok(());
        };
        let Joining {
            config,
            mut session,
            leading,
            dials,
        } = *joining;
        let mut lines = vec![leading];
        for (dial, _) in dials {
            let (line, handshake) = dial.into_parts();
            session.admit(handshake)?;
            lines.push(line);
        }
        let client = Client::over(self.owner, config, session, lines, sockets);
        self.ask(Sessions::One(Box::new(client)), sockets.now());
        Ok(())
    }

    /// The sessions over several routes have logged in.
    fn raised(&mut self, now: Instant) {
        if let Stage::Raising(several) = std::mem::replace(&mut self.stage, Stage::Nothing) {
            self.ask(Sessions::Several(several), now);
        }
    }

    fn ask(&mut self, mut sessions: Sessions, now: Instant) {
        ask_for_capacity(&mut sessions, now);
        self.stage = Stage::Asking(sessions);
    }

    /// Takes the unit's capacity. Skips unit attentions, which are pending for a new session.
    fn capacity(&mut self, now: Instant) -> Result<bool, InitiatorError> {
        let Stage::Asking(sessions) = &mut self.stage else {
            return Ok(false);
        };
        let Some(done) = sessions.poll_completion(now) else {
            return Ok(false);
        };
        if let Some(failed) = failure(&done) {
            if !is_unit_attention(&done) {
                return Err(InitiatorError::Capacity(failed));
            }
            ask_for_capacity(sessions, now);
            return Ok(true);
        }
        let capacity = Capacity::parse_16(&done.transfer.into_buffer())?;
        let block_bytes = sessions.config().load.block_bytes;
        if pieces(block_bytes, &capacity).is_none() {
            let capacity_bytes = capacity.bytes();
            return Err(InitiatorError::Misfit {
                block_bytes,
                capacity_bytes,
            });
        }
        if let Stage::Asking(sessions) = std::mem::replace(&mut self.stage, Stage::Nothing) {
            self.stage = Stage::Ready(sessions, capacity);
        }
        Ok(true)
    }

    /// Advances the load; returns whether a command was submitted or completed, or the load is over.
    fn load(&mut self, now: Instant) -> Result<bool, InitiatorError> {
        let Stage::Loading(sessions, load) = &mut self.stage else {
            return Ok(false);
        };
        let mut has_done = false;
        while let Some(done) = sessions.poll_completion(now) {
            has_done = true;
            load.completed(done, now);
        }
        load.advance(now);
        let [earlier, later] = &mut self.tallies;
        if load.is_measuring(now) {
            earlier.get_or_insert_with(|| sessions.tallies(now));
        }
        if !load.is_loading() {
            later.get_or_insert_with(|| sessions.tallies(now));
        }
        while let Some(command) = load.next_command(now) {
            has_done = true;
            sessions.submit(command, now);
        }
        let (cut_off, attempt) = sessions.cut_off(now);
        if load.gives_up(now, cut_off, attempt) {
            let ios = load.in_flight();
            return Err(InitiatorError::CutOff { ios, cut_off });
        }
        if load.is_over()
            && let Stage::Loading(mut sessions, load) =
                std::mem::replace(&mut self.stage, Stage::Nothing)
        {
            sessions.log_out(now);
            self.stage = Stage::Leaving(sessions, load, now + FAREWELL);
            has_done = true;
        }
        Ok(has_done)
    }

    /// Records the state of TCP on all its connections.
    pub(super) fn record_tcp(&mut self, sockets: &Sockets) {
        if let Some(sessions) = self.sessions() {
            sessions.record_tcp(sockets);
        }
    }

    /// Its report, and its records.
    pub(super) fn end(self) -> (BenchReport, Vec<Recorder>) {
        let connections = match &self.tallies {
            [Some(earlier), Some(later)] => connections_between(earlier, later),
            _ => Vec::new(),
        };
        match self.stage {
            Stage::Loading(sessions, load) | Stage::Leaving(sessions, load, _) => {
                let recoveries = sessions.recoveries();
                let report = BenchReport {
                    recoveries: recoveries.sessions + recoveries.connections,
                    lost_s: recoveries.lost.as_secs_f64(),
                    connections,
                    ..load.report()
                };
                (report, sessions.into_records())
            }
            Stage::Asking(sessions) | Stage::Ready(sessions, _) => {
                (BenchReport::default(), sessions.into_records())
            }
            Stage::Leading(config, _) => (BenchReport::default(), vec![config.trace]),
            Stage::Joining(joining) => (BenchReport::default(), vec![joining.config.trace]),
            Stage::Raising(several) => (BenchReport::default(), several.into_records()),
            Stage::Nothing => (BenchReport::default(), Vec::new()),
        }
    }
}

fn ask_for_capacity(sessions: &mut Sessions, now: Instant) {
    let command = Command {
        lun: sessions.config().lun,
        cdb: cdb::read_capacity_16(CAPACITY_BYTES),
        attribute: TaskAttribute::Simple,
        transfer: Transfer::Read(vec![0; CAPACITY_BYTES as usize]),
        user: 0,
    };
    sessions.submit(command, now);
}

fn is_unit_attention(done: &Completion) -> bool {
    let answer = done.outcome.as_ref().ok();
    let sense = answer.and_then(|answer| Sense::parse(&answer.sense).ok());
    sense.is_some_and(|sense| sense.key == SenseKey::UnitAttention)
}
