//! A thread of a relay: waits for sockets and messages, and forwards its flows.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use wansan_server::{
    ACCEPTS_PER_TURN, Acceptor, Complaints, Connection, Pause, Poller, Ready, Worker,
};
use wansan_split::{CLIENT, Governor, TARGET};
use wansan_tcp::TcpInfo;
use wansan_tcp::{connection, queues};
use wansan_trace::event::{self, Role};
use wansan_trace::{ConnectionId, Instant, Recorder, SessionId};

use crate::flow::{Ending, Flow, Step};
use crate::mail::{Client, Mail};
use crate::meter::Meter;
use crate::pool::Pool;
use crate::route::Listener;
use crate::seat::Seat;
use crate::shared::Shared;
use crate::socket::BACKLOG;
use crate::survey::Survey;
use crate::table::{Key, Table};

/// How often reports are summed up, and idle memory is freed.
const TICK: Duration = Duration::from_secs(1);

/// How often flows with a deadline are checked, and room while there is none.
const SHORT_TICK: Duration = Duration::from_millis(10);

pub(crate) struct Reactor {
    number: usize,
    shared: Arc<Shared>,
    poller: Poller,
    acceptor: Acceptor<Listener>,
    flows: Table<Flow>,
    pool: Pool,
    /// Flows that had their turn and need another.
    again: Vec<Key>,
    /// Flows that get their turn after this round's events.
    turns: Vec<Key>,
    /// Flows that had a deadline at the last check.
    timed: Vec<Key>,
    meter: Meter,
    /// Surveys in progress.
    surveys: Vec<Survey>,
    complaints: Complaints,
    trace: Recorder,
    next_tick: Instant,
    next_short_tick: Instant,
    next_tcp_sample: Instant,
}

impl Reactor {
    pub(crate) fn new(number: usize, shared: Arc<Shared>, trace: Recorder) -> io::Result<Reactor> {
        Ok(Reactor {
            number,
            poller: Poller::new()?,
            acceptor: Acceptor::default(),
            flows: Table::default(),
            pool: Pool::new(Arc::clone(&shared.budget)),
            again: Vec::new(),
            turns: Vec::new(),
            timed: Vec::new(),
            meter: Meter::default(),
            surveys: Vec::new(),
            complaints: Complaints::new(
                shared.report,
                Complaints::LINES_PER_TICK,
                "more such lines within a second",
            ),
            shared,
            trace,
            next_tick: Instant::ZERO,
            next_short_tick: Instant::ZERO,
            next_tcp_sample: Instant::ZERO,
        })
    }

    /// When to check the time again.
    fn deadline(&self) -> Instant {
        let mut deadline = self.next_tick;
        if !self.timed.is_empty() || self.acceptor.is_paused() {
            deadline = deadline.min(self.next_short_tick);
        }
        if self.trace.tcp.is_kept() && !self.flows.is_empty() {
            deadline = deadline.min(self.next_tcp_sample);
        }
        deadline
    }

