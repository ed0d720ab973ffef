//! Joins a run's manifest, results and charts into the page's data.

use std::collections::BTreeMap;

use wansan_schema::{CellResult, Machine, Manifest, Results};

use super::changes;
use super::problems::problems;
use super::{CellCharts, CellReport, Fact, ReportData};

/// The inputs of a run's report.
#[derive(Debug, Clone, Copy)]
pub struct RunRecord<'a> {
    /// The content of manifest.json.
    pub manifest: &'a Manifest,
    /// The content of results.json.
    pub results: &'a Results,
    /// Charts of the cells whose records were read, by cell number.
    pub charts: &'a BTreeMap<u64, CellCharts>,
}

/// Builds the page's data for `run`.
#[must_use]
pub fn data(run: &RunRecord<'_>) -> ReportData {
    let RunRecord {
        manifest, results, ..
    } = run;
    let cells = results.cells.iter();
    let cells: Vec<CellReport> = cells.map(|cell| cell_report(cell, run.charts)).collect();
    ReportData {
        plan: results.plan.clone(),
        title: results.title.clone(),
        started_ns: manifest
            .clock_anchors
            .first()
            .map(|first| first.realtime_ns),
        facts: facts(manifest),
        problems: problems(&cells, manifest),
        finding: results.finding.clone(),
        advised: results.advised.clone(),
        expectations: results.expectations.clone(),
        paper: results.paper.clone(),
        load: load(results).to_owned(),
        cells,
        manifest: (*manifest).clone(),
    }
}

fn cell_report(cell: &CellResult, charts: &BTreeMap<u64, CellCharts>) -> CellReport {
    let (changes, changes_left_out) = changes::of_cell(cell);
    CellReport {
        cell: cell.cell,
        phase: cell.phase.clone(),
        repeat: cell.repeat,
        parameters: cell.parameters.clone(),
        measures: match cell.failure {
            None => measures(cell),
            Some(_) => BTreeMap::new(),
        },
        failure: cell.failure.clone(),
        changes,
        changes_left_out,
        waits: cell.waits.clone(),
        stalls: cell.stalls.clone(),
        charts: charts.get(&cell.cell).cloned().unwrap_or_default(),
    }
}

/// `streams` if a cell has streams but no initiators: initiators have results in every cell that did not fail before
/// they started.
fn load(results: &Results) -> &'static str {
    let streams_only = |cell: &CellResult| cell.initiators.is_empty() && !cell.streams.is_empty();
    match results.cells.iter().any(streams_only) {
        true => "streams",
        false => "initiators",
    }
}

/// The cell's results (fields with a unit), by dotted name.
fn measures(cell: &CellResult) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    cell.singles(&mut |field, single| {
        let is_result = field.unit.is_some();
        found.extend(
            single
                .value
                .as_f64()
                .filter(|_| is_result)
                .map(|value| (single.name, value)),
        );
    });
    found
}

