//! The state of a cell's paths at a time, and the changes that a statement makes.

use std::path::{Path, PathBuf};

use toml::{Table, Value};
use wansan_mistake::{Mistake, nearest};
use wansan_path::Change;

use super::document::{self, Document};
use super::parameter::Parameter;
use super::scenario::{Direction, Link, Scenario};
use super::timeline::{Action, Side, Statement};

/// Keys of a path that can be changed during a run.
const KEYS: [&str; 9] = [
    "delay",
    "jitter",
    "rate",
    "queue",
    "loss",
    "reorder",
    "duplicate",
    "corrupt",
    "mark",
];
/// Keys that cannot.
const FIXED: [&str; 4] = ["name", "between", "overhead", "capture"];

/// The state of a cell's paths according to its plan and the statements so far.
#[derive(Debug, Clone, PartialEq)]
pub struct Conditions {
    /// The plan with all of them applied.
    table: Table,
    /// The folder of the files that it names.
    folder: PathBuf,
    links: Vec<Link>,
}

/// Changes to one direction of a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Amendment {
    /// The direction's name, such as `upper:forward`.
    pub direction: String,
    /// The changes, in order; at least one.
    pub changes: Vec<Change>,
}

impl Conditions {
    /// The state at the start of a cell.
    pub(super) fn begin(
        document: &Document,
        scenario: &Scenario,
        folder: &Path,
    ) -> Result<Conditions, Mistake> {
        Ok(Conditions {
            table: document::to_table(document)?,
            folder: folder.to_owned(),
            links: scenario.links.clone(),
        })
    }

    /// The folder of the files that it names.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Applies `statement` and returns its changes: none if everything is so already. A statement about both directions
    /// overrides earlier ones about a single direction.
    ///
    /// # Errors
    /// [`Mistake`] if there is no such path or key, or it does not accept the value during a run; then nothing is
    /// changed.
    pub fn change(&mut self, statement: &Statement) -> Result<Vec<Amendment>, Mistake> {
        let path = &statement.path;
        let names: Vec<&str> = self.links.iter().map(|link| link.name.as_str()).collect();
        let Some(place) = names.iter().position(|name| name == path) else {
            return Err(Mistake::new(format!(
                "there is no path `{path}`; {}",
                nearest(path, &names)
            )));
        };
        let link = &self.links[place];
        if link.wire {
            return Err(Mistake::new(format!(
                "path `{path}` is a wire: give it an effect in the plan, \
                 such as `delay = \"0ms\"`"
            )));
        }
        let both = |change: Change| {
            Side::BOTH.map(|side| Amendment {
                direction: side.of(path),
                changes: vec![change.clone()],
            })
        };
        let (side, key, value) = match &statement.action {
            Action::Down => return Ok(both(Change::Down).into()),
            Action::Up => return Ok(both(Change::Up).into()),
            Action::Set { side, key, value } => (*side, key, value),
        };
        check(key)?;
        let mut table = self.table.clone();
        // Report mistakes in it as those of a plan's `[[path]]`.
        let own = |mistake: Mistake| Mistake {
            text: mistake
                .text
                .replace(&format!("`path.{path}."), "`path.")
                .replace("`path.", &format!("`{path}."))
                .replace("[path", &format!("[{path}")),
            ..mistake
        };
        set(&mut table, path, side, key, value).map_err(own)?;
        let document = document::from_table(&table).map_err(own)?;
        let after = Scenario::resolve(&document, "", &self.folder)?;
        let mut link = link.clone();
        let mut amendments = Vec::new();
        for side in Side::BOTH {
            let (before, after) = match side {
                Side::Forward => (&mut link.forward, &after.links[place].forward),
                Side::Back => (&mut link.back, &after.links[place].back),
            };
            let changes = changes(before, after).ok_or_else(|| {
                Mistake::new(format!(
                    "path `{path}`: the kind of its queue cannot be changed while it runs, only \
                     what it holds"
                ))
            })?;
            before.clone_from(after);
            if !changes.is_empty() {
                amendments.push(Amendment {
                    direction: side.of(path),
                    changes,
                });
            }
        }
        self.table = table;
        self.links[place] = link;
        Ok(amendments)
    }
}

fn check(key: &str) -> Result<(), Mistake> {
    let first = key.split('.').next().unwrap_or_default();
    if KEYS.contains(&first) {
        return Ok(());
    }
    Err(Mistake::new(if FIXED.contains(&first) {
        format!("`{first}` of a path cannot be changed while it runs")
    } else {
        format!("a path has no key `{first}`; {}", nearest(first, &KEYS))
    }))
}

fn set(
    table: &mut Table,
    path: &str,
    side: Option<Side>,
    key: &str,
    value: &Value,
) -> Result<(), Mistake> {
    let side = match side {
        Some(side) => format!("{}.", side.name()),
        None => {
            forget(table, path, key);
            String::new()
        }
    };
    Parameter::new(format!("path.{path}.{side}{key}")).set(table, value.clone())
}

/// Removes a key's values for single directions of a path.
fn forget(table: &mut Table, path: &str, key: &str) {
    let paths = table.get_mut("path").and_then(Value::as_array_mut);
    let mut paths = paths.into_iter().flatten();
    let named = |table: &&mut Value| table.get("name").and_then(Value::as_str) == Some(path);
    let Some(path) = paths.find(named) else {
        return;
    };
    let first = key.split('.').next().unwrap_or_default();
    for side in Side::BOTH {
        if let Some(Value::Table(side)) = path.get_mut(side.name()) {
            side.remove(first);
        }
    }
}

/// The changes from one direction to another; `None` if changes cannot express it.
fn changes(before: &Direction, after: &Direction) -> Option<Vec<Change>> {
    if before.priorities != after.priorities {
        return None;
    }
    after.effects.changes_from(&before.effects)
}
