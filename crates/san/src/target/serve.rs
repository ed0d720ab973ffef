//! One connection of a target: its socket, and serving it.

use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, recv, send};
use wansan_iscsi::keys::SessionParameters;
use wansan_iscsi::login::Accepted;
use wansan_iscsi::record::keys_record;
use wansan_iscsi::target::{Connection, Done, Handshake, Remains, Session, Work};
use wansan_iscsi::text::send_targets::{TargetAddress, TargetRecord};
use wansan_tcp::{DelayedAck, Stamping, connection, stamps};
use wansan_trace::event::{self, Role};
use wansan_trace::{Instant, Recorder, Sample, SessionId, TaskTag, clock};

use super::directory::ServedTarget;
use super::gathering::Gathering;
use super::life::Life;
use super::login::Desk;
use super::mail::Mail;
use super::seat::Seat;
use super::sessions::{Membership, Served, Sessions};
use super::snapshot::Retired;
use super::{PORTAL_GROUP_TAG, Shared};
use crate::store::{Completion, Lane, MediumJob, Operation, QueuePair, Store};
use crate::tail::{SEND, Tail};

/// A connection and its phase.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) stream: TcpStream,
    pub(super) seat: Seat,
    pub(super) phase: Phase,
    pub(super) life: Life,
    /// When it was accepted, for the time limit of a login.
    pub(super) came: Instant,
    /// Events registered with the poller: reading, writing.
    pub(super) interest: (bool, bool),
    /// When received data is acknowledged.
    pub(super) delayed_ack: DelayedAck,
    /// Kernel timestamps of the socket's data, if recorded.
    pub(super) stamping: Option<Stamping>,
    /// How much of a PDU to wait for at once.
    pub(super) gathering: Gathering,
    /// How the last segments of a burst are sent.
    pub(super) tail: Tail,
}

/// Phase of a connection.
#[derive(Debug)]
pub(super) enum Phase {
    Login(Box<Handshake>),
    /// Full feature phase, in that session.
    Session(Membership),
    /// Input is ignored; pending data is sent, then the peer's close awaited.
    Closing(VecDeque<u8>),
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    #[error("{0}")]
    Login(#[from] wansan_iscsi::target::HandshakeError),
    #[error("{0}")]
    Session(#[from] wansan_iscsi::target::Close),
    #[error("the initiator closed the connection")]
    Closed,
    #[error("{0}")]
    Socket(#[from] io::Error),
}

impl End {
    /// Whether the socket is unusable.
    pub(super) fn socket_is_dead(&self) -> bool {
        matches!(self, End::Closed | End::Socket(_))
    }

    /// Whether to report it to the operator.
    pub(super) fn is_trouble(&self) -> bool {
        !matches!(
            self,
            End::Closed | End::Session(wansan_iscsi::target::Close::LoggedOut)
        )
    }
}

/// Outcome of a connection's turn.
#[derive(Debug)]
pub(super) enum Turn {
    /// Nothing more to do for now.
    Done,
    /// It needs another turn.
    Again,
    /// It has logged in.
    LoggedIn(Box<Accepted>, Option<Arc<ServedTarget>>),
    /// It joins a session of another thread, with this index.
    Elsewhere(usize),
}

/// State shared by a thread's connections.
pub(super) struct Context {
    pub(super) number: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) trace: Recorder,
    /// Before `lingering`, whose operations the stores may still run when this is dropped.
    pub(super) queue_pair: QueuePair,
    /// Operations that did not fit in the queue pair. Bounded by the command windows of the live sessions.
    pub(super) backlog: VecDeque<(u64, Arc<dyn Store>, Operation)>,
    /// Ended sessions of this thread with store operations outstanding.
    pub(super) lingering: Vec<Lingering>,
    /// Counters of its ended sessions.
    pub(super) retired: Retired,
}

/// A session that ended with store operations outstanding.
#[derive(Debug)]
pub(super) struct Lingering {
    session: SessionId,
    /// Its former number and generation.
    slot: u16,
    generation: u16,
    /// Outstanding store operations.
    at_stores: usize,
    /// Others may wait until this is dropped.
    _remains: Remains,
}

/// Identifies a store operation: the slot and generation of the session, and the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) slot: u16,
    pub(super) generation: u16,
    pub(super) task: TaskTag,
}

impl Token {
    fn to_u64(self) -> u64 {
        u64::from(self.slot) << 48 | u64::from(self.generation) << 32 | u64::from(self.task.0)
    }

