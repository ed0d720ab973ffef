//! Cells in virtual time: the plan's hosts, paths and programs as machines in this process.

mod hosts;
mod network;

use std::path::Path;
use std::time::Duration;

use wansan_schema::{BenchReport, PathResult};
use wansan_sim::network::{Latency, Network};
use wansan_sim::storage::{Storage, StorageError};
use wansan_trace::file::{self, FileError};
use wansan_trace::{Kinds, Recorder};

use crate::plan::{Cell, RecordKind};

/// The host name of the records of paths.
const WAN: &str = "wan";
/// Time between two samples of TCP and of paths.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// How long the last I/Os of a cell whose path stays down are waited for, and logins before.
const END_LIMIT: Duration = Duration::from_secs(120);

/// Why a cell was not simulated to its end.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// Its simulation ended before its loads did.
    #[error("the simulation failed: {0}")]
    Storage(#[from] StorageError),
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
}

/// Simulates a cell and writes its records to `folder`; `seed` is where its losses begin. `goes_on` is asked
/// from time to time, and says whether to go on. `None` when it was not to.
pub(crate) fn run(
    cell: &Cell,
    seed: u64,
    folder: &Path,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<Simulated>, SimulationError> {
    let document = &cell.document;
    let kinds = kinds(&document.trace.kinds);
    let memory_bytes = usize::try_from(document.trace.memory.0).unwrap_or(usize::MAX);
    let recorder = || Recorder::new(kinds, memory_bytes);
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
    let limit = document.workload.warmup.0 + document.workload.time.0 + END_LIMIT;
    let ended = storage.run(limit, &mut |_| goes_on())?;
    if !goes_on() {
        return Ok(None);
    }
    let paths = directions.results(&ended.network);
    let mut reports = Vec::new();
    for (initiator, (report, records)) in cell.scenario.initiators.iter().zip(ended.initiators) {
        let host = initiator.host.clone();
        file::write_part(folder, &host, &[records])?;
        reports.push(BenchReport { host, ..report });
    }
    if let Some(host) = &cell.scenario.target_host {
        file::write_part(folder, host, &[ended.target])?;
    }
    file::write_part(folder, WAN, &[ended.network.into_records()])?;
    file::merge_parts(folder)?;
    Ok(Some(Simulated { reports, paths }))
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
