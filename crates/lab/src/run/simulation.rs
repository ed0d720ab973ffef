//! Simulated cells, on all processors. They are independent, so that a cell's result does not depend on the
//! concurrency.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use wansan_schema::{CellFacts, CellResult, ControlFacts};
use wansan_sim::caught;

use super::CellError;
use super::beside::{Bounds, Ended, Event, InOrder, Take, Work};
use super::cell::{Measured, seed};
use super::congestion::Controls;
use super::explain::Explained;
use super::phase::conclude;
use crate::simulated::SimulationError;
use crate::{record, simulated};

/// Interval of progress reports.
const POLL: Duration = Duration::from_millis(50);
/// Divisor of the machine's memory for records.
const MEMORY_SHARE: u64 = 2;

/// Simulates cells until the run is stopped. Calls `take` in this thread with ended cells, in order, and with other
/// events; when it returns `false`, the rest is abandoned.
pub(super) fn each(work: &[Work<'_>], bounds: &Bounds<'_>, take: Take<'_>) {
    let next = AtomicUsize::new(0);
    let is_left = AtomicBool::new(false);
    let done: Vec<Share> = work.iter().map(|_| Share::default()).collect();
    let goes_on = || !bounds.stop.load(Ordering::Relaxed) && !is_left.load(Ordering::Relaxed);
    let mut take = |event| {
        if !is_left.load(Ordering::Relaxed) && !take(event) {
            is_left.store(true, Ordering::Relaxed);
        }
        !is_left.load(Ordering::Relaxed)
    };
    thread::scope(|scope| {
        let (sender, ended) = mpsc::channel();
        for _ in 0..workers(work) {
            let sender = sender.clone();
            let (next, goes_on, done) = (&next, &goes_on, &done);
            scope.spawn(move || {
                while goes_on()
                    && let place = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(work) = work.get(place)
                {
                    let ended = simulated(work, bounds.budget, goes_on, &done[place]);
                    // An interrupted cell leaves nothing.
                    if !matches!(ended.outcome, Err(CellError::Interrupted))
                        && sender.send((place, ended)).is_err()
                    {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut in_order = InOrder::default();
        loop {
            match ended.recv_timeout(POLL) {
                Ok((place, ended)) => {
                    in_order.add(place, ended, &mut take);
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    take(Event::Running(done.iter().map(Share::get).sum()));
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            }
        }
        in_order.end(&mut take);
    });
}

/// Simulates a single cell until the run is stopped.
pub(super) fn one(work: &Work<'_>, bounds: &Bounds<'_>) -> Ended {
    let goes_on = || !bounds.stop.load(Ordering::Relaxed);
    simulated(work, bounds.budget, &goes_on, &Share::default())
}

/// Concurrency: the number of processors, limited by memory if each cell uses all that its plan allows for records.
fn workers(work: &[Work<'_>]) -> usize {
    let each = work.iter().map(|work| work.cell.document.trace.memory.0);
    let machine = record::memory_bytes() / MEMORY_SHARE;
    let by_memory = machine / each.max().unwrap_or(0).max(1);
    let processors = thread::available_parallelism().map_or(1, usize::from);
    processors
        .min(usize::try_from(by_memory).unwrap_or(usize::MAX))
        .clamp(1, work.len().max(1))
}

/// A cell's progress, read by another thread.
#[derive(Debug, Default)]
struct Share(AtomicU64);

impl Share {
    /// Sets it, from 0 to 1.
    fn set(&self, share: f64) {
        self.0.store(share.to_bits(), Ordering::Relaxed);
    }

    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }
}

/// Simulates and explains a cell within its time limit.
fn simulated(
    work: &Work<'_>,
    budget: Option<Duration>,
    goes_on: &dyn Fn() -> bool,
    done: &Share,
) -> Ended {
    let began = Instant::now();
    let exceeded = || budget.filter(|budget| began.elapsed() > *budget);
    let mut watch = |share: f64| {
        done.set(share);
        goes_on() && exceeded().is_none()
    };
    let mut result = Box::new(work.known.clone());
    let outcome = caught(|| simulate(work, &mut result, &mut watch));
    let outcome = outcome.unwrap_or_else(|panic| Err(CellError::Panicked(panic)));
    let outcome = outcome.and_then(|explained| match (explained, exceeded()) {
        (Some(explained), _) => Ok(explained),
        (None, Some(budget)) => Err(CellError::Budget {
            budget,
            done: done.get(),
        }),
        (None, None) => Err(CellError::Interrupted),
    });
    done.set(1.0);
    match &outcome {
        Ok(_) => {}
        Err(CellError::Interrupted) => work.folder.remove(),
        Err(_) => work.folder.remove_if_empty(),
    }
    let (control, outcome) = match Controls::default().of_cell(work.cell) {
        Ok(control) => (control, outcome),
        Err(error) => (ControlFacts::default(), Err(error.into())),
    };
    Ended {
        facts: CellFacts {
            cell: work.known.cell,
            congestion_control: control,
            tunnels: simulated::tunnel_facts(&work.cell.scenario),
            ..CellFacts::default()
        },
        result,
        outcome,
        worker: None,
    }
}

/// The same, until `watch` returns `false`: then `None`. `result` has what is known of it.
fn simulate(
    work: &Work<'_>,
    result: &mut CellResult,
    watch: &mut dyn FnMut(f64) -> bool,
) -> Result<Option<Option<Explained>>, CellError> {
    let cell = work.cell;
    let folder = work.folder.make()?;
    let Some(simulated) = simulated::run(cell, seed(cell), folder, watch)? else {
        return Ok(None);
    };
    record::add_paths(result, simulated.paths);
    result.timeline = simulated.timeline;
    let measured = Measured {
        reports: simulated.reports,
        streams: simulated.streams,
        relays: simulated.relays,
        vpns: simulated.vpns,
    };
    let concluded = |records| conclude(cell, folder, work.detail, measured, records, result);
    let Some(gathered) = &simulated.records else {
        return concluded(None).map(Some);
    };
    // Both only read the records. The last cells of a sweep leave processors idle.
    thread::scope(|scope| {
        let writing = scope.spawn(|| gathered.write(folder));
        let concluded = concluded(Some(&gathered.cell));
        match writing.join() {
            Ok(written) => written.map_err(SimulationError::from)?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        concluded.map(Some)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use wansan_insight::report::Detail;

    use super::*;
    use crate::plan::{Phase, Plan};
    use crate::record::RunFolder;

    const PLAN: &str = "title = \"t\"\n[world]\nkind = \"sim\"\n[[host]]\nname = \"a\"\n[[host]]\nname = \"b\"\n\
        [[path]]\nname = \"wan\"\nbetween = [\"a\", \"b\"]\ndelay = \"5ms\"\n\
        [target]\nhost = \"a\"\nluns = [\"memory:1MiB\"]\n[[initiator]]\nhost = \"b\"\n\
        [workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"500ms\"\n\
        [trace]\nkinds = [\"io\"]\n[sweep]\nworkload.parallel = [1, 2, 3, 4]\n";

    /// Results of cells, by number.
    type Outcomes = Vec<(usize, Ended)>;

    /// The results of a plan's cells, and which of them have a folder. `act` sees each event first.
    fn simulated(
        text: &str,
        bounds: &Bounds<'_>,
        mut act: impl FnMut(&Event),
    ) -> (Outcomes, Vec<bool>) {
        let root = tempfile::tempdir().unwrap();
        let plan = Plan::parse(Path::new("trial.toml"), text).unwrap();
        let cells = plan.cells(Phase::Planned, &[]).unwrap();
        let run = RunFolder::create(root.path(), &plan).unwrap();
        let work: Vec<Work<'_>> = cells
            .iter()
            .zip(0..)
            .map(|(cell, number)| Work {
                cell,
                known: record::cell_result(number, cell),
                folder: run.cell(number),
                detail: Detail::for_cells(cells.len()),
            })
            .collect();
        let mut taken = Vec::new();
        each(&work, bounds, &mut |event| {
            act(&event);
            if let Event::Ended(place, ended) = event {
                taken.push((place, *ended));
            }
            true
        });
        let exists =
            |number: u64| fs::exists(run.path().join(format!("cell-{number:03}"))).unwrap();
        (taken, (0..cells.len() as u64).map(exists).collect())
    }

    #[test]
    fn a_cell_that_fails_leaves_the_others_and_no_folder() {
        let stop = AtomicBool::new(false);
        let bounds = Bounds {
            stop: &stop,
            budget: None,
        };
        // The second cell's path drops everything.
        let text = PLAN.replace(
            "workload.parallel = [1, 2, 3, 4]",
            "path.wan.loss = [\"0%\", \"100%\", \"0.1%\"]",
        );
        let (taken, folders) = simulated(&text, &bounds, |_| {});
        let failed: Vec<bool> = taken
            .iter()
            .map(|(_, ended)| ended.outcome.is_err())
            .collect();
        assert_eq!(failed, [false, true, false]);
        assert_eq!(folders, [true, false, true]);
        let Err(error) = &taken[1].1.outcome else {
            panic!("it did not fail");
        };
        let error = error.to_string();
        assert!(
            error.starts_with("the initiator on `b`: login did not complete"),
            "{error}"
        );
    }

    #[test]
    fn a_budget_ends_a_cell_and_says_so() {
        let stop = AtomicBool::new(false);
        let bounds = Bounds {
            stop: &stop,
            budget: Some(Duration::from_nanos(1)),
        };
        let (taken, folders) = simulated(PLAN, &bounds, |_| {});
        assert_eq!((taken.len(), folders), (4, vec![false; 4]));
        for (_, ended) in taken {
            assert!(matches!(ended.outcome, Err(CellError::Budget { done, .. }) if done < 1.0));
        }
    }

    #[test]
    fn a_run_that_is_stopped_leaves_whole_cells_only() {
        let stop = AtomicBool::new(false);
        let bounds = Bounds {
            stop: &stop,
            budget: None,
        };
        let text = PLAN.replace("500ms", "60s");
        let (taken, folders) = simulated(&text, &bounds, |event| {
            if matches!(event, Event::Running(_)) {
                stop.store(true, Ordering::Relaxed);
            }
        });
        let whole: Vec<usize> = taken.iter().map(|(place, _)| *place).collect();
        assert!(taken.iter().all(|(_, ended)| ended.outcome.is_ok()));
        for (place, is_there) in folders.into_iter().enumerate() {
            assert_eq!(is_there, whole.contains(&place), "cell {place}");
        }
    }
}
