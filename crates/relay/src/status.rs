//! A relay's status in JSON: what a running relay answers, and what `wansan watch --relay` reads and prints.
//!
//! A relay knows counters since a flow began; rates and shares are `null` until a reader has compared two answers
//! ([`Status::compare`]).

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wansan_trace::event::Tcp;

use crate::backlog::BacklogSum;
use crate::snapshot::{DirectionSnapshot, FlowSnapshot, Snapshot};

/// All flows, at one moment.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Status {
    /// The flows of a [`Snapshot`], by their numbers.
    pub flows: Vec<FlowStatus>,
    /// All flows together, those too that are not listed.
    pub total: TotalStatus,
}

/// A flow.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// Its number, which no other flow of the relay has.
    pub flow: String,
    /// The client's address.
    pub client: String,
    /// The target's address.
    pub target: String,
    /// The name of the control law in force.
    pub law: String,
    /// From the client to the target.
    pub onward: DirectionStatus,
    /// From the target to the client.
    pub back: DirectionStatus,
    /// The connection to the client.
    pub r#in: SideStatus,
    /// The connection to the target.
    pub out: SideStatus,
    /// Times that ECE towards the signalled side began.
    pub ece_signals: u64,
    /// Times that it answered with CWR.
    pub ece_answers: u64,
    /// Why signals have no effect; `null` where they have, or where there are none.
    pub fallback: Option<String>,
}

/// All flows together.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct TotalStatus {
    /// Open flows.
    pub flows: u64,
    /// From the clients to the targets.
    pub onward: DirectionStatus,
    /// From the targets to the clients.
    pub back: DirectionStatus,
    /// Times that ECE towards a side began.
    pub ece_signals: u64,
}

/// One direction, of a flow or of all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DirectionStatus {
    /// Bytes forwarded.
    pub bytes: u64,
    /// Their rate between two answers.
    pub bytes_per_s: Option<f64>,
    /// Backlog in the relay and its sockets' queues.
    pub backlog_bytes: u64,
    /// Its queueing delay; `null` where the delivery rate has not been measured. Of all flows the longest.
    pub backlog_ms: Option<f64>,
}

/// A connection, as TCP in the relay's kernel has it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SideStatus {
    /// Congestion window.
    pub cwnd_packets: u64,
    /// Smoothed round-trip time.
    pub srtt_ms: f64,
    /// Time with data to send.
    pub busy_s: f64,
    /// Part of it limited by the peer's receive window.
    pub rwnd_limited_s: f64,
    /// Part of it limited by a full send buffer.
    pub sndbuf_limited_s: f64,
    /// `busy_s` as a share of the time between two answers.
    pub busy_share: Option<f64>,
    /// `rwnd_limited_s` as a share of that time.
    pub rwnd_limited_share: Option<f64>,
    /// `sndbuf_limited_s` as a share of that time.
    pub sndbuf_limited_share: Option<f64>,
}

impl Status {
    /// The status that a snapshot holds.
    #[must_use]
    pub fn new(snapshot: &Snapshot) -> Status {
        let meter = &snapshot.meter;
        Status {
            flows: snapshot.flows.iter().map(FlowStatus::new).collect(),
            total: TotalStatus {
                flows: snapshot.flows_now as u64,
                onward: DirectionStatus::sum(meter.onward_bytes, &snapshot.onward),
                back: DirectionStatus::sum(meter.back_bytes, &snapshot.back),
                ece_signals: meter.ece_signals,
            },
        }
    }

    /// Works out rates and shares since `before`, which is `elapsed` older.
    pub fn compare(&mut self, before: &Status, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let olds = before.flows.iter().map(|flow| (flow.flow.as_str(), flow));
        let olds: HashMap<&str, &FlowStatus> = olds.collect();
        for flow in &mut self.flows {
            if let Some(old) = olds.get(flow.flow.as_str()) {
                flow.onward.compare(&old.onward, seconds);
                flow.back.compare(&old.back, seconds);
                flow.r#in.compare(&old.r#in, seconds);
                flow.out.compare(&old.out, seconds);
            }
        }
        let old = &before.total;
        self.total.onward.compare(&old.onward, seconds);
        self.total.back.compare(&old.back, seconds);
    }
}

