//! Several sessions of an initiator with one unit, one over each route, below a common queue.

use std::time::Duration;

use wansan_iscsi::initiator::{
    Command, Completion, Handshake, Recoveries, RouteQueue, Splitter, Tally, Transfer,
};
use wansan_iscsi::scsi::cdb;
use wansan_iscsi::wire::TaskAttribute;
use wansan_multipath::Flapping;
use wansan_trace::{Instant, Recorder, SessionId};

use super::client::Client;
use super::dial::{Dial, Patience};
use super::initiator::{InitiatorConfig, InitiatorError};
use super::socket::{Owner, Sockets};

/// The ISID byte that distinguishes the sessions of one initiator; different initiators differ in other bytes.
const ROUTE_BYTE: usize = 3;

/// Longest logical block of any unit.
const LONGEST_BLOCK_BYTES: usize = 4096;

/// Sessions over several routes.
#[derive(Debug)]
pub(super) struct Several {
    owner: Owner,
    /// Without the connections, which are in the routes' configurations.
    pub(super) config: InitiatorConfig,
    queue: RouteQueue,
    paths: Vec<Path>,
    totals: Recoveries,
    /// Since when no route is up, and why the last one was lost.
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
    /// Whether its first login attempt has completed.
    has_begun: bool,
    /// The last session over it.
    session: SessionId,
    /// Counters of the sessions before the current one.
    past: Tally,
}

#[derive(Debug)]
enum State {
    Up(Box<Client>),
    Dialing(Box<InitiatorConfig>, Box<Dial>),
    /// Logs in over another route, so that the target ends the lost session (session reinstatement). A login over its
    /// own route follows, at the times in `Next`.
    Fencing(Box<InitiatorConfig>, Box<Dial>, Next),
    /// Reads a block in the new session: its response shows that all commands of the lost session are over. The new
    /// session then comes up or, if it was opened over another route, has served its purpose.
    Settling(Box<Client>, Option<Next>),
    Down(Box<InitiatorConfig>, Next),
    /// Placeholder during a transition.
    Nothing,
}

/// When to act on a route that is down.
#[derive(Debug, Clone, Copy)]
struct Next {
    /// When to log in over it; `retry_at` applies instead while no other route is up.
    join_at: Instant,
    retry_at: Instant,
    /// When to have its session ended over another route, if necessary.
    fence_at: Instant,
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

impl Next {
    fn at(join_at: Instant, fence_at: Instant) -> Next {
        Next {
            join_at,
            retry_at: join_at,
            fence_at,
        }
    }

    fn fencing_at(self, fence_at: Instant) -> Next {
        Next { fence_at, ..self }
    }
}

/// Makes a session that has logged in read a block.
fn settle(
    dial: Dial,
    config: InitiatorConfig,
    owner: Owner,
    sockets: &Sockets,
) -> Result<Box<Client>, InitiatorError> {
    let (line, handshake) = dial.into_parts();
    let tasks = Splitter::session_tasks(config.load.parallel.max(1));
    let session = handshake.into_session(tasks)?;
    let mut client = Client::over(owner, config, session, vec![line], sockets);
    let command = Command {
        lun: client.config.lun,
        cdb: cdb::read(0, 1, false),
        attribute: TaskAttribute::Simple,
        transfer: Transfer::Read(vec![0; LONGEST_BLOCK_BYTES]),
        user: 0,
    };
    client.submit(command, sockets.now());
    Ok(Box::new(client))
}

/// Begins a login over the first connection of `config`.
fn begin(
    config: &InitiatorConfig,
    owner: Owner,
    sockets: &mut Sockets,
) -> Result<Box<Dial>, InitiatorError> {
    let handshake = Handshake::lead(&config.login)?;
    let patience = config.patience.login;
    Ok(Box::new(Dial::begin(
        config, owner, 0, handshake, patience, sockets,
    )))
}

impl Several {
    /// One session over each connection of `config`.
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
                state: State::Down(Box::new(own), Next::at(now, Instant::FAR_FUTURE)),
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

