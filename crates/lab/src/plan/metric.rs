//! What an expectation may be about: one list of the names in results.json, so that a misspelt one
//! is found before anything runs.

use wansan_insight::finding::Limit;
use wansan_insight::stall::{CAUSES, Cause, NO_CAUSE};
use wansan_relay::Law;
use wansan_trace::Layer;

use wansan_mistake::nearest;

use super::cell::Cell;
use super::document::{EmulatorKind, RecordKind};

/// The word before the metrics of cells.
pub(super) const CELLS: &str = "cells.";

/// What stands at a metric's place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Content {
    /// A number; its name ends in the unit.
    Number,
    /// Any text.
    Text,
    /// One of these words, or nothing.
    Word(Vec<&'static str>),
    /// A number or a text, as the plan's parameter has it.
    Either,
}

/// Every metric with what stands there.
fn known() -> Vec<(String, Content)> {
    let layers = || Content::Word(Layer::ALL.map(Layer::name).to_vec());
    let limits = || Content::Word(Limit::ALL.map(Limit::name).to_vec());
    let causes = || {
        let named = CAUSES.into_iter().map(Cause::name);
        Content::Word(named.chain([NO_CAUSE]).collect())
    };
    let named = |(name, content): (&str, Content)| (name.to_owned(), content);
    let numbers = [
        "cells.iops",
        "cells.bytes_per_s",
        "cells.latency_p50_ns",
        "cells.latency_p99_ns",
        "cells.fairness",
        "cells.vpn_cpu_s_per_gib",
        "cells.path_dropped",
        "cells.path_marked",
        "cells.path_queue_high_water_bytes",
        "cells.cwnd.connections",
        "cells.cwnd.sum_max_packets",
        "cells.cwnd.sum_mean_packets",
        "cells.cwnd.least_swing",
        "cells.cwnd.most_swing",
        "cells.cwnd.cwr_events",
        "cells.cwnd.recovery_events",
        "cells.cwnd.loss_events",
        "cells.finding.waiting_share",
        "cells.stalls.cost_ns",
        "cells.stalls.round_trips",
        "cells.below_socket.ios",
        "cells.below_socket.latency_ns",
        "cells.below_socket.uncertain_ns",
        "cells.below_socket.initiator_ns",
        "cells.below_socket.target_ns",
        "cells.below_socket.both_ways.no_room_ns",
        "cells.below_socket.both_ways.no_room_buffer_ns",
        "cells.below_socket.both_ways.no_room_cwnd_ns",
        "cells.below_socket.both_ways.no_room_rwnd_ns",
        "cells.below_socket.both_ways.cwnd_ns",
        "cells.below_socket.both_ways.rwnd_ns",
        "cells.below_socket.both_ways.nagle_ns",
        "cells.below_socket.both_ways.other_ns",
        "cells.below_socket.both_ways.device_queue_ns",
        "cells.below_socket.both_ways.path_ns",
        "cells.below_socket.both_ways.receive_buffer_ns",
        "cells.packet_gap_mean_ns",
        "cells.packet_gap_p50_ns",
        "cells.packet_gap_p90_ns",
        "finding.wanted",
        "finding.got",
        "finding.waiting_share",
        "finding.cell",
        "advised.planned_cell",
        "advised.advised_cell",
        "advised.planned_iops",
        "advised.predicted_iops",
        "advised.measured_iops",
        "advised.predicted_gain",
        "advised.measured_gain",
        "advised.measured_of_predicted",
    ];
    let others = [
        ("cells.finding.limit", limits()),
        ("cells.finding.layer", layers()),
        ("cells.finding.above", layers()),
        ("cells.finding.sentence", Content::Text),
        ("cells.stalls.cause", causes()),
        ("finding.limit", limits()),
        ("finding.layer", layers()),
        ("finding.above", layers()),
        ("finding.sentence", Content::Text),
        ("finding.advice.text", Content::Text),
        ("finding.advice.parameter", Content::Text),
        ("finding.advice.value", Content::Text),
        ("advised.parameter", Content::Text),
        ("advised.planned_value", Content::Either),
        ("advised.value", Content::Either),
    ];
    let in_flight = Layer::ALL.map(|layer| format!("cells.in_flight.{layer}"));
    let numbers = numbers.map(|name| (name, Content::Number));
    numbers
        .into_iter()
        .chain(others)
        .map(named)
        .chain(in_flight.map(|name| (name, Content::Number)))
        .collect()
}

