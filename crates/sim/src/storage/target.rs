//! A target: its sessions, the stores behind them, and the transfer of bytes between its state machines and
//! connections.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use wansan_iscsi::keys::Wanted;
use wansan_iscsi::login::Accepted;
use wansan_iscsi::record::keys_record;
use wansan_iscsi::target::{
    Close, Connection, Desk, Done, Handshake, Remains, Session, SessionConfig, SessionDirectory,
    Work,
};
use wansan_trace::event::{self, Role};
use wansan_trace::{Instant, Recorder, SessionId, TaskTag};
use wansan_workload::service::{Servers, Service, Visit};

use super::medium::Medium;
use super::socket::Sockets;

/// The settings of a target.
#[derive(Debug)]
pub struct TargetConfig {
    /// What it negotiates for in logins.
    pub wanted: Wanted,
    /// The settings of its sessions, and its units.
    pub session: SessionConfig,
    /// The service times of each unit's store, by index; `None` for one that completes at once.
    pub services: Vec<Option<Service>>,
    /// Where its records go.
    pub trace: Recorder,
}

/// Why a target failed.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// It closed a connection of a session other than after a logout.
    #[error("the target closed a connection: {0}")]
    Closed(Close),
    /// A command needs an operation that simulated stores lack.
    #[error("simulated stores read, write and flush only")]
    Medium,
}

/// The state of a connection, by the number of its end.
#[derive(Debug)]
enum Seat {
    LoggingIn(Box<Handshake>),
    /// In full feature phase, in the session with this index.
    Of(usize),
    /// To be closed once this has been sent.
    Closing(Vec<u8>),
    Closed,
}

#[derive(Debug)]
struct Served {
    id: SessionId,
    /// `None` once it has ended.
    session: Option<Session>,
    /// What is left of an ended session while its store operations are outstanding.
    remains: Option<Remains>,
    /// Its outstanding store operations.
    at_stores: usize,
    /// The end of each connection, by its index in the session.
    ends: Vec<u32>,
}

/// An outstanding store operation.
#[derive(Debug)]
struct AtStore {
    session: usize,
    task: TaskTag,
    unit: usize,
    visit: Visit,
    operation: Operation,
}

/// What it does.
#[derive(Debug)]
enum Operation {
    Read { offset_bytes: u64, len_bytes: usize },
    Write { offset_bytes: u64, data: Vec<u8> },
    Flush,
}

