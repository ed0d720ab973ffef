//! Stored runs, of this version of wansan or an earlier one.

use std::fs;
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Value, json};
use wansan_lab::record::{CellTable, StoredError, StoredRun, compare, list};

/// A cell as written by wansan's first version: without a finding of its own.
fn cell(number: usize, repeat: u32, delay: &str, iops: f64) -> Value {
    json!({
        "cell": number, "phase": "planned", "repeat": repeat, "failure": null,
        "parameters": {"path.wan.delay": delay, "case": "one, \"two\""},
        "measured_from_ns": 1, "measured_to_ns": 2, "initiators": [{"host": "client"}],
        "iops": iops, "bytes_per_s": iops * 4096.0,
        "latency_p50_ns": 1000 * number, "latency_p99_ns": null,
        "in_flight": {"app": 4.0},
    })
}

/// Writes an earlier version's run and its manifest.
fn write(out: &Path, plan: &str, name: &str, cells: &[Value]) {
    let folder = out.join(plan).join(name);
    fs::create_dir_all(&folder).unwrap();
    let results = json!({
        "plan": plan, "title": "Trial", "cells": cells, "finding": null, "advised": null,
        "expectations": [
            {"expected": "a", "found": "b", "met": true},
            {"expected": "a", "found": "b", "met": false},
        ],
    });
    fs::write(folder.join("results.json"), results.to_string()).unwrap();
    let manifest = json!({
        "wansan_version": "0.0.1",
        "document": {"workload": {"block": "4KiB"}, "path": [{"name": "wan", "delay": name}]},
        "clock_anchors": [
            {"monotonic_ns": 5, "realtime_ns": 1_000_000_000_000_000_000_u64, "uncertainty_ns": 1},
            {"monotonic_ns": 65, "realtime_ns": 1_000_000_000_000_000_060_u64},
        ],
    });
    fs::write(folder.join("manifest.json"), manifest.to_string()).unwrap();
}

fn scratch() -> tempfile::TempDir {
    let out = tempfile::tempdir().unwrap();
    let cells = [
        cell(0, 0, "1ms", 100.0),
        cell(1, 0, "16ms", 50.0),
        cell(2, 1, "1ms", 104.0),
        cell(3, 1, "16ms", 52.0),
    ];
    write(out.path(), "reads", "20260101T000000Z-aaaaaaaa", &cells);
    write(
        out.path(),
        "reads",
        "20260202T000000Z-aaaaaaaa",
        &cells[..2],
    );
    write(
        out.path(),
        "writes",
        "20260103T000000Z-bbbbbbbb",
        &cells[..0],
    );
    out
}

#[test]
fn runs_are_found_by_path_plan_and_beginning() {
    let out = scratch();
    let find = |wanted: &str| StoredRun::find(out.path(), wanted);
    let name = |wanted: &str| find(wanted).unwrap().name();
    assert_eq!(name("reads"), "reads/20260202T000000Z-aaaaaaaa");
    assert_eq!(name("20260103"), "writes/20260103T000000Z-bbbbbbbb");
    assert_eq!(name("reads/202601"), "reads/20260101T000000Z-aaaaaaaa");
    let path = out.path().join("reads/20260101T000000Z-aaaaaaaa");
    assert_eq!(
        name(&path.display().to_string()),
        "reads/20260101T000000Z-aaaaaaaa"
    );

    let several = find("2026").unwrap_err();
    assert!(
        matches!(several, StoredError::Ambiguous { count: 3, .. }),
        "{several}"
    );
    for wanted in ["", "2027", "/nowhere"] {
        let none = find(wanted).unwrap_err();
        assert!(
            matches!(none, StoredError::NoRun { .. }),
            "{wanted}: {none}"
        );
    }
    fs::write(path.join("results.json"), "{\n}").unwrap();
    let damaged = find("reads/202601").unwrap_err().to_string();
    assert!(
        damaged.contains("results.json") && !damaged.contains('\n'),
        "{damaged}"
    );
}

