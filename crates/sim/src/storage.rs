//! iSCSI over simulated TCP: initiators with their loads, and a target, in virtual time.
//!
//! Both ends are the machines that real sockets drive ([`wansan_iscsi`], [`wansan_workload`]); what drivers
//! do around them costs no time here.

mod initiator;
mod socket;
mod target;

use std::collections::VecDeque;
use std::time::Duration;

use wansan_path::{Change, ChangeError};
use wansan_schema::BenchReport;
use wansan_trace::{Instant, Recorder};

pub use self::initiator::{InitiatorConfig, InitiatorError};
pub use self::socket::{ConnectionConfig, EndConfig};
pub use self::target::{TargetConfig, TargetError};

use self::initiator::Initiator;
use self::socket::Sockets;
use self::target::Target;
use crate::network::{MOST_AT_ONCE, Network, Runaway};

/// Why a simulation ended before its loads did.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// An initiator failed.
    #[error("initiator {place}: {source}")]
    Initiator {
        /// Which, from 0.
        place: usize,
        /// Why.
        source: InitiatorError,
    },
    /// The target failed.
    #[error("the target: {0}")]
    Target(#[from] TargetError),
    /// A link cannot be changed so.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// The loads did not end in the time that they were given.
    #[error(
        "initiator {place} is still {stage} after {} s of virtual time",
        limit.as_secs_f64()
    )]
    Late {
        /// The first initiator that is not done, from 0.
        place: usize,
        /// What it does.
        stage: String,
        /// That time.
        limit: Duration,
    },
    /// It cannot go on.
    #[error(transparent)]
    Runaway(#[from] Runaway),
}

/// What a simulation gave.
#[derive(Debug)]
pub struct Ended {
    /// The network as it is at the end, with its records.
    pub network: Network,
    /// What each initiator measured, and its records.
    pub initiators: Vec<(BenchReport, Recorder)>,
    /// The target's records.
    pub target: Recorder,
    /// When the loads began.
    pub began: Instant,
}

/// Initiators and a target over a network.
#[derive(Debug)]
pub struct Storage {
    sockets: Sockets,
    target: Target,
    initiators: Vec<Initiator>,
    /// Whose each end of a connection is: an initiator's, by its place, or the target's.
    owners: Vec<Option<usize>>,
    sample: Duration,
    next_sample: Instant,
    /// Changes of links, in the order of their times, which run from the beginning of the loads.
    changes: VecDeque<(Duration, u32, Change)>,
    began: Option<Instant>,
}

impl Storage {
    /// A target over a network; TCP and links are recorded at intervals of `sample`, which is not zero.
    #[must_use]
    pub fn new(network: Network, target: TargetConfig, sample: Duration) -> Storage {
        Storage {
            sockets: Sockets::new(network),
            target: Target::new(target),
            initiators: Vec::new(),
            owners: Vec::new(),
            sample,
            next_sample: Instant::ZERO,
            changes: VecDeque::new(),
            began: None,
        }
    }

    /// Has a link change so long after the loads have begun, not before the changes that were scheduled earlier.
    pub fn schedule(&mut self, after: Duration, link: u32, change: Change) {
        self.changes.push_back((after, link, change));
    }

    /// Adds an initiator, which connects now.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn add(&mut self, config: InitiatorConfig) -> Result<(), StorageError> {
        let place = self.initiators.len();
        let initiator = Initiator::start(config, &mut self.sockets, &mut self.target);
        let initiator = initiator.map_err(|source| StorageError::Initiator { place, source })?;
        self.initiators.push(initiator);
        self.find_owners(place);
        Ok(())
    }

    /// The ends of an initiator's connections are its own; those between are the target's.
    fn find_owners(&mut self, place: usize) {
        for &end in self.initiators[place].ends() {
            let end = end as usize;
            if self.owners.len() <= end + 1 {
                self.owners.resize(end + 2, None);
            }
            self.owners[end] = Some(place);
        }
    }

    /// Logs all initiators in, begins their loads together when all have, and goes on until all are over.
    /// `watch` is given how much is done, from 0 to 1, from time to time; when it says `false`, the simulation
    /// ends there with `None`.
    ///
    /// # Errors
    /// [`StorageError`].
    pub fn run(
        mut self,
        limit: Duration,
        watch: &mut dyn FnMut(f64) -> bool,
    ) -> Result<Option<Ended>, StorageError> {
        let mut at_once = 0;
        while !self.initiators.iter().all(Initiator::is_over) {
            let now = self.sockets.now();
            if now > Instant::ZERO + limit {
                return Err(self.late(limit));
            }
            if self.began.is_none() && self.initiators.iter().all(Initiator::is_ready) {
                self.began = Some(now);
                for place in 0..self.initiators.len() {
                    self.initiators[place].begin(now);
                    self.turn(place)?;
                }
            }
            if now >= self.next_sample {
                self.next_sample = now + self.sample;
                self.record();
                let progress = self.initiators.iter().map(|it| it.progress(now));
                if !watch(progress.fold(1.0, f64::min)) {
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
            target: self.target.into_records(),
            began: self.began.unwrap_or_default(),
        }))
    }

    fn late(&self, limit: Duration) -> StorageError {
        let busy = |it: &&Initiator| !it.is_ready() && !it.is_over();
        let late = self.initiators.iter().find(busy);
        let stage = late.map_or_else(String::new, Initiator::stage);
        let place = self.initiators.iter().position(|it| busy(&it));
        StorageError::Late {
            place: place.unwrap_or_default(),
            stage,
            limit,
        }
    }

    /// Lets the next thing happen.
    fn step(&mut self) -> Result<(), StorageError> {
        let now = self.sockets.now();
        let loads = self.initiators.iter().map(|it| it.wakes_at(now)).min();
        let wakes_at = loads
            .unwrap_or(Instant::FAR_FUTURE)
            .min(self.target.wakes_at())
            .min(self.next_sample)
            .min(self.next_change());
        if let Some(end) = self.sockets.network.run(wakes_at.ns())? {
            return match self.owners.get(end as usize).copied().flatten() {
                Some(place) => self.turn(place),
                None => Ok(self.target.turn(end, &mut self.sockets)?),
            };
        }
        let now = self.sockets.now();
        while self.next_change() <= now
            && let Some((_, link, change)) = self.changes.pop_front()
        {
            self.sockets.network.change(link, change)?;
        }
        if self.target.wakes_at() <= now {
            self.target.complete(&mut self.sockets)?;
        }
        for place in 0..self.initiators.len() {
            if self.initiators[place].wakes_at(now) <= now {
                self.turn(place)?;
            }
        }
        Ok(())
    }

    fn next_change(&self) -> Instant {
        let next = self.began.zip(self.changes.front());
        next.map_or(Instant::FAR_FUTURE, |(began, (after, ..))| began + *after)
    }

    fn turn(&mut self, place: usize) -> Result<(), StorageError> {
        let initiator = &mut self.initiators[place];
        let connections = initiator.ends().len();
        initiator
            .turn(&mut self.sockets, &mut self.target)
            .map_err(|source| StorageError::Initiator { place, source })?;
        if initiator.ends().len() > connections {
            self.find_owners(place);
        }
        Ok(())
    }

    fn record(&mut self) {
        self.sockets.network.record_links();
        self.target.record_tcp(&self.sockets);
        for initiator in &mut self.initiators {
            initiator.record_tcp(&self.sockets);
        }
    }
}