    pub(super) fn from_u64(token: u64) -> Self {
        Token {
            slot: (token >> 48) as u16,
            generation: (token >> 32) as u16,
            task: TaskTag(token as u32),
        }
    }
}

/// Reads and writes of one connection before other connections, messages and the time are checked. Enough to amortize
/// the checks; a few MiB at most.
const ROUNDS_PER_TURN: u32 = 8;

impl Peer {
    /// Reads once, if the connection accepts more input. Returns whether the buffer was filled, so that more may be
    /// queued.
    fn read(&mut self, sessions: &mut Sessions, trace: &mut Recorder) -> Result<bool, End> {
        let mut nowhere;
        let space = match &mut self.phase {
            Phase::Login(handshake) => handshake.space(),
            Phase::Session(at) => match sessions.connection(*at) {
                Some(connection) if connection.wants_input() => connection.space(),
                _ => return Ok(false),
            },
            Phase::Closing(_) => {
                nowhere = [0; 4096];
                &mut nowhere
            }
        };
        let room = space.len();
        let flags = RecvFlags::DONTWAIT;
        let received = match &mut self.stamping {
            Some(stamping) => stamping.receive(&self.stream, space, flags, trace),
            None => recv(&self.stream, space, flags).map(|(bytes, _)| bytes),
        };
        let bytes = match received {
            Ok(0) => return Err(End::Closed),
            Ok(bytes) => bytes,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => return Ok(false),
            Err(errno) => return Err(End::Socket(errno.into())),
        };
        self.delayed_ack.keep(&self.stream)?;
        self.life.heard(clock::now());
        match &mut self.phase {
            Phase::Login(handshake) => handshake.filled(bytes),
            Phase::Session(at) => {
                if let Some(connection) = sessions.connection(*at) {
                    connection.filled(bytes);
                }
            }
            Phase::Closing(_) => {}
        }
        Ok(bytes == room)
    }

    /// Sends pending data as far as the socket accepts it; returns whether all was sent.
    fn write(&mut self, sessions: &mut Sessions) -> Result<bool, End> {
        let most = match self.stamping {
            Some(_) => stamps::CALL_BYTES,
            None => usize::MAX,
        };
        loop {
            let pending = self.phase.pending(sessions);
            if pending.is_empty() {
                return Ok(true);
            }
            let (bytes, flags) = match pending.get(..most) {
                Some(part) => (part, SEND),
                None => (pending, self.tail.flags(&self.stream)),
            };
            let bytes = match send(&self.stream, bytes, flags) {
                Ok(bytes) => bytes,
                Err(rustix::io::Errno::AGAIN) => {
                    if let Some(stamping) = &mut self.stamping {
                        stamping.refused();
                    }
                    return Ok(false);
                }
                Err(rustix::io::Errno::INTR) => 0,
                Err(errno) => return Err(End::Socket(errno.into())),
            };
            if let Some(stamping) = &mut self.stamping {
                stamping.sent(bytes, clock::now());
            }
            match &mut self.phase {
                Phase::Login(handshake) => handshake.sent(bytes),
                Phase::Session(at) => {
                    if let Some(connection) = sessions.connection(*at) {
                        connection.sent(bytes);
                    }
                }
                Phase::Closing(rest) => drop(rest.drain(..bytes)),
            }
        }
    }

    /// Serves the connection until there is nothing more to do, or its turn is over. `readable`: the socket may have
    /// input.
    pub(super) fn serve(
        &mut self,
        readable: bool,
        sessions: &mut Sessions,
        context: &mut Context,
    ) -> Result<Turn, End> {
        let turn = self.take_turn(readable, sessions, context)?;
        self.collect_stamps(&mut context.trace)?;
        if let Phase::Session(at) = &self.phase
            && let Some(connection) = sessions.connection(*at)
        {
            let missing_bytes = connection.missing_bytes();
            self.gathering.await_bytes(&self.stream, missing_bytes);
        }
        Ok(turn)
    }

