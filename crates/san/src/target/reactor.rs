//! A thread of a target: waits for sockets, stores and messages, and serves its connections.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use wansan_iscsi::login::Accepted;
use wansan_server::{Acceptor, Complaints, Pause, Poller, Ready, Worker};
use wansan_tcp::{DelayedAck, TcpInfo};
use wansan_trace::{Instant, Recorder, SessionId, clock};

use super::Shared;
use super::directory::ServedTarget;
use super::gathering::Gathering;
use super::life::{Life, Verdict};
use super::lobby::{self, Progress, Waiting};
use super::mail::Mail;
use super::seat::Seat;
use super::serve::{Context, End, Peer, Phase, Token, Turn, answered};
use super::sessions::Sessions;
use super::sharing::Sharing;
use super::snapshot::{Logins, Retired};
use crate::store::{Pool, QueueBounds};
use crate::tail::Tail;

/// How long a login may take.
const LOGIN_TIME: Duration = Duration::from_secs(15);

/// How long a connection may take to close.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// How often to check these times.
const TICK: Duration = Duration::from_secs(1);

/// The limit of one thread's outstanding store operations; more wait in its backlog, from which the operations of an
/// ended session are removed. Direct I/O has up to 48 MiB of aligned memory in addition.
const STORE_QUEUE: QueueBounds = QueueBounds {
    operations: 16 << 10,
    bytes: 64 << 20,
};

/// The stores' ID in the poller; those of connections are smaller.
const STORES: u64 = wansan_server::MAILBOX - 1;

pub(super) struct Reactor {
    poller: Poller,
    /// Accepts on the portals, in the thread that accepts for all.
    acceptor: Acceptor<TcpListener>,
    pub(super) peers: Vec<Option<Peer>>,
    /// Dropped before the sessions, because its queue pair waits until no store works for them: when a session is gone,
    /// responses to others claim that none of its writes will land any more. This holds when this thread stops, and
    /// when it panics.
    pub(super) context: Context,
    pub(super) sessions: Sessions,
    sharing: Sharing,
    /// The thread that gets the next connection.
    next_thread: usize,
    /// Connections that had their turn and need another.
    again: Vec<u16>,
    /// Connections for which another one of their session has left work.
    woken: Vec<u16>,
    /// Connections of both lists that get their turn after this round's events.
    turns: [Vec<u16>; 2],
    /// Failed logins.
    failed: Complaints,
    /// Connections rejected for lack of room.
    turned_away: Complaints,
    /// Connections dropped to make room.
    pushed_out: Complaints,
    next_tick: Instant,
    next_tcp_sample: Instant,
}

impl Reactor {
    pub(super) fn new(
        number: usize,
        shared: Arc<Shared>,
        listeners: Vec<TcpListener>,
        pool: &Pool,
        trace: Recorder,
    ) -> io::Result<Reactor> {
        let poller = Poller::new()?;
        let queue_pair = pool.queue_pair(STORE_QUEUE)?;
        poller.add(&queue_pair, STORES)?;
        let mut acceptor = Acceptor::default();
        let mut outcome = Ok(());
        acceptor.replace(&poller, listeners, |_, error| outcome = Err(error));
        outcome?;
        let report = shared.report;
        Ok(Reactor {
            poller,
            acceptor,
            peers: Vec::new(),
            sessions: Sessions::default(),
            sharing: Sharing::default(),
            context: Context {
                number,
                shared,
                trace,
                queue_pair,
                backlog: VecDeque::new(),
                lingering: Vec::new(),
                retired: Retired::default(),
            },
            next_thread: 0,
            again: Vec::new(),
            woken: Vec::new(),
            turns: Default::default(),
            failed: Complaints::new(
                report,
                Complaints::LINES_PER_TICK,
                "more connections failed before login",
            ),
            turned_away: Complaints::new(
                report,
                0,
                "connections were refused because too many are open",
            ),
            pushed_out: Complaints::new(
                report,
                0,
                "connections that had not logged in were dropped to make room for others",
            ),
            next_tick: Instant::ZERO,
            next_tcp_sample: Instant::ZERO,
        })
    }

