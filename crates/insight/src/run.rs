//! Reads the index of a run folder.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use wansan_schema::{CellResult, Parameters, PathChange, Results};
use wansan_trace::event::{Crossing, Packet, Path as PathSample, Pdu, Request, Stamp, Tcp, Thread};
use wansan_trace::file::{self, Kind as _, Table};

use crate::cell::Cell;
use crate::finding::Observed;
use crate::read::ReadError;
use crate::summary::summarise;
use crate::window::Window;

/// A run folder's index: its cells and what was varied.
///
/// Records are read cell by cell, on request.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The folder.
    pub folder: PathBuf,
    /// The cells in the order in which they ran.
    pub cells: Vec<RunCell>,
    /// Whether the folder itself holds the records of one cell, instead of one folder per cell.
    holds_records: bool,
}

/// One cell of a run: the part of its results that an explanation may use, never the measured numbers.
#[derive(Debug, Clone, PartialEq)]
pub struct RunCell {
    /// Its number.
    pub cell: u64,
    /// "planned", or "advised" when the finding's advice was applied.
    pub phase: String,
    /// What was varied, by dotted name.
    pub parameters: Parameters,
    /// Why it failed, if it did.
    pub failure: Option<String>,
    /// The time that the load generators measured, without warm-up, if the index has it.
    pub window: Option<Window>,
    /// Changes to its paths meanwhile.
    pub changes: Vec<PathChange>,
}

impl From<CellResult> for RunCell {
    fn from(cell: CellResult) -> RunCell {
        let window = |[from_ns, to_ns]: [u64; 2]| Window { from_ns, to_ns };
        RunCell {
            window: cell.measured_ns().map(window),
            cell: cell.cell,
            phase: cell.phase,
            parameters: cell.parameters,
            failure: cell.failure,
            changes: cell.timeline,
        }
    }
}

/// A cell and the TCP records of its connections.
pub type CellTcp<'a> = (&'a RunCell, Table<Tcp>);

impl Run {
    /// Reads the index of a run folder. A folder without `results.json`, as left by an interrupted run, is read by its
    /// `cell-NNN` folders. A single cell's folder, failed or not, is a run of one cell, and so is a folder into which
    /// programs recorded by hand.
    ///
    /// # Errors
    /// [`ReadError`] if the folder holds no run or its index does not parse.
    pub fn read(folder: &Path) -> Result<Run, ReadError> {
        let index = folder.join("results.json");
        if index.exists() {
            return read_index(folder, &index);
        }
        let numbers = cell_numbers(folder)?;
        let holds_records = holds_records(folder)?;
        if numbers.is_empty() && !holds_records {
            return Err(ReadError::NotARun {
                path: folder.to_owned(),
                reason: not_a_run(folder),
            });
        }
        let cell = |cell| {
            let unknown = CellResult::default();
            RunCell::from(CellResult { cell, ..unknown })
        };
        Ok(Run {
            folder: folder.to_owned(),
            cells: if holds_records {
                vec![indexed(folder).unwrap_or_else(|| cell(0))]
            } else {
                numbers.into_iter().map(cell).collect()
            },
            holds_records,
        })
    }

    /// Where a cell's records are.
    ///
    /// # Errors
    /// [`ReadError::NoCell`] if there is no such folder.
    pub fn cell_folder(&self, cell: &RunCell) -> Result<PathBuf, ReadError> {
        if self.holds_records {
            return Ok(self.folder.clone());
        }
        let folder = self.folder.join(format!("cell-{:03}", cell.cell));
        if folder.is_dir() {
            return Ok(folder);
        }
        Err(ReadError::NoCell {
            run: self.folder.clone(),
            cell: cell.cell,
        })
    }

    /// The TCP records if the folder holds no other kind, as after `wansan watch --record`; otherwise `None`.
    ///
    /// # Errors
    /// [`ReadError`] if the folder or the records cannot be read.
    pub fn tcp_alone(&self) -> Result<Option<Table<Tcp>>, ReadError> {
        let has_others = |kinds: &BTreeSet<&str>| kinds.iter().any(|kind| *kind != Tcp::NAME);
        if !self.holds_records || has_others(&kinds(&self.folder)?) {
            return Ok(None);
        }
        Ok(file::read_folder(&self.folder)?)
    }

