//! Samples the kernel at each interval.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec};
use wansan_trace::{Instant, clock};

use super::devices::Devices;
use super::events::Events;
use super::process::ProcessError;
use super::traced::Traced;
use super::tracker::Tracker;
use super::{Batch, Ending, Method, Namespace, Unseen, WatchConfig, WatchError};
use crate::diag::{Diag, SocketInfo};

/// How often to look for new connections, or at each interval when that is longer: the kernel walks its whole table.
const DISCOVERY: Duration = Duration::from_millis(100);

/// The same where the kernel reports new connections: for those that it could not report.
const DISCOVERY_WHEN_TOLD: Duration = Duration::from_secs(1);

/// Traced events, and callers who end the watch, wait no longer.
const LONGEST_SLEEP: Duration = Duration::from_millis(20);

/// One network namespace's connections, sampled on a grid of times.
pub(super) struct Sampler {
    config: WatchConfig,
    diag: Diag,
    devices: Devices,
    /// Events from the kernel, or why there are none.
    events: Result<Events, String>,
    tracker: Tracker,
    /// The next time on the grid.
    due: Instant,
    discovery_due: Instant,
    /// Inodes of the watched process's sockets.
    sockets: HashSet<u32>,
    unseen: Unseen,
}

impl Sampler {
    /// Enters the namespace and opens what the watch needs.
    pub(super) fn open(config: WatchConfig) -> Result<Sampler, WatchError> {
        let sockets = match config.process {
            Some(process) => process.sockets()?,
            None => HashSet::new(),
        };
        let of_process = config.process.map(|p| Namespace::of_process(p.id));
        if let Some(namespace) = config.namespace.as_ref().or(of_process.as_ref()) {
            namespace.enter()?;
        }
        let devices = Devices::open().map_err(WatchError::Devices)?;
        let mut diag = Diag::open()?;
        // Reports a kernel or a filter that does not work before anything else.
        diag.dump(config.filter.as_ref())?;
        let events = match config.event_bytes {
            Some(bytes) => Events::open(bytes).map_err(|error| error.to_string()),
            None => Err("tracing was not asked for".to_owned()),
        };
        let now = clock::now();
        Ok(Sampler {
            tracker: Tracker::new(events.is_err()),
            config,
            diag,
            devices,
            events,
            due: now,
            discovery_due: now,
            sockets,
            unseen: Unseen::default(),
        })
    }

    pub(super) fn method(&self) -> Method {
        match &self.events {
            Ok(_) => Method::Traced,
            Err(reason) => Method::Sampled {
                reason: reason.clone(),
            },
        }
    }

    /// Waits for the next time on the grid, for an event, or for `stop`; returns the observations.
    pub(super) fn next(&mut self, stop: &AtomicBool) -> Result<Batch, Ending> {
        loop {
            self.sleep();
            let time = clock::now();
            let due = time >= self.due;
            let mut traced = match &mut self.events {
                Ok(events) => events.take(),
                Err(_) => Vec::new(),
            };
            let later = traced.split_off(traced.partition_point(|event| event.time <= time));
            self.take(&traced);
            if due {
                self.ask(time)?;
                self.advance();
            }
            // Events during the sampling come after its answers.
            self.take(&later);
            let (begun, records) = self.tracker.take();
            let devices_gone = self.devices.gone();
            let seen = !records.is_empty() || !devices_gone.is_empty();
            if due || seen || stop.load(Ordering::Relaxed) {
                self.unseen.events = self.events.as_ref().map_or(0, Events::lost);
                return Ok(Batch {
                    time,
                    begun,
                    records,
                    devices_gone,
                    unseen: self.unseen,
                });
            }
        }
    }

    fn take(&mut self, traced: &[Traced]) {
        let config = &self.config;
        for event in traced {
            self.tracker.traced(event, |local, remote| {
                // The owner of a socket is known once all connections are listed.
                config.process.is_none()
                    && config
                        .filter
                        .as_ref()
                        .is_none_or(|filter| filter.matches(local, remote))
            });
        }
    }

    /// Samples all connections when due, else the known ones.
    fn ask(&mut self, time: Instant) -> Result<(), Ending> {
        if time >= self.discovery_due {
            self.discover(time)?;
            // Events do not name the owner of a socket.
            let told = self.events.is_ok() && self.config.process.is_none();
            let least = if told { DISCOVERY_WHEN_TOLD } else { DISCOVERY };
            self.discovery_due = self.due + self.config.interval.max(least);
            return Ok(());
        }
        let known = self.tracker.connections();
        for (connection, socket) in known.iter().zip(self.diag.ask(&known)?) {
            match socket {
                Some(socket) => {
                    self.tracker.seen(time, socket);
                }
                None => self.tracker.gone(time, connection.cookie),
            }
        }
        Ok(())
    }

    /// Until the next time on the grid, or for the longest sleep.
    fn sleep(&self) {
        let until = self.due.min(clock::now() + LONGEST_SLEEP);
        let until = Timespec {
            tv_sec: (until.ns() / 1_000_000_000).cast_signed(),
            tv_nsec: (until.ns() % 1_000_000_000).cast_signed(),
        };
        // If a signal cuts it short, the caller loops once more.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &until);
    }

    /// Advances to the next future time on the grid.
    fn advance(&mut self) {
        let interval_ns = wansan_trace::time::duration_ns(self.config.interval).max(1);
        let late_ns = (clock::now() - self.due).as_nanos() as u64;
        let steps = late_ns / interval_ns + 1;
        self.unseen.samples += steps - 1;
        self.due = Instant::from_ns(self.due.ns() + steps * interval_ns);
    }

    /// Lists all connections.
    fn discover(&mut self, time: Instant) -> Result<(), Ending> {
        // This thread keeps the namespace alive: only its name can go.
        if let Some(namespace) = self.config.namespace.as_ref().filter(|n| n.has_gone()) {
            let path = namespace.path().to_owned();
            return Err(Ending::NamespaceGone { path });
        }
        let mut found = self.diag.dump(self.config.filter.as_ref())?;
        if let Some(process) = self.config.process {
            match process.sockets() {
                Ok(sockets) => self.sockets = sockets,
                Err(ProcessError::Unknown { id }) => return Err(Ending::ProcessEnded { id }),
                // If open files cannot be read for a moment, keep the previous ones.
                Err(ProcessError::Forbidden { .. } | ProcessError::System { .. }) => {}
            }
            found.retain(|socket| self.is_of_process(socket));
        }
        let left_out = self.tracker.all(time, found);
        self.unseen.connections = self.unseen.connections.max(left_out);
        Ok(())
    }

    /// Whether the process has the socket open, or had during the watch.
    fn is_of_process(&self, socket: &SocketInfo) -> bool {
        let connection = &socket.connection;
        self.sockets.contains(&connection.inode) || self.tracker.knows(connection.cookie)
    }
}
