//! Wrong arguments, URLs, units, plans and run folders: one line that says what is wrong, exit
//! status 2, and nothing left behind.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use wansan_peers::process::{Finished, run};
use wansan_peers::wansan::{TARGET_NAME, Target};

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
const LIMIT: Duration = Duration::from_secs(60);
const URL: &str = "iscsi://127.0.0.1:3260/iqn.2026-11.net.example:x/0";

/// Runs wansan in a folder that holds only `files`.
fn run_beside(files: &[(&str, &[u8])], arguments: &[&str]) -> (Finished, TempDir) {
    let folder = TempDir::with_prefix("wansan-bad-input-").unwrap();
    for (name, bytes) in files {
        fs::write(folder.path().join(name), bytes).unwrap();
    }
    let mut command = Command::new(WANSAN);
    (
        run(command.current_dir(folder.path()).args(arguments), LIMIT).unwrap(),
        folder,
    )
}

/// Fails unless wansan refuses `arguments` with one line that holds every one of `words`, status 2,
/// and no file but those it was given.
#[track_caller]
fn refused_beside(files: &[(&str, &[u8])], arguments: &[&str], words: &[&str]) {
    let (finished, folder) = run_beside(files, arguments);
    let said = finished.stderr.trim_end();
    assert_eq!(
        finished.status.code(),
        Some(2),
        "{arguments:?}: {}",
        finished.output()
    );
    assert_eq!(
        said.lines().count(),
        1,
        "{arguments:?} does not give one line:\n{said}"
    );
    assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    assert_eq!(
        finished.stdout, "",
        "{arguments:?} printed something besides"
    );
    for word in words {
        assert!(said.contains(word), "{arguments:?}: no '{word}' in: {said}");
    }
    let mut left: Vec<OsString> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    left.sort();
    let mut given: Vec<OsString> = files.iter().map(|(name, _)| (*name).into()).collect();
    given.sort();
    assert_eq!(
        left, given,
        "{arguments:?} left something behind or took something away"
    );
}

#[track_caller]
fn refused(arguments: &[&str], words: &[&str]) {
    refused_beside(&[], arguments, words);
}

#[track_caller]
fn bench_refused(url: &str, more: &[&str], words: &[&str]) {
    refused(&[&["bench", url, "--count", "1"], more].concat(), words);
}

#[track_caller]
fn target_refused(files: &[(&str, &[u8])], more: &[&str], words: &[&str]) {
    let name = "iqn.2026-11.net.example:x";
    let whole = ["target", "--listen", "127.0.0.1:0", "--name", name];
    refused_beside(files, &[&whole[..], more].concat(), words);
}

#[test]
fn an_unknown_command_names_the_nearest() {
    refused(&["targt"], &["targt", "target"]);
}

#[test]
fn an_unknown_argument_is_named() {
    bench_refused(URL, &["--blok", "4KiB"], &["--blok", "--block"]);
}

#[test]
fn a_url_that_is_none() {
    bench_refused(
        "http://127.0.0.1/x",
        &[],
        &["http://127.0.0.1/x", "iscsi://"],
    );
}

#[test]
fn a_url_without_a_target() {
    bench_refused("iscsi://127.0.0.1:3260", &[], &["iscsi://127.0.0.1:3260"]);
}

#[test]
fn a_url_with_an_impossible_port() {
    bench_refused("iscsi://127.0.0.1:99999/iqn.x/0", &[], &["port"]);
}

#[test]
fn a_url_with_a_lun_that_is_no_number() {
    bench_refused("iscsi://127.0.0.1/iqn.x/first", &[], &["first", "LUN"]);
}

#[test]
fn an_unknown_operation_names_those_there_are() {
    bench_refused(URL, &["--op", "raed"], &["raed", "read"]);
}

#[test]
fn a_quantity_with_a_wrong_unit_names_the_units() {
    bench_refused(URL, &["--block", "4Kib"], &["4Kib", "KiB"]);
    bench_refused(URL, &["--time", "5 parsecs"], &["5 parsecs"]);
}

