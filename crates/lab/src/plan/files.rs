//! The files that a plan names, which are part of its definition.

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest, Sha256};
use toml::Value;

use super::cell::Cell;
use super::document::{JitterTable, PathTable, TextOr};
use super::scenario::listing::Listing;
use super::timeline::Action;
use wansan_mistake::Mistake;

/// A jitter or rate file, as it was when the plan was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanFile {
    /// Its name in the plan.
    pub name: String,
    /// Its contents.
    pub text: String,
}

impl PlanFile {
    /// The SHA-256 of its contents, in hexadecimal.
    #[must_use]
    pub fn sha256(&self) -> String {
        let digest = Sha256::digest(self.text.as_bytes());
        digest.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The files in `folder` named by any of the cells, by name.
pub(super) fn of(cells: &[Cell], folder: &Path) -> Result<Vec<PlanFile>, Mistake> {
    let mut files = BTreeMap::new();
    for cell in cells {
        let of_paths = cell.document.path.iter().flat_map(of_path);
        let statements = cell.timeline.iter().map(|moment| &moment.statement.action);
        for name in of_paths.chain(statements.filter_map(of_action)) {
            if !files.contains_key(name) {
                let text = Listing::read(folder, name).map_err(Mistake::new)?.text;
                files.insert(name.to_owned(), text);
            }
        }
    }
    let file = |(name, text)| PlanFile { name, text };
    Ok(files.into_iter().map(file).collect())
}

fn of_path(path: &PathTable) -> Vec<&str> {
    let both = (path.jitter.as_ref(), path.rate.as_ref());
    let directions = [&path.forward, &path.back].into_iter().flatten();
    let of_directions = directions.map(|table| (table.jitter.as_ref(), table.rate.as_ref()));
    let mut names = Vec::new();
    for (jitter, rate) in std::iter::once(both).chain(of_directions) {
        if let Some(TextOr::Table(JitterTable::File { file, .. })) = jitter {
            names.push(file.as_str());
        }
        if let Some(TextOr::Table(trace)) = rate {
            names.push(trace.file.as_str());
        }
    }
    names
}

/// `upper.rate = { file = "rates.csv" }`, or `upper.rate.file = rates.csv`.
fn of_action(action: &Action) -> Option<&str> {
    match action {
        Action::Set {
            value: Value::Table(table),
            ..
        } => table.get("file")?.as_str(),
        Action::Set { key, value, .. } if key.ends_with(".file") => value.as_str(),
        _ => None,
    }
}
