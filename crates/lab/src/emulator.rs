//! The emulated wan: moves real frames between hosts, each direction through a [`Chain`].
//!
//! Every host's link ends in the wan's namespace; the emulator is the only thing there that
//! receives and sends. It switches by the Ethernet destination address, so it does not care what
//! the frames carry. It needs CAP_NET_RAW in the namespace's user namespace and no device file,
//! so an ordinary user's lab has it.
//!
//! Hosts send and take TCP and UDP as if their network cards segmented: in super-frames of many
//! packets, which a path never sees. Each is cut into the packets that a wire would carry, each of
//! which is lost, waits and leaves by itself; those of one flow that leave together are joined
//! again, as receive offload would.
//!
//! On a real router ([`Routed`]) it takes the packets of single hosts from interfaces that others use
//! too, and sends them on to the next hop instead of the kernel, which must not forward them.
//!
//! Sizes on a path are those of the Ethernet frame: 14 bytes of header before the IP packet, no
//! preamble, checksum or gap, and what the path states as its overhead.

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
pub(crate) use ring::MAX_SUPER_FRAME_BYTES;

/// The sample intervals that do not stop the emulator from moving frames or from stopping.
const SAMPLE_INTERVALS: RangeInclusive<Duration> =
    Duration::from_micros(100)..=Duration::from_secs(1);

/// Where a host's link ends in the wan, or where a real router reaches a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// The interface's name in the wan's namespace.
    pub interface: String,
    /// The address of the interface at the link's other end: the host's, or of a real router the next
    /// hop's.
    pub host_mac: [u8; 6],
    /// Of a real router, what else it takes.
    pub routed: Option<Routed>,
}

/// A host that a real router reaches by an interface which others may use too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routed {
    /// The host. Packets that it sends to the other hosts of the emulator come in here, and packets
    /// for it leave.
    pub host: Ipv4Addr,
    /// The address of the router's own interface.
    pub own_mac: [u8; 6],
}

/// One direction of a path. Several pairs of hosts may share it.
#[derive(Debug)]
pub struct Direction {
    /// Its name in records, such as `wan:forward`.
    pub name: String,
    /// What it does to frames.
    pub chain: Chain<Frame>,
    /// Bytes of layer 2 that count for each frame beyond its own.
    pub overhead_bytes: u32,
    /// The classes of its frames; all are of class 0 without.
    pub classes: Option<Classes>,
    /// Where frames are captured that leave it or are dropped.
    pub tap: Option<Tap>,
    /// Where frames are captured at single elements.
    pub watches: Vec<Watch>,
}

/// Captures what passes one element of a direction.
#[derive(Debug)]
pub struct Watch {
    /// The element's name.
    pub element: String,
    /// What comes to it.
    pub before: Tap,
    /// What leaves it or is dropped there.
    pub after: Tap,
}

impl Direction {
    /// A direction in which frames count as long as they are.
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

/// By which direction frames go from one port to another. Places count from 0 in
/// [`Config::ports`] and [`Config::directions`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The port where they come from.
    pub from: usize,
    /// The port where they go to.
    pub to: usize,
    /// The direction that they take.
    pub direction: usize,
}

/// What an emulator is to do.
#[derive(Debug)]
pub struct Config {
    /// The hosts' links.
    pub ports: Vec<Port>,
    /// The directions.
    pub directions: Vec<Direction>,
    /// Which direction leads where. Frames between ports without a route are dropped and counted
    /// as strays.
    pub routes: Vec<Route>,
    /// The largest IP packet on any link, in bytes.
    pub mtu_bytes: usize,
    /// Time between two `path` records of a direction, and between two updates of the statistics:
    /// from 100 µs to 1 s.
    pub sample_interval: Duration,
    /// Where `path` samples and, when it keeps them, `packet` records go.
    pub recorder: Recorder,
}

/// Why an emulator does not run.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// The configuration contradicts itself.
    #[error("emulator: {0}")]
    CallerMisused(String),
    /// The kernel refused what the emulator needs.
    #[error("emulator: cannot {action}: {source}")]
    EnvironmentLacks {
        /// What was tried.
        action: String,
        /// The kernel's answer.
        source: io::Error,
    },
}

/// What an emulator leaves behind.
#[derive(Debug)]
pub struct Report {
    /// The records.
    pub recorder: Recorder,
    /// The statistics at its end.
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
    /// Starts an emulator in a thread of its own, in the network namespace behind `wan`. It moves
    /// frames from the moment this returns.
    ///
    /// # Errors
    /// [`EmulatorError`] when the configuration is wrong or the kernel refuses the namespace or a
    /// packet socket.
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
    /// As [`Emulator::start`].
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
                // Whoever starts us waits below for this, or for the end of the thread.
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

    /// It, for other threads.
    #[must_use]
    pub fn remote(&self) -> Remote {
        self.remote.clone()
    }

    /// Stops it, at its next sample at the latest. Frames that are still on their way are lost.
    ///
    /// # Errors
    /// [`EmulatorError::EnvironmentLacks`] when the kernel had stopped it before.
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
