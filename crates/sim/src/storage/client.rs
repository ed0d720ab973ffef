//! An initiator's session over simulated connections: the transfer of bytes between its state machines and sockets, and
//! the handling of connection failures.

use std::time::Duration;

use wansan_iscsi::initiator::{
    Command, Completion, Event, Lost, NotBack, Recoveries, Recovery, Session, Splitter, Tally,
    attempt_time,
};
use wansan_iscsi::record::keys_record;
use wansan_trace::event::{self, Role};
use wansan_trace::{Instant, Recorder, SessionId};

use super::dial::{Dial, Dials, Line};
use super::initiator::{InitiatorConfig, InitiatorError};
use super::socket::{Owner, Sockets};

/// Delay before an overdue recovery step that could not be taken is retried.
const RETRY: Duration = Duration::from_millis(1);

/// Maximum interval between two keep-alive checks.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// A session in full feature phase.
#[derive(Debug)]
pub(super) struct Client {
    owner: Owner,
    pub(super) config: InitiatorConfig,
    session: Session,
    splitter: Splitter,
    /// In the order of the session's connections.
    lines: Vec<Line>,
    recovery: Recovery<Dial, Line, InitiatorError>,
    /// As last measured by TCP; zero before the first measurement.
    round_trip: Duration,
    /// When keep-alive is due next.
    next_look: Instant,
    /// Time of the last [`turn`](Self::turn).
    turned: Instant,
    /// Logging out: connections that fail are not recovered.
    is_leaving: bool,
    /// The session has ended: commands submitted to it complete like those that were in flight.
    has_ended: bool,
}

impl Client {
    /// A session over connections that have logged in.
    pub(super) fn over(
        owner: Owner,
        config: InitiatorConfig,
        session: Session,
        lines: Vec<Line>,
        sockets: &Sockets,
    ) -> Client {
        let mut client = Client {
            owner,
            splitter: Splitter::new(config.load.parallel.max(1)),
            config,
            session,
            lines,
            recovery: Recovery::default(),
            round_trip: Duration::ZERO,
            next_look: sockets.now(),
            turned: sockets.now(),
            is_leaving: false,
            has_ended: false,
        };
        client.look_at_new_lines(sockets);
        client
    }

    /// Records new connections, and reads their TCP state for the first time.
    fn look_at_new_lines(&mut self, sockets: &Sockets) {
        let (id, keys) = (self.session.id(), *self.session.parameters());
        for (line, connection) in self.lines.iter_mut().zip(self.session.connections()) {
            if !std::mem::replace(&mut line.is_recorded, true) {
                let known = event::Connection {
                    session: id,
                    connection: connection.id(),
                    role: Role::Initiator,
                    ..keys_record(&keys, connection.parameters())
                };
                sockets.record_connection(line.end, known, &mut self.config.trace);
            }
        }
        self.look_at_tcp(sockets);
    }

    /// Reads TCP's progress: acknowledged bytes are a sign of life of a connection that only sends.
    fn look_at_tcp(&mut self, sockets: &Sockets) {
        let now = sockets.now();
        for (line, connection) in self.lines.iter_mut().zip(self.session.connections()) {
            let (acked_bytes, round_trip) = sockets.progress(line.end);
            if std::mem::replace(&mut line.acked_bytes, acked_bytes) != acked_bytes {
                connection.heard(now);
            }
            if !round_trip.is_zero() {
                connection.round_trip_measured(round_trip);
                self.round_trip = round_trip;
            }
        }
    }

    /// When the next timer is due.
    pub(super) fn wakes_at(&self) -> Instant {
        if self.is_leaving {
            return Instant::FAR_FUTURE;
        }
        // An overdue step that was not taken is retried after RETRY, or at the next event.
        let recovery = self.recovery.wakes_at::<Dials<'_>>();
        self.next_look.min(recovery.max(self.turned + RETRY))
    }

