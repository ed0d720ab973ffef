//! `wansan path`: the paths of a running lab.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use wansan_lab::run::control::{self, Answer, Request, Shown};
use wansan_schema::{ElementResult, PathResult};

use super::grid::{grid, right};
use super::{print_json, print_text};

/// Default parent of run folders.
const RUNS: &str = "runs";

/// Arguments of `wansan path`.
#[derive(Debug, Args)]
pub(crate) struct PathArgs {
    #[command(subcommand)]
    command: PathCommand,
}

#[derive(Debug, Subcommand)]
enum PathCommand {
    /// Print settings and counters of each path, element by element
    Show(ShowArgs),
    /// Change paths, all statements atomically
    Set(SetArgs),
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The run: its folder, its plan's name, or a prefix of its own [default: the newest active run
    /// under ./runs]
    #[arg(long)]
    run: Option<String>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct SetArgs {
    /// Changes, each in quotes: "upper.delay = 32ms", "upper.back.loss = 1%", "upper down", "upper
    /// up"
    #[arg(required = true, value_name = "STATEMENT")]
    statements: Vec<String>,
    /// The run: its folder, its plan's name, or a prefix of its own [default: the newest active run
    /// under ./runs]
    #[arg(long)]
    run: Option<String>,
    /// Print one JSON object per change
    #[arg(long)]
    json: bool,
}

/// Runs `wansan path`.
///
/// # Errors
/// No lab is running, or it refuses; the exit status is then 2.
pub(crate) fn run(args: &PathArgs) -> Result<ExitCode> {
    match &args.command {
        PathCommand::Show(args) => show(args),
        PathCommand::Set(args) => set(args),
    }
}

fn ask(run: Option<&str>, request: &Request) -> Result<Answer> {
    let runs = Path::new(RUNS);
    let folder = match run {
        Some(wanted) => control::find(runs, wanted),
        None => control::running(runs)?,
    };
    Ok(control::ask(&folder, request)?)
}

fn show(args: &ShowArgs) -> Result<ExitCode> {
    let Answer::Show(shown) = ask(args.run.as_deref(), &Request::Show)? else {
        bail!("unexpected answer from the lab: it runs another version of wansan");
    };
    if args.json {
        print_json(&serde_json::to_string_pretty(&shown)?)?;
    } else {
        print_text(|out| out.write_all(in_words(&shown).as_bytes()))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn set(args: &SetArgs) -> Result<ExitCode> {
    let request = Request::Set(args.statements.clone());
    let Answer::Set(changes) = ask(args.run.as_deref(), &request)? else {
        bail!("unexpected answer from the lab: it runs another version of wansan");
    };
    if args.json {
        print_json(&serde_json::to_string_pretty(&changes)?)?;
    } else {
        print_text(|out| {
            changes
                .iter()
                .try_for_each(|change| writeln!(out, "{change}"))
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
        let _ = writeln!(text, "{change}");
    }
    text
}

fn heading(path: &PathResult) -> String {
    let down = if path.is_down { " DOWN" } else { "" };
    let rate = |bits_per_s: u64| format!("{:.3} Mbit/s", bits_per_s as f64 / 1e6);
    let asked = path.rate_asked_bits_per_s;
    let carried = match path.rate_achieved_bits_per_s {
        Some(bits_per_s) => format!("{} carried at most", rate(bits_per_s)),
        None => "what is carried at most not yet known".to_owned(),
    };
    let ms = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
    let achieved = |asked: Option<u64>, achieved: Option<u64>| {
        let both = asked.zip(achieved);
        both.map(|(asked, achieved)| format!("{} for {}", ms(achieved), ms(asked)))
            .unwrap_or_else(|| "not yet known".to_owned())
    };
    format!(
        "{}{down}: delay {} asked, achieved p50 {}, p99 {}; rate {} asked, {carried}",
        path.name,
        ms(path.delay_asked_ns),
        achieved(path.delay_asked_p50_ns, path.delay_achieved_p50_ns),
        achieved(path.delay_asked_p99_ns, path.delay_achieved_p99_ns),
        asked.map_or_else(|| "unlimited".to_owned(), rate),
    )
}

fn table(path: &PathResult) -> String {
    let header = [
        "element",
        "packets",
        "bytes",
        "forwarded",
        "dropped",
        "marked",
        "now",
        "bytes",
        "most",
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

fn seconds(ns: u64) -> String {
    format!("{:.3}s", ns as f64 / 1e9)
}
