//! `wansan explain`: explains a run again from its records alone, or a capture or a watch.

mod both_ends;
mod capture;
mod parts;
mod requests;
mod stalls;
mod watched;
pub(in crate::commands) mod what_if;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::FileType;
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use serde::Serialize;
use wansan_insight::finding::{Finding, Limit, Observed, Prediction, PredictionSource};
use wansan_insight::gain;
use wansan_insight::{Run, explain};
use wansan_lab::record::StoredRun;
use wansan_schema::{Gain, PathChange};
use wansan_trace::Layer;

/// Columns separated by spaces; one line below the header.
const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

use super::{print_json, print_text};

/// Arguments of `wansan explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A run (its folder, a prefix of its name, or its plan's name for the newest), the folder of
    /// one of its cells, a folder written by `--record` of target, bench, attach or watch, or a capture of
    /// iSCSI connections (pcap or pcapng), of any length; several files of one capture, as `tcpdump
    /// -C` writes them, are read in
    /// time order, and `-` is standard input: `tcpdump -w - port 3260 | wansan explain -`
    #[arg(value_name = "RUN|FOLDER|CAPTURE", required = true)]
    places: Vec<PathBuf>,
    /// Directory of run folders
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print the finding and all numbers as JSON
    #[arg(long)]
    json: bool,
    /// Predict the gain of changes to the run or the capture by simulation, ranked. For a run with several cells, the
    /// finding's cell is simulated. The exit status is 1 if there is no prediction: the simulation does not reproduce
    /// the recording, or no change could be simulated
    #[arg(long)]
    what_if: bool,
    /// With --what-if: predict this change only, by its name in plans or in docs/how-to/predict-a-change.md; repeat for
    /// several changes made together
    #[arg(long, value_name = "NAME=VALUE", requires = "what_if")]
    set: Vec<String>,
    /// Compare two captures from the two ends of one path: latency of the path and of the target
    #[arg(long, conflicts_with = "what_if")]
    both_ends: bool,
}

/// Most path changes listed.
const MAX_CHANGES: usize = 40;

