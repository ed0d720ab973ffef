//! `wansan tune`: the best settings of a plan's target, session and TCP, found in its simulated world and
//! confirmed in a real one.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use indicatif::ProgressBar;
use serde_json::json;
use wansan_insight::{Cell, Run};
use wansan_lab::plan::{Parameter, Phase, Plan, WorldKind};
use wansan_lab::run::{self, Observer, Options};
use wansan_lab::world::{self, Rights};
use wansan_schema::{CellResult, Results};
use wansan_settings::quantity::{Size, SomeTime};
use wansan_twin::knob::{Setting, tries};
use wansan_twin::{Bounds, Prediction, Reading, Twin};

use super::explain::what_if::{change, in_words, limit, percent};
use super::grid::{grid, right};
use super::lab::stop_on_signals;
use super::measuring::bar;
use super::{INTERRUPTED, print_json, print_text, remark};

/// The records that a twin is made of.
const KINDS: [&str; 5] = ["io", "pdu", "tcp", "packet", "path"];

/// Arguments of `wansan tune`.
#[derive(Debug, Args)]
pub(crate) struct TuneArgs {
    /// The plan, a TOML file, of a single cell
    plan: PathBuf,
    /// 99th percentile of the latency that settings have to keep [default: unbounded]
    #[arg(long, value_name = "TIME")]
    max_p99: Option<SomeTime>,
    /// Memory beyond the plan's that settings may take, at both ends together [default: unbounded]
    #[arg(long, value_name = "SIZE")]
    max_memory: Option<Size>,
    /// How many of the best settings to confirm in network namespaces, beside the plan as it is; 0 for none
    #[arg(long, value_name = "N", default_value_t = 2)]
    confirm: usize,
    /// Directory for run folders: of the simulated plan, and of what is confirmed
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

/// A cell's throughput and latency as they were measured.
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

/// Carries out `wansan tune`. The process must have one thread: see [`wansan_lab::world::isolate`].
///
/// # Errors
/// Whatever keeps the plan from being read, simulated or confirmed; the exit status is 2 then.
pub(crate) fn run(args: &TuneArgs) -> Result<ExitCode> {
    let plan = Plan::read(&args.plan)?;
    let cells = plan.cells(Phase::Planned, &[])?.len();
    if cells > 1 {
        bail!(
            "{}: the plan has {cells} cells, and one can be tuned: take out [sweep] and `repeat`",
            args.plan.display()
        );
    }
    let rights = match args.confirm {
        0 => Rights::Unneeded,
        // Before anything starts a thread.
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

/// The first so many whose throughput and latency differ: a setting that does nothing beside another is no other.
fn distinct(predictions: Vec<Prediction>, count: usize) -> Vec<Prediction> {
    let mut kept: Vec<Prediction> = Vec::new();
    for prediction in predictions {
        let is_new = |other: &Prediction| {
            prediction.gain != other.gain || prediction.latency_p99_ns != other.latency_p99_ns
        };
        if kept.len() < count && kept.iter().all(is_new) {
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

/// Runs plans.
struct Lab<'a> {
    args: &'a TuneArgs,
    rights: Rights,
    stop: &'a AtomicBool,
    bar: ProgressBar,
}

impl Lab<'_> {
    fn tune(&self, plan: &Plan) -> Result<ExitCode> {
        let args = self.args;
        let (planned, twin) = self.simulate(plan)?;
        let bounds = Bounds {
            latency_p99_ns: args.max_p99.map(|most| most.0.as_nanos() as f64),
            memory_bytes: args
                .max_memory
                .map(|most| i64::try_from(most.0).unwrap_or(i64::MAX)),
        };
        let best = distinct(self.search(&twin, &bounds)?, args.confirm.max(1));
        let mut confirmed = Vec::new();
        if args.confirm > 0 {
            let real = plan.in_world(WorldKind::Netns)?;
            confirmed.push(self.measure(&real)?);
            for prediction in &best {
                confirmed.push(self.measure(&changed(&real, &prediction.change)?)?);
            }
        }
        self.bar.finish_and_clear();
        match args.json {
            true => {
                let json = as_json(&planned, &best, &confirmed);
                print_json(&serde_json::to_string_pretty(&json)?)?;
            }
            false => print_text(|out| print(out, &planned, &best, &confirmed))?,
        }
        Ok(match best.is_empty() {
            false => ExitCode::SUCCESS,
            true => ExitCode::FAILURE,
        })
    }

    /// Simulates the plan; what came of it, and its twin.
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

    /// All sets of settings that keep the bounds, the best first.
    fn search(&self, twin: &Twin, bounds: &Bounds) -> Result<Vec<Prediction>> {
        let watch = |done: usize, all: usize| {
            self.bar.set_position((done * 1000 / all.max(1)) as u64);
            self.goes_on()
        };
        self.bar.set_message("settings one at a time");
        let mut told = twin.predict(&tries(twin.setup()), &watch)?;
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
            budget: None,
            stop: self.stop,
        };
        let outcome = run::run(plan, &options, &mut Quiet(&self.bar))?;
        Ok((outcome.results, outcome.folder))
    }
}

/// Only the bar shows how a run gets on.
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

fn print(
    out: &mut dyn Write,
    planned: &Measured,
    best: &[Prediction],
    confirmed: &[Measured],
) -> io::Result<()> {
    let mut table = grid([
        "settings",
        "simulated MB/s",
        "p99 ms",
        "measured MB/s",
        "p99 ms",
    ]);
    let measured = |place: usize| match confirmed.get(place) {
        Some(measured) => figures(measured.bytes_per_s, measured.latency_p99_ns),
        None => [String::new(), String::new()],
    };
    let rows = best.iter().map(|it| {
        let simulated = figures(
            planned.bytes_per_s * (1.0 + it.gain.median),
            it.latency_p99_ns,
        );
        (change(&it.change), simulated)
    });
    let as_planned = figures(planned.bytes_per_s, planned.latency_p99_ns);
    let rows = std::iter::once(("as planned".to_owned(), as_planned)).chain(rows);
    for (place, (settings, [rate, p99])) in rows.enumerate() {
        let [measured_rate, measured_p99] = measured(place);
        table.add_row([settings, rate, p99, measured_rate, measured_p99]);
    }
    right(&mut table, [1, 2, 3, 4]);
    writeln!(out, "{table}")?;
    match best.first() {
        None => writeln!(out, "No other settings within the bounds bring more."),
        Some(best) => writeln!(
            out,
            "Best: {}: {} in the simulation, then {}.",
            change(&best.change),
            percent(best.gain.median),
            limit(&best.binds_next),
        ),
    }
}

fn figures(bytes_per_s: f64, latency_p99_ns: f64) -> [String; 2] {
    [
        format!("{:.2}", bytes_per_s / 1e6),
        format!("{:.2}", latency_p99_ns / 1e6),
    ]
}

fn as_json(planned: &Measured, best: &[Prediction], confirmed: &[Measured]) -> serde_json::Value {
    let of =
        |it: &Measured| json!({"bytes_per_s": it.bytes_per_s, "latency_p99_ns": it.latency_p99_ns});
    let settings: Vec<_> = best
        .iter()
        .enumerate()
        .map(|(place, it)| json!({"simulated": it, "measured": confirmed.get(place + 1).map(of)}))
        .collect();
    json!({
        "planned": {"simulated": of(planned), "measured": confirmed.first().map(of)},
        "best": settings,
    })
}
