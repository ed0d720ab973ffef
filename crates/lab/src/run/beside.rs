//! Cells that run beside each other: what each takes, and what becomes of it. They are taken in their order, so that
//! a run is the same however many run at a time, and wherever.

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
    /// What is known of it before it runs.
    pub(super) known: CellResult,
    /// Where its records go, which is made when it begins, and goes again when nothing is in it.
    pub(super) folder: CellFolder,
    pub(super) detail: Detail,
}

/// What ends a cell before its time.
pub(super) struct Bounds<'a> {
    /// Set when the run is to stop.
    pub(super) stop: &'a AtomicBool,
    /// How long a cell may take that is simulated.
    pub(super) budget: Option<Duration>,
}

/// What has become of a cell.
pub(super) struct Ended {
    /// What was built and started.
    pub(super) facts: CellFacts,
    /// Its numbers; of one that failed, what is known all the same.
    pub(super) result: Box<CellResult>,
    /// What its records say, if they are of I/Os.
    pub(super) outcome: Result<Option<Explained>, CellError>,
    /// Who has run it, if that was not the lab.
    pub(super) worker: Option<WorkerFacts>,
}

/// What happens.
pub(super) enum Event {
    /// Cells are running: how much is done of all of them, counted in cells.
    Running(f64),
    /// Something that the user should know.
    Noted(String),
    /// The cell at that place has ended.
    Ended(usize, Box<Ended>),
}

/// Whoever takes what happens. `false`: the rest is left.
pub(super) type Take<'a> = &'a mut dyn FnMut(Event) -> bool;

/// Keeps cells that have ended until those before them have.
#[derive(Default)]
pub(super) struct InOrder {
    early: BTreeMap<usize, Box<Ended>>,
    taken: usize,
}

impl InOrder {
    /// Takes in the cell at a place, and passes on what is next.
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

    /// How many have been passed on.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// The places of those that have ended and were not passed on.
    pub(super) fn early(&self) -> impl Iterator<Item = usize> {
        self.early.keys().copied()
    }

    /// How many have ended.
    pub(super) fn ended(&self) -> usize {
        self.taken + self.early.len()
    }

    /// Passes on what has ended, when no other cell will.
    pub(super) fn end(self, take: Take<'_>) {
        for (place, ended) in self.early {
            if !take(Event::Ended(place, ended)) {
                return;
            }
        }
    }
}
