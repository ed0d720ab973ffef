//! `wansan tune`: finds the best settings of a plan's target, session and TCP in its simulated world, and confirms them
//! in a real one.

use std::io::{self, Write};
use std::iter;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use serde::Serialize;
use serde_json::json;
use wansan_insight::{Cell, Run};
use wansan_lab::hosts::Reach;
use wansan_lab::plan::{Parameter, Phase, Plan, WorldKind};
use wansan_lab::run::{self, Observer, Options};
use wansan_lab::world::{self, Rights};
use wansan_schema::{CellResult, Results};
use wansan_settings::quantity::{Size, SomeTime};
use wansan_twin::knob::{Setting, is_of_hosts, tries};
use wansan_twin::{Bounds, Prediction, Reading, Twin};

use super::explain::what_if::{change, in_words, limit, percent};
use super::grid::{grid, right};
use super::lab::stop_on_signals;
use super::measuring::bar;
use super::{INTERRUPTED, one_line, print_json, print_text, remark};

/// The record kinds that a twin needs.
const KINDS: [&str; 5] = ["io", "pdu", "tcp", "packet", "path"];

/// Arguments of `wansan tune`.
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// The plan, a TOML file, of a single cell
    plan: PathBuf,
    /// Maximum 99th percentile of the latency [default: unbounded]
    #[arg(long, value_name = "TIME")]
    max_p99: Option<SomeTime>,
    /// Maximum additional memory of the settings, at both ends together [default: unbounded]
    #[arg(long, value_name = "SIZE")]
    max_memory: Option<Size>,
    /// How many of the best settings to confirm in network namespaces, beside the original plan; 0 for none
    #[arg(long, value_name = "N", default_value_t = 2)]
    confirm: usize,
    /// Directory for run folders, of the simulated plan and of the confirmed settings
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// A cell's throughput and latency.
#[derive(Debug, Clone, Copy, Serialize)]
struct Measured {
    bytes_per_s: f64,
    latency_p99_ns: f64,
}

impl Measured {
    fn of(cell: &CellResult) -> Result<Measured> {
        let latency_p99_ns = cell.latency_p99_ns.map(|ns| ns as f64);
        let both = cell.bytes_per_s.zip(latency_p99_ns);
        let (bytes_per_s, latency_p99_ns) = both.context("no I/O was done in the time measured")?;
        Ok(Measured {
            bytes_per_s,
            latency_p99_ns,
        })
    }
}

/// The effect of some settings.
#[derive(Debug, Serialize)]
struct Row {
    /// Empty for the plan unchanged.
    settings: Vec<Setting>,
    simulated: Measured,
    /// The limit that binds with them.
    binds_next: String,
    /// In network namespaces, if confirmed.
    measured: Option<Measured>,
}

impl Row {
    /// The decisive result: measured if available.
    fn counts(&self) -> Measured {
        self.measured.unwrap_or(self.simulated)
    }

    fn keeps(&self, bounds: &Bounds) -> bool {
        let latency_ns = self.counts().latency_p99_ns;
        bounds.latency_p99_ns.is_none_or(|most| latency_ns <= most)
    }
}

/// Runs `wansan tune`. The process must be single-threaded: see [`wansan_lab::world::isolate`].
///
/// # Errors
/// Any error that prevents reading, simulating or confirming the plan; the exit status is then 2.
pub(crate) fn run(args: &TuneArgs) -> Result<ExitCode> {
    let plan = Plan::read(&args.plan)?;
    let cells = plan.cells(Phase::Planned, &[])?;
    let takes_out = |what: &str| -> Result<ExitCode> {
        bail!(
            "{}: one cell can be tuned, over paths that stay as they are: take out {what}",
            args.plan.display()
        )
    };
    if !plan.sweep().is_empty() {
        return takes_out("[sweep]");
    } else if cells.len() > 1 {
        return takes_out("`repeat`");
    } else if !cells[0].timeline.is_empty() {
        return takes_out("`timeline`");
    }
    let rights = match args.confirm {
        0 => Rights::Unneeded,
        // Before any thread is started.
        _ => world::isolate()?,
    };
    let stop = stop_on_signals()?;
    let lab = Lab {
        args,
        rights,
        stop: &stop,
        bar: bar(args.json),
    };
    let plan = plan.with(&[(Parameter::new("apply_advice"), false.into())])?;
    let done = lab.tune(&plan);
    lab.bar.finish_and_clear();
    match done {
        Err(error) if !lab.goes_on() => {
            remark(&format!("wansan: {error}"));
            Ok(ExitCode::from(INTERRUPTED))
        }
        done => done,
    }
}