    fn take_turn(
        &mut self,
        mut readable: bool,
        sessions: &mut Sessions,
        context: &mut Context,
    ) -> Result<Turn, End> {
        for _ in 0..ROUNDS_PER_TURN {
            if readable {
                readable = self.read(sessions, &mut context.trace)?;
            }
            // Input is handled after its arrival, never before.
            let now = clock::now();
            match &mut self.phase {
                Phase::Login(handshake) => {
                    if let Some(turn) = log_in(handshake, &mut self.seat, sessions, context)? {
                        return Ok(turn);
                    }
                }
                Phase::Session(at) => {
                    if let Some(served) = sessions.get_mut(at.session) {
                        context.advance(*at, served, now);
                    }
                }
                Phase::Closing(_) => {}
            }
            let anything = !self.phase.pending(sessions).is_empty();
            let all_sent = self.write(sessions)?;
            // After sending, work or input that had no room may continue.
            if !readable && (!anything || !all_sent) {
                return Ok(Turn::Done);
            }
        }
        Ok(Turn::Again)
    }

    /// Records the connection, and enables kernel timestamps of its data if stamps are recorded. A kernel without
    /// support leaves the records without stamps.
    pub(super) fn begin_records(
        &mut self,
        session: SessionId,
        keys: &SessionParameters,
        connection: &Connection,
        nagle: bool,
        trace: &mut Recorder,
    ) {
        let ids = (session, connection.id());
        let known = event::Connection {
            time: clock::now(),
            session,
            connection: connection.id(),
            role: Role::Target,
            quick_ack: self.delayed_ack == DelayedAck::Quick,
            ..keys_record(keys, connection.parameters())
        };
        connection::record(&self.stream, known, trace);
        if trace.stamp.is_kept() {
            let ends = (connection.sent_bytes(), connection.received_bytes());
            self.stamping = Stamping::begin(&self.stream, ids, nagle, ends.0, ends.1).ok();
        }
    }

    /// Reads the stamps of sent data: pending ones wake the poller.
    fn collect_stamps(&mut self, trace: &mut Recorder) -> Result<(), End> {
        if let Some(stamping) = &mut self.stamping {
            stamping.collect(&self.stream, trace)?;
        }
        Ok(())
    }

    /// Records the remaining stamps.
    pub(super) fn finish_stamps(&mut self, trace: &mut Recorder) {
        if let Some(stamping) = self.stamping.take() {
            stamping.finish(&self.stream, trace);
        }
    }

    /// The SendTargets response on this connection: the targets that `initiator` may use, each at all portals, with
    /// this connection's portal first.
    pub(super) fn targets(&self, shared: &Shared, initiator: &str) -> Arc<[TargetRecord]> {
        let own = self.stream.local_addr().into_iter();
        // Of a portal with the unspecified address, only the local addresses of connections are known.
        let named = shared.addresses.iter().copied();
        let named = named.filter(|address| !address.ip().is_unspecified());
        let mut portals: Vec<TargetAddress> = Vec::new();
        for address in own.chain(named) {
            let portal = TargetAddress {
                host: address.ip().to_canonical().to_string(),
                port: address.port(),
                portal_group_tag: Some(PORTAL_GROUP_TAG),
            };
            if !portals.contains(&portal) {
                portals.push(portal);
            }
        }
        let address = self.seat.initiator.ip();
        let directory = shared.directory();
        let visible = directory
            .targets()
            .filter(|target| target.spec.access.allows(initiator, address));
        let records = visible.map(|target| TargetRecord {
            name: target.spec.name.clone(),
            addresses: portals.clone(),
        });
        records.collect()
    }

    /// Whether the connection is closed in both directions.
    pub(super) fn is_hung_up(&self) -> bool {
        // POLLHUP is reported without registration.
        let mut fds = [PollFd::new(&self.stream, PollFlags::empty())];
        let polled = poll(&mut fds, Some(&Timespec::default()));
        polled.is_ok() && fds[0].revents().contains(PollFlags::HUP)
    }

