//! One cell: a world built, loaded, recorded and taken down again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use wansan_trace::file;

use super::course::{Course, Stage};
use super::program::{self, Programs};
use super::{CellError, Options, emulation, tunnels};
use crate::emulator::Emulator;
use crate::plan::Cell;
use crate::record::{CellFacts, NodeFacts, PathChange, PathResult};
use crate::vpn::Tunnels;
use crate::world::{Process, ProcessError, World};

/// How long a target may take to make its stores and to listen.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long a program may take beyond its measured time: login, warm-up of long paths, last I/Os
/// and writing its records.
const END_LIMIT: Duration = Duration::from_secs(120);
/// How long a dying target's exit may take to be seen.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// How often the initiators are looked at, and progress is told.
const POLL: Duration = Duration::from_millis(50);
/// The host name of the emulator's records.
const WAN: &str = "wan";

/// What a cell has given.
pub(super) struct Measured {
    /// What each initiator's bench says, with its host.
    pub(super) reports: Vec<Value>,
    /// Its tunnels, which know what each router has done for them.
    pub(super) tunnels: Tunnels,
    /// Its world, for the manifest.
    pub(super) facts: CellFacts,
    /// What each direction of its paths did.
    pub(super) paths: Vec<PathResult>,
    /// What was changed of them.
    pub(super) timeline: Vec<PathChange>,
}

/// Somebody to be told how far a cell has got.
pub(super) trait Watch {
    /// The initiators have been started: from now on there is something to keep.
    fn started(&mut self);
    /// It is still running.
    fn running(&mut self);
}

/// Builds the cell's world, runs its programs and gathers its records in `folder`.
pub(super) fn measure(
    number: usize,
    cell: &Cell,
    folder: &Path,
    options: &Options<'_>,
    stage: &Stage,
    watch: &mut dyn Watch,
) -> Result<Measured, CellError> {
    let scenario = &cell.scenario;
    let document = &cell.document;
    let seed = u64::from(document.seed) << 32 | u64::from(cell.repeat) << 16;
    let world = World::build(&scenario.topology)?;
    let memory_bytes = document.trace.memory.0;
    let kinds = &document.trace.kinds;
    let (emulator, captures) =
        emulation::start(&world, scenario, seed, kinds, memory_bytes, folder)?;
    let mut tunnels = tunnels::start(&options.program, &world, scenario)?;
    let programs = Programs {
        binary: &options.program,
        document,
        folder,
    };
    let mut facts = facts(number, &world);
    facts.tunnels = tunnels.tunnels().to_vec();

    let target_host = world
        .node(&scenario.target_host)
        .expect("the world has every host of its scenario");
    let command = programs.target(target_host);
    note(&mut facts, target_host.name(), &command);
    let title = format!("the target on `{}`", target_host.name());
    let mut target = target_host.start(&title, command)?;
    let line = target.line("listen", START_LIMIT)?;
    program::expect_listening(&title, &line)?;

    let mut initiators = Vec::new();
    for (place, initiator) in scenario.initiators.iter().enumerate() {
        let name = &initiator.host;
        let host = world.node(name).expect("as above");
        let command = programs.bench(initiator, host, seed + 1 + place as u64);
        note(&mut facts, name, &command);
        let title = format!("the initiator on `{name}`");
        let process = host.start(&title, command)?;
        initiators.push((title, name, process));
    }
    stage.enter(Course::begin(number, cell, emulator.remote()));
    watch.started();
    let limit = document.workload.warmup.0 + document.workload.time.0 + END_LIMIT;
    let waited = wait(
        &mut target,
        &mut initiators,
        &mut tunnels,
        limit,
        options,
        stage,
        watch,
    );
    let timeline = stage.leave().map_or_else(Vec::new, Course::end);
    waited?;
    let mut reports = Vec::new();
    for (title, host, process) in initiators {
        let lines = process
            .succeed(END_LIMIT)
            .map_err(|error| first_cause(&mut target, error))?;
        reports.push(program::report(&title, host, &lines)?);
    }
    target.terminate();
    target.succeed(END_LIMIT)?;
    let paths = gather(emulator, folder, &mut facts)?;
    captures.into_iter().try_for_each(emulation::end_capture)?;
    file::merge_parts(folder)?;
    Ok(Measured {
        reports,
        tunnels,
        facts,
        paths,
        timeline,
    })
}

/// Waits until every initiator has ended, and no longer than the target and the tunnels live.
fn wait(
    target: &mut Process,
    initiators: &mut [(String, &String, Process)],
    tunnels: &mut Tunnels,
    limit: Duration,
    options: &Options<'_>,
    stage: &Stage,
    watch: &mut dyn Watch,
) -> Result<(), CellError> {
    let deadline = Instant::now() + limit;
    loop {
        tunnels.sample()?;
        let mut running = false;
        for (_, _, process) in initiators.iter_mut() {
            running |= process.is_running()?;
        }
        // After the deadline `succeed` says which one is late.
        if !running || Instant::now() > deadline {
            return Ok(());
        }
        if options.stop.load(Ordering::Relaxed) {
            return Err(CellError::Interrupted);
        }
        if !target.is_running()? {
            // It never ends by itself: say why it did.
            target.line("serve", LAST_WORDS)?;
        }
        stage.with(Course::advance);
        watch.running();
        thread::sleep(POLL);
    }
}

/// An initiator fails when its target has died: then the target is what failed.
fn first_cause(target: &mut Process, of_initiator: ProcessError) -> ProcessError {
    match target.line("serve", LAST_WORDS) {
        Err(of_target @ ProcessError::Ended { .. }) => of_target,
        _ => of_initiator,
    }
}

/// Stops the emulator and writes its records down; what the paths did.
fn gather(
    emulator: Emulator,
    folder: &Path,
    facts: &mut CellFacts,
) -> Result<Vec<PathResult>, CellError> {
    let report = emulator.stop()?;
    facts.add_statistics(&report.statistics);
    file::write_part(folder, WAN, &[report.recorder])?;
    let paths = report.statistics.paths.iter();
    Ok(paths.map(PathResult::from).collect())
}

fn facts(number: usize, world: &World) -> CellFacts {
    CellFacts {
        cell: number,
        nodes: world.nodes().iter().map(NodeFacts::of).collect(),
        programs: BTreeMap::new(),
        tunnels: Vec::new(),
        paths: Vec::new(),
        emulator_ring_drops: 0,
        emulator_strays: 0,
        emulator_offloaded: 0,
        emulator_send_failures: 0,
        emulator_cpu_ns: 0,
        emulator_scheduling: "",
    }
}

fn note(facts: &mut CellFacts, host: &str, command: &std::process::Command) {
    facts
        .programs
        .insert(host.to_owned(), program::shown(command));
}
