//! Programs over simulated TCP in virtual time: iSCSI initiators with their loads and a target, measured streams, and
//! relays.
//!
//! All use the same state machines as over real sockets ([`wansan_iscsi`], [`wansan_workload`], [`wansan_split`]). They
//! and their drivers take no CPU time, unless [`ProcessorsConfig`] sets its cost and the number of CPUs per host.

mod client;
mod coming;
mod dial;
mod initiator;
mod medium;
mod multipath;
mod processors;
mod receiver;
mod relay;
mod sender;
mod sessions;
mod socket;
mod target;

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use wansan_path::{Change, ChangeError};
use wansan_schema::{BenchReport, RelayEnd, StreamReport};
use wansan_split::Law;
use wansan_trace::{Instant, Recorder};
use wansan_workload::stream::Nonsense;

pub use self::dial::Patience;
pub use self::initiator::{InitiatorConfig, InitiatorError};
pub use self::processors::{ProcessorsConfig, Program, ProgramCost};
pub use self::receiver::ReceiverConfig;
pub use self::relay::RelayConfig;
pub use self::sender::{StreamConfig, StreamError};
pub use self::socket::{ConnectionConfig, EndConfig, Owner};
pub use self::target::{TargetConfig, TargetError};

use self::initiator::Initiator;
use self::processors::{Processors, Thread};
use self::receiver::Receiver;
use self::relay::Relay;
use self::sender::Sender;
use self::socket::Sockets;
use self::target::Target;
use crate::network::{Lost, MOST_AT_ONCE, Network, Pauses, Runaway};

/// Why a simulation ended before its loads did.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// An initiator failed.
    #[error("initiator {place}: {source}")]
    Initiator {
        /// Its index, from 0.
        place: usize,
        /// The cause.
        source: InitiatorError,
    },
    /// The target failed.
    #[error("the target: {0}")]
    Target(#[from] TargetError),
    /// No target at an address to which a program connected.
    #[error("nobody listens at {0}")]
    NoTarget(SocketAddr),
    /// A sender of streams failed.
    #[error("sender {place} of streams: {source}")]
    Stream {
        /// Its index, from 0.
        place: usize,
        /// The cause.
        source: StreamError,
    },
    /// A receiver of streams got data that is no stream.
    #[error("a receiver of streams: {0}")]
    Receiver(#[from] Nonsense),
    /// A link does not allow a scheduled change.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The loads did not end within the time limit.
    #[error("{load} is still {stage} after {} s of virtual time", limit.as_secs_f64())]
    Late {
        /// The first unfinished load.
        load: LoadPlace,
        /// What it is doing.
        stage: String,
        /// The time limit.
        limit: Duration,
    },
    /// The network simulation cannot continue.
    #[error(transparent)]
    Runaway(#[from] Runaway),
}

/// A load, by its index among those of its kind, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoadPlace {
    /// An initiator.
    Initiator(usize),
    /// A sender of streams.
    Sender(usize),
}

impl fmt::Display for LoadPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadPlace::Initiator(place) => write!(f, "initiator {place}"),
            LoadPlace::Sender(place) => write!(f, "sender {place} of streams"),
        }
    }
}

/// The results of a simulation.
#[derive(Debug)]
pub struct Ended {
    /// The network in its final state, with its records.
    pub network: Network,
    /// The report of each initiator, and its records.
    pub initiators: Vec<(BenchReport, Vec<Recorder>)>,
    /// The target's records, if there is one.
    pub target: Option<Recorder>,
    /// The report of each sender of streams, and its records.
    pub streams: Vec<(StreamReport, Recorder)>,
    /// The report of each relay, its law, and its records.
    pub relays: Vec<(RelayEnd, Law, Recorder)>,
    /// When the loads began.
    pub began: Instant,
}

