//! Joins a run's manifest, results and charts to what the page is given.
//!
//! The manifest and the results are read leniently: a report of a run that ended early, or that
//! another version of wansan wrote, shows what is there.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::changes;
use super::problems::problems;
use super::{
    CellCharts, CellReport, Expectation, Fact, FindingText, GainPoint, KnownReport, Load, Measure,
    PaperReport, ReportData,
};

/// A run as the report needs it.
#[derive(Debug, Clone, Copy)]
pub struct RunRecord<'a> {
    /// The content of manifest.json.
    pub manifest: &'a Value,
    /// The content of results.json.
    pub results: &'a Value,
    /// The charts of the cells whose records were read, by the cell's number.
    pub charts: &'a BTreeMap<u64, CellCharts>,
}

/// What the page of `run` shows.
#[must_use]
pub fn data(run: &RunRecord<'_>) -> ReportData {
    let results = run.results;
    let cells: Vec<CellReport> = list(results, "cells")
        .iter()
        .enumerate()
        .map(|(place, cell)| cell_report(place as u64, cell, run.charts))
        .collect();
    ReportData {
        plan: text(results, "plan").unwrap_or_default(),
        title: text(results, "title").unwrap_or_default(),
        started_ns: list(run.manifest, "clock_anchors")
            .first()
            .and_then(|anchor| whole(anchor, "realtime_ns")),
        facts: facts(run.manifest),
        problems: problems(&cells, run.manifest),
        finding: present(results, "finding").map(finding),
        gain: present(results, "advised").and_then(gain),
        expectations: list(results, "expectations")
            .iter()
            .map(expectation)
            .collect(),
        paper: present(results, "paper").map(paper),
        load: load(results),
        cells,
        manifest: run.manifest.clone(),
    }
}

fn cell_report(place: u64, cell: &Value, charts: &BTreeMap<u64, CellCharts>) -> CellReport {
    let number = whole(cell, "cell").unwrap_or(place);
    let failure = text(cell, "failure");
    let measured = |name| {
        let value = real(cell, name);
        value.filter(|_| failure.is_none())
    };
    let (changes, changes_left_out) = changes::of_cell(cell);
    CellReport {
        cell: number,
        phase: text(cell, "phase").unwrap_or_default(),
        repeat: whole(cell, "repeat").unwrap_or(0),
        parameters: object(cell, "parameters"),
        iops: measured("iops"),
        bytes_per_s: measured("bytes_per_s"),
        latency_p50_ns: measured("latency_p50_ns"),
        latency_p99_ns: measured("latency_p99_ns"),
        measures: if failure.is_none() {
            measures(cell)
        } else {
            Vec::new()
        },
        failure,
        changes,
        changes_left_out,
        charts: charts.get(&number).cloned().unwrap_or_default(),
    }
}

/// Initiators have results in each cell that did not fail before they began.
fn load(results: &Value) -> Load {
    let mut cells = list(results, "cells").iter();
    let streams_only = |cell: &Value| {
        list(cell, "initiators").is_empty()
            && present(cell, "streams").is_some_and(|streams| *streams != json!({}))
    };
    match cells.any(streams_only) {
        true => Load::Streams,
        false => Load::Initiators,
    }
}

/// What identifies a cell and is no number of it.
const NO_MEASURES: [&str; 5] = [
    "cell",
    "repeat",
    "measured_from_ns",
    "measured_to_ns",
    "parameters",
];

/// The cell's numbers by their dotted names, and those of each router in it.
fn measures(cell: &Value) -> Vec<Measure> {
    let mut found = Vec::new();
    let members = cell.as_object().into_iter().flatten();
    for (name, value) in members.filter(|(name, _)| !NO_MEASURES.contains(&name.as_str())) {
        numbers(value, name.clone(), &mut found);
    }
    for router in list(cell, "routers") {
        let name = text(router, "router").unwrap_or_default();
        numbers(router, format!("routers.{name}"), &mut found);
    }
    found
}

/// The numbers at and below a value.
fn numbers(value: &Value, metric: String, found: &mut Vec<Measure>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                numbers(value, format!("{metric}.{name}"), found);
            }
        }
        value => found.extend(value.as_f64().map(|value| Measure { metric, value })),
    }
}

fn paper(paper: &Value) -> PaperReport {
    PaperReport {
        title: text(paper, "title").unwrap_or_default(),
        figure: text(paper, "figure"),
        remarks: texts(paper, "remarks"),
        differs: texts(paper, "differs"),
        known: list(paper, "known").iter().filter_map(known).collect(),
    }
}

fn known(known: &Value) -> Option<KnownReport> {
    Some(KnownReport {
        about: text(known, "about").unwrap_or_default(),
        metric: text(known, "metric")?,
        of: object(known, "where"),
        relative: present(known, "relative_to").is_some(),
        value: real(known, "value")?,
        ours: real(known, "ours"),
        ratio: real(known, "ratio"),
    })
}

