//! Several sessions with one logical unit, one over each route, and one queue above them.
//!
//! Each command goes to the session that is expected to complete it first ([`wansan_multipath`]). Commands that a lost
//! session had not answered go to the others, and the target is made to end the lost session, over a route that is up,
//! where it could still execute the session's writes after later ones.

mod begin;
mod errand;
mod fence;
mod leave;
mod path;
mod unit;
mod upkeep;

use std::collections::VecDeque;
use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use wansan_iscsi::initiator::{Command, Completion, Denied, Full, RouteQueue, Tally};
use wansan_iscsi::scsi::AdditionalSense;
use wansan_trace::{Instant, Kinds, Recorder, SessionId, clock};

use self::errand::Errands;
use self::fence::Step;
use self::path::{Down, Path, State};
pub use self::unit::Unit;
use crate::initiator::{
    Initiator, InitiatorConfig, InitiatorError, LONGEST_WAIT, Recoveries, Route, timespec,
};
use crate::reservation::{Claim, Reservation};
use crate::url::IscsiUrl;

/// How long segments of a reset connection may still arrive: the maximum segment lifetime (RFC 9293 §3.4.1).
const SEGMENT_LIFETIME: Duration = Duration::from_secs(120);

/// How often an idle route is pinged.
const IDLE_PING: Duration = Duration::from_secs(5);

/// An event of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteEvent {
    /// Its session was lost.
    Lost {
        /// The route.
        route: String,
        /// The cause.
        why: String,
    },
    /// It cannot be used; reported again only when the reason changes.
    Down {
        /// The route.
        route: String,
        /// The reason.
        why: String,
    },
    /// It is up again.
    Back {
        /// The route.
        route: String,
    },
    /// A unit attention, received by a command that is not the caller's.
    Attention {
        /// The route.
        route: String,
        /// The additional sense code.
        additional: AdditionalSense,
    },
}

impl fmt::Display for RouteEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RouteEvent::Lost { route, why } => write!(f, "route {route} is lost: {why}"),
            RouteEvent::Down { route, why } => write!(f, "route {route} cannot be used: {why}"),
            RouteEvent::Back { route } => write!(f, "route {route} is up"),
            RouteEvent::Attention { route, additional } => {
                write!(f, "unit attention over route {route}: {additional}")
            }
        }
    }
}

/// Sessions with one unit over several routes. The caller's thread does all the work except logging in again.
#[derive(Debug)]
pub struct MultipathSession {
    target: String,
    unit: Unit,
    lun: u16,
    config: Settings,
    requests: RouteQueue,
    paths: Vec<Path>,
    errands: Errands,
    events: VecDeque<RouteEvent>,
    /// Since when all routes have been down, and why the last one was lost.
    down: Option<(Instant, InitiatorError)>,
    /// Another host has preempted the unit: no session may be used any more.
    preempted: Option<InitiatorError>,
    /// Why the last attempt to log in failed.
    last_failure: Option<InitiatorError>,
    totals: Recoveries,
    /// When to ping idle routes next.
    next_ping: Instant,
    waker: Option<OwnedFd>,
}

#[derive(Debug)]
struct Settings {
    patience: Duration,
    replacement_timeout: Duration,
    /// The reservation that the sessions have registered for, unless released.
    reservation: Option<Reservation>,
}

impl MultipathSession {
    /// Logs in over all routes of `config`, or, without routes, over all portals that the target lists. Those that do
    /// not come up in time are retried later. Records are kept in at most `budget_bytes`.
    ///
    /// # Errors
    /// No route comes up, or two lead to different units.
    pub fn connect(
        url: &IscsiUrl,
        config: &InitiatorConfig,
        kinds: Kinds,
        budget_bytes: usize,
    ) -> Result<MultipathSession, InitiatorError> {
        let destinations = begin::destinations(url, config)?;
        let errands = Errands::new().map_err(InitiatorError::NoSocket)?;
        let patience = config.patience;
        let (mut joined, unit) = begin::log_in(&errands, &destinations, url.lun, patience)?;
        if let Some(reservation) = &config.reservation {
            begin::hold_all(&mut joined, (url.lun, &unit), reservation, patience)?;
        }
        let now = clock::now();
        let share_bytes = budget_bytes / destinations.len();
        let records = || Recorder::new(kinds, share_bytes);
        let paths = destinations
            .into_iter()
            .map(|to| Path::down(to, records(), now));
        let paths: Vec<Path> = paths.collect();
        let mut several = MultipathSession {
            target: url.target.clone(),
            unit,
            lun: url.lun,
            config: Settings {
                patience,
                replacement_timeout: config.replacement_timeout,
                reservation: config.reservation.clone(),
            },
            requests: RouteQueue::new(config.tasks, paths.len()),
            paths,
            errands,
            events: VecDeque::new(),
            down: None,
            preempted: None,
            last_failure: None,
            totals: Recoveries::default(),
            next_ping: now + IDLE_PING,
            waker: None,
        };
        if config.reservation.is_some() {
            several.requests.reserve();
        }
        for (place, joined) in joined.into_iter().enumerate() {
            match joined {
                Ok((initiator, unit)) => several.join(place, initiator, &unit, now),
                Err(error) => several.did_not_join(place, error, now),
            }
        }
        several.fence_all();
        Ok(several)
    }

