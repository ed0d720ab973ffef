//! How long a run still takes.

use std::time::{Duration, Instant};

use crate::plan::Cell;

/// What a cell takes beyond its measured time, until one has been timed.
const FIRST_GUESS: Duration = Duration::from_millis(1500);

/// Guesses the time left from the cells that have ended.
#[derive(Debug)]
pub(super) struct Clock {
    cells: usize,
    done: usize,
    began: Instant,
    beyond: Duration,
    /// Whether a cell takes the time that it measures.
    is_real: bool,
}

impl Clock {
    /// The clock of a run of so many cells, in a real world or a simulated one.
    pub(super) fn new(cells: usize, is_real: bool) -> Clock {
        Clock {
            cells,
            done: 0,
            began: Instant::now(),
            beyond: FIRST_GUESS,
            is_real,
        }
    }

    /// How many cells have ended.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// How many cells the run has.
    pub(super) fn cells(&self) -> usize {
        self.cells
    }

    /// A cell begins now.
    pub(super) fn cell_begins(&mut self) {
        self.began = Instant::now();
    }

    /// It has ended.
    pub(super) fn cell_ends(&mut self, cell: &Cell) {
        self.done += 1;
        let beyond = self.began.elapsed().saturating_sub(self.measured(cell));
        // The first guess goes at once; later cells are averaged.
        let weight = u32::try_from(self.done.min(8)).unwrap_or(8);
        self.beyond = (self.beyond * (weight - 1) + beyond) / weight;
    }

    /// What is left while `cell` runs; the cells after it are taken to be like it.
    pub(super) fn left(&self, cell: &Cell) -> Duration {
        let each = self.measured(cell) + self.beyond;
        let cells = u32::try_from(self.cells.saturating_sub(self.done)).unwrap_or(u32::MAX);
        each.saturating_mul(cells)
            .saturating_sub(self.began.elapsed().min(each))
    }

    fn measured(&self, cell: &Cell) -> Duration {
        match self.is_real {
            true => cell.document.workload.warmup.0 + cell.document.workload.time.0,
            false => Duration::ZERO,
        }
    }
}
