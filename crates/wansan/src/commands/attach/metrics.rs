//! Metrics of attached disks, for a Prometheus server.

use std::fmt;
use std::net::SocketAddr;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use wansan_attach::settings::DiskSettings;
use wansan_attach::{Standing, Status};
use wansan_metrics::family::{Labels, Row, counters, gauges, openmetrics};
use wansan_metrics::http::ServeError;

use super::disks::Disks;

/// Serves the metrics of `disks` at `listen` until the program ends; returns the address.
///
/// # Errors
/// The address cannot be listened at.
pub(super) fn serve(listen: SocketAddr, disks: Disks) -> Result<SocketAddr, ServeError> {
    wansan_metrics::serve(listen, move || {
        let labels = |disk: &DiskSettings| vec![("url", disk.initiator.url.to_string())];
        let waiting = Status {
            standing: Standing::Waiting,
            ..Status::default()
        };
        let mut all: Vec<(Labels, Status)> = disks
            .waiting()
            .iter()
            .map(|disk| (labels(&disk.settings), waiting.clone()))
            .collect();
        let served = disks.served();
        all.extend(
            served
                .iter()
                .map(|disk| (labels(&disk.settings), disk.attached.status())),
        );
        openmetrics(Collected(all))
    })
}

const GAUGES: [Row<Status, u64>; 9] = [
    (
        "attach_connected",
        "Whether the session has a connection to the target",
        |it| u64::from(it.standing == Standing::Connected),
    ),
    (
        "attach_connections_up",
        "Connections to the target that are up; with multipath, one for each route",
        |it| it.connections.0 as u64,
    ),
    (
        "attach_connections",
        "Configured connections to the target",
        |it| it.connections.1 as u64,
    ),
    ("attach_clients", "NBD connections", |it| it.clients as u64),
    (
        "attach_open_requests",
        "NBD requests that are not answered",
        |it| it.open_requests as u64,
    ),
    (
        "attach_behind_bytes",
        "Bytes acknowledged that may not be on the target's medium yet",
        |it| it.behind_bytes,
    ),
    (
        "attach_behind_nanoseconds",
        "Age of the oldest such byte",
        |it| it.behind_ns,
    ),
    (
        "attach_ahead_bytes",
        "Memory taken by what is read ahead",
        |it| it.ahead_bytes,
    ),
    (
        "attach_shared",
        "Whether another initiator has registered with the disk or reserved it: no read-ahead and no write-behind",
        |it| u64::from(it.sharing.is_some()),
    ),
];

const COUNTERS: [Row<Status, u64>; 13] = [
    ("attach_read_hits", "Reads answered from memory", |it| {
        it.counters.read_hits
    }),
    (
        "attach_read_waits",
        "Reads that waited for data already on their way",
        |it| it.counters.read_waits,
    ),
    (
        "attach_read_misses",
        "Reads that the target was asked for",
        |it| it.counters.read_misses,
    ),
    ("attach_read_ahead_bytes", "Bytes read ahead", |it| {
        it.counters.ahead_bytes
    }),
    (
        "attach_wasted_bytes",
        "Bytes read ahead and thrown away",
        |it| it.counters.wasted_bytes,
    ),
    ("attach_writes", "Writes by programs", |it| {
        it.counters.writes
    }),
    (
        "attach_early_acks",
        "Writes acknowledged before they were at the target",
        |it| it.counters.early_acks,
    ),
    (
        "attach_held_writes",
        "Writes that waited for memory, or for room in the journal",
        |it| it.counters.held_writes,
    ),
    (
        "attach_bursts",
        "Writes to the target, merged from those of programs",
        |it| it.counters.bursts,
    ),
    ("attach_flushes", "Flushes by programs", |it| {
        it.counters.flushes
    }),
    (
        "attach_lost_writes",
        "Writes acknowledged that failed at the target",
        |it| it.counters.lost_writes,
    ),
    (
        "attach_recoveries",
        "Times that the session was recovered or replaced",
        |it| it.recoveries,
    ),
    ("attach_failed_requests", "Requests that failed", |it| {
        it.failed_requests
    }),
];

#[derive(Debug)]
struct Collected(Vec<(Labels, Status)>);

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let samples = |read: fn(&Status) -> u64| {
            let each = self.0.iter();
            each.map(move |(labels, status)| (labels.clone(), read(status)))
        };
        for (name, help, read) in COUNTERS {
            counters(&mut encoder, name, help, samples(read))?;
        }
        for (name, help, read) in GAUGES {
            gauges(&mut encoder, name, help, samples(read))?;
        }
        Ok(())
    }
}