#[test]
fn a_number_out_of_its_range_names_the_range() {
    for (option, value, words) in [
        ("--rate", "-5", ["above 0", "500"]),
        ("--rate", "0", ["above 0", "500"]),
        ("--rate", "fast", ["above 0", "500"]),
        ("--parallel", "0", ["1", "65536"]),
        ("--parallel", "-1", ["1", "65536"]),
        ("--block", "0", ["512B", "16MiB"]),
        ("--block", "0B", ["512B", "16MiB"]),
        ("--block", "-4KiB", ["512B", "16MiB"]),
        ("--block", "17MiB", ["512B", "16MiB"]),
        ("--warmup", "-1s", ["time", "ms"]),
        ("--tcp-interval", "0ms", ["above 0", "10ms"]),
        ("--patience", "0s", ["above 0", "5s"]),
        ("--max-burst", "0B", ["512B", "16777215B"]),
        ("--max-outstanding-r2t", "0", ["1", "65535"]),
        ("--seed", "-1", ["0", "18446744073709551615"]),
        (
            "--seed",
            "18446744073709551616",
            ["0", "18446744073709551615"],
        ),
    ] {
        bench_refused(
            URL,
            &[option, value],
            &[&words[..], &[option, value]].concat(),
        );
    }
    for value in ["0s", "0", "-5s"] {
        refused(&["bench", URL, "--time", value], &["--time", value, "s"]);
    }
    refused(&["bench", URL, "--count", "0"], &["--count", "0", "1"]);
}

#[test]
fn control_characters_are_shown_and_not_obeyed() {
    let hostile = "runs\u{1b}[2J\u{7}";
    refused(&["explain", hostile], &["runs\\u{1b}[2J\\u{7}"]);
    let plan = include_str!("../../../plans/limits/nothing-binds.toml");
    let plan = plan.replace(
        "\"Nothing binds\"",
        "\"Nothing \\u001b]0;owned\\u0007 binds\"",
    );
    let (finished, _folder) = run_beside(
        &[("plan.toml", plan.as_bytes())],
        &["lab", "check", "plan.toml"],
    );
    assert!(finished.status.success(), "{}", finished.output());
    assert!(
        finished
            .stdout
            .contains("Nothing \\u{1b}]0;owned\\u{7} binds"),
        "{}",
        finished.stdout
    );
    let wrong = plan.replace("delay = \"5ms\"", "delay = \"5\\u001b[31mms\"");
    refused_beside(
        &[("plan.toml", wrong.as_bytes())],
        &["lab", "check", "plan.toml"],
        &["\\u{1b}[31m"],
    );
}

#[test]
fn a_portal_where_nobody_listens() {
    // Port 1 is tcpmux, which nothing serves.
    bench_refused(
        "iscsi://127.0.0.1:1/iqn.2026-11.net.example:x/0",
        &[],
        &["127.0.0.1:1"],
    );
}

#[test]
fn a_target_of_another_name() {
    let target = Target::start(Path::new(WANSAN), &["--lun", "memory:1MiB"]).unwrap();
    let url = format!(
        "iscsi://{}/iqn.2026-11.net.example:nobody/0",
        target.address()
    );
    bench_refused(&url, &[], &["nobody", TARGET_NAME]);
}

#[test]
fn a_unit_that_the_target_does_not_have() {
    let units = ["--lun", "memory:1MiB", "--lun", "memory:2MiB"];
    let target = Target::start(Path::new(WANSAN), &units).unwrap();
    bench_refused(&target.url(5), &[], &["LUN 5", "the target has 0, 1"]);
}

#[test]
fn blocks_that_are_no_multiple_of_the_units() {
    let target = Target::start(Path::new(WANSAN), &["--lun", "memory:1MiB"]).unwrap();
    bench_refused(&target.url(0), &["--block", "1000B"], &["512"]);
}

#[test]
fn more_in_flight_than_the_machine_has_memory_for() {
    let target = Target::start(Path::new(WANSAN), &["--lun", "memory:16MiB"]).unwrap();
    let tebibyte = ["--block", "16MiB", "--parallel", "65536"];
    bench_refused(&target.url(0), &tebibyte, &["65536", "memory", "fewer"]);
}

#[test]
fn a_unit_of_an_unknown_kind() {
    target_refused(
        &[],
        &["--lun", "floppy:1MiB"],
        &["floppy", "memory", "file"],
    );
}

#[test]
fn a_memory_unit_of_no_size() {
    target_refused(&[], &["--lun", "memory:12Q"], &["12Q", "MiB"]);
    target_refused(&[], &["--lun", "memory:"], &["memory"]);
}

