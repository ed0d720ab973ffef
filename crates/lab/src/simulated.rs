//! Cells in virtual time: the plan's hosts, paths and programs as state machines in this process.

mod ends;
mod hosts;
mod network;
mod ports;
mod processors;
mod relays;
mod streams;
mod tunnels;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use wansan_insight::Cell as Records;
use wansan_path::Change;
use wansan_schema::{BenchReport, PathChange, PathResult, RelayResult, StreamReport, StreamResult};
use wansan_sim::network::{Latency, Network};
use wansan_sim::storage::{Ended, LoadPlace, Storage, StorageError};
use wansan_trace::event::Crossing;
use wansan_trace::file::{self, FileError, Kind, Table};
use wansan_trace::time::duration_ns;
use wansan_trace::{Budget, Instant, Kinds, Recorder};

use self::ports::Ports;
pub(crate) use self::tunnels::facts as tunnel_facts;
use crate::patience;
use crate::plan::{Cell, Moment, RecordKind};
use crate::record::{recorded_as, relay_result, stream_result};
use crate::vpn::Meter;

/// Host name of path records.
const WAN: &str = "wan";
/// Sample interval of TCP and of paths.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// Why a simulation did not complete.
#[derive(Debug, thiserror::Error)]
pub enum SimulationError {
    /// The simulation ended before its loads did.
    #[error("the simulation failed: {0}")]
    Storage(#[from] StorageError),
    /// An initiator, or a sender of streams, failed.
    #[error("{load}: {problem}")]
    Load {
        /// Its description, such as "the initiator on `a`".
        load: String,
        /// The error.
        problem: String,
    },
    /// A path's effects are inconsistent.
    #[error("[[path]] `{path}`: {source}")]
    Effects {
        /// Its name.
        path: String,
        /// The error.
        source: wansan_path::EffectsError,
    },
    /// A unit cannot be created.
    #[error("`target.luns`: {0}")]
    Unit(String),
    /// A path does not support a change.
    #[error("`timeline`: {0}")]
    Timeline(String),
    /// Its records could not be written.
    #[error(transparent)]
    Records(#[from] FileError),
}

/// The results of a simulated cell.
#[derive(Debug)]
pub(crate) struct Simulated {
    /// Each initiator's measurements, with its host.
    pub(crate) reports: Vec<BenchReport>,
    /// Each stream's measurements, by name.
    pub(crate) streams: BTreeMap<String, StreamResult>,
    /// Each relay's results, by name.
    pub(crate) relays: BTreeMap<String, RelayResult>,
    /// Each router's work for its tunnels.
    pub(crate) vpns: Meter,
    /// Results of each direction of each path.
    pub(crate) paths: Vec<PathResult>,
    /// Changes of its paths.
    pub(crate) timeline: Vec<PathChange>,
    /// Its records, not yet written, if any are of I/Os; others are written already.
    pub(crate) records: Option<Gathered>,
}

/// The records of a cell.
#[derive(Debug)]
pub(crate) struct Gathered {
    io: Table<Crossing>,
    pub(crate) cell: Records,
}

impl Gathered {
    fn of(recorders: &[(&str, &Recorder)]) -> Option<Gathered> {
        let io = file::gather(recorders)?;
        let cell = Records::gather_beside(&io, recorders);
        Some(Gathered { io, cell })
    }

    /// Writes them to `folder`.
    pub(crate) fn write(&self, folder: &Path) -> Result<(), FileError> {
        fn write<T: Kind>(folder: &Path, table: Option<&Table<T>>) -> Result<(), FileError> {
            table.map_or(Ok(()), |table| file::write_table(folder, table))
        }
        let Gathered { io, cell } = self;
        write(folder, Some(io))?;
        write(folder, cell.pdu.as_deref())?;
        write(folder, cell.connection.as_ref())?;
        write(folder, cell.tcp.as_ref())?;
        write(folder, cell.stamp.as_ref())?;
        write(folder, cell.packet.as_deref())?;
        write(folder, cell.path.as_ref())?;
        write(folder, cell.thread.as_ref())?;
        write(folder, cell.request.as_ref())
    }
}

/// Simulates a cell, and writes its records to `folder` if none are of I/Os; `seed` seeds its losses. `watch` is called
/// regularly with the progress, from 0 to 1, and returns whether to continue. `None` if it was stopped.
pub(crate) fn run(
    cell: &Cell,
    seed: u64,
    folder: &Path,
    watch: &mut dyn FnMut(f64) -> bool,
) -> Result<Option<Simulated>, SimulationError> {
    let (document, scenario) = (&cell.document, &cell.scenario);
    let kinds = kinds(&document.trace.kinds);
    let memory = Budget::of(usize::try_from(document.trace.memory.0).unwrap_or(usize::MAX));
    let recorder = || Recorder::within(kinds, &memory);
    let mut network = Network::recording(recorder());
    network.set_latency(Latency::default(), seed);
    let directions = network::build(&mut network, scenario, seed)?;
    let mut storage = Storage::new(network, SAMPLE_INTERVAL);
    if let Some(processors) = processors::processors(cell) {
        storage.set_processors(processors);
    }
    if let (Some(_), Some(table)) = (&scenario.target_host, &document.target) {
        storage.serve(hosts::target(document, table, recorder())?);
        if document.workload.load.verify {
            for (unit, content) in hosts::contents(document, table, seed + 1) {
                storage.keep(unit, content);
            }
        }
    }
    for receiver in &scenario.receivers {
        storage.receive(&streams::receiver(cell, receiver));
    }
    let mut ports = Ports::new(scenario.topology.nodes.len());
    for relay in &scenario.relays {
        let trace = recorder();
        let config = relays::relay(cell, relay, &directions, &mut ports, seed + 1, trace);
        storage.relay(config);
    }
    for place in 0..scenario.initiators.len() {
        let trace = recorder();
        let config = hosts::initiator(cell, place, &directions, &mut ports, seed + 1, trace);
        storage.add(config)?;
    }
    for place in 0..scenario.streams.len() {
        let trace = recorder();
        let config = streams::sender(cell, place, &directions, &mut ports, seed + 1, trace);
        storage.send(config)?;
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
    let vpns = directions.meter(&ended.network);
    let timeline = cell.timeline.iter();
    let timeline = timeline.map(|moment| made(moment, ended.began)).collect();
    let ((reports, streams, relays), records) = gather(cell, ended, folder)?;
    let problems = reports.iter().map(BenchReport::problem);
    let mut each = scenario.initiators.iter().zip(problems);
    if let Some((initiator, problem)) = each.find_map(|(it, problem)| Some((it, problem?))) {
        let load = initiator.title();
        // They show how it failed.
        records.map_or(Ok(()), |records| records.write(folder))?;
        return Err(SimulationError::Load { load, problem });
    }
    Ok(Some(Simulated {
        reports,
        streams,
        relays,
        vpns,
        paths,
        timeline,
        records,
    }))
}

/// Reports of initiators; results of streams and relays, by name.
type Reports = (
    Vec<BenchReport>,
    BTreeMap<String, StreamResult>,
    BTreeMap<String, RelayResult>,
);

/// All measurements and records; records without I/Os are written.
fn gather(
    cell: &Cell,
    ended: Ended,
    folder: &Path,
) -> Result<(Reports, Option<Gathered>), FileError> {
    let scenario = &cell.scenario;
    let (mut reports, mut streams, mut relays) = Reports::default();
    let mut recorders = vec![(WAN.to_owned(), ended.network.into_records())];
    if let (Some(host), Some(records)) = (&scenario.target_host, ended.target) {
        recorders.push((host.clone(), records));
    }
    for (initiator, (report, records)) in scenario.initiators.iter().zip(ended.initiators) {
        reports.push(BenchReport {
            records_dropped: records.iter().map(Recorder::dropped).sum(),
            host: initiator.host.clone(),
            ..report
        });
        let records = records.into_iter();
        recorders.extend(records.map(|records| (initiator.host.clone(), records)));
    }
    for (stream, (report, records)) in scenario.streams.iter().zip(ended.streams) {
        let name = &stream.table.name;
        let report = StreamReport {
            records_dropped: records.dropped(),
            ..report
        };
        streams.insert(name.clone(), stream_result(stream, report));
        recorders.push((recorded_as(&stream.host, name), records));
    }
    for (relay, (done, law, records)) in scenario.relays.iter().zip(ended.relays) {
        let name = &relay.table.name;
        relays.insert(name.clone(), relay_result(relay, Some(law.name()), done));
        recorders.push((recorded_as(&relay.host, name), records));
    }
    let recorders: Vec<_> = recorders
        .iter()
        .map(|(host, records)| (host.as_str(), records))
        .collect();
    let gathered = Gathered::of(&recorders);
    if gathered.is_none() {
        file::write_merged(folder, &recorders)?;
    }
    Ok(((reports, streams, relays), gathered))
}

/// Converts an error to one that names the host.
fn of_host(cell: &Cell, error: StorageError) -> SimulationError {
    let (place, problem) = match &error {
        StorageError::Initiator { place, source } => {
            (LoadPlace::Initiator(*place), source.to_string())
        }
        StorageError::Stream { place, source } => (LoadPlace::Sender(*place), source.to_string()),
        StorageError::Late { load, stage, limit } => {
            let limit_s = limit.as_secs_f64();
            let late = format!(
                "still {stage} after {limit_s} s of virtual time; is the path too lossy, or the path or the store too slow for so many I/Os?"
            );
            (*load, late)
        }
        _ => return error.into(),
    };
    let load = match place {
        LoadPlace::Initiator(place) => cell.scenario.initiators[place].title(),
        LoadPlace::Sender(place) => cell.scenario.streams[place].title(),
    };
    SimulationError::Load { load, problem }
}

/// The changes of the plan's timeline: time, direction of a path, and change.
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

/// A change applied on time.
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

/// The record kinds for recorders; connections are always recorded with programs' others.
fn kinds(wanted: &[RecordKind]) -> Kinds {
    let keeps = |kind| wanted.contains(&kind);
    Kinds {
        io: keeps(RecordKind::Io),
        pdu: keeps(RecordKind::Pdu),
        tcp: keeps(RecordKind::Tcp),
        packet: keeps(RecordKind::Packet),
        path: keeps(RecordKind::Path),
        thread: keeps(RecordKind::Thread),
        connection: wanted.iter().any(|kind| kind.of_programs().is_some()),
        ..Kinds::NONE
    }
}
