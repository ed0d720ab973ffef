//! A target: its sessions, the stores behind them, and the bytes between its machines and its connections.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use wansan_iscsi::keys::Wanted;
use wansan_iscsi::login::Accepted;
use wansan_iscsi::target::{
    Desk, Done, Handshake, HandshakeError, Session, SessionConfig, SessionDirectory, Work,
};
use wansan_iscsi::record::keys_record;
use wansan_trace::event::{self, Role};
use wansan_trace::{Instant, Recorder, SessionId, TaskTag};
use wansan_workload::service::{Servers, Service, Visit};

use super::socket::Sockets;

/// The settings of a target.
#[derive(Debug)]
pub struct TargetConfig {
    /// What it negotiates for.
    pub wanted: Wanted,
    /// Its sessions, and its units.
    pub session: SessionConfig,
    /// How each unit's store serves, by its place; `None` for one that answers at once.
    pub services: Vec<Option<Service>>,
    /// Where its records go.
    pub trace: Recorder,
}

/// Why a target ended.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// A login failed.
    #[error("{0}")]
    Login(#[from] HandshakeError),
    /// It closed a connection of a session, of which simulated ones only fail.
    #[error("the target closed a connection: {0}")]
    Closed(String),
    /// A command needs an operation that simulated stores lack.
    #[error("simulated stores read, write and flush only")]
    Medium,
}

/// A connection of the target's, by its end's number.
#[derive(Debug)]
enum Seat {
    LoggingIn(Box<Handshake>),
    /// Of a session.
    Of(usize),
}

#[derive(Debug)]
struct Served {
    session: Session,
    /// The end at each place.
    ends: Vec<u32>,
}

/// An operation at a store, that is over at a time.
#[derive(Debug)]
struct AtStore {
    session: usize,
    task: TaskTag,
    visit: Visit,
    /// Bytes of a read; `None` of the others.
    read_bytes: Option<usize>,
}

/// A target.
#[derive(Debug)]
pub(super) struct Target {
    config: TargetConfig,
    seats: Vec<(u32, Seat)>,
    sessions: Vec<Served>,
    directory: SessionDirectory<()>,
    servers: Vec<Option<Servers>>,
    /// Operations under way: when each is over, and its place.
    due: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    at_stores: Vec<Option<AtStore>>,
    free: Vec<usize>,
    asked: u64,
    /// What reads find.
    zeros: Vec<u8>,
}

impl Target {
    pub(super) fn new(config: TargetConfig) -> Target {
        let servers = config.services.iter().cloned();
        Target {
            servers: servers.map(|service| service.map(Servers::new)).collect(),
            seats: Vec::new(),
            sessions: Vec::new(),
            directory: SessionDirectory::after(0),
            due: BinaryHeap::new(),
            at_stores: Vec::new(),
            free: Vec::new(),
            asked: 0,
            zeros: Vec::new(),
            config,
        }
    }

    /// Somebody connects.
    pub(super) fn accept(&mut self, end: u32) {
        let handshake = Handshake::new(self.config.wanted.clone());
        self.seats.push((end, Seat::LoggingIn(Box::new(handshake))));
    }

    fn seat(&self, end: u32) -> Option<usize> {
        self.seats.binary_search_by_key(&end, |(end, _)| *end).ok()
    }

    /// When a store has served the next operation.
    pub(super) fn wakes_at(&self) -> Instant {
        let due = self.due.peek().map(|Reverse((due, ..))| *due);
        due.unwrap_or(Instant::FAR_FUTURE)
    }

    /// An end has something to read, or room to write.
    pub(super) fn turn(&mut self, end: u32, sockets: &mut Sockets) -> Result<(), TargetError> {
        let Some(seat) = self.seat(end) else {
            return Ok(());
        };
        if let Seat::LoggingIn(_) = self.seats[seat].1 {
            self.log_in(seat, sockets)?;
        }
        if let Seat::Of(session) = self.seats[seat].1 {
            self.serve(session, sockets)?;
        }
        Ok(())
    }

    /// What stores have served until now is answered.
    pub(super) fn complete(&mut self, sockets: &mut Sockets) -> Result<(), TargetError> {
        let now = sockets.now();
        while self.wakes_at() <= now {
            let Some(Reverse((_, _, place))) = self.due.pop() else {
                break;
            };
            let Some(done) = self.at_stores[place].take() else {
                continue;
            };
            self.free.push(place);
            self.answer(&done);
            self.serve(done.session, sockets)?;
        }
        Ok(())
    }

    fn log_in(&mut self, seat: usize, sockets: &mut Sockets) -> Result<(), TargetError> {
        loop {
            let (end, Seat::LoggingIn(handshake)) = &mut self.seats[seat] else {
                return Ok(());
            };
            let end = *end;
            let bytes = sockets.read(end, handshake.space());
            handshake.filled(bytes);
            let sessions = &self.sessions;
            let session = |id: SessionId| {
                let served = sessions.iter().find(|it| it.session.id() == id)?;
                Some(&served.session)
            };
            let mut desk = Desk {
                directory: &mut self.directory,
                session: &session,
                config: &self.config.session,
                wanted: &self.config.wanted,
                owner: (),
                entered: None,
                replaced: None,
            };
            let accepted = handshake.receive(&mut desk)?;
            if let Some(accepted) = accepted {
                self.admit(seat, *accepted, sockets);
                return Ok(());
            }
            let sent = match handshake.pending() {
                [] => 0,
                pending => sockets.write(end, pending),
            };
            handshake.sent(sent);
            if bytes == 0 && sent == 0 {
                return Ok(());
            }
        }
    }