#[test]
fn a_file_that_is_not_there() {
    target_refused(&[], &["--lun", "file:disk.img"], &["disk.img"]);
}

#[test]
fn a_file_that_another_target_serves() {
    let folder = TempDir::with_prefix("wansan-bad-input-").unwrap();
    let disk = folder.path().join("disk.img");
    let unit = format!("file:{},size=1MiB", disk.display());
    let _first = Target::start(Path::new(WANSAN), &["--lun", &unit]).unwrap();
    target_refused(&[], &["--lun", &unit], &["disk.img", "in use", "process"]);
    assert!(disk.exists());
}

#[test]
fn a_later_unit_that_fails_leaves_no_file_of_an_earlier_one() {
    let new = ["--lun", "file:new.img,size=1MiB"];
    target_refused(
        &[],
        &[&new[..], &["--lun", "file:missing.img"]].concat(),
        &["missing.img"],
    );
    // What was there before stays.
    target_refused(
        &[("new.img", &[0; 1 << 20])],
        &[&new[..], &["--lun", "file:missing.img"]].concat(),
        &["missing.img"],
    );
}

#[test]
fn a_file_that_is_a_folder() {
    target_refused(&[], &["--lun", "file:/"], &["/"]);
}

#[test]
fn a_file_that_is_no_whole_number_of_blocks() {
    target_refused(
        &[("disk.img", &[0; 1000])],
        &["--lun", "file:disk.img"],
        &["disk.img", "512"],
    );
}

#[test]
fn a_file_without_a_block() {
    target_refused(
        &[("disk.img", &[])],
        &["--lun", "file:disk.img"],
        &["disk.img"],
    );
}

#[test]
fn an_option_of_a_unit_that_there_is_not() {
    target_refused(
        &[],
        &["--lun", "memory:1MiB,service-tim=2ms"],
        &["service-tim", "service-time"],
    );
}

#[test]
fn an_address_that_is_none() {
    let arguments = [
        "target",
        "--name",
        "iqn.2026-11.net.example:x",
        "--lun",
        "memory:1MiB",
    ];
    refused(
        &[&arguments[..], &["--listen", "nowhere"]].concat(),
        &["nowhere:3260"],
    );
    refused(
        &[&arguments[..], &["--listen", "127.0.0.1"]].concat(),
        &["ADDRESS:PORT", "127.0.0.1:3260"],
    );
}

#[test]
fn an_address_that_is_taken() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let arguments = [
        "target",
        "--name",
        "iqn.2026-11.net.example:x",
        "--lun",
        "memory:1MiB",
    ];
    refused(
        &[&arguments[..], &["--listen", &address]].concat(),
        &[&address],
    );
}

#[test]
fn a_target_name_that_is_none() {
    let arguments = ["target", "--listen", "127.0.0.1:0", "--lun", "memory:1MiB"];
    refused(
        &[&arguments[..], &["--name", "my disk"]].concat(),
        &["my disk", "iqn.2026-01.net.example:my-disk", "RFC 3721"],
    );
}

#[test]
fn a_command_window_that_lets_nothing_in() {
    target_refused(
        &[],
        &["--lun", "memory:1MiB", "--command-window", "0"],
        &["0"],
    );
}

#[test]
fn a_congestion_control_that_the_kernel_does_not_have() {
    let arguments = ["--lun", "memory:1MiB", "--congestion-control", "hasty"];
    target_refused(&[], &arguments, &["hasty"]);
}

/// Set in its table, or by its sweep.
#[test]
fn a_congestion_control_of_a_plan_that_the_kernel_does_not_have() {
    let plan = include_str!("../../../plans/limits/nothing-binds.toml");
    for setting in [
        "\n[tcp]\necn = false\ncongestion_control = \"hasty\"\n",
        "\n[sweep]\ntcp.congestion_control = [\"cubic\", \"hasty\"]\n",
    ] {
        let plan = format!("{plan}{setting}");
        let line = plan.lines().count();
        refused_beside(
            &[("plan.toml", plan.as_bytes())],
            &["lab", "run", "plan.toml", "--json"],
            &[&format!("plan.toml:{line}: "), "hasty"],
        );
    }
}

#[test]
fn a_plan_that_is_not_there() {
    refused(&["lab", "run", "plan.toml"], &["plan.toml"]);
}

