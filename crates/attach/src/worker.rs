//! The thread of an attached disk: owns the session, the cache and the programs' connections.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use wansan_cache::{Action, Failure, Outcome};
use wansan_nbd::Export;
use wansan_san::multipath::RouteEvent;
use wansan_server::{Complaints, Poller, Ready};
use wansan_trace::{Instant, Recorder, clock};

use crate::coalescing::{Coalescing, PATIENCE};
use crate::connection::{Connection, Ended};
use crate::disk::{Disk, DiskError, DiskEvent, Finished};
use crate::listen::Listen;
use crate::requests::Requests;
use crate::stack::Stack;
use crate::status::{Sharing, Standing, Status};

/// Most programs connected at once.
const MOST_CLIENTS: usize = 256;

/// Most bytes of open requests whose programs have disconnected; above it, no new programs are accepted.
const MOST_ORPHAN_BYTES: u64 = 256 << 20;

/// Shortest interval between status updates.
const STATUS_INTERVAL: Duration = Duration::from_millis(50);

/// Longest wait, so that timeouts are detected and the status is updated.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// Poller keys other than programs.
const ORDERS: u64 = 0;
const LISTENER: u64 = 1;
const FIRST_CLIENT: u64 = 2;

/// State shared with the thread.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// End once the disk has all writes.
    pub(crate) ends: AtomicBool,
    /// Drain the journal before ending.
    pub(crate) drains: AtomicBool,
    /// Acknowledged writes could not be written.
    pub(crate) has_failed: AtomicBool,
    /// End at once.
    pub(crate) gives_up: AtomicBool,
    pub(crate) status: Mutex<Status>,
}

/// The thread's state.
pub(crate) struct Worker {
    pub(crate) disk: Disk,
    pub(crate) stack: Stack,
    pub(crate) exports: Arc<[Export]>,
    pub(crate) listen: Listen,
    pub(crate) poller: Poller,
    /// Becomes readable when `shared` has a new order.
    pub(crate) orders: OwnedFd,
    pub(crate) shared: Arc<Shared>,
    pub(crate) complaints: Complaints,
    /// The request recorder, if requests are recorded.
    recorded: Option<Requests>,
    clients: BTreeMap<u64, Client>,
    next_client: u64,
    coalescing: Coalescing,
    /// The program of each open request.
    requests: BTreeMap<u64, u64>,
    next_request: u64,
    /// Open requests of disconnected programs, and their bytes.
    orphans: BTreeMap<u64, u64>,
    orphan_bytes: u64,
    accepts: bool,
    /// Evidence that others use the disk.
    sharing: Option<Sharing>,
    recoveries: u64,
    /// The current session's number.
    sessions: u64,
    failed_requests: u64,
    next_status: Instant,
    next_tick: Instant,
    /// The final flush before ending.
    last_flush: Option<u64>,
    /// The journal's failure has been reported.
    has_complained: bool,
}

struct Client {
    connection: Connection,
    /// Registered poll interest: read, write.
    interest: (bool, bool),
}

impl Worker {
    pub(crate) fn new(
        disk: Disk,
        (stack, recorded): (Stack, Option<Requests>),
        exports: Arc<[Export]>,
        listen: Listen,
        (poller, orders): (Poller, OwnedFd),
        shared: Arc<Shared>,
        complaints: Complaints,
    ) -> io::Result<Worker> {
        poller.add(&orders, ORDERS)?;
        poller.add(&listen, LISTENER)?;
        Ok(Worker {
            disk,
            stack,
            exports,
            listen,
            poller,
            orders,
            shared,
            complaints,
            recorded,
            clients: BTreeMap::new(),
            next_client: FIRST_CLIENT,
            coalescing: Coalescing::default(),
            requests: BTreeMap::new(),
            next_request: 0,
            orphans: BTreeMap::new(),
            orphan_bytes: 0,
            accepts: true,
            sharing: None,
            recoveries: 0,
            sessions: 0,
            failed_requests: 0,
            next_status: Instant::ZERO,
            next_tick: Instant::ZERO,
            last_flush: None,
            has_complained: false,
        })
    }