    /// The TCP records of each planned cell that did not fail, if the run measured streams and no I/Os; otherwise
    /// `None`.
    ///
    /// # Errors
    /// [`ReadError`] if the folder or the records cannot be read.
    pub fn streams_alone(&self) -> Result<Option<Vec<CellTcp<'_>>>, ReadError> {
        let done = |cell: &&RunCell| cell.phase == "planned" && cell.failure.is_none();
        let mut tables = Vec::new();
        for cell in self.cells.iter().filter(done) {
            let folder = self.cell_folder(cell)?;
            if kinds(&folder)?.contains(Crossing::NAME) {
                return Ok(None);
            }
            let Some(table) = file::read_folder(&folder)? else {
                return Ok(None);
            };
            tables.push((cell, table));
        }
        Ok((!tables.is_empty()).then_some(tables))
    }

    /// Reads a cell's records and summarises them.
    ///
    /// # Errors
    /// [`ReadError`] if the records cannot be read, or do not cover the measured time.
    pub fn observe(&self, cell: &RunCell) -> Result<Observed, ReadError> {
        let folder = self.cell_folder(cell)?;
        let records = Cell::read(&folder)?;
        if let Some(measured) = cell.window {
            records.check_measured(&folder, measured)?;
        }
        Ok(Observed {
            cell: cell.cell,
            parameters: cell.parameters.clone(),
            summary: summarise(&records, cell.window),
        })
    }

    /// All cells of a phase ("planned" or "advised") that did not fail, in order. A failed cell whose own folder was
    /// given is included: its failure is what the user asks about.
    ///
    /// # Errors
    /// [`ReadError`] if the records of one cannot be read.
    pub fn observe_phase(&self, phase: &str) -> Result<Vec<Observed>, ReadError> {
        self.cells
            .iter()
            .filter(|cell| cell.phase == phase)
            .filter(|cell| cell.failure.is_none() || self.holds_records)
            .map(|cell| self.observe(cell))
            .collect()
    }
}

fn read_index(folder: &Path, index: &Path) -> Result<Run, ReadError> {
    let wrong = |reason: String| ReadError::NotARun {
        path: index.to_owned(),
        reason,
    };
    let text = fs::read_to_string(index).map_err(|error| wrong(error.to_string()))?;
    let parsed =
        Results::from_json(&text).map_err(|error| wrong(format!("not a run's index: {error}")))?;
    Ok(Run {
        folder: folder.to_owned(),
        cells: parsed.cells.into_iter().map(RunCell::from).collect(),
        holds_records: false,
    })
}

/// The entry for `folder` in its run's index, if it is the folder of a run's cell.
fn indexed(folder: &Path) -> Option<RunCell> {
    let folder = folder.canonicalize().ok()?;
    let number: u64 = folder
        .file_name()?
        .to_str()?
        .strip_prefix("cell-")?
        .parse()
        .ok()?;
    let run = folder.parent()?;
    let cells = read_index(run, &run.join("results.json")).ok()?.cells;
    let found = cells.into_iter().find(|cell| cell.cell == number)?;
    Some(RunCell {
        phase: "planned".to_owned(),
        ..found
    })
}