    /// Does what can be done now; returns whether there was anything.
    pub(super) fn turn(&mut self, sockets: &mut Sockets) -> Result<bool, InitiatorError> {
        self.turned = sockets.now();
        let mut has_done = self.recover(sockets)?;
        let mut place = 0;
        while place < self.lines.len() {
            match self.receive(place, sockets) {
                Ok(has_read) => {
                    has_done |= has_read;
                    place += 1;
                }
                Err(error) => {
                    self.lose(place, error, sockets)?;
                    has_done = true;
                }
            }
        }
        self.look_after_silent_ones(sockets)?;
        Ok(has_done | self.transmit(sockets))
    }

    /// Advances the recovery of connections; returns whether one came up.
    fn recover(&mut self, sockets: &mut Sockets) -> Result<bool, InitiatorError> {
        if self.recovery.is_idle() {
            return Ok(false);
        }
        let (up, now) = (self.lines.len(), sockets.now());
        let settings = self.config.recovery();
        let mut dials = Dials {
            config: &mut self.config,
            owner: self.owner,
            sockets,
        };
        let (session, lines) = (&mut self.session, &mut self.lines);
        let round_trip = self.round_trip;
        let advanced = self
            .recovery
            .advance(&settings, round_trip, session, lines, &mut dials, now);
        advanced.map_err(
            |NotBack {
                 cause,
                 last_failure,
             }| InitiatorError::NotBack {
                cause: Box::new(cause),
                timeout: settings.replacement_timeout,
                last_failure: last_failure.map(Box::new),
            },
        )?;
        let has_come_up = self.lines.len() > up;
        if has_come_up {
            self.look_at_new_lines(sockets);
        }
        Ok(has_come_up)
    }

    /// Reads what has arrived on the connection at `place`; returns whether there was anything.
    fn receive(&mut self, place: usize, sockets: &mut Sockets) -> Result<bool, InitiatorError> {
        let now = sockets.now();
        let end = self.lines[place].end;
        let connection = &mut self.session.connections()[place];
        let bytes = sockets.read(end, connection.space());
        if bytes > 0 {
            connection.filled(bytes, now);
            self.session.receive(place, now, &mut self.config.trace)?;
        } else if !self.is_leaving && (sockets.is_lost(end) || sockets.has_ended(end)) {
            return Err(InitiatorError::Closed);
        }
        Ok(bytes > 0)
    }

    /// Begins recovery of the connection, or of the session, if the settings allow it.
    fn lose(
        &mut self,
        place: usize,
        error: InitiatorError,
        sockets: &mut Sockets,
    ) -> Result<(), InitiatorError> {
        let settings = self.config.recovery();
        let is_patient = !settings.replacement_timeout.is_zero() && !self.is_leaving;
        if !is_patient || !error.is_of_the_path() {
            return Err(error);
        }
        let now = sockets.now();
        let lost = Lost {
            place: Some(place),
            ends_session: error.ends_session(),
            error,
        };
        let mut dials = Dials {
            config: &mut self.config,
            owner: self.owner,
            sockets,
        };
        let (session, lines) = (&mut self.session, &mut self.lines);
        self.recovery
            .lose(&settings, session, lines, lost, &mut dials, now);
        Ok(())
    }

    /// Pings connections that are silent with a response outstanding, and gives up one that is silent for too long.
    fn look_after_silent_ones(&mut self, sockets: &mut Sockets) -> Result<(), InitiatorError> {
        let now = sockets.now();
        if now < self.next_look || self.is_leaving {
            return Ok(());
        }
        if self.keep_alive(now).is_ok() {
            return Ok(());
        }
        self.look_at_tcp(sockets);
        // A connection is lost only if TCP has not heard from the target either.
        match self.keep_alive(now) {
            Ok(()) => Ok(()),
            Err(place) => self.lose(place, InitiatorError::Silent, sockets),
        }
    }

    fn keep_alive(&mut self, now: Instant) -> Result<(), usize> {
        let next = self.session.keep_alive(now, &mut self.config.trace)?;
        self.next_look = next.min(now + LONGEST_WAIT);
        Ok(())
    }