#[test]
fn a_plan_without_a_quick_form() {
    let plan = include_bytes!("../../../plans/limits/nothing-binds.toml");
    let arguments = ["lab", "run", "--quick", "plan.toml"];
    refused_beside(
        &[("plan.toml", plan)],
        &arguments,
        &["plan.toml", "[quick]"],
    );
}

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
fn a_plan_that_is_no_toml() {
    let plan: &[u8] = b"title = \"x\"\n[world\n";
    refused_beside(
        &[("plan.toml", plan)],
        &["lab", "run", "plan.toml"],
        &["plan.toml", "2"],
    );
}

#[test]
fn a_plan_with_an_unknown_key_names_the_nearest() {
    let plan: &[u8] = b"titel = \"x\"\n";
    refused_beside(
        &[("plan.toml", plan)],
        &["lab", "run", "plan.toml"],
        &["titel", "title"],
    );
}

#[test]
fn an_expectation_that_no_result_can_meet_names_the_nearest() {
    for (right, wrong, words) in [
        (
            "finding.limit",
            "finding.limt",
            ["plan.toml:33", "`finding.limit`"],
        ),
        ("\"nothing\"", "\"notihng\"", ["plan.toml:34", "`nothing`"]),
    ] {
        let right_plan = include_str!("../../../plans/limits/nothing-binds.toml");
        let plan = right_plan.replace(right, wrong);
        for command in ["check", "run"] {
            refused_beside(
                &[("plan.toml", plan.as_bytes())],
                &["lab", command, "plan.toml"],
                &[&words[..], &[wrong.trim_matches('"')]].concat(),
            );
        }
    }
}

#[test]
fn a_plan_whose_lun_is_none_names_what_would_be_one() {
    let right_plan = include_str!("../../../plans/limits/nothing-binds.toml");
    let plan = right_plan.replace("memory:64MiB", "memory:1YiB");
    for command in ["check", "run"] {
        refused_beside(
            &[("plan.toml", plan.as_bytes())],
            &["lab", command, "plan.toml"],
            &["plan.toml:19", "target.luns", "`YiB`", "GiB"],
        );
    }
}

#[test]
fn a_plan_whose_routes_lead_nowhere_names_what_is_missing() {
    let right_plan = include_str!("../../../plans/topologies/p1-two-routes.toml");
    for (right, wrong, words) in [
        (
            "name = \"lower\"\nvia",
            "name = \"upper\"\nvia",
            &["plan.toml:53", "[[route]] `upper`", "twice"][..],
        ),
        (
            "routes = [\"upper\", \"lower\"]",
            "routes = [\"upper\", \"upper\"]",
            &["plan.toml:65", "`upper`", "twice"],
        ),
        (
            "via = [\"near-2\", \"far\"]",
            "via = [\"near-2\"]",
            &["plan.toml:54", "no [[path]] joins `near-2` and `storage`"],
        ),
        (
            "via = [\"near-2\", \"far\"]",
            "via = [\"near-2\", \"fra\"]",
            &["plan.toml:54", "`fra`", "`far`"],
        ),
    ] {
        let plan = right_plan.replace(right, wrong);
        for command in ["check", "run"] {
            refused_beside(
                &[("plan.toml", plan.as_bytes())],
                &["lab", command, "plan.toml"],
                words,
            );
        }
    }
}

#[test]
fn a_plan_that_is_no_text() {
    let plan: &[u8] = &[0xff, 0xfe, 0, 1];
    refused_beside(
        &[("plan.toml", plan)],
        &["lab", "run", "plan.toml"],
        &["plan.toml"],
    );
}

