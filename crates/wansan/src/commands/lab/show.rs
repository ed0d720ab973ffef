//! `wansan lab show`: prints a run as when it ended.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use wansan_lab::plan::Phase;
use wansan_lab::record::StoredRun;

use super::{conclude, text};
use crate::commands::{print_json, print_text};

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// A run folder, a plan's name (its newest run), or a prefix of a run's name
    run: String,
    /// Directory of run folders
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print results.json
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &ShowArgs) -> Result<ExitCode> {
    let run = StoredRun::find(&args.runs, &args.run)?;
    if args.json {
        let results = std::fs::read_to_string(run.folder.join("results.json"))?;
        print_json(&results)?;
        return Ok(ExitCode::SUCCESS);
    }
    print_text(|out| {
        let results = &run.results;
        let quick = if results.quick { " (quick form)" } else { "" };
        writeln!(out, "{}{quick}\n", results.title)?;
        writeln!(out, "{}", text::table(results, Phase::Planned))?;
        match &results.finding {
            Some(finding) => writeln!(out, "{}", text::finding(finding))?,
            None if results.is_judged_without_ios => {}
            None => writeln!(out, "The run ended without a finding.\n")?,
        }
        out.write_all(text::changes(results).as_bytes())?;
        out.write_all(text::router_drops(results).as_bytes())?;
        for cell in &results.cells {
            if let Some(failure) = &cell.failure {
                writeln!(out, "cell {} failed: {failure}", cell.cell)?;
            }
        }
        conclude(out, results, &run.folder)
    })?;
    Ok(ExitCode::SUCCESS)
}
