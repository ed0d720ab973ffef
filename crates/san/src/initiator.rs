//! The initiator client: one session over sockets, driven by the caller's thread.

pub(crate) mod dial;
mod error;
mod identity_check;
pub(crate) mod login;
mod reading;
mod recovery;
mod route;
mod socket;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;
use wansan_iscsi::initiator::{
    Command, Completion, Event, Full, Lost, NotBack, Schedule, Session, Splitter, Tally,
    attempt_time,
};
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::login::chap::InitiatorAccounts;
use wansan_iscsi::wire::Lun;
use wansan_tcp::{DelayedAck, TcpInfo, queues};
use wansan_trace::{Instant, Recorder, clock};

use self::dial::Destination;
pub use self::error::InitiatorError;
use self::identity_check::KnownUnit;
use self::reading::Reading;
use self::recovery::{Attempt, Dials, Recovery};
pub use self::route::{Portal, Route, RouteError};
use self::socket::Socket;
use crate::identity::UnitIdentity;
use crate::multipath::RouteEvent;
use crate::reservation::Reservation;
use crate::url::IscsiUrl;
pub use wansan_iscsi::initiator::Recoveries;

/// The settings of a session.
#[derive(Debug, Clone)]
pub struct InitiatorConfig {
    /// This initiator's iSCSI name (RFC 7143 §4.2.7).
    pub name: String,
    /// ISID. Each session of one initiator with one target needs its own.
    pub isid: [u8; 6],
    /// CHAP accounts, for targets that require CHAP.
    pub chap: Option<Arc<InitiatorAccounts>>,
    /// The values to negotiate.
    pub wanted: Wanted,
    /// Maximum number of queued and outstanding tasks.
    pub tasks: usize,
    /// The route of each connection of the session; empty for one connection to the portal of the
    /// URL.
    pub routes: Vec<Route>,
    /// Each route has its own session, instead of a connection of one session; without routes, each portal that the
    /// target lists has one.
    pub multipath: bool,
    /// Each session registers with the unit, and together they reserve it. Then each route has its own session, too.
    pub reservation: Option<Reservation>,
    /// How commands are distributed over the connections.
    pub schedule: Schedule,
    /// TCP congestion control of the connections; the system default if `None`.
    pub congestion_control: Option<String>,
    /// Delayed acknowledgement of what the target sends.
    pub delayed_ack: DelayedAck,
    /// Timeout for connecting and login together, and for a logout.
    pub patience: Duration,
    /// How long a session without connections may take to recover before its commands fail; zero
    /// disables recovery.
    pub replacement_timeout: Duration,
    /// Interval of TCP_INFO records, if they are recorded.
    pub tcp_interval: Duration,
}

/// A session with a target, in full feature phase, over one connection or several.
///
/// The caller's thread does all the work: [`Initiator::submit`] queues commands,
/// [`Initiator::turn`] sends, waits and receives, [`Initiator::poll_completion`] returns
/// completions.
#[derive(Debug)]
pub struct Initiator {
    to: Destination,
    /// Between the caller and the session.
    splitter: Splitter,
    session: Session,
    /// The sockets, by the index of their connection.
    sockets: Vec<Socket>,
    recovery: Recovery,
    /// The unit of the session, if known.
    unit: Option<KnownUnit>,
    has_told_other_unit: bool,
    trace: Recorder,
    next_tcp_sample: Instant,
    /// When to check silent connections again.
    next_look: Instant,
    reading: Reading,
    /// The session is being logged out: failed connections are not set up again.
    is_leaving: bool,
    /// The session has ended: unsent commands complete as failed.
    has_ended: bool,
    /// Ends a wait when it becomes readable.
    waker: Option<OwnedFd>,
}

/// A failure of the connection at an index, or of all.
#[derive(Debug)]
struct Broken {
    place: Option<usize>,
    error: InitiatorError,
}

impl Broken {
    fn at(place: usize) -> impl FnOnce(InitiatorError) -> Broken {
        move |error| Broken {
            place: Some(place),
            error,
        }
    }
}

