//! An initiator: its session, the load on it, and the bytes between its machines and its connections.

use wansan_iscsi::initiator::{
    AdmitError, Command, Handshake, HandshakeError, LoginSettings, Schedule, Session, SessionError,
    Splitter, Tally, Transfer,
};
use wansan_iscsi::record::keys_record;
use wansan_iscsi::scsi::capacity::Capacity;
use wansan_iscsi::scsi::{Malformed, Sense, SenseKey, cdb};
use wansan_iscsi::wire::{Lun, TaskAttribute};
use wansan_schema::BenchReport;
use wansan_trace::event::{self, Role};
use wansan_trace::{Instant, Recorder};
use wansan_workload::{Load, LoadConfig, connections_between, failure, pieces};

use super::socket::{ConnectionConfig, Sockets};
use super::target::Target;

/// The settings of an initiator.
#[derive(Debug)]
pub struct InitiatorConfig {
    /// How it logs in; without CHAP.
    pub login: LoginSettings,
    /// The connections of its session, one at least.
    pub connections: Vec<ConnectionConfig>,
    /// How commands are distributed over them.
    pub schedule: Schedule,
    /// The unit that is loaded.
    pub lun: Lun,
    /// What is asked of it.
    pub load: LoadConfig,
    /// Where its records go.
    pub trace: Recorder,
}

