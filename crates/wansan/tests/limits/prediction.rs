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

/// How often a recording is made until its twin fits: of a busy machine, which delays packets and programs, it does not.
const RECORDINGS: u32 = 3;

/// Predicts another window from a recording, and then tries it; whether anything was predicted.
pub(super) fn a_window_before_a_store(arm: Arm) -> Result<bool, Failed> {
    let scratch = tempfile::tempdir()?;
    open_to_all(scratch.path())?;
    let mut predicted = None;
    for number in 0..RECORDINGS {
        predicted = predict(arm, scratch.path(), &format!("recorded-{number}"))?;
        if predicted.is_some() {
            break;
        }
    }
    let Some(predicted) = predicted else {
        return Ok(false);
    };
    let changed = PLAN.replace("command_window = 24", "command_window = 96");
    let changed = run(arm, scratch.path(), "changed", &changed)?;
    let results: Value = serde_json::from_slice(&fs::read(changed.join("results.json"))?)?;
    let measured = results["cells"][0]["bytes_per_s"].as_f64();
    let measured = measured.ok_or("nothing was measured")?;
    match (predicted / measured - 1.0).abs() <= MOST_OFF {
        true => Ok(true),
        false => {
            Err(format!("{predicted:.0} B/s were predicted and {measured:.0} measured").into())
        }
    }
}

/// Records the plan, and predicts what a window of 96 brings, in bytes per second; `None` where the twin does not fit.
fn predict(arm: Arm, scratch: &Path, name: &str) -> Result<Option<f64>, Failed> {
    let recorded = run(arm, scratch, name, PLAN)?;
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
    let answer: Value = serde_json::from_slice(&output.stdout)?;
    let fits = answer["fits"] == true;
    let is_as_said = output.status.code() == Some(i32::from(!fits));
    told(&output, is_as_said && answer["fits"].is_boolean())?;
    let predicted = answer["predictions"][0]["bytes_per_s"].as_f64();
    match predicted.is_some() == fits {
        true => Ok(predicted),
        false => {
            Err(format!("{predicted:?} is predicted by a twin of which fits is {fits}").into())
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
    let simulated = rate(&best["simulated"])? / rate(&planned["simulated"])?;
    let measured = rate(&best["measured"])? / rate(&planned["measured"])?;
    // Four servers do 1.42 times what a window of 24 asks of them; how slow a busy machine makes the latter is its own.
    match (1.4..1.45).contains(&simulated) && measured > 1.2 {
        true => Ok(()),
        false => Err(format!("{simulated} times as much simulated, {measured} measured").into()),
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
