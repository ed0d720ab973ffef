//! The order for a cell, which its program reads from standard input, and the answer: its build and computer on standard
//! output, and the outcome in the cell's folder.

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

/// The longest order: a plan of the greatest length and its files.
pub(crate) const MAX_ORDER_BYTES: u64 = 256 << 20;
/// Where the answer is, in the cell's folder.
const ANSWER: &str = "answer.json";

/// A cell to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Order {
    /// What is known of it before it runs: its number, and what labels it.
    pub(crate) known: CellResult,
    /// The plan of this cell alone, resolved, as TOML.
    pub(crate) document: String,
    /// The files that the plan names.
    pub(crate) files: BTreeMap<String, String>,
    /// How many cells its run has: how finely it is drawn.
    pub(crate) cells: usize,
    /// How long it may take, if it is simulated.
    pub(crate) budget_ns: Option<u64>,
}

impl Order {
    /// To run that cell of a plan.
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

    /// Whether every file of the plan can go with it.
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

/// Writes the files of a plan, by their names, into a folder.
///
/// # Errors
/// Those of the file system; and a name that leads elsewhere.
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

/// Whether a file of that name is in the plan's folder, or in one below.
fn is_below(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    parts.all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// What a program says that is to run a cell.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) version: String,
    pub(crate) commit: String,
    pub(crate) machine: Machine,
    pub(crate) clock_anchor: ClockAnchor,
}

impl Hello {
    /// What this program says.
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

/// What has become of a cell, beside its records.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    /// What was built and started.
    pub(crate) facts: CellFacts,
    /// Its numbers; of one that failed, what is known all the same.
    pub(crate) result: CellResult,
    /// Why it failed, if it did.
    pub(crate) failure: Option<String>,
    /// What its records say, if they are of I/Os.
    pub(crate) explained: Option<(Observed, CellCharts)>,
}

impl Answer {
    /// Leaves it in the cell's folder.
    ///
    /// # Errors
    /// Those of the file system.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join(ANSWER), serde_json::to_vec(self)?)
    }

    /// Takes it out of the cell's folder.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) fn take(folder: &Path) -> io::Result<Answer> {
        let file = folder.join(ANSWER);
        let answer = serde_json::from_slice(&fs::read(&file)?)?;
        fs::remove_file(&file)?;
        Ok(answer)
    }
}