    /// In [`Phase::Closing`]: sends pending data and a FIN. The socket stays until the peer has closed too: closing it
    /// first would discard data that the peer has not read.
    pub(super) fn finish(&mut self, sessions: &mut Sessions) -> Result<(), End> {
        if self.write(sessions)? {
            self.stream.shutdown(Shutdown::Write)?;
        }
        Ok(())
    }
}

impl Phase {
    /// Data that waits for the socket.
    pub(super) fn pending<'a>(&'a mut self, sessions: &'a mut Sessions) -> &'a [u8] {
        match self {
            Phase::Login(handshake) => handshake.pending(),
            Phase::Session(at) => match sessions.connection(*at) {
                Some(connection) => connection.pending(),
                None => &[],
            },
            Phase::Closing(rest) => rest.make_contiguous(),
        }
    }
}

/// Continues a login in the thread of the session that the connection joins, so that no session is ever locked.
fn log_in(
    handshake: &mut Handshake,
    seat: &mut Seat,
    sessions: &Sessions,
    context: &Context,
) -> Result<Option<Turn>, End> {
    let shared = &context.shared;
    if let Some(joined) = handshake.joins()
        && let Some(owner) = shared.registry.owner(joined)
        && owner != context.number
    {
        return Ok(Some(Turn::Elsewhere(owner)));
    }
    let mut desk = Desk {
        shared,
        sessions,
        seat,
        owner: context.number,
        target: None,
        replaced: None,
    };
    let accepted = handshake.receive(&mut desk)?;
    if let Some(replaced) = desk.replaced {
        let mail = Mail::EndSession(replaced.session);
        shared.mailboxes.send(replaced.owner, mail);
    }
    let target = desk.target;
    Ok(accepted.map(|accepted| Turn::LoggedIn(accepted, target)))
}

impl Context {
    /// Handles input of a connection, and submits the resulting store operations.
    fn advance(&mut self, at: Membership, served: &mut Served, now: Instant) {
        served.session.receive(at.place, now, &mut self.trace);
        let mut asked = now;
        while let Some(work) = served.session.poll_work(at.place, asked, &mut self.trace) {
            asked = self.work(at.session, served, work, asked);
        }
    }

    /// Runs a store operation submitted at `asked`: at once if that takes no longer than a copy in memory. Returns when
    /// it completed: reading the clock once per operation, and only when recorded, is all that recording the store's
    /// time may cost; twice in a sample, where the operations before it are not recorded.
    fn work(&mut self, slot: u16, served: &mut Served, work: Work, asked: Instant) -> Instant {
        let Served {
            session, target, ..
        } = served;
        let recorded = self.trace.keeps_io(work.task());
        let asked = match recorded && self.trace.sample() != Sample::ALL {
            // The clock was not read for the operations before it.
            true => clock::now(),
            false => asked,
        };
        let mut answered = asked;
        let mut time = || {
            if recorded {
                answered = clock::now();
            }
            answered
        };
        let (task, unit, operation) = match work {
            Work::Read {
                task,
                unit,
                offset_bytes,
                len_bytes,
            } => {
                let store = &target.stores[unit];
                let mut done_bytes = 0;
                while done_bytes < len_bytes
                    && let Some(mut space) = session.read_space(task, asked, &mut self.trace)
                {
                    let bytes = space.bytes();
                    let segment_bytes = bytes.len();
                    match store.try_read_now(offset_bytes + done_bytes as u64, bytes) {
                        Some(Ok(())) => space.filled((asked, time()), &mut self.trace),
                        Some(Err(error)) => {
                            let failed = Err(error.sense());
                            session.complete(task, failed, (asked, time()), &mut self.trace);
                            return answered;
                        }
                        None => break,
                    }
                    done_bytes += segment_bytes;
                }
                if done_bytes == len_bytes {
                    return answered;
                }
                let operation = Operation::Read {
                    offset: offset_bytes + done_bytes as u64,
                    buffer: vec![0; len_bytes - done_bytes],
                };
                (task, unit, operation)
            }
            Work::Write {
                task,
                unit,
                offset_bytes,
                data,
                fua,
            } => {
                if let Some(result) = target.stores[unit].try_write_now(offset_bytes, &data, fua) {
                    let result = result.map(|()| Done::Status).map_err(|error| error.sense());
                    session.complete(task, result, (asked, time()), &mut self.trace);
                    return answered;
                }
                let operation = Operation::Write {
                    offset: offset_bytes,
                    buffer: data,
                    fua,
                };
                (task, unit, operation)
            }
            Work::Flush { task, unit } => {
                if let Some(result) = target.stores[unit].try_flush_now() {
                    let result = result.map(|()| Done::Status).map_err(|error| error.sense());
                    session.complete(task, result, (asked, time()), &mut self.trace);
                    return answered;
                }
                (task, unit, Operation::Flush)
            }
            // None of these is frequent enough for the worker's overhead to matter.
            Work::Medium {
                task,
                unit,
                operation,
                fua,
            } => {
                let job = MediumJob::new(operation, &target.stores, unit, fua);
                (task, unit, Operation::Medium(Box::new(job)))
            }
        };
        let token = Token {
            slot,
            generation: served.generation,
            task,
        };
        served.at_stores += 1;
        self.submit(
            token,
            &served.target.stores[unit],
            operation,
            &mut served.lane,
        );
        answered
    }

