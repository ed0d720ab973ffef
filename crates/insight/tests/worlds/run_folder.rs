//! Contents of a run folder's index and of the folder itself.

use std::fs;
use std::path::Path;

use super::simulation::{World, play};
use wansan_insight::Run;
use wansan_insight::backlog::{backlog_use, relays};
use wansan_insight::watched::watched;
use wansan_trace::event::Tcp;
use wansan_trace::{ConnectionId, Instant, Kinds, Recorder, SessionId, file};

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

/// A cell of streams leaves TCP records of the sender's connection and of both of a relay.
#[test]
fn a_run_of_streams_is_told_by_its_connections() {
    let (_folder, run) = run_with(r#"{"cell": 0}"#);
    assert!(run.streams_alone().unwrap().is_none(), "it has I/Os");

    let folder = tempfile::tempdir().unwrap();
    let cell = folder.path().join("cell-000");
    fs::create_dir(&cell).unwrap();
    let recorder = || {
        let kinds = Kinds {
            tcp: true,
            ..Kinds::NONE
        };
        Recorder::new(kinds, Recorder::MIN_BYTES)
    };
    let (mut sender, mut relay) = (recorder(), recorder());
    for second in 1..=4_u64 {
        let sample = |connection, unread_bytes, unsent_bytes| Tcp {
            time: Instant::from_ns(second * 1_000_000_000),
            session: SessionId(7),
            connection: ConnectionId(connection),
            acked_bytes: second * 1_000_000,
            unread_bytes,
            unsent_bytes,
            ..Tcp::BLANK
        };
        let ends = sender.name("10.0.0.1:9 > 10.0.0.2:4000");
        sender.tcp(Tcp {
            ends,
            ..sample(0, 0, 0)
        });
        relay.tcp(Tcp {
            acked_bytes: 0,
            ..sample(0, 300_000, 0)
        });
        relay.tcp(sample(1, 0, 200_000));
    }
    file::write_part(&cell, "client_stream", &[sender]).unwrap();
    file::write_part(&cell, "edge_relay", &[relay]).unwrap();
    file::merge_parts(&cell).unwrap();
    let index = r#"{"cells": [{"cell": 0, "measured_from_ns": 1, "measured_to_ns": 4000000000},
        {"cell": 1, "failure": "the relay died"}]}"#;
    fs::write(folder.path().join("results.json"), index).unwrap();

    let run = Run::read(folder.path()).unwrap();
    let cells = run.streams_alone().unwrap().expect("it has no I/Os");
    let [(cell, table)] = &cells[..] else {
        panic!("the cell that failed is told: {}", cells.len());
    };
    assert!(relays(table).into_iter().eq(["edge_relay"]));
    let backlog = backlog_use(table, "edge_relay", cell.window.unwrap()).unwrap();
    assert_eq!((backlog.max_bytes, backlog.p99_bytes), (500_000, 500_000));
    let connections = watched(table);
    assert_eq!(connections.len(), 3);
    let sender = connections.iter().find(|one| one.host == "client_stream");
    assert_eq!(sender.unwrap().ends, "10.0.0.1:9 > 10.0.0.2:4000");
}