/// A target.
#[derive(Debug)]
pub(super) struct Target {
    config: TargetConfig,
    seats: Vec<(u32, Seat)>,
    sessions: Vec<Served>,
    directory: SessionDirectory<()>,
    servers: Vec<Option<Servers>>,
    /// Outstanding operations: time of completion, the order of submission, and the index in `at_stores`.
    due: BinaryHeap<Reverse<(Instant, u64, usize)>>,
    at_stores: Vec<Option<AtStore>>,
    free: Vec<usize>,
    asked: u64,
    /// The content of each unit, where it is kept; other units read as zeros.
    mediums: Vec<Option<Medium>>,
    /// Scratch for data read.
    found: Vec<u8>,
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
            mediums: config.services.iter().map(|_| None).collect(),
            found: Vec::new(),
            config,
        }
    }

    /// Makes a unit keep written data, over the initial content of that seed, or zeros.
    pub(super) fn keep(&mut self, unit: usize, seed: Option<u64>) {
        self.mediums[unit] = Some(Medium::new(seed));
    }

    /// A new connection.
    pub(super) fn accept(&mut self, end: u32) {
        let handshake = Handshake::new(self.config.wanted.clone());
        self.seats.push((end, Seat::LoggingIn(Box::new(handshake))));
    }

    fn seat(&self, end: u32) -> Option<usize> {
        self.seats.binary_search_by_key(&end, |(end, _)| *end).ok()
    }

    /// When the next store operation completes.
    pub(super) fn wakes_at(&self) -> Instant {
        let due = self.due.peek().map(|Reverse((due, ..))| *due);
        due.unwrap_or(Instant::FAR_FUTURE)
    }

    /// An end has become readable or writable.
    pub(super) fn turn(&mut self, end: u32, sockets: &mut Sockets) -> Result<(), TargetError> {
        let Some(seat) = self.seat(end) else {
            return Ok(());
        };
        if sockets.is_lost(end) {
            return self.hang_up(seat, sockets);
        }
        if let Seat::LoggingIn(_) = self.seats[seat].1 {
            self.log_in(seat, sockets);
        }
        if let Seat::Of(session) = self.seats[seat].1 {
            self.serve(session, sockets)?;
        }
        self.close(seat, sockets);
        Ok(())
    }

    /// Sends what remains of a connection that has left its session, and then closes it.
    fn close(&mut self, seat: usize, sockets: &mut Sockets) {
        let (end, seat) = &mut self.seats[seat];
        let Seat::Closing(rest) = seat else {
            return;
        };
        if !rest.is_empty() {
            let sent = sockets.write(*end, rest);
            rest.drain(..sent);
        }
        if rest.is_empty() {
            *seat = Seat::Closed;
            sockets.shut(*end);
        }
    }

    /// The initiator has reset a connection.
    fn hang_up(&mut self, seat: usize, sockets: &mut Sockets) -> Result<(), TargetError> {
        let now = sockets.now();
        let (end, seat) = &mut self.seats[seat];
        let end = *end;
        let Seat::Of(number) = std::mem::replace(seat, Seat::Closed) else {
            return Ok(());
        };
        let served = &mut self.sessions[number];
        let place = served.ends.iter().position(|&other| other == end);
        if let (Some(session), Some(place)) = (&mut served.session, place) {
            session.leave(place, now, &mut self.config.trace);
        }
        served.end_if_over();
        self.retire(number);
        self.serve(number, sockets)
    }

    /// Ends the session that a new one with its initiator name and ISID replaces (RFC 7143 §6.3.5).
    fn replace(&mut self, replaced: SessionId, sockets: &mut Sockets) {
        let now = sockets.now();
        let Some(number) = self
            .sessions
            .iter()
            .position(|served| served.id == replaced)
        else {
            // Its login was never completed.
            self.directory.quiet(replaced);
            return;
        };
        let served = &mut self.sessions[number];
        for (place, &end) in served.ends.iter().enumerate() {
            if let Some(session) = &mut served.session
                && session.connection(place).is_some()
            {
                session.leave(place, now, &mut self.config.trace);
                sockets.abort(end);
            }
        }
        served.end();
        self.retire(number);
        for (_, seat) in &mut self.seats {
            if let Seat::Of(number) = seat
                && let Some(served) = self.sessions.get(*number)
                && served.session.is_none()
            {
                *seat = Seat::Closed;
            }
        }
    }

    /// Removes an ended session from the directory.
    fn retire(&mut self, number: usize) {
        let Served {
            id,
            session: None,
            at_stores,
            ..
        } = &self.sessions[number]
        else {
            return;
        };
        self.directory.leave(*id);
        if *at_stores == 0 {
            self.directory.quiet(*id);
        }
    }

    /// Responds to all operations that the stores have completed by now.
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
            self.sessions[done.session].at_stores -= 1;
            self.answer(&done);
            self.serve(done.session, sockets)?;
            self.retire(done.session);
            if self.sessions[done.session].forget_remains() {
                self.review(sockets)?;
            }
        }
        Ok(())
    }

    /// The last store operation of an ended session has completed: other sessions may have waited for that.
    fn review(&mut self, sockets: &mut Sockets) -> Result<(), TargetError> {
        let now = sockets.now();
        for number in 0..self.sessions.len() {
            if let Some(session) = &mut self.sessions[number].session {
                session.review(now, &mut self.config.trace);
                self.serve(number, sockets)?;
            }
        }
        Ok(())
    }

    fn log_in(&mut self, seat: usize, sockets: &mut Sockets) {
        loop {
            let (end, Seat::LoggingIn(handshake)) = &mut self.seats[seat] else {
                return;
            };
            let end = *end;
            let bytes = sockets.read(end, handshake.space());
            handshake.filled(bytes);
            let sessions = &self.sessions;
            let session = |id: SessionId| {
                let served = sessions.iter().find(|served| served.id == id)?;
                served.session.as_ref()
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
            let received = handshake.receive(&mut desk);
            let replaced = desk.replaced;
            if let Some(known) = replaced {
                self.replace(known.session, sockets);
            }
            match received {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    self.admit(seat, *accepted, sockets);
                    return;
                }
                Err(_) => {
                    let (_, seat) = &mut self.seats[seat];
                    if let Seat::LoggingIn(handshake) = seat {
                        // The Login response, if there is one, has the reason.
                        *seat = Seat::Closing(handshake.pending().to_vec());
                    }
                    return;
                }
            }
            let (_, Seat::LoggingIn(handshake)) = &mut self.seats[seat] else {
                return;
            };
            let sent = match handshake.pending() {
                [] => 0,
                pending => sockets.write(end, pending),
            };
            handshake.sent(sent);
            if bytes == 0 && sent == 0 {
                return;
            }
        }
    }

    fn admit(&mut self, seat: usize, accepted: Accepted, sockets: &mut Sockets) {
        let end = self.seats[seat].0;
        let id = SessionId::new(accepted.isid, accepted.tsih);
        let known = self.sessions.iter().position(|served| served.id == id);
        let session = known.unwrap_or(self.sessions.len());
        let logged_in = std::mem::replace(&mut self.seats[seat].1, Seat::Of(session));
        let Seat::LoggingIn(handshake) = logged_in else {
            return;
        };
        let cid = accepted.cid;
        match known {
            Some(number) => self.join(number, end, handshake.into_connection(&accepted), sockets),
            None => {
                let config = self.config.session.clone();
                self.sessions.push(Served {
                    id,
                    session: Some(handshake.into_session(accepted, config, Arc::new([]))),
                    remains: None,
                    at_stores: 0,
                    ends: vec![end],
                });
            }
        }
        let Some(session) = &mut self.sessions[session].session else {
            return;
        };
        let keys = *session.parameters();
        let place = session.place_of(cid);
        if let Some(connection) = place.and_then(|place| session.connection(place)) {
            let known = event::Connection {
                session: id,
                connection: connection.id(),
                role: Role::Target,
                ..keys_record(&keys, connection.parameters())
            };
            sockets.record_connection(end, known, &mut self.config.trace);
        }
    }

    /// Adds a connection to a session, in place of one with the same CID if there is one (RFC 7143 §6.3.4).
    fn join(&mut self, number: usize, end: u32, connection: Connection, sockets: &mut Sockets) {
        let now = sockets.now();
        let served = &mut self.sessions[number];
        let Some(session) = &mut served.session else {
            return;
        };
        let old = session.place_of(connection.id().0);
        if let Some(old) = old {
            session.reinstated(old);
        }
        let place = session.join(connection);
        let old = old.map(|old| (old, served.ends[old]));
        if place == served.ends.len() {
            served.ends.push(end);
        } else {
            served.ends[place] = end;
        }
        // Only after the new connection has joined, or a session with a single connection would end.
        if let Some((old, end)) = old {
            session.leave(old, now, &mut self.config.trace);
            sockets.abort(end);
            if let Some(seat) = self.seat(end) {
                self.seats[seat].1 = Seat::Closed;
            }
        }
    }

    /// Serves a session until there is nothing left to do now.
    fn serve(&mut self, session: usize, sockets: &mut Sockets) -> Result<(), TargetError> {
        let now = sockets.now();
        loop {
            let mut has_done = false;
            for place in 0..self.sessions[session].ends.len() {
                has_done |= self.receive(session, place, sockets);
                while let Some(session_here) = &mut self.sessions[session].session
                    && let Some(work) = session_here.poll_work(place, now, &mut self.config.trace)
                {
                    has_done = true;
                    self.ask(session, work, now)?;
                }
                has_done |= self.transmit(session, place, sockets);
            }
            self.end_connections(session, sockets)?;
            if !has_done {
                return Ok(());
            }
        }
    }

    /// Closes the connections of a session that are to be closed.
    fn end_connections(&mut self, number: usize, sockets: &mut Sockets) -> Result<(), TargetError> {
        let now = sockets.now();
        while let Some(session) = &mut self.sessions[number].session
            && let Some((place, close)) = session.poll_end()
        {
            if close != Close::LoggedOut {
                return Err(TargetError::Closed(close));
            }
            let rest = session.leave(place, now, &mut self.config.trace);
            let end = self.sessions[number].ends[place];
            if let Some(seat) = self.seat(end) {
                self.seats[seat].1 = Seat::Closing(rest);
                self.close(seat, sockets);
            }
            self.sessions[number].end_if_over();
            self.retire(number);
        }
        Ok(())
    }

    fn receive(&mut self, number: usize, place: usize, sockets: &mut Sockets) -> bool {
        let now = sockets.now();
        let Served { session, ends, .. } = &mut self.sessions[number];
        let Some(session) = session else { return false };
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

    fn transmit(&mut self, number: usize, place: usize, sockets: &mut Sockets) -> bool {
        let Served { session, ends, .. } = &mut self.sessions[number];
        let connection = session.as_mut().and_then(|it| it.connection(place));
        let Some(connection) = connection else {
            return false;
        };
        sockets.count_pdus(ends[place], connection.pdus());
        let taken = match connection.pending() {
            [] => 0,
            pending => sockets.write_all_pending(ends[place], pending),
        };
        if taken > 0 {
            connection.sent(taken);
        }
        taken > 0
    }

    /// A session submits an operation to a store.
    fn ask(&mut self, session: usize, work: Work, now: Instant) -> Result<(), TargetError> {
        let (task, unit, operation) = match work {
            Work::Read {
                task,
                unit,
                offset_bytes,
                len_bytes,
            } => {
                let read = Operation::Read {
                    offset_bytes,
                    len_bytes,
                };
                (task, unit, read)
            }
            Work::Write {
                task,
                unit,
                offset_bytes,
                data,
                ..
            } => (task, unit, Operation::Write { offset_bytes, data }),
            Work::Flush { task, unit } => (task, unit, Operation::Flush),
            Work::Medium { .. } => return Err(TargetError::Medium),
        };
        let servers = self.servers.get_mut(unit).and_then(Option::as_mut);
        let visit = servers.map(|servers| servers.book(now));
        let at_store = AtStore {
            session,
            task,
            unit,
            visit: visit.unwrap_or(Visit {
                began: now,
                finished: now,
            }),
            operation,
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
        self.sessions[session].at_stores += 1;
        self.at_stores[place] = Some(at_store);
        self.due.push(Reverse((due, self.asked, place)));
        self.asked += 1;
        Ok(())
    }

    /// Executes an operation that its store has completed, and responds to it.
    fn answer(&mut self, done: &AtStore) {
        let medium = self.mediums.get_mut(done.unit).and_then(Option::as_mut);
        let result = match (&done.operation, medium) {
            (
                Operation::Read {
                    offset_bytes,
                    len_bytes,
                },
                medium,
            ) => {
                if self.found.len() < *len_bytes {
                    self.found.resize(*len_bytes, 0);
                }
                let found = &mut self.found[..*len_bytes];
                if let Some(medium) = medium {
                    medium.read(*offset_bytes, found);
                }
                Done::Read(found)
            }
            (Operation::Write { offset_bytes, data }, Some(medium)) => {
                medium.write(*offset_bytes, data);
                Done::Status
            }
            (Operation::Write { .. } | Operation::Flush, _) => Done::Status,
        };
        let times = (done.visit.began, done.visit.finished);
        if let Some(session) = &mut self.sessions[done.session].session {
            session.complete(done.task, Ok(result), times, &mut self.config.trace);
        }
    }

    /// Records the state of TCP on all its connections.
    pub(super) fn record_tcp(&mut self, sockets: &Sockets) {
        if !self.config.trace.tcp.is_kept() {
            return;
        }
        for served in &mut self.sessions {
            let Some(session) = &mut served.session else {
                continue;
            };
            for (place, &end) in served.ends.iter().enumerate() {
                if let Some(connection) = session.connection(place) {
                    let ids = (served.id, connection.id());
                    self.config.trace.tcp(sockets.tcp(end, ids));
                }
            }
        }
    }

    /// Its records.
    pub(super) fn into_records(self) -> Recorder {
        self.config.trace
    }
}

impl Served {
    /// Ends it, if it has no connection left.
    fn end_if_over(&mut self) {
        if self.session.as_ref().is_some_and(Session::is_over) {
            self.end();
        }
    }

    /// Ends it. Other sessions wait for its outstanding store operations.
    fn end(&mut self) {
        self.remains = self.session.take().map(Session::end);
        self.forget_remains();
    }

    /// Drops what is left of an ended session once its store operations have completed; returns whether there was any.
    fn forget_remains(&mut self) -> bool {
        self.at_stores == 0 && self.remains.take().is_some()
    }
}