fn object(value: &Value, name: &str) -> Map<String, Value> {
    let found = present(value, name).and_then(Value::as_object);
    found.cloned().unwrap_or_default()
}

fn facts(manifest: &Value) -> Vec<Fact> {
    let version =
        text(manifest, "wansan_version").map(|version| match text(manifest, "wansan_commit") {
            Some(commit) => format!(
                "{version} ({})",
                commit.chars().take(12).collect::<String>()
            ),
            None => version,
        });
    let machine = present(manifest, "machine").unwrap_or(&Value::Null);
    // Name and release; the build's number and date stand in the manifest.
    let kernel = text(machine, "kernel").map(|kernel| {
        kernel
            .split_whitespace()
            .take(2)
            .collect::<Vec<_>>()
            .join(" ")
    });
    let processor = text(machine, "cpu")
        .filter(|cpu| !cpu.is_empty())
        .map(|cpu| whole(machine, "cpus").map_or(cpu.clone(), |cpus| format!("{cpus} × {cpu}")));
    let seed = whole(manifest, "seed").map(|seed| seed.to_string());
    let quick = present(manifest, "quick").and_then(Value::as_bool);
    let form = (quick == Some(true)).then(|| "quick: fewer and shorter cells".to_owned());
    [
        ("wansan", version),
        ("kernel", kernel),
        ("processors", processor),
        ("seed", seed),
        ("form", form),
    ]
    .into_iter()
    .filter_map(|(label, text)| Some(Fact { label, text: text? }))
    .collect()
}

fn finding(finding: &Value) -> FindingText {
    FindingText {
        limit: text(finding, "limit").unwrap_or_default(),
        sentence: text(finding, "sentence").unwrap_or_default(),
        evidence: texts(finding, "evidence"),
        layer: text(finding, "layer"),
        above: text(finding, "above"),
        advice: present(finding, "advice").and_then(|advice| text(advice, "text")),
        cell: whole(finding, "cell"),
    }
}

fn gain(advised: &Value) -> Option<GainPoint> {
    Some(GainPoint {
        parameter: text(advised, "parameter")?,
        value: match present(advised, "value")? {
            Value::String(value) => value.clone(),
            other => other.to_string(),
        },
        planned_cell: whole(advised, "planned_cell")?,
        advised_cell: whole(advised, "advised_cell")?,
        planned_iops: real(advised, "planned_iops")?,
        predicted_iops: real(advised, "predicted_iops")?,
        measured_iops: real(advised, "measured_iops")?,
    })
}

fn expectation(verdict: &Value) -> Expectation {
    Expectation {
        expected: text(verdict, "expected").unwrap_or_default(),
        found: text(verdict, "found").unwrap_or_default(),
        met: present(verdict, "met").and_then(Value::as_bool),
    }
}

/// What stands under a name and is not null.
pub(super) fn present<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|found| !found.is_null())
}

pub(super) fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    present(value, name)
        .and_then(Value::as_array)
        .map_or(&[], Vec::as_slice)
}

pub(super) fn whole(value: &Value, name: &str) -> Option<u64> {
    present(value, name).and_then(Value::as_u64)
}

pub(super) fn text(value: &Value, name: &str) -> Option<String> {
    present(value, name)
        .and_then(Value::as_str)
        .map(str::to_owned)
}