/// What a stream, or a relay, has numbers of, behind `cells.streams.NAME.` and `cells.relays.NAME.`.
const OF_STREAMS: [&str; 14] = [
    "bytes_per_s",
    "flow_bytes_per_s",
    "fairness",
    "latency_min_ns",
    "latency_mean_ns",
    "latency_p50_ns",
    "latency_p99_ns",
    "latency_max_ns",
    "one_way_mean_ns",
    "one_way_p50_ns",
    "one_way_p99_ns",
    "one_way_max_ns",
    "retransmits",
    "slow_start_returns",
];
const OF_RELAYS: [&str; 15] = [
    LAW,
    "ece_signals",
    "fallbacks.no_ecn",
    "fallbacks.powerless",
    "finished",
    "lost",
    "not_connected",
    "onward_bytes",
    "back_bytes",
    "backlog_mean_bytes",
    "backlog_p99_bytes",
    "backlog_max_bytes",
    "backlog_mean_ns",
    "backlog_p99_ns",
    "backlog_max_ns",
];

/// What stands there is no number, but one of the laws.
const LAW: &str = "law";

/// The name of the stream or relay that a metric of cells is about, and the names of its numbers.
fn of_one(metric: &str) -> Option<(&str, &str, &'static [&'static str])> {
    let kinds: [(&str, &[&str]); 2] = [("streams.", &OF_STREAMS), ("relays.", &OF_RELAYS)];
    let metric = metric.strip_prefix(CELLS)?;
    kinds.into_iter().find_map(|(kind, numbers)| {
        let (name, number) = metric.strip_prefix(kind)?.split_once('.')?;
        Some((name, number, numbers))
    })
}

/// What stands at `metric`, or which metric is nearest to a name that is none.
pub(super) fn content(metric: &str) -> Result<Content, String> {
    if let Some((_, number, numbers)) = of_one(metric) {
        return match numbers.contains(&number) {
            true if number == LAW => Ok(Content::Word(Law::ALL.map(Law::name).to_vec())),
            true => Ok(Content::Number),
            false => Err(format!(
                "there is no `{number}`; {}",
                nearest(number, numbers)
            )),
        };
    }
    let known = known();
    if let Some((_, content)) = known.iter().find(|(name, _)| name == metric) {
        return Ok(content.clone());
    }
    let of_cells = format!("{CELLS}{metric}");
    if known.iter().any(|(name, _)| *name == of_cells) {
        return Err(format!(
            "there is no such metric; did you mean `{of_cells}`?"
        ));
    }
    // The first word says what it is about; only when that is misspelt too may it be any.
    let about = metric.split_once('.').map_or(metric, |(first, _)| first);
    let alike = |name: &&str| name.starts_with(&format!("{about}."));
    let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
    let mut near: Vec<&str> = names.iter().copied().filter(alike).collect();
    if near.is_empty() {
        near = names;
    }
    Err(format!(
        "there is no such metric; {}",
        nearest(metric, &near)
    ))
}

/// Why a cell can never give a metric; `None` when it can.
pub(super) fn lack(metric: &str, cell: &Cell) -> Option<String> {
    let metric = metric.strip_prefix(CELLS)?;
    let layer = Layer::ALL
        .into_iter()
        .find(|layer| metric == format!("in_flight.{layer}"));
    let kinds: &[RecordKind] = match layer {
        Some(Layer::Wire) => &[RecordKind::Packet, RecordKind::Pdu],
        Some(Layer::TcpInitiator | Layer::TcpTarget) => &[RecordKind::Stamp, RecordKind::Pdu],
        _ if metric.starts_with("below_socket.") => &[RecordKind::Stamp, RecordKind::Pdu],
        _ if metric.starts_with("stalls.") => &[RecordKind::Packet, RecordKind::Pdu],
        _ if metric.starts_with("packet_gap_") => &[RecordKind::Packet],
        _ if metric.starts_with("cwnd.") => &[RecordKind::Tcp],
        _ => &[],
    };
    let recorded = &cell.document.trace.kinds;
    if let Some(kind) = kinds.iter().find(|kind| !recorded.contains(kind)) {
        return Some(format!("it takes \"{}\" in `trace.kinds`", kind.name()));
    }
    let by_netem = cell.document.world.emulator == EmulatorKind::Netem;
    if by_netem && ["path_marked", "path_queue_high_water_bytes"].contains(&metric) {
        return Some("netem does not count it".to_owned());
    }
    let scenario = &cell.scenario;
    if let Some((name, number, _)) = of_one(&format!("{CELLS}{metric}")) {
        return lack_of_one(metric, name, number, cell);
    }
    if metric == "fairness" && scenario.streams.is_empty() {
        return Some("the plan has no [[stream]]".to_owned());
    }
    if scenario.initiators.is_empty() && !OF_ANY_CELL.contains(&metric) {
        return Some("it is about I/Os, and the plan has no [[initiator]]".to_owned());
    }
    if kinds.contains(&RecordKind::Packet) && scenario.links.iter().all(|link| link.wire) {
        let what = "no packet is seen on wires: give a path `delay = \"0ms\"` at least";
        return Some(what.to_owned());
    }
    let connections = scenario.initiators.iter().flat_map(|i| &i.connections);
    let mut routes = connections.filter_map(|connection| connection.route_place);
    let is_tunnelled = routes.any(|place| scenario.routes[place].tunnel.is_some());
    (metric == "vpn_cpu_s_per_gib" && !is_tunnelled).then(|| "no route has a `vpn`".to_owned())
}

