//! A relay's metrics for Prometheus, and its status for `wansan watch --relay`.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use wansan_metrics::connection;
use wansan_metrics::family::{Labels, Row, counters, gauges, openmetrics};
use wansan_metrics::http::{self, Response, ServeError};
use wansan_relay::{
    Backlog, DirectionSnapshot, Fallback, FlowSnapshot, Meter, Observer, ReceiveBuffer, Shares,
    Snapshot, Status,
};
use wansan_tcp::ece::Signals;
use wansan_trace::event::Tcp;

/// The value of a label, and the corresponding number in a `T`.
type Part<T> = (&'static str, fn(&T) -> u64);

const COUNTERS: [Row<Snapshot, u64>; 9] = [
    ("relay_accepted", "Connections accepted", |it| {
        it.meter.accepted
    }),
    (
        "relay_turned_away",
        "Connections from networks that are not allowed",
        |it| it.meter.turned_away,
    ),
    (
        "relay_looped",
        "Connections that came from the relay itself",
        |it| it.meter.looped,
    ),
    (
        "relay_finished",
        "Flows that ended with a FIN from both sides",
        |it| it.meter.finished,
    ),
    (
        "relay_lost",
        "Flows with a side that was reset or timed out",
        |it| it.meter.lost,
    ),
    (
        "relay_pauses",
        "Times that a thread paused accepting for lack of room or file descriptors",
        |it| it.meter.pauses,
    ),
    (
        "relay_spliced_bytes",
        "Bytes spliced, without a copy",
        |it| it.meter.spliced_bytes,
    ),
    (
        "relay_ece_signals",
        "Times that ECE signalling to a side started",
        |it| it.meter.ece_signals,
    ),
    (
        "relay_memory_refusals",
        "Times that the relay's buffer memory was exhausted",
        |it| it.memory_refusals as u64,
    ),
];

const GAUGES: [Row<Snapshot, u64>; 4] = [
    ("relay_flows", "Open flows", |it| it.flows_now as u64),
    (
        "relay_memory_bytes",
        "Bytes in use by the relay's own buffers",
        |it| it.memory_bytes as u64,
    ),
    (
        "relay_memory_max_bytes",
        "Most bytes in use by the relay's own buffers at once",
        |it| it.memory_bytes_max as u64,
    ),
    (
        "relay_held_max_bytes",
        "Most bytes held of one direction of a closed flow",
        |it| it.meter.held_bytes_max as u64,
    ),
];

const FAILURES: [Part<Meter>; 4] = [
    ("refused", |meter| meter.refused),
    ("unreachable", |meter| meter.unreachable),
    ("timed_out", |meter| meter.timed_out),
    ("other", |meter| meter.failed),
];

const QUEUES: [Part<Backlog>; 3] = [
    ("receive", |backlog| backlog.received_bytes),
    ("relay", |backlog| backlog.held_bytes),
    ("send", |backlog| backlog.unsent_bytes),
];

const SHARES: [Part<Shares>; 3] = [
    ("window", |shares| shares.window_bytes.into()),
    ("relay", |shares| shares.held_bytes.into()),
    ("send", |shares| shares.unsent_bytes.into()),
];

const BUFFERS: [Part<ReceiveBuffer>; 2] = [
    ("asked", |buffer| buffer.asked_bytes),
    ("given", |buffer| buffer.given_bytes),
];

const SIGNALS: [Row<Signals, u64>; 5] = [
    (
        "relay_flow_ece_signals",
        "Times that ECE signalling to the signalled side started",
        |it| it.signals,
    ),
    (
        "relay_flow_ece_answers",
        "Times that the signalled side answered with CWR",
        |it| it.answers,
    ),
    (
        "relay_flow_ece_recovering",
        "Segments above the bound while the last window reduction took effect",
        |it| it.recovering,
    ),
    (
        "relay_flow_ece_spared",
        "Segments above the bound at which a window reduction would have drained the backlog",
        |it| it.spared,
    ),
    (
        "relay_flow_ece_powerless",
        "Segments above the bound at which a signal would have had no effect",
        |it| it.powerless,
    ),
];

const SIDE_GAUGES: [connection::Row; 5] = [
    connection::CWND,
    connection::ROUND_TRIP,
    connection::ROUND_TRIP_MIN,
    connection::DELIVERY,
    connection::RWND,
];

const SIDE_COUNTERS: [connection::Row; 5] = [
    connection::BUSY,
    connection::RWND_LIMITED,
    connection::SNDBUF_LIMITED,
    connection::RETRANSMITS,
    connection::DELIVERED_CE,
];

/// The path of the status, beside `/metrics`.
pub(in crate::commands) const STATUS_PATH: &str = "/status";

/// Serves the metrics and the status of `relay` at `listen` until the program ends; returns the address.
///
/// # Errors
/// The address cannot be listened at.
pub(super) fn serve(listen: SocketAddr, relay: Observer) -> Result<SocketAddr, ServeError> {
    http::serve(listen, "metrics", move |path| match path {
        "/metrics" => Response::openmetrics(openmetrics(Collected(relay.snapshot()))),
        STATUS_PATH => {
            let status = serde_json::to_string(&Status::new(&relay.snapshot()));
            // All its values can be expressed in JSON.
            Response::json(status.unwrap_or_default())
        }
        _ => Response::NotFound("metrics are at /metrics, the status at /status"),
    })
}

#[derive(Debug)]
struct Collected(Snapshot);

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        for (name, help, value) in COUNTERS {
            counters(encoder, name, help, [(Labels::new(), value(&self.0))])?;
        }
        for (name, help, value) in GAUGES {
            gauges(encoder, name, help, [(Labels::new(), value(&self.0))])?;
        }
        let meter = &self.0.meter;
        let failures = FAILURES.map(|(reason, value)| {
            let labels = vec![("reason", reason.to_owned())];
            (labels, value(meter))
        });
        let help = "Flows whose target could not be reached";
        counters(encoder, "relay_connect_failures", help, failures)?;
        let bytes = [("onward", meter.onward_bytes), ("back", meter.back_bytes)]
            .map(|(direction, bytes)| (vec![("direction", direction.to_owned())], bytes));
        counters(encoder, "relay_bytes", "Bytes forwarded", bytes)?;
        let waits = [("onward", self.0.onward), ("back", self.0.back)]
            .map(|(direction, sum)| (vec![("direction", direction.to_owned())], sum));
        let samples = waits.clone().map(|(labels, sum)| (labels, sum.bytes));
        let help = "Backlog of all flows in bytes";
        gauges(encoder, "relay_backlog_bytes", help, samples)?;
        let samples = waits.map(|(labels, sum)| (labels, sum.time_max.as_secs_f64()));
        let help = "Longest queueing delay of any flow";
        gauges(encoder, "relay_backlog_max_seconds", help, samples)?;
        let fallbacks = Fallback::ALL.into_iter().zip(meter.fallbacks);
        let fallbacks =
            fallbacks.map(|(reason, count)| (vec![("reason", reason.name().to_owned())], count));
        let help =
            "Times that signals had no effect: only the window (P5's laws: nothing) held a flow";
        counters(encoder, "relay_fallbacks", help, fallbacks)?;
        self.encode_directions(encoder)?;
        self.encode_laws(encoder)?;
        self.encode_sides(encoder)
    }
}

