//! A target's metrics, for a Prometheus server.

use std::fmt;
use std::net::SocketAddr;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use wansan_iscsi::target::{LatencyHistogram, OperationMeter, SessionMeter};
use wansan_metrics::family::{Labels, Row, counters, gauges, openmetrics};
use wansan_metrics::http::ServeError;
use wansan_san::target::{ConnectionSnapshot, Observer, SessionSnapshot, Snapshot, UnitSnapshot};

/// Serves the metrics of `target` at `listen` until the program ends; returns the address.
///
/// # Errors
/// The address cannot be listened at.
pub(super) fn serve(listen: SocketAddr, target: Observer) -> Result<SocketAddr, ServeError> {
    wansan_metrics::serve(listen, move || openmetrics(Collected(target.snapshot())))
}

const OPERATION_COUNTERS: [Row<OperationMeter, u64>; 3] = [
    (
        "lun_operations",
        "Commands completed",
        OperationMeter::operations,
    ),
    ("lun_bytes", "Bytes of data transferred", |meter| {
        meter.bytes
    }),
    (
        "lun_errors",
        "Commands completed with a status other than GOOD",
        |meter| meter.errors,
    ),
];

const SESSION_COUNTERS: [Row<SessionMeter, u64>; 4] = [
    ("session_commands", "Commands delivered", |meter| {
        meter.commands
    }),
    (
        "session_window_stalls",
        "Times that the command window was full",
        |meter| meter.window_stalls,
    ),
    (
        "session_reassigned_tasks",
        "Tasks reassigned to another connection",
        |meter| meter.reassigned_tasks,
    ),
    (
        "session_lost_connections",
        "Connections lost without a logout",
        |meter| meter.lost_connections,
    ),
];

const SESSION_GAUGES: [Row<SessionMeter, u64>; 4] = [
    (
        "session_window_used_max",
        "Most slots of the command window in use at once",
        |meter| u64::from(meter.window_used_max),
    ),
    (
        "session_held_commands_max",
        "Most commands held for an earlier CmdSN at once",
        |meter| meter.held_commands_max as u64,
    ),
    (
        "session_held_bytes_max",
        "Most bytes of data of held commands",
        |meter| meter.held_bytes_max as u64,
    ),
    (
        "session_tasks_max",
        "Most tasks in progress at once",
        |meter| meter.tasks_max as u64,
    ),
];

const CONNECTION_COUNTERS: [Row<ConnectionSnapshot, u64>; 6] = [
    ("connection_received_bytes", "Bytes received", |it| {
        it.meter.received_bytes
    }),
    ("connection_sent_bytes", "Bytes sent", |it| {
        it.meter.sent_bytes
    }),
    (
        "connection_digest_errors",
        "PDUs with a header or data digest error",
        |it| it.meter.digest_errors,
    ),
    ("connection_snacks", "SNACKs received", |it| it.meter.snacks),
    (
        "connection_recovery_r2ts",
        "Recovery R2Ts, which ask again for lost data",
        |it| it.meter.recovery_r2ts,
    ),
    ("connection_rejects", "Rejects sent", |it| it.meter.rejects),
];

const TARGET_COUNTERS: [Row<Snapshot, u64>; 3] = [
    ("logins", "Connections that logged in", |it| it.logins),
    (
        "failed_logins",
        "Connections that ended before login completed",
        |it| it.failed_logins,
    ),
    (
        "turned_away",
        "Connections refused because there were too many",
        |it| it.turned_away,
    ),
];

#[derive(Debug)]
struct Collected(Snapshot);

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.encode_units(encoder)?;
        self.encode_sessions(encoder)?;
        self.encode_connections(encoder)?;
        for (name, help, value) in TARGET_COUNTERS {
            counters(encoder, name, help, [(Labels::new(), value(&self.0))])?;
        }
        Ok(())
    }
}

impl Collected {
    fn operations(&self) -> impl Iterator<Item = (Labels, &OperationMeter)> {
        self.0.units.iter().flat_map(|unit| {
            let kinds = [
                ("read", &unit.meter.reads),
                ("write", &unit.meter.writes),
                ("other", &unit.meter.others),
            ];
            kinds.map(|(kind, meter)| (unit_labels(unit, kind), meter))
        })
    }

    fn encode_units(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in OPERATION_COUNTERS {
            let samples = self.operations();
            let samples = samples.map(|(labels, meter)| (labels, value(meter)));
            counters(encoder, name, help, samples)?;
        }
        let mut family = encoder.encode_descriptor(
            "lun_latency_seconds",
            "Time from a command's arrival to its status",
            None,
            MetricType::Histogram,
        )?;
        let bounds = (0..LatencyHistogram::BUCKETS).map(|bucket| {
            // The library writes the largest number as +Inf.
            LatencyHistogram::upper_bound_ns(bucket).map_or(f64::MAX, |ns| ns as f64 / 1e9)
        });
        let bounds: Vec<f64> = bounds.collect();
        for (labels, meter) in self.operations() {
            let counts = meter.latency.counts().iter().copied();
            let buckets: Vec<(f64, u64)> = bounds.iter().copied().zip(counts).collect();
            let sum_s = meter.latency.sum_ns() as f64 / 1e9;
            family
                .encode_family(&labels)?
                .encode_histogram::<NoLabelSet>(sum_s, meter.operations(), &buckets, None)?;
        }
        Ok(())
    }

    fn encode_sessions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let sessions = || self.0.sessions.iter();
        for (name, help, value) in SESSION_COUNTERS {
            let samples = sessions().map(|it| (session_labels(it), value(&it.meter)));
            counters(encoder, name, help, samples)?;
        }
        for (name, help, value) in SESSION_GAUGES {
            let samples = sessions().map(|it| (session_labels(it), value(&it.meter)));
            gauges(encoder, name, help, samples)?;
        }
        let samples = sessions().map(|it| (session_labels(it), it.connections.len() as u64));
        gauges(encoder, "session_connections", "Connections", samples)
    }

    fn connections(&self) -> impl Iterator<Item = (Labels, &ConnectionSnapshot)> {
        self.0.sessions.iter().flat_map(|session| {
            session.connections.iter().map(|connection| {
                let mut labels = session_labels(session);
                labels.push(("connection", connection.id.0.to_string()));
                labels.push(("address", connection.initiator.to_string()));
                (labels, connection)
            })
        })
    }

    fn encode_connections(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in CONNECTION_COUNTERS {
            let samples = self.connections();
            let samples = samples.map(|(labels, it)| (labels, value(it)));
            counters(encoder, name, help, samples)?;
        }
        let samples = self.connections();
        let samples = samples.map(|(labels, it)| (labels, it.meter.send_queue_bytes_max as u64));
        gauges(
            encoder,
            "connection_send_queue_bytes_max",
            "Most bytes queued for the socket",
            samples,
        )?;
        let samples = self.connections();
        let samples = samples.map(|(labels, it)| (labels, it.srtt_ns as f64 / 1e9));
        gauges(
            encoder,
            "connection_round_trip_seconds",
            "Smoothed round-trip time of TCP",
            samples,
        )
    }
}

fn unit_labels(unit: &UnitSnapshot, kind: &str) -> Labels {
    vec![
        ("target", unit.target.clone()),
        ("lun", unit.number.to_string()),
        ("operation", kind.to_owned()),
    ]
}

fn session_labels(session: &SessionSnapshot) -> Labels {
    vec![
        ("target", session.target.clone()),
        ("initiator", session.initiator.clone()),
        ("session", session.id.to_string()),
    ]
}