    /// Serves until ordered to end; returns the records.
    pub(crate) fn run(mut self) -> Result<Vec<Recorder>, DiskError> {
        let mut ready = Vec::new();
        loop {
            let now = clock::now();
            self.advance(now);
            if self.is_over(now) {
                break;
            }
            self.publish(now);
            if self.requests.is_empty() && self.coalescing.leaves_session(now) {
                self.poller.wait(now, Some(now + PATIENCE), &mut ready)?;
                if ready.is_empty() {
                    self.coalescing.waited_in_vain();
                }
            } else {
                let deadline = self.stack.deadline(now).min(now + LONGEST_WAIT);
                self.disk.turn(deadline)?;
                self.coalescing.turned(clock::now());
                self.poller.wait(now, Some(now), &mut ready)?;
            }
            for event in &ready {
                self.react(*event);
            }
        }
        self.next_status = Instant::ZERO;
        self.publish(clock::now());
        let (mut records, left) = self.disk.detach();
        if let Some(left) = left {
            self.complaints.say(&left);
        }
        records.extend(self.recorded.map(Requests::into_recorder));
        Ok(records)
    }

    /// Does everything possible without waiting.
    fn advance(&mut self, now: Instant) {
        // Before processing any answer of a new session.
        let sessions = self.disk.recoveries().sessions;
        if sessions != std::mem::replace(&mut self.sessions, sessions) {
            self.recoveries += 1;
            self.stack.again(now);
            // Unit attentions were lost with the previous session, or consumed by the check of the disk's identity.
            self.disk.assume_write_cache();
            self.stack
                .know_volatile(self.disk.facts().modes.has_write_cache);
            self.stack.invalidate();
        }
        while let Some(event) = self.disk.poll_event() {
            self.report(&event, now);
        }
        loop {
            self.work(now);
            if let Some(failure) = self.refusal() {
                self.fail_all(failure);
            }
            if !self.send(now) {
                return;
            }
        }
    }

    /// Moves completions from the disk to the cache, operations from the cache to the disk, and answers to programs,
    /// until nothing is left.
    fn work(&mut self, now: Instant) {
        loop {
            let mut is_quiet = true;
            let mut commands = BTreeMap::new();
            while let Some(finished) = self.disk.poll_done() {
                is_quiet = false;
                let Finished {
                    tag,
                    outcome,
                    command,
                } = finished;
                if self.recorded.is_some() {
                    commands.extend(command.map(|command| (tag, command)));
                }
                self.stack.completed(tag, outcome, now);
            }
            while let Some(operation) = self.stack.poll_operation(now) {
                // It may complete without any work for the disk.
                is_quiet = false;
                self.disk.submit(operation);
            }
            self.record_marks();
            while let Some(done) = self.stack.poll_done() {
                is_quiet = false;
                if let Some(recorded) = &mut self.recorded {
                    let command = done.operation.and_then(|tag| commands.get(&tag));
                    recorded.done(done.request, command.copied(), now);
                }
                self.answer(done.request, &done.outcome);
            }
            if is_quiet {
                return;
            }
        }
    }

    fn record_marks(&mut self) {
        if let Some(recorded) = &mut self.recorded {
            while let Some(mark) = self.stack.poll_mark() {
                recorded.mark(mark);
            }
        }
    }

    fn answer(&mut self, request: u64, outcome: &Outcome) {
        self.failed_requests += u64::from(outcome.is_err());
        if Some(request) == self.last_flush && outcome.is_err() {
            self.shared.has_failed.store(true, Ordering::Relaxed);
        }
        self.orphan_bytes -= self.orphans.remove(&request).unwrap_or(0);
        if let Some(client) = self.requests.remove(&request)
            && let Some(client) = self.clients.get_mut(&client)
        {
            client.connection.answer(request, outcome);
        }
    }

    /// The error for requests, if they have to fail: with a journal, writes continue without a session, and reads that
    /// it cannot serve wait. Requests for a disk that another host has taken over do not wait.
    fn refusal(&self) -> Option<Failure> {
        let is_lost = self.disk.is_down() && !self.stack.has_journal();
        match self.disk.is_preempted() {
            true => Some(Failure::NotPermitted),
            false => is_lost.then_some(Failure::Io),
        }
    }

    /// Fails all requests of programs; the cache keeps acknowledged writes.
    fn fail_all(&mut self, failure: Failure) {
        for request in std::mem::take(&mut self.requests)
            .into_keys()
            .collect::<Vec<_>>()
        {
            for client in self.clients.values_mut() {
                client.connection.answer(request, &Err(failure));
            }
            // No session can write it back any more.
            if Some(request) == self.last_flush && self.disk.is_preempted() {
                let is_kept = self.stack.has_journal();
                self.shared.has_failed.fetch_or(!is_kept, Ordering::Relaxed);
            }
            self.failed_requests += 1;
            if let Some(recorded) = &mut self.recorded {
                recorded.done(request, None, clock::now());
            }
        }
    }