    fn submit(
        &mut self,
        token: Token,
        store: &Arc<dyn Store>,
        operation: Operation,
        lane: &mut Lane,
    ) {
        let token = token.to_u64();
        if !self.backlog.is_empty() {
            self.backlog
                .push_back((token, Arc::clone(store), operation));
            return;
        }
        if let Err(operation) = self.queue_pair.submit(token, store, operation, lane) {
            self.backlog
                .push_back((token, Arc::clone(store), operation));
        }
    }

    /// Notes that the session with the number `slot` has ended: its queued store operations are dropped, and running
    /// ones are waited for.
    pub(super) fn ended(&mut self, slot: u16, served: Served) {
        let waited = self.backlog.len();
        self.backlog.retain(|(token, ..)| {
            let token = Token::from_u64(*token);
            token.slot != slot || token.generation != served.generation
        });
        let dropped = waited - self.backlog.len();
        let session = served.session.id();
        let remains = served.session.end();
        if served.at_stores > dropped {
            self.lingering.push(Lingering {
                session,
                slot,
                generation: served.generation,
                at_stores: served.at_stores - dropped,
                _remains: remains,
            });
        } else {
            self.shared.registry.quiet(session);
        }
    }

    /// Takes a store's completion for a session that has ended.
    pub(super) fn answered_late(&mut self, token: Token) {
        let of = |ended: &Lingering| (ended.slot, ended.generation);
        let mut lingering = self.lingering.iter();
        let place = lingering.position(|ended| of(ended) == (token.slot, token.generation));
        if let Some(place) = place {
            self.lingering[place].at_stores -= 1;
            if self.lingering[place].at_stores == 0 {
                let ended = self.lingering.swap_remove(place);
                self.shared.registry.quiet(ended.session);
            }
        }
    }

    /// Removes a session that this thread does not serve, or no longer serves.
    pub(super) fn is_gone(&self, session: SessionId) {
        let mut lingering = self.lingering.iter();
        if !lingering.any(|ended| ended.session == session) {
            self.shared.registry.quiet(session);
        }
    }

    /// Submits operations that did not fit before.
    pub(super) fn submit_backlog(&mut self, sessions: &mut Sessions) {
        while let Some((token, store, operation)) = self.backlog.pop_front() {
            // A session's operations here were dropped with it.
            let Some(served) = sessions.get_mut(Token::from_u64(token).slot) else {
                continue;
            };
            let lane = &mut served.lane;
            if let Err(operation) = self.queue_pair.submit(token, &store, operation, lane) {
                self.backlog.push_front((token, store, operation));
                return;
            }
        }
    }
}

/// Passes a store's completion to its session.
pub(super) fn answered(session: &mut Session, completion: Completion, trace: &mut Recorder) {
    let task = Token::from_u64(completion.token).task;
    let times = (completion.began, completion.finished);
    let result = completion.result.map_err(|error| error.sense());
    let done = match completion.operation {
        Operation::Read { ref buffer, .. } => Done::Read(buffer),
        Operation::Write { .. } | Operation::Flush => Done::Status,
        Operation::Medium(job) => Done::Medium(job.into_output()),
    };
    session.complete(task, result.map(|()| done), times, trace);
}
