//! The emulated WAN: moves real frames between hosts, each direction through a [`Chain`].
//!
//! Every host's link ends in the WAN's namespace; only the emulator receives and sends there. It switches by Ethernet
//! destination address, so it works for any payload. It needs CAP_NET_RAW in the namespace's user namespace and no
//! device file, so it works for unprivileged users.
//!
//! Hosts exchange TCP and UDP with it as with a network card that supports segmentation offload: in super-frames of
//! many packets. A path never sees these: each is cut into the packets that a wire would carry, which are lost, queued
//! and delivered individually; those of one flow that leave together are joined again, like receive offload.
//!
//! On a real router ([`Routed`]) it captures packets of certain hosts from shared interfaces, and forwards them to the
//! next hop in place of the kernel, which must not forward them.
//!
//! Sizes on a path are those of the Ethernet frame: 14 bytes of header before the IP packet, without preamble, checksum
//! or gap, plus the path's configured overhead.

mod capture;
mod checksum;
mod class;
mod driver;
mod frame;
mod ip;
mod join;
mod meter;
mod pairs;
mod pcapng;
mod priority;
mod remote;
mod rest;
mod ring;
mod segment;
mod superframe;
mod transmit;
mod virtio;

use std::io;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use wansan_path::Chain;
use wansan_trace::Recorder;

pub use capture::{Capture, Tap};
pub use class::Classes;
use driver::Driver;
pub use frame::Frame;
pub use meter::{ElementStatistics, PathStatistics, Statistics};
pub use priority::{Scheduling, prefer};
pub use remote::{OrderError, Receipt, Remote};

/// Permitted sample intervals, which interfere neither with moving frames nor with stopping.
const SAMPLE_INTERVALS: RangeInclusive<Duration> =
    Duration::from_micros(100)..=Duration::from_secs(1);

/// The WAN's end of a host's link, or a real router's interface to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The name of the interface in the WAN's namespace.
    pub interface: String,
    /// The MAC address at the link's other end: the host's, or on a real router the next hop's.
    pub host_mac: [u8; 6],
    /// Further addresses, on a real router.
    pub routed: Option<Routed>,
}

/// A host that a real router reaches through an interface that others may share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routed {
    /// The host's address. Its packets to the emulator's other hosts are received here, and packets for it are sent
    /// here.
    pub host: Ipv4Addr,
    /// The MAC address of the router's interface.
    pub own_mac: [u8; 6],
}

/// One direction of a path. Several pairs of hosts may share it.
#[derive(Debug)]
pub struct Direction {
    /// Its name in records, such as `wan:forward`.
    pub name: String,
    /// The chain that its frames pass.
    pub chain: Chain<Frame>,
    /// Layer 2 overhead per frame, in bytes.
    pub overhead_bytes: u32,
    /// The classifier of its frames; without one, all are of class 0.
    pub classes: Option<Classes>,
    /// Captures frames that leave it or are dropped.
    pub tap: Option<Tap>,
    /// Captures at individual elements.
    pub watches: Vec<Watch>,
}

/// Captures at one element of a direction.
#[derive(Debug)]
pub struct Watch {
    /// The element's name.
    pub element: String,
    /// Captures what enters it.
    pub before: Tap,
    /// Captures what leaves it or is dropped by it.
    pub after: Tap,
}

impl Direction {
    /// A direction without overhead, classes or captures.
    #[must_use]
    pub fn new(name: impl Into<String>, chain: Chain<Frame>) -> Self {
        Direction {
            name: name.into(),
            chain,
            overhead_bytes: 0,
            classes: None,
            tap: None,
            watches: Vec::new(),
        }
    }
}

/// The direction from one port to another, by indices into [`Config::ports`] and [`Config::directions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The source port.
    pub from: usize,
    /// The destination port.
    pub to: usize,
    /// The direction.
    pub direction: usize,
}

/// Configuration of an emulator.
#[derive(Debug)]
pub struct Config {
    /// The hosts' links.
    pub ports: Vec<Port>,
    /// The directions.
    pub directions: Vec<Direction>,
    /// The direction between each pair of ports. Frames between ports without a route are dropped and counted as
    /// strays.
    pub routes: Vec<Route>,
    /// The largest IP packet on any link, in bytes.
    pub mtu_bytes: usize,
    /// Interval between a direction's `path` records, and between updates of the statistics: from 100 µs to 1 s.
    pub sample_interval: Duration,
    /// Receives `path` samples and, if it keeps them, `packet` records.
    pub recorder: Recorder,
}

