//! Cells in virtual time: the plan's hosts, paths and programs as machines in this process.

mod hosts;
mod network;

use std::path::Path;
use std::time::Duration;

use wansan_path::Change;
use wansan_schema::{BenchReport, PathChange, PathResult};
use wansan_sim::network::{Latency, Network};
use wansan_sim::storage::{Storage, StorageError};
use wansan_trace::file::{self, FileError};
use wansan_trace::time::duration_ns;
use wansan_trace::{Budget, Instant, Kinds, Recorder};

use crate::patience;
use crate::plan::{Cell, Moment, RecordKind};

/// The host name of the records of paths.
const WAN: &str = "wan";
/// Time between two samples of TCP and of paths.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// Why a cell was not simulated to its end.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// Its simulation ended before its loads did.
    #[error("the simulation failed: {0}")]
    Storage(#[from] StorageError),
    /// The I/Os of an initiator failed.
    #[error("the initiator on `{host}`: {problem}")]
    Load {
        /// Its host.
        host: String,
        /// How.
        problem: String,
    },
    /// A path's effects contradict themselves.
    #[error("[[path]] `{path}`: {source}")]
    Effects {
        /// Its name.
        path: String,
        /// How.
        source: wansan_path::EffectsError,
    },
    /// A unit cannot be made.
    #[error("`target.luns`: {0}")]
    Unit(String),
    /// A path cannot be changed so.
    #[error("`timeline`: {0}")]
    Timeline(String),
    /// Its records could not be written.
    #[error(transparent)]
    Records(#[from] FileError),
}

/// What a simulated cell has given.
#[derive(Debug)]
pub(crate) struct Simulated {
    /// What each initiator measured, with its host.
    pub(crate) reports: Vec<BenchReport>,
    /// What each direction of each path did.
    pub(crate) paths: Vec<PathResult>,
    /// What was changed of them.
    pub(crate) timeline: Vec<PathChange>,
}

/// Simulates a cell and writes its records to `folder`; `seed` is where its losses begin. `watch` is told from time
/// to time how much is done, from 0 to 1, and says whether to go on. `None` when it was not to.
pub(crate) fn run(
    cell: &Cell,
    seed: u64,
    folder: &Path,
    watch: &mut dyn FnMut(f64) -> bool,
) -> Result<Option<Simulated>, SimulationError> {
    let document = &cell.document;
    let kinds = kinds(&document.trace.kinds);
    let memory = Budget::of(usize::try_from(document.trace.memory.0).unwrap_or(usize::MAX));
    let recorder = || Recorder::within(kinds, &memory);
    let mut network = Network::recording(recorder());
    network.set_latency(Latency::default(), seed);
    let directions = network::build(&mut network, &cell.scenario, seed)?;
    let target = hosts::target(document, recorder())?;
    let mut storage = Storage::new(network, target, SAMPLE_INTERVAL);
    for place in 0..cell.scenario.initiators.len() {
        let recorder = recorder();
        storage.add(hosts::initiator(
            cell,
            place,
            &directions,
            seed + 1,
            recorder,
        ))?;
    }
    for (moment, direction, change) in timeline(cell)? {
        if let Some(link) = directions.link(&direction) {
            storage.schedule(moment, link, change);
        }
    }
    let ended = storage.run(patience::of(cell), watch);
    let Some(mut ended) = ended.map_err(|error| of_host(cell, error))? else {
        return Ok(None);
    };
    let paths = directions.results(&mut ended.network);
    let mut reports = Vec::new();
    let of_network = ended.network.into_records();
    let mut recorders = vec![(WAN, &of_network)];
    if let Some(host) = &cell.scenario.target_host {
        recorders.push((host, &ended.target));
    }
    for (initiator, (report, records)) in cell.scenario.initiators.iter().zip(&ended.initiators) {
        recorders.push((&initiator.host, records));
        reports.push(BenchReport {
            records_dropped: records.dropped(),
            host: initiator.host.clone(),
            ..report.clone()
        });
    }
    file::write_merged(folder, &recorders)?;
    if let Some((report, problem)) = reports.iter().find_map(|it| Some((it, it.problem()?))) {
        let host = report.host.clone();
        return Err(SimulationError::Load { host, problem });
    }
    let timeline = cell.timeline.iter();
    let timeline = timeline.map(|moment| made(moment, ended.began)).collect();
    Ok(Some(Simulated {
        reports,
        paths,
        timeline,
    }))
}

/// An error that names the initiator's host.
fn of_host(cell: &Cell, error: StorageError) -> SimulationError {
    let (place, problem) = match &error {
        StorageError::Initiator { place, source } => (*place, source.to_string()),
        StorageError::Late {
            place,
            stage,
            limit,
        } => {
            let limit_s = limit.as_secs_f64();
            let late = format!(
                "still {stage} after {limit_s} s of virtual time; is the path too lossy, or too slow for so many I/Os?"
            );
            (*place, late)
        }
        _ => return error.into(),
    };
    let host = cell.scenario.initiators[place].host.clone();
    SimulationError::Load { host, problem }
}

/// The changes of the plan's timeline: when each is made, of which direction of a path, and what.
fn timeline(cell: &Cell) -> Result<Vec<(Duration, String, Change)>, SimulationError> {
    let mut conditions = cell.conditions.clone();
    let mut changes = Vec::new();
    for moment in &cell.timeline {
        let amendments = conditions.change(&moment.statement);
        let amendments =
            amendments.map_err(|mistake| SimulationError::Timeline(mistake.to_string()))?;
        for amendment in amendments {
            let direction = amendment.direction;
            let here = amendment.changes.into_iter();
            changes.extend(here.map(|change| (moment.at, direction.clone(), change)));
        }
    }
    Ok(changes)
}

/// A change that was made at its time.
fn made(moment: &Moment, began: Instant) -> PathChange {
    let after_ns = duration_ns(moment.at);
    PathChange {
        statement: moment.statement.to_string(),
        asked_by: "plan".to_owned(),
        planned_ns: Some(after_ns),
        made_after_ns: Some(after_ns),
        made_at_ns: Some(began.ns() + after_ns),
        refused: None,
    }
}

/// The kinds of record as recorders take them; connections are always recorded with programs' others.
fn kinds(wanted: &[RecordKind]) -> Kinds {
    let keeps = |kind| wanted.contains(&kind);
    Kinds {
        io: keeps(RecordKind::Io),
        pdu: keeps(RecordKind::Pdu),
        tcp: keeps(RecordKind::Tcp),
        packet: keeps(RecordKind::Packet),
        path: keeps(RecordKind::Path),
        connection: wanted.iter().any(|kind| kind.of_programs().is_some()),
        ..Kinds::NONE
    }
}
