//! Load generator: its URL, its numbers, and what answers.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;
use wansan_peers::wansan::{TARGET_NAME, Target};

use super::{URL, WANSAN, bench_refused, refused};

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
