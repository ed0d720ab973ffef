//! `wansan tune` without rights: what it finds by simulation, and what it refuses.

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");

/// Reads of which a window of 4 lets too few go.
const PLAN: &str = r#"
title = "A small window"
[[host]]
name = "storage"
[[host]]
name = "client"
[[path]]
between = ["client", "storage"]
delay = "5ms"
rate = "100Mbit/s"
queue = "256KiB"
[target]
host = "storage"
luns = ["memory:16MiB"]
command_window = 4
[[initiator]]
host = "client"
[workload]
op = "read"
block = "4KiB"
parallel = 16
warmup = "200ms"
time = "500ms"
"#;

fn tune(plan: &str, arguments: &[&str]) -> (Output, TempDir) {
    let folder = TempDir::with_prefix("wansan-tune-").unwrap();
    fs::write(folder.path().join("plan.toml"), plan).unwrap();
    let mut command = Command::new(WANSAN);
    command.current_dir(folder.path());
    command.args(["tune", "plan.toml", "--confirm", "0"]);
    (command.args(arguments).output().unwrap(), folder)
}

#[test]
fn the_setting_that_limits_is_found() {
    let (output, _) = tune(PLAN, &["--json"]);
    assert!(output.status.success(), "{output:?}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let best = &found["best"];
    let change = &best["settings"];
    assert_eq!(change[0]["parameter"], "target.command_window", "{found:#}");
    assert_eq!(
        (change.as_array().unwrap().len(), &best["measured"]),
        (1, &Value::Null)
    );
    // Four times as many in flight bring four times as much.
    let rate = |of: &Value| of["simulated"]["bytes_per_s"].as_f64().unwrap();
    let times = rate(best) / rate(&found["planned"]);
    assert!((3.5..=4.2).contains(&times), "{times}");
    assert_eq!(found["planned"]["binds_next"], "command_window");
}

#[test]
fn bounds_that_nothing_keeps_leave_the_plan_as_it_is() {
    let (output, _) = tune(PLAN, &["--max-p99", "1ms"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("as planned"), "{said}");
    assert!(
        said.contains("No other settings within the bounds bring more."),
        "{said}"
    );
}

#[test]
fn what_cannot_be_tuned_is_refused_in_one_line() {
    let sweep = format!("{PLAN}[sweep]\nworkload.parallel = [1, 2]\n");
    let timeline = format!("timeline = [\"at 100ms wan.delay = 9ms\"]\n{PLAN}");
    let netem = PLAN.replace("[[path]]", "[world]\nemulator = \"netem\"\n[[path]]");
    for (plan, words) in [
        (sweep, &["plan.toml", "one cell", "[sweep]"][..]),
        (timeline, &["plan.toml", "`timeline`"]),
        (netem, &["plan.toml", "world.emulator"]),
    ] {
        let (output, folder) = tune(&plan, &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        for word in words {
            assert!(said.contains(word), "no '{word}' in: {said}");
        }
        drop(folder);
    }
}
