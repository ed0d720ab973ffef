//! `wansan explain --what-if`: predicts the effect of changes on a recorded run, with its simulated twin.

use std::io::{self, Write};
use std::iter;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use wansan_insight::capture::Capture;
use wansan_insight::run::RunCell;
use wansan_insight::{Cell, Run, explain, summarise};
use wansan_trace::units::format_bytes;
use wansan_twin::fit::Compared;
use wansan_twin::knob::{self, Setting};
use wansan_twin::loss::LossShare;
use wansan_twin::{Bounds, MOST_SIMULATED, Prediction, Range, Reading, Twin, Unfit, WhatIf};

use crate::commands::grid::{grid, right};
use crate::commands::measuring::bar;
use crate::commands::{print_json, print_text};

/// Smallest relative effect of a recording's losses, compared with their expectation, that is reported.
const NOTABLE: f64 = 0.05;

/// Exit status if nothing is predicted: the twin does not reproduce the recording, or no change could be simulated.
const NOTHING_PREDICTED: u8 = 1;

/// Predicts for a run, or for the cell that its folder names: for these changes together, or for each promising one.
pub(super) fn of_run(folder: &Path, run: &Run, set: &[String], json: bool) -> Result<ExitCode> {
    let set = settings(set)?;
    let cell = chosen(folder, run)?;
    let at = run.cell_folder(cell)?;
    let records = Cell::read(&at)?;
    if let Some(measured) = cell.window {
        records.check_measured(&at, measured)?;
    }
    let what = format!("{}: cell {}", folder.display(), cell.cell);
    if !cell.changes.is_empty() {
        bail!("{what} cannot be simulated: its paths were changed while it ran");
    }
    let reading = match records.is_captured() {
        true => {
            let sessions = summarise(&records, cell.window).sessions;
            let has_window = sessions.iter().all(|it| it.command_window.is_some());
            Reading::of_packets(records, has_window)
        }
        false => Reading::of(&records, cell.window),
    };
    predict(&what, &format!("Cell {}", cell.cell), reading, set, json)
}

/// The same for a capture.
pub(super) fn of_capture(file: &Path, set: &[String], json: bool) -> Result<ExitCode> {
    let set = settings(set)?;
    let reading = Reading::of_capture(Capture::read(file)?);
    let what = file.display().to_string();
    predict(&what, "The capture", reading, set, json)
}

/// Predicts the effect of the changes on the recording `what`, which tables call `name`.
fn predict(
    what: &str,
    name: &str,
    reading: Result<Reading, Unfit>,
    set: Vec<Setting>,
    json: bool,
) -> Result<ExitCode> {
    let cannot = || format!("{what} cannot be simulated");
    let reading = reading.with_context(cannot)?;
    // Report an impossible change before the slow part.
    let mut setup = reading.setup.clone();
    for setting in &set {
        knob::set(&mut setup, setting)?;
    }
    let twin = Twin::of(reading, &|| true).with_context(cannot)?;
    let is_open = set.is_empty();
    let changes = match is_open {
        true => knob::tries(twin.setup()),
        false => vec![set],
    };
    let progress = bar(json);
    let watch = |done: usize, all: usize| {
        progress.set_position((done * 1000 / all.max(1)) as u64);
        true
    };
    progress.set_message("changes one at a time");
    let told = twin.predict(&changes, &watch).and_then(|mut told| {
        if is_open {
            progress.set_message("changes together");
            twin.advise(&mut told, &Bounds::default(), &watch)?;
        }
        progress.set_message("a Reno flow beside it");
        twin.compare_with_reno(&mut told, &|| true);
        Ok(told)
    });
    progress.finish_and_clear();
    let told = told?;
    match json {
        true => print_json(&serde_json::to_string_pretty(&told)?)?,
        false => print_text(|out| print(out, name, &told))?,
    }
    Ok(match told.predictions.is_empty() {
        true => ExitCode::from(NOTHING_PREDICTED),
        false => ExitCode::SUCCESS,
    })
}

/// Parses the changes, each of a different parameter.
fn settings(set: &[String]) -> Result<Vec<Setting>> {
    let set: Vec<Setting> = set
        .iter()
        .map(|text| setting(text))
        .collect::<Result<_>>()?;
    for (place, Setting { parameter, .. }) in set.iter().enumerate() {
        if set[..place].iter().any(|it| it.parameter == *parameter) {
            bail!("--set: `{parameter}` is given twice: give each parameter one value");
        }
    }
    Ok(set)
}

/// Parses a change: `NAME=VALUE`.
fn setting(text: &str) -> Result<Setting> {
    let Some((parameter, value)) = text.split_once('=') else {
        bail!("--set {text}: give NAME=VALUE, such as tcp.congestion_control=bbr");
    };
    Ok(Setting {
        parameter: parameter.trim().to_owned(),
        value: value.trim().to_owned(),
    })
}

/// The only planned cell, or the one that the finding refers to.
fn chosen<'r>(folder: &Path, run: &'r Run) -> Result<&'r RunCell> {
    let done = |cell: &&RunCell| cell.phase == "planned" && cell.failure.is_none();
    let cells: Vec<&RunCell> = run.cells.iter().filter(done).collect();
    match cells[..] {
        [] => bail!(
            "{}: results.json lists no completed planned cell",
            folder.display()
        ),
        [only] => Ok(only),
        _ => {
            let binding = explain(&run.observe_phase("planned")?).cell;
            let cell = cells.into_iter().find(|cell| cell.cell == binding);
            cell.with_context(|| format!("{}: there is no cell {binding}", folder.display()))
        }
    }
}

