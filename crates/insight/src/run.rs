//! Reads the index of a run folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use wansan_trace::event::{Crossing, Packet, Path as PathSample, Pdu, Tcp};
use wansan_trace::file::Kind as _;

use crate::cell::{Cell, ReadError};
use crate::finding::Observed;
use crate::summary::summarise;
use crate::window::Window;

/// A run folder's index: which cells there are and what was varied.
///
/// Records are read cell by cell, when they are asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// The folder.
    pub folder: PathBuf,
    /// The cells in the order in which they ran.
    pub cells: Vec<RunCell>,
    /// Whether the folder itself holds the records, of one cell, instead of a folder for each.
    holds_records: bool,
}

/// One cell of a run.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RunCell {
    /// Its number.
    pub cell: u64,
    /// "planned", or "advised" when the finding's advice was applied.
    #[serde(default = "planned")]
    pub phase: String,
    /// What was varied, by dotted name.
    #[serde(default)]
    pub parameters: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    failure: Option<String>,
    #[serde(default)]
    measured_from_ns: Option<u64>,
    #[serde(default)]
    measured_to_ns: Option<u64>,
}

fn planned() -> String {
    "planned".to_owned()
}

impl RunCell {
    /// The time that the load generators measured, without warm-up, if the index says it.
    #[must_use]
    pub fn window(&self) -> Option<Window> {
        Some(Window {
            from_ns: self.measured_from_ns?,
            to_ns: self.measured_to_ns?,
        })
    }
}

/// The part of `results.json` that an explanation may look at: never the results themselves.
#[derive(Deserialize)]
struct Index {
    cells: Vec<RunCell>,
}

impl Run {
    /// Reads the index of a run folder. A folder without `results.json`, as an interrupted run
    /// leaves it, is read by its `cell-NNN` folders. A single cell's folder is a run of one, and so
    /// is one into which programs were told to record by hand.
    ///
    /// # Errors
    /// [`ReadError`] when there is no run in that folder or its index does not parse.
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
        let cell = |cell| RunCell {
            cell,
            phase: planned(),
            parameters: BTreeMap::new(),
            failure: None,
            measured_from_ns: None,
            measured_to_ns: None,
        };
        Ok(Run {
            folder: folder.to_owned(),
            cells: if holds_records {
                vec![cell(0)]
            } else {
                numbers.into_iter().map(cell).collect()
            },
            holds_records,
        })
    }

    /// Where a cell's records are.
    ///
    /// # Errors
    /// [`ReadError::NoCell`] when there is no such folder.
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

    /// Reads a cell's records and puts them into numbers.
    ///
    /// # Errors
    /// [`ReadError`] when the records cannot be read, or are not of the time that was measured.
    pub fn observe(&self, cell: &RunCell) -> Result<Observed, ReadError> {
        let folder = self.cell_folder(cell)?;
        let records = Cell::read(&folder)?;
        if let Some(measured) = cell.window() {
            records.check_measured(&folder, measured)?;
        }
        Ok(Observed {
            cell: cell.cell,
            parameters: cell.parameters.clone(),
            summary: summarise(&records, cell.window()),
        })
    }

    /// All cells of a phase ("planned" or "advised") that did not fail, one after the other.
    ///
    /// # Errors
    /// [`ReadError`] when the records of one cannot be read.
    pub fn observe_phase(&self, phase: &str) -> Result<Vec<Observed>, ReadError> {
        self.cells
            .iter()
            .filter(|cell| cell.phase == phase && cell.failure.is_none())
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
    let parsed: Index = serde_json::from_str(&text)
        .map_err(|error| wrong(format!("not a run's index: {error}")))?;
    Ok(Run {
        folder: folder.to_owned(),
        cells: parsed.cells,
        holds_records: false,
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

/// Whether the folder holds records itself, of whatever kind: merged, or in parts. That those of
/// I/Os are missing shows when they are read.
fn holds_records(folder: &Path) -> Result<bool, ReadError> {
    let kinds = [
        Crossing::NAME,
        Pdu::NAME,
        Tcp::NAME,
        Packet::NAME,
        PathSample::NAME,
    ];
    let file = |name: &String| {
        let kind = name
            .strip_suffix(".parquet")
            .and_then(|name| name.split('.').next());
        kind.is_some_and(|kind| kinds.contains(&kind))
    };
    Ok(names(folder, Path::is_file)?.iter().any(file))
}

fn subfolders(folder: &Path) -> Result<Vec<String>, ReadError> {
    names(folder, Path::is_dir)
}

/// The names of what is in a folder and of the wanted sort, sorted.
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
        assert_eq!(read.cells[0].window(), Some(window));
        assert_eq!(read.cells[0].phase, "planned");
        assert_eq!(read.cells[1].window(), None);
        let missing = read.observe(&read.cells[1]).unwrap_err().to_string();
        assert!(
            missing.contains(&run.display().to_string()) && missing.contains("cell-001"),
            "{missing}"
        );

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
