//! Runs cells concurrently, and collects their results. Results are processed in cell order, so that a run is the same
//! whatever the concurrency and wherever its cells run.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use wansan_insight::report::Detail;
use wansan_schema::{CellFacts, CellResult, WorkerFacts};

use super::CellError;
use super::explain::Explained;
use crate::plan::Cell;
use crate::record::CellFolder;

/// A cell to run.
pub(super) struct Work<'a> {
    pub(super) cell: &'a Cell,
    /// What is known before it runs: its number and labels.
    pub(super) known: CellResult,
    /// Folder for its records, created when it starts and removed again if empty.
    pub(super) folder: CellFolder,
    pub(super) detail: Detail,
}

/// Limits that end a cell early.
pub(super) struct Bounds<'a> {
    /// Set to stop the run.
    pub(super) stop: &'a AtomicBool,
    /// Time limit of a simulated cell.
    pub(super) budget: Option<Duration>,
}

/// The result of a cell.
pub(super) struct Ended {
    /// Facts about what was built and started.
    pub(super) facts: CellFacts,
    /// Its results; partial if it failed.
    pub(super) result: Box<CellResult>,
    /// The explanation of its I/O records, if any.
    pub(super) outcome: Result<Option<Explained>, CellError>,
    /// The worker that ran it, if not the lab itself.
    pub(super) worker: Option<WorkerFacts>,
}

/// An event.
pub(super) enum Event {
    /// Total progress, in cells.
    Running(f64),
    /// A message for the user.
    Noted(String),
    /// The cell at that index has ended.
    Ended(usize, Box<Ended>),
}

/// Receives events. Returns `false` to abandon the rest.
pub(super) type Take<'a> = &'a mut dyn FnMut(Event) -> bool;

/// Holds back ended cells until those before them have ended.
#[derive(Default)]
pub(super) struct InOrder {
    early: BTreeMap<usize, Box<Ended>>,
    taken: usize,
}

impl InOrder {
    /// Adds an ended cell, and passes on all that are next in order.
    pub(super) fn add(&mut self, place: usize, ended: Ended, take: Take<'_>) -> bool {
        self.early.insert(place, Box::new(ended));
        while let Some(ended) = self.early.remove(&self.taken) {
            let goes_on = take(Event::Ended(self.taken, ended));
            self.taken += 1;
            if !goes_on {
                return false;
            }
        }
        true
    }

    /// Number of cells passed on.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Indices of cells that have ended but were not passed on.
    pub(super) fn early(&self) -> impl Iterator<Item = usize> {
        self.early.keys().copied()
    }

    /// Number of ended cells.
    pub(super) fn ended(&self) -> usize {
        self.taken + self.early.len()
    }

    /// Passes on the ended cells when no more will end.
    pub(super) fn end(self, take: Take<'_>) {
        for (place, ended) in self.early {
            if !take(Event::Ended(place, ended)) {
                return;
            }
        }
    }
}