/// The longest wait in the kernel, so that silent connections are noticed.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// Longest wait of a blocking read. Nearer deadlines are waited for exactly.
const BLOCKING_WAIT: Duration = Duration::from_millis(20);
/// How long a target may take to close the connections of a logged-out session; one that leaves it to the initiator
/// costs this once.
const FAREWELL: Duration = Duration::from_secs(2);

impl Initiator {
    /// Connects and logs in to the target that `url` names. Records go to `trace`.
    ///
    /// # Errors
    /// [`InitiatorError`], by what failed.
    pub fn connect(
        url: &IscsiUrl,
        config: &InitiatorConfig,
        trace: Recorder,
    ) -> Result<Initiator, InitiatorError> {
        login::connect(url, config, trace)
    }

    /// An initiator over logged-in connections.
    fn over(session: Session, sockets: Vec<Socket>, to: Destination, trace: Recorder) -> Initiator {
        let now = clock::now();
        let mut initiator = Initiator {
            splitter: Splitter::new(to.config.tasks),
            to,
            session,
            sockets,
            recovery: Recovery::default(),
            unit: None,
            has_told_other_unit: false,
            trace,
            next_tcp_sample: now,
            next_look: now,
            reading: Reading::new(now),
            is_leaving: false,
            has_ended: false,
            waker: None,
        };
        initiator.look_at_new_lines(now);
        initiator
    }

    /// From now on, a session that replaces this one must lead to LUN `number` with this identity; otherwise nothing is
    /// resent in it.
    pub(crate) fn expect_unit(&mut self, number: u16, at: Lun, identity: UnitIdentity) {
        self.unit = Some(KnownUnit {
            number,
            at,
            identity,
        });
    }

    /// Returns, once per outage, that the session is not recovered because the unit is another one.
    pub(crate) fn poll_other_unit(&mut self) -> Option<RouteEvent> {
        let failure = self.recovery.last_failure();
        let other = failure.filter(|failure| matches!(failure, InitiatorError::OtherUnit { .. }));
        let is_new = !std::mem::replace(&mut self.has_told_other_unit, other.is_some());
        let why = other.filter(|_| is_new)?.to_string();
        let route = self.to.portal();
        Some(RouteEvent::Down { route, why })
    }

    /// Starts records and stamps of new sockets.
    fn look_at_new_lines(&mut self, now: Instant) {
        let (id, keys) = (self.session.id(), *self.session.parameters());
        for (socket, connection) in self.sockets.iter_mut().zip(self.session.connections()) {
            socket.begin_records(id, &keys, connection, now, &mut self.trace);
        }
        self.look_at_tcp(now);
    }

    /// The session, for its parameters and its window.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The route of each connection.
    #[must_use]
    pub fn routes(&self) -> Vec<Route> {
        let routes = self.to.routes.iter();
        routes.map(|resolved| resolved.route.clone()).collect()
    }

    /// Number of connections that are up, and in total.
    #[must_use]
    pub fn connections(&self) -> (usize, usize) {
        (self.sockets.len(), self.to.routes.len())
    }

    /// Counters of each connection up to `now`, with its portal, in the order of the CIDs.
    #[must_use]
    pub fn tallies(&self, now: Instant) -> Vec<(String, Tally)> {
        let cids = 0..self.to.routes.len() as u16;
        let portals = self.to.routes.iter().map(|route| route.route.portal());
        portals
            .zip(cids.map(|cid| self.session.tally(cid, now)))
            .collect()
    }

    /// Recoveries of the session.
    #[must_use]
    pub fn recoveries(&self) -> Recoveries {
        self.recovery.totals()
    }

    /// How long the session has been without any connection; zero while it has one.
    #[must_use]
    pub fn cut_off(&self, now: Instant) -> Duration {
        self.recovery.cut_off(now)
    }

    /// Timeout of one recovery attempt; grows with the round-trip time.
    #[must_use]
    pub fn attempt(&self) -> Duration {
        attempt_time(self.to.round_trip)
    }

    /// The minimum round-trip time of the session's first connection by TCP, in ns; 0 when the kernel does not report
    /// it.
    #[must_use]
    pub fn min_rtt_ns(&self) -> u64 {
        let first = self
            .sockets
            .first()
            .and_then(|socket| TcpInfo::of(&socket.stream).ok());
        first.map_or(0, |info| info.min_rtt_ns())
    }