/// Why an initiator ended.
#[derive(Debug, thiserror::Error)]
pub enum InitiatorError {
    /// Its login failed.
    #[error("{0}")]
    Login(#[from] HandshakeError),
    /// A connection does not belong to the session.
    #[error("{0}")]
    Admit(#[from] AdmitError),
    /// The protocol was broken.
    #[error("{0}")]
    Session(#[from] SessionError),
    /// The target allows fewer connections.
    #[error("the target allows {granted} connections per session, not {asked}")]
    TooFewConnections {
        /// How many the plan has.
        asked: usize,
        /// MaxConnections as negotiated.
        granted: u16,
    },
    /// The unit did not report its capacity.
    #[error("the unit did not report its capacity: {0}")]
    Capacity(String),
    /// The capacity cannot be read.
    #[error("the unit's capacity: {0}")]
    Malformed(#[from] Malformed),
    /// The I/Os do not fit the unit.
    #[error("I/Os of {block_bytes} bytes do not fit a unit of {capacity_bytes} bytes")]
    Misfit {
        /// Bytes per I/O.
        block_bytes: u32,
        /// The unit's.
        capacity_bytes: u64,
    },
}

/// How far it is.
#[derive(Debug)]
enum Stage {
    /// The first connection logs in.
    Leading(Box<Handshake>),
    /// The others do, each at its place among the connections.
    Joining(Vec<(usize, Handshake)>),
    /// It asks for the unit's capacity.
    Asking,
    /// It waits for the others.
    Ready(Capacity),
    Loading(Box<Load>),
}

/// An initiator.
#[derive(Debug)]
pub(super) struct Initiator {
    config: InitiatorConfig,
    stage: Stage,
    session: Option<Session>,
    splitter: Splitter,
    /// The end of each connection, in the order of the plan; and of those in the session, by their places.
    ends: Vec<u32>,
    places: Vec<u32>,
    /// Counters when the measurement began, and what followed.
    tallies: [Option<Vec<(String, Tally)>>; 2],
}

/// What READ CAPACITY (16) answers with.
const CAPACITY_BYTES: u32 = 32;

impl Initiator {
    /// One that connects now.
    pub(super) fn start(
        config: InitiatorConfig,
        sockets: &mut Sockets,
        target: &mut Target,
    ) -> Result<Initiator, InitiatorError> {
        let handshake = Handshake::lead(&config.login)?;
        let mut initiator = Initiator {
            stage: Stage::Leading(Box::new(handshake)),
            session: None,
            splitter: Splitter::new(config.load.parallel.max(1)),
            ends: Vec::new(),
            places: Vec::new(),
            tallies: [None, None],
            config,
        };
        initiator.connect(0, sockets, target);
        Ok(initiator)
    }

    fn connect(&mut self, place: usize, sockets: &mut Sockets, target: &mut Target) {
        let [near, far] = sockets.connect(&self.config.connections[place]);
        target.accept(far);
        self.ends.push(near);
    }

    pub(super) fn ends(&self) -> &[u32] {
        &self.ends
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.stage, Stage::Ready(_))
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(&self.stage, Stage::Loading(load) if load.is_over())
    }

    /// What it does, in words.
    pub(super) fn stage(&self) -> String {
        match &self.stage {
            Stage::Leading(_) | Stage::Joining(_) => "connecting and logging in".to_owned(),
            Stage::Asking => "waiting for the unit's capacity".to_owned(),
            Stage::Ready(_) => "waiting for others".to_owned(),
            Stage::Loading(load) => {
                format!("waiting for the last {} I/Os in flight", load.in_flight())
            }
        }
    }

    /// How much of its load is done, from 0 to 1.
    pub(super) fn progress(&self, now: Instant) -> f64 {
        match &self.stage {
            Stage::Loading(load) => load.progress(now).0,
            _ => 0.0,
        }
    }

    /// When it has something to do by itself.
    pub(super) fn wakes_at(&self, now: Instant) -> Instant {
        match &self.stage {
            Stage::Loading(load) => load.wakes_at(now),
            _ => Instant::FAR_FUTURE,
        }
    }

    /// Begins its load now.
    pub(super) fn begin(&mut self, now: Instant) {
        if let Stage::Ready(capacity) = &self.stage {
            let load = Load::new(&self.config.load, self.config.lun, capacity, now);
            self.stage = Stage::Loading(Box::new(load));
        }
    }

    /// Does all that can be done now.
    pub(super) fn turn(
        &mut self,
        sockets: &mut Sockets,
        target: &mut Target,
    ) -> Result<(), InitiatorError> {
        loop {
            let mut has_done = self.receive(sockets)?;
            has_done |= self.advance(sockets, target)?;
            has_done |= self.transmit(sockets);
            if !has_done {
                break;
            }
        }
        Ok(())
    }

    /// Reads what has come and hands it to the machines; whether there was anything.
    fn receive(&mut self, sockets: &mut Sockets) -> Result<bool, InitiatorError> {
        let now = sockets.now();
        let mut has_read = false;
        match &mut self.stage {
            Stage::Leading(handshake) => {
                has_read |= log_in(handshake, self.ends[0], sockets)?;
            }
            Stage::Joining(handshakes) => {
                for (place, handshake) in handshakes {
                    has_read |= log_in(handshake, self.ends[*place], sockets)?;
                }
            }
            _ => {}
        }
        let Some(session) = &mut self.session else {
            return Ok(has_read);
        };
        for (place, &end) in self.places.iter().enumerate() {
            let connection = &mut session.connections()[place];
            let bytes = sockets.read(end, connection.space());
            if bytes > 0 {
                has_read = true;
                connection.filled(bytes, now);
                session.receive(place, now, &mut self.config.trace)?;
            }
        }
        Ok(has_read)
    }

    /// Goes on with login and load; whether anything was done.
    fn advance(
        &mut self,
        sockets: &mut Sockets,
        target: &mut Target,
    ) -> Result<bool, InitiatorError> {
        let now = sockets.now();
        match &mut self.stage {
            Stage::Leading(handshake) if handshake.is_done() => {
                let Stage::Leading(handshake) = std::mem::replace(&mut self.stage, Stage::Asking)
                else {
                    unreachable!("it was just seen");
                };
                self.lead(*handshake, sockets, target)?;
                Ok(true)
            }
            Stage::Joining(handshakes) if handshakes.iter().all(|(_, it)| it.is_done()) => {
                let handshakes = std::mem::take(handshakes);
                self.join(handshakes, sockets)?;
                Ok(true)
            }
            Stage::Asking => self.capacity(now),
            Stage::Loading(_) => Ok(self.load(now)),
            _ => Ok(false),
        }
    }

    fn lead(
        &mut self,
        handshake: Handshake,
        sockets: &mut Sockets,
        target: &mut Target,
    ) -> Result<(), InitiatorError> {
        let tasks = Splitter::session_tasks(self.config.load.parallel.max(1));
        let mut session = handshake.into_session(tasks)?;
        session.set_schedule(self.config.schedule);
        let (asked, granted) = (
            self.config.connections.len(),
            session.parameters().max_connections,
        );
        if asked > usize::from(granted) {
            return Err(InitiatorError::TooFewConnections { asked, granted });
        }
        let joining = (1..asked).zip(1..).map(|(place, cid)| {
            let handshake = session.join(&self.config.login, cid)?;
            Ok((place, handshake))
        });
        let joining: Vec<_> = joining.collect::<Result<_, HandshakeError>>()?;
        self.session = Some(session);
        self.seat(0, sockets);
        for (place, _) in &joining {
            self.connect(*place, sockets, target);
        }
        self.stage = Stage::Joining(joining);
        Ok(())
    }

    fn join(
        &mut self,
        handshakes: Vec<(usize, Handshake)>,
        sockets: &Sockets,
    ) -> Result<(), InitiatorError> {
        for (place, handshake) in handshakes {
            if let Some(session) = &mut self.session {
                session.admit(handshake)?;
            }
            self.seat(place, sockets);
        }
        self.stage = Stage::Asking;
        self.ask_for_capacity(sockets.now());
        Ok(())
    }

    /// The connection at that place of the plan is the session's last one.
    fn seat(&mut self, place: usize, sockets: &Sockets) {
        self.places.push(self.ends[place]);
        if let Some(session) = &mut self.session {
            let (id, keys) = (session.id(), *session.parameters());
            if let Some(connection) = session.connections().last() {
                let known = event::Connection {
                    session: id,
                    connection: connection.id(),
                    role: Role::Initiator,
                    ..keys_record(&keys, connection.parameters())
                };
                let trace = &mut self.config.trace;
                sockets.record_connection(self.ends[place], known, trace);
            }
        }
    }

    fn ask_for_capacity(&mut self, now: Instant) {
        self.submit(
            Command {
                lun: self.config.lun,
                cdb: cdb::read_capacity_16(CAPACITY_BYTES),
                attribute: TaskAttribute::Simple,
                transfer: Transfer::Read(vec![0; CAPACITY_BYTES as usize]),
                user: 0,
            },
            now,
        );
    }

    /// Takes the unit's capacity; a unit attention, of which a new session has some, is passed over.
    fn capacity(&mut self, now: Instant) -> Result<bool, InitiatorError> {
        let Some(done) = self.completion(now) else {
            return Ok(false);
        };
        if let Some(failed) = failure(&done) {
            let sense = done.outcome.as_ref().ok();
            let sense = sense.and_then(|answer| Sense::parse(&answer.sense).ok());
            if sense.is_none_or(|sense| sense.key != SenseKey::UnitAttention) {
                return Err(InitiatorError::Capacity(failed));
            }
            self.ask_for_capacity(now);
            return Ok(true);
        }
        let capacity = Capacity::parse_16(&done.transfer.into_buffer())?;
        let block_bytes = self.config.load.block_bytes;
        if pieces(block_bytes, &capacity).is_none() {
            let capacity_bytes = capacity.bytes();
            return Err(InitiatorError::Misfit {
                block_bytes,
                capacity_bytes,
            });
        }
        self.stage = Stage::Ready(capacity);
        Ok(true)
    }

    /// Goes on with the load; whether a command was submitted or has completed.
    fn load(&mut self, now: Instant) -> bool {
        let mut has_done = false;
        while let Some(done) = self.completion(now) {
            has_done = true;
            if let Stage::Loading(load) = &mut self.stage {
                load.completed(done, now);
            }
        }
        let Stage::Loading(load) = &mut self.stage else {
            return has_done;
        };
        load.advance(now);
        let is_measuring = load.is_measuring(now);
        let has_measured = !load.is_loading();
        if is_measuring && self.tallies[0].is_none() {
            self.tallies[0] = Some(self.tally(now));
        }
        if has_measured && self.tallies[1].is_none() {
            self.tallies[1] = Some(self.tally(now));
        }
        while let Stage::Loading(load) = &mut self.stage
            && let Some(command) = load.next_command(now)
        {
            has_done = true;
            self.submit(command, now);
        }
        has_done
    }

    fn tally(&self, now: Instant) -> Vec<(String, Tally)> {
        let Some(session) = &self.session else {
            return Vec::new();
        };
        let connections = self.config.connections.iter().zip(0..);
        let tally = |(connection, cid): (&ConnectionConfig, u16)| {
            (connection.addresses[1].to_string(), session.tally(cid, now))
        };
        connections.map(tally).collect()
    }

    fn submit(&mut self, command: Command, now: Instant) {
        let Some(session) = &self.session else { return };
        let whole = self
            .splitter
            .submit(command, session.parameters())
            .expect("it has room for the load's I/Os");
        match whole {
            Some(whole) => self.enqueue(whole, now),
            None => self.hand_over(now),
        }
    }

    fn hand_over(&mut self, now: Instant) {
        while let Some(part) = self.splitter.poll_command() {
            self.enqueue(part, now);
        }
    }

    fn enqueue(&mut self, command: Command, now: Instant) {
        if let Some(session) = &mut self.session {
            session
                .submit(command, now, &mut self.config.trace)
                .expect("the session was made for as many tasks as the splitter gives it");
        }
    }

    fn completion(&mut self, now: Instant) -> Option<wansan_iscsi::initiator::Completion> {
        loop {
            let session = self.session.as_mut()?;
            let completion = session.poll_completion(now, &mut self.config.trace)?;
            let completion = self.splitter.completed(completion);
            self.hand_over(now);
            if completion.is_some() {
                return completion;
            }
        }
    }

    /// Writes what the machines have to send; whether anything was taken.
    fn transmit(&mut self, sockets: &mut Sockets) -> bool {
        let now = sockets.now();
        let mut has_sent = false;
        match &mut self.stage {
            Stage::Leading(handshake) => has_sent |= answer(handshake, self.ends[0], sockets),
            Stage::Joining(handshakes) => {
                for (place, handshake) in handshakes {
                    has_sent |= answer(handshake, self.ends[*place], sockets);
                }
            }
            _ => {}
        }
        let Some(session) = &mut self.session else {
            return has_sent;
        };
        session.pump(now, &mut self.config.trace);
        for (place, &end) in self.places.iter().enumerate() {
            let connection = &mut session.connections()[place];
            if connection.pending().is_empty() {
                continue;
            }
            let taken = sockets.write(end, connection.pending());
            if taken > 0 {
                has_sent = true;
                connection.sent(taken, now, &mut self.config.trace);
            }
        }
        has_sent
    }

    /// Records the state of TCP on all its connections.
    pub(super) fn record_tcp(&mut self, sockets: &Sockets) {
        let Some(session) = &mut self.session else {
            return;
        };
        let id = session.id();
        for (connection, &end) in session.connections().iter().zip(&self.places) {
            sockets.record_tcp(end, (id, connection.id()), &mut self.config.trace);
        }
    }

    /// What it measured, and its records.
    pub(super) fn end(self) -> (BenchReport, Recorder) {
        let report = match &self.stage {
            Stage::Loading(load) => load.report(),
            _ => BenchReport::default(),
        };
        let connections = match &self.tallies {
            [Some(earlier), Some(later)] => connections_between(earlier, later),
            _ => Vec::new(),
        };
        let report = BenchReport {
            connections,
            ..report
        };
        (report, self.config.trace)
    }
}

/// Reads for a login; whether there was anything.
fn log_in(
    handshake: &mut Handshake,
    end: u32,
    sockets: &mut Sockets,
) -> Result<bool, HandshakeError> {
    if handshake.is_done() {
        return Ok(false);
    }
    let bytes = sockets.read(end, handshake.space());
    if bytes > 0 {
        handshake.filled(bytes);
        handshake.receive()?;
    }
    Ok(bytes > 0)
}

/// Writes for a login; whether anything was taken.
fn answer(handshake: &mut Handshake, end: u32, sockets: &mut Sockets) -> bool {
    let taken = match handshake.pending() {
        [] => 0,
        pending => sockets.write(end, pending),
    };
    handshake.sent(taken);
    taken > 0
}
