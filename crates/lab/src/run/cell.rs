//! Runs one cell: builds its world, applies the load, records, and tears it down.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use wansan_schema::{BenchReport, CellFacts, PathChange, RelayResult, StreamResult};
use wansan_trace::clock::OtherClock;

use super::course::{Course, Stage};
use super::path_emulator::PathResults;
use super::program::{self, Programs};
use super::real::Means;
use super::servers::Servers;
use super::site::{Ended, Site};
use super::{CellError, Options};
use crate::patience;
use crate::plan::{Action, Cell, Statement, Stream};
use crate::processors::Processors;
use crate::record::stream_result;
use crate::vpn::Meter;
use crate::world::Process;

/// Timeout of an initiator's login; the initiator itself gives up earlier.
const LOGIN_LIMIT: Duration = Duration::from_secs(120);
/// Grace time to detect the exit of a program at its time limit.
const LAST_LIMIT: Duration = Duration::from_secs(1);
/// How often initiators are checked and progress is reported.
const POLL: Duration = Duration::from_millis(50);

/// The results of a cell.
#[derive(Default)]
pub(super) struct Measured {
    /// Each initiator's bench report, with its host.
    pub(super) reports: Vec<BenchReport>,
    /// Each stream's result, by name.
    pub(super) streams: BTreeMap<String, StreamResult>,
    /// Each relay's result, by name.
    pub(super) relays: BTreeMap<String, RelayResult>,
    /// Each router's work for its tunnels.
    pub(super) vpns: Meter,
}

/// What is kept of a cell however it ends.
pub(super) struct Kept {
    /// Facts about what was built and started.
    pub(super) facts: CellFacts,
    /// Results of each direction of its paths, if they carried packets to the end.
    pub(super) carried: Option<PathResults>,
    /// Changes of its paths.
    pub(super) timeline: Vec<PathChange>,
}

impl Kept {
    /// For a cell that has not begun.
    pub(super) fn begin(facts: CellFacts) -> Kept {
        Kept {
            facts,
            carried: None,
            timeline: Vec::new(),
        }
    }
}

/// Observes a cell's progress.
pub(super) trait Watch {
    /// The initiators were started: from now on there is something to keep.
    fn started(&mut self);
    /// It is still running.
    fn running(&mut self);
}

/// The seed of a cell's random choices.
pub(super) fn seed(cell: &Cell) -> u64 {
    u64::from(cell.document.seed) << 32 | u64::from(cell.repeat) << 16
}

/// Builds the cell's world, or uses real hosts, runs its programs and collects its records in `folder`. `kept` has what
/// is known however it ends; once its load has begun, its records are kept too.
pub(super) fn measure(
    cell: &Cell,
    folder: &Path,
    means: &Means<'_>,
    kept: &mut Kept,
    watch: &mut dyn Watch,
) -> Result<Measured, CellError> {
    let Means {
        options,
        fleet,
        stage,
    } = *means;
    let facts = &mut kept.facts;
    let scenario = &cell.scenario;
    let document = &cell.document;
    let seed = seed(cell);
    let mut site = match fleet {
        Some(fleet) => Site::of_hosts(fleet, cell, options)?,
        None => Site::build(cell, seed, folder, options)?,
    };
    facts.nodes = site.nodes();
    facts.tunnels = site.tunnels().to_vec();
    let programs = Programs {
        binary: &options.program,
        document,
        folder,
        seed: seed + 1,
    };
    let mut processors = Processors::new(&document.trace.kinds, document.trace.memory.0);
    site.watch(&mut processors);
    let mut servers = Servers::start(&site, scenario, &programs, options, facts, &mut processors)?;
    let mut clients = Vec::new();
    for (initiator, number) in scenario.initiators.iter().zip(0..) {
        let name = &initiator.host;
        let place = site.place(name);
        let program = programs.bench(initiator, &place, number);
        program.note(facts, name);
        let title = initiator.title();
        clients.push(Client {
            process: program.start_held(&place, &title, &mut processors)?,
            title,
            load: Load::Initiator(name),
        });
    }
    for stream in &scenario.streams {
        let (name, host) = (&stream.table.name, &stream.host);
        let place = site.place(host);
        let program = programs.sender(stream, &place);
        program.note(facts, &format!("{host}, {name}"));
        let title = stream.title();
        clients.push(Client {
            process: program.start_held(&place, &title, &mut processors)?,
            title,
            load: Load::Stream(stream),
        });
    }
    watch.started();
    for client in &mut clients {
        let line = client
            .process
            .line_unless(options.stop, "log in", LOGIN_LIMIT);
        let line = line.map_err(|error| servers.first_cause(error))?;
        let line = line.ok_or(CellError::Interrupted)?;
        program::expect_event(&client.title, program::Event::Ready, &line)?;
    }
    // All begin together; otherwise the first could end before the last begins.
    stage.enter(Course::begin(facts.cell, cell, site.emulator()));
    for client in &mut clients {
        client.process.release();
    }
    let loaded = wait(
        &mut servers,
        &mut clients,
        &mut || {
            site.sample()?;
            processors.sample();
            Ok(())
        },
        patience::of(cell),
        options,
        stage,
        watch,
    )
    .and_then(|()| reports(&mut servers, clients));
    kept.timeline = stage.leave().map_or_else(Vec::new, Course::end);
    if matches!(loaded, Err(CellError::Interrupted)) {
        return Err(CellError::Interrupted);
    }
    // Even if the load failed: its records tell why.
    let served = servers.end();
    let ended = site.end(folder, processors, kept);
    let (mut reports, mut streams) = loaded.map_err(|error| with_outages(error, &kept.timeline))?;
    let relays = served?;
    let Ended { vpns, clocks } = ended?;
    for report in &mut reports {
        let clock = clocks.of(&report.host);
        convert(
            &clock,
            [&mut report.measured_from_ns, &mut report.measured_to_ns],
        );
    }
    for stream in streams.values_mut() {
        let clock = clocks.of(&stream.host);
        convert(
            &clock,
            [&mut stream.measured_from_ns, &mut stream.measured_to_ns],
        );
    }
    Ok(Measured {
        reports,
        streams,
        relays,
        vpns,
    })
}

