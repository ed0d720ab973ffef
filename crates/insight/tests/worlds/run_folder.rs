//! What a run folder's index may say, and what may be in the folder.

use std::fs;
use std::path::Path;

use crate::simulation::{World, play};
use wansan_insight::Run;

/// A run whose index lists these cells; cell 0 is recorded, from second 1 to second 2.
fn run_with(cells: &str) -> (tempfile::TempDir, Run) {
    let folder = tempfile::tempdir().unwrap();
    let cell = folder.path().join("cell-000");
    fs::create_dir(&cell).unwrap();
    play(&World::wan(), &cell);
    fs::write(
        folder.path().join("results.json"),
        format!("{{\"cells\": [{cells}]}}"),
    )
    .unwrap();
    let run = Run::read(folder.path()).unwrap();
    (folder, run)
}

#[track_caller]
fn refused(run: &Run, folder: &Path, words: &[&str]) {
    let error = run.observe_phase("planned").unwrap_err().to_string();
    assert!(!error.contains('\n'), "{error}");
    assert!(error.contains(folder.to_str().unwrap()), "{error}");
    for word in words {
        assert!(error.contains(word), "no '{word}' in: {error}");
    }
}

#[test]
fn a_measured_time_without_records_is_no_measurement() {
    for (from_ns, to_ns) in [
        (1u64, 999_999_999u64),
        (5_000_000_000, 6_000_000_000),
        (1_500_000_000, 1_400_000_000),
        (0, 0),
    ] {
        let cell = format!(
            "{{\"cell\": 0, \"measured_from_ns\": {from_ns}, \"measured_to_ns\": {to_ns}}}"
        );
        let (folder, run) = run_with(&cell);
        refused(&run, folder.path(), &["cell-000", &from_ns.to_string()]);
    }
    let cell = r#"{"cell": 0, "measured_from_ns": 1500000000, "measured_to_ns": 1800000000}"#;
    let (_folder, run) = run_with(cell);
    assert!(run.observe_phase("planned").unwrap()[0].summary.total.ios > 0);
}

#[test]
fn a_cell_that_is_listed_and_not_there_is_named() {
    let (folder, run) = run_with(r#"{"cell": 0}, {"cell": 7}"#);
    refused(&run, folder.path(), &["cell 7", "cell-007"]);
}

#[test]
fn a_cell_that_failed_is_left_out() {
    let failed = r#"{"cell": 1, "failure": "the target died", "measured_from_ns": 0,
        "measured_to_ns": 0}"#;
    let (_folder, run) = run_with(&format!("{{\"cell\": 0}}, {failed}"));
    assert_eq!(run.observe_phase("planned").unwrap().len(), 1);
}