    /// Sends replies, and resumes reading from programs that were held back at their limits; returns whether that
    /// brought requests.
    fn send(&mut self, now: Instant) -> bool {
        let mut has_received = false;
        let mut ended = Vec::new();
        let ids: Vec<u64> = self.clients.keys().copied().collect();
        for id in ids {
            let Some(client) = self.clients.get_mut(&id) else {
                continue;
            };
            if client.connection.has_replies() {
                self.coalescing.replied(now);
            }
            let mut sent = client.connection.send();
            if sent.is_ok() && client.connection.reads() && client.connection.is_left() {
                sent = self.receive(id, now);
                has_received = true;
            }
            match sent {
                Ok(()) => self.choose_interest(id),
                Err(end) => ended.push((id, end)),
            }
        }
        for (id, end) in ended {
            self.close(id, &end);
        }
        has_received
    }

    fn choose_interest(&mut self, id: u64) {
        let Some(client) = self.clients.get_mut(&id) else {
            return;
        };
        let connection = &client.connection;
        let interest = (connection.reads(), connection.is_blocked());
        if interest != client.interest {
            client.interest = interest;
            let (read, write) = interest;
            if let Err(error) = self.poller.interest(&connection.stream, id, read, write) {
                self.close(id, &error.into());
            }
        }
    }

    fn react(&mut self, event: Ready) {
        match event.source {
            ORDERS => self.drain_orders(),
            LISTENER => self.accept(),
            id if event.read => {
                let reads = self
                    .clients
                    .get(&id)
                    .is_some_and(|client| client.connection.reads());
                let received = match event.gone && !reads {
                    // No one is left to answer, and the poller would report it until the socket is closed.
                    true => Err(Ended::Closed),
                    false => {
                        let now = clock::now();
                        self.coalescing.heard(now);
                        self.receive(id, now)
                    }
                };
                if let Err(end) = received {
                    self.close(id, &end);
                }
            }
            // Replies are sent in every round.
            _ => {}
        }
    }

    fn receive(&mut self, id: u64, now: Instant) -> Result<(), Ended> {
        let refusal = self.refusal();
        let Some(client) = self.clients.get_mut(&id) else {
            return Ok(());
        };
        let (stack, requests, next) = (&mut self.stack, &mut self.requests, &mut self.next_request);
        let recorded = &mut self.recorded;
        let refusal = match self.shared.ends.load(Ordering::Relaxed) {
            true => Some(Failure::ShuttingDown),
            false => refusal,
        };
        let mut refused = Vec::new();
        let received = client.connection.receive(|action| {
            let request = *next;
            *next += 1;
            match refusal {
                Some(failure) => refused.push((request, failure)),
                None => {
                    requests.insert(request, id);
                    if let Some(recorded) = recorded {
                        recorded.begin(request, &action, now);
                    }
                    stack.submit(request, action, now);
                }
            }
            request
        });
        for (request, failure) in refused {
            self.failed_requests += 1;
            client.connection.answer(request, &Err(failure));
        }
        received
    }

    fn accept(&mut self) {
        loop {
            let stream = match self.listen.accept() {
                Ok(Some(stream)) => stream,
                Ok(None) => return,
                Err(error) => {
                    self.complaints.add(|| format!("cannot accept: {error}"));
                    return self.await_clients(false);
                }
            };
            if self.shared.ends.load(Ordering::Relaxed) {
                continue;
            }
            if self.clients.len() >= MOST_CLIENTS || self.orphan_bytes >= MOST_ORPHAN_BYTES {
                self.complaints
                    .add(|| "too many programs are connected: no more are accepted".to_owned());
                continue;
            }
            let id = self.next_client;
            self.next_client += 1;
            if let Err(error) = self.poller.add(&stream, id) {
                self.complaints
                    .add(|| format!("cannot wait for a program: {error}"));
                continue;
            }
            let client = Client {
                connection: Connection::new(stream, Arc::clone(&self.exports)),
                interest: (true, false),
            };
            self.clients.insert(id, client);
        }
    }

    /// Sets whether connections are accepted: not for a while after the system ran out of resources for them.
    fn await_clients(&mut self, accepts: bool) {
        self.accepts = accepts;
        if let Err(error) = self.poller.interest(&self.listen, LISTENER, accepts, false) {
            self.complaints
                .add(|| format!("cannot wait for programs: {error}"));
        }
    }

