//! The watch as metrics for Prometheus.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::DescriptorEncoder;
use wansan_metrics::connection::{self, Row};
use wansan_metrics::family::{Labels, counters, gauges, openmetrics};
use wansan_metrics::http::ServeError;
use wansan_tcp::watch::Batch;
use wansan_trace::event::TcpEvent;

use crate::board::{Board, Entry};
use crate::sink::{Sink, SinkError};

const GAUGES: [Row; 11] = [
    connection::CWND,
    (
        "ssthresh_packets",
        "Slow-start threshold in segments, once one is set",
        |tcp| tcp.threshold_packets().map(f64::from),
    ),
    ("in_flight_packets", "Segments in flight", |tcp| {
        Some(f64::from(tcp.in_flight_packets))
    }),
    connection::ROUND_TRIP,
    connection::ROUND_TRIP_MIN,
    connection::RWND,
    (
        "unsent_bytes",
        "Bytes in the send buffer not yet sent",
        |tcp| Some(f64::from(tcp.unsent_bytes)),
    ),
    (
        "pacing_bytes_per_second",
        "Pacing rate, if the connection is paced",
        |tcp| tcp.pacing_rate_bytes_per_s().map(|rate| rate as f64),
    ),
    connection::DELIVERY,
    (
        "congestion_state",
        "0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss",
        |tcp| Some(f64::from(tcp.congestion_state.0)),
    ),
    (
        "ecn",
        "0 off, 1 negotiated, 2 ECN-capable packets received",
        |tcp| Some(f64::from(tcp.ecn as u8)),
    ),
];

const COUNTERS: [Row; 7] = [
    ("acked_bytes", "Bytes acknowledged by the peer", |tcp| {
        Some(tcp.acked_bytes as f64)
    }),
    connection::RETRANSMITS,
    (
        "timeouts",
        "Retransmission timeouts, counted by Linux 6.7 and later",
        |tcp| Some(f64::from(tcp.timeouts)),
    ),
    connection::DELIVERED_CE,
    connection::BUSY,
    connection::RWND_LIMITED,
    connection::SNDBUF_LIMITED,
];

/// The events counted: those that affect a connection's window.
const EVENTS: [TcpEvent; 7] = [
    TcpEvent::Cwr,
    TcpEvent::CwrByEce,
    TcpEvent::CwrByDevice,
    TcpEvent::Recovery,
    TcpEvent::Loss,
    TcpEvent::Undo,
    TcpEvent::Change,
];

/// Serves the latest state of all connections.
pub struct Metrics {
    board: Arc<Mutex<Board>>,
    address: SocketAddr,
}

impl Metrics {
    /// Listens at `listen`.
    ///
    /// # Errors
    /// The address cannot be listened at.
    pub fn serve(listen: SocketAddr) -> Result<Metrics, ServeError> {
        let board = Arc::new(Mutex::new(Board::default()));
        let shown = Arc::clone(&board);
        let address = wansan_metrics::serve(listen, move || {
            openmetrics(Collected(locked(&shown).clone()))
        })?;
        Ok(Metrics { board, address })
    }

    /// The listening address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn locked(board: &Mutex<Board>) -> MutexGuard<'_, Board> {
    board.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sink for Metrics {
    fn batch(&mut self, batch: &Batch) -> Result<bool, SinkError> {
        locked(&self.board).take(batch, |_, _| {});
        Ok(true)
    }
}

#[derive(Debug)]
struct Collected(Board);

impl Collected {
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.entries.values()
    }
}

fn labels(entry: &Entry) -> Labels {
    let connection = &entry.begun.connection;
    vec![
        ("connection", format!("{:x}", connection.cookie)),
        ("local", connection.local.to_string()),
        ("remote", connection.remote.to_string()),
        ("congestion_control", entry.begun.congestion_control.clone()),
    ]
}

impl Collector for Collected {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        for (name, help, value) in GAUGES {
            let of = |entry: &Entry| Some((labels(entry), value(&entry.last)?));
            let name = format!("tcp_{name}");
            gauges(encoder, &name, help, self.entries().filter_map(of))?;
        }
        for (name, help, value) in COUNTERS {
            let of = |entry: &Entry| Some((labels(entry), value(&entry.last)?));
            let name = format!("tcp_{name}");
            counters(encoder, &name, help, self.entries().filter_map(of))?;
        }
        let events = self.entries().flat_map(|entry| {
            EVENTS.map(|event| {
                let mut labels = labels(entry);
                labels.push(("event", event.name().to_owned()));
                (labels, entry.count(event))
            })
        });
        counters(encoder, "tcp_events", "Congestion control events", events)?;
        let board = &self.0;
        let of_ended = EVENTS.map(|event| {
            let label = vec![("event", event.name().to_owned())];
            (label, board.counts_of_ended[event as usize])
        });
        let name = "tcp_ended_events";
        counters(encoder, name, "Events of closed connections", of_ended)?;
        let now = [(Labels::new(), board.entries.len() as u64)];
        gauges(encoder, "tcp_connections", "Open connections", now)?;
        let begun = [(Labels::new(), board.begun)];
        counters(
            encoder,
            "tcp_begun",
            "Connections seen for the first time",
            begun,
        )?;
        let ended = [(Labels::new(), board.ended)];
        counters(encoder, "tcp_ended", "Connections closed", ended)?;
        let unseen = [
            ("connections", board.unseen.connections),
            ("samples", board.unseen.samples),
            ("events", board.unseen.events),
            ("records", board.unseen.records),
        ];
        let unseen = unseen.map(|(what, count)| (vec![("what", what.to_owned())], count));
        counters(
            encoder,
            "watch_unseen",
            "Connections, samples, events and records that were missed",
            unseen,
        )
    }
}

#[cfg(test)]
mod tests {
    use wansan_trace::event::Ecn;

    use super::*;
    use crate::board::tests::{begin, records};

    #[test]
    fn connections_are_told_with_their_ends_and_events() {
        let mut board = Board::default();
        board.take(&begin(0xab), |_, _| {});
        let mut next = records(2_000, 0xab, &[TcpEvent::Recovery, TcpEvent::Sample]);
        for record in &mut next.records {
            (record.ecn, record.timeouts) = (Ecn::Seen, 3);
        }
        board.take(&next, |_, _| {});
        let text = openmetrics(Collected(board));
        let ends = "connection=\"ab\",local=\"127.0.0.1:3260\",remote=\"127.0.0.1:40000\"";
        let of = format!("{ends},congestion_control=\"cubic\"");
        for line in [
            format!("wansan_tcp_cwnd_packets{{{of}}} 10.0"),
            format!("wansan_tcp_events_total{{{of},event=\"recovery\"}} 1"),
            format!("wansan_tcp_ecn{{{of}}} 2.0"),
            format!("wansan_tcp_timeouts_total{{{of}}} 3.0"),
            format!("wansan_tcp_busy_seconds_total{{{of}}} 0.000001"),
            "wansan_tcp_connections 1".to_owned(),
            "wansan_watch_unseen_total{what=\"events\"} 0".to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
