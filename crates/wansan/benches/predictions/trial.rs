//! One world: recorded, predicted with its change, and run with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};
use serde::Serialize;
use serde_json::Value;
use wansan_peers::machine::Machine;

use crate::world::World;

/// How often a world is run that the machine disturbs.
const TRIES: usize = 3;
/// Runs of a changed world, and of one that loses packets at random: a few of these may be alike by chance.
const FEWEST_RUNS: u64 = 2;
const FEWEST_LOSSY_RUNS: u64 = 5;
/// As many where these differ by more than this, as a share of the least.
const MOST_RUNS: u64 = 15;
const APART: f64 = 0.05;

/// What came of a world.
#[derive(Debug, Serialize)]
pub(crate) struct Trial {
    pub(crate) seed: u64,
    pub(crate) world: String,
    pub(crate) change: String,
    /// Throughput as recorded, B/s.
    pub(crate) recorded: f64,
    /// With the change, in the real world: of each run, the least first.
    pub(crate) changed: Vec<f64>,
    /// The throughput that was predicted, or why none was.
    pub(crate) predicted: Result<f64, String>,
    /// The machine did other things in each of the runs.
    pub(crate) disturbance: Option<String>,
}

impl Trial {
    /// Records, predicts and tries the change.
    pub(crate) fn run(world: &World) -> Result<Trial> {
        let scratch = tempfile::tempdir()?;
        let mut tries = 0;
        loop {
            tries += 1;
            let folder = scratch.path().join(tries.to_string());
            fs::create_dir(&folder)?;
            let machine = Machine::watch();
            let recorded = run(&folder, "recorded", &world.plan())?;
            let changed = changed(&folder, world)?;
            let disturbance = machine.disturbance();
            if disturbance.is_some() && tries < TRIES {
                continue;
            }
            return Ok(Trial {
                seed: world.seed,
                world: world.in_words(),
                change: world.change(),
                recorded: throughput(&recorded)?,
                changed,
                predicted: predict(&recorded, &world.change())?,
                disturbance,
            });
        }
    }

    /// The middle of the runs with the change.
    pub(crate) fn measured(&self) -> f64 {
        self.changed[self.changed.len() / 2]
    }

    /// By how much the prediction is off, as a share of what was measured.
    pub(crate) fn off(&self) -> Option<f64> {
        let predicted = self.predicted.as_ref().ok()?;
        Some(predicted / self.measured().max(1.0) - 1.0)
    }
}

/// The throughputs of a world with its change, the least first: of a few runs, and of more where these differ, as in so
/// short a time chance may decide.
fn changed(folder: &Path, world: &World) -> Result<Vec<f64>> {
    let fewest = match world.changed_loses() {
        true => FEWEST_LOSSY_RUNS,
        false => FEWEST_RUNS,
    };
    let mut rates: Vec<f64> = Vec::new();
    for number in 1..=MOST_RUNS {
        let plan = world.changed_plan(number);
        rates.push(throughput(&run(
            folder,
            &format!("changed-{number}"),
            &plan,
        )?)?);
        rates.sort_by(f64::total_cmp);
        let differ = rates[rates.len() - 1] > rates[0] * (1.0 + APART);
        if number >= fewest && !differ {
            break;
        }
    }
    Ok(rates)
}

/// Runs a plan; its run folder.
fn run(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let plan = folder.join(name).with_extension("toml");
    fs::write(&plan, text)?;
    let out = folder.join("runs");
    let output = wansan(&[
        "lab",
        "run",
        &plan.display().to_string(),
        "--out",
        &out.display().to_string(),
    ])?;
    if !output.status.success() {
        bail!("{text}\n{}", String::from_utf8_lossy(&output.stderr));
    }
    let mut runs = fs::read_dir(out.join(name))?;
    Ok(runs.next().context("the plan left no run")??.path())
}

fn throughput(run: &Path) -> Result<f64> {
    let results: Value = serde_json::from_slice(&fs::read(run.join("results.json"))?)?;
    results["cells"][0]["bytes_per_s"]
        .as_f64()
        .context("results.json has no throughput")
}

/// The throughput that the twin of a run has with a change, or why there is none.
fn predict(run: &Path, change: &str) -> Result<Result<f64, String>> {
    let output = wansan(&[
        "explain",
        "--what-if",
        "--json",
        "--set",
        change,
        &run.display().to_string(),
    ])?;
    let line = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let Ok(told) = serde_json::from_slice::<Value>(&output.stdout) else {
        return Ok(Err(line(&output.stderr)));
    };
    if let Some(predicted) = told["predictions"][0]["bytes_per_s"]["median"].as_f64() {
        return Ok(Ok(predicted));
    }
    let compared = told["compared"].as_array().context("no comparison")?;
    let is_off =
        |number: &&Value| number["off"].as_f64().map(f64::abs) > number["most_off"].as_f64();
    let off = compared.iter().filter(is_off);
    let off = off.map(|number| {
        format!(
            "{} {:+.2}",
            number["name"],
            number["off"].as_f64().unwrap_or_default()
        )
    });
    Ok(Err(format!(
        "the twin does not fit: {}",
        off.collect::<Vec<_>>().join(", ")
    )))
}

fn wansan(arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wansan"));
    command
        .args(arguments)
        .output()
        .context("wansan does not start")
}