    fn look_at_the_time(&mut self, now: Instant) {
        if self.trace.tcp.is_kept() && now >= self.next_tcp_sample {
            self.next_tcp_sample = now + self.shared.tcp_interval;
            self.sample(now);
        }
        if now >= self.next_short_tick {
            self.next_short_tick = now + SHORT_TICK;
            if self.shared.seats.has_room() {
                self.acceptor.resume(&self.poller);
            }
            for key in std::mem::take(&mut self.timed) {
                let is_timed = |flow: &mut Flow| flow.is_timed();
                if self.flows.get_mut(key).is_some_and(is_timed) {
                    self.timed.push(key);
                    self.advance(key, now);
                }
            }
        }
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.complaints.tick();
            self.pool.tidy_up();
        }
    }

    /// Records the TCP_INFO of every connection.
    fn sample(&mut self, now: Instant) {
        for flow in self.flows.iter_mut() {
            let is_new = !flow.is_recorded && flow.sides[TARGET].is_connected();
            flow.is_recorded |= is_new;
            for (side, place) in flow.sides.iter().zip(0..) {
                let ids = (SessionId(flow.number), ConnectionId(place));
                if is_new {
                    let known = event::Connection {
                        time: now,
                        session: ids.0,
                        connection: ids.1,
                        role: Role::Relay,
                        ..event::Connection::BLANK
                    };
                    connection::record(side, known, &mut self.trace);
                }
                if let Ok(mut record) = TcpInfo::sample(side, now, ids.0, ids.1) {
                    let held = flow.directions[usize::from(place)].state.held_bytes() as u64;
                    let unread = queues::received_bytes(side).unwrap_or(0) + held;
                    record.unread_bytes = u32::try_from(unread).unwrap_or(u32::MAX);
                    let governor = flow.governor.as_ref();
                    if governor.and_then(Governor::asked_side) == Some(place.into()) {
                        record.ece_signals = u32::try_from(signals(flow)).unwrap_or(u32::MAX);
                    }
                    self.trace.tcp(record);
                }
            }
        }
    }

    /// Accepts connections; returns whether more may wait.
    fn accept_some(&mut self, now: Instant) -> bool {
        let (seats, number) = (&self.shared.seats, self.number);
        let batch = self.acceptor.accept(&self.poller, || seats.take(number));
        if let Some(pause) = batch.pause {
            self.meter.pauses += 1;
            if let Pause::Failed(error) = pause {
                self.complaints
                    .add(|| format!("cannot accept a connection: {error}"));
            }
        }
        for connection in batch.connections {
            self.admit(connection, now);
        }
        batch.more
    }

    /// Hands a client's flow to its thread, if the listener allows it.
    fn admit(&mut self, connection: Connection<Seat>, now: Instant) {
        let Connection {
            socket,
            client: address,
            listener,
            seat,
        } = connection;
        let route = Arc::clone(&self.acceptor.listeners()[listener].route);
        let listen = &route.config.listen;
        self.meter.accepted += 1;
        if !route.allows(address.ip()) {
            self.meter.turned_away += 1;
            self.complaints
                .add(|| format!("{address}: refused: {listen} does not allow its network"));
            return;
        }
        if self.shared.ends.made(address, &socket) {
            self.meter.looped += 1;
            self.complaints
                .add(|| format!("{address}: refused: the relay itself opened it, to {listen}"));
            return;
        }
        let thread = seat.thread;
        let client = Client {
            socket,
            address,
            route,
            seat,
        };
        if thread == self.number {
            self.take_in(client, now);
        } else {
            self.shared.mailboxes.send(thread, Mail::Client(client));
        }
    }

    /// Listens on these only.
    fn listen_at(&mut self, listeners: Vec<Listener>, now: Instant) {
        // Serve connections queued at listeners being removed, up to the length of their queues.
        for _ in 0..BACKLOG / ACCEPTS_PER_TURN {
            if !self.accept_some(now) {
                break;
            }
        }
        let report = self.shared.report;
        self.acceptor
            .replace(&self.poller, listeners, |listener, error| {
                report(&format!("cannot poll {}: {error}", listener.address));
            });
    }

    /// Starts a client's flow.
    fn take_in(&mut self, client: Client, now: Instant) {
        let Client {
            socket,
            address,
            route,
            seat,
        } = client;
        let number = self.shared.next_number();
        let listen = Arc::clone(&route);
        match Flow::begin(number, socket, address, route, seat, &self.shared.ends, now) {
            Ok(flow) => {
                let key = self.flows.insert(flow);
                self.timed.push(key);
                for side in [CLIENT, TARGET] {
                    self.watch(key, side);
                }
            }
            Err(error) => {
                self.meter.count_failure(&error);
                self.complaints.add(|| {
                    format!(
                        "{address}: cannot connect it to {}: {error}",
                        listen.config.to
                    )
                });
            }
        }
    }

    /// Registers a side of a flow with the poller. Where the kernel is out of memory, the flow ends, and closing resets
    /// both sides.
    fn watch(&mut self, key: Key, side: usize) {
        let Some(flow) = self.flows.get_mut(key) else {
            return;
        };
        if let Err(error) = self.poller.add_edges(&flow.sides[side], source(key, side))
            && let Some(flow) = self.flows.remove(key)
        {
            self.end(flow, &Ending::NotConnected(error.into()));
        }
    }

    /// Gives a flow its turn.
    fn advance(&mut self, key: Key, now: Instant) {
        let Some(flow) = self.flows.get_mut(key) else {
            return;
        };
        let was_timed = flow.is_timed();
        let before = (moved(flow), signals(flow));
        let step = flow.advance(&mut self.pool, now);
        let after = moved(flow);
        self.meter.add_bytes(before.0, after);
        let bytes = (after[0] + after[1]) - (before.0[0] + before.0[1]);
        if bytes > 0 {
            flow.recent.add(bytes, now);
        }
        self.meter.ece_signals += signals(flow) - before.1;
        if let Some(news) = flow.governor.as_mut().and_then(Governor::take_news) {
            self.meter.count_fallback(news.why);
            let client = flow.client;
            self.complaints.add(|| format!("{client}: {news}"));
        }
        for side in [CLIENT, TARGET] {
            let governor = flow.governor.as_ref();
            let buffer = governor.and_then(|governor| governor.buffer(side));
            if let Some(remark) = buffer.and_then(|buffer| flow.route.remark_on(side, buffer)) {
                (self.shared.report)(&remark.to_string());
            }
        }
        if flow.is_timed() && !was_timed {
            self.timed.push(key);
        }
        match step {
            Step::Waits => {}
            Step::Again => {
                if !flow.is_queued {
                    flow.is_queued = true;
                    self.again.push(key);
                }
            }
            Step::Reconnects => {
                self.watch(key, TARGET);
            }
            Step::Over(ending) => {
                if let Some(flow) = self.flows.remove(key) {
                    self.end(flow, &ending);
                }
            }
        }
    }

    fn end(&mut self, flow: Flow, ending: &Ending) {
        match ending {
            Ending::Finished => self.meter.finished += 1,
            Ending::Lost => self.meter.lost += 1,
            Ending::NotConnected(error) => {
                self.meter.count_failure(error);
                let (client, to) = (flow.client, flow.target);
                self.complaints
                    .add(|| format!("{client}: cannot connect to {to}: {error}"));
            }
        }
        for direction in &flow.directions {
            self.meter.held_bytes_max = self
                .meter
                .held_bytes_max
                .max(direction.state.held_bytes_max());
        }
        flow.close(ending, &mut self.pool);
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
        std::mem::swap(&mut self.again, &mut self.turns);
        let has_work = !self.turns.is_empty() || !self.surveys.is_empty();
        Some(if has_work { now } else { self.deadline() })
    }

    fn accept(&mut self, now: Instant) {
        self.accept_some(now);
    }

    fn mail(&mut self, mail: Mail, now: Instant) {
        match mail {
            Mail::Client(client) => self.take_in(client, now),
            Mail::Listen(listeners) => self.listen_at(listeners, now),
            Mail::Count(asker) => {
                // The receiver may be gone.
                let _ = asker.send(self.meter);
            }
            Mail::Survey(asker) => self.surveys.push(Survey::new(asker)),
        }
    }

    fn ready(&mut self, event: Ready, now: Instant) {
        let (key, side) = named(event.source);
        if let Some(flow) = self.flows.get_mut(key) {
            flow.note(side, event);
            self.advance(key, now);
        }
    }

    fn after_events(&mut self, now: Instant) {
        let mut turns = std::mem::take(&mut self.turns);
        for key in turns.drain(..) {
            if let Some(flow) = self.flows.get_mut(key) {
                flow.is_queued = false;
                self.advance(key, now);
            }
        }
        self.turns = turns;
        let surveys = std::mem::take(&mut self.surveys).into_iter();
        let left = surveys.filter_map(|survey| survey.turn(&self.flows));
        self.surveys = left.collect();
    }

    fn finish(self, failure: Option<io::Error>) -> Recorder {
        if let Some(error) = failure {
            (self.shared.report)(&format!("a relay thread cannot poll: {error}"));
        }
        self.trace
    }
}

/// Bytes that a flow has moved each way, and spliced bytes of both ways.
fn moved(flow: &Flow) -> [u64; 3] {
    let [onward, back] = &flow.directions;
    [
        onward.state.moved_bytes(),
        back.state.moved_bytes(),
        onward.spliced_bytes() + back.spliced_bytes(),
    ]
}

/// Number of ECE signals started towards one of its sides.
fn signals(flow: &Flow) -> u64 {
    flow.governor.as_ref().map_or(0, Governor::signals)
}

/// The poller's ID of a side of a flow.
fn source(key: Key, side: usize) -> u64 {
    key.number() << 1 | side as u64
}

/// The flow and the side of that ID.
fn named(source: u64) -> (Key, usize) {
    (Key::from_number(source >> 1), (source & 1) as usize)
}
