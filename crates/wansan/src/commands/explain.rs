//! `wansan explain`: what held a run back, judged again from its records alone.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use serde::Serialize;
use wansan_insight::finding::{Finding, Observed};
use wansan_insight::gain::{self, Gain};
use wansan_insight::{Run, explain};
use wansan_trace::Layer;

/// Columns stand apart by spaces; one line below the header.
const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

use super::{tell, tell_json};

/// Arguments of `wansan explain`.
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// A run folder, one of its cells' folders, or what `--record` of target and bench has filled
    run_folder: PathBuf,
    /// Print the finding and the numbers of every cell as JSON
    #[arg(long)]
    json: bool,
}

/// Everything that is printed with `--json`.
#[derive(Serialize)]
struct Explanation {
    finding: Finding,
    gains: Vec<Gain>,
    planned: Vec<Observed>,
    advised: Vec<Observed>,
}

/// Carries out `wansan explain`.
///
/// # Errors
/// When the folder is no run folder, or its records cannot be read.
pub(crate) fn run(args: &ExplainArgs) -> Result<ExitCode> {
    let run = Run::read(&args.run_folder)?;
    let planned = run.observe_phase("planned")?;
    if planned.is_empty() {
        bail!(
            "{}: its results.json lists no planned cell that was completed",
            args.run_folder.display()
        );
    }
    let advised = run.observe_phase("advised")?;
    let finding = explain(&planned);
    let explanation = Explanation {
        gains: gain::compare(finding.limit, &planned, &advised),
        finding,
        planned,
        advised,
    };
    if args.json {
        tell_json(&serde_json::to_string_pretty(&explanation)?)?;
    } else {
        tell(|out| print(out, &explanation))?;
    }
    Ok(ExitCode::SUCCESS)
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
    writeln!(out, "In flight at each layer, mean of one session:")?;
    let in_flight = |observed: &Observed, layer| {
        let held = observed.summary.total.layer(layer)?;
        Some(held.in_flight_mean)
    };
    writeln!(out, "{}\n", table(cells(), &layers, in_flight))?;
    writeln!(
        out,
        "Waiting between the layer above and this one, mean of one session:"
    )?;
    let waiting = |observed: &Observed, layer| {
        let held = observed.summary.total.layer(layer)?;
        Some(held.waiting_in_mean)
    };
    writeln!(out, "{}\n", table(cells(), &layers, waiting))?;

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
            "With the advice, {}: {:.0} IOPS became {:.0}: {:+.0} % ({:+.0} % predicted).",
            set.join(", "),
            gain.planned_iops,
            gain.advised_iops,
            gain.measured_gain * 100.0,
            gain.predicted_gain * 100.0,
        )?;
    }
    Ok(())
}

/// One row per cell, one column per layer.
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
