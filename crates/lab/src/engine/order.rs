//! The order for a cell, which its program reads from standard input, and the answer: build and host facts on standard
//! output, and the result in the cell's folder.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Component, Path};

use serde::{Deserialize, Serialize};
use wansan_insight::finding::Observed;
use wansan_insight::report::CellCharts;
use wansan_schema::{CellFacts, CellResult, ClockAnchor, Machine};

use super::EngineError;
use crate::plan::{Cell, Plan};
use crate::record::{clock_anchor, machine};

/// Longest order: a plan of the largest size and its files.
pub(crate) const MAX_ORDER_BYTES: u64 = 256 << 20;
/// The answer's file name in the cell's folder.
const ANSWER: &str = "answer.json";

/// A cell to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// What is known before it runs: its number and labels.
    pub(crate) known: CellResult,
    /// The resolved plan of this cell alone, as TOML.
    pub(crate) document: String,
    /// The files that the plan names.
    pub(crate) files: BTreeMap<String, String>,
    /// Number of cells in its run, which determines the resolution of charts.
    pub(crate) cells: usize,
    /// Time limit, if it is simulated.
    pub(crate) budget_ns: Option<u64>,
}

impl Order {
    /// The order for a cell of a plan.
    pub(crate) fn of(
        known: CellResult,
        cell: &Cell,
        plan: &Plan,
        cells: usize,
        budget_ns: Option<u64>,
    ) -> Order {
        let files = plan.files().iter();
        Order {
            known,
            document: cell.document.to_toml(),
            files: files
                .map(|file| (file.name.clone(), file.text.clone()))
                .collect(),
            cells,
            budget_ns,
        }
    }

    /// Checks that every file of the plan can be sent with it.
    ///
    /// # Errors
    /// [`EngineError::FileElsewhere`].
    pub(crate) fn check_files(plan: &Plan) -> Result<(), EngineError> {
        match plan.files().iter().find(|file| !is_below(&file.name)) {
            Some(file) => Err(EngineError::FileElsewhere {
                name: file.name.clone(),
            }),
            None => Ok(()),
        }
    }
}

/// Writes the files of a plan into a folder, by name.
///
/// # Errors
/// File system errors, and names that leave the folder.
pub(crate) fn unpack(files: &BTreeMap<String, String>, folder: &Path) -> io::Result<()> {
    for (name, text) in files {
        if !is_below(name) {
            return Err(io::Error::other(format!(
                "the file `{name}` is not below its plan"
            )));
        }
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(path, text)?;
    }
    Ok(())
}

/// Whether `name` is in the plan's folder or below it.
fn is_below(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// The greeting of a program that will run a cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) version: String,
    pub(crate) commit: String,
    pub(crate) machine: Machine,
    pub(crate) clock_anchor: ClockAnchor,
}

impl Hello {
    /// The greeting of this program.
    pub(crate) fn here() -> Hello {
        Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("WANSAN_COMMIT").to_owned(),
            machine: machine(),
            clock_anchor: clock_anchor(),
        }
    }

    /// Its version and commit.
    pub(crate) fn build(&self) -> String {
        format!("{} ({})", self.version, self.commit)
    }
}

/// Result of a cell, besides its records.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// Facts about what was built and started.
    pub(crate) facts: CellFacts,
    /// Its results; partial if it failed.
    pub(crate) result: CellResult,
    /// The failure, if any.
    pub(crate) failure: Option<String>,
    /// The explanation of its I/O records, if any.
    pub(crate) explained: Option<(Observed, CellCharts)>,
}

impl Answer {
    /// Writes it to the cell's folder.
    ///
    /// # Errors
    /// File system errors.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join(ANSWER), serde_json::to_vec(self)?)
    }

    /// Reads it from the cell's folder and removes it.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn take(folder: &Path) -> io::Result<Answer> {
        let file = folder.join(ANSWER);
        let answer = serde_json::from_slice(&fs::read(&file)?)?;
        fs::remove_file(&file)?;
        Ok(answer)
    }
}