    /// Queues a command. A write longer than one round of R2Ts is split ([`Splitter`]).
    ///
    /// # Errors
    /// [`Full`] returns the command: take completions first.
    pub fn submit(&mut self, command: Command, now: Instant) -> Result<(), Full> {
        match self.splitter.submit(command, self.session.parameters())? {
            Some(whole) => self.enqueue(whole, now),
            None => self.hand_over(now),
        }
        Ok(())
    }

    /// The next completion, if there is one.
    pub fn poll_completion(&mut self, now: Instant) -> Option<Completion> {
        loop {
            let completion = self.session.poll_completion(now, &mut self.trace)?;
            let completion = self.splitter.completed(completion);
            self.hand_over(now);
            if completion.is_some() {
                return completion;
            }
        }
    }

    /// Submits the parts of writes that the session has room for.
    fn hand_over(&mut self, now: Instant) {
        while let Some(part) = self.splitter.poll_command() {
            self.enqueue(part, now);
        }
        if self.has_ended {
            self.session.end(now, &mut self.trace);
        }
    }

    fn enqueue(&mut self, command: Command, now: Instant) {
        self.session
            .submit(command, now, &mut self.trace)
            .expect("the session was made for as many tasks as the splitter gives it");
    }

    /// From now on [`Initiator::turn`] also returns when `waker` is readable. With an epoll instance it waits for
    /// everything that the caller waits for.
    pub fn wake_by(&mut self, waker: OwnedFd) {
        self.waker = Some(waker);
    }