#[test]
fn runs_of_an_earlier_version_are_listed_oldest_first() {
    let out = scratch();
    fs::create_dir(out.path().join("reads/not-a-run")).unwrap();
    let runs: Vec<StoredRun> = list(out.path())
        .unwrap()
        .into_iter()
        .map(|run| run.unwrap())
        .collect();
    let plans: Vec<&str> = runs.iter().map(|run| run.results.plan.as_str()).collect();
    assert_eq!(plans, ["reads", "writes", "reads"]);
    let run = &runs[0];
    assert_eq!(run.began_utc().as_deref(), Some("2001-09-09 01:46:40"));
    assert_eq!(run.took_ns(), Some(60));
    assert_eq!(run.expectations(), (1, 2));
    assert!(!run.results.quick && !run.is_complete());
    assert!(list(&out.path().join("none")).unwrap().is_empty());
}

#[test]
fn cells_are_compared_over_their_repeats() {
    let out = scratch();
    let run = |name: &str| StoredRun::find(out.path(), name).unwrap();
    let comparison = compare(&run("reads/202601"), &run("reads/202602")).unwrap();
    assert_eq!(comparison.cells.len(), 2);
    let iops = &comparison.cells[0].numbers["iops"];
    assert_eq!(
        (iops.first, iops.second, iops.interval),
        (102.0, 100.0, None)
    );
    assert_eq!((iops.first_repeats, iops.second_repeats), (2, 1));
    assert!(!comparison.cells[0].numbers.contains_key("latency_p99_ns"));
    let settings: Vec<&str> = comparison
        .settings
        .iter()
        .map(|s| s.setting.as_str())
        .collect();
    assert_eq!(settings, ["path.wan.delay"]);
    // The contents of a file that both plans name.
    for (name, sha256) in [("20260101T000000Z", "11"), ("20260202T000000Z", "22")] {
        let file = out
            .path()
            .join(format!("reads/{name}-aaaaaaaa/manifest.json"));
        let mut manifest: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        manifest["files"] = json!({"rates.csv": {"sha256": sha256, "copy": "files/rates.csv"}});
        fs::write(&file, manifest.to_string()).unwrap();
    }
    let comparison = compare(&run("reads/202601"), &run("reads/202602")).unwrap();
    let file = &comparison.settings[0];
    assert_eq!(file.setting, "file rates.csv");
    assert_eq!((&file.first, &file.second), (&json!("11"), &json!("22")));
    let none = compare(&run("reads"), &run("writes"))
        .unwrap_err()
        .to_string();
    assert!(
        none.contains("writes/") && none.contains("none of its cells was measured"),
        "{none}"
    );
    let mut other = cell(0, 0, "64ms", 1.0);
    write(
        out.path(),
        "others",
        "20260104T000000Z-cccccccc",
        &[other.clone()],
    );
    let nothing = compare(&run("reads"), &run("others"))
        .unwrap_err()
        .to_string();
    assert!(nothing.contains("no cell in common"), "{nothing}");
    other["failure"] = json!("no target");
    write(out.path(), "others", "20260105T000000Z-cccccccc", &[other]);
    let failed = compare(&run("reads"), &run("others"))
        .unwrap_err()
        .to_string();
    assert!(
        failed.contains("none of its cells was measured"),
        "{failed}"
    );
}