/// Removes predictions of equal throughput and latency: a setting without effect beside another is no alternative.
fn distinct(predictions: Vec<Prediction>) -> Vec<Prediction> {
    let mut kept: Vec<Prediction> = Vec::new();
    for prediction in predictions {
        let is_new = |other: &Prediction| {
            prediction.gain != other.gain || prediction.latency_p99_ns != other.latency_p99_ns
        };
        if kept.iter().all(is_new) {
            kept.push(prediction);
        }
    }
    kept
}

/// The plan with these settings.
fn changed(plan: &Plan, change: &[Setting]) -> Result<Plan> {
    let changes: Vec<_> = change
        .iter()
        .flat_map(|it| plan.changes_for(&Parameter::new(&it.parameter), &it.value))
        .collect();
    Ok(plan.with(&changes)?)
}

/// Runs plans in worlds.
struct Lab<'a> {
    args: &'a TuneArgs,
    rights: Rights,
    stop: &'a AtomicBool,
    bar: ProgressBar,
}

impl Lab<'_> {
    fn tune(&self, plan: &Plan) -> Result<ExitCode> {
        let args = self.args;
        // Report what cannot be confirmed before the slow part.
        let real = match args.confirm {
            0 => None,
            _ => Some(plan.in_world(WorldKind::Netns)?),
        };
        let (planned, twin) = self.simulate(plan)?;
        let bounds = Bounds {
            latency_p99_ns: args.max_p99.map(|most| most.0.as_nanos() as f64),
            memory_bytes: args
                .max_memory
                .map(|most| i64::try_from(most.0).unwrap_or(i64::MAX)),
        };
        let planned = Row {
            settings: Vec::new(),
            simulated: planned,
            binds_next: twin.binds(),
            measured: real.as_ref().map(|real| self.measure(real)).transpose()?,
        };
        let mut tuned: Vec<Row> = Vec::new();
        for prediction in distinct(self.search(&twin, &bounds)?) {
            if tuned.len() == args.confirm.max(1) {
                break;
            }
            let measured = match &real {
                None => None,
                Some(real) => {
                    match changed(real, &prediction.change).and_then(|it| self.measure(&it)) {
                        Ok(measured) => Some(measured),
                        Err(error) if self.goes_on() => {
                            let settings = change(&prediction.change);
                            let why = one_line(&error);
                            self.bar
                                .suspend(|| remark(&format!("{settings} is passed over: {why}")));
                            continue;
                        }
                        Err(error) => return Err(error),
                    }
                }
            };
            tuned.push(Row {
                simulated: Measured {
                    bytes_per_s: planned.simulated.bytes_per_s * (1.0 + prediction.gain.median),
                    latency_p99_ns: prediction.latency_p99_ns,
                },
                settings: prediction.change,
                binds_next: prediction.binds_next,
                measured,
            });
        }
        // Measurements decide, if available.
        let best = tuned.iter().filter(|row| row.keeps(&bounds));
        let best = best.max_by(|a, b| a.counts().bytes_per_s.total_cmp(&b.counts().bytes_per_s));
        let best = best.filter(|row| row.counts().bytes_per_s > planned.counts().bytes_per_s);
        self.bar.finish_and_clear();
        match args.json {
            true => {
                let json = json!({"planned": planned, "tuned": tuned, "best": best});
                print_json(&serde_json::to_string_pretty(&json)?)?;
            }
            false => print_text(|out| print(out, &planned, &tuned, best))?,
        }
        Ok(match best {
            Some(_) => ExitCode::SUCCESS,
            None => ExitCode::FAILURE,
        })
    }

    /// Simulates the plan; returns the result and its twin.
    fn simulate(&self, plan: &Plan) -> Result<(Measured, Twin)> {
        let kinds = KINDS.map(toml::Value::from).to_vec();
        let kinds = (Parameter::new("trace.kinds"), kinds.into());
        let simulated = plan.with(&[kinds])?.in_world(WorldKind::Sim)?;
        self.bar.set_message("simulating the plan");
        let (results, folder) = self.run(&simulated)?;
        let run = Run::read(&folder)?;
        let cell = run.cells.first().context("the simulation has no cell")?;
        let records = Cell::read(&run.cell_folder(cell)?)?;
        let reading = Reading::of(&records, cell.window).context("the plan cannot be tuned")?;
        let twin = Twin::of(reading, &|| self.goes_on())?;
        if let Some(off) = twin.compared().iter().find(|it| !it.fits()) {
            bail!(
                "the plan cannot be tuned, as its twin does not fit: {}",
                in_words(off)
            );
        }
        Ok((Measured::of(&results.cells[0])?, twin))
    }

    /// All sets of settings within the bounds, best first.
    fn search(&self, twin: &Twin, bounds: &Bounds) -> Result<Vec<Prediction>> {
        let watch = |done: usize, all: usize| {
            self.bar.set_position((done * 1000 / all.max(1)) as u64);
            self.goes_on()
        };
        self.bar.set_message("settings one at a time");
        let mut changes = tries(twin.setup());
        changes.retain(|change| change.iter().all(|it| is_of_hosts(&it.parameter)));
        let mut told = twin.predict(&changes, &watch)?;
        self.bar.set_message("settings together");
        Ok(twin.advise(&mut told, bounds, &watch)?)
    }

    /// Runs the plan in network namespaces.
    fn measure(&self, plan: &Plan) -> Result<Measured> {
        self.bar.set_message("confirming");
        Measured::of(&self.run(plan)?.0.cells[0])
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn run(&self, plan: &Plan) -> Result<(Results, PathBuf)> {
        let options = Options {
            program: std::env::current_exe().context("cannot find the wansan binary")?,
            out: self.args.out.clone(),
            rights: self.rights,
            reach: Reach::default(),
            on: None,
            budget: None,
            stop: self.stop,
        };
        self.bar.reset();
        let outcome = run::run(plan, &options, &mut Quiet(&self.bar))?;
        Ok((outcome.results, outcome.folder))
    }
}

