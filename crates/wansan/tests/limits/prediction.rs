//! What `wansan explain --what-if` predicts of a run in network namespaces, beside the run of the changed plan, and
//! what `wansan tune` finds and confirms there.

use std::fs;
use std::path::{Path, PathBuf};

use libtest_mimic::Failed;
use serde_json::Value;
use wansan_arms::{Arm, open_to_all};
use wansan_schema::Results;

use super::{told, wansan};

/// Why a trial has not measured anything, if it has not.
pub(super) type Unless = Result<Option<String>, Failed>;

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

/// A run in which the emulator delivered one packet in a hundred later than this, in ms, is of a machine that was busy.
const MOST_LATE_MS: f64 = 1.0;

/// A small command window over a long path.
const LONG_PLAN: &str = r#"
title = "A small window over a long path"

[[host]]
name = "storage"

[[host]]
name = "client"

[[path]]
name = "wan"
between = ["client", "storage"]
delay = "50ms"
rate = "300Mbit/s"
queue = "1MiB"
capture = true

[target]
host = "storage"
luns = ["memory:64MiB"]
command_window = 16

[[initiator]]
host = "client"

[workload]
op = "read"
block = "16KiB"
parallel = 64
warmup = "1s"
time = "3s"
"#;

/// Predicts another window from a recording, and then tries it; that the emulator was late, if that kept
/// the twin from fitting or the prediction from being right.
pub(super) fn a_window_before_a_store(arm: Arm) -> Unless {
    let change = ["target.command_window=96"];
    let changed = PLAN.replace("command_window = 24", "command_window = 96");
    holds(arm, PLAN, Path::to_owned, &change, &changed, |_| None)
}

/// The same from a capture, which does not show that the load has more I/Os than the window admits.
pub(super) fn a_captured_window(arm: Arm) -> Unless {
    let change = ["target.command_window=64", "workload.parallel=64"];
    let changed = LONG_PLAN.replace("command_window = 16", "command_window = 64");
    let capture = |run: &Path| run.join("cell-000/wan.pcapng");
    holds(arm, LONG_PLAN, capture, &change, &changed, only_the_slowest)
}

/// Runs a plan, predicts a change from what `recording` finds in its run folder, and runs the changed plan. What
/// `explain` prints of a twin that does not fit may have an excuse.
fn holds(
    arm: Arm,
    plan: &str,
    recording: fn(&Path) -> PathBuf,
    change: &[&str],
    changed: &str,
    excuse: fn(&[u8]) -> Option<String>,
) -> Unless {
    let scratch = tempfile::tempdir()?;
    open_to_all(scratch.path())?;
    let recorded = run(arm, scratch.path(), "recorded", plan)?;
    let output = wansan(arm)
        .args(["explain", "--what-if", "--json"])
        .args(change.iter().flat_map(|setting| ["--set", setting]))
        .arg(recording(&recorded))
        .output()?;
    if !output.status.success() {
        let why = late([&recorded])?.or_else(|| excuse(&output.stdout));
        return why.map_or_else(|| told(&output, false).map(|()| None), |why| Ok(Some(why)));
    }
    let predicted: Value = serde_json::from_slice(&output.stdout)?;
    let predicted = predicted["predictions"][0]["bytes_per_s"]["median"].as_f64();
    let predicted = predicted.ok_or("nothing is predicted")?;
    let changed = run(arm, scratch.path(), "changed", changed)?;
    let measured = results(&changed)?["cells"][0]["bytes_per_s"].as_f64();
    let measured = measured.ok_or("nothing was measured")?;
    if (predicted / measured - 1.0).abs() <= MOST_OFF {
        return Ok(None);
    }
    let wrong = format!("{predicted:.0} B/s were predicted and {measured:.0} measured");
    late([&recorded, &changed])?.map_or(Err(wrong.into()), |why| Ok(Some(why)))
}

/// That the emulator was late in a cell of one of these runs with one packet in a hundred, if it was too late.
pub(super) fn late<'a>(runs: impl IntoIterator<Item = &'a PathBuf>) -> Unless {
    let mut most_ms = 0.0_f64;
    for folder in runs {
        let results: Results = serde_json::from_value(results(folder)?)?;
        for cell in &results.cells {
            most_ms = most_ms.max(cell.late_p99_ns().unwrap_or(0) as f64 / 1e6);
        }
    }
    let why = format!("the emulator was {most_ms:.1} ms late at p99");
    Ok((most_ms > MOST_LATE_MS).then_some(why))
}

/// That a twin differs in nothing but the slowest I/Os of its recording, which a pause of the machine makes: throughput,
/// the median and what I/Os waited for are as recorded.
fn only_the_slowest(explained: &[u8]) -> Option<String> {
    let explained: Value = serde_json::from_slice(explained).ok()?;
    let compared = explained["compared"].as_array()?;
    let off = |it: &Value| it["off"].as_f64().unwrap_or(0.0).abs();
    let is_off = |it: &&Value| off(it) > it["most_off"].as_f64().unwrap_or(0.0);
    let wrong: Vec<&Value> = compared.iter().filter(is_off).collect();
    match wrong[..] {
        [only] if only["name"] == "latency_p99_ns" => Some(format!(
            "the slowest I/Os of the recording differ from the twin's by {:.0} %",
            off(only) * 100.0
        )),
        _ => None,
    }
}

fn results(folder: &Path) -> Result<Value, Failed> {
    Ok(serde_json::from_slice(&fs::read(
        folder.join("results.json"),
    )?)?)
}

/// Has the window found by simulation, and confirmed; that the emulator was late, if that kept what was
/// measured from what was simulated.
pub(super) fn tuning(arm: Arm) -> Unless {
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
    if (simulated / measured - 1.0).abs() <= MOST_OFF {
        return Ok(None);
    }
    let runs = fs::read_dir(scratch.path().join("runs/plan"))?;
    let runs: Vec<PathBuf> = runs
        .map(|run| Ok(run?.path()))
        .collect::<Result<_, Failed>>()?;
    let wrong = format!("{simulated} times as much simulated, {measured} measured");
    late(&runs)?.map_or(Err(wrong.into()), |ms| Ok(Some(ms)))
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