    /// The next event, if there is one.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.session.poll_event()
    }

    /// Sends pending PDUs, waits for input until `deadline`, and handles it. Recovers a session that has lost its
    /// connections meanwhile, over as many turns as that takes.
    ///
    /// # Errors
    /// The session has ended; its tasks complete with an error.
    pub fn turn(&mut self, deadline: Instant) -> Result<(), InitiatorError> {
        let turned = self.try_turn(deadline);
        if turned.is_err() {
            self.end();
        }
        turned
    }

    /// First half of a turn, for a caller that waits for several sessions at once: sends pending PDUs.
    ///
    /// # Errors
    /// As for [`Initiator::turn`].
    pub(crate) fn send(&mut self) -> Result<(), InitiatorError> {
        let now = clock::now();
        let sent = self.flush(now);
        self.sample_tcp(now);
        self.or_end(sent)
    }

    /// What to poll between the halves of a turn, for a session with one connection.
    pub(crate) fn awaited(&self) -> PollFd<'_> {
        self.sockets[0].awaited()
    }

    /// The second half: reads available input, and checks whether the connection has been silent for too long.
    ///
    /// # Errors
    /// As for [`Initiator::turn`].
    pub(crate) fn receive_if(&mut self, is_ready: bool) -> Result<(), InitiatorError> {
        let received = match is_ready {
            true => self.receive(0, RecvFlags::DONTWAIT),
            false => self.look_after_silent_ones(),
        };
        self.or_end(received)
    }

    fn or_end(&mut self, done: Result<(), Broken>) -> Result<(), InitiatorError> {
        let done = done.or_else(|broken| self.lose(broken));
        if done.is_err() {
            self.end();
        }
        done
    }

    /// When to record TCP_INFO next, while commands are outstanding.
    pub(crate) fn samples_at(&self) -> Option<Instant> {
        let samples = self.trace.tcp.is_kept() && self.session.in_flight() > 0;
        samples.then_some(self.next_tcp_sample)
    }

    /// Pings the target if no response is outstanding: otherwise a connection lost while idle is only noticed by the
    /// next command.
    pub(crate) fn ping_if_idle(&mut self) {
        if self.session.in_flight() == 0 {
            // With as many requests outstanding as the session takes, responses are due anyway.
            let _ = self.session.ping(clock::now(), &mut self.trace);
        }
    }

    /// Ends the session: its commands complete.
    pub(crate) fn end(&mut self) {
        self.has_ended = true;
        self.session.end(clock::now(), &mut self.trace);
    }

    /// Sets the timeout of a logout.
    pub(crate) fn be_patient(&mut self, patience: Duration) {
        self.to.config.patience = patience;
    }

    /// Records to `trace` from now on, as if the session began now.
    pub(crate) fn record_to(&mut self, trace: Recorder) {
        self.trace = trace;
        for socket in &mut self.sockets {
            socket.forget_records();
        }
        self.look_at_new_lines(clock::now());
    }

    /// Resets the connections of a lost session, so that the kernel sends nothing of it any more. Returns the records.
    pub(crate) fn abort(mut self) -> Recorder {
        for socket in self.sockets.drain(..) {
            socket.abort(&mut self.trace);
        }
        self.trace
    }

    /// The destination of its connections, after redirections.
    pub(crate) fn destination(&self) -> &Destination {
        &self.to
    }

    fn try_turn(&mut self, deadline: Instant) -> Result<(), InitiatorError> {
        if !self.recovery.is_idle() {
            let (up, now) = (self.sockets.len(), clock::now());
            let mut dials = Dials {
                to: &self.to,
                unit: self.unit.as_ref(),
                trace: &mut self.trace,
            };
            let advanced = self.recovery.advance(
                &self.to.recovery(),
                self.to.round_trip,
                &mut self.session,
                &mut self.sockets,
                &mut dials,
                now,
            );
            advanced.map_err(
                |NotBack {
                     cause,
                     last_failure,
                 }| InitiatorError::NotBack {
                    target: self.to.in_words().to_owned(),
                    cause: Box::new(cause),
                    timeout: self.to.config.replacement_timeout,
                    last_failure: last_failure.map(Box::new),
                },
            )?;
            if self.sockets.len() > up {
                self.look_at_new_lines(now);
            }
        }
        self.work(deadline).or_else(|broken| self.lose(broken))
    }

    fn work(&mut self, deadline: Instant) -> Result<(), Broken> {
        let now = clock::now();
        self.flush(now)?;
        self.sample_tcp(now);
        let left = deadline.since(clock::now()).min(LONGEST_WAIT);
        let is_alone = self.sockets.len() == 1 && self.recovery.is_idle() && self.waker.is_none();
        if is_alone && !self.sockets[0].is_blocked && left > BLOCKING_WAIT {
            // Only a response can come next: one system call waits for it and reads it.
            return self.receive(0, RecvFlags::empty());
        }
        // Nothing changes while no command is outstanding.
        let left = match self.samples_at() {
            Some(next) => left.min(next.since(clock::now())),
            None => left,
        };
        if !is_alone {
            return self.wait_for_any(left);
        }
        let mut fds = [self.sockets[0].awaited()];
        wait(&mut fds, left)?;
        self.receive(0, RecvFlags::DONTWAIT)
    }

    /// Continues without the connection, or without the session, if recovery is enabled.
    fn lose(&mut self, broken: Broken) -> Result<(), InitiatorError> {
        let Broken { place, error } = broken;
        let is_patient = !self.to.config.replacement_timeout.is_zero() && !self.is_leaving;
        if !is_patient || !error.is_of_the_path() {
            return Err(error);
        }
        let lost = Lost {
            place,
            ends_session: error.ends_session(),
            error,
        };
        let mut dials = Dials {
            to: &self.to,
            unit: self.unit.as_ref(),
            trace: &mut self.trace,
        };
        let (session, sockets) = (&mut self.session, &mut self.sockets);
        let settings = self.to.recovery();
        self.recovery
            .lose(&settings, session, sockets, lost, &mut dials, clock::now());
        Ok(())
    }

    /// Sends until nothing is left or no socket accepts more.
    fn flush(&mut self, now: Instant) -> Result<(), Broken> {
        if self.session.needs_acknowledged() {
            self.ask_what_was_acknowledged(now);
        }
        loop {
            self.session.pump(now, &mut self.trace);
            let mut has_sent = false;
            let sockets = self.sockets.iter_mut().zip(self.session.connections());
            for (place, (socket, connection)) in sockets.enumerate() {
                if !connection.pending().is_empty() {
                    let sent = socket.send(connection, &mut self.trace);
                    sent.map_err(Broken::at(place))?;
                    has_sent |= !socket.is_blocked;
                }
            }
            if !has_sent {
                return Ok(());
            }
        }
    }

    /// Tells the session how much of each connection's stream the target's TCP has acknowledged.
    fn ask_what_was_acknowledged(&mut self, now: Instant) {
        for (place, socket) in self.sockets.iter().enumerate() {
            let connection = self.session.connections().get(place);
            // If the kernel does not report it, only SCSI statuses show progress.
            if let (Some(connection), Ok(unacked_bytes)) =
                (connection, queues::unacked_bytes(&socket.stream))
            {
                let acked_bytes = connection.sent_bytes().saturating_sub(unacked_bytes);
                self.session.acknowledged(place, acked_bytes, now);
            }
        }
    }

    /// Waits for all sockets at once, at most `left`, and reads from those with input.
    fn wait_for_any(&mut self, left: Duration) -> Result<(), Broken> {
        let now = clock::now();
        let left = left.min(self.recovery.wakes_at::<Dials<'_>>().since(now));
        let sockets = self.sockets.iter().map(Socket::awaited);
        let waker = self.waker.as_ref().map(AsFd::as_fd);
        let mut fds: Vec<PollFd<'_>> = sockets
            .chain(self.recovery.dials().map(Attempt::awaited))
            .chain(waker.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)))
            .collect();
        wait(&mut fds, left)?;
        let is_ready =
            |fd: &PollFd<'_>| fd.revents().difference(PollFlags::OUT) != PollFlags::empty();
        let ready: Vec<bool> = fds.iter().take(self.sockets.len()).map(is_ready).collect();
        for (place, _) in ready.iter().enumerate().filter(|(_, ready)| **ready) {
            self.receive(place, RecvFlags::DONTWAIT)?;
        }
        self.look_after_silent_ones()
    }

    /// Reads available input of the connection at `place`; without DONTWAIT it waits for input, at most
    /// [`BLOCKING_WAIT`].
    fn receive(&mut self, place: usize, flags: RecvFlags) -> Result<(), Broken> {
        let most_bytes = self.reading.most_bytes(self.session.awaited_bytes());
        let socket = &mut self.sockets[place];
        let connection = &mut self.session.connections()[place];
        let received = socket.receive(connection, most_bytes, flags, &mut self.trace);
        let Some(now) = received.map_err(Broken::at(place))? else {
            return self.look_after_silent_ones();
        };
        self.reading.look(now);
        let received = self.session.receive(place, now, &mut self.trace);
        received.map_err(|source| {
            Broken::at(place)(InitiatorError::Session {
                portal: self.sockets[place].portal.clone(),
                source,
            })
        })
    }

    /// Pings silent connections with responses outstanding, and drops one that has been silent for too long. Call it
    /// after all available input was read.
    fn look_after_silent_ones(&mut self) -> Result<(), Broken> {
        let now = clock::now();
        if now < self.next_look || self.is_leaving {
            return Ok(());
        }
        if self.keep_alive(now).is_ok() {
            return Ok(());
        }
        self.look_at_tcp(now);
        // A connection is lost only if TCP has not heard from the target either.
        match self.keep_alive(now) {
            Ok(()) => Ok(()),
            Err(place) => Err(Broken::at(place)(InitiatorError::Silent {
                portal: self.sockets[place].portal.clone(),
            })),
        }
    }

    fn keep_alive(&mut self, now: Instant) -> Result<(), usize> {
        let next = self.session.keep_alive(now, &mut self.trace)?;
        self.next_look = next.min(now + LONGEST_WAIT);
        Ok(())
    }

    fn look_at_tcp(&mut self, now: Instant) {
        for (socket, connection) in self.sockets.iter_mut().zip(self.session.connections()) {
            self.to.round_trip = socket.look_at_tcp(connection, now);
        }
    }

    fn sample_tcp(&mut self, now: Instant) {
        if self.trace.tcp.is_kept() && now >= self.next_tcp_sample {
            self.next_tcp_sample = now + self.to.config.tcp_interval;
            let id = self.session.id();
            for (socket, connection) in self.sockets.iter().zip(self.session.connections()) {
                if let Ok(record) = TcpInfo::sample(&socket.stream, now, id, connection.id()) {
                    self.trace.tcp(record);
                }
            }
        }
    }

    /// Submits one command and waits for its completion. For the few commands before and after a
    /// load; no other command may be outstanding.
    ///
    /// # Errors
    /// As for [`Initiator::turn`].
    ///
    /// # Panics
    /// If the session's queue is full, which is impossible without other commands.
    pub fn execute(&mut self, command: Command) -> Result<Completion, InitiatorError> {
        self.execute_until(command, Instant::FAR_FUTURE)
    }

    /// The same, but fails at `deadline`; the session is unusable then.
    pub(crate) fn execute_until(
        &mut self,
        command: Command,
        deadline: Instant,
    ) -> Result<Completion, InitiatorError> {
        self.submit(command, clock::now())
            .expect("an idle session takes a command");
        loop {
            if let Some(completion) = self.poll_completion(clock::now()) {
                return Ok(completion);
            }
            if clock::now() >= deadline {
                return Err(self.is_slow());
            }
            self.turn(deadline)?;
        }
    }

    /// The error of a session that did not respond in time.
    pub(crate) fn is_slow(&self) -> InitiatorError {
        InitiatorError::Slow {
            portal: self.to.portal(),
            patience: self.to.config.patience,
        }
    }

    /// Logs out, closes the connections and returns the records, even if the target does not answer
    /// the logout.
    #[must_use]
    pub fn logout(mut self) -> Recorder {
        self.is_leaving = true;
        let deadline = clock::now() + self.to.config.patience;
        self.settle(deadline);
        if self.session.logout(clock::now(), &mut self.trace).is_some() {
            while clock::now() < deadline && self.turn(deadline).is_ok() {
                if std::iter::from_fn(|| self.poll_event()).any(|event| event == Event::LoggedOut) {
                    self.await_ends(deadline);
                    break;
                }
            }
        }
        for socket in &self.sockets {
            socket.close();
        }
        self.into_records()
    }

    /// Waits until only the connection of the logout has data in flight: the target may already count recovered
    /// connections as part of the session, and data that arrives on one after the logout, such as acknowledgements,
    /// makes LIO's kernel (Linux 6.1) close it at once and panic as it walks the others.
    fn settle(&mut self, deadline: Instant) {
        let mut has_asked = false;
        while !self.sockets.is_empty() && clock::now() < deadline {
            self.recovery.settle();
            if self.recovery.is_idle() {
                if self.sockets.len() > 1 && !has_asked {
                    has_asked = true;
                    self.session.ask_each(clock::now(), &mut self.trace);
                }
                if !self.session.is_asking() {
                    return;
                }
            }
            if self.turn(deadline).is_err() {
                return;
            }
        }
    }

    /// Lets the target close the connections of a logged-out session, one after another if there are several. If we
    /// closed them all at once, they would end at once there too, where LIO's kernel (Linux 6.1) panics as it walks
    /// them.
    fn await_ends(&self, deadline: Instant) {
        if self.sockets.len() > 1 {
            let deadline = deadline.min(clock::now() + FAREWELL);
            for socket in &self.sockets {
                socket.await_end(deadline);
            }
        }
    }

    /// The records of a failed session.
    #[must_use]
    pub fn into_records(mut self) -> Recorder {
        for socket in &mut self.sockets {
            socket.finish_stamps(&mut self.trace);
        }
        self.trace
    }
}

/// Waits at most `left` for one of `fds`.
fn wait(fds: &mut [PollFd<'_>], left: Duration) -> Result<(), Broken> {
    match poll(fds, Some(&timespec(left))) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(errno) => Err(Broken {
            place: None,
            error: InitiatorError::NoSocket(errno.into()),
        }),
    }
}

/// In the kernel's format.
pub(crate) fn timespec(left: Duration) -> Timespec {
    Timespec::try_from(left).unwrap_or(Timespec {
        tv_sec: i64::MAX,
        tv_nsec: 0,
    })
}