/// Two runs of one plan differ if one was changed by hand.
#[test]
fn changes_by_hand_are_told() {
    let out = scratch();
    let change = |asked_by: &str, planned_ns: Value, statement: &str| {
        json!({
            "statement": statement, "asked_by": asked_by, "planned_ns": planned_ns,
            "made_after_ns": 1_203_000_000_u64, "made_at_ns": 5, "refused": null,
        })
    };
    let planned = change("plan", json!(1_000_000_000), "wan.loss = 1%");
    let by_hand = change("hand", json!(null), "wan.delay = 20ms");
    for (name, timeline) in [
        ("20260101T000000Z-a", json!([planned])),
        ("20260102T000000Z-b", json!([planned, by_hand])),
    ] {
        let mut cell = cell(0, 0, "1ms", 100.0);
        cell["timeline"] = timeline;
        write(out.path(), "hands", name, &[cell]);
    }
    let run = |name: &str| StoredRun::find(out.path(), name).unwrap();
    let (first, second) = (run("hands/20260101"), run("hands/20260102"));
    let comparison = compare(&first, &second).unwrap();
    let cell = &comparison.cells[0];
    assert_eq!(cell.by_hand_in_first, []);
    let told: Vec<String> = cell
        .by_hand_in_second
        .iter()
        .map(|by| by.change.to_string())
        .collect();
    assert_eq!(told, ["at 1.203s wan.delay = 20ms (by hand)"]);
    let exported = |run: &StoredRun| CellTable::of(&run.results).to_json()[0].clone();
    assert_eq!(exported(&first).get("changed_by_hand"), None);
    assert_eq!(exported(&second)["changed_by_hand"], told[0]);
    for run in [&first, &second] {
        assert_eq!(exported(run)["changed_by_plan"], "at 1.203s wan.loss = 1%");
    }
}

/// A failed cell's missing values are null, not 0, in runs of earlier versions too.
#[test]
fn a_failed_cell_has_no_numbers() {
    let out = scratch();
    let mut failed = cell(1, 0, "16ms", 0.0);
    failed["failure"] = json!("no target");
    failed["measured_from_ns"] = json!(0);
    failed["latency_p50_ns"] = json!(null);
    let cells = [cell(0, 0, "1ms", 100.0), failed];
    write(out.path(), "fails", "20260101T000000Z-aaaaaaaa", &cells);
    let run = StoredRun::find(out.path(), "fails").unwrap();
    let table = CellTable::of(&run.results).to_json();
    for name in [
        "iops",
        "bytes_per_s",
        "measured_from_ns",
        "measured_to_ns",
        "latency_p50_ns",
    ] {
        assert!(table[0][name].is_number(), "{name}: {table}");
        assert_eq!(table[1].get(name), Some(&Value::Null), "{name}");
    }
    assert_eq!(table[1]["failure"], "no target");
    let mut csv = Vec::new();
    CellTable::of(&run.results).write_csv(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let last = csv.lines().last().unwrap();
    assert!(
        last.starts_with("1,planned,0,no target,") && !last.contains(",0,0"),
        "{last}"
    );
}

#[test]
fn both_export_formats_hold_the_same_table() {
    let out = scratch();
    let run = StoredRun::find(out.path(), "reads/202601").unwrap();
    let table = CellTable::of(&run.results);
    let mut csv = Vec::new();
    table.write_csv(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let mut lines = csv.lines();
    assert_eq!(
        lines.next().unwrap(),
        "cell,phase,repeat,case,path.wan.delay_ns,bytes_per_s,in_flight.app,iops,latency_p50_ns,\
         measured_from_ns,measured_to_ns"
    );
    assert_eq!(
        lines.nth(1).unwrap(),
        "1,planned,0,\"one, \"\"two\"\"\",16000000,204800,4,50,1000,1,2"
    );

    let file = out.path().join("cells.parquet");
    table
        .write_parquet(fs::File::create(&file).unwrap())
        .unwrap();
    let reader = SerializedFileReader::new(fs::File::open(&file).unwrap()).unwrap();
    let rows: Vec<_> = reader
        .get_row_iter(None)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(rows.len(), 4);
    let fields: Vec<(&String, &Field)> = rows[1].get_column_iter().collect();
    let names: Vec<&str> = fields.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, table.names().collect::<Vec<_>>());
    assert_eq!(fields[4].1, &Field::Long(16_000_000));
    assert_eq!(fields[3].1, &Field::Str("one, \"two\"".to_owned()));
    assert_eq!(fields[7].1, &Field::Double(50.0));
}