/// A simulation of programs over a network.
#[derive(Debug)]
pub struct Storage {
    sockets: Sockets,
    target: Option<Target>,
    initiators: Vec<Initiator>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    relays: Vec<Relay>,
    sample: Duration,
    next_sample: Instant,
    /// Link changes in time order; times count from the beginning of the loads.
    changes: VecDeque<(Duration, u32, Change)>,
    /// Pauses of each initiator, and of the target or relay at its peers; they count from the beginning of the loads.
    pauses: Vec<(usize, [Pauses; 2])>,
    /// Packets between two addresses to drop on a link; they count from the beginning of the loads.
    lost: Vec<([SocketAddr; 2], u32, Vec<Lost>)>,
    /// The CPU model; `None` if programs take no CPU time.
    processors: Option<Processors>,
    began: Option<Instant>,
}

impl Storage {
    /// A network without programs yet; TCP and links are recorded at intervals of `sample`, which must not be zero.
    #[must_use]
    pub fn new(network: Network, sample: Duration) -> Storage {
        Storage {
            sockets: Sockets::new(network),
            target: None,
            initiators: Vec::new(),
            senders: Vec::new(),
            receivers: Vec::new(),
            relays: Vec::new(),
            sample,
            next_sample: Instant::ZERO,
            changes: VecDeque::new(),
            pauses: Vec::new(),
            lost: Vec::new(),
            processors: None,
            began: None,
        }
    }

    /// Schedules a link change `after` the beginning of the loads. Changes apply in the order in which they are
    /// scheduled.
    pub fn schedule(&mut self, after: Duration, link: u32, change: Change) {
        self.changes.push_back((after, link, change));
    }

    /// Makes programs take CPU time.
    pub fn set_processors(&mut self, config: ProcessorsConfig) {
        self.sockets.count_work();
        self.processors = Some(Processors::new(config));
    }

    /// Pauses an initiator, and the peers of its connections, at packets counted from the beginning of the loads.
    pub fn pause(&mut self, initiator: usize, pauses: [Pauses; 2]) {
        self.pauses.push((initiator, pauses));
    }

    /// Drops packets between two addresses on a link, counted from the beginning of the loads.
    pub fn lose(&mut self, flow: [SocketAddr; 2], link: u32, lost: Vec<Lost>) {
        self.lost.push((flow, link, lost));
    }

    /// Adds the target, which accepts connections to every address without another listener. Its units read as zeros.
    pub fn serve(&mut self, config: TargetConfig) {
        self.target = Some(Target::new(config));
    }

    /// Makes a unit of the target keep written data, over the initial content of that seed, or zeros.
    pub fn keep(&mut self, unit: usize, seed: Option<u64>) {
        if let Some(target) = &mut self.target {
            target.keep(unit, seed);
        }
    }

    /// Adds a receiver of streams.
    pub fn receive(&mut self, config: &ReceiverConfig) {
        let owner = Owner::Receiver(self.receivers.len());
        self.sockets.listen(&config.listen, owner);
        self.receivers.push(Receiver::new(config));
    }

    /// Adds a relay.
    pub fn relay(&mut self, config: RelayConfig) {
        let place = self.relays.len();
        self.sockets.listen(&config.listen, Owner::Relay(place));
        self.relays.push(Relay::new(place, config));
    }