/// Converts times of a host's clock to the reference clock.
fn convert(clock: &OtherClock, moments: [&mut u64; 2]) {
    for ns in moments {
        *ns = clock.here(wansan_trace::Instant::from_ns(*ns)).ns();
    }
}

/// The initiators' reports, and the streams' by name.
type Reports = (Vec<BenchReport>, BTreeMap<String, StreamResult>);

/// The reports of exited clients. All are read: a client's records follow its report.
fn reports(servers: &mut Servers<'_>, clients: Vec<Client<'_>>) -> Result<Reports, CellError> {
    let ended: Vec<_> = clients
        .into_iter()
        .map(|client| {
            (
                client.title,
                client.load,
                client.process.succeed(LAST_LIMIT),
            )
        })
        .collect();
    let (mut reports, mut streams) = Reports::default();
    for (title, load, lines) in ended {
        let lines = lines.map_err(|error| servers.first_cause(error))?;
        match load {
            Load::Initiator(host) => reports.push(program::report(&title, host, &lines)?),
            Load::Stream(stream) => {
                let report = program::stream_report(&title, &lines)?;
                let result = stream_result(stream, report);
                streams.insert(stream.table.name.clone(), result);
            }
        }
    }
    Ok((reports, streams))
}

/// A cell's failure with the paths that were down, as they are the likely cause.
fn with_outages(error: CellError, timeline: &[PathChange]) -> CellError {
    let mut down: Vec<(String, &PathChange)> = Vec::new();
    for change in timeline.iter().filter(|change| change.made_at_ns.is_some()) {
        let Ok(Statement { path, action }) = Statement::parse(&change.statement) else {
            continue;
        };
        match action {
            Action::Down => down.push((path, change)),
            Action::Up => down.retain(|(other, _)| *other != path),
            Action::Set { .. } => {}
        }
    }
    if down.is_empty() {
        return error;
    }
    let changes: Vec<String> = down.iter().map(|(_, change)| change.to_string()).collect();
    CellError::Down {
        source: Box::new(error),
        changes: changes.join(", "),
    }
}

/// A program that generates load, held until all are ready.
struct Client<'a> {
    title: String,
    process: Process,
    load: Load<'a>,
}

enum Load<'a> {
    /// The initiator on that host.
    Initiator(&'a str),
    Stream(&'a Stream),
}

/// Waits until every client has exited; fails if a server exits or live sampling fails.
fn wait(
    servers: &mut Servers<'_>,
    clients: &mut [Client<'_>],
    sample: &mut dyn FnMut() -> Result<(), CellError>,
    limit: Duration,
    options: &Options<'_>,
    stage: &Stage,
    watch: &mut dyn Watch,
) -> Result<(), CellError> {
    let deadline = Instant::now() + limit;
    loop {
        sample()?;
        let mut running = false;
        for client in clients.iter_mut() {
            running |= client.process.is_running()?;
        }
        // After the deadline, `succeed` reports which one is late.
        if !running || Instant::now() > deadline {
            return Ok(());
        }
        if options.stop.load(Ordering::Relaxed) {
            return Err(CellError::Interrupted);
        }
        servers.check()?;
        stage.with(Course::advance);
        watch.running();
        thread::sleep(POLL);
    }
}
