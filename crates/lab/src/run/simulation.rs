//! Simulated cells, on all processors. None knows of another, so what a cell gives does not depend on how many
//! run at a time.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use wansan_insight::report::Detail;
use wansan_schema::CellResult;

use super::CellError;
use super::cell::{Measured, seed};
use super::explain::Explained;
use super::phase::conclude;
use crate::plan::Cell;
use crate::{record, simulated};

/// How often it is reported that the simulation goes on.
const POLL: Duration = Duration::from_millis(50);

/// A cell to simulate.
pub(super) struct Work<'a> {
    pub(super) cell: &'a Cell,
    /// Its number in the run.
    pub(super) number: u64,
    /// Where its records go.
    pub(super) folder: &'a Path,
    pub(super) detail: Detail,
}

/// What a simulated cell has given.
pub(super) struct Ended {
    pub(super) result: Box<CellResult>,
    pub(super) explained: Option<Explained>,
}

/// What happens.
pub(super) enum Event {
    /// Cells are being simulated.
    Running,
    /// The cell at that place has ended.
    Ended(usize, Box<Result<Ended, CellError>>),
}

/// Simulates cells. `take` is called by this thread: with the cells in their order, and in between; when it says
/// `false`, the rest is left.
pub(super) fn each(work: &[Work<'_>], stop: &AtomicBool, take: &mut dyn FnMut(Event) -> bool) {
    let next = AtomicUsize::new(0);
    let is_left = AtomicBool::new(false);
    let goes_on = || !stop.load(Ordering::Relaxed) && !is_left.load(Ordering::Relaxed);
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        for _ in 0..workers.min(work.len()) {
            let sender = sender.clone();
            let (next, goes_on) = (&next, &goes_on);
            scope.spawn(move || {
                while let place = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(work) = work.get(place)
                    && sender.send((place, one(work, goes_on))).is_ok()
                {}
            });
        }
        drop(sender);
        // Those that ended before one that comes before them.
        let mut early = BTreeMap::new();
        let mut place = 0;
        while place < work.len() {
            match ended.recv_timeout(POLL) {
                Ok((at, outcome)) => {
                    early.insert(at, outcome);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    take(Event::Running);
                }
                // A worker has panicked, which the scope passes on.
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            while let Some(outcome) = early.remove(&place) {
                if !take(Event::Ended(place, Box::new(outcome))) {
                    is_left.store(true, Ordering::Relaxed);
                    return;
                }
                place += 1;
            }
        }
    });
}

/// Simulates a cell and explains it.
fn one(work: &Work<'_>, goes_on: &dyn Fn() -> bool) -> Result<Ended, CellError> {
    let Work {
        cell,
        number,
        folder,
        detail,
    } = *work;
    let simulated = simulated::run(cell, seed(cell), folder, goes_on)?;
    let simulated = simulated.ok_or(CellError::Interrupted)?;
    let mut result = Box::new(record::cell_result(number, cell));
    record::add_paths(&mut result, simulated.paths);
    result.timeline = simulated.timeline;
    let measured = Measured {
        reports: simulated.reports,
        ..Measured::default()
    };
    let explained = conclude(cell, folder, detail, measured, &mut result)?;
    Ok(Ended { result, explained })
}