/// Why an emulator cannot run.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// The configuration is inconsistent.
    #[error("emulator: {0}")]
    CallerMisused(String),
    /// The kernel refused a required operation.
    #[error("emulator: cannot {action}: {source}")]
    EnvironmentLacks {
        /// The operation.
        action: String,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Results of an emulator.
#[derive(Debug)]
pub struct Report {
    /// The records.
    pub recorder: Recorder,
    /// The final statistics.
    pub statistics: Statistics,
}

/// A running emulator. Dropping it stops it.
#[derive(Debug)]
pub struct Emulator {
    stop: Arc<AtomicBool>,
    remote: Remote,
    thread: Option<JoinHandle<Result<Report, EmulatorError>>>,
}

impl Emulator {
    /// Starts an emulator in its own thread, in the network namespace behind `wan`. It moves frames from when this
    /// returns.
    ///
    /// # Errors
    /// [`EmulatorError`] if the configuration is invalid or the kernel refuses the namespace or a packet socket.
    pub fn start(wan: BorrowedFd<'_>, config: Config) -> Result<Emulator, EmulatorError> {
        let wan = wan.try_clone_to_owned();
        Emulator::start_in(
            Some(wan.map_err(lacks("keep the wan's namespace"))?),
            config,
        )
    }

    /// The same in the network namespace of the calling thread.
    ///
    /// # Errors
    /// See [`Emulator::start`].
    pub fn start_here(config: Config) -> Result<Emulator, EmulatorError> {
        Emulator::start_in(None, config)
    }

    fn start_in(wan: Option<OwnedFd>, config: Config) -> Result<Emulator, EmulatorError> {
        check(&config)?;
        let stop = Arc::new(AtomicBool::new(false));
        let told_to_stop = Arc::clone(&stop);
        let statistics = Arc::new(Mutex::new(Statistics::default()));
        let shown = Arc::clone(&statistics);
        let directions = config.directions.iter();
        let names = directions.map(|direction| direction.name.clone()).collect();
        let (remote, orders) = Remote::new(names, statistics);
        let (ready, started) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("emulator".to_owned())
            .spawn(move || {
                if let Some(wan) = wan {
                    enter(wan.as_fd())?;
                }
                let driver = Driver::open(config, shown, orders)?;
                // The starter waits below for this, or for the end of the thread.
                let _ = ready.send(());
                driver.run(&told_to_stop)
            })
            .map_err(lacks("start a thread"))?;
        let mut emulator = Emulator {
            stop,
            remote,
            thread: Some(thread),
        };
        if started.recv().is_err()
            && let Some(Err(error)) = emulator.end()
        {
            return Err(error);
        }
        Ok(emulator)
    }

    /// The statistics as of the last sample.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.remote.statistics()
    }

    /// A handle for other threads.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Stops it, at its next sample at the latest. Frames in transit are lost.
    ///
    /// # Errors
    /// [`EmulatorError::EnvironmentLacks`] if a kernel error had stopped it before.
    pub fn stop(mut self) -> Result<Report, EmulatorError> {
        self.end().expect("taken here and in drop only")
    }

    fn end(&mut self) -> Option<Result<Report, EmulatorError>> {
        let thread = self.thread.take()?;
        self.stop.store(true, Ordering::Relaxed);
        Some(thread.join().expect("the emulator's thread does not panic"))
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn enter(namespace: BorrowedFd<'_>) -> Result<(), EmulatorError> {
    move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))
        .map_err(|errno| lacks("enter the wan's namespace")(errno.into()))
}

fn check(config: &Config) -> Result<(), EmulatorError> {
    let misused = |what| Err(EmulatorError::CallerMisused(what));
    for route in &config.routes {
        if route.from.max(route.to) >= config.ports.len() {
            return misused(format!(
                "a route names port {}, of {}",
                route.from.max(route.to),
                config.ports.len()
            ));
        }
        if route.direction >= config.directions.len() {
            return misused(format!(
                "a route names direction {}, of {}",
                route.direction,
                config.directions.len()
            ));
        }
    }
    for (place, port) in config.ports.iter().enumerate() {
        // Hosts behind a real router may have the same next hop.
        let host = |port: &Port| port.routed.map(|routed| routed.host);
        let is_same = |other: &Port| match host(port) {
            None => other.host_mac == port.host_mac,
            some => host(other) == some,
        };
        if config.ports[..place].iter().any(is_same) {
            return misused(format!(
                "two ports have the host address of {}",
                port.interface
            ));
        }
    }
    if !SAMPLE_INTERVALS.contains(&config.sample_interval) {
        return misused(format!(
            "the sample interval is {:?}, not from 100 µs to 1 s",
            config.sample_interval
        ));
    }
    Ok(())
}

fn lacks(action: &str) -> impl FnOnce(io::Error) -> EmulatorError {
    let action = action.to_owned();
    |source| EmulatorError::EnvironmentLacks { action, source }
}