    /// Queues a command. Its blocks are derived from its CDB and data: it must address this unit, or none.
    ///
    /// # Errors
    /// [`Full`] returns the command: take completions first.
    pub fn submit(&mut self, command: Command, now: Instant) -> Result<(), Full> {
        self.requests.submit(command, now)
    }

    /// The next completion, and its session.
    pub fn poll_completion(&mut self) -> Option<(SessionId, Completion)> {
        self.requests.poll_done()
    }

    /// The next event of a route.
    pub fn poll_event(&mut self) -> Option<RouteEvent> {
        self.events.pop_front()
    }

    /// From now on [`MultipathSession::turn`] also returns when `waker` is readable.
    pub fn wake_by(&mut self, waker: OwnedFd) {
        self.waker = Some(waker);
    }

    /// How long all routes have been down; zero while one is up.
    #[must_use]
    pub fn cut_off(&self, now: Instant) -> Duration {
        let since = self.down.as_ref().map(|(since, _)| *since);
        since.map_or(Duration::ZERO, |since| now - since)
    }

    /// Session losses recovered by other sessions or a new one, and the time without any session.
    #[must_use]
    pub fn recoveries(&self) -> Recoveries {
        self.totals
    }

    /// The longest timeout of a new login on any route that is up.
    #[must_use]
    pub fn attempt(&self) -> Duration {
        let each = self.paths.iter().filter_map(Path::up);
        let longest = each.map(Initiator::attempt).max();
        longest.unwrap_or(self.config.patience)
    }

    /// The routes, as given or as listed by the target.
    #[must_use]
    pub fn routes(&self) -> Vec<Route> {
        let paths = self.paths.iter();
        paths.map(|path| path.to.routes[0].route.clone()).collect()
    }

    /// Number of routes that are up, and in total.
    #[must_use]
    pub fn connections(&self) -> (usize, usize) {
        let up = self.paths.iter().filter_map(Path::up).count();
        (up, self.paths.len())
    }

    /// Counters of each route up to `now`, with its portal.
    #[must_use]
    pub fn tallies(&self, now: Instant) -> Vec<(String, Tally)> {
        let each = self.paths.iter();
        each.map(|path| (path.to.portal(), path.tally(now)))
            .collect()
    }

    /// Sends pending PDUs, waits for input until `deadline`, and handles it. Retries lost routes meanwhile.
    ///
    /// # Errors
    /// No route has come back in time; all commands complete with an error.
    pub fn turn(&mut self, deadline: Instant) -> Result<(), InitiatorError> {
        let turned = self.try_turn(deadline);
        if turned.is_err() {
            for place in 0..self.paths.len() {
                self.retire(place, true);
            }
            let session = self.paths[0].session;
            self.requests.give_up(session);
        }
        turned
    }

    fn try_turn(&mut self, deadline: Instant) -> Result<(), InitiatorError> {
        self.end_errands();
        self.ping_idle_routes();
        loop {
            let now = clock::now();
            self.check_down(now)?;
            self.begin_errands(now);
            while let Some((place, command, since)) = self.requests.poll(now) {
                let initiator = self.paths[place].up_mut();
                let given = initiator.map(|initiator| initiator.submit(command, since).is_ok());
                assert_eq!(
                    given,
                    Some(true),
                    "routes that are up have room for all commands"
                );
            }
            if self.send() {
                break;
            }
        }
        let ready = self.wait(deadline)?;
        for (place, is_ready) in ready {
            self.receive(place, is_ready);
        }
        Ok(())
    }

