//! `wansan path`: the paths of a lab that runs.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use wansan_lab::record::{ElementResult, PathChange, PathResult};
use wansan_lab::run::control::{self, Answer, Request, Shown};

use super::grid::{grid, right};
use super::{tell, tell_json};

/// Where run folders are made when nobody says otherwise.
const RUNS: &str = "runs";

/// Arguments of `wansan path`.
#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    #[command(subcommand)]
    command: PathCommand,
}

#[derive(Debug, Subcommand)]
enum PathCommand {
    /// Print what each direction of each path does, element by element
    Show(ShowArgs),
    /// Change paths: all statements at once, or none
    Set(SetArgs),
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The run's folder; the newest one under ./runs that runs when left out
    #[arg(long, value_name = "FOLDER")]
    run: Option<PathBuf>,
    /// Print an object instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct SetArgs {
    /// What to change, each in quotes: "upper.delay = 32ms", "upper.back.loss = 1%", "upper down",
    /// "upper up"
    #[arg(required = true, value_name = "STATEMENT")]
    statements: Vec<String>,
    /// The run's folder; the newest one under ./runs that runs when left out
    #[arg(long, value_name = "FOLDER")]
    run: Option<PathBuf>,
    /// Print an object for each change
    #[arg(long)]
    json: bool,
}

/// Carries out `wansan path`.
///
/// # Errors
/// When no lab runs, or it refuses; the exit status is 2 then.
pub(crate) fn run(args: &PathArgs) -> Result<ExitCode> {
    match &args.command {
        PathCommand::Show(args) => show(args),
        PathCommand::Set(args) => set(args),
    }
}

fn ask(run: Option<&Path>, request: &Request) -> Result<Answer> {
    let answer = match run {
        Some(folder) => control::ask(folder, request),
        None => control::ask(&control::running(Path::new(RUNS))?, request),
    };
    Ok(answer?)
}

fn show(args: &ShowArgs) -> Result<ExitCode> {
    let Answer::Show(shown) = ask(args.run.as_deref(), &Request::Show)? else {
        bail!("the lab has answered another question: it is of another version");
    };
    if args.json {
        tell_json(&serde_json::to_string_pretty(&shown)?)?;
    } else {
        tell(|out| out.write_all(in_words(&shown).as_bytes()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn set(args: &SetArgs) -> Result<ExitCode> {
    let request = Request::Set(args.statements.clone());
    let Answer::Set(changes) = ask(args.run.as_deref(), &request)? else {
        bail!("the lab has answered another question: it is of another version");
    };
    if args.json {
        tell_json(&serde_json::to_string_pretty(&changes)?)?;
    } else {
        tell(|out| {
            changes
                .iter()
                .try_for_each(|change| writeln!(out, "{}", made(change)))
        })?;
    }
    Ok(ExitCode::SUCCESS)
}

fn in_words(shown: &Shown) -> String {
    let mut text = format!(
        "cell {}, {} after its start\n",
        shown.cell,
        seconds(shown.after_ns)
    );
    for path in &shown.paths {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{}\n{}", heading(path), table(path));
    }
    if !shown.timeline.is_empty() {
        text.push('\n');
    }
    for change in &shown.timeline {
        let _ = writeln!(text, "{}", made(change));
    }
    text
}

fn heading(path: &PathResult) -> String {
    let down = if path.is_down { " DOWN" } else { "" };
    let rate = |bits_per_s: Option<u64>, otherwise: &str| {
        bits_per_s.map_or_else(
            || otherwise.to_owned(),
            |bits_per_s| format!("{:.3} Mbit/s", bits_per_s as f64 / 1e6),
        )
    };
    let ms = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
    format!(
        "{}{down}: delay {} asked, {} achieved (p99 {}); rate {} asked, {} carried at most",
        path.name,
        ms(path.delay_asked_ns),
        ms(path.delay_achieved_p50_ns),
        ms(path.delay_achieved_p99_ns),
        rate(path.rate_asked_bits_per_s, "unlimited"),
        rate(path.rate_achieved_bits_per_s, "not yet known"),
    )
}

fn table(path: &PathResult) -> String {
    let header = [
        "element", "packets", "bytes", "went on", "dropped", "marked", "now", "bytes", "most",
        "bytes",
    ];
    let mut table = grid(header);
    for element in &path.elements {
        table.add_row(row(element));
    }
    table.add_row([
        "all".to_owned(),
        path.in_packets.to_string(),
        path.in_bytes.to_string(),
        path.out_packets.to_string(),
        path.dropped_packets.to_string(),
        path.marked_packets.to_string(),
        path.queue_packets.to_string(),
        path.queue_bytes.to_string(),
        path.queue_high_water_packets.to_string(),
        path.queue_high_water_bytes.to_string(),
    ]);
    right(&mut table, 1..header.len());
    table.to_string()
}

fn row(element: &ElementResult) -> [String; 10] {
    [
        element.name.clone(),
        element.in_packets.to_string(),
        element.in_bytes.to_string(),
        element.out_packets.to_string(),
        element.dropped_packets.to_string(),
        element.marked_packets.to_string(),
        element.depth_packets.to_string(),
        element.depth_bytes.to_string(),
        element.high_water_packets.to_string(),
        element.high_water_bytes.to_string(),
    ]
}

/// A change in one line.
fn made(change: &PathChange) -> String {
    let by_hand = if change.planned_ns.is_none() {
        " (by hand)"
    } else {
        ""
    };
    match (change.made_after_ns, &change.refused) {
        (Some(after_ns), _) => format!("at {} {}{by_hand}", seconds(after_ns), change.statement),
        (None, Some(reason)) => format!("not made: {}: {reason}", change.statement),
        (None, None) => format!("to be made: {}", change.statement),
    }
}

fn seconds(ns: u64) -> String {
    format!("{:.3}s", ns as f64 / 1e9)
}
