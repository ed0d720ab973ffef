//! `wansan lab list`: lists runs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use wansan_lab::record::{self, StoredRun};
use wansan_lab::run::control;

use crate::commands::grid::{grid, right};
use crate::commands::{print_json, print_text, remark};

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Directory of run folders
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print the runs as a JSON array
    #[arg(long)]
    json: bool,
}

/// One run in the list.
#[derive(Debug, Serialize)]
struct Listed {
    /// Its name: plan and folder.
    run: String,
    plan: String,
    title: String,
    folder: PathBuf,
    /// Its start; null if not in the manifest.
    began_utc: Option<String>,
    /// Its duration; null if it did not complete.
    took_ns: Option<u64>,
    quick: bool,
    complete: bool,
    /// Whether it is running now.
    running: bool,
    cells: usize,
    expectations_met: usize,
    expectations: usize,
    wansan_version: Option<String>,
}

pub(super) fn run(args: &ListArgs) -> Result<ExitCode> {
    let mut listed = Vec::new();
    for stored in record::list(&args.runs)? {
        match stored {
            Ok(stored) => listed.push(Listed::of(&stored)),
            // One damaged run does not hide the others.
            Err(error) => remark(&format!("wansan: {error}")),
        }
    }
    if args.json {
        print_json(&serde_json::to_string_pretty(&listed)?)?;
    } else if listed.is_empty() {
        print_text(|out| writeln!(out, "no runs in {}", args.runs.display()))?;
    } else {
        print_text(|out| writeln!(out, "{}", table(&listed)))?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Listed {
    fn of(run: &StoredRun) -> Listed {
        let (met, expectations) = run.expectations();
        Listed {
            run: run.name(),
            plan: run.results.plan.clone(),
            title: run.results.title.clone(),
            folder: run.folder.clone(),
            began_utc: run.began_utc(),
            took_ns: run.took_ns(),
            quick: run.results.quick,
            complete: run.is_complete(),
            running: control::is_running(&run.folder),
            cells: run.results.cells.len(),
            expectations_met: met,
            expectations,
            wansan_version: run.manifest.wansan_version.clone(),
        }
    }

    /// Describes the result of the expectations.
    fn judged(&self) -> String {
        match (self.complete, self.expectations) {
            _ if self.running => "running".to_owned(),
            (false, _) => "not completed".to_owned(),
            (true, 0) => "no expectations".to_owned(),
            (true, all) => format!("{} of {all} as expected", self.expectations_met),
        }
    }
}

fn table(listed: &[Listed]) -> String {
    let header = ["run", "start (UTC)", "took", "form", "cells", "outcome"];
    let mut table = grid(header);
    for run in listed {
        table.add_row([
            run.run.clone(),
            run.began_utc.clone().unwrap_or_else(unknown),
            run.took_ns.map_or_else(unknown, length),
            if run.quick { "quick" } else { "whole" }.to_owned(),
            run.cells.to_string(),
            run.judged(),
        ]);
    }
    right(&mut table, [2, 4]);
    table.to_string()
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// Formats a duration to the second.
fn length(ns: u64) -> String {
    let seconds = (ns as f64 / 1e9).round() as u64;
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds:02} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_for_people() {
        assert_eq!(length(59_400_000_000), "59 s");
        assert_eq!(length(61_000_000_000), "1 min 01 s");
    }
}
