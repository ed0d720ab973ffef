//! Several sessions of an initiator with one unit, one over each route, and one queue above them.
//!
//! As in the world outside, but that a lost session's writes are waited for until its own route is back: no other route
//! has the target end it before.

use std::time::Duration;

use wansan_iscsi::initiator::{
    Command, Completion, Handshake, Recoveries, RouteQueue, Splitter, Tally,
};
use wansan_multipath::Flapping;
use wansan_trace::{Instant, Recorder, SessionId};

use super::client::Client;
use super::dial::{Dial, Patience};
use super::initiator::{InitiatorConfig, InitiatorError};
use super::socket::{Owner, Sockets};

/// The byte of an ISID that tells the sessions of one initiator apart; those of different ones differ in others.
const ROUTE_BYTE: usize = 3;

/// Sessions over several routes.
#[derive(Debug)]
pub(super) struct Several {
    owner: Owner,
    /// Without the connections, which the routes have.
    pub(super) config: InitiatorConfig,
    queue: RouteQueue,
    paths: Vec<Path>,
    totals: Recoveries,
    /// Since when no route has been up, and why the last one was lost.
    down: Option<(Instant, InitiatorError)>,
    /// Why the last login failed.
    last_failure: Option<InitiatorError>,
    is_leaving: bool,
}

/// A route.
#[derive(Debug)]
struct Path {
    state: State,
    flapping: Flapping,
    portal: String,
    /// Its first login is over.
    has_begun: bool,
    /// Of the last session over it.
    session: SessionId,
    /// Of sessions before this one.
    past: Tally,
}

#[derive(Debug)]
enum State {
    Up(Box<Client>),
    Dialing(Box<InitiatorConfig>, Box<Dial>),
    /// Until it is tried again.
    Down(Box<InitiatorConfig>, Instant),
    /// Between two others.
    Nothing,
}

impl Path {
    fn up(&self) -> Option<&Client> {
        match &self.state {
            State::Up(client) => Some(client),
            _ => None,
        }
    }

    fn up_mut(&mut self) -> Option<&mut Client> {
        match &mut self.state {
            State::Up(client) => Some(client),
            _ => None,
        }
    }

    fn tally(&self, now: Instant) -> Tally {
        match self.up() {
            Some(client) => client.tally(now).continuing(&self.past),
            None => Tally {
                at: now,
                ..self.past
            },
        }
    }
}

impl Several {
    /// Over all connections of `config`, each of which will be a session of its own.
    pub(super) fn new(owner: Owner, mut config: InitiatorConfig, now: Instant) -> Several {
        let connections = std::mem::take(&mut config.connections);
        let paths = connections.into_iter().zip(0_u8..);
        let paths = paths.map(|(connection, place)| {
            let mut login = config.login.clone();
            login.isid[ROUTE_BYTE] = place;
            login.wanted.max_connections = 1;
            let portal = connection.addresses[1].to_string();
            let own = InitiatorConfig {
                login,
                connections: vec![connection],
                multipath: false,
                schedule: config.schedule,
                lun: config.lun,
                load: config.load.clone(),
                patience: Patience {
                    replacement: Duration::ZERO,
                    ..config.patience
                },
                trace: config.trace.another(),
            };
            Path {
                state: State::Down(Box::new(own), now),
                flapping: Flapping::up(now),
                portal,
                has_begun: false,
                session: SessionId::default(),
                past: Tally::default(),
            }
        });
        let paths: Vec<Path> = paths.collect();
        Several {
            owner,
            queue: RouteQueue::new(config.load.parallel.max(1), paths.len()),
            config,
            paths,
            totals: Recoveries::default(),
            down: None,
            last_failure: None,
            is_leaving: false,
        }
    }

    /// Whether the first logins are over.
    ///
    /// # Errors
    /// All have failed.
    pub(super) fn has_begun(&mut self) -> Result<bool, InitiatorError> {
        let is_over = self.paths.iter().all(|path| path.has_begun);
        let is_up = self.paths.iter().any(|path| path.up().is_some());
        match self.last_failure.take_if(|_| is_over && !is_up) {
            Some(error) => Err(error),
            None => Ok(is_over),
        }
    }

    pub(super) fn wakes_at(&self) -> Instant {
        if self.is_leaving {
            return Instant::FAR_FUTURE;
        }
        let each = self.paths.iter().map(|path| match &path.state {
            State::Up(client) => client.wakes_at(),
            State::Dialing(_, dial) => dial.deadline(),
            State::Down(_, next) => *next,
            State::Nothing => Instant::FAR_FUTURE,
        });
        let down = self.down.as_ref();
        let over = down.map(|(since, _)| *since + self.config.patience.replacement);
        each.chain(over).min().unwrap_or(Instant::FAR_FUTURE)
    }

    pub(super) fn turn(&mut self, sockets: &mut Sockets) -> Result<bool, InitiatorError> {
        let now = sockets.now();
        let mut has_done = false;
        for place in 0..self.paths.len() {
            has_done |= self.log_in(place, sockets)?;
        }
        while let Some((place, command)) = self.queue.poll(now) {
            has_done = true;
            if let Some(client) = self.paths[place].up_mut() {
                client.submit(command, now);
            }
        }
        for place in 0..self.paths.len() {
            let turned = self.paths[place]
                .up_mut()
                .map(|client| client.turn(sockets));
            match turned {
                Some(Ok(done)) => has_done |= done,
                Some(Err(error)) => {
                    self.lose(place, error, sockets);
                    has_done = true;
                }
                None => {}
            }
            self.take_completions(place, now);
        }
        self.check_down(now)?;
        Ok(has_done)
    }

