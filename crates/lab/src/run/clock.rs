//! Estimates the time left of a run.

use std::time::{Duration, Instant};

use crate::plan::Cell;

/// Initial estimate of a cell's time beyond its measurement.
const FIRST_GUESS: Duration = Duration::from_millis(1500);
/// Share of the work from which on its elapsed time is used to estimate the rest.
const SHARE_THAT_TELLS: f64 = 0.01;

/// Estimates the time left from ended cells.
#[derive(Debug)]
pub(super) struct Clock {
    cells: usize,
    done: usize,
    started: Instant,
    began: Instant,
    beyond: Duration,
}

impl Clock {
    /// The clock of a run of `cells` cells.
    pub(super) fn new(cells: usize) -> Clock {
        Clock {
            cells,
            done: 0,
            started: Instant::now(),
            began: Instant::now(),
            beyond: FIRST_GUESS,
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
        let beyond = self.began.elapsed().saturating_sub(measured(cell));
        // The initial estimate is discarded at once; later cells are averaged.
        let weight = u32::try_from(self.done.min(8)).unwrap_or(8);
        self.beyond = (self.beyond * (weight - 1) + beyond) / weight;
    }

    /// Time left while `cell` runs in real time; later cells are assumed to take as long.
    pub(super) fn left(&self, cell: &Cell) -> Duration {
        let each = measured(cell) + self.beyond;
        let cells = u32::try_from(self.cells.saturating_sub(self.done)).unwrap_or(u32::MAX);
        each.saturating_mul(cells)
            .saturating_sub(self.began.elapsed().min(each))
    }

    /// Time left of concurrent cells, from the time spent on completed work. `running` is the progress of cells still
    /// running, in cells.
    pub(super) fn left_beside(&self, running: f64) -> Duration {
        let (done, all) = (self.done as f64 + running, self.cells as f64);
        // Too little for an estimate.
        if done < SHARE_THAT_TELLS * all {
            return FIRST_GUESS.mul_f64(all);
        }
        self.started
            .elapsed()
            .mul_f64(((all - done) / done).max(0.0))
    }
}

fn measured(cell: &Cell) -> Duration {
    cell.document.workload.warmup.0 + cell.document.workload.time.0
}