    fn ping_idle_routes(&mut self) {
        let now = clock::now();
        if now >= self.next_ping {
            self.next_ping = now + IDLE_PING;
            let up = self.paths.iter_mut().filter_map(Path::up_mut);
            up.for_each(Initiator::ping_if_idle);
        }
    }

    /// Sends in all sessions; returns whether none was lost.
    fn send(&mut self) -> bool {
        let mut are_up = true;
        for place in 0..self.paths.len() {
            let sent = self.paths[place].up_mut().map(Initiator::send);
            if let Some(Err(error)) = sent {
                are_up = false;
                self.lose(place, error);
            }
        }
        are_up
    }

    /// Waits for any session, an errand or the waker; returns the indices of routes that are up, and whether they have
    /// input.
    fn wait(&self, deadline: Instant) -> Result<Vec<(usize, bool)>, InitiatorError> {
        let now = clock::now();
        let left = match self.requests.has_done() {
            true => Duration::ZERO,
            false => deadline.min(self.wakes_at()).since(now).min(LONGEST_WAIT),
        };
        let up = self.paths.iter().enumerate();
        let up: Vec<(usize, &Initiator)> = up
            .filter_map(|(place, path)| Some((place, path.up()?)))
            .collect();
        let bell = self.errands.bell();
        let others = [Some(bell.as_fd()), self.waker.as_ref().map(AsFd::as_fd)];
        let others = others.into_iter().flatten();
        let mut fds: Vec<PollFd<'_>> = up
            .iter()
            .map(|(_, initiator)| initiator.awaited())
            .chain(others.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)))
            .collect();
        match poll(&mut fds, Some(&timespec(left))) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(InitiatorError::NoSocket(errno.into())),
        }
        let has_input =
            |fd: &PollFd<'_>| fd.revents().difference(PollFlags::OUT) != PollFlags::empty();
        let places = up.iter().map(|(place, _)| *place);
        Ok(places.zip(fds.iter().map(has_input)).collect())
    }

    /// When there is work to do even without input.
    fn wakes_at(&self) -> Instant {
        let errands = self.paths.iter().filter_map(|path| match &path.state {
            // Not for `expires_at`: it may have passed while only another route can end the session.
            State::Down(down) if !down.is_busy => Some(self.joins_at(down).min(down.fence_at)),
            _ => None,
        });
        let samples = self.paths.iter().filter_map(|path| path.up()?.samples_at());
        let down = self.down.as_ref();
        let over = down.map(|(since, _)| *since + self.config.replacement_timeout);
        let all = errands.chain(samples).chain(over);
        all.min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// Reads in the session at `place`, and takes its completions.
    fn receive(&mut self, place: usize, is_ready: bool) {
        let Some(initiator) = self.paths[place].up_mut() else {
            return;
        };
        if let Err(error) = initiator.receive_if(is_ready) {
            return self.lose(place, error);
        }
        if let Err(error) = self.take_completions(place) {
            self.lose(place, error);
        }
    }

    /// Takes the completions of the session at `place`.
    ///
    /// # Errors
    /// The unit can no longer be accessed through it.
    fn take_completions(&mut self, place: usize) -> Result<(), InitiatorError> {
        let routes = self.paths.len();
        let State::Up(initiator) = &mut self.paths[place].state else {
            return Ok(());
        };
        let now = clock::now();
        let session = initiator.session().id();
        let was_refused = self.requests.is_refused();
        let mut taken = Ok(());
        let mut fences = Vec::new();
        while let Some(done) = initiator.poll_completion(now) {
            match fence::place_of(done.user, routes) {
                Some(lost) => fences.push((lost, done)),
                None => taken = taken.and(self.requests.answered((place, session), done, now)),
            }
        }
        while initiator.poll_event().is_some() {}
        let mut taken = taken.map_err(|denied| self.denied(place, denied));
        for (lost, done) in fences {
            taken = taken.and(self.fence_answered((lost, place), &done));
        }
        if self.requests.is_refused() && !was_refused {
            let (lun, portal) = (self.lun, self.paths[place].to.portal());
            let route = self.paths[place].name();
            let why = InitiatorError::NotHonoured { lun, portal }.to_string();
            self.events.push_back(RouteEvent::Down { route, why });
        }
        taken
    }

    /// Why the unit can no longer be accessed through the session at `place`.
    fn denied(&self, place: usize, denied: Denied) -> InitiatorError {
        let (lun, portal) = (self.lun, self.paths[place].to.portal());
        match denied {
            Denied::PortGroup => InitiatorError::Unusable {
                lun,
                portal,
                problem: "the state of its target port group has changed".to_owned(),
            },
            // The login detects whether another host holds the unit.
            Denied::Registration => InitiatorError::Unregistered { lun, portal },
        }
    }

    /// Continues without the session at `place`.
    fn lose(&mut self, place: usize, error: InitiatorError) {
        self.retire(place, error.may_come_back());
        self.totals.sessions += 1;
        let (route, why) = (self.paths[place].name(), error.to_string());
        self.events.push_back(RouteEvent::Lost { route, why });
        if self.connections().0 == 0 {
            self.down = Some((clock::now(), error));
        }
    }

    /// Ends the session at `place`, if it is up, and takes back its unanswered commands.
    fn retire(&mut self, place: usize, may_come_back: bool) {
        let now = clock::now();
        let Some(initiator) = self.paths[place].up_mut() else {
            return;
        };
        initiator.end();
        // It is abandoned as it is.
        let _ = self.take_completions(place);
        let path = &mut self.paths[place];
        path.past = path.tally(now);
        let join_at = path.flapping.lost(now);
        let down = State::Down(Box::new(Down {
            is_busy: false,
            join_at,
            retry_at: join_at.min(path.flapping.failed(now)),
            fence_at: now,
            step: Step::Preempt,
            attentions: 0,
            expires_at: now + SEGMENT_LIFETIME,
            may_come_back,
            said: String::new(),
            said_unfenced: String::new(),
            records: Recorder::off(),
        }));
        if let State::Up(initiator) = std::mem::replace(&mut path.state, down)
            && let State::Down(down) = &mut path.state
        {
            down.records = initiator.abort();
        }
        self.requests.lost(place, path.session);
    }

    /// Fails once all routes have been down for too long, or none is expected to recover, or another host holds the
    /// unit.
    fn check_down(&mut self, now: Instant) -> Result<(), InitiatorError> {
        if let Some(preempted) = self.preempted.take() {
            return Err(preempted);
        }
        let timeout = self.config.replacement_timeout;
        let may_come_back = self
            .paths
            .iter()
            .any(|path| matches!(&path.state, State::Down(down) if down.may_come_back));
        let is_over =
            |(since, _): &mut (Instant, InitiatorError)| now - *since >= timeout || !may_come_back;
        let Some((since, cause)) = self.down.take_if(is_over) else {
            return Ok(());
        };
        self.totals.lost += now - since;
        if timeout.is_zero() || !may_come_back {
            return Err(cause);
        }
        Err(InitiatorError::NotBack {
            target: self.target.clone(),
            cause: Box::new(cause),
            timeout,
            last_failure: self.last_failure.take().map(Box::new),
        })
    }

    /// Submits one command and waits for its completion; no other command may be outstanding.
    ///
    /// # Errors
    /// As for [`MultipathSession::turn`].
    ///
    /// # Panics
    /// If the queue is full, which is impossible without other commands.
    pub fn execute(&mut self, command: Command) -> Result<Completion, InitiatorError> {
        self.submit(command, clock::now())
            .expect("an idle queue takes a command");
        loop {
            if let Some((_, completion)) = self.poll_completion() {
                return Ok(completion);
            }
            self.turn(Instant::FAR_FUTURE)?;
        }
    }

    /// How replacement sessions reserve the unit, if these have.
    #[must_use]
    pub fn kept(&self) -> Option<Reservation> {
        let reservation = self.config.reservation.clone()?;
        let claim = Claim::Keep(self.unit.clone());
        Some(Reservation {
            claim,
            ..reservation
        })
    }

    /// The records of failed sessions.
    #[must_use]
    pub fn into_records(self) -> Vec<Recorder> {
        if let Some(reservation) = &self.config.reservation {
            // Logins in progress must not register any more: nobody would unregister.
            let _ = reservation.registering.end();
        }
        let each = self.paths.into_iter().map(|path| match path.state {
            State::Up(initiator) => initiator.into_records(),
            State::Down(down) => down.records,
        });
        each.collect()
    }
}