    /// Goes on with the login over the route at `place`, if it is down; whether that has changed anything.
    fn log_in(&mut self, place: usize, sockets: &mut Sockets) -> Result<bool, InitiatorError> {
        let now = sockets.now();
        let path = &mut self.paths[place];
        match std::mem::replace(&mut path.state, State::Nothing) {
            State::Down(config, next) if now >= next && !self.is_leaving => {
                let handshake = Handshake::lead(&config.login)?;
                let patience = config.patience.login;
                let dial = Dial::begin(&config, self.owner, 0, handshake, patience, sockets);
                path.state = State::Dialing(config, Box::new(dial));
                Ok(true)
            }
            State::Dialing(config, mut dial) => match dial.step(sockets) {
                Ok(false) => {
                    path.state = State::Dialing(config, dial);
                    Ok(false)
                }
                Ok(true) => {
                    let (line, handshake) = dial.into_parts();
                    let tasks = Splitter::session_tasks(config.load.parallel.max(1));
                    let session = handshake.into_session(tasks)?;
                    path.session = session.id();
                    let client = Client::over(self.owner, *config, session, vec![line], sockets);
                    path.state = State::Up(Box::new(client));
                    path.has_begun = true;
                    path.flapping.back(now);
                    self.queue.up(place, 0);
                    if let Some((since, _)) = self.down.take() {
                        self.totals.lost += now - since;
                    }
                    Ok(true)
                }
                Err(error) => {
                    path.state = State::Down(config, path.flapping.failed(now));
                    path.has_begun = true;
                    self.last_failure = Some(error);
                    Ok(true)
                }
            },
            other => {
                path.state = other;
                Ok(false)
            }
        }
    }

    fn take_completions(&mut self, place: usize, now: Instant) {
        let path = &mut self.paths[place];
        if let State::Up(client) = &mut path.state {
            while let Some(done) = client.poll_completion(now) {
                self.queue.answered((place, path.session), done, now);
            }
        }
    }

    /// Goes on without the session at `place`.
    fn lose(&mut self, place: usize, error: InitiatorError, sockets: &mut Sockets) {
        let now = sockets.now();
        if let Some(client) = self.paths[place].up_mut() {
            client.end(now);
        }
        self.take_completions(place, now);
        let path = &mut self.paths[place];
        path.past = path.tally(now);
        let next = path.flapping.lost(now);
        if let State::Up(client) = std::mem::replace(&mut path.state, State::Nothing) {
            path.state = State::Down(Box::new(client.abandon(sockets)), next);
        }
        self.queue.lost(place, path.session);
        self.totals.sessions += 1;
        if self.paths.iter().all(|path| path.up().is_none()) {
            self.down = Some((now, error));
        }
    }

    /// Fails once no route has been up for too long.
    fn check_down(&mut self, now: Instant) -> Result<(), InitiatorError> {
        let timeout = self.config.patience.replacement;
        let is_over = |(since, cause): &mut (Instant, InitiatorError)| {
            now - *since >= timeout || !cause.is_of_the_path()
        };
        match self.down.take_if(is_over) {
            None => Ok(()),
            Some((_, cause)) if timeout.is_zero() || !cause.is_of_the_path() => Err(cause),
            Some((_, cause)) => Err(InitiatorError::NotBack {
                cause: Box::new(cause),
                timeout,
                last_failure: self.last_failure.take().map(Box::new),
            }),
        }
    }

    pub(super) fn submit(&mut self, command: Command) {
        let taken = self.queue.submit(command).is_ok();
        assert!(taken, "it has room for the load's I/Os");
    }

    pub(super) fn poll_completion(&mut self) -> Option<Completion> {
        self.queue.poll_done().map(|(_, done)| done)
    }

    pub(super) fn tallies(&self, now: Instant) -> Vec<(String, Tally)> {
        let each = self.paths.iter();
        each.map(|path| (path.portal.clone(), path.tally(now)))
            .collect()
    }

    pub(super) fn recoveries(&self) -> Recoveries {
        self.totals
    }

    pub(super) fn cut_off(&self, now: Instant) -> (Duration, Duration) {
        let since = self.down.as_ref().map(|(since, _)| *since);
        let up = self.paths.iter().filter_map(Path::up);
        let attempts = up.map(|client| client.cut_off(now).1);
        (
            since.map_or(Duration::ZERO, |since| now - since),
            attempts.max().unwrap_or(self.config.patience.login),
        )
    }

    pub(super) fn log_out(&mut self, now: Instant) {
        self.is_leaving = true;
        for client in self.paths.iter_mut().filter_map(Path::up_mut) {
            client.log_out(now);
        }
    }

    pub(super) fn has_left(&mut self, sockets: &mut Sockets) -> bool {
        let up = self.paths.iter_mut().filter_map(Path::up_mut);
        // Each is to be asked: that is what ends its connection.
        let staying = up.filter_map(|client| (!client.has_left(sockets)).then_some(()));
        staying.count() == 0
    }

    pub(super) fn record_tcp(&mut self, sockets: &Sockets) {
        for client in self.paths.iter_mut().filter_map(Path::up_mut) {
            client.record_tcp(sockets);
        }
    }

    pub(super) fn into_records(self) -> Vec<Recorder> {
        let each = self.paths.into_iter().filter_map(|path| match path.state {
            State::Up(client) => Some(client.into_records()),
            State::Dialing(config, _) | State::Down(config, _) => Some(config.trace),
            State::Nothing => None,
        });
        each.collect()
    }
}
