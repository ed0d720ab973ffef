//! Watches the host, in slices of time.
//!
//! Its cost is bounded ([`crate::budget`]): at low packet rates one slice covers all the time; at higher rates nothing
//! is captured between slices. Each slice therefore contains whole I/Os and all their packets.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wansan_insight::capture::{Capture, CapturingSocket, Passing};
use wansan_tcp::diag::{Connection, Diag, SocketInfo};
use wansan_trace::clock::{self, Both};
use wansan_trace::event::Tcp;
use wansan_trace::{ConnectionId, Instant, SessionId};

use crate::block::{BlockUse, Counters, Disk};
use crate::budget::{Budget, Meter};
use crate::diagnosis::{
    Diagnosis, Looked, Source, diagnose, multipaths, packets_used, without_whole_ios,
};
use crate::filter::MOST_PORTS;
use crate::host::{Host, canonical};
use crate::packets::Packets;
use crate::traced::Tracing;

/// How often connections are sampled from the kernel.
const INTERVAL: Duration = Duration::from_millis(20);
/// A slice continues until it has this many packets, even if it exceeds its budget on a slow computer: with fewer,
/// slice boundaries cut too many of its I/Os.
const LEAST_PACKETS: u64 = 10_000;
/// Most connection samples kept per slice.
const MOST_SAMPLES: usize = 500_000;

/// A watch on the sessions of a host: [`slice`](Watch::slice), then [`rest`](Watch::rest), and again.
#[derive(Debug)]
pub struct Watch<'h> {
    host: &'h Host,
    sys: PathBuf,
    packets: Packets,
    passing: Passing,
    sampling: Option<Sampling>,
    tracing: Tracing,
    is_paused: bool,
    budget: Budget,
    meter: Meter,
}

/// The result of a slice.
#[derive(Debug)]
pub struct Slice {
    /// Its diagnosis.
    pub diagnosis: Diagnosis,
    /// Its packets; `None` if there were no PDUs among them.
    pub capture: Option<Capture>,
}

impl<'h> Watch<'h> {
    /// Starts capturing packets with one of `ports`, as found by [`Host::find`].
    ///
    /// # Errors
    /// Packets, the main source, cannot be captured.
    pub fn begin(
        host: &'h Host,
        ports: &BTreeSet<u16>,
        sys: &Path,
    ) -> Result<Watch<'h>, WatchError> {
        if ports.len() > MOST_PORTS {
            return Err(WatchError::TooManyPorts { ports: ports.len() });
        }
        // The kernel's verifier takes a while.
        let tracing = Tracing::begin(host);
        let packets = Packets::open(ports).map_err(WatchError::Packets)?;
        let mut passing = Passing::default();
        for connection in &host.connections {
            passing.know_socket(CapturingSocket {
                ends: [connection.local, connection.remote],
                scales: connection.scales,
            });
        }
        Ok(Watch {
            host,
            sys: sys.to_owned(),
            packets,
            passing,
            sampling: Sampling::begin(host),
            tracing,
            is_paused: false,
            budget: Budget::new(clock::now()),
            meter: Meter::begin(),
        })
    }

    /// Captures until `end`, until the processor budget or memory bound is reached, or until `goes_on`, which is called
    /// regularly, returns false. Returns the diagnosis.
    ///
    /// # Errors
    /// Packets can no longer be captured.
    pub fn slice(
        &mut self,
        end: Instant,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<Slice, WatchError> {
        let before = self.counters();
        let began = clock::now();
        let mut is_full = false;
        let mut packets = 0;
        loop {
            let now = clock::now();
            self.budget.settle(now, self.meter.used());
            let is_spent = self.budget.is_spent() && packets >= LEAST_PACKETS;
            if now >= end || is_full || is_spent || !goes_on() {
                break;
            }
            self.packets
                .wait(INTERVAL.min(end - now))
                .map_err(WatchError::Packets)?;
            if let Some(sampling) = &mut self.sampling {
                sampling.sample();
            }
            let passing = &mut self.passing;
            self.packets.drain(|packet| {
                packets += 1;
                is_full |= passing.take(packet).is_break();
            });
            self.tracing.drain();
        }
        if self.budget.is_spent() {
            self.pause()?;
        }
        let after = self.counters();
        let seconds = (clock::now() - began).as_secs_f64();
        let dropped = self.packets.take_drops().map_err(WatchError::Packets)?;
        let mut capture = self.passing.slice();
        let traced = self.tracing.slice(self.host, capture.as_mut());
        let looked = Looked {
            disks: used(&before, &after),
            dropped,
            block: traced.block,
            stores: traced.stores,
        };
        let samples = self.sampling.as_mut();
        let samples = samples.map(|of| std::mem::take(&mut of.samples));
        let samples = samples.unwrap_or_default();
        let sampled = samples.len();
        if let Some(capture) = &mut capture {
            capture.add_samples(samples);
        }
        let sessions = diagnose(self.host, capture.as_ref(), &looked);
        let mut sources = sources(self.host, capture.as_ref(), (packets, sampled), &looked);
        sources.extend(traced.sources);
        let [unfinished, quiet] = without_whole_ios(self.host, capture.as_ref(), &sessions);
        let diagnosis = Diagnosis {
            seconds,
            looked_seconds: seconds,
            slices: 1,
            sources,
            unfinished,
            quiet,
            multipaths: multipaths(self.host, &sessions, &looked, seconds),
            sessions,
        };
        self.budget.settle(clock::now(), self.meter.used());
        Ok(Slice { diagnosis, capture })
    }

    /// Waits, with capture paused, until the next slice may begin, `end` is reached, or `goes_on` returns false.
    ///
    /// # Errors
    /// See [`slice`](Watch::slice).
    pub fn rest(
        &mut self,
        end: Instant,
        mut goes_on: impl FnMut() -> bool,
    ) -> Result<(), WatchError> {
        if !self.is_paused && !self.budget.is_spent() {
            return Ok(());
        }
        self.pause()?;
        let until = end.min(clock::now() + self.budget.wait());
        loop {
            let now = clock::now();
            if now >= until || !goes_on() {
                break;
            }
            std::thread::sleep(INTERVAL.min(until - now));
        }
        // Packets from before the pause belong to no slice.
        self.packets.drain(|_| {});
        self.packets.take_drops().map_err(WatchError::Packets)?;
        self.tracing.resume();
        self.packets.resume().map_err(WatchError::Packets)?;
        self.is_paused = false;
        self.budget.settle(clock::now(), self.meter.used());
        Ok(())
    }

    fn pause(&mut self) -> Result<(), WatchError> {
        if !self.is_paused {
            self.is_paused = true;
            self.packets.pause().map_err(WatchError::Packets)?;
            self.tracing.pause();
        }
        Ok(())
    }

    fn counters(&self) -> BTreeMap<String, Counters> {
        let disks = self.host.sessions.iter().flat_map(|it| &it.disks);
        let each = disks.filter_map(|disk: &Disk| {
            let counters = disk.counters(&self.sys)?;
            Some((disk.name.clone(), counters))
        });
        each.collect()
    }
}