/// The numbers of the `cell-NNN` folders in a folder, sorted.
fn cell_numbers(folder: &Path) -> Result<Vec<u64>, ReadError> {
    let mut numbers: Vec<u64> = subfolders(folder)?
        .iter()
        .filter_map(|name| name.strip_prefix("cell-")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Whether the folder itself holds records of any kind, merged or in parts. Missing I/O records are reported when they
/// are read.
fn holds_records(folder: &Path) -> Result<bool, ReadError> {
    Ok(!kinds(folder)?.is_empty())
}

/// The kinds of records in the folder itself.
fn kinds(folder: &Path) -> Result<BTreeSet<&'static str>, ReadError> {
    let all = [
        Crossing::NAME,
        Pdu::NAME,
        Tcp::NAME,
        Stamp::NAME,
        Packet::NAME,
        PathSample::NAME,
        Thread::NAME,
        Request::NAME,
    ];
    let kind_of = |name: &String| {
        let kind = name.strip_suffix(".parquet")?.split('.').next()?;
        all.into_iter().find(|known| *known == kind)
    };
    let names = names(folder, Path::is_file)?;
    Ok(names.iter().filter_map(kind_of).collect())
}

fn subfolders(folder: &Path) -> Result<Vec<String>, ReadError> {
    names(folder, Path::is_dir)
}

/// The names of the entries of a folder that are of the wanted type, sorted.
fn names(folder: &Path, wanted: fn(&Path) -> bool) -> Result<Vec<String>, ReadError> {
    let wrong = |error: std::io::Error| ReadError::NotARun {
        path: folder.to_owned(),
        reason: error.to_string(),
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        if wanted(&entry.path()) {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Says what is missing, and names a run folder below if there is one.
fn not_a_run(folder: &Path) -> String {
    let below = subfolders(folder).unwrap_or_default();
    let run = below
        .iter()
        .rev()
        .find(|name| folder.join(name).join("results.json").exists());
    match run {
        Some(run) => format!(
            "not a run folder; did you mean {}?",
            folder.join(run).display()
        ),
        None => "not a run folder: it has neither results.json nor cell-000 nor records \
                 (io.parquet, or io.HOST.part.parquet, which programs write when they end)"
            .into(),
    }
}

#[cfg(test)]
#[expect(
    clippy::disallowed_methods,
    reason = "the tests make the run folders that they read"
)]
mod tests {
    use super::*;

    #[test]
    fn only_the_index_is_taken_from_the_results() {
        let folder = std::env::temp_dir().join(format!("wansan-run-{}", std::process::id()));
        let run = folder.join("2026-01-01");
        fs::create_dir_all(&run).unwrap();
        let results = r#"{"plan": "p2", "title": "t", "finding": {"limit": "store"}, "cells": [
            {"cell": 0, "parameters": {"initiator.parallel": 16}, "repeat": 0, "iops": 1.5,
             "measured_from_ns": 5, "measured_to_ns": 9},
            {"cell": 1, "phase": "advised", "parameters": {"initiator.parallel": 16}}]}"#;
        fs::write(run.join("results.json"), results).unwrap();
        let read = Run::read(&run).unwrap();
        let window = Window {
            from_ns: 5,
            to_ns: 9,
        };
        assert_eq!(read.cells[0].window, Some(window));
        assert_eq!(read.cells[0].phase, "planned");
        assert_eq!(read.cells[1].window, None);
        let missing = read.observe(&read.cells[1]).unwrap_err().to_string();
        assert!(
            missing.contains(&run.display().to_string()) && missing.contains("cell-001"),
            "{missing}"
        );

        // A cell's own folder is read with its index entry, and is included though it failed.
        let cell = run.join("cell-001");
        fs::create_dir(&cell).unwrap();
        fs::write(cell.join("io.parquet"), "").unwrap();
        let failed = results.replace(
            "\"advised\"",
            "\"advised\", \"failure\": \"no target\", \"timeline\": \
            [{\"statement\": \"upper down\", \"asked_by\": \"hand\", \"made_after_ns\": 7}]",
        );
        fs::write(run.join("results.json"), failed).unwrap();
        assert!(Run::read(&run).unwrap().cells[1].failure.is_some());
        let alone = Run::read(&cell).unwrap();
        let [only] = &alone.cells[..] else {
            panic!("{alone:?}")
        };
        assert_eq!((only.cell, only.phase.as_str()), (1, "planned"));
        assert_eq!(only.failure.as_deref(), Some("no target"));
        assert_eq!(only.changes[0].statement, "upper down");
        assert_eq!(alone.cell_folder(only).unwrap(), cell);

        let error = Run::read(&folder).unwrap_err().to_string();
        assert!(error.contains("did you mean") && error.contains("2026-01-01"));
        fs::write(run.join("results.json"), "{").unwrap();
        let error = Run::read(&run).unwrap_err().to_string();
        assert!(
            error.contains("results.json") && !error.contains('\n'),
            "{error}"
        );
        fs::remove_dir_all(&folder).unwrap();
        let gone = Run::read(&folder).unwrap_err().to_string();
        assert!(!gone.contains('\n'), "{gone}");
    }
}
