//! `wansan lab compare`: compares two runs with the same axes.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::Value;
use wansan_lab::plan::Phase;
use wansan_lab::record::{
    self, ByHand, CellDifference, Comparison, Difference, DifferenceVerdict, StoredRun,
};
use wansan_schema::Parameters;

use super::text;
use crate::commands::grid::{grid, right};
use crate::commands::{print_json, print_text};

#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// A run folder, a plan's name (its newest run), or a prefix of a run's name
    first: String,
    /// The run to compare it with, named the same way
    second: String,
    /// Directory of run folders
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print all numbers as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &CompareArgs) -> Result<ExitCode> {
    let first = StoredRun::find(&args.runs, &args.first)?;
    let second = StoredRun::find(&args.runs, &args.second)?;
    if first.folder.canonicalize()? == second.folder.canonicalize()? {
        bail!(
            "`{}` and `{}` are the same run, {}",
            args.first,
            args.second,
            first.name()
        );
    }
    let comparison = record::compare(&first, &second)?;
    if args.json {
        print_json(&serde_json::to_string_pretty(&comparison)?)?;
    } else {
        print_text(|out| out.write_all(page(&comparison).as_bytes()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A number common to both runs, in its display unit.
struct Shown {
    title: &'static str,
    metric: &'static str,
    /// Display units per unit of the number.
    scale: f64,
}

/// Most manual changes listed.
const MAX_BY_HAND: usize = 20;

const SHOWN: [Shown; 3] = [
    Shown {
        title: "Throughput, Mbit/s",
        metric: "bytes_per_s",
        scale: 8.0 / 1e6,
    },
    Shown {
        title: "Latency p50, ms",
        metric: "latency_p50_ns",
        scale: 1e-6,
    },
    Shown {
        title: "Latency p99, ms",
        metric: "latency_p99_ns",
        scale: 1e-6,
    },
];

fn page(comparison: &Comparison) -> String {
    let mut page = format!("A  {}\nB  {}\n\n", comparison.first, comparison.second);
    if !comparison.settings.is_empty() {
        page.push_str("Settings that differ, apart from the sweep:\n");
        for setting in &comparison.settings {
            page.push_str(&format!(
                "  {}: {} in A, {} in B\n",
                setting.setting,
                value(&setting.first),
                value(&setting.second)
            ));
        }
        page.push('\n');
    }
    page.push_str(&by_hand(comparison));
    for shown in &SHOWN {
        page.push_str(&table(comparison, shown));
    }
    let missing = [
        ("A", &comparison.only_in_first),
        ("B", &comparison.only_in_second),
    ];
    for (run, points) in missing {
        for parameters in points {
            page.push_str(&format!("Only in {run}: {}\n", point(parameters)));
        }
    }
    page.push_str(&explanation(comparison));
    page
}

/// Manual changes during the runs, by which they differ in more than their plans.
fn by_hand(comparison: &Comparison) -> String {
    let mut lines = Vec::new();
    for cell in &comparison.cells {
        let of = |run: &str, changes: &[ByHand]| -> Vec<String> {
            let changes = changes.iter();
            let line = |by: &ByHand| format!("  {run}, cell {}: {}\n", by.cell, by.change);
            changes.map(line).collect()
        };
        lines.extend(of("A", &cell.by_hand_in_first));
        lines.extend(of("B", &cell.by_hand_in_second));
    }
    if lines.is_empty() {
        return String::new();
    }
    let more = lines.len().saturating_sub(MAX_BY_HAND);
    lines.truncate(MAX_BY_HAND);
    if more > 0 {
        lines.push(format!("  and {more} more\n"));
    }
    format!(
        "Changed while a cell ran, by `wansan path set`:\n{}\n",
        lines.concat()
    )
}

fn table(comparison: &Comparison, shown: &Shown) -> String {
    let rows: Vec<(&CellDifference, Difference)> = comparison
        .cells
        .iter()
        .filter_map(|cell| Some((cell, *cell.numbers.get(shown.metric)?)))
        .collect();
    if rows.is_empty() {
        return format!("{}: not in both runs\n\n", shown.title);
    }
    let header = [
        "",
        "A",
        "B",
        "n",
        "B − A",
        "change",
        "95 % interval of B − A",
        "",
    ];
    let mut table = grid(header);
    let number = |number: f64| format!("{:.2}", number * shown.scale);
    for (cell, difference) in rows {
        let interval = difference.interval.map(|[low, high]| {
            let signed = |number: f64| format!("{:+.2}", number * shown.scale);
            format!("{} to {}", signed(low), signed(high))
        });
        let phase = if cell.phase == Phase::Planned.name() {
            String::new()
        } else {
            format!("{}: ", cell.phase)
        };
        table.add_row([
            format!("{phase}{}", point(&cell.parameters)),
            number(difference.first),
            number(difference.second),
            repeats(&difference),
            format!(
                "{:+.2}",
                (difference.second - difference.first) * shown.scale
            ),
            difference
                .change
                .map_or_else(String::new, |share| format!("{:+.1} %", share * 100.0)),
            interval.unwrap_or_else(|| "unknown".to_owned()),
            format!("{}{}", word(difference.verdict), disturbed(cell)),
        ]);
    }
    right(&mut table, 1..7);
    format!("{}\n{table}\n\n", shown.title)
}

fn repeats(difference: &Difference) -> String {
    let (first, second) = (difference.first_repeats, difference.second_repeats);
    if first == second {
        first.to_string()
    } else {
        format!("{first}, {second}")
    }
}

fn word(verdict: DifferenceVerdict) -> &'static str {
    match verdict {
        DifferenceVerdict::OneRepeat => "one repeat: may be chance",
        DifferenceVerdict::NoneShown => "no difference shown",
        DifferenceVerdict::Greater => "B is greater",
        DifferenceVerdict::Less => "B is less",
    }
}

/// Which run of a cell deviated from its plan.
fn disturbed(cell: &CellDifference) -> &'static str {
    let by_hand = [&cell.by_hand_in_first, &cell.by_hand_in_second];
    match by_hand.map(|changes| changes.is_empty()) {
        [true, true] => "",
        [false, true] => "; A changed by hand",
        [true, false] => "; B changed by hand",
        [false, false] => "; both changed by hand",
    }
}

/// Explains the basis of the verdicts.
fn explanation(comparison: &Comparison) -> String {
    let differences = || {
        comparison
            .cells
            .iter()
            .flat_map(|cell| cell.numbers.values())
    };
    if differences().all(|difference| difference.interval.is_none()) {
        return "Without `repeat` in the plan, a difference may be chance.\n".to_owned();
    }
    "Intervals are 95 % confidence intervals (Welch's t) over the repeats: of cells without a true \
     difference, 1 in 20 shows one.\n"
        .to_owned()
}

fn point(parameters: &Parameters) -> String {
    if parameters.is_empty() {
        return "as the plan says".to_owned();
    }
    let set = parameters.iter();
    let set: Vec<String> = set
        .map(|(name, set)| format!("{name} = {}", value(set)))
        .collect();
    set.join(", ")
}

fn value(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        other => text::value(other),
    }
}