/// Changes of a cell's paths during the run.
#[derive(Serialize)]
struct Changed {
    cell: u64,
    #[serde(flatten)]
    change: PathChange,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Explanation {
    finding: Finding,
    /// Reasons of failed cells, by number.
    failures: BTreeMap<u64, String>,
    changes: Vec<Changed>,
    gains: Vec<Gain>,
    planned: Vec<Observed>,
    advised: Vec<Observed>,
}

/// Whether capture files usually have this extension; no run's name ends with it.
fn is_of_captures(extension: &OsStr) -> bool {
    ["pcap", "pcapng", "cap"]
        .iter()
        .any(|usual| extension == *usual)
}

/// Runs `wansan explain`.
///
/// # Errors
/// The folder is not a run folder, its records cannot be read, or a file is not a capture.
pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode> {
    if args.both_ends {
        return both_ends::explain(&args.places, args.json);
    }
    let place = match &args.places[..] {
        [place] if place != Path::new(capture::STANDARD_INPUT) => place,
        _ if args.what_if => bail!("--what-if takes one run, one folder or one capture file"),
        places => {
            let folder = places.iter().find(|place| place.is_dir());
            if let Some(folder) = folder {
                bail!(
                    "{} is a folder: several places must all be files of one capture",
                    folder.display()
                );
            }
            return capture::explain(places, args.json);
        }
    };
    match std::fs::metadata(place).map(|place| place.file_type()) {
        Ok(kind) if kind.is_file() && args.what_if => {
            return what_if::of_capture(place, &args.set, args.json);
        }
        Ok(kind) if kind.is_file() => return capture::explain(&args.places, args.json),
        Ok(kind) if !kind.is_dir() => bail!(
            "{} is {}: give a capture file (pcap or pcapng), or the folder of a run or of records; `-` reads \
             standard input",
            place.display(),
            in_words(kind)
        ),
        _ => {}
    }
    let folder = match place.to_str() {
        Some(wanted) if !place.exists() => {
            if place.extension().is_some_and(is_of_captures) {
                bail!("{wanted}: no such file");
            }
            StoredRun::folder_of(&args.runs, wanted)?
        }
        _ => place.clone(),
    };
    let run = Run::read(&folder)?;
    if args.what_if {
        return what_if::of_run(&folder, &run, &args.set, args.json);
    }
    if let Some(table) = run.tcp_alone()? {
        return watched::explain(&folder, &table, args.json);
    }
    if let Some(cells) = run.streams_alone()? {
        return watched::explain_cells(&cells, args.json);
    }
    let planned = run.observe_phase("planned")?;
    if planned.is_empty() {
        bail!(
            "{}: results.json lists no completed planned cell; to explain a failed one, name its \
             folder, such as {}",
            folder.display(),
            folder.join("cell-000").display()
        );
    }
    let advised = run.observe_phase("advised")?;
    let finding = as_the_run_predicted(explain(&planned), &folder, &planned);
    let changes = run.cells.iter().flat_map(|cell| {
        let changes = cell.changes.iter().cloned();
        changes.map(|change| Changed {
            cell: cell.cell,
            change,
        })
    });
    let failures = run.cells.iter();
    let failures = failures.filter_map(|cell| Some((cell.cell, cell.failure.clone()?)));
    let explanation = Explanation {
        failures: failures.collect(),
        changes: changes.collect(),
        gains: gain::compare(
            finding.predicted.as_deref().unwrap_or_default(),
            &planned,
            &advised,
        ),
        finding,
        planned,
        advised,
    };
    if args.json {
        print_json(&serde_json::to_string_pretty(&explanation)?)?;
    } else {
        print_text(|out| print(out, &explanation))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The finding with the run's predictions, some of which are from simulations.
fn as_the_run_predicted(finding: Finding, folder: &Path, planned: &[Observed]) -> Finding {
    let stored = StoredRun::read(folder).ok();
    let stored = stored.and_then(|run| run.results.finding?.predicted);
    let (Some(bounds), Some(stored)) = (&finding.predicted, stored) else {
        return finding;
    };
    let predicted = bounds.iter().map(|bound| {
        let mut simulated = stored
            .iter()
            .filter(|it| it.cell == bound.cell && it.source == PredictionSource::Simulation.name());
        match simulated.next() {
            None => bound.clone(),
            Some(stored) => Prediction {
                predicted_iops: stored.predicted_iops,
                gain: stored.gain,
                bound: Limit::named(&stored.bound).unwrap_or(bound.bound),
                source: PredictionSource::Simulation,
                ..bound.clone()
            },
        }
    });
    let predicted = predicted.collect();
    finding.predicting(predicted, planned)
}

fn print(out: &mut dyn Write, explanation: &Explanation) -> io::Result<()> {
    let layers: Vec<Layer> = Layer::ALL
        .into_iter()
        .filter(|layer| {
            let mut cells = explanation.planned.iter().chain(&explanation.advised);
            cells.any(|observed| observed.summary.total.layer(*layer).is_some())
        })
        .collect();
    let cells = || explanation.planned.iter().chain(&explanation.advised);
    writeln!(out, "In flight at each layer, mean per session:")?;
    let in_flight = |observed: &Observed, layer| {
        let held = observed.summary.total.layer(layer)?;
        Some(held.in_flight_mean)
    };
    writeln!(out, "{}\n", table(cells(), &layers, in_flight))?;
    writeln!(
        out,
        "Waiting between the layer above and this one, mean per session:"
    )?;
    let waiting = |observed: &Observed, layer| {
        let held = observed.summary.total.layer(layer)?;
        Some(held.waiting_in_mean)
    };
    writeln!(out, "{}\n", table(cells(), &layers, waiting))?;

    for observed in cells() {
        let cell = format!("Cell {}: ", observed.cell);
        requests::print(out, &cell, &observed.summary.requests)?;
        stalls::print(
            out,
            &format!("Cell {}: ", observed.cell),
            "packet",
            &observed.summary,
        )?;
    }
    for (cell, failure) in &explanation.failures {
        writeln!(out, "Cell {cell} failed: {failure}\n")?;
    }
    changes(out, &explanation.changes)?;
    writeln!(out, "{}", explanation.finding.sentence)?;
    for fact in &explanation.finding.evidence {
        writeln!(out, "  - {fact}")?;
    }
    for gain in &explanation.gains {
        let set: Vec<String> = gain
            .parameters
            .iter()
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        writeln!(
            out,
            "With the advised change, {}: from {:.0} to {:.0} IOPS, {:+.0} % ({:+.0} % predicted).",
            set.join(", "),
            gain.planned_iops,
            gain.advised_iops,
            gain.measured_gain * 100.0,
            gain.predicted_gain * 100.0,
        )?;
    }
    Ok(())
}

/// Names the type of a file that is neither a regular file nor a folder.
fn in_words(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

/// Prints changes of the paths during cells: manual ones first, as they are not in the plan.
fn changes(out: &mut dyn Write, changes: &[Changed]) -> io::Result<()> {
    let mut made: Vec<&Changed> = changes
        .iter()
        .filter(|changed| changed.change.made_after_ns.is_some())
        .collect();
    made.sort_by_key(|changed| changed.change.asked_by != "hand");
    if made.is_empty() {
        return Ok(());
    }
    writeln!(out, "Paths were changed while cells ran:")?;
    for Changed { cell, change } in made.iter().take(MAX_CHANGES) {
        let after_s = change.made_after_ns.unwrap_or_default() as f64 / 1e9;
        let (statement, by) = (&change.statement, &change.asked_by);
        writeln!(out, "  cell {cell}: at {after_s:.3}s {statement} (by {by})")?;
    }
    if let more @ 1.. = made.len().saturating_sub(MAX_CHANGES) {
        writeln!(out, "  and {more} more")?;
    }
    writeln!(out)
}

/// A row per cell, a column per layer.
fn table<'o>(
    cells: impl Iterator<Item = &'o Observed>,
    layers: &[Layer],
    number: impl Fn(&Observed, Layer) -> Option<f64>,
) -> Table {
    let mut table = Table::new();
    table
        .load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Disabled);
    let mut header = vec!["cell".to_owned(), "IOPS".to_owned(), "mean\nms".to_owned()];
    header.extend(layers.iter().map(|layer| layer.name().replace('_', "\n")));
    table.set_header(header);
    for observed in cells {
        let total = &observed.summary.total;
        let sessions = observed.summary.sessions.len().max(1) as f64;
        let mut row = vec![
            observed.cell.to_string(),
            format!("{:.0}", total.iops),
            format!("{:.2}", total.latency.mean_ns / 1e6),
        ];
        row.extend(layers.iter().map(|&layer| {
            number(observed, layer).map_or_else(String::new, |n| format!("{:.1}", n / sessions))
        }));
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