    /// Applies changes made by other sessions.
    fn review(&mut self) {
        let now = clock::now();
        for (_, served) in self.sessions.iter_mut() {
            served.session.review(now, &mut self.context.trace);
            self.woken.extend(served.slots().map(|(_, slot)| slot));
        }
    }

    /// Stops listening, and asks the initiators to log out.
    fn drain(&mut self, seconds: u16) {
        self.acceptor.replace(&self.poller, Vec::new(), |_, _| {});
        let now = clock::now();
        for (_, served) in self.sessions.iter_mut() {
            let trace = &mut self.context.trace;
            served.session.ask_to_leave(seconds, now, trace);
            self.woken.extend(served.slots().map(|(_, slot)| slot));
        }
    }

    fn greet(&mut self, stream: TcpStream, seat: Seat) {
        // PDUs are assembled before they are sent; waiting for more can only delay.
        if stream.set_nodelay(true).is_err() {
            return; // Dropping the stream closes it.
        }
        self.make_room(seat.initiator.ip());
        let now = clock::now();
        let directory = self.context.shared.directory();
        let wanted = directory.discovery.spec.wanted.clone();
        let login = wansan_iscsi::target::Handshake::new(wanted);
        self.take_in(Peer {
            stream,
            seat,
            phase: Phase::Login(Box::new(login)),
            life: Life::new(now),
            came: now,
            interest: (true, false),
            delayed_ack: DelayedAck::On,
            stamping: None,
            gathering: Gathering::new(),
            tail: Tail::default(),
        });
    }

    /// Drops a connection that has not logged in, if there are too many for one more from `newcomer`.
    fn make_room(&mut self, newcomer: IpAddr) {
        let waiting = (0..).zip(&self.peers).filter_map(|(slot, peer)| {
            let peer = peer.as_ref()?;
            let progress = match &peer.phase {
                Phase::Login(handshake) if handshake.has_begun() => Progress::LoggingIn,
                Phase::Login(_) => Progress::Silent,
                Phase::Closing(_) if !peer.seat.is_taken() => Progress::Closing,
                Phase::Closing(_) | Phase::Session(_) => return None,
            };
            Some(Waiting {
                slot,
                address: peer.seat.initiator.ip(),
                came: peer.came,
                progress,
            })
        });
        let waiting: Vec<Waiting> = waiting.collect();
        let places = self.context.shared.waiting_places;
        let connections = self.context.shared.directory().most_connections();
        if let Some(slot) = lobby::makes_room(&waiting, newcomer, places, connections) {
            self.pushed_out.count();
            self.drop_peer(slot);
        }
    }

    /// Assigns a connection a slot; drops it if it cannot be registered with the poller.
    fn take_in(&mut self, mut peer: Peer) -> Option<u16> {
        let free = self.peers.iter().position(Option::is_none);
        let slot = free.unwrap_or(self.peers.len());
        self.poller.add(&peer.stream, slot as u64).ok()?;
        peer.interest = (true, false);
        if slot == self.peers.len() {
            self.peers.push(None);
        }
        self.peers[slot] = Some(peer);
        Some(slot as u16)
    }

    /// Passes a connection to the thread that owns the session that it joins.
    fn hand_over(&mut self, slot: u16, owner: usize) {
        if let Some(peer) = self.peers[usize::from(slot)].take()
            && self.poller.remove(&peer.stream).is_ok()
        {
            let mail = Mail::Joining(Box::new(peer));
            self.context.shared.mailboxes.send(owner, mail);
        }
    }

