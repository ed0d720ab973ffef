//! One thread of a target: waits for sockets, stores and mail, and serves its connections.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use wansan_iscsi::target::Session;
use wansan_tcp::TcpInfo;
use wansan_trace::{Instant, Recorder, clock};

use super::Shared;
use super::mailbox::Mail;
use super::seat::{MAX_CONNECTIONS, Seat};
use super::serve::{Context, End, Peer, Phase, Token, answered};
use crate::poller::{Poller, Ready};
use crate::store::{Pool, QueueBounds};

/// How long a login may take.
const LOGIN_TIME: Duration = Duration::from_secs(15);

/// How long an initiator may be silent before it is asked for a sign of life; after twice the time
/// its connection is closed.
const SILENCE: Duration = Duration::from_secs(30);

/// How long a connection may take to close.
const CLOSING_TIME: Duration = Duration::from_secs(5);

/// How often the times above are looked at.
const TICK: Duration = Duration::from_secs(1);

/// What one thread may have at the stores at once; more waits in its backlog, from which the
/// operations of a session that ends are taken out.
const STORE_QUEUE: QueueBounds = QueueBounds {
    operations: 1024,
    bytes: 64 << 20,
};

/// Sources of the poller that are no connection.
const LISTENER: u64 = u64::MAX;
const MAILBOX: u64 = u64::MAX - 1;
const STORES: u64 = u64::MAX - 2;

pub(super) struct Reactor {
    poller: Poller,
    listener: Option<TcpListener>,
    /// False during a pause in accepting connections.
    listens: bool,
    peers: Vec<Option<Peer>>,
    generations: u16,
    context: Context,
    /// The thread that gets the next connection.
    next_thread: usize,
    /// Connections that have had their turn and want another.
    again: Vec<u16>,
    next_tick: Instant,
    next_tcp_sample: Instant,
}

impl Reactor {
    pub(super) fn new(
        number: usize,
        shared: Arc<Shared>,
        listener: Option<TcpListener>,
        pool: &Pool,
        trace: Recorder,
    ) -> io::Result<Reactor> {
        let poller = Poller::new()?;
        let queue_pair = pool.queue_pair(STORE_QUEUE)?;
        if let Some(listener) = &listener {
            poller.add(listener, LISTENER)?;
        }
        poller.add(&*shared.mailboxes[number], MAILBOX)?;
        poller.add(&queue_pair, STORES)?;
        Ok(Reactor {
            poller,
            listener,
            listens: true,
            peers: Vec::new(),
            generations: 0,
            context: Context {
                number,
                shared,
                trace,
                queue_pair,
                backlog: std::collections::VecDeque::new(),
            },
            next_thread: 0,
            again: Vec::new(),
            next_tick: Instant::ZERO,
            next_tcp_sample: Instant::ZERO,
        })
    }

    /// Serves until it is told to stop, and gives the records.
    pub(super) fn run(mut self) -> Recorder {
        let mut ready: Vec<Ready> = Vec::new();
        loop {
            let now = clock::now();
            self.look_at_the_time(now);
            let mut deadline = self.next_tick;
            if self.context.trace.keeps_tcp() && !self.peers.is_empty() {
                deadline = deadline.min(self.next_tcp_sample);
            }
            let again = std::mem::take(&mut self.again);
            if !again.is_empty() {
                deadline = now;
            }
            if let Err(error) = self.poller.wait(now, Some(deadline), &mut ready) {
                (self.context.shared.report)(&format!("a target thread cannot wait: {error}"));
                return self.context.trace;
            }
            for event in &ready {
                match event.source {
                    LISTENER => self.accept(),
                    MAILBOX => {
                        if self.read_mail() {
                            return self.context.trace;
                        }
                    }
                    STORES => self.stores_answered(),
                    slot => self.serve(slot as u16, event.read),
                }
            }
            for slot in again {
                self.serve(slot, true);
            }
        }
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else {
            return;
        };
        loop {
            match listener.accept() {
                Ok((stream, initiator)) => {
                    let shared = &self.context.shared;
                    let Some(seat) = shared.seats.take(initiator) else {
                        (shared.report)(&format!(
                            "{initiator}: turned away, as {MAX_CONNECTIONS} connections are served"
                        ));
                        continue;
                    };
                    let mailboxes = &shared.mailboxes;
                    mailboxes[self.next_thread].put(Mail::Connection(stream, seat));
                    self.next_thread = (self.next_thread + 1) % mailboxes.len();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Out of descriptors, as a rule: the connection that waits would wake this
                    // thread for ever, so look again at the next tick.
                    (self.context.shared.report)(&format!("cannot accept a connection: {error}"));
                    self.listens = self
                        .poller
                        .interest(listener, LISTENER, false, false)
                        .is_err();
                    return;
                }
            }
        }
    }