    /// Adds an initiator, which connects at once. What it connects to must have been added before.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn add(&mut self, config: InitiatorConfig) -> Result<(), StorageError> {
        let place = self.initiators.len();
        let initiator = Initiator::start(place, config, &mut self.sockets);
        let initiator = initiator.map_err(|source| StorageError::Initiator { place, source })?;
        self.initiators.push(initiator);
        self.accept()
    }

    /// Adds a sender of streams, which connects at once. What it connects to must have been added before.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn send(&mut self, config: StreamConfig) -> Result<(), StorageError> {
        let place = self.senders.len();
        let sender = Sender::start(place, config, &mut self.sockets);
        self.senders.push(sender);
        self.accept()
    }

    /// Connects and logs in, then begins all loads together, and runs until all are over. `watch` is called from time
    /// to time with the progress from 0 to 1; when it returns `false`, the simulation ends there with `None`.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn run(
        mut self,
        limit: Duration,
        watch: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Option<Ended>, StorageError> {
        let mut at_once = 0;
        while let now = self.sockets.now()
            && !self.is_over(now)
        {
            if now > Instant::ZERO + limit {
                return Err(self.late(limit));
            }
            if self.began.is_none() && self.is_ready() {
                self.begin(now)?;
            }
            if now >= self.next_sample {
                self.next_sample = now + self.sample;
                self.record();
                if !watch(self.progress(now)) {
                    return Ok(None);
                }
            }
            self.step()?;
            at_once = match self.sockets.now() == now {
                true => at_once + 1,
                false => 0,
            };
            if at_once > MOST_AT_ONCE {
                return Err(Runaway::Stuck { at: now }.into());
            }
        }
        self.record();
        Ok(Some(Ended {
            network: self.sockets.network,
            initiators: self.initiators.into_iter().map(Initiator::end).collect(),
            target: self.target.map(Target::into_records),
            streams: self.senders.into_iter().map(Sender::end).collect(),
            relays: self.relays.into_iter().map(Relay::end).collect(),
            began: self.began.unwrap_or_default(),
        }))
    }

    fn is_ready(&self) -> bool {
        self.initiators.iter().all(Initiator::is_ready) && self.senders.iter().all(Sender::is_ready)
    }

    fn is_over(&self, now: Instant) -> bool {
        self.initiators.iter().all(|it| it.is_over(now))
            && self.senders.iter().all(|sender| sender.is_over(now))
    }

    fn progress(&self, now: Instant) -> f64 {
        let initiators = self.initiators.iter().map(|it| it.progress(now));
        let senders = self.senders.iter().map(|it| it.progress(now));
        initiators.chain(senders).fold(1.0, f64::min)
    }

    fn begin(&mut self, now: Instant) -> Result<(), StorageError> {
        self.began = Some(now);
        for (place, pauses) in std::mem::take(&mut self.pauses) {
            self.sockets.pause(Owner::Initiator(place), &pauses);
        }
        for (flow, link, lost) in std::mem::take(&mut self.lost) {
            self.sockets.lose(flow, link, &lost);
        }
        for place in 0..self.initiators.len() {
            self.initiators[place].begin(now);
            self.turn(Owner::Initiator(place), None)?;
        }
        for place in 0..self.senders.len() {
            self.senders[place].begin(now);
            self.turn(Owner::Sender(place), None)?;
        }
        Ok(())
    }

    fn late(&self, limit: Duration) -> StorageError {
        let initiators = self.initiators.iter().enumerate();
        let now = self.sockets.now();
        let initiators = initiators.filter(|(_, it)| !it.is_ready() && !it.is_over(now));
        let initiators = initiators.map(|(place, it)| (LoadPlace::Initiator(place), it.stage()));
        let senders = self.senders.iter().enumerate();
        let senders = senders.filter(|(_, it)| !it.is_ready() && !it.is_over(now));
        let senders = senders.map(|(place, it)| (LoadPlace::Sender(place), it.stage()));
        let late = initiators.chain(senders).next();
        let (load, stage) = late.unwrap_or((LoadPlace::Initiator(0), String::new()));
        StorageError::Late { load, stage, limit }
    }

    /// Runs the next event.
    fn step(&mut self) -> Result<(), StorageError> {
        let initiators = (0..self.initiators.len()).map(|place| self.initiator_wakes_at(place));
        let senders = (0..self.senders.len()).map(|place| self.sender_wakes_at(place));
        let target = self.target.iter().map(Target::wakes_at);
        let own = [self.next_sample, self.next_change()];
        let wakes_at = initiators.chain(senders).chain(target).chain(own).min();
        let wakes_at = wakes_at.unwrap_or(Instant::FAR_FUTURE);
        if let Some(end) = self.sockets.network.run(wakes_at.ns())? {
            return self.turn(self.sockets.owner(end), Some(end));
        }
        let now = self.sockets.now();
        while self.next_change() <= now
            && let Some((_, link, change)) = self.changes.pop_front()
        {
            self.sockets.network.change(link, change)?;
        }
        if let Some(target) = &mut self.target
            && target.wakes_at() <= now
        {
            target.complete(&mut self.sockets)?;
            self.account(now);
        }
        for place in 0..self.initiators.len() {
            if self.initiator_wakes_at(place) <= now {
                self.turn(Owner::Initiator(place), None)?;
            }
        }
        for place in 0..self.senders.len() {
            if self.sender_wakes_at(place) <= now {
                self.turn(Owner::Sender(place), None)?;
            }
        }
        Ok(())
    }

    /// When an initiator's next timer is due and a CPU is free for it.
    fn initiator_wakes_at(&self, place: usize) -> Instant {
        let wakes_at = self.initiators[place].wakes_at(self.sockets.now());
        wakes_at.max(self.is_free_at(Owner::Initiator(place)))
    }

    /// The same for a sender.
    fn sender_wakes_at(&self, place: usize) -> Instant {
        let wakes_at = self.senders[place].wakes_at(self.sockets.now());
        wakes_at.max(self.is_free_at(Owner::Sender(place)))
    }

    fn is_free_at(&self, owner: Owner) -> Instant {
        let thread = Thread {
            owner,
            serves: None,
        };
        let processors = self.processors.as_ref();
        processors.map_or(Instant::ZERO, |it| it.free(thread))
    }

    /// Charges CPU time for the work just done.
    fn account(&mut self, now: Instant) {
        let Some(processors) = &mut self.processors else {
            return;
        };
        for (thread, work) in self.sockets.take_work() {
            processors.works(thread, work, now, &mut self.sockets.network.trace);
        }
    }

    fn next_change(&self) -> Instant {
        let next = self.began.zip(self.changes.front());
        next.map_or(Instant::FAR_FUTURE, |(began, (after, ..))| began + *after)
    }

    /// A program does all that it can do now, because of an event at one of its ends or a timer.
    fn turn(&mut self, owner: Owner, end: Option<u32>) -> Result<(), StorageError> {
        let now = self.sockets.now();
        let sockets = &mut self.sockets;
        if let (Some(processors), Some(end)) = (&mut self.processors, end) {
            let begins = processors.begins(sockets.thread(end), now, &mut sockets.network.trace);
            if begins > now {
                sockets.network.postpone(end, begins.ns());
                return Ok(());
            }
        }
        match (owner, end) {
            (Owner::Initiator(place), _) => self.initiators[place]
                .turn(sockets)
                .map_err(|source| StorageError::Initiator { place, source })?,
            (Owner::Sender(place), _) => self.senders[place]
                .turn(sockets)
                .map_err(|source| StorageError::Stream { place, source })?,
            (Owner::Target, Some(end)) => {
                if let Some(target) = &mut self.target {
                    target.turn(end, sockets)?;
                }
            }
            (Owner::Receiver(place), Some(end)) => self.receivers[place].turn(end, sockets)?,
            (Owner::Relay(place), Some(end)) => self.relays[place].turn(end, sockets),
            (Owner::Target | Owner::Receiver(_) | Owner::Relay(_), None) => {}
        }
        self.account(now);
        self.accept()
    }

    /// Hands new connections to the programs that accept them.
    fn accept(&mut self) -> Result<(), StorageError> {
        while let Some((end, owner)) = self.sockets.accept() {
            match (owner, &mut self.target) {
                (Owner::Receiver(place), _) => self.receivers[place].accept(end),
                // A relay accepts a connection once it is established.
                (Owner::Relay(_), _) => {}
                (_, Some(target)) => target.accept(end),
                (_, None) => return Err(StorageError::NoTarget(self.sockets.addresses(end)[0])),
            }
        }
        Ok(())
    }

    fn record(&mut self) {
        let network = &mut self.sockets.network;
        network.record_links();
        if let Some(processors) = &self.processors {
            let now = Instant::from_ns(network.now_ns());
            processors.record(now, &mut network.trace);
        }
        if let Some(target) = &mut self.target {
            target.record_tcp(&self.sockets);
        }
        for initiator in &mut self.initiators {
            initiator.record_tcp(&self.sockets);
        }
        for sender in &mut self.senders {
            sender.observe(&self.sockets);
        }
        for relay in &mut self.relays {
            relay.record_tcp(&self.sockets);
        }
    }
}