    /// Adds a connection that has logged in to its session, replacing one with the same CID (RFC 7143 §6.3.4).
    fn seat(&mut self, slot: u16, accepted: Accepted, target: Option<Arc<ServedTarget>>) {
        let id = SessionId::new(accepted.isid, accepted.tsih);
        let joined = self.sessions.find(id).map(|(number, _)| number);
        let mut old = None;
        if let Some(number) = joined
            && let Some(served) = self.sessions.get_mut(number)
            && let Some(place) = served.session.place_of(accepted.cid)
        {
            served.session.reinstated(place);
            old = served.slot(place);
        }
        let Some(peer) = self.peers[usize::from(slot)].as_mut() else {
            return;
        };
        let targets = peer.targets(&self.context.shared, &accepted.initiator_name);
        let login = std::mem::replace(&mut peer.phase, Phase::Closing(VecDeque::new()));
        let Phase::Login(handshake) = login else {
            return;
        };
        let at = match joined {
            Some(number) => {
                let connection = handshake.into_connection(&accepted);
                self.sessions.join(number, connection, slot)
            }
            None => target.and_then(|target| {
                let config = target.session.clone();
                let make = || handshake.into_session(accepted, config, targets);
                let session = self.context.shared.registry.make(id, make)?;
                Some(self.sessions.begin(session, target, slot))
            }),
        };
        let logins = &self.context.shared.logins;
        Logins::count(match at {
            Some(_) => &logins.done,
            None => &logins.failed,
        });
        if let Some(at) = at {
            peer.phase = Phase::Session(at);
            if let Some(served) = self.sessions.get_mut(at.session) {
                let sending = served.target.spec.sending;
                peer.delayed_ack = sending.delayed_ack;
                // If it fails the socket is dead, which the next read reports.
                let _ = sending.prepare(&peer.stream);
                if let Ok(info) = TcpInfo::of(&peer.stream) {
                    peer.tail.look_at(&info);
                }
                let keys = *served.session.parameters();
                if let Some(connection) = served.session.connection(at.place) {
                    let trace = &mut self.context.trace;
                    peer.begin_records(id, &keys, connection, sending.nagle, trace);
                }
            }
        } else {
            // Its initiator has reinstated the session on another connection before this session was made.
            self.drop_peer(slot);
        }
        // After the new one was added, or the session might end with its only connection.
        if let Some(old) = old {
            self.begin_close(old);
        }
    }

    fn stores_answered(&mut self) {
        let mut touched: Vec<u16> = Vec::new();
        let mut late = Vec::new();
        let Reactor {
            sessions, context, ..
        } = self;
        for completion in context.queue_pair.completions() {
            let token = Token::from_u64(completion.token);
            if let Some(served) = sessions.get_mut(token.slot)
                && served.generation == token.generation
            {
                served.at_stores -= 1;
                answered(&mut served.session, completion, &mut context.trace);
                if touched.last() != Some(&token.slot) {
                    touched.push(token.slot);
                }
            } else {
                late.push(token);
            }
        }
        for token in late {
            context.answered_late(token);
        }
        context.submit_backlog(sessions);
        touched.sort_unstable();
        touched.dedup();
        for number in touched {
            for slot in self.busy(number) {
                self.serve(slot, false);
            }
        }
    }

    /// The connections of a session that have work to do and do not wait for their socket.
    fn busy(&mut self, number: u16) -> Vec<u16> {
        let Reactor {
            peers, sessions, ..
        } = self;
        let Some(served) = sessions.get_mut(number) else {
            return Vec::new();
        };
        let slots: Vec<(usize, u16)> = served.slots().collect();
        let busy = slots.into_iter().filter(|&(place, slot)| {
            let waits = |peer: &Peer| peer.interest.1;
            served.session.is_busy(place) && !peers[usize::from(slot)].as_ref().is_some_and(waits)
        });
        busy.map(|(_, slot)| slot).collect()
    }