    fn close(&mut self, id: u64, end: &Ended) {
        let Some(client) = self.clients.remove(&id) else {
            return;
        };
        if !matches!(end, Ended::Closed) {
            self.complaints
                .add(|| format!("the connection of a program ended: {end}"));
        }
        // Its writes continue all the same.
        for (request, bytes) in client.connection.open_requests() {
            self.requests.remove(&request);
            self.orphans.insert(request, bytes);
            self.orphan_bytes += bytes;
        }
        // An error means that the poller has already forgotten the socket.
        let _ = self.poller.remove(&client.connection.stream);
    }

    fn drain_orders(&self) {
        // The order itself is in `shared`.
        let _ = rustix::io::read(&self.orders, &mut [0; 8]);
    }

    /// Whether it should end and may: the disk has every acknowledged write.
    fn is_over(&mut self, now: Instant) -> bool {
        if self.shared.gives_up.load(Ordering::Relaxed) {
            return true;
        }
        if !self.shared.ends.load(Ordering::Relaxed) {
            return false;
        }
        // Nobody receives the answer.
        if self.last_flush.is_none() {
            let request = self.next_request;
            self.next_request += 1;
            self.last_flush = Some(request);
            self.requests.insert(request, ORDERS);
            self.stack.submit(request, Action::Flush, now);
            self.advance(now);
        }
        // Writes in the journal are safe. Those for another host's disk are lost.
        let may_leave = self.stack.has_journal() && !self.shared.drains.load(Ordering::Relaxed)
            || self.disk.is_preempted();
        self.requests.is_empty() && (may_leave || self.stack.is_idle() && self.disk.is_idle())
    }

    fn report(&mut self, event: &DiskEvent, now: Instant) {
        let line = match event {
            DiskEvent::Changed => {
                self.stack
                    .know_volatile(self.disk.facts().modes.has_write_cache);
                return self.stack.invalidate();
            }
            DiskEvent::Reset => {
                self.stack.invalidate();
                return self.stack.again(now);
            }
            DiskEvent::Shared(sharing) => {
                self.sharing = *sharing;
                self.stack.share(sharing.is_some());
                match sharing {
                    Some(sharing) => sharing.words(self.stack.has_journal()),
                    None => "no other initiator is known to use the disk any more".to_owned(),
                }
            }
            DiskEvent::Back => {
                self.recoveries += 1;
                self.sessions = 0;
                self.stack.again(now);
                "the session is back".to_owned()
            }
            DiskEvent::Lost(why) => {
                format!("the session is lost, and requests fail until there is a new one: {why}")
            }
            DiskEvent::Preempted(why) => return self.complaints.say(why),
            DiskEvent::StillLost(why) => format!("no new session yet: {why}"),
            DiskEvent::Route(event) => {
                // The disk behind the new session may have lost power.
                if let RouteEvent::Back { .. } = event {
                    self.stack.invalidate();
                    self.stack.again(now);
                }
                // Log each reason once, with advice: messages about flapping routes must not drown it.
                if let RouteEvent::Down { .. } = event {
                    return self.complaints.say(&event.to_string());
                }
                event.to_string()
            }
            DiskEvent::Failed(why) => format!("the disk failed a request: {why}"),
        };
        self.complaints.add(|| line);
    }

    fn publish(&mut self, now: Instant) {
        if now < self.next_status {
            return;
        }
        self.next_status = now + STATUS_INTERVAL;
        if now >= self.next_tick {
            self.next_tick = now + Duration::from_secs(1);
            self.complaints.tick();
            if !self.accepts {
                self.await_clients(true);
            }
        }
        if let Some(broken) = self.stack.broken()
            && !std::mem::replace(&mut self.has_complained, true)
        {
            self.complaints.add(|| broken);
        }
        let standing = match self.disk.cut_off(now).is_zero() {
            _ if self.disk.is_preempted() => Standing::Preempted,
            _ if self.disk.is_down() => Standing::Lost,
            false => Standing::Recovering,
            true => Standing::Connected,
        };
        let status = Status {
            standing,
            connections: self.disk.connections(),
            clients: self.clients.len(),
            open_requests: self.requests.len(),
            behind_bytes: self.stack.behind_bytes(),
            behind_ns: self
                .stack
                .behind_since()
                .map_or(0, |since| (now - since).as_nanos() as u64),
            ahead_bytes: self.stack.ahead_bytes(),
            sharing: self.sharing,
            has_journal: self.stack.has_journal(),
            counters: self.stack.counters(),
            recoveries: self.recoveries,
            failed_requests: self.failed_requests,
        };
        if let Ok(mut shared) = self.shared.status.lock() {
            *shared = status;
        }
    }
}
