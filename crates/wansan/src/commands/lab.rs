//! `wansan lab`: experiments.

mod compare;
mod export;
mod list;
mod show;
mod text;
mod worlds;

use std::io::{self, IsTerminal, Write, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use wansan_lab::engine::Engine;
use wansan_lab::hosts::{self, Reach};
use wansan_lab::plan::{Phase, Plan, PlanError, WorldKind};
use wansan_lab::record;
use wansan_lab::run;
use wansan_lab::run::{Observer, Options, RunError};
use wansan_lab::world::{self, Rights};
use wansan_schema::{CellResult, Results};
use wansan_settings::quantity::SomeTime;

use super::{INTERRUPTED, print_json, print_text, remark};

/// Arguments of `wansan lab`.
#[derive(Debug, Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    /// Run a plan: build its networks, measure every cell, report what limits the SAN
    Run(RunArgs),
    /// Check a plan and list its cells without running them
    Check(CheckArgs),
    /// List runs
    List(list::ListArgs),
    /// Reprint the results of a run
    Show(show::ShowArgs),
    /// Compare two runs cell by cell, with confidence intervals of the differences
    Compare(compare::CompareArgs),
    /// Export a run's cells as CSV or Parquet
    Export(export::ExportArgs),
    /// Serve a lab on standard input and output; started by `wansan lab run` on real hosts
    #[command(hide = true)]
    Attend(FolderArgs),
    /// Emulate paths between real hosts; started by `wansan lab run` on a plan's routers
    #[command(hide = true)]
    Carry,
    /// Run the cell of a plan that standard input has; started by `wansan lab run --on` on workers
    #[command(hide = true)]
    Cell(FolderArgs),
}

#[derive(Debug, Args)]
struct FolderArgs {
    /// A directory of its own
    folder: PathBuf,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The plan, a TOML file
    plan: PathBuf,
    /// Run the plan's quick form, defined by its [quick] table: fewer cells, less time
    #[arg(long)]
    quick: bool,
    /// Directory for run folders
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// World to run it in, instead of the plan's: network namespaces, a simulation in virtual time, real
    /// computers reached by ssh, or the first two in sequence, with the differences [default: the plan's]
    #[arg(long, value_name = "KIND")]
    world: Option<WorldArg>,
    /// Time limit for a simulated cell; a cell that exceeds it fails, the others are not affected
    /// [default: unlimited]
    #[arg(long, value_name = "TIME")]
    budget: Option<SomeTime>,
    /// Run the cells on the workers of a Dask cluster: the address of its scheduler, dask://HOST[:PORT] [default: on
    /// this computer]
    #[arg(long, value_name = "ADDRESS")]
    on: Option<Engine>,
    /// Run the wansan that is installed on the plan's real hosts, or on the workers, instead of copying this one there
    #[arg(long)]
    no_copy: bool,
    /// Configuration for ssh, as `ssh -F` takes it [default: the user's own]
    #[arg(long, value_name = "FILE")]
    ssh_config: Option<PathBuf>,
    /// Print results.json instead of tables
    #[arg(long)]
    json: bool,
}

/// Worlds to run a plan in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum WorldArg {
    Netns,
    Sim,
    Hosts,
    Both,
}

impl WorldArg {
    /// The kinds of worlds, in the order in which they run.
    fn kinds(self) -> &'static [WorldKind] {
        match self {
            WorldArg::Netns => &[WorldKind::Netns],
            WorldArg::Sim => &[WorldKind::Sim],
            WorldArg::Hosts => &[WorldKind::Hosts],
            WorldArg::Both => &[WorldKind::Netns, WorldKind::Sim],
        }
    }
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// The plan, a TOML file
    plan: PathBuf,
    /// List the cells of the plan's quick form
    #[arg(long)]
    quick: bool,
    /// Print the cells as JSON
    #[arg(long)]
    json: bool,
}