    fn serve(&mut self, slot: u16, readable: bool) {
        let Some(peer) = self
            .peers
            .get_mut(usize::from(slot))
            .and_then(Option::as_mut)
        else {
            return;
        };
        let turn = peer.serve(readable, &mut self.sessions, &mut self.context);
        let session = match &peer.phase {
            Phase::Session(at) => Some(at.session),
            Phase::Login(_) | Phase::Closing(_) => None,
        };
        match turn {
            Ok(Turn::Done) => self.update_interest(slot),
            Ok(Turn::Again) => {
                if !self.again.contains(&slot) {
                    self.again.push(slot);
                }
                self.update_interest(slot);
            }
            Ok(Turn::LoggedIn(accepted, target)) => {
                self.seat(slot, *accepted, target);
                // The response has to be sent, and commands may follow the login.
                self.serve(slot, true);
            }
            Ok(Turn::Elsewhere(owner)) => self.hand_over(slot, owner),
            Err(end) => self.end(slot, &end),
        }
        if let Some(number) = session {
            self.sharing.serves(number, &mut self.sessions);
            self.follow_up(number, slot);
        }
    }

    /// Ends a connection that is closed in both directions while it neither reads nor writes, as after a logout that
    /// waits for the stores: no read or write would detect it, and the poller would report it forever.
    fn hung_up(&mut self, slot: u16) {
        let Some(Some(peer)) = self.peers.get(usize::from(slot)) else {
            return;
        };
        // The poller reports send timestamps as an error, too.
        if peer.interest == (false, false) && peer.is_hung_up() {
            let error = peer.stream.take_error().ok().flatten();
            self.end(slot, &error.map_or(End::Closed, End::Socket));
        }
    }

    /// Does the work that serving the connection at `served_slot` left for others of its session, and closes those that
    /// must close.
    fn follow_up(&mut self, number: u16, served_slot: u16) {
        while let Some(served) = self.sessions.get_mut(number)
            && let Some((place, close)) = served.session.poll_end()
        {
            if let Some(slot) = served.slot(place) {
                self.end(slot, &End::Session(close));
            }
        }
        if self
            .sessions
            .get_mut(number)
            .is_some_and(|served| served.is_shared())
        {
            for slot in self.busy(number) {
                if slot != served_slot && !self.woken.contains(&slot) {
                    self.woken.push(slot);
                }
            }
        }
    }

    /// Registers for writing while data is pending, and for reading unless the connection has enough.
    fn update_interest(&mut self, slot: u16) {
        let Some(peer) = self
            .peers
            .get_mut(usize::from(slot))
            .and_then(Option::as_mut)
        else {
            return;
        };
        let (read, write) = match &mut peer.phase {
            Phase::Login(handshake) => (true, !handshake.pending().is_empty()),
            Phase::Session(at) => match self.sessions.connection(*at) {
                Some(connection) => (connection.wants_input(), !connection.pending().is_empty()),
                None => (true, false),
            },
            Phase::Closing(rest) => (true, !rest.is_empty()),
        };
        if peer.interest != (read, write) {
            peer.interest = (read, write);
            let source = u64::from(slot);
            if self
                .poller
                .interest(&peer.stream, source, read, write)
                .is_err()
            {
                self.drop_peer(slot);
            }
        }
    }

    fn end(&mut self, slot: u16, end: &End) {
        if end.is_trouble() {
            // Once a connection is reset, its socket no longer reports the peer's address.
            if let Some(peer) = &self.peers[usize::from(slot)] {
                let line = || format!("{}: {end}", peer.seat.initiator);
                match peer.phase {
                    Phase::Session(_) => (self.context.shared.report)(&line()),
                    Phase::Login(_) | Phase::Closing(_) => self.failed.add(line),
                }
            }
        }
        if end.socket_is_dead() {
            self.drop_peer(slot);
        } else {
            self.begin_close(slot);
        }
    }

