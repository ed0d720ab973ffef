//! `wansan initiator-check` against the real target: what it says is what was negotiated.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wansan_peers::wansan::Target;

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");

fn check(target: &Target, arguments: &[&str]) -> Value {
    let output = Command::new(WANSAN)
        .args(["initiator-check", &target.url(0), "--json"])
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn in_force<'v>(checked: &'v Value, key: &str) -> &'v Value {
    let keys = checked["keys"].as_array().unwrap();
    let found = keys.iter().find(|row| row["key"] == key);
    &found.unwrap_or_else(|| panic!("no {key} in {checked}"))["in_force"]
}

fn costly(checked: &Value) -> Vec<&str> {
    let costs = checked["costs"].as_array().unwrap();
    costs
        .iter()
        .map(|cost| cost["parameter"].as_str().unwrap())
        .collect()
}

#[test]
fn what_was_negotiated_is_told_with_what_hurts() {
    let settings = [
        "--lun",
        "memory:16MiB",
        "--command-window",
        "64",
        "--initial-r2t",
        "yes",
        "--immediate-data",
        "no",
        "--max-burst",
        "256KiB",
        "--max-outstanding-r2t",
        "1",
    ];
    let target = Target::start(Path::new(WANSAN), &settings).unwrap();
    let checked = check(&target, &["--connections", "2"]);
    assert_eq!(checked["capacity_bytes"], 16 << 20);
    assert_eq!(checked["command_window"], 64);
    assert_eq!(in_force(&checked, "InitialR2T"), "Yes");
    assert_eq!(in_force(&checked, "ImmediateData"), "No");
    assert_eq!(in_force(&checked, "MaxBurstLength"), "262144");
    let costs = costly(&checked);
    for parameter in [
        "command window",
        "ImmediateData",
        "MaxOutstandingR2T × MaxBurstLength",
        "digests",
    ] {
        assert!(
            costs.contains(&parameter),
            "{parameter} is not in {costs:?}"
        );
    }
}

#[test]
fn what_does_not_hurt_is_not_told() {
    let settings = ["--lun", "memory:16MiB", "--command-window", "4096"];
    let target = Target::start(Path::new(WANSAN), &settings).unwrap();
    let digests = ["--header-digest", "always", "--data-digest", "always"];
    let checked = check(&target, &[&digests[..], &["--rtt", "20ms"]].concat());
    assert_eq!(checked["judged_rtt_ns"], 20_000_000);
    assert_eq!(in_force(&checked, "DataDigest"), "CRC32C");
    for parameter in ["command window", "digests", "FirstBurstLength"] {
        let costs = costly(&checked);
        assert!(!costs.contains(&parameter), "{parameter} is in {costs:?}");
    }
}
