//! `wansan model routes` beside runs whose grids are known: what it prints, and what it does not.

use std::fs;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A run that sweeps two delays over these milliseconds; `bytes_per_s` of both delays in seconds.
fn run(delays_ms: &[u64], batch: bool, bytes_per_s: impl Fn(f64, f64) -> f64) -> TempDir {
    let pairs = delays_ms
        .iter()
        .flat_map(|first| delays_ms.iter().map(move |second| (*first, *second)));
    let cells: Vec<Value> = pairs
        .enumerate()
        .map(|(number, (first, second))| {
            json!({
                "cell": number, "phase": "planned", "repeat": 0, "failure": null,
                "parameters": {
                    "path.upper.delay": format!("{first}ms"), "path.lower.delay": format!("{second}ms"),
                },
                "measured_from_ns": 1, "measured_to_ns": 2, "initiators": [],
                "iops": 1.0, "bytes_per_s": bytes_per_s(first as f64 / 1e3, second as f64 / 1e3),
                "latency_p50_ns": null, "latency_p99_ns": null, "in_flight": {},
            })
        })
        .collect();
    let results = json!({
        "plan": "grid", "title": "Grid", "cells": cells, "finding": null, "advised": null,
        "expectations": [],
    });
    let workload = json!({ "block": "8KiB", "parallel": 8, "batch": batch });
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("results.json", results),
        (
            "manifest.json",
            json!({ "document": { "workload": workload } }),
        ),
    ] {
        fs::write(folder.path().join(name), content.to_string()).unwrap();
    }
    folder
}

fn model(folder: &TempDir, more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wansan"));
    command
        .args(["model", "routes"])
        .arg(folder.path())
        .args(more);
    command.output().unwrap()
}

/// What the command prints, without the folder's random name.
fn printed(folder: &TempDir) -> String {
    let output = model(folder, &[]);
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    printed.replace(folder.path().file_name().unwrap().to_str().unwrap(), "RUN")
}

const ASKED_BYTES: f64 = 65_536.0;

#[test]
fn a_loops_form_has_one_time_to_send() {
    // The narrower route needs 16 ms, which no cell but those of short delays shows.
    let folder = run(&[0, 2, 8, 32], false, |d1, d2| {
        ASKED_BYTES / (d1.max(d2) + (d1 + d2) / 2.0).max(0.016)
    });
    let told = printed(&folder);
    assert!(told.contains("(1 + 2·m) · (D1 + D2) ÷ 2, s)"), "{told}");
    assert!(told.contains("narrower route: 16.0"), "{told}");
    assert!(!told.contains("s1") && !told.contains("s2"), "{told}");
    let json: Value = serde_json::from_slice(&model(&folder, &["--json"]).stdout).unwrap();
    let cycle = &json["cycle"];
    assert!(
        cycle["send1_s"].is_null() && cycle["begins"].is_null(),
        "{cycle}"
    );
    let value = cycle["send_s"]["value"].as_f64().unwrap();
    assert!((value - 0.016).abs() < 1e-4, "{cycle}");
}

#[test]
fn a_batchs_form_has_all_its_terms() {
    // Neither route waits for its window, nor is the first one ever waited for.
    let folder = run(&[0, 8, 32], true, |d1, d2| {
        ASKED_BYTES / (d1.max(d2) + (d1 + 0.001).max(d2 + 0.080))
    });
    let told = printed(&folder);
    assert!(
        told.contains("max(s1 - e1, 2·m·D1), D2 + max(s2 - e2, 2·m·D2)"),
        "{told}"
    );
    assert!(told.contains("s2, over the second: 80.0"), "{told}");
    let line = |begins: &str| {
        let found = told.lines().find(|line| line.trim().starts_with(begins));
        found.unwrap_or_else(|| panic!("{told}")).to_owned()
    };
    assert!(line("s1, time to send").contains("at most "), "{told}");
    assert!(line("m, round trips").contains("at most "), "{told}");
}

#[test]
fn a_grid_of_as_many_cells_as_numbers_is_refused() {
    let folder = run(&[0, 8], true, |d1, d2| {
        ASKED_BYTES / (2.0 * d1.max(d2) + 0.010)
    });
    let output = model(&folder, &[]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("4 cells are too few to fit 4 numbers"),
        "{told}"
    );
    assert_eq!(told.lines().count(), 1, "{told}");
}
