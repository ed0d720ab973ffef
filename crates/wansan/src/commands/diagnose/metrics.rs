//! The newest slice of a diagnosis as metrics for Prometheus.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use wansan_diagnose::Diagnosis;
use wansan_diagnose::diagnosis::SessionDiagnosis;
use wansan_diagnose::host::Ends;
use wansan_diagnose::traced::DiskUse;
use wansan_metrics::family::{Labels, Row, counters, gauges, openmetrics};
use wansan_metrics::http::ServeError;

const SESSION_GAUGES: [Row<SessionDiagnosis, f64>; 3] = [
    ("diagnose_iops", "I/Os per second", |session| session.iops),
    (
        "diagnose_latency_seconds",
        "Mean latency of an I/O, from the block layer where that is known",
        |session| session.judgement.latency_ns / 1e9,
    ),
    (
        "diagnose_outstanding_commands",
        "Commands outstanding on average",
        |session| session.outstanding,
    ),
];

const DISK_GAUGES: [Row<DiskUse, f64>; 4] = [
    (
        "diagnose_disk_latency_seconds",
        "Mean latency of an I/O of the disk",
        |disk| disk.latency_ns / 1e9,
    ),
    (
        "diagnose_disk_queued_seconds",
        "What of it passes in the host's queues",
        |disk| disk.queued_ns / 1e9,
    ),
    (
        "diagnose_disk_outstanding_commands",
        "Commands of the disk outstanding on average",
        |disk| disk.outstanding,
    ),
    (
        "diagnose_disk_full_ratio",
        "Share of the time in which as many were outstanding as may be",
        |disk| disk.full_share,
    ),
];

/// The latest slice.
#[derive(Debug, Clone, Default)]
struct Latest {
    slices: u64,
    sessions: Vec<SessionDiagnosis>,
    unfinished: Vec<Ends>,
}

/// Serves the newest slice.
#[derive(Debug)]
pub(super) struct Metrics {
    latest: Arc<Mutex<Latest>>,
    address: SocketAddr,
}

impl Metrics {
    /// Listens at `listen`.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub(super) fn serve(listen: SocketAddr) -> Result<Metrics, ServeError> {
        let latest = Arc::new(Mutex::new(Latest::default()));
        let told = Arc::clone(&latest);
        let address = wansan_metrics::serve(listen, move || openmetrics(locked(&told).clone()))?;
        Ok(Metrics { latest, address })
    }

    /// The listening address.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Publishes another slice.
    pub(super) fn take(&self, slice: &Diagnosis) {
        let mut latest = locked(&self.latest);
        latest.slices += 1;
        latest.sessions.clone_from(&slice.sessions);
        latest.unfinished.clone_from(&slice.unfinished);
    }
}

fn locked(latest: &Mutex<Latest>) -> MutexGuard<'_, Latest> {
    latest.lock().unwrap_or_else(PoisonError::into_inner)
}

fn labels(session: &SessionDiagnosis) -> Labels {
    let ends = session.connections.first();
    vec![
        (
            "initiator",
            ends.map(|(initiator, _)| initiator.to_string())
                .unwrap_or_default(),
        ),
        (
            "target",
            ends.map(|(_, target)| target.to_string())
                .unwrap_or_default(),
        ),
        ("name", session.target_name.clone().unwrap_or_default()),
    ]
}

/// The session's labels and one more.
fn and(session: &SessionDiagnosis, name: &'static str, value: &impl ToString) -> Labels {
    let mut labels = labels(session);
    labels.push((name, value.to_string()));
    labels
}

impl Collector for Latest {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        let sessions = || self.sessions.iter();
        for (name, help, value) in SESSION_GAUGES {
            let all = sessions().map(|session| (labels(session), value(session)));
            gauges(encoder, name, help, all)?;
        }
        let waits = || {
            sessions().flat_map(|session| {
                let shares = session.shares.iter();
                shares.map(move |share| (session, share))
            })
        };
        let means = waits()
            .map(|(session, share)| (and(session, "wait", &share.wait), share.mean_ns / 1e9));
        let help =
            "What an I/O waits for, on average; the waits of a session add up to its latency";
        gauges(encoder, "diagnose_wait_seconds", help, means)?;
        let counts = waits()
            .map(|(session, share)| (and(session, "wait", &share.wait), session.in_flight(share)));
        let help = "I/Os that wait for it at a moment, on average";
        gauges(encoder, "diagnose_waiting_ios", help, counts)?;
        let limits = sessions().map(|session| {
            let limit = session.judgement.verdict.name();
            (and(session, "limit", &limit), 1_u64)
        });
        gauges(encoder, "diagnose_limit", "What holds I/Os back", limits)?;
        for (name, help, value) in DISK_GAUGES {
            let disks = sessions().flat_map(|session| {
                let disks = session.disks.iter();
                disks.map(move |disk| {
                    let mut labels = and(session, "disk", &disk.disk);
                    labels.push(("lun", disk.lun.to_string()));
                    (labels, value(disk))
                })
            });
            gauges(encoder, name, help, disks)?;
        }
        let stores = sessions().flat_map(|session| {
            let stores = session.stores.iter();
            stores.map(move |store| (and(session, "lun", &store.lun), store.latency_ns / 1e9))
        });
        let help = "What the store of a LUN takes for a command, as the target's kernel tells";
        gauges(encoder, "diagnose_store_latency_seconds", help, stores)?;
        let unfinished = self.unfinished.iter().map(|ends| {
            let initiator = ("initiator", ends.initiator.to_string());
            (vec![initiator, ("target", ends.target.to_string())], 1_u64)
        });
        let help =
            "Connections with I/Os none of which began and ended in the slice, as they take longer";
        gauges(encoder, "diagnose_unfinished", help, unfinished)?;
        let slices = [(Labels::new(), self.slices)];
        counters(
            encoder,
            "diagnose_slices",
            "Slices of time that were looked at",
            slices,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ios_that_take_longer_than_a_slice_are_shown() {
        let ends = Ends {
            initiator: ([10, 0, 0, 1], 40_000).into(),
            target: ([10, 0, 0, 2], 3260).into(),
        };
        let text = openmetrics(Latest {
            slices: 1,
            unfinished: vec![ends],
            ..Latest::default()
        });
        let sample =
            "wansan_diagnose_unfinished{initiator=\"10.0.0.1:40000\",target=\"10.0.0.2:3260\"} 1";
        assert!(text.contains(sample), "{text}");
    }
}