    /// Listens again after a pause.
    fn resume_listening(&mut self) {
        if let Some(listener) = &self.listener
            && !self.listens
        {
            self.listens = self
                .poller
                .interest(listener, LISTENER, true, false)
                .is_ok();
        }
    }

    /// Reads the mail; says whether it is time to stop.
    fn read_mail(&mut self) -> bool {
        let mailbox = Arc::clone(&self.context.shared.mailboxes[self.context.number]);
        for mail in mailbox.take() {
            match mail {
                Mail::Connection(stream, seat) => self.take_in(stream, seat),
                Mail::TasksEnded {
                    by,
                    units,
                    attention,
                } => {
                    let now = clock::now();
                    for slot in self.sessions_slots() {
                        if let Some((session, trace)) = self.session(slot)
                            && session.id() != by
                        {
                            session.end_tasks(&units, attention, now, trace);
                            self.serve(slot, false);
                        }
                    }
                }
                Mail::EndSession(id) => {
                    for slot in self.sessions_slots() {
                        if self
                            .session(slot)
                            .is_some_and(|(session, _)| session.id() == id)
                        {
                            self.begin_close(slot);
                        }
                    }
                }
                Mail::Stop => return true,
            }
        }
        false
    }

    fn take_in(&mut self, stream: TcpStream, seat: Seat) {
        let slot = self
            .peers
            .iter()
            .position(Option::is_none)
            .unwrap_or(self.peers.len());
        // PDUs are put together before they are sent; waiting for more can only delay.
        let ready = stream.set_nonblocking(true).is_ok()
            && stream.set_nodelay(true).is_ok()
            && self.poller.add(&stream, slot as u64).is_ok();
        if !ready {
            return; // The stream is dropped: the initiator sees it close.
        }
        if slot == self.peers.len() {
            self.peers.push(None);
        }
        self.generations = self.generations.wrapping_add(1);
        let now = clock::now();
        let login = wansan_iscsi::target::Handshake::new(self.context.shared.wanted.clone());
        self.peers[slot] = Some(Peer {
            stream,
            seat,
            phase: Phase::Login(Box::new(login)),
            last_heard: now,
            came: now,
            generation: self.generations,
            interest: (true, false),
        });
    }

    fn sessions_slots(&self) -> Vec<u16> {
        let sessions = self.peers.iter().zip(0..).filter(|(peer, _)| {
            peer.as_ref()
                .is_some_and(|peer| matches!(peer.phase, Phase::Session(_)))
        });
        sessions.map(|(_, slot)| slot).collect()
    }

    fn session(&mut self, slot: u16) -> Option<(&mut Session, &mut Recorder)> {
        let peer = self.peers.get_mut(usize::from(slot))?.as_mut()?;
        match &mut peer.phase {
            Phase::Session(session) => Some((session, &mut self.context.trace)),
            Phase::Login(_) | Phase::Closing(_) => None,
        }
    }

    fn stores_answered(&mut self) {
        let mut touched: Vec<u16> = Vec::new();
        let Reactor { peers, context, .. } = self;
        for completion in context.queue_pair.completions() {
            let token = Token::from_u64(completion.token);
            let peer = peers
                .get_mut(usize::from(token.slot))
                .and_then(Option::as_mut);
            // A session that has ended meanwhile does not want to know.
            if let Some(peer) = peer
                && peer.generation == token.generation
                && let Phase::Session(session) = &mut peer.phase
            {
                answered(session, completion, &mut context.trace);
                if touched.last() != Some(&token.slot) {
                    touched.push(token.slot);
                }
            }
        }
        context.submit_backlog();
        touched.sort_unstable();
        touched.dedup();
        for slot in touched {
            self.serve(slot, false);
        }
    }

