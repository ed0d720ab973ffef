//! What an expectation may be about: one list of the names in results.json, so that a misspelt one
//! is found before anything runs.

use wansan_insight::finding::Limit;
use wansan_trace::Layer;

use wansan_mistake::nearest;

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
    let named = |(name, content): (&str, Content)| (name.to_owned(), content);
    let numbers = [
        "cells.iops",
        "cells.bytes_per_s",
        "cells.latency_p50_ns",
        "cells.latency_p99_ns",
        "cells.vpn_cpu_s_per_gib",
        "cells.path_dropped",
        "cells.path_marked",
        "cells.path_queue_high_water_bytes",
        "cells.cwnd.connections",
        "cells.cwnd.sum_max_packets",
        "cells.cwnd.least_swing",
        "cells.cwnd.most_swing",
        "cells.cwnd.cwr_events",
        "cells.cwnd.recovery_events",
        "cells.cwnd.loss_events",
        "cells.finding.waiting_share",
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
    ];
    let others = [
        ("cells.finding.limit", limits()),
        ("cells.finding.layer", layers()),
        ("cells.finding.above", layers()),
        ("cells.finding.sentence", Content::Text),
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

/// What stands at `metric`, or which metric is nearest to a name that is none.
pub(super) fn content(metric: &str) -> Result<Content, String> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wansan_insight::cwnd::CwndUse;
    use wansan_insight::finding::{Advice, explain};

    use super::*;
    use crate::plan::subject::look_up;
    use crate::record::{Advised, CellFinding, MeasuredGain, Results};

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
            cells: Vec::new(),
            finding: Some(finding),
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
                connections: 1, sum_max_packets: 1, least_swing: 0.0, most_swing: 0.0,
                cwr_events: 0, recovery_events: 0, loss_events: 0,
            },
            "finding": CellFinding::from(explain(&[])),
            "iops": 1, "bytes_per_s": 1, "latency_p50_ns": 1, "latency_p99_ns": 1, "vpn_cpu_s_per_gib": 1,
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
}
