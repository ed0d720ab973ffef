//! `wansan lab export`: exports a run's cells for other tools.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::json;
use wansan_insight::{Cell, Run};
use wansan_lab::record::{CellTable, StoredRun, write_lake, write_perfetto};

use crate::commands::measuring::bar;
use crate::commands::{print_json, print_text};

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// Output format
    format: Format,
    /// A run folder, a plan's name (its newest run), or a prefix of a run's name; with lake also a folder that
    /// programs have recorded into
    run: String,
    /// With perfetto: the cell
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    cell: u64,
    /// Output file [default: standard output]; with lake its folder
    #[arg(long, value_name = "FILE", required_if_eq("format", "lake"))]
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
    /// A part of a partitioned Parquet data set with the records and waits of many recordings, for SQL engines
    Lake,
}

pub(super) fn run(args: &ExportArgs) -> Result<ExitCode> {
    if let (Format::Lake, Some(lake)) = (args.format, &args.out) {
        return add_to_lake(args, lake);
    }
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
        Format::Lake => unreachable!("it has a folder, and is written there"),
    }
    match &args.out {
        Some(file) => {
            fs::write(file, &bytes).with_context(|| format!("cannot write {}", file.display()))?;
        }
        None if !matches!(args.format, Format::Csv) && io::stdout().is_terminal() => {
            bail!("this format is not for a terminal: name a file with `--out`");
        }
        None => match io::stdout().write_all(&bytes) {
            // A closed reader is not an error.
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
            Format::Csv | Format::Parquet | Format::Lake => json!({
                "run": run.name(), "file": args.out, "rows": run.results.cells.len(),
                "columns": columns,
            }),
        };
        print_json(&said.to_string())?;
    }
    Ok(ExitCode::SUCCESS)
}

fn add_to_lake(args: &ExportArgs, lake: &Path) -> Result<ExitCode> {
    let named = Path::new(&args.run);
    let recording = match named.is_dir() {
        true => named.to_owned(),
        false => StoredRun::folder_of(&args.runs, &args.run)?,
    };
    let bar = bar(args.json);
    bar.set_message("cells");
    let written = write_lake(&recording, lake, &mut |ended, cells| {
        bar.set_length(cells as u64);
        bar.set_position(ended as u64);
    });
    bar.finish_and_clear();
    let written = written?;
    if args.json {
        let said = json!({"recording": recording, "lake": lake, "written": written});
        print_json(&said.to_string())?;
    } else {
        let records = written.records.iter();
        let records: Vec<String> = records
            .map(|(kind, rows)| format!("{rows} {kind}"))
            .collect();
        let sessions = written.sessions;
        print_text(|out| {
            writeln!(
                out,
                "{}: {sessions} sessions; records: {}",
                recording.display(),
                records.join(", ")
            )
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