/// The texts of a list.
fn texts(value: &Value, name: &str) -> Vec<String> {
    let texts = list(value, name).iter().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn real(value: &Value, name: &str) -> Option<f64> {
    present(value, name).and_then(Value::as_f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<'a>(
        manifest: &'a Value,
        results: &'a Value,
        charts: &'a BTreeMap<u64, CellCharts>,
    ) -> ReportData {
        data(&RunRecord {
            manifest,
            results,
            charts,
        })
    }

    #[test]
    fn a_run_that_left_nothing_still_has_a_report() {
        let report = run(&Value::Null, &json!({}), &BTreeMap::new());
        assert_eq!(report.cells, []);
        assert_eq!(report.problems, ["No cell was measured."]);
        let lists = json!({"cells": 3, "finding": [], "advised": "no", "expectations": {}});
        assert_eq!(run(&json!([1]), &lists, &BTreeMap::new()).cells, []);
    }

    #[test]
    fn results_and_charts_meet_by_the_cells_number() {
        let manifest = json!({
            "wansan_version": "0.1.0",
            "wansan_commit": "0123456789abcdef",
            "seed": 7,
            "machine": {"kernel": "Linux 6.18.1 #1 SMP", "cpu": "", "cpus": 2},
            "clock_anchors": [{"monotonic_ns": 1, "realtime_ns": 1_700_000_000_000_000_000_u64}],
        });
        let results = json!({
            "plan": "p2",
            "title": "Reads",
            "cells": [
                {"cell": 0, "phase": "planned", "repeat": 0, "failure": null,
                 "parameters": {"workload.parallel": 16}, "iops": 100.5, "bytes_per_s": 411_648.0,
                 "latency_p50_ns": 32_000_000, "latency_p99_ns": null},
                {"cell": 1, "phase": "planned", "repeat": 0, "failure": "no target",
                 "parameters": {"workload.parallel": 32}, "iops": 0.0},
            ],
            "finding": {"limit": "command_window", "layer": "window", "above": "queue",
                "cell": 0, "evidence": ["a", "b"], "sentence": "It binds.",
                "advice": {"text": "raise it", "parameter": "target.command_window", "value": "8"}},
            "advised": {"parameter": "target.command_window", "value": 8, "planned_cell": 0,
                "advised_cell": 2, "planned_iops": 1.0, "predicted_iops": 2.0,
                "measured_iops": 1.9},
            "expectations": [{"expected": "x is 1", "found": "2", "met": false}],
        });
        let charts = CellCharts {
            sessions: 4,
            ..CellCharts::default()
        };
        let report = run(&manifest, &results, &BTreeMap::from([(0, charts)]));
        assert_eq!(report.started_ns, Some(1_700_000_000_000_000_000));
        let facts: Vec<_> = report.facts.iter().map(|fact| fact.text.as_str()).collect();
        assert_eq!(facts, ["0.1.0 (0123456789ab)", "Linux 6.18.1", "7"]);
        assert_eq!(report.cells[0].charts.sessions, 4);
        assert_eq!(report.cells[0].iops, Some(100.5));
        assert_eq!(report.cells[0].latency_p99_ns, None);
        assert_eq!(report.cells[1].iops, None);
        assert_eq!(report.gain.unwrap().value, "8");
        let finding = report.finding.unwrap();
        assert_eq!(finding.advice.as_deref(), Some("raise it"));
        assert_eq!(finding.evidence, ["a", "b"]);
        assert_eq!(report.expectations[0].met, Some(false));
        let unread = "Cell 0: no layer crossings were recorded.";
        assert_eq!(report.problems, ["Cell 1 failed: no target.", unread]);
    }

    #[test]
    fn numbers_of_streams_and_relays_reach_the_page_by_their_names() {
        let results = json!({"cells": [{"cell": 0, "initiators": [], "bytes_per_s": 5.0,
            "parameters": {"relay.near.bound": 3},
            "streams": {"up": {"bytes_per_s": 5.0, "host": "a"}},
            "relays": {"near": {"fallbacks": {"no_ecn": 1}}}}]});
        let report = run(&Value::Null, &results, &BTreeMap::new());
        assert_eq!(report.load, Load::Streams);
        let measures = report.cells[0].measures.iter();
        let measures: Vec<_> = measures.map(|m| (m.metric.as_str(), m.value)).collect();
        let expected = [
            ("bytes_per_s", 5.0),
            ("relays.near.fallbacks.no_ecn", 1.0),
            ("streams.up.bytes_per_s", 5.0),
        ];
        assert_eq!(measures, expected);
    }

    #[test]
    fn a_papers_numbers_and_every_measure_reach_the_page() {
        let results = json!({
            "cells": [
                {"cell": 0, "repeat": 1, "measured_from_ns": 5, "iops": 2.0, "latency_p50_ns": null,
                 "packet_gap_p50_ns": 900, "in_flight": {"app": 3.0},
                 "routers": [{"router": "far", "vpn": "ipsec", "cpu_s_per_gib": 7.5}]},
                {"cell": 1, "failure": "no target", "iops": 0.0},
            ],
            "paper": {"title": "P", "figure": null, "remarks": ["All meet."], "differs": ["Ours waits."], "known": [
                {"about": "a", "metric": "cells.iops", "where": {"case": "none"},
                 "relative_to": null, "value": 4.0, "ours": 2.0, "ratio": 0.5},
                {"about": "no number"},
            ]},
        });
        let report = run(&Value::Null, &results, &BTreeMap::new());
        let measures = |cell: usize| -> Vec<(&str, f64)> {
            let measures = report.cells[cell].measures.iter();
            measures.map(|m| (m.metric.as_str(), m.value)).collect()
        };
        assert_eq!(
            measures(0),
            [
                ("in_flight.app", 3.0),
                ("iops", 2.0),
                ("packet_gap_p50_ns", 900.0),
                ("routers.far.cpu_s_per_gib", 7.5)
            ]
        );
        assert_eq!(measures(1), []);
        let paper = report.paper.as_ref().unwrap();
        assert_eq!(paper.remarks, ["All meet."]);
        assert_eq!(paper.differs, ["Ours waits."]);
        assert_eq!(paper.known.len(), 1);
        assert!(!paper.known[0].relative);
        assert_eq!(paper.known[0].of["case"], "none");
        assert_eq!(paper.known[0].ratio, Some(0.5));
    }
}
