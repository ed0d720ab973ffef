//! `wansan model`: closed-form throughput models, fitted to measurements.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use serde::Serialize;
use serde_json::Value;
use wansan_insight::model::cycle::{Asked, Asking, Route};
use wansan_insight::model::grid::{Grid, Point};
use wansan_insight::model::judge::{Errors, Judgement, judge};
use wansan_insight::model::known::{Estimate, Known};
use wansan_insight::model::published::Published;
use wansan_lab::plan::Phase;
use wansan_lab::record::StoredRun;
use wansan_schema::CellResult;
use wansan_trace::time::duration_ns;
use wansan_trace::units;

use super::{print_json, print_text};

/// Columns separated by spaces; one line below the header.
const STYLE: TableStyle =
    TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

/// Arguments of `wansan model`.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    #[command(subcommand)]
    command: ModelCommand,
}

#[derive(Debug, Subcommand)]
enum ModelCommand {
    /// Throughput over two routes of unequal delay: fit the published model and ours to a run that
    /// sweeps both delays
    Routes(RoutesArgs),
}

#[derive(Debug, Args)]
struct RoutesArgs {
    /// A run folder, a plan's name (its newest run), or a prefix of a run's name
    run: String,
    /// Directory of run folders
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print all numbers as JSON
    #[arg(long)]
    json: bool,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Routes {
    run: String,
    /// The axes of the first and the second delay.
    axes: [String; 2],
    /// Cells left out because other work kept their programs from the processors.
    left_out: Vec<u64>,
    #[serde(flatten)]
    judgement: Judgement,
}

/// Runs `wansan model`.
///
/// # Errors
/// The run cannot be read, or a model cannot be fitted to it.
pub(crate) fn run(args: &ModelArgs) -> Result<ExitCode> {
    match &args.command {
        ModelCommand::Routes(args) => routes(args),
    }
}

fn routes(args: &RoutesArgs) -> Result<ExitCode> {
    let run = StoredRun::find(&args.runs, &args.run)?;
    let name = run.name();
    let cells: Vec<&CellResult> = run
        .results
        .cells
        .iter()
        .filter(|cell| cell.phase == Phase::Planned.name() && cell.failure.is_none())
        .collect();
    let (cells, starved): (Vec<_>, Vec<_>) = cells
        .into_iter()
        .partition(|cell| cell.starved_programs.is_empty());
    let Some(axes) = delay_axes(&cells) else {
        bail!("{name}: a model of routes needs a run that sweeps two path delays and nothing else");
    };
    let points = cells.iter().filter_map(|cell| {
        Some(Point {
            d1_ns: delay_ns(cell, &axes[0])?,
            d2_ns: delay_ns(cell, &axes[1])?,
            bytes_per_s: cell.bytes_per_s?,
        })
    });
    let grid = Grid::of(points).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    let Some(asked) = asked(&run.manifest.document) else {
        bail!("{name}: its manifest does not state how many I/Os the initiators keep in flight");
    };
    let judgement = judge(&grid, asked).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
    let routes = Routes {
        run: name,
        axes,
        left_out: starved.iter().map(|cell| cell.cell).collect(),
        judgement,
    };
    if args.json {
        print_json(&serde_json::to_string_pretty(&routes)?)?;
    } else {
        print_text(|out| print(out, &routes))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The axes of the two delays, slower-varying first; `None` if the cells vary anything else.
fn delay_axes(cells: &[&CellResult]) -> Option<[String; 2]> {
    let names: Vec<&String> = cells.first()?.parameters.keys().collect();
    let all_delays = cells.iter().all(|cell| {
        let names = cell.parameters.keys();
        names.into_iter().all(|name| delay_ns(cell, name).is_some())
    });
    let [one, other] = &names[..] else {
        return None;
    };
    let changes = |name: &str| {
        let pairs = cells.windows(2);
        pairs
            .filter(|pair| pair[0].parameters.get(name) != pair[1].parameters.get(name))
            .count()
    };
    let are_delays = names.iter().all(|name| name.ends_with(".delay"));
    let in_order = if changes(one) <= changes(other) {
        [one, other]
    } else {
        [other, one]
    };
    (all_delays && are_delays).then(|| in_order.map(|name| name.to_string()))
}

fn delay_ns(cell: &CellResult, axis: &str) -> Option<u64> {
    let text = cell.parameters.get(axis)?.as_str()?;
    let delay: Duration = units::parse_duration(text).ok()?;
    Some(duration_ns(delay))
}

/// The initiators' access pattern and queue depth in a plan.
fn asked(document: &Value) -> Option<Asked> {
    let workload = document.get("workload")?;
    let block = units::parse_bytes(workload.get("block")?.as_str()?).ok()?;
    let commands = workload.get("parallel")?.as_u64()?;
    let asking = match workload.get("batch").and_then(Value::as_bool) {
        Some(true) => Asking::Batch,
        _ => Asking::Loop,
    };
    Some(Asked {
        asking,
        bytes: block.checked_mul(commands)?,
        commands,
    })
}

fn print(out: &mut dyn Write, routes: &Routes) -> io::Result<()> {
    let judgement = &routes.judgement;
    writeln!(out, "{}", routes.run)?;
    writeln!(out, "D1 is {}, D2 is {}.", routes.axes[0], routes.axes[1])?;
    if !routes.left_out.is_empty() {
        let cells: Vec<String> = routes.left_out.iter().map(u64::to_string).collect();
        writeln!(
            out,
            "Excluded cells, whose programs lost CPU time to other work: {}.",
            cells.join(", ")
        )?;
    }
    writeln!(out)?;
    writeln!(out, "{}\n", cells(judgement))?;
    writeln!(out, "{}", published(&judgement.published))?;
    writeln!(out, "{}", cycle(&judgement.cycle))?;
    writeln!(out, "\n{}\n", totals(judgement))?;
    for remark in &judgement.remarks {
        writeln!(out, "  - {remark}")?;
    }
    let Some(foretold) = &judgement.foretold else {
        return writeln!(
            out,
            "The grid is too small to fit on one half and validate on the other."
        );
    };
    let (better, worse) = if foretold.cycle_rms < foretold.published_rms {
        ("ours", "the published form")
    } else {
        ("the published form", "ours")
    };
    writeln!(
        out,
        "On held-out cells, {better} is closer to the measurement than {worse}."
    )
}

fn grid<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table
        .load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn cells(judgement: &Judgement) -> Table {
    let mut table = grid([
        "D1\nms",
        "D2\nms",
        "measured\nMbit/s",
        "published\nMbit/s",
        "error",
        "ours\nMbit/s",
        "error",
    ]);
    for cell in &judgement.cells {
        let point = &cell.point;
        table.add_row([
            format!("{}", point.d1_s() * 1e3),
            format!("{}", point.d2_s() * 1e3),
            megabits(point.bytes_per_s),
            cell.published_bytes_per_s
                .map_or_else(|| "none".to_owned(), megabits),
            cell.published_error.map_or_else(String::new, percent),
            megabits(cell.cycle_bytes_per_s),
            percent(cell.cycle_error),
        ]);
    }
    table
}

fn published(form: &Published) -> String {
    let t = |of: &std::collections::BTreeMap<u64, f64>| {
        let each = of
            .iter()
            .map(|(d1_ns, t_s)| format!("{} ms: {:.1} ms", *d1_ns as f64 / 1e6, t_s * 1e3));
        each.collect::<Vec<_>>().join(", ")
    };
    format!(
        "Published: {:.0} packets of 1500 B ÷ (2·D2 + T(D1)), D1 and D2 exchanged when D1 > D2\n  \
         T while D1 <= D2: {}\n  T when D1 > D2: {}",
        form.window_packets,
        t(&form.t_s),
        t(&form.t_swapped_s)
    )
}

fn cycle(form: &Known) -> String {
    let kib = form.asked.bytes as f64 / 1024.0;
    match form.asked.asking {
        Asking::Batch => format!(
            "Ours: {kib:.0} KiB ÷ (max(D1, D2) + max(D1 + max(s1 - e1, 2·m·D1), D2 + max(s2 - e2, 2·m·D2)))\n  \
             s1, time to send half of it over the first route: {}\n  \
             s2, over the second: {}\n  \
             m, round trips spent waiting for the window: {}\n  \
             e1 and e2, what goes ahead over the faster route when it begins: {}",
            number(form.send1_s, 1e3, " ms"),
            number(form.send2_s, 1e3, " ms"),
            number(form.waits, 1.0, ""),
            match form.begins {
                Some(Route::First) => "the first begins",
                Some(Route::Second) => "the second begins",
                None => UNKNOWN,
            }
        ),
        Asking::Loop => format!(
            "Ours: {kib:.0} KiB ÷ max(max(D1, D2) + (1 + 2·m) · (D1 + D2) ÷ 2, s)\n  \
             s, time to send half of it over the narrower route: {}\n  \
             m, round trips spent waiting for the window: {}",
            number(form.send_s, 1e3, " ms"),
            number(form.waits, 1.0, "")
        ),
    }
}

/// Printed for a parameter to which no cell is sensitive.
const UNKNOWN: &str = "not determined by these cells";

/// A number with its uncertainty from the cells.
fn number(estimate: Option<Estimate>, scale: f64, unit: &str) -> String {
    let Some(Estimate { value, least, most }) = estimate else {
        return UNKNOWN.to_owned();
    };
    let [least, most] = [least, most].map(|end| format!("{:.2}", end * scale));
    match value {
        Some(value) => format!("{:.2}{unit} ({least} to {most})", value * scale),
        None => format!("at most {most}{unit}"),
    }
}

fn totals(judgement: &Judgement) -> Table {
    let mut table = grid(["relative error", "cells", "published", "ours"]);
    let mut add = |title: &str, errors: &Errors, published: f64, ours: f64| {
        table.add_row([
            title.to_owned(),
            errors.cells.to_string(),
            format!("{:.1} %", published * 100.0),
            format!("{:.1} %", ours * 100.0),
        ]);
    };
    let rows = [
        ("fitted to all cells", Some(&judgement.fitted)),
        ("on the held-out half", judgement.foretold.as_ref()),
    ];
    for (title, errors) in rows {
        let Some(errors) = errors else { continue };
        let title = |measure: &str| format!("{title}, {measure}");
        add(
            &title("RMS"),
            errors,
            errors.published_rms,
            errors.cycle_rms,
        );
        add(
            &title("median"),
            errors,
            errors.published_median,
            errors.cycle_median,
        );
    }
    table.add_row([
        "parameters fitted".to_owned(),
        String::new(),
        judgement.published_parameters.to_string(),
        judgement.cycle_parameters.to_string(),
    ]);
    table
}

fn megabits(bytes_per_s: f64) -> String {
    format!("{:.1}", bytes_per_s * 8.0 / 1e6)
}

fn percent(share: f64) -> String {
    format!("{:+.1} %", share * 100.0)
}