    fn serve(&mut self, slot: u16, readable: bool) {
        let Some(peer) = self
            .peers
            .get_mut(usize::from(slot))
            .and_then(Option::as_mut)
        else {
            return;
        };
        match peer.serve(slot, readable, &mut self.context) {
            Ok(more) => {
                if more && !self.again.contains(&slot) {
                    self.again.push(slot);
                }
                self.update_interest(slot);
            }
            Err(end) => self.end(slot, &end),
        }
    }

    /// Waits for writing while something is left to send, and for reading unless the connection
    /// has enough.
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
            Phase::Session(session) => {
                let connection = &session.connections()[0];
                (connection.wants_input(), !connection.pending().is_empty())
            }
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
            // Once a connection is reset, its socket no longer knows who was there.
            if let Some(peer) = &self.peers[usize::from(slot)] {
                (self.context.shared.report)(&format!("{}: {end}", peer.seat.initiator));
            }
        }
        if end.socket_is_dead() {
            self.drop_peer(slot);
        } else {
            self.begin_close(slot);
        }
    }

    /// Ends the session at `slot` and lets its connection close in order.
    fn begin_close(&mut self, slot: u16) {
        let Some(peer) = self
            .peers
            .get_mut(usize::from(slot))
            .and_then(Option::as_mut)
        else {
            return;
        };
        if let Some(session) = peer.close() {
            self.context.shared.registry.leave(session.id());
            self.context.forget(slot, peer.generation);
        }
        peer.came = clock::now();
        if peer.finish().is_err() {
            self.drop_peer(slot);
        } else {
            self.update_interest(slot);
        }
    }

    fn drop_peer(&mut self, slot: u16) {
        if let Some(mut peer) = self.peers[usize::from(slot)].take()
            && let Some(session) = peer.close()
        {
            self.context.shared.registry.leave(session.id());
            self.context.forget(slot, peer.generation);
        }
    }

    /// Does what is due: TCP samples, pings, and the end of what takes too long.
    fn look_at_the_time(&mut self, now: Instant) {
        if self.context.trace.keeps_tcp() && now >= self.next_tcp_sample {
            self.next_tcp_sample = now + self.context.shared.tcp_interval;
            for peer in self.peers.iter_mut().flatten() {
                if let Phase::Session(session) = &mut peer.phase
                    && let Ok(info) = TcpInfo::of(&peer.stream)
                {
                    let id = session.id();
                    let connection = session.connections()[0].id();
                    self.context.trace.tcp(info.record(now, id, connection));
                }
            }
        }
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + TICK;
        self.resume_listening();
        for slot in 0..self.peers.len() as u16 {
            self.check_life(slot, now);
        }
    }

    fn check_life(&mut self, slot: u16, now: Instant) {
        let Some(peer) = self.peers[usize::from(slot)].as_mut() else {
            return;
        };
        if let Phase::Session(session) = &mut peer.phase {
            session.rest();
        }
        let silent = now.since(peer.last_heard);
        let age = now.since(peer.came);
        match &mut peer.phase {
            Phase::Login(_) if age > LOGIN_TIME => self.begin_close(slot),
            Phase::Closing(_) if age > CLOSING_TIME => self.drop_peer(slot),
            Phase::Session(_) if silent > 2 * SILENCE => {
                (self.context.shared.report)(&format!(
                    "{}: silent for {} s: closed",
                    peer.seat.initiator,
                    silent.as_secs()
                ));
                self.begin_close(slot);
            }
            Phase::Session(session) if silent > SILENCE => {
                session.ping(0, now, &mut self.context.trace);
                self.serve(slot, false);
            }
            _ => {}
        }
    }
}