#[test]
fn a_run_folder_that_is_not_there() {
    refused(&["explain", "runs/none"], &["runs/none"]);
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
fn a_target_file_is_an_ordinary_file_whose_settings_are_in_their_ranges() {
    refused(
        &["target", "--config", "/dev/null"],
        &["/dev/null", "not an ordinary file"],
    );
    let long = "#".repeat((1 << 20) + 1);
    let with = |negotiation: &str| {
        format!(
            "listen = [\"127.0.0.1:0\"]\n[[target]]\nname = \"{TARGET_NAME}\"\n\
             [[target.lun]]\nstore = \"memory:1MiB\"\n[target.negotiation]\n{negotiation}\n"
        )
    };
    for (text, words) in [
        (long, &["longer than 1048576 bytes"][..]),
        (
            with("max_outstanding_r2t = 0"),
            &[
                "target.toml:7: ",
                "`target.negotiation.max_outstanding_r2t`: must be 1 to 65535, not 0",
            ],
        ),
        (
            with("first_burst = \"2MiB\""),
            &[
                "target.toml:6: `target.negotiation`: ",
                TARGET_NAME,
                "FirstBurstLength 2097152 exceeds MaxBurstLength 1048576",
            ],
        ),
    ] {
        let files = [("target.toml", text.as_bytes())];
        let words = [&["target.toml"][..], words].concat();
        refused_beside(&files, &["target", "--config", "target.toml"], &words);
    }
}

#[test]
fn what_a_target_file_cannot_have_served_is_told_with_its_line() {
    let unit =
        |number: u16| format!("[[target.lun]]\nnumber = {number}\nstore = \"memory:1MiB\"\n");
    let target = |name: &str, luns: &str| format!("[[target]]\nname = \"{name}\"\n{luns}");
    let listen = "listen = [\"127.0.0.1:0\"]\n";
    let two = format!("{listen}{}", target(TARGET_NAME, &unit(0)));
    for (text, words) in [
        (
            format!("{two}{}", unit(0)),
            &["target.toml:8: `target.lun.number`: ", "renumber one"][..],
        ),
        (
            format!("{two}{}", target(TARGET_NAME, &unit(0))),
            &["target.toml:8: `target.name`: ", "rename one"],
        ),
        (
            format!("{two}{}", target("disk", &unit(0))),
            &["target.toml:8: `target.name`: ", "iqn.YEAR-MONTH"],
        ),
        (
            format!("{two}[[target.lun]]\nstore = \"file:/nowhere/disk\"\n"),
            &["target.toml:7: `target.lun`: ", "/nowhere/disk"],
        ),
        (
            format!("{two}[target.chap]\nuser = \"me\"\n"),
            &["target.toml:7: `target.chap`: ", "name both"],
        ),
        (
            two.replace(":0\"]", ":x\"]"),
            &["target.toml:1: `listen`: ", "127.0.0.1:3260"],
        ),
        (
            two.replace("[[target]]", "[target]"),
            &["target.toml:2: ", "write [[target]], not [target]"],
        ),
    ] {
        let files = [("target.toml", text.as_bytes())];
        refused_beside(&files, &["target", "--config", "target.toml"], words);
    }
}

#[test]
fn settings_on_standard_input_are_checked_like_a_file() {
    let listener = r#""listener": [{"listen": "127.0.0.1:0", "to": "127.0.0.1:9""#;
    for (command, line, words) in [
        (&["relay"][..], "", &["no JSON object"][..]),
        (&["relay"], "{}", &["lacks `listener`"]),
        (
            &["relay"],
            &format!("{{{listener}, \"bufer\": \"1MiB\"}}]}}"),
            &[
                "unknown key `bufer` in `listener[0]`",
                "did you mean `buffer`?",
            ],
        ),
        (
            &["relay"],
            &format!("{{{listener}}}], \"drain\": \"soon\"}}"),
            &["`drain`", "soon", "ms"],
        ),
        (
            &["bench"],
            r#"{"url": "iscsi://127.0.0.1:3260/iqn.x/0", "parallel": 0}"#,
            &["`parallel`: must be 1 to 65536, not 0"],
        ),
        (
            &["bench"],
            r#"{"url": "iscsi://127.0.0.1:3260/iqn.x/0", "connections": 2, "route": ["0.0.0.0→127.0.0.1:1"]}"#,
            &["`connections` cannot be used with `route`"],
        ),
        (
            &["bench"],
            r#"{"url": "iscsi://127.0.0.1:3260/iqn.x/0", "connections": 1, "route": ["0.0.0.0→127.0.0.1:1"]}"#,
            &["`connections` cannot be used with `route`"],
        ),
        (
            &["bench"],
            r#"{"url": "iscsi://127.0.0.1:3260/iqn.x/0", "op": 5}"#,
            &["`op`: found integer `5`, expected one of read, write"],
        ),
        (
            &["bench"],
            r#"{"url": "iscsi://127.0.0.1:3260/iqn.x/0", "batch": true, "rate": 5}"#,
            &["`batch` cannot be used with `rate`"],
        ),
        (
            &["stream", "send"],
            r#"{"to": "127.0.0.1:1", "time": "1s", "bytes": "1MB"}"#,
            &["`time` cannot be used with `bytes`"],
        ),
        (
            &["target"],
            r#"{"listen": ["127.0.0.1:0"], "target": [{"name": "iqn.x", "lun": ["memory:1MiB", "memory:1"]}]}"#,
            &["`target[0].lun[1]`: ", "KiB"],
        ),
        // What shows only once they are put to use.
        (
            &["target"],
            r#"{"listen": ["127.0.0.1:0"], "target": [{"name": "iqn.2026-01.net.example:x", "lun": ["memory:1MiB"]}, {"name": "iqn.2026-01.net.example:x", "lun": ["memory:1MiB"]}]}"#,
            &["`target[1].name`: "],
        ),
        (
            &["target"],
            r#"{"listen": ["127.0.0.1:0"], "target": [{"name": "iqn.x", "lun": ["memory:1MiB", {"number": 0, "store": "memory:1MiB"}]}]}"#,
            &["`target[0].lun[1].number`: ", "two LUNs"],
        ),
        (
            &["relay"],
            &format!("{{{listener}}}, {{\"listen\": \"127.0.0.1:0\", \"to\": \"nobody\"}}]}}"),
            &["`listener[1].to`: ", "nobody"],
        ),
        (&["stream", "send"], "{}", &["lacks `to`"]),
    ] {
        let mut child = Command::new(WANSAN)
            .args(command)
            .args(["--settings", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // In one write: the program ends at the mistake, and leaves unread what follows.
        let mut settings = child.stdin.take().unwrap();
        settings.write_all(format!("{line}\n").as_bytes()).unwrap();
        drop(settings);
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(2), "{line}: {said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        for word in [&["standard input"][..], words].concat() {
            assert!(said.contains(word), "{line}: no '{word}' in: {said}");
        }
    }
    let beside = ["relay", "--settings", "-", "--flows", "2"];
    refused(&beside, &["--settings", "cannot be used with"]);
}

#[test]
fn an_io_rate_has_a_unit_or_none() {
    // What is wrong is the portal, where nobody listens.
    let url = "iscsi://127.0.0.1:1/iqn.2026-11.net.example:x/0";
    for rate in ["500", "500IOPS", "0.5"] {
        bench_refused(url, &["--rate", rate], &["cannot connect to 127.0.0.1:1"]);
    }
}

#[test]
fn a_chap_algorithm_is_named_once() {
    let folder = TempDir::new().unwrap();
    let secret = folder.path().join("secret");
    fs::write(&secret, "a-secret-of-24-characters").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let secret = secret.to_str().unwrap();
    let chap = ["--chap-user", "me", "--chap-secret-file", secret];
    let twice = ["--chap-algorithms", "md5,sha-1,md5"];
    let target = ["target", "--name", TARGET_NAME, "--lun", "memory:1MiB"];
    for command in [&["bench", URL][..], &target] {
        let arguments = [command, &chap, &twice].concat();
        refused(&arguments, &["duplicate CHAP algorithm MD5"]);
    }
}

#[test]
fn a_watch_of_nothing_that_there_is() {
    for (arguments, words) in [
        (&["dst", "10.0.0.0/33"][..], &["character 5", "0 to 32"][..]),
        (&["dport", "=", "http"], &["character 9", "port"]),
        (&["sport", "=", "1", "and"], &["character 14"]),
        (&["dprt = 1"], &["character 1 ", "did you mean `dport`?"]),
        (&["--port", "65536"], &["--port", "65536"]),
        (&["--pid", "4194305"], &["no process 4194305"]),
        (
            &["--netns", "no-such"],
            &["/run/netns/no-such", "ip netns list"],
        ),
        (&["--netns", "/dev/null"], &["/dev/null"]),
        (&["--interval", "999us"], &["at least 1ms"]),
        (&["--web", "nowhere:80"], &["give a port"]),
        (&["--web", "192.0.2.1:80"], &["192.0.2.1:80"]),
        (&["--prometheus", "nowhere:80"], &["give a port"]),
        (&["--web", "0", "--json"], &["--web", "--json"]),
    ] {
        let json = arguments
            .iter()
            .all(|a| !["--web", "--prometheus"].contains(a));
        let more: &[&str] = if json { &["--json"] } else { &[] };
        refused(&[&["watch"], arguments, more].concat(), words);
    }
    // Nothing to show it on.
    refused(&["watch"], &["no terminal", "--json"]);
}