/// Why the host cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// No packet capture.
    #[error(
        "cannot see packets: {0}; a packet socket needs CAP_NET_RAW: run as root, or grant it to an installed wansan \
         with `setcap cap_net_raw+ep` (and add --no-copy for a peer)"
    )]
    Packets(io::Error),
    /// More ports than the filter supports.
    #[error(
        "{ports} ports are in use by iSCSI on this host, and at most {MOST_PORTS} can be watched"
    )]
    TooManyPorts {
        /// The number of ports.
        ports: usize,
    },
}

/// Samples connections from the kernel regularly.
#[derive(Debug)]
struct Sampling {
    diag: Diag,
    connections: Vec<Connection>,
    /// Offset of CLOCK_REALTIME from the monotonic clock, in ns.
    ahead_ns: u64,
    next: Instant,
    samples: Vec<(SocketAddr, SocketAddr, Tcp)>,
}

impl Sampling {
    /// `None` if the kernel does not support it.
    fn begin(host: &Host) -> Option<Sampling> {
        let clocks = Both::now();
        Some(Sampling {
            diag: Diag::open().ok()?,
            connections: host.connections.iter().map(|it| it.socket).collect(),
            ahead_ns: clocks.realtime_ns.saturating_sub(clocks.monotonic.ns()),
            next: Instant::ZERO,
            samples: Vec::new(),
        })
    }

    fn sample(&mut self) {
        let now = clock::now();
        if now < self.next || self.samples.len() >= MOST_SAMPLES {
            return;
        }
        self.next = now + INTERVAL;
        let time = Instant::from_ns(now.ns() + self.ahead_ns);
        // Unanswered queries leave gaps.
        let answers = self.diag.ask(&self.connections).unwrap_or_default();
        let samples = answers.into_iter().flatten().map(|answer| {
            let SocketInfo {
                connection,
                info,
                memory,
                ..
            } = answer;
            let sample = Tcp {
                send_memory_bytes: memory.map_or(0, |memory| memory.sent_bytes),
                send_buffer_bytes: memory.map_or(0, |memory| memory.send_buffer_bytes),
                ..info.record(time, SessionId::default(), ConnectionId(0))
            };
            (
                canonical(connection.local),
                canonical(connection.remote),
                sample,
            )
        });
        self.samples.extend(samples);
    }
}

fn used(
    before: &BTreeMap<String, Counters>,
    after: &BTreeMap<String, Counters>,
) -> BTreeMap<String, BlockUse> {
    let both = before.iter().filter_map(|(name, before)| {
        let after = after.get(name)?;
        Some((name.clone(), after.since(before)))
    });
    both.collect()
}

fn sources(
    host: &Host,
    capture: Option<&Capture>,
    (packets, sampled): (u64, usize),
    looked: &Looked,
) -> Vec<Source> {
    let count = |n: usize, what: &str| match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    };
    let of = |name, is_used, used: String, absent: &str| Source {
        name,
        is_used,
        what: if is_used { used } else { absent.to_owned() },
    };
    vec![
        packets_used(capture, packets, looked.dropped),
        of(
            "TCP",
            sampled > 0,
            format!("{sampled} samples of TCP_INFO at this host's ends"),
            "no connection existed at the start",
        ),
        of(
            "sysfs",
            !host.sessions.is_empty(),
            count(host.sessions.len(), "session of open-iscsi"),
            "no sessions of open-iscsi on this host",
        ),
        of(
            "configfs",
            !host.portal_groups.is_empty(),
            count(host.portal_groups.len(), "portal group of LIO"),
            "no targets of LIO on this host, or configfs is not mounted",
        ),
        of(
            "block layer",
            !looked.disks.is_empty(),
            count(looked.disks.len(), "disk"),
            "no disks of open-iscsi: the internal queues of user-space programs are not visible",
        ),
    ]
}