impl Collected {
    fn directions(&self) -> impl Iterator<Item = (Labels, &DirectionSnapshot)> {
        self.0.flows.iter().flat_map(|flow| {
            [("onward", &flow.onward), ("back", &flow.back)].map(|(name, direction)| {
                let mut labels = flow_labels(flow);
                labels.push(("direction", name.to_owned()));
                (labels, direction)
            })
        })
    }

    fn encode_directions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let samples = self
            .directions()
            .map(|(labels, it)| (labels, it.moved_bytes));
        counters(encoder, "relay_flow_bytes", "Bytes forwarded", samples)?;
        let samples = self.directions().flat_map(|(labels, it)| {
            QUEUES.map(|(queue, value)| {
                let mut labels = labels.clone();
                labels.push(("queue", queue.to_owned()));
                (labels, value(&it.backlog))
            })
        });
        let help = "Backlog in bytes: unread, in the relay, unsent";
        gauges(encoder, "relay_flow_backlog_bytes", help, samples)?;
        let held = self
            .directions()
            .filter_map(|(labels, it)| Some((labels, it.shares?)));
        let samples = held.flat_map(|(labels, shares)| {
            SHARES.map(|(place, value)| {
                let mut labels = labels.clone();
                labels.push(("place", place.to_owned()));
                (labels, value(&shares))
            })
        });
        let help = "Backlog that the law in force allows, in bytes";
        gauges(encoder, "relay_flow_share_bytes", help, samples)?;
        let samples = self.directions().filter_map(|(labels, it)| {
            let time = it.backlog.time();
            time.map(|time: Duration| (labels, time.as_secs_f64()))
        });
        let help = "Queueing delay of the backlog at the delivery rate last measured";
        gauges(encoder, "relay_flow_backlog_seconds", help, samples)?;
        let samples = self
            .directions()
            .map(|(labels, it)| (labels, it.held_bytes_max as u64));
        let help = "Most bytes that the relay held at once";
        gauges(encoder, "relay_flow_held_max_bytes", help, samples)
    }

    fn encode_laws(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let samples = self.0.flows.iter().map(|flow| {
            let mut labels = flow_labels(flow);
            labels.push(("law", flow.law.to_string()));
            (labels, 1_u64)
        });
        gauges(encoder, "relay_flow_law", "1: the law in force", samples)?;
        let told = || {
            let told = |flow: &FlowSnapshot| {
                let ece = flow.ece?;
                let side = if ece.asks_target { "out" } else { "in" };
                let mut labels = flow_labels(flow);
                labels.push(("side", side.to_owned()));
                Some((labels, ece))
            };
            self.0.flows.iter().filter_map(told)
        };
        for (name, help, value) in SIGNALS {
            let samples = told().map(|(labels, ece)| (labels, value(&ece.signals)));
            counters(encoder, name, help, samples)?;
        }
        let samples = told().flat_map(|(labels, ece)| {
            Fallback::ALL.map(|reason| {
                let mut labels = labels.clone();
                labels.push(("reason", reason.name().to_owned()));
                (labels, u64::from(ece.fallback == Some(reason)))
            })
        });
        let help =
            "1: signals have no effect, for this reason; the window (P5's laws: nothing) holds it";
        gauges(encoder, "relay_flow_fallback", help, samples)
    }

    fn sides(&self) -> impl Iterator<Item = (Labels, &Tcp)> {
        self.0.flows.iter().flat_map(|flow| {
            [("in", &flow.inward), ("out", &flow.outward)].map(|(name, tcp)| {
                let mut labels = flow_labels(flow);
                labels.push(("side", name.to_owned()));
                (labels, tcp)
            })
        })
    }

    fn encode_sides(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        for (name, help, value) in SIDE_GAUGES {
            let of = |(labels, tcp): (Labels, &Tcp)| Some((labels, value(tcp)?));
            let name = format!("relay_side_{name}");
            gauges(encoder, &name, help, self.sides().filter_map(of))?;
        }
        for (name, help, value) in SIDE_COUNTERS {
            let of = |(labels, tcp): (Labels, &Tcp)| Some((labels, value(tcp)?));
            let name = format!("relay_side_{name}");
            counters(encoder, &name, help, self.sides().filter_map(of))?;
        }
        let held = self.0.flows.iter().flat_map(|flow| {
            let sides = [("in", flow.inward_buffer), ("out", flow.outward_buffer)];
            sides.map(|(side, buffer)| (flow, side, buffer))
        });
        let samples = held.filter_map(|(flow, side, buffer)| {
            let buffer = buffer?;
            Some(BUFFERS.map(|(what, value)| {
                let mut labels = flow_labels(flow);
                labels.extend([("side", side.to_owned()), ("what", what.to_owned())]);
                (labels, value(&buffer))
            }))
        });
        let help = "Receive buffer that the law requested, and that the kernel granted";
        gauges(
            encoder,
            "relay_side_receive_buffer_bytes",
            help,
            samples.flatten(),
        )
    }
}

fn flow_labels(flow: &FlowSnapshot) -> Labels {
    vec![
        ("flow", flow.number.to_string()),
        ("listen", flow.listen.clone()),
        ("client", flow.client.to_string()),
        ("target", flow.target.to_string()),
    ]
}