/// Runs `wansan lab`. The process must be single-threaded: see [`wansan_lab::world::isolate`].
///
/// # Errors
/// Any error that prevents reading or running the plan; the exit status is then 2.
pub(crate) fn run(args: LabArgs) -> Result<ExitCode> {
    match args.command {
        LabCommand::Run(args) => run_plan(&args),
        LabCommand::Check(args) => check(&args),
        LabCommand::List(args) => list::run(&args),
        LabCommand::Show(args) => show::run(&args),
        LabCommand::Compare(args) => compare::run(&args),
        LabCommand::Export(args) => export::run(&args),
        LabCommand::Attend(args) => {
            hosts::attend(&args.folder).context("cannot serve the lab")?;
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Carry => {
            let stop = stop_on_signals()?;
            run::carry(&stop)?;
            Ok(ExitCode::SUCCESS)
        }
        LabCommand::Cell(args) => {
            run::single(&args.folder).context("cannot run the cell")?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// The plan in that file, or its quick form.
fn read(file: &Path, quick: bool) -> Result<Plan, PlanError> {
    let plan = Plan::read(file)?;
    if quick { plan.quick() } else { Ok(plan) }
}

fn check(args: &CheckArgs) -> Result<ExitCode> {
    let plan = read(&args.plan, args.quick)?;
    let cells = plan.cells(Phase::Planned, &[])?;
    let cells: Vec<CellResult> = cells
        .iter()
        .zip(0..)
        .map(|(cell, number)| record::cell_result(number, cell))
        .collect();
    if args.json {
        let listed: Vec<_> = cells.iter().map(|cell| &cell.parameters).collect();
        print_json(&serde_json::to_string_pretty(&listed)?)?;
    } else {
        print_text(|out| {
            writeln!(out, "{}: {}", plan.name(), plan.document().title)?;
            for cell in &cells {
                writeln!(out, "cell {:3}  {}", cell.cell, text::parameters(cell))?;
            }
            for expectation in plan.expectations() {
                writeln!(out, "expects   {expectation}")?;
            }
            out.write_all(text::unchecked(plan.quick_unchecked().unwrap_or(0) as u64).as_bytes())?;
            Ok(())
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_plan(args: &RunArgs) -> Result<ExitCode> {
    let plan = read(&args.plan, args.quick)?;
    let written_for = plan.document().world.kind;
    let plans: Vec<Plan> = match args.world {
        None => vec![plan],
        Some(world) => {
            let plans = world.kinds().iter().map(|kind| plan.in_world(*kind));
            plans.collect::<Result<_, _>>()?
        }
    };
    let is_simulated = |plan: &Plan| plan.document().world.kind == WorldKind::Sim;
    let is_built = |plan: &Plan| plan.document().world.kind == WorldKind::Netns;
    let is_reached = |plan: &Plan| plan.document().world.kind == WorldKind::Hosts;
    let has_hosts = plans.iter().any(is_reached);
    if args.ssh_config.is_some() && !has_hosts {
        bail!(
            "--ssh-config is for real hosts, and the plan's world has none: leave it out, or add --world hosts"
        );
    }
    if args.no_copy && !has_hosts && args.on.is_none() {
        bail!(
            "--no-copy is for real hosts and for workers, and there are none: leave it out, or add --world hosts \
             or --on"
        );
    }
    if args.budget.is_some() && !plans.iter().any(is_simulated) {
        bail!(
            "--budget is for simulated cells, and the plan's are real: leave it out, or add --world sim"
        );
    }
    let rights = match args.on.is_none() && plans.iter().any(is_built) {
        false => Rights::Unneeded,
        // Before any thread is started.
        true => world::isolate()?,
    };
    let stop = stop_on_signals()?;
    let options = Options {
        program: std::env::current_exe().context("cannot find the wansan binary")?,
        out: args.out.clone(),
        rights,
        reach: Reach {
            ssh_config: args.ssh_config.clone(),
            is_installed: args.no_copy,
        },
        on: args.on.clone(),
        budget: args.budget.map(|budget| budget.0),
        stop: &stop,
    };
    let mut outcomes = Vec::new();
    for plan in &plans {
        let mut console = Console::new(plan, args.json);
        let outcome = run::run(plan, &options, &mut console);
        console.bar.finish_and_clear();
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error @ RunError::Interrupted { .. }) => {
                remark(&format!("wansan: {error}"));
                return Ok(ExitCode::from(INTERRUPTED));
            }
            Err(error) => return Err(error.into()),
        };
        if !args.json {
            print_text(|out| conclude(out, &outcome.results, &outcome.folder))?;
        }
        outcomes.push(outcome);
    }
    match &outcomes[..] {
        [real, simulated] => worlds::print(real, simulated, args.json)?,
        _ if args.json => print_json(&std::fs::read_to_string(
            outcomes[0].folder.join("results.json"),
        )?)?,
        _ => {}
    }
    // Expectations apply to the world that the plan is written for, if it ran there.
    let mut own = plans.iter().zip(&outcomes);
    let own = own.find(|(plan, _)| plan.document().world.kind == written_for);
    let judged = own.map_or(&outcomes[0], |(_, outcome)| outcome);
    match judged.as_expected() {
        true => Ok(ExitCode::SUCCESS),
        false => Ok(ExitCode::FAILURE),
    }
}

/// A flag that signals set to end a run early.
pub(super) fn stop_on_signals() -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        // A second signal ends the lab at once; the kernel then ends its programs.
        signal_hook::flag::register_conditional_shutdown(
            signal,
            i32::from(INTERRUPTED),
            Arc::clone(&stop),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    Ok(stop)
}

/// Prints the summary of a completed run.
fn conclude(out: &mut dyn Write, results: &Results, folder: &Path) -> io::Result<()> {
    if let Some(advised) = &results.advised {
        writeln!(out, "{}", text::table(results, Phase::Advised))?;
        writeln!(out, "{}", text::gains(advised, results.finding.as_ref()))?;
    }
    if let Some(paper) = &results.paper {
        writeln!(out, "{}", text::paper(paper))?;
    }
    for verdict in &results.expectations {
        let word = if verdict.met {
            "as expected"
        } else {
            "NOT AS EXPECTED"
        };
        writeln!(
            out,
            "{word}: {} (found {})",
            verdict.expected, verdict.found
        )?;
    }
    out.write_all(text::unchecked(results.expectations_unchecked).as_bytes())?;
    let report = folder.join("report.html");
    // A killed run has none.
    if report.exists() {
        writeln!(out, "\nReport: {}", report.display())?;
    }
    Ok(())
}

/// Prints during the run, and ignores a closed reader: results are kept in files.
fn say(text: &str) {
    let _ = print_text(|out| writeln!(out, "{text}"));
}

/// Reports a run's progress on a terminal or in a log.
struct Console {
    bar: ProgressBar,
    /// Whether to keep standard output free for JSON.
    json: bool,
    /// Whether it is a terminal; a log gets a line per cell instead of a bar.
    watched: bool,
}

impl Console {
    fn new(plan: &Plan, json: bool) -> Console {
        if !json {
            let quick = plan.quick_unchecked().map_or("", |_| " (quick form)");
            say(&format!("{}{quick}\n", plan.document().title));
        }
        let style = ProgressStyle::with_template("{msg:8} {wide_bar} {prefix}")
            .expect("the template is well-formed");
        Console {
            bar: ProgressBar::new(0).with_style(style),
            json,
            watched: stderr().is_terminal(),
        }
    }
}

impl Observer for Console {
    fn preparing(&mut self, what: &str) {
        self.bar.suspend(|| remark(what));
    }

    fn phase(&mut self, phase: Phase, cells: usize, left: Duration) {
        self.bar.set_message(phase.name());
        if !self.watched {
            remark(&text::phase(phase, cells, left));
        }
    }

    fn progress(&mut self, done: usize, cells: usize, left: Duration) {
        // The bar advances with time, so that it does not stall in long cells.
        let elapsed = self.bar.elapsed();
        self.bar.set_length((elapsed + left).as_millis() as u64);
        self.bar.set_position(elapsed.as_millis() as u64);
        self.bar.set_prefix(format!(
            "cell {} of {cells}, {} s left",
            done + 1,
            left.as_secs() + 1
        ));
    }

    fn cell(&mut self, result: &CellResult) {
        if !self.watched {
            remark(&text::cell(result));
        }
    }

    fn found(&mut self, results: &Results) {
        if self.json {
            return;
        }
        self.bar.suspend(|| {
            say(&format!(
                "{}{}{}",
                text::table(results, Phase::Planned),
                text::changes(results),
                text::router_drops(results)
            ));
            if let Some(finding) = &results.finding {
                say(&text::finding(finding));
            }
        });
    }
}