impl FlowStatus {
    fn new(flow: &FlowSnapshot) -> FlowStatus {
        let signals = flow.ece.map(|ece| ece.signals).unwrap_or_default();
        let fallback = flow.ece.and_then(|ece| ece.fallback);
        FlowStatus {
            flow: flow.number.to_string(),
            client: flow.client.to_string(),
            target: flow.target.to_string(),
            law: flow.law.name().to_owned(),
            onward: DirectionStatus::new(&flow.onward),
            back: DirectionStatus::new(&flow.back),
            r#in: SideStatus::new(&flow.inward),
            out: SideStatus::new(&flow.outward),
            ece_signals: signals.signals,
            ece_answers: signals.answers,
            fallback: fallback.map(|reason| reason.name().to_owned()),
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

impl DirectionStatus {
    fn new(direction: &DirectionSnapshot) -> DirectionStatus {
        DirectionStatus {
            bytes: direction.moved_bytes,
            bytes_per_s: None,
            backlog_bytes: direction.backlog.bytes(),
            backlog_ms: direction.backlog.time().map(milliseconds),
        }
    }

    fn sum(bytes: u64, backlog: &BacklogSum) -> DirectionStatus {
        DirectionStatus {
            bytes,
            bytes_per_s: None,
            backlog_bytes: backlog.bytes,
            backlog_ms: Some(milliseconds(backlog.time_max)),
        }
    }

    fn compare(&mut self, before: &DirectionStatus, seconds: f64) {
        let moved = self.bytes.saturating_sub(before.bytes);
        self.bytes_per_s = Some(moved as f64 / seconds);
    }
}

impl SideStatus {
    fn new(tcp: &Tcp) -> SideStatus {
        let seconds = |ns: u64| ns as f64 / 1e9;
        SideStatus {
            cwnd_packets: tcp.cwnd_packets.into(),
            srtt_ms: tcp.srtt_ns as f64 / 1e6,
            busy_s: seconds(tcp.busy_ns),
            rwnd_limited_s: seconds(tcp.rwnd_limited_ns),
            sndbuf_limited_s: seconds(tcp.sndbuf_limited_ns),
            ..SideStatus::default()
        }
    }

    fn compare(&mut self, before: &SideStatus, seconds: f64) {
        let share = |now: f64, then: f64| Some(((now - then) / seconds).clamp(0.0, 1.0));
        self.busy_share = share(self.busy_s, before.busy_s);
        self.rwnd_limited_share = share(self.rwnd_limited_s, before.rwnd_limited_s);
        self.sndbuf_limited_share = share(self.sndbuf_limited_s, before.sndbuf_limited_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_shares_are_those_between_two_answers() {
        let flow = |bytes, rwnd_limited_s| FlowStatus {
            flow: "7".to_owned(),
            onward: DirectionStatus {
                bytes,
                ..DirectionStatus::default()
            },
            out: SideStatus {
                rwnd_limited_s,
                ..SideStatus::default()
            },
            ..FlowStatus::default()
        };
        let status = |flow| Status {
            flows: vec![flow],
            total: TotalStatus::default(),
        };
        let before = status(flow(1000, 0.25));
        let mut after = status(flow(3000, 0.75));
        after.compare(&before, Duration::from_secs(2));
        let compared = &after.flows[0];
        assert_eq!(compared.onward.bytes_per_s, Some(1000.0));
        assert_eq!(compared.out.rwnd_limited_share, Some(0.25));
        let mut alone = status(FlowStatus::default());
        alone.compare(&before, Duration::from_secs(2));
        assert_eq!(alone.flows[0].onward.bytes_per_s, None);
    }
}
