//! Run folders: shown, compared, explained.

use super::{refused, refused_beside, run_beside};

#[test]
fn a_run_that_is_not_there() {
    for arguments in [
        &["lab", "show", "latest"][..],
        &["lab", "compare", "latest", "latest"],
        &["lab", "export", "csv", "latest"],
        &["model", "routes", "latest"],
        &[
            "lab",
            "export",
            "parquet",
            "latest",
            "--out",
            "cells.parquet",
        ],
    ] {
        refused(arguments, &["latest", "runs", "`wansan lab list`"]);
    }
    refused(&["lab", "list", "--runs", "/dev/null"], &["/dev/null"]);
}

/// What a lab that was killed before its first cell had ended leaves.
const NO_CELLS: &[u8] = br#"{"plan": "t", "title": "t", "cells": [], "finding": null,
    "advised": null, "expectations": [], "paper": null}"#;

#[test]
fn a_run_compared_with_itself() {
    let run = [("results.json", NO_CELLS)];
    refused_beside(&run, &["lab", "compare", ".", "."], &["the same run"]);
}

#[test]
fn a_run_without_a_report_names_none() {
    let run = [("results.json", NO_CELLS)];
    let (shown, _folder) = run_beside(&run, &["lab", "show", "."]);
    assert!(shown.status.success(), "{}", shown.output());
    assert!(!shown.stdout.contains("Report"), "{}", shown.stdout);
}

#[test]
fn a_run_folder_that_is_not_there() {
    refused(&["explain", "runs/none"], &["runs/none"]);
}

#[test]
fn a_capture_that_is_not_there() {
    refused(&["explain", "none.pcapng"], &["none.pcapng: no such file"]);
}

#[test]
fn a_run_folder_that_is_none() {
    refused(&["explain", "."], &["results.json"]);
}

#[test]
fn what_is_neither_a_file_nor_a_folder_is_not_explained() {
    refused(
        &["explain", "/dev/null"],
        &["/dev/null is a device", "give a capture file"],
    );
}

#[test]
fn a_run_folder_with_broken_results() {
    refused_beside(
        &[("results.json", b"{")],
        &["explain", "."],
        &["results.json"],
    );
}

#[test]
fn captures_of_both_ends_are_two() {
    refused(
        &["explain", "--both-ends", "one.pcap"],
        &["--both-ends takes two captures"],
    );
}

#[test]
fn a_peer_is_named_as_ssh_has_it() {
    refused(&["diagnose", "--peer", "storage"], &["ssh://HOST"]);
    refused(&["diagnose", "--no-copy"], &["--peer"]);
}
