//! A plan's results in two worlds, side by side.

use anyhow::Result;
use serde_json::{Value, json};
use wansan_lab::run::Outcome;
use wansan_schema::CellResult;

use super::super::grid::{grid, right};
use super::super::{print_json, print_text};
use super::text;

/// What is compared of a cell: its name, and its value if the cell has one.
type Figure = (&'static str, fn(&CellResult) -> Option<f64>);

const FIGURES: [Figure; 3] = [
    ("iops", |cell| cell.iops),
    ("latency_p50_ns", |cell| {
        cell.latency_p50_ns.map(|ns| ns as f64)
    }),
    ("latency_p99_ns", |cell| {
        cell.latency_p99_ns.map(|ns| ns as f64)
    }),
];

/// Prints by how much the simulated cells differ from the real ones.
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
                json!({"cell": real.cell, "parameters": real.parameters, "figures": figures})
            })
            .collect();
        let folders = json!({
            "netns": real.folder, "sim": simulated.folder, "cells": cells,
        });
        return print_json(&serde_json::to_string_pretty(&folders)?);
    }
    let mut table = grid([
        "cell",
        "parameters",
        "IOPS",
        "simulated",
        "error",
        "p50 error",
        "p99 error",
    ]);
    for (real, simulated) in cells {
        let errors = FIGURES.map(|(_, of)| percent(error(of(real), of(simulated))));
        let [iops, p50, p99] = errors;
        let whole = |value: Option<f64>| value.map_or("-".to_owned(), |it| format!("{it:.0}"));
        table.add_row([
            real.cell.to_string(),
            text::parameters(real),
            whole(real.iops),
            whole(simulated.iops),
            iops,
            p50,
            p99,
        ]);
    }
    right(&mut table, [0, 2, 3, 4, 5, 6]);
    print_text(|out| writeln!(out, "\nSimulated against measured:\n{table}"))?;
    Ok(())
}

/// By how much the simulated value is more than the real one, as a share of that.
fn error(real: Option<f64>, simulated: Option<f64>) -> Option<f64> {
    real.zip(simulated)
        .filter(|(real, _)| *real > 0.0)
        .map(|(real, simulated)| simulated / real - 1.0)
}

fn percent(error: Option<f64>) -> String {
    error.map_or("-".to_owned(), |error| format!("{:+.1} %", error * 100.0))
}
