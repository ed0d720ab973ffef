//! `wansan lab cell`: one cell, as run by an engine's worker. Its results depend only on its order and this program; it
//! exits when its standard input closes, as it has then been cancelled.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use wansan_insight::report::Detail;
use wansan_schema::CellFacts;

use super::beside::{Bounds, Ended, Work};
use super::cell::Watch;
use super::congestion;
use super::course::Stage;
use super::real::{self, Means};
use super::{CellError, Options, simulation};
use crate::engine::{Answer, Hello, MAX_ORDER_BYTES, Order, unpack};
use crate::hosts::Reach;
use crate::lines;
use crate::plan::{Cell, WorldKind};
use crate::record::CellFolder;
use crate::world;

/// Time for a cancelled cell to tear down its world.
const END_LIMIT: Duration = Duration::from_secs(10);

/// Sends its greeting, and runs the cell ordered on standard input, if any: its records and result go to `cell` in
/// `folder`, which nobody else may use. The process must be single-threaded: see [`world::isolate`].
///
/// # Errors
/// The folder or the standard streams cannot be used, or the order is not for this program. The cell's own errors are
/// in its answer.
pub fn single(folder: &Path) -> io::Result<()> {
    lines::write(&mut io::stdout().lock(), &Hello::here())?;
    let Some(order) = lines::read::<Order>(&mut io::stdin().lock(), MAX_ORDER_BYTES)? else {
        return Ok(());
    };
    let plan = folder.join("plan");
    fs::create_dir(&plan)?;
    unpack(&order.files, &plan)?;
    let repeat = u32::try_from(order.known.repeat).map_err(io::Error::other)?;
    let cell = Cell::alone(&order.document, repeat, &plan).map_err(io::Error::other)?;
    let work = Work {
        cell: &cell,
        known: order.known,
        folder: CellFolder::alone(folder.join("cell")),
        detail: Detail::for_cells(order.cells),
    };
    let budget = order.budget_ns.map(Duration::from_nanos);
    let ended = match cell.document.world.kind {
        WorldKind::Sim => {
            let stop = end_with_input();
            let bounds = Bounds {
                stop: &stop,
                budget,
            };
            simulation::one(&work, &bounds)
        }
        WorldKind::Netns => in_namespaces(&work),
        WorldKind::Hosts => {
            return Err(io::Error::other("real hosts are reached by the lab alone"));
        }
    };
    if matches!(ended.outcome, Err(CellError::Interrupted)) {
        return Ok(());
    }
    let (failure, explained) = match ended.outcome {
        Ok(explained) => (None, explained),
        Err(error) => (Some(error.to_string()), None),
    };
    // A failed one may have left none.
    fs::create_dir_all(work.folder.path())?;
    let answer = Answer {
        facts: ended.facts,
        result: *ended.result,
        failure,
        explained,
    };
    answer.write(work.folder.path())
}

/// A flag that a thread sets at the end of standard input. If the cell does not end then, the process exits.
fn end_with_input() -> Arc<AtomicBool> {
    let stop = Arc::new(AtomicBool::new(false));
    let set = Arc::clone(&stop);
    thread::spawn(move || {
        // Nothing but end of file is expected.
        let _ = io::stdin().lock().read(&mut [0]);
        set.store(true, Ordering::Relaxed);
        thread::sleep(END_LIMIT);
        process::exit(1);
    });
    stop
}

/// Runs a cell in a world of namespaces on this computer.
fn in_namespaces(work: &Work<'_>) -> Ended {
    let mut result = Box::new(work.known.clone());
    let mut facts = CellFacts {
        cell: result.cell,
        ..CellFacts::default()
    };
    let outcome = (|| {
        let rights = world::isolate()?;
        let stop = end_with_input();
        let cells = std::slice::from_ref(work.cell);
        let mut controls = real::prepare(cells)?;
        congestion::check(cells).map_err(|error| CellError::Elsewhere(error.to_string()))?;
        let options = Options {
            program: std::env::current_exe()
                .map_err(|error| CellError::Elsewhere(error.to_string()))?,
            out: PathBuf::new(),
            rights,
            reach: Reach::default(),
            on: None,
            budget: None,
            stop: &stop,
        };
        let means = Means {
            options: &options,
            fleet: None,
            stage: &Stage::default(),
        };
        let folder = work.folder.make()?;
        let (of_cell, outcome) = real::measured(
            work.cell,
            folder,
            work.detail,
            &means,
            &mut controls,
            &mut Unwatched,
            &mut result,
        );
        facts = of_cell;
        outcome
    })();
    Ended {
        facts,
        result,
        outcome,
        worker: None,
    }
}

/// Progress is ignored: the lab only needs ended cells.
struct Unwatched;

impl Watch for Unwatched {
    fn started(&mut self) {}

    fn running(&mut self) {}
}