fn facts(manifest: &Manifest) -> Vec<Fact> {
    let commit = manifest.wansan_commit.as_ref();
    let commit = commit.map(|commit| commit.chars().take(12).collect::<String>());
    let version = manifest
        .wansan_version
        .as_ref()
        .map(|version| match commit {
            Some(commit) => format!("{version} ({commit})"),
            None => version.clone(),
        });
    let Machine {
        kernel, cpu, cpus, ..
    } = &manifest.machine;
    // Name and release; the build's number and date are in the manifest.
    let kernel: Vec<&str> = kernel.split_whitespace().take(2).collect();
    let there = |is_there: bool, text: String| is_there.then_some(text);
    [
        ("wansan", version),
        ("kernel", there(!kernel.is_empty(), kernel.join(" "))),
        (
            "processors",
            there(!cpu.is_empty(), format!("{cpus} × {cpu}")),
        ),
        ("seed", manifest.seed.map(|seed| seed.to_string())),
        (
            "form",
            there(manifest.quick, "quick: fewer and shorter cells".to_owned()),
        ),
    ]
    .into_iter()
    .filter_map(|(label, text)| {
        let label = label.to_owned();
        Some(Fact { label, text: text? })
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// The page's data for a run with these files, as JSON.
    fn run(manifest: &Value, results: &Value, charts: &BTreeMap<u64, CellCharts>) -> Value {
        let manifest = serde_json::from_value(manifest.clone()).unwrap();
        let results = serde_json::from_value(results.clone()).unwrap();
        let data = data(&RunRecord {
            manifest: &manifest,
            results: &results,
            charts,
        });
        serde_json::to_value(data).unwrap()
    }

    #[test]
    fn a_run_that_left_nothing_still_has_a_report() {
        let report = run(&json!({}), &json!({}), &BTreeMap::new());
        assert_eq!(report["cells"], json!([]));
        assert_eq!(report["facts"], json!([]));
        assert_eq!(report["problems"], json!(["No cell was measured."]));
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
        assert_eq!(report["started_ns"], 1_700_000_000_000_000_000_u64);
        let facts = report["facts"].as_array().unwrap().iter();
        let facts: Vec<_> = facts.map(|fact| &fact["text"]).collect();
        assert_eq!(facts, ["0.1.0 (0123456789ab)", "Linux 6.18.1", "7"]);
        let cells = &report["cells"];
        assert_eq!(cells[0]["sessions"], 4);
        let measures =
            json!({"iops": 100.5, "bytes_per_s": 411_648.0, "latency_p50_ns": 32_000_000.0});
        assert_eq!(cells[0]["measures"], measures);
        assert_eq!(cells[1]["measures"], json!({}));
        assert_eq!(report["advised"]["value"], 8);
        assert_eq!(report["finding"]["advice"]["text"], "raise it");
        assert_eq!(report["finding"]["evidence"], json!(["a", "b"]));
        assert_eq!(report["expectations"][0]["met"], false);
        let unread = "Cell 0: no layer crossings were recorded.";
        assert_eq!(
            report["problems"],
            json!(["Cell 1 failed: no target.", unread])
        );
    }

    #[test]
    fn nested_numbers_reach_the_page_by_their_names() {
        let results = json!({"cells": [{"cell": 0, "initiators": [], "bytes_per_s": 5.0,
            "parameters": {"relay.near.bound": 3},
            "streams": {"up": {"bytes_per_s": 5.0, "host": "a", "flows": [{"flow": 3}]}},
            "relays": {"near": {"fallbacks": {"no_ecn": 1}, "law": "arrival"}},
            "cwnd": {"most_swing": 0.25}, "stalls": {"cause": "nagle", "cost_ns": 9.0},
            "in_flight": {"app": 3.0}, "measured_from_ns": 4,
            "routers": [{"router": "far", "vpn": "ipsec", "cpu_s_per_gib": 7.5}]}]});
        let report = run(&json!({}), &results, &BTreeMap::new());
        assert_eq!(report["load"], "streams");
        let measures = &report["cells"][0]["measures"];
        for (name, value) in [
            ("bytes_per_s", 5.0),
            ("relays.near.fallbacks.no_ecn", 1.0),
            ("streams.up.bytes_per_s", 5.0),
            ("cwnd.most_swing", 0.25),
            ("stalls.cost_ns", 9.0),
            ("in_flight.app", 3.0),
            ("routers.far.cpu_s_per_gib", 7.5),
        ] {
            assert_eq!(measures[name], value, "{name}: {measures}");
        }
        let names: Vec<&String> = measures.as_object().unwrap().keys().collect();
        let is_apart = |name: &str| ["cell", "repeat", "measured_from_ns"].contains(&name);
        assert!(
            !names
                .iter()
                .any(|name| is_apart(name) || name.contains("flows")),
            "{names:?}"
        );
    }

    #[test]
    fn a_papers_numbers_reach_the_page() {
        let results = json!({
            "paper": {"title": "P", "figure": null, "remarks": ["All meet."], "differs": ["Ours waits."],
                "known": [{"about": "a", "metric": "cells.iops", "where": {"case": "none"},
                    "relative_to": null, "value": 4.0, "ours": 2.0, "ratio": 0.5}]},
        });
        let report = run(&json!({}), &results, &BTreeMap::new());
        assert_eq!(report["paper"], results["paper"]);
    }
}
