//! Runs cells on the workers of an engine.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use wansan_schema::{CellFacts, WorkerFacts};
use wansan_trace::time::duration_ns;

use super::CellError;
use super::beside::{Bounds, Ended, Event, InOrder, Take, Work};
use crate::engine::{Answer, Cluster, EngineError, Hello, Order, Room, Said};
use crate::plan::{Plan, WorldKind};

/// The Dask resource of workers that accept cells with network namespaces: each cell takes one, so that no cell's traffic
/// competes with another's.
pub(super) const NETNS: &str = "netns";
/// Submitted cells per concurrent cell: enough to keep workers busy, few enough that results do not pile up faster than
/// they can be fetched.
const AHEAD: usize = 2;

/// The resource that a cell needs from a worker.
pub(super) fn needs(kind: WorldKind) -> Option<&'static str> {
    (kind == WorldKind::Netns).then_some(NETNS)
}

/// Runs cells until the run is stopped. Calls `take` with ended cells, in order, and with other events; when it returns
/// `false`, the rest is abandoned. On an error or early end, the workers have been told to abort their cells.
pub(super) fn each(
    cluster: &mut Cluster,
    work: &[Work<'_>],
    plan: &Plan,
    cells: usize,
    bounds: &Bounds<'_>,
    take: Take<'_>,
) -> Result<(), EngineError> {
    let mut in_order = InOrder::default();
    let done = hand_out(cluster, work, plan, cells, bounds, &mut in_order, take);
    if in_order.ended() == work.len() {
        return Ok(());
    }
    cluster.leave();
    let kept: Vec<u64> = in_order
        .early()
        .map(|place| work[place].known.cell)
        .collect();
    for work in &work[in_order.taken()..] {
        // Partial results of a cell that was never reported.
        if !kept.contains(&work.known.cell) {
            work.folder.remove();
        }
    }
    in_order.end(take);
    done
}

fn hand_out(
    cluster: &mut Cluster,
    work: &[Work<'_>],
    plan: &Plan,
    cells: usize,
    bounds: &Bounds<'_>,
    in_order: &mut InOrder,
    take: Take<'_>,
) -> Result<(), EngineError> {
    let places: BTreeMap<u64, usize> = work.iter().map(|it| it.known.cell).zip(0..).collect();
    let budget_ns = bounds.budget.map(duration_ns);
    let mut handed_out = 0;
    while in_order.ended() < work.len() {
        if bounds.stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        let room = cluster.room();
        let most = in_order.ended() + AHEAD * room.map_or(0, |room| room.cells);
        while handed_out < work.len().min(most) {
            let Work {
                cell,
                known,
                folder,
                ..
            } = &work[handed_out];
            let order = Order::of(known.clone(), cell, plan, cells, budget_ns);
            cluster.run(&order, folder.path())?;
            handed_out += 1;
        }
        let goes_on = match cluster.next()? {
            None => take(Event::Running(in_order.ended() as f64)),
            // Simulated cells wait for any worker.
            Some(Said::Room(Room { workers: 0, .. }))
                if room.is_none() && needs(plan.document().world.kind).is_some() =>
            {
                return Err(cluster.no_room());
            }
            Some(Said::Room(Room { workers, cells })) => take(Event::Noted(match workers {
                0 => "no worker is left; waiting for others".to_owned(),
                1 => format!("1 worker runs {cells} cells at a time"),
                _ => format!("{workers} workers run {cells} cells at a time"),
            })),
            Some(Said::Ended {
                cell,
                worker,
                hello,
            }) => match places.get(&cell) {
                Some(&place) => {
                    let ended = ended(&work[place], worker, *hello, cluster.sha256());
                    in_order.add(place, ended, take)
                }
                None => true,
            },
            Some(Said::Failed { cell, said }) => match places.get(&cell) {
                Some(&place) => in_order.add(place, failed(&work[place], said), take),
                None => true,
            },
        };
        if !goes_on {
            return Ok(());
        }
    }
    Ok(())
}

/// The result of a cell that a worker ran.
fn ended(work: &Work<'_>, worker: String, hello: Hello, sha256: &str) -> Ended {
    let answer = match Answer::take(work.folder.path()) {
        Ok(answer) => answer,
        Err(error) => {
            return failed(
                work,
                format!("the results of worker {worker} cannot be read: {error}"),
            );
        }
    };
    work.folder.remove_if_empty();
    Ended {
        facts: CellFacts {
            worker: Some(worker.clone()),
            ..answer.facts
        },
        result: Box::new(answer.result),
        outcome: match answer.failure {
            Some(failure) => Err(CellError::Elsewhere(failure)),
            None => Ok(answer.explained),
        },
        worker: Some(WorkerFacts {
            worker,
            wansan_version: hello.version,
            wansan_commit: hello.commit,
            wansan_sha256: sha256.to_owned(),
            machine: hello.machine,
            clock_anchor: hello.clock_anchor,
        }),
    }
}

/// The result of a cell that no worker could run.
fn failed(work: &Work<'_>, said: String) -> Ended {
    Ended {
        facts: CellFacts {
            cell: work.known.cell,
            ..CellFacts::default()
        },
        result: Box::new(work.known.clone()),
        outcome: Err(CellError::Elsewhere(said)),
        worker: None,
    }
}