    /// Removes the connection at `slot` from its session, if any, and closes it in order.
    fn begin_close(&mut self, slot: u16) {
        let rest = self.take_out(slot);
        let Some(peer) = self
            .peers
            .get_mut(usize::from(slot))
            .and_then(Option::as_mut)
        else {
            return;
        };
        if let Some(rest) = rest {
            peer.phase = Phase::Closing(rest.into());
        }
        peer.came = clock::now();
        if peer.finish(&mut self.sessions).is_err() {
            self.drop_peer(slot);
        } else {
            self.update_interest(slot);
        }
    }

    fn drop_peer(&mut self, slot: u16) {
        self.take_out(slot);
        if let Some(mut peer) = self.peers[usize::from(slot)].take() {
            peer.finish_stamps(&mut self.context.trace);
        }
    }

    /// Removes a connection from its session or its login; returns its pending data, or `None` if it was closing
    /// already.
    fn take_out(&mut self, slot: u16) -> Option<Vec<u8>> {
        let peer = self.peers.get_mut(usize::from(slot))?.as_mut()?;
        let at = match &peer.phase {
            Phase::Login(handshake) => {
                Logins::count(&self.context.shared.logins.failed);
                return Some(handshake.pending().to_vec());
            }
            Phase::Session(at) => *at,
            Phase::Closing(_) => return None,
        };
        let trace = &mut self.context.trace;
        let (rest, is_over) = self.sessions.leave(at, clock::now(), trace);
        if is_over {
            self.end_session(at.session);
        } else {
            // Other connections may have been notified, or may continue now.
            let busy = self.busy(at.session);
            self.woken.extend(busy);
        }
        Some(rest)
    }

    fn end_session(&mut self, number: u16) {
        if let Some(served) = self.sessions.end(number) {
            self.context.shared.registry.leave(served.session.id());
            self.context.retired.add(&served);
            self.context.ended(number, served);
        }
    }

    /// Does what is due: TCP samples, pings, and timeouts.
    fn look_at_the_time(&mut self, now: Instant) {
        if self.context.trace.tcp.is_kept() && now >= self.next_tcp_sample {
            self.next_tcp_sample = now + self.context.shared.tcp_interval;
            for peer in self.peers.iter_mut().flatten() {
                if let Phase::Session(at) = peer.phase
                    && let Some(served) = self.sessions.get_mut(at.session)
                {
                    let id = served.session.id();
                    let connection = served.session.connection(at.place);
                    let sample = connection
                        .and_then(|it| TcpInfo::sample(&peer.stream, now, id, it.id()).ok());
                    if let Some(record) = sample {
                        self.context.trace.tcp(record);
                    }
                }
            }
        }
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + TICK;
        self.acceptor.resume(&self.poller);
        for complaints in [
            &mut self.failed,
            &mut self.turned_away,
            &mut self.pushed_out,
        ] {
            complaints.tick();
        }
        let mut over = Vec::new();
        for (number, served) in self.sessions.iter_mut() {
            served.session.rest();
            served.session.expire(now, &mut self.context.trace);
            if served.session.is_over() {
                over.push(number);
            }
        }
        for number in over {
            self.end_session(number);
        }
        for slot in 0..self.peers.len() as u16 {
            self.check_life(slot, now);
        }
    }

    fn check_life(&mut self, slot: u16, now: Instant) {
        let Some(peer) = self.peers[usize::from(slot)].as_mut() else {
            return;
        };
        let age = now.since(peer.came);
        // The kernel stamps received data by its last byte, so with stamps recorded everything is read as it arrives.
        if peer.life.silence(now) < TICK && peer.stamping.is_none() {
            peer.gathering.look_at_window(&peer.stream);
        }
        match &mut peer.phase {
            Phase::Login(_) if age > LOGIN_TIME => self.begin_close(slot),
            Phase::Closing(_) if age > CLOSING_TIME => self.drop_peer(slot),
            Phase::Session(at) => match peer.life.judge(&peer.stream, now) {
                Verdict::Lively => {}
                Verdict::Ask => {
                    if let Some(served) = self.sessions.get_mut(at.session) {
                        served.session.ping(at.place, now, &mut self.context.trace);
                    }
                    self.serve(slot, false);
                }
                Verdict::GiveUp => {
                    (self.context.shared.report)(&format!(
                        "{}: silent for {} s: closed",
                        peer.seat.initiator,
                        peer.life.silence(now).as_secs()
                    ));
                    self.begin_close(slot);
                }
            },
            Phase::Login(_) | Phase::Closing(_) => {}
        }
    }
}

