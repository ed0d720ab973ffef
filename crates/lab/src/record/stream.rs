//! What streams and relays did in a cell.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use wansan_insight::backlog::BacklogUse;
use wansan_relay::Fallback;

use crate::plan::{Relay, Stream};

/// What one `[[stream]]` measured, of all its connections.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StreamResult {
    /// The host that sent.
    pub host: String,
    /// The relay that it went through.
    pub through: Option<String>,
    /// Bytes per second of all its connections together.
    pub bytes_per_s: f64,
    /// The mean of one.
    pub flow_bytes_per_s: f64,
    /// Jain's index of fairness of its connections.
    pub fairness: f64,
    /// From before a mark was offered to the socket until its echo was read: least.
    pub latency_min_ns: Option<u64>,
    /// Mean.
    pub latency_mean_ns: Option<f64>,
    /// Median.
    pub latency_p50_ns: Option<u64>,
    /// 99th percentile.
    pub latency_p99_ns: Option<u64>,
    /// Greatest.
    pub latency_max_ns: Option<u64>,
    /// From that moment until the receiver had read the mark: mean.
    pub one_way_mean_ns: Option<f64>,
    /// Median.
    pub one_way_p50_ns: Option<u64>,
    /// 99th percentile.
    pub one_way_p99_ns: Option<u64>,
    /// Greatest.
    pub one_way_max_ns: Option<u64>,
    /// Segments sent again.
    pub retransmits: u64,
    /// Times that a sender was seen in slow start again.
    pub slow_start_returns: u64,
    /// From when on it was measured, CLOCK_MONOTONIC.
    pub measured_from_ns: u64,
    /// Until when.
    pub measured_to_ns: u64,
    /// Each connection, as `wansan stream send --json` says it.
    pub flows: Vec<Value>,
}

impl StreamResult {
    /// Of a stream whose program said `report`.
    #[must_use]
    pub fn of(stream: &Stream, report: &Value) -> StreamResult {
        let float = |way: &str| report.pointer(way).and_then(Value::as_f64);
        let whole = |way: &str| report.pointer(way).and_then(Value::as_u64);
        let flows = report["flows"].as_array().cloned().unwrap_or_default();
        let sum = |name: &str| {
            let each = flows.iter().filter_map(|flow| flow.get(name)?.as_u64());
            each.sum::<u64>()
        };
        let bytes_per_s = float("/bytes_per_s").unwrap_or(0.0);
        StreamResult {
            host: stream.host.clone(),
            through: stream.table.through.clone(),
            bytes_per_s,
            flow_bytes_per_s: bytes_per_s / f64::from(stream.table.flows),
            fairness: float("/fairness").unwrap_or(0.0),
            latency_min_ns: whole("/latency_ns/min"),
            latency_mean_ns: float("/latency_ns/mean"),
            latency_p50_ns: whole("/latency_ns/p50"),
            latency_p99_ns: whole("/latency_ns/p99"),
            latency_max_ns: whole("/latency_ns/max"),
            one_way_mean_ns: float("/one_way_ns/mean"),
            one_way_p50_ns: whole("/one_way_ns/p50"),
            one_way_p99_ns: whole("/one_way_ns/p99"),
            one_way_max_ns: whole("/one_way_ns/max"),
            retransmits: sum("retransmits"),
            slow_start_returns: sum("slow_start_returns"),
            measured_from_ns: whole("/measured_from_ns").unwrap_or(0),
            measured_to_ns: whole("/measured_to_ns").unwrap_or(0),
            flows,
        }
    }

    /// The throughput of each connection.
    pub fn rates(&self) -> impl Iterator<Item = f64> {
        self.flows
            .iter()
            .filter_map(|flow| flow["bytes_per_s"].as_f64())
    }
}

/// What one `[[relay]]` did.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RelayResult {
    /// Its host.
    pub host: String,
    /// Flows that ended with a FIN from both sides.
    pub finished: u64,
    /// Flows that were reset, or cut off at the end.
    pub lost: u64,
    /// Flows whose other end could not be reached.
    pub not_connected: u64,
    /// Bytes passed on to its target.
    pub onward_bytes: u64,
    /// Bytes passed back to clients.
    pub back_bytes: u64,
    /// By what it held flows' backlogs, as `wansan relay --law` names it; null in runs from before it was
    /// told.
    #[serde(default)]
    pub law: Option<String>,
    /// Times that it began to signal ECE while it was measured. Null when TCP was not recorded.
    #[serde(default)]
    pub ece_signals: Option<u64>,
    /// Times, from its start to its end, that signals were of no use to a flow and the window alone held its
    /// backlog, by the reason ([`Fallback::name`]).
    #[serde(default)]
    pub fallbacks: BTreeMap<String, u64>,
    /// What waited in it of all flows together in their busier direction, mean of the samples while it was
    /// measured: receive queue, own memory, and what the send queue had not sent. Null when TCP was not
    /// recorded.
    pub backlog_mean_bytes: Option<f64>,
    /// 99th percentile of the samples.
    pub backlog_p99_bytes: Option<u64>,
    /// Greatest.
    pub backlog_max_bytes: Option<u64>,
    /// How long a byte waited there that came when a sample was taken, until it had been sent: mean of all
    /// flows' samples.
    pub backlog_mean_ns: Option<f64>,
    /// 99th percentile of them.
    pub backlog_p99_ns: Option<f64>,
    /// Greatest.
    pub backlog_max_ns: Option<f64>,
}

impl RelayResult {
    /// Of a relay whose program said `listening` at its start, and `ended` at its end.
    #[must_use]
    pub fn of(relay: &Relay, listening: &Value, ended: &Value) -> RelayResult {
        let count = |name: &str| ended[name].as_u64().unwrap_or(0);
        let fallback = |reason: Fallback| {
            let count = ended["fallbacks"][reason.name()].as_u64();
            (reason.name().to_owned(), count.unwrap_or(0))
        };
        let failures = ["refused", "unreachable", "timed_out", "failed"];
        RelayResult {
            host: relay.host.clone(),
            finished: count("finished"),
            lost: count("lost") + count("cut_off"),
            not_connected: failures.into_iter().map(count).sum(),
            onward_bytes: count("onward_bytes"),
            back_bytes: count("back_bytes"),
            law: listening["laws"][0].as_str().map(str::to_owned),
            fallbacks: Fallback::ALL.map(fallback).into(),
            ..RelayResult::default()
        }
    }

    /// Takes in what its records tell of the time in which it was measured: what waited in it, and how
    /// often it signalled.
    pub fn add_records(&mut self, backlog: &BacklogUse, ece_signals: u64) {
        self.backlog_mean_bytes = Some(backlog.mean_bytes);
        self.backlog_p99_bytes = Some(backlog.p99_bytes);
        self.backlog_max_bytes = Some(backlog.max_bytes);
        self.backlog_mean_ns = Some(backlog.mean_ns);
        self.backlog_p99_ns = Some(backlog.p99_ns as f64);
        self.backlog_max_ns = Some(backlog.max_ns as f64);
        self.ece_signals = Some(ece_signals);
    }
}