    /// Writes what the session has to send; returns whether TCP took any.
    fn transmit(&mut self, sockets: &mut Sockets) -> bool {
        let now = sockets.now();
        if self.session.needs_acknowledged() {
            for (place, line) in self.lines.iter().enumerate() {
                let (acked_bytes, _) = sockets.progress(line.end);
                self.session.acknowledged(place, acked_bytes, now);
            }
        }
        let trace = &mut self.config.trace;
        let mut has_sent = false;
        self.session.pump(now, trace);
        for (line, connection) in self.lines.iter().zip(self.session.connections()) {
            sockets.count_pdus(line.end, connection.pdus());
            if connection.pending().is_empty() {
                continue;
            }
            let taken = sockets.write_all_pending(line.end, connection.pending());
            if taken > 0 {
                has_sent = true;
                connection.sent(taken, now, trace);
            }
        }
        has_sent
    }

    /// Queues a command.
    pub(super) fn submit(&mut self, command: Command, now: Instant) {
        let whole = self
            .splitter
            .submit(command, self.session.parameters())
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
        if self.has_ended {
            self.session.end(now, &mut self.config.trace);
        }
    }

    /// Ends the session: its outstanding commands complete.
    pub(super) fn end(&mut self, now: Instant) {
        self.has_ended = true;
        self.session.end(now, &mut self.config.trace);
    }

    /// Resets the connections of a lost session; returns the settings, for its successor.
    pub(super) fn abandon(self, sockets: &mut Sockets) -> InitiatorConfig {
        for line in self.lines {
            sockets.abort(line.end);
        }
        self.config
    }

    fn enqueue(&mut self, command: Command, now: Instant) {
        self.session
            .submit(command, now, &mut self.config.trace)
            .expect("the session was made for as many tasks as the splitter gives it");
    }

    /// The next completion.
    pub(super) fn poll_completion(&mut self, now: Instant) -> Option<Completion> {
        loop {
            let trace = &mut self.config.trace;
            let completion = self.session.poll_completion(now, trace)?;
            let completion = self.splitter.completed(completion);
            self.hand_over(now);
            if completion.is_some() {
                return completion;
            }
        }
    }

    /// The session's id in trace records.
    pub(super) fn session(&self) -> SessionId {
        self.session.id()
    }

    /// Counters of the first connection up to `now`.
    pub(super) fn tally(&self, now: Instant) -> Tally {
        self.session.tally(0, now)
    }

    /// Counters of each connection up to `now`, with its portal, in the order of the CIDs.
    pub(super) fn tallies(&self, now: Instant) -> Vec<(String, Tally)> {
        let connections = self.config.connections.iter().zip(0..);
        let each = connections.map(|(connection, cid)| {
            let portal = connection.addresses[1].to_string();
            (portal, self.session.tally(cid, now))
        });
        each.collect()
    }

    /// Recoveries of the session.
    pub(super) fn recoveries(&self) -> Recoveries {
        self.recovery.totals()
    }

    /// How long the session has been without a connection, and how long a recovery attempt may take.
    pub(super) fn cut_off(&self, now: Instant) -> (Duration, Duration) {
        (self.recovery.cut_off(now), attempt_time(self.round_trip))
    }

    /// Logs out.
    pub(super) fn log_out(&mut self, now: Instant) {
        self.is_leaving = true;
        self.session.logout(now, &mut self.config.trace);
    }

    /// Closes the connections once the target has responded to the logout; returns whether all have ended.
    pub(super) fn has_left(&mut self, sockets: &mut Sockets) -> bool {
        if self.session.poll_event() == Some(Event::LoggedOut) {
            for line in &self.lines {
                sockets.shut(line.end);
            }
        }
        self.lines.iter().all(|line| sockets.has_ended(line.end))
    }

    /// Records the state of TCP on all its connections.
    pub(super) fn record_tcp(&mut self, sockets: &Sockets) {
        let trace = &mut self.config.trace;
        if !trace.tcp.is_kept() {
            return;
        }
        let id = self.session.id();
        for (line, connection) in self.lines.iter().zip(self.session.connections()) {
            trace.tcp(sockets.tcp(line.end, (id, connection.id())));
        }
    }

    /// Its records.
    pub(super) fn into_records(self) -> Recorder {
        self.config.trace
    }
}