impl Worker for Reactor {
    type Mail = Mail;
    type Output = Recorder;

    fn poller(&self) -> &Poller {
        &self.poller
    }

    fn before_wait(&mut self, now: Instant) -> Option<Instant> {
        self.look_at_the_time(now);
        self.sharing.look_at_the_time(now, &mut self.sessions);
        std::mem::swap(&mut self.again, &mut self.turns[0]);
        std::mem::swap(&mut self.woken, &mut self.turns[1]);
        if self.turns.iter().any(|turns| !turns.is_empty()) {
            return Some(now);
        }
        let samples = self.context.trace.tcp.is_kept() && !self.peers.is_empty();
        Some(match samples {
            true => self.next_tick.min(self.next_tcp_sample),
            false => self.next_tick,
        })
    }

    fn accept(&mut self, _now: Instant) {
        let batch = self.acceptor.accept(&self.poller, || Some(()));
        let shared = &self.context.shared;
        for connection in batch.connections {
            let Some(seat) = shared.seats.admit(connection.client) else {
                Logins::count(&shared.logins.turned_away);
                self.turned_away.count();
                continue;
            };
            let mail = Mail::Connection(connection.socket.into(), seat);
            shared.mailboxes.send(self.next_thread, mail);
            self.next_thread = (self.next_thread + 1) % shared.mailboxes.count();
        }
        if let Some(Pause::Failed(error)) = batch.pause {
            (shared.report)(&format!("cannot accept a connection: {error}"));
        }
    }

    fn mail(&mut self, mail: Mail, _now: Instant) {
        match mail {
            Mail::Connection(stream, seat) => self.greet(stream, seat),
            Mail::Joining(peer) => {
                if let Some(slot) = self.take_in(*peer) {
                    self.serve(slot, true);
                }
            }
            Mail::Review => self.review(),
            Mail::EndSession(id) => {
                let found = self.sessions.find(id);
                let found = found.map(|(number, served)| (number, served.slots().collect()));
                if let Some((number, slots)) = found {
                    let slots: Vec<(usize, u16)> = slots;
                    for (_, slot) in slots {
                        self.begin_close(slot);
                    }
                    self.end_session(number);
                } else {
                    self.context.is_gone(id);
                }
            }
            Mail::Drain(seconds) => self.drain(seconds),
            Mail::Snapshot(asker) => self.tell(&asker),
        }
    }

    fn ready(&mut self, event: Ready, _now: Instant) {
        if event.source == STORES {
            self.stores_answered();
            return;
        }
        let slot = event.source as u16;
        self.serve(slot, event.read);
        if event.gone {
            self.hung_up(slot);
        }
    }

    fn after_events(&mut self, _now: Instant) {
        let [mut again, mut woken] = std::mem::take(&mut self.turns);
        for slot in again.drain(..) {
            self.serve(slot, true);
        }
        for slot in woken.drain(..) {
            self.serve(slot, false);
        }
        self.turns = [again, woken];
    }

    /// The rest is dropped in the order of the fields, which matters.
    fn finish(mut self, failure: Option<io::Error>) -> Recorder {
        if let Some(error) = failure {
            (self.context.shared.report)(&format!("a target thread cannot poll: {error}"));
        }
        for peer in self.peers.iter_mut().flatten() {
            peer.finish_stamps(&mut self.context.trace);
        }
        self.context.trace
    }
}

#[cfg(test)]
mod tests;
