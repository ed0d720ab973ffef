//! Compares a plan's results in two worlds.

use anyhow::Result;
use serde_json::{Value, json};
use wansan_lab::run::Outcome;
use wansan_schema::CellResult;

use super::super::grid::{grid, right};
use super::super::{print_json, print_text};
use super::text;

/// A compared figure of a cell: its name, and its value if the cell has one.
type Figure = (&'static str, fn(&CellResult) -> Option<f64>);

const FIGURES: [Figure; 4] = [
    ("bytes_per_s", bytes_per_s),
    ("latency_p50_ns", |cell| {
        cell.latency_p50_ns.map(|ns| ns as f64)
    }),
    ("latency_p99_ns", |cell| {
        cell.latency_p99_ns.map(|ns| ns as f64)
    }),
    ("window_cuts_per_min", window_cuts_per_min),
];

/// Largest 99th percentile of the emulator's lateness, in ns: beyond it, a cell measures the machine, not the plan.
const MOST_LATE_NS: u64 = 1_000_000;

/// Shares of the cells for which the maximum deviation is printed.
const SHARES: [(f64, &str); 2] = [(0.95, "95 % of the cells"), (1.0, "all")];

/// Bytes of data per second, of its I/Os or of all its streams.
fn bytes_per_s(cell: &CellResult) -> Option<f64> {
    let streams = cell.streams.values().map(|stream| stream.bytes_per_s);
    let all: Option<f64> = streams.sum();
    cell.bytes_per_s
        .or(all.filter(|_| !cell.streams.is_empty()))
}

/// Congestion window reductions per minute, over all connections.
fn window_cuts_per_min(cell: &CellResult) -> Option<f64> {
    let [from_ns, to_ns] = cell.measured_ns()?;
    let cwnd = cell.cwnd.as_ref()?;
    let cuts = cwnd.cwr_events + cwnd.recovery_events + cwnd.loss_events;
    Some(cuts as f64 * 60e9 / to_ns.saturating_sub(from_ns).max(1) as f64)
}

/// Prints the deviation of the simulated cells from the real ones.
pub(super) fn print(real: &Outcome, simulated: &Outcome, as_json: bool) -> Result<()> {
    let cells = real.results.cells.iter().zip(&simulated.results.cells);
    if as_json {
        let cells: Vec<Value> = cells
            .map(|(real, simulated)| {
                let figures = FIGURES.iter().map(|(name, of)| {
                    let (real, simulated) = (of(real), of(simulated));
                    let error = error(real, simulated);
                    let both = json!({"netns": real, "sim": simulated, "error": error});
                    ((*name).to_owned(), both)
                });
                let figures: serde_json::Map<String, Value> = figures.collect();
                json!({
                    "cell": real.cell, "parameters": real.parameters, "figures": figures,
                    "late_p99_ns": real.late_p99_ns(), "is_late": is_late(real),
                })
            })
            .collect();
        let folders = json!({
            "netns": real.folder, "sim": simulated.folder, "cells": cells,
        });
        return print_json(&serde_json::to_string_pretty(&folders)?);
    }
    let late = cells.clone().filter(|(real, _)| is_late(real)).count();
    let errors = cells
        .clone()
        .filter(|(real, _)| !is_late(real))
        .filter_map(|(real, simulated)| error(bytes_per_s(real), bytes_per_s(simulated)));
    let summary = summary(errors.map(f64::abs).collect(), late);
    let mut table = grid([
        "cell",
        "parameters",
        "MB/s",
        "simulated",
        "error",
        "p50 error",
        "p99 error",
        "cuts/min",
        "simulated",
        "late p99 ms",
    ]);
    for (real, simulated) in cells {
        let errors = FIGURES.map(|(_, of)| percent(error(of(real), of(simulated))));
        let [rate, p50, p99, _] = errors;
        let megabytes =
            |cell| bytes_per_s(cell).map_or("-".to_owned(), |it| format!("{:.2}", it / 1e6));
        let cuts = |cell| window_cuts_per_min(cell).map_or("-".to_owned(), |it| format!("{it:.0}"));
        table.add_row([
            real.cell.to_string(),
            text::parameters(real),
            megabytes(real),
            megabytes(simulated),
            rate,
            p50,
            p99,
            cuts(real),
            cuts(simulated),
            real.late_p99_ns()
                .map_or("-".to_owned(), |ns| format!("{:.2}", ns as f64 / 1e6)),
        ]);
    }
    right(&mut table, [0, 2, 3, 4, 5, 6, 7, 8, 9]);
    print_text(|out| writeln!(out, "\nSimulated against measured:\n{table}\n{summary}"))?;
    Ok(())
}

/// Whether the emulator was too late in this cell for a comparison.
fn is_late(real: &CellResult) -> bool {
    real.late_p99_ns().is_some_and(|ns| ns > MOST_LATE_NS)
}

/// Summarizes the throughput errors of cells, except those with a late emulator.
fn summary(mut errors: Vec<f64>, late: usize) -> String {
    let left_out = match late {
        0 => String::new(),
        late => format!(
            " Left out: {late} cell(s) in which the emulator was more than {} ms late at p99.",
            MOST_LATE_NS / 1_000_000
        ),
    };
    if errors.is_empty() {
        return format!("No cell can be compared.{left_out}");
    }
    errors.sort_by(f64::total_cmp);
    let within = SHARES.map(|(share, words)| {
        let place = (share * errors.len() as f64).ceil() as usize;
        format!("{words} within {:.1} %", errors[place - 1] * 100.0)
    });
    let mean = errors.iter().sum::<f64>() / errors.len() as f64;
    format!(
        "Throughput of {} cell(s) is off by {:.1} % on average: {}.{left_out}",
        errors.len(),
        mean * 100.0,
        within.join(", ")
    )
}

/// Relative error of the simulated value.
fn error(real: Option<f64>, simulated: Option<f64>) -> Option<f64> {
    real.zip(simulated)
        .filter(|(real, _)| *real > 0.0)
        .map(|(real, simulated)| simulated / real - 1.0)
}

fn percent(error: Option<f64>) -> String {
    error.map_or("-".to_owned(), |error| format!("{:+.1} %", error * 100.0))
}

#[cfg(test)]
mod tests {
    use wansan_schema::PathResult;

    use super::*;

    fn cell(asked_and_achieved_ns: &[(u64, u64)]) -> CellResult {
        let path = |&(asked, achieved)| PathResult {
            delay_asked_p99_ns: Some(asked),
            delay_achieved_p99_ns: Some(achieved),
            ..PathResult::default()
        };
        CellResult {
            paths: asked_and_achieved_ns.iter().map(path).collect(),
            ..CellResult::default()
        }
    }

    #[test]
    fn a_cell_is_late_by_its_worst_direction() {
        let on_time = cell(&[(10_000_000, 10_900_000), (10_000_000, 9_000_000)]);
        assert_eq!(on_time.late_p99_ns(), Some(900_000));
        assert!(!is_late(&on_time));
        assert!(is_late(&cell(&[(10_000_000, 10_000_000), (0, 1_000_001)])));
        // Nothing was delayed.
        assert_eq!(cell(&[]).late_p99_ns(), None);
    }

    #[test]
    fn cells_that_were_left_out_are_counted() {
        let text = summary(vec![0.1, 0.02], 3);
        assert!(
            text.starts_with("Throughput of 2 cell(s) is off by 6.0 % on average"),
            "{text}"
        );
        assert!(
            text.ends_with(
                "Left out: 3 cell(s) in which the emulator was more than 1 ms late at p99."
            ),
            "{text}"
        );
        assert!(summary(Vec::new(), 1).starts_with("No cell can be compared. Left out: 1 "));
    }
}
