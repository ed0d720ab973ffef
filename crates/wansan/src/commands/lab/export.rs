//! `wansan lab export`: a run's cells for other tools.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use wansan_insight::{Cell, Run};
use wansan_lab::record::{CellTable, StoredRun, write_perfetto};

use crate::commands::print_json;

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// Output format
    format: Format,
    /// A run folder, a plan's name (its newest run), or a prefix of a run's name
    run: String,
    /// With perfetto: the cell
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    cell: u64,
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
    /// The I/Os of one cell through their layers on a timeline, with TCP and paths, for ui.perfetto.dev
    Perfetto,
}

pub(super) fn run(args: &ExportArgs) -> Result<ExitCode> {
    let run = StoredRun::find(&args.runs, &args.run)?;
    let table = CellTable::of(&run.results);
    let mut bytes = Vec::new();
    match args.format {
        Format::Csv => table.write_csv(&mut bytes)?,
        Format::Parquet => table.write_parquet(&mut bytes)?,
        Format::Perfetto => {
            let records = Run::read(&run.folder)?;
            let known = records.cells.iter().find(|cell| cell.cell == args.cell);
            let known = known.with_context(|| {
                format!(
                    "{} has no cell {}: give another with --cell",
                    run.name(),
                    args.cell
                )
            })?;
            let cell = Cell::read(&records.cell_folder(known)?)?;
            write_perfetto(&cell, &mut bytes)?;
        }
    }
    match &args.out {
        Some(file) => {
            fs::write(file, &bytes).with_context(|| format!("cannot write {}", file.display()))?;
        }
        None if !matches!(args.format, Format::Csv) && io::stdout().is_terminal() => {
            bail!("this format is not for a terminal: name a file with `--out`");
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
        let said = match args.format {
            Format::Perfetto => json!({
                "run": run.name(), "file": args.out, "cell": args.cell, "bytes": bytes.len(),
            }),
            Format::Csv | Format::Parquet => json!({
                "run": run.name(), "file": args.out, "rows": run.results.cells.len(),
                "columns": columns,
            }),
        };
        print_json(&said.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}