    /// Whether the first login attempts have completed.
    ///
    /// # Errors
    /// When all have failed.
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
            State::Settling(client, _) => client.wakes_at(),
            State::Dialing(_, dial) | State::Fencing(_, dial, _) => dial.deadline(),
            State::Down(_, next) => self.joins_at(*next).min(next.fence_at),
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
        while let Some((place, command, since)) = self.queue.poll(now) {
            has_done = true;
            if let Some(client) = self.paths[place].up_mut() {
                client.submit(command, since);
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

    /// When to log in over a route: a flapping one is held back only while another one is up.
    fn joins_at(&self, next: Next) -> Instant {
        match self.paths.iter().any(|path| path.up().is_some()) {
            true => next.join_at,
            false => next.retry_at,
        }
    }

    /// Advances the recovery of the route at `place`, if it is down; returns whether anything changed.
    fn log_in(&mut self, place: usize, sockets: &mut Sockets) -> Result<bool, InitiatorError> {
        let now = sockets.now();
        let up = self.paths.iter().find_map(Path::up);
        let over = up.map(|client| client.config.connections[0].clone());
        let is_cut_off = over.is_none();
        let join_at = |next: Next| {
            if is_cut_off {
                next.retry_at
            } else {
                next.join_at
            }
        };
        let path = &mut self.paths[place];
        let again = path.flapping.failed(now);
        let state = std::mem::replace(&mut path.state, State::Nothing);
        let (next, has_changed) = match state {
            State::Down(config, next) if self.is_leaving => (State::Down(config, next), false),
            State::Down(mut config, next) if now >= next.fence_at => {
                match over.filter(|_| self.queue.lingers(place)) {
                    Some(over) => {
                        let own = std::mem::replace(&mut config.connections, vec![over]);
                        let dial = begin(&config, self.owner, sockets)?;
                        config.connections = own;
                        (State::Fencing(config, dial, next), true)
                    }
                    None => {
                        let fence_at = match self.queue.lingers(place) {
                            true => again,
                            false => Instant::FAR_FUTURE,
                        };
                        (State::Down(config, next.fencing_at(fence_at)), true)
                    }
                }
            }
            State::Down(config, next) if now >= join_at(next) => {
                let dial = begin(&config, self.owner, sockets)?;
                (State::Dialing(config, dial), true)
            }
            State::Fencing(config, mut dial, next) => match dial.step(sockets) {
                Ok(false) => (State::Fencing(config, dial, next), false),
                Ok(true) => {
                    let client = settle(*dial, *config, self.owner, sockets)?;
                    (State::Settling(client, Some(next)), true)
                }
                Err(_) => (State::Down(config, next.fencing_at(again)), true),
            },
            State::Dialing(config, mut dial) => match dial.step(sockets) {
                Ok(false) => (State::Dialing(config, dial), false),
                Ok(true) => {
                    let client = settle(*dial, *config, self.owner, sockets)?;
                    (State::Settling(client, None), true)
                }
                Err(error) => {
                    path.has_begun = true;
                    self.last_failure = Some(error);
                    (State::Down(config, Next::at(again, now)), true)
                }
            },
            State::Settling(mut client, fences) => match (client.turn(sockets), fences) {
                (Err(error), next) => {
                    path.has_begun = true;
                    self.last_failure = Some(error);
                    let next = next.unwrap_or(Next::at(again, again)).fencing_at(again);
                    (State::Down(Box::new(client.abandon(sockets)), next), true)
                }
                (Ok(has_done), fences) if client.poll_completion(now).is_none() => {
                    (State::Settling(client, fences), has_done)
                }
                (Ok(_), Some(next)) => {
                    self.queue.fenced(place);
                    let next = next.fencing_at(Instant::FAR_FUTURE);
                    (State::Down(Box::new(client.abandon(sockets)), next), true)
                }
                (Ok(_), None) => {
                    path.session = client.session();
                    path.has_begun = true;
                    path.flapping.back(now);
                    self.queue.up(place, 0);
                    if let Some((since, _)) = self.down.take() {
                        self.totals.lost += now - since;
                    }
                    (State::Up(client), true)
                }
            },
            other => (other, false),
        };
        path.state = next;
        Ok(has_changed)
    }

    fn take_completions(&mut self, place: usize, now: Instant) {
        let path = &mut self.paths[place];
        if let State::Up(client) = &mut path.state {
            while let Some(done) = client.poll_completion(now) {
                // No command is denied here: the target has no port groups and no reservations.
                let _ = self.queue.answered((place, path.session), done, now);
            }
        }
    }

    /// Handles the loss of the session at `place`.
    fn lose(&mut self, place: usize, error: InitiatorError, sockets: &mut Sockets) {
        let now = sockets.now();
        if let Some(client) = self.paths[place].up_mut() {
            client.end(now);
        }
        self.take_completions(place, now);
        let path = &mut self.paths[place];
        path.past = path.tally(now);
        let join_at = path.flapping.lost(now);
        if let State::Up(client) = std::mem::replace(&mut path.state, State::Nothing) {
            let next = Next {
                retry_at: join_at.min(path.flapping.failed(now)),
                ..Next::at(join_at, now)
            };
            path.state = State::Down(Box::new(client.abandon(sockets)), next);
        }
        self.queue.lost(place, path.session);
        self.totals.sessions += 1;
        if self.paths.iter().all(|path| path.up().is_none()) {
            self.down = Some((now, error));
        }
    }

    /// Fails once no route has been up for too long, or if the last one was lost for a reason other than its path.
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

    pub(super) fn submit(&mut self, command: Command, now: Instant) {
        let taken = self.queue.submit(command, now).is_ok();
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
        // Each must be called, because that closes its connections.
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
            State::Up(client) | State::Settling(client, _) => Some(client.into_records()),
            State::Dialing(config, _) | State::Fencing(config, ..) | State::Down(config, _) => {
                Some(config.trace)
            }
            State::Nothing => None,
        });
        each.collect()
    }
}
