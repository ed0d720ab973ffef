//! The unit of systemd: what it grants is what the relay needs.

use std::path::Path;
use std::process::Command;

use libtest_mimic::Failed;

use crate::program::{Relay, WANSAN, check};

/// The words of a setting of the unit.
fn setting(unit: &str, name: &str) -> Vec<String> {
    let lines = unit.lines().filter_map(|line| line.strip_prefix(name));
    let values = lines.filter_map(|line| line.strip_prefix('='));
    let words = values.flat_map(str::split_whitespace);
    words.map(str::to_lowercase).collect()
}

/// An ordinary user with the capabilities of the unit and no way to others can signal by ECE.
pub(crate) fn rights() -> Result<(), Failed> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = folder.join("../../setup/systemd/wansan-relay.service");
    let unit = std::fs::read_to_string(path)?;
    let granted = setting(&unit, "AmbientCapabilities");
    check(granted == setting(&unit, "CapabilityBoundingSet"), || {
        format!("{granted:?} are not what may be had")
    })?;
    let names = granted.iter().filter_map(|name| name.strip_prefix("cap_"));
    let list = names.fold("-all".to_owned(), |list, name| list + ",+" + name);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args(["--no-new-privs"]);
    for sets in ["--inh-caps", "--ambient-caps", "--bounding-set"] {
        command.arg(format!("{sets}={list}"));
    }
    command.args([WANSAN, "relay", "--listen", "127.0.0.1:0"]);
    command.args(["--to", "127.0.0.1:9", "--latency", "20ms"]);
    // Chosen, so that it is refused where it cannot be had.
    command.args(["--law", "arrival"]);
    Relay::of(command)?;
    // @system-service of systemd has no bpf(2), and a call that is not let through kills.
    let calls = setting(&unit, "SystemCallFilter");
    check(calls.iter().any(|call| call == "bpf"), || {
        format!("bpf(2) is not among {calls:?}")
    })
}
