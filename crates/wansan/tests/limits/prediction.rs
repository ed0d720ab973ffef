//! What `wansan explain --what-if` predicts of a run in network namespaces, beside the run of the changed plan, and
//! what `wansan tune` finds and confirms there.

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;
use serde_json::Value;
use wansan_arms::{Arm, open_to_all};

use super::{told, wansan};

/// How far a prediction may be from what the changed plan then did.
const MOST_OFF: f64 = 0.1;

/// A store of four servers behind 30 ms of round trip, to which a small command window lets too little.
const PLAN: &str = r#"
title = "A small window before a slow store"

[[host]]
name = "storage"

[[host]]
name = "client"

[[path]]
name = "wan"
between = ["client", "storage"]
delay = "15ms"
rate = "1Gbit/s"
queue = "1MiB"

[target]
host = "storage"
luns = ["memory:64MiB,service-time=4ms,servers=4"]
command_window = 24

[[initiator]]
host = "client"

[workload]
op = "read"
block = "4KiB"
parallel = 96
warmup = "1s"
time = "3s"
"#;

/// Predicts another window from a recording, and then tries it.
pub(super) fn a_window_before_a_store(arm: Arm) -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    open_to_all(scratch.path())?;
    let recorded = run(arm, scratch.path(), "recorded", PLAN)?;
    let output = wansan(arm)
        .args([
            "explain",
            "--what-if",
            "--json",
            "--set",
            "target.command_window=96",
        ])
        .arg(&recorded)
        .output()?;
    told(&output, output.status.success())?;
    let predicted: Value = serde_json::from_slice(&output.stdout)?;
    let predicted = predicted["predictions"][0]["bytes_per_s"].as_f64();
    let predicted = predicted.ok_or("nothing is predicted")?;
    let changed = PLAN.replace("command_window = 24", "command_window = 96");
    let changed = run(arm, scratch.path(), "changed", &changed)?;
    let results: Value = serde_json::from_slice(&fs::read(changed.join("results.json"))?)?;
    let measured = results["cells"][0]["bytes_per_s"].as_f64();
    let measured = measured.ok_or("nothing was measured")?;
    match (predicted / measured - 1.0).abs() <= MOST_OFF {
        true => Ok(()),
        false => {
            Err(format!("{predicted:.0} B/s were predicted and {measured:.0} measured").into())
        }
    }
}

/// Has the window found by simulation, and confirmed.
pub(super) fn tuning(arm: Arm) -> Result<(), Failed> {
    let scratch = tempfile::tempdir()?;
    open_to_all(scratch.path())?;
    let plan = scratch.path().join("plan.toml");
    fs::write(&plan, PLAN)?;
    let output = wansan(arm)
        .args(["tune", "--json", "--confirm", "1", "--out"])
        .arg(scratch.path().join("runs"))
        .arg(&plan)
        .output()?;
    told(&output, output.status.success())?;
    let found: Value = serde_json::from_slice(&output.stdout)?;
    let (planned, best) = (&found["planned"], &found["best"]);
    let parameter = &best["settings"][0]["parameter"];
    if parameter != "target.command_window" {
        return Err(format!("{parameter} is said to be best").into());
    }
    let rate = |of: &Value| of["bytes_per_s"].as_f64().ok_or("no rate");
    let mut gains = Vec::new();
    for kind in ["simulated", "measured"] {
        gains.push(rate(&best[kind])? / rate(&planned[kind])?);
    }
    match (gains[0] / gains[1] - 1.0).abs() <= MOST_OFF {
        true => Ok(()),
        false => Err(format!("simulated and measured: {gains:?} times as much").into()),
    }
}

/// Runs a plan; its run folder.
fn run(arm: Arm, scratch: &Path, name: &str, text: &str) -> Result<PathBuf, Failed> {
    let plan = scratch.join(name).with_extension("toml");
    fs::write(&plan, text)?;
    let out = scratch.join("runs");
    let output = wansan(arm)
        .args(["lab", "run"])
        .arg(&plan)
        .arg("--out")
        .arg(&out)
        .output()?;
    told(&output, output.status.success())?;
    let mut runs = fs::read_dir(out.join(name))?;
    Ok(runs.next().ok_or("it left no run")??.path())
}
