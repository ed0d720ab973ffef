//! Looking at the host for a while.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use wansan_insight::capture::{Capture, Passing};
use wansan_tcp::diag::{Connection, Diag, SocketInfo};
use wansan_trace::clock::{self, Both};
use wansan_trace::event::Tcp;
use wansan_trace::{ConnectionId, Instant, SessionId};

use crate::block::{BlockUse, Counters, Disk};
use crate::diagnosis::{Diagnosis, Looked, Source, diagnose, multipaths, packets_used, quiet};
use crate::filter::MOST_PORTS;
use crate::host::{Host, canonical};
use crate::packets::Packets;
use crate::traced::Tracing;

/// How often the kernel is asked about connections.
const INTERVAL: Duration = Duration::from_millis(20);
/// So many answers are kept.
const MOST_SAMPLES: usize = 500_000;

/// Looks at the sessions of `host` for `time` or until `goes_on` says no, and says what holds their I/Os back. `tick` is
/// called now and then with the share of the time that has passed.
///
/// # Errors
/// Packets cannot be seen, which is what most is known from.
pub fn watch(
    host: &Host,
    ports: &BTreeSet<u16>,
    sys: &Path,
    time: Duration,
    mut goes_on: impl FnMut(f64) -> bool,
) -> Result<Diagnosis, WatchError> {
    if ports.len() > MOST_PORTS {
        return Err(WatchError::TooManyPorts { ports: ports.len() });
    }
    let disks: Vec<&Disk> = host.sessions.iter().flat_map(|it| &it.disks).collect();
    // The kernel looks at programs for a while before it takes them.
    let mut tracing = Tracing::begin(host);
    let mut packets = Packets::open(ports).map_err(WatchError::Packets)?;
    let before = counters(&disks, sys);
    let began = clock::now();
    let mut passing = Passing::default();
    for connection in &host.connections {
        passing.know_scales([connection.local, connection.remote], connection.scales);
    }
    let mut sampling = Sampling::begin(host);
    let mut is_full = false;
    loop {
        let elapsed = clock::now() - began;
        let share = elapsed.as_secs_f64() / time.as_secs_f64().max(1e-9);
        if elapsed >= time || is_full || !goes_on(share.min(1.0)) {
            break;
        }
        packets
            .wait(INTERVAL.min(time - elapsed))
            .map_err(WatchError::Packets)?;
        if let Some(sampling) = &mut sampling {
            sampling.sample();
        }
        packets.drain(|packet| is_full |= passing.take(packet).is_break());
        tracing.drain();
    }
    let after = counters(&disks, sys);
    let seconds = (clock::now() - began).as_secs_f64();
    let dropped = packets.take_drops().map_err(WatchError::Packets)?;
    drop(packets);
    let count = passing.packets();
    let mut capture = passing.capture();
    let traced = tracing.finish(host, capture.as_mut());
    let looked = Looked {
        disks: used(&before, &after),
        dropped,
        block: traced.block,
        stores: traced.stores,
    };
    let samples = sampling
        .map(|sampling| sampling.samples)
        .unwrap_or_default();
    let sampled = samples.len();
    if let Some(capture) = &mut capture {
        capture.add_samples(samples);
    }
    let sessions = diagnose(host, capture.as_ref(), &looked);
    let mut sources = sources(host, capture.as_ref(), (count, sampled), &looked);
    sources.extend(traced.sources);
    Ok(Diagnosis {
        seconds,
        sources,
        quiet: quiet(host, &sessions),
        multipaths: multipaths(host, &sessions, &looked, seconds),
        sessions,
    })
}

/// It cannot be looked.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// No packets.
    #[error("cannot see packets: {0}; a packet socket needs CAP_NET_RAW: run as root")]
    Packets(io::Error),
    /// More than the filter has room for.
    #[error(
        "{ports} ports are in use by iSCSI on this host, and at most {MOST_PORTS} can be watched"
    )]
    TooManyPorts {
        /// How many.
        ports: usize,
    },
}

/// Asks the kernel about connections now and then.
struct Sampling {
    diag: Diag,
    connections: Vec<Connection>,
    /// By which realtime is ahead of the monotonic clock, in ns.
    ahead_ns: u64,
    next: Instant,
    samples: Vec<(SocketAddr, SocketAddr, Tcp)>,
}

impl Sampling {
    /// `None` where the kernel does not tell.
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
        // What it does not answer is not known.
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

fn counters(disks: &[&Disk], sys: &Path) -> BTreeMap<String, Counters> {
    let each = disks.iter();
    let each = each.filter_map(|disk| Some((disk.name.clone(), disk.counters(sys)?)));
    each.collect()
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
            "no connection was there at the beginning",
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
            "no disks of open-iscsi: what programs keep in their own queues is not seen",
        ),
    ]
}