fn print(out: &mut dyn Write, name: &str, told: &WhatIf) -> io::Result<()> {
    for line in &told.unknown {
        writeln!(out, "Not recorded: {line}.")?;
    }
    for line in &told.shortened {
        writeln!(out, "Shortened: {line}.")?;
    }
    let worst = told.compared.iter().filter(|it| !it.fits());
    for number in worst {
        writeln!(out, "The twin does not fit: {}.", in_words(number))?;
    }
    for failed in &told.failed {
        writeln!(
            out,
            "Not simulated: {}: {}.",
            change(&failed.change),
            failed.reason
        )?;
    }
    if told.predictions.is_empty() {
        return writeln!(out, "Nothing is predicted.");
    }
    writeln!(
        out,
        "{name}: {}, {}; its twin is within {:.1} %.",
        rate(told.bytes_per_s),
        limit(&told.binds),
        told.compared
            .iter()
            .map(|it| it.off.abs())
            .fold(0.0, f64::max)
            * 100.0,
    )?;
    let expected = told.expected_bytes_per_s.unwrap_or(told.bytes_per_s);
    if (expected / told.bytes_per_s - 1.0).abs() > NOTABLE {
        writeln!(
            out,
            "With other losses, and in the time simulated, it does {}; gains are relative to that.",
            rate(expected),
        )?;
    }
    for loss in &told.losses {
        let share = LossShare::Recorded {
            lost: loss.lost,
            of: loss.packets,
        };
        writeln!(
            out,
            "Path `{}` lost {} of {} packets, a loss of {share}: the seeds are spread over what it may be.",
            loss.path, loss.lost, loss.packets,
        )?;
    }
    writeln!(
        out,
        "{:.0} s simulated in all (of {} s at most):\n",
        told.simulated_s,
        MOST_SIMULATED.as_secs(),
    )?;
    let mut table = grid([
        "change",
        "gain",
        "over seeds",
        "seeds",
        "MB/s",
        "over seeds",
        "p50 ms",
        "p99 ms",
        "binds next",
        "memory",
    ]);
    for prediction in &told.predictions {
        table.add_row(row(prediction));
    }
    right(&mut table, [1, 2, 3, 4, 5, 6, 7, 9]);
    writeln!(out, "{table}")?;
    print_advice(out, told)
}

/// Prints the best set of settings, as they are added one by one.
fn print_advice(out: &mut dyn Write, told: &WhatIf) -> io::Result<()> {
    let mut before = 0;
    for (prediction, intro) in told
        .advice
        .iter()
        .zip(iter::once("Advice:").chain(iter::repeat("Also:")))
    {
        writeln!(
            out,
            "{intro} {}: {} in all, then {}.",
            change(&prediction.change[before..]),
            percent(prediction.gain.median),
            limit(&prediction.binds_next),
        )?;
        before = prediction.change.len();
    }
    let asked = match &told.predictions[..] {
        [asked] => Some(asked),
        _ => told.advice.last(),
    };
    if let Some(share) = asked.and_then(|asked| asked.reno_share) {
        writeln!(
            out,
            "A Reno flow on the same path gets {:.0} % of what it gets without the change{} ({:.0} … {:.0} %).",
            share.median * 100.0,
            if told.advice.len() > 1 { "s" } else { "" },
            share.least * 100.0,
            share.most * 100.0,
        )?;
    }
    Ok(())
}

fn row(prediction: &Prediction) -> Vec<String> {
    let megabytes = |bytes: f64| format!("{:.2}", bytes / 1e6);
    let [gain, gains] = over_seeds(prediction.gain, percent);
    let [throughput, throughputs] = over_seeds(prediction.bytes_per_s, megabytes);
    vec![
        change(&prediction.change),
        gain,
        gains,
        prediction.seeds.to_string(),
        throughput,
        throughputs,
        format!("{:.2}", prediction.latency_p50_ns / 1e6),
        format!("{:.2}", prediction.latency_p99_ns / 1e6),
        prediction.binds_next.clone(),
        match prediction.memory_bytes {
            0 => String::new(),
            less @ ..0 => format!("-{}", format_bytes(less.unsigned_abs())),
            more => format!("+{}", format_bytes(more.unsigned_abs())),
        },
    ]
}

/// The median, and the range over seeds if visible.
fn over_seeds(range: Range, text: impl Fn(f64) -> String) -> [String; 2] {
    let [least, most] = [range.least, range.most].map(&text);
    let reach = match least == most {
        true => String::new(),
        false => format!("{least} … {most}"),
    };
    [text(range.median), reach]
}

pub(in crate::commands) fn change(settings: &[Setting]) -> String {
    let each = settings
        .iter()
        .map(|it| format!("{}={}", it.parameter, it.value));
    each.collect::<Vec<_>>().join(" ")
}

pub(in crate::commands) fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}

fn rate(bytes_per_s: f64) -> String {
    format!("{:.2} MB/s", bytes_per_s / 1e6)
}

pub(in crate::commands) fn limit(name: &str) -> String {
    match name {
        "nothing" => "nothing binds".to_owned(),
        name => format!("`{name}` binds"),
    }
}

/// Describes a deviation of the twin.
pub(in crate::commands) fn in_words(number: &Compared) -> String {
    let Compared {
        name,
        recorded,
        twin,
        off,
        ..
    } = number;
    match name.strip_prefix("waits.") {
        Some(cause) => format!(
            "`{cause}` takes {:.1} % of the latency in the recording and {:.1} % in the twin",
            recorded * 100.0,
            twin * 100.0,
        ),
        None => {
            let number = |value: f64| match name.ends_with("_ns") {
                true => format!("{:.3} ms", value / 1e6),
                false => format!("{value:.1}"),
            };
            format!(
                "`{}` is {} in the recording and {} in the twin ({:+.1} %)",
                name.trim_end_matches("_ns"),
                number(*recorded),
                number(*twin),
                off * 100.0
            )
        }
    }
}