/// What cells have without I/Os.
const OF_ANY_CELL: [&str; 6] = [
    "bytes_per_s",
    "latency_p50_ns",
    "latency_p99_ns",
    "path_dropped",
    "path_marked",
    "path_queue_high_water_bytes",
];

/// Why a cell has no such stream or relay, or no such number of it. One that is there in other cells
/// only has none in this.
fn lack_of_one(metric: &str, name: &str, number: &str, cell: &Cell) -> Option<String> {
    let document = &cell.document;
    let (kind, names): (_, Vec<&str>) = if metric.starts_with("streams.") {
        let names = document.stream.iter().map(|table| table.name.as_str());
        ("[[stream]]", names.collect())
    } else {
        let names = document.relay.iter().map(|table| table.name.as_str());
        ("[[relay]]", names.collect())
    };
    if !names.contains(&name) {
        return Some(format!(
            "no {kind} is named `{name}`; {}",
            nearest(name, &names)
        ));
    }
    let is_recorded = document.trace.kinds.contains(&RecordKind::Tcp);
    ((number.starts_with("backlog_") || number == "ece_signals") && !is_recorded)
        .then(|| "it takes \"tcp\" in `trace.kinds`".to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wansan_insight::below::{BelowSocket, Splits, StampCount};
    use wansan_insight::cwnd::CwndUse;
    use wansan_insight::finding::{Advice, explain};
    use wansan_insight::ledger::WaitUse;
    use wansan_insight::stall::StallUse;
    use wansan_relay::Fallback;

    use super::*;
    use crate::plan::subject::look_up;
    use crate::record::{Advised, CellFinding, MeasuredGain, RelayResult, Results, StreamResult};

    /// The list is of names that results really have.
    #[test]
    fn every_metric_stands_in_results() {
        let mut finding = explain(&[]);
        finding.advice = Some(Advice {
            text: String::new(),
            parameter: None,
            value: None,
        });
        let results = Results {
            plan: String::new(),
            title: String::new(),
            quick: false,
            axes: Vec::new(),
            cells: Vec::new(),
            finding: Some(finding),
            is_judged_without_ios: false,
            advised: Some(Advised {
                parameter: String::new(),
                planned_value: None,
                value: json!(1),
                gain: MeasuredGain {
                    planned_cell: 0,
                    advised_cell: 1,
                    planned_iops: 1.0,
                    predicted_iops: 1.0,
                    measured_iops: 1.0,
                    predicted_gain: 0.0,
                    measured_gain: 0.0,
                    measured_of_predicted: Some(1.0),
                    gains: Vec::new(),
                },
            }),
            expectations: Vec::new(),
            expectations_unchecked: 0,
            paper: None,
        };
        let results = serde_json::to_value(results).unwrap();
        let cell = json!({
            "cwnd": CwndUse {
                connections: 1, sum_max_packets: 1, sum_mean_packets: Some(1.0), least_swing: 0.0, most_swing: 0.0,
                cwr_events: 0, recovery_events: 0, loss_events: 0,
            },
            "finding": CellFinding::from(explain(&[])),
            "stalls": StallUse::from_stalls(&[], &WaitUse::default()),
            "below_socket": BelowSocket::from_splits(&Splits::default(), StampCount::default()),
            "iops": 1, "fairness": 1, "bytes_per_s": 1, "latency_p50_ns": 1, "latency_p99_ns": 1, "vpn_cpu_s_per_gib": 1,
            "path_dropped": 1, "path_marked": 1, "path_queue_high_water_bytes": 1,
            "packet_gap_mean_ns": 1, "packet_gap_p50_ns": 1, "packet_gap_p90_ns": 1,
            "in_flight": Layer::ALL.map(|layer| (layer.name().to_owned(), json!(1)))
                .into_iter().collect::<serde_json::Map<_, _>>(),
        });
        for (name, _) in known() {
            let found = match name.strip_prefix(CELLS) {
                Some(of_cell) => look_up(&cell, of_cell),
                None => look_up(&results, &name),
            };
            assert!(found.is_some(), "{name}");
        }
    }

    #[test]
    fn every_metric_of_a_relay_or_a_stream_stands_in_results() {
        let fallbacks = Fallback::ALL.map(|reason| (reason.name().to_owned(), 1));
        let relay = RelayResult {
            fallbacks: fallbacks.into(),
            ..RelayResult::default()
        };
        let [relay, stream] = [
            serde_json::to_value(relay).unwrap(),
            serde_json::to_value(StreamResult::default()).unwrap(),
        ];
        for (result, numbers) in [(relay, &OF_RELAYS[..]), (stream, &OF_STREAMS[..])] {
            for name in numbers {
                assert!(look_up(&result, name).is_some(), "{name}");
            }
        }
    }
}