/// Shows a run's progress by the bar only.
struct Quiet<'a>(&'a ProgressBar);

impl Observer for Quiet<'_> {
    fn phase(&mut self, _: Phase, _: usize, _: Duration) {}
    fn progress(&mut self, _: usize, _: usize, left: Duration) {
        let elapsed = self.0.elapsed();
        let share = elapsed.as_secs_f64() / (elapsed + left).as_secs_f64().max(1e-9);
        self.0.set_position((share * 1000.0) as u64);
    }
    fn cell(&mut self, _: &CellResult) {}
    fn found(&mut self, _: &Results) {}
}

fn print(out: &mut dyn Write, planned: &Row, tuned: &[Row], best: Option<&Row>) -> io::Result<()> {
    let mut table = grid([
        "settings",
        "simulated MB/s",
        "p99 ms",
        "measured MB/s",
        "p99 ms",
    ]);
    for row in iter::once(planned).chain(tuned) {
        let settings = match &row.settings[..] {
            [] => "as planned".to_owned(),
            settings => change(settings),
        };
        let [rate, p99] = figures(row.simulated);
        let [measured_rate, measured_p99] = row.measured.map(figures).unwrap_or_default();
        table.add_row([settings, rate, p99, measured_rate, measured_p99]);
    }
    right(&mut table, [1, 2, 3, 4]);
    writeln!(out, "{table}")?;
    let Some(best) = best else {
        return writeln!(out, "No other settings within the bounds bring more.");
    };
    let gain = best.counts().bytes_per_s / planned.counts().bytes_per_s - 1.0;
    writeln!(
        out,
        "Best: {}: {}{}, then {}.",
        change(&best.settings),
        percent(gain),
        match best.measured {
            Some(_) => "",
            None => " in the simulation",
        },
        limit(&best.binds_next),
    )
}

fn figures(of: Measured) -> [String; 2] {
    [
        format!("{:.2}", of.bytes_per_s / 1e6),
        format!("{:.2}", of.latency_p99_ns / 1e6),
    ]
}
