//! `wansan lab export`: a run's cells for other tools.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use wansan_lab::record::{CellTable, StoredRun};

use crate::commands::print_json;

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// Output format
    format: Format,
    /// A run folder, a plan's name (its newest run), or a prefix of a run's name
    run: String,
    /// Output file [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Directory of run folders
    #[arg(long, value_name = "DIR", default_value = "runs")]
    runs: PathBuf,
    /// Print what was written as JSON
    #[arg(long, requires = "out")]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// Comma-separated values with a header (RFC 4180)
    Csv,
    /// Parquet, for pandas, DuckDB, Spark and the like
    Parquet,
}

pub(super) fn run(args: &ExportArgs) -> Result<ExitCode> {
    let run = StoredRun::find(&args.runs, &args.run)?;
    let table = CellTable::of(&run.results);
    let mut bytes = Vec::new();
    match args.format {
        Format::Csv => table.write_csv(&mut bytes)?,
        Format::Parquet => table.write_parquet(&mut bytes)?,
    }
    match &args.out {
        Some(file) => {
            fs::write(file, &bytes).with_context(|| format!("cannot write {}", file.display()))?;
        }
        None if matches!(args.format, Format::Parquet) && io::stdout().is_terminal() => {
            bail!("Parquet is not for a terminal: name a file with `--out`");
        }
        None => match io::stdout().write_all(&bytes) {
            // A reader that has gone away has seen what it wanted.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                return Err(error).context("cannot write to standard output");
            }
            _ => {}
        },
    }
    if args.json {
        let columns: Vec<&str> = table.names().collect();
        let said = json!({
            "run": run.name(), "file": args.out, "rows": run.results.cells.len(),
            "columns": columns,
        });
        print_json(&said.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