    fn admit(&mut self, seat: usize, accepted: Accepted, sockets: &Sockets) {
        let end = self.seats[seat].0;
        let id = SessionId::new(accepted.isid, accepted.tsih);
        let known = self.sessions.iter().position(|it| it.session.id() == id);
        let session = known.unwrap_or(self.sessions.len());
        let logged_in = std::mem::replace(&mut self.seats[seat].1, Seat::Of(session));
        let Seat::LoggingIn(handshake) = logged_in else {
            return;
        };
        match known {
            Some(session) => {
                let served = &mut self.sessions[session];
                let place = served.session.join(handshake.into_connection(&accepted));
                debug_assert_eq!(place, served.ends.len());
                served.ends.push(end);
            }
            None => {
                let config = self.config.session.clone();
                self.sessions.push(Served {
                    session: handshake.into_session(accepted, config, Arc::new([])),
                    ends: vec![end],
                });
            }
        }
        let Served { session, ends, .. } = &mut self.sessions[session];
        let keys = *session.parameters();
        if let Some(connection) = session.connection(ends.len() - 1) {
            let known = event::Connection {
                session: id,
                connection: connection.id(),
                role: Role::Target,
                ..keys_record(&keys, connection.parameters())
            };
            sockets.record_connection(end, known, &mut self.config.trace);
        }
    }

    /// Serves a session until nothing is left to be done now.
    fn serve(&mut self, session: usize, sockets: &mut Sockets) -> Result<(), TargetError> {
        let now = sockets.now();
        loop {
            let mut has_done = false;
            for place in 0..self.sessions[session].ends.len() {
                has_done |= self.receive(session, place, sockets);
                while let Some(work) =
                    self.sessions[session]
                        .session
                        .poll_work(place, now, &mut self.config.trace)
                {
                    has_done = true;
                    self.ask(session, &work, now)?;
                }
                has_done |= self.transmit(session, place, sockets);
            }
            if let Some((_, close)) = self.sessions[session].session.poll_end() {
                return Err(TargetError::Closed(format!("{close:?}")));
            }
            if !has_done {
                return Ok(());
            }
        }
    }

    fn receive(&mut self, session: usize, place: usize, sockets: &mut Sockets) -> bool {
        let now = sockets.now();
        let Served { session, ends, .. } = &mut self.sessions[session];
        let Some(connection) = session.connection(place) else {
            return false;
        };
        let bytes = match connection.wants_input() {
            true => sockets.read(ends[place], connection.space()),
            false => sockets.read(ends[place], &mut []),
        };
        connection.filled(bytes);
        let has_input = bytes > 0 || session.is_busy(place);
        if has_input {
            session.receive(place, now, &mut self.config.trace);
        }
        bytes > 0
    }

    fn transmit(&mut self, session: usize, place: usize, sockets: &mut Sockets) -> bool {
        let Served { session, ends, .. } = &mut self.sessions[session];
        let Some(connection) = session.connection(place) else {
            return false;
        };
        let taken = match connection.pending() {
            [] => 0,
            pending => sockets.write(ends[place], pending),
        };
        if taken > 0 {
            connection.sent(taken);
        }
        taken > 0
    }

    /// A session asks a store.
    fn ask(&mut self, session: usize, work: &Work, now: Instant) -> Result<(), TargetError> {
        let (task, unit, read_bytes) = match *work {
            Work::Read {
                task,
                unit,
                len_bytes,
                ..
            } => (task, unit, Some(len_bytes)),
            Work::Write { task, unit, .. } | Work::Flush { task, unit } => (task, unit, None),
            Work::Medium { .. } => return Err(TargetError::Medium),
        };
        let servers = self.servers.get_mut(unit).and_then(Option::as_mut);
        let visit = servers.map(|servers| servers.book(now));
        let at_store = AtStore {
            session,
            task,
            visit: visit.unwrap_or(Visit {
                began: now,
                finished: now,
            }),
            read_bytes,
        };
        if visit.is_none() {
            self.answer(&at_store);
            return Ok(());
        }
        let due = at_store.visit.finished;
        let place = match self.free.pop() {
            Some(place) => place,
            None => {
                self.at_stores.push(None);
                self.at_stores.len() - 1
            }
        };
        self.at_stores[place] = Some(at_store);
        self.due.push(Reverse((due, self.asked, place)));
        self.asked += 1;
        Ok(())
    }

    /// Answers an operation that its store has served.
    fn answer(&mut self, done: &AtStore) {
        let bytes = done.read_bytes.unwrap_or(0);
        if self.zeros.len() < bytes {
            self.zeros.resize(bytes, 0);
        }
        let result = match done.read_bytes {
            Some(bytes) => Done::Read(&self.zeros[..bytes]),
            None => Done::Status,
        };
        let times = (done.visit.began, done.visit.finished);
        let session = &mut self.sessions[done.session].session;
        session.complete(done.task, Ok(result), times, &mut self.config.trace);
    }

    /// Records the state of TCP on all its connections.
    pub(super) fn record_tcp(&mut self, sockets: &Sockets) {
        for served in &mut self.sessions {
            let id = served.session.id();
            for (place, &end) in served.ends.iter().enumerate() {
                if let Some(connection) = served.session.connection(place) {
                    let ids = (id, connection.id());
                    sockets.record_tcp(end, ids, &mut self.config.trace);
                }
            }
        }
    }

    /// Its records.
    pub(super) fn into_records(self) -> Recorder {
        self.config.trace
    }
}
