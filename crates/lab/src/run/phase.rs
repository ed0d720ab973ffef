//! A run from its first cell to its report.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use wansan_insight::Cell as Records;
use wansan_insight::finding::{Finding, Observed};
use wansan_insight::report::{CellCharts, Detail};

use wansan_twin::finding as advice;

use wansan_schema::{Advised, CellResult, Manifest, MeasuredPath, Results};

use super::beside::{Bounds, Ended, Event, Work};
use super::cell::{Measured, Watch};
use super::clock::Clock;
use super::congestion::{self, Controls};
use super::control::Server;
use super::course::Stage;
use super::explain::{self, Explained};
use super::real::{self, Means};
use super::{CellError, Observer, Options, Outcome, RunError};
use super::{elsewhere, measured_paths, simulation};
use crate::engine::{Cluster, Engine, EngineError, Order, Wish};
use crate::hosts::Fleet;
use crate::plan::{self, Cell, Parameter, Phase, Plan, WorldKind};
use crate::record::{self, RunFolder};

/// Executes `plan`: the sweep, the finding, the advised sweep if requested, the expectations and the report.
/// [`crate::world::isolate`] has to have been called.
///
/// # Errors
/// [`RunError`], which says what is kept.
pub fn run(
    plan: &Plan,
    options: &Options<'_>,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let cells = plan.cells(Phase::Planned, &[])?;
    let kind = plan.document().world.kind;
    let lacking = |error: CellError| RunError::NotStarted(Box::new(error));
    let controls = match kind {
        WorldKind::Netns if options.on.is_none() => {
            let controls = real::prepare(&cells).map_err(lacking)?;
            let checked = congestion::check(&cells);
            checked.map_err(|error| plan.wrong("tcp.congestion_control", &error))?;
            controls
        }
        // Their kernels are other computers', or none.
        WorldKind::Netns | WorldKind::Sim | WorldKind::Hosts => Controls::default(),
    };
    let cluster = match &options.on {
        None => None,
        Some(engine) => Some(reach_engine(engine, plan, options, observer)?),
    };
    let reached = match kind {
        WorldKind::Netns | WorldKind::Sim => None,
        WorldKind::Hosts => {
            let reached = reach(&cells, options, observer).map_err(|error| match error {
                CellError::Interrupted => RunError::Interrupted { folder: None },
                other => lacking(other),
            })?;
            Some(reached)
        }
    };
    let phases = if plan.document().apply_advice { 2 } else { 1 };
    let folder = RunFolder::create(&options.out, plan)?;
    let mut manifest = record::manifest(plan, options.rights);
    manifest.files = folder.copy_files(plan)?;
    let fleet = reached.map(|reached| {
        manifest.hosts = reached.fleet.facts();
        manifest.measured_paths = reached.paths;
        reached.fleet
    });
    let stage = Arc::new(Stage::default());
    // On a file system without sockets the run cannot be controlled, but continues.
    let _control = Server::start(folder.path(), Arc::clone(&stage));
    let mut run = Run {
        options,
        observer,
        folder,
        stage,
        fleet,
        cluster,
        controls,
        manifest,
        results: record::results(plan),
        clock: Clock::new(phases * cells.len()),
        charts: BTreeMap::new(),
        detail: Detail::for_cells(phases * cells.len()),
    };
    let outcome = run.carry_out(plan, &cells);
    run.manifest.clock_anchors.push(record::clock_anchor());
    // Write what was measured, whatever happened afterwards.
    run.write()?;
    let page = record::page(&run.manifest, &run.results, &run.charts)?;
    run.folder.write("report.html", &page)?;
    outcome.map(|()| Outcome {
        folder: run.folder.path().to_owned(),
        results: run.results,
    })
}

/// The real hosts of a run, and their paths' measurements.
struct Reached {
    fleet: Fleet,
    paths: Vec<MeasuredPath>,
}

/// Connects to the hosts, which are the same in all cells, and measures their paths.
fn reach(
    cells: &[Cell],
    options: &Options<'_>,
    observer: &mut dyn Observer,
) -> Result<Reached, CellError> {
    let scenario = &cells[0].scenario;
    let names: Vec<String> = scenario.hosts.iter().map(|it| it.name.clone()).collect();
    observer.preparing(&format!("connecting to {}", names.join(", ")));
    let Options {
        program,
        reach,
        stop,
        ..
    } = options;
    let fleet = Fleet::connect(&scenario.hosts, program, reach, stop)?;
    fleet.check(cells)?;
    observer.preparing("measuring the paths between them");
    let paths = measured_paths::measure(&fleet, &cells[0], program, stop)?;
    Ok(Reached { fleet, paths })
}

/// Connects to the engine for the cells.
fn reach_engine(
    engine: &Engine,
    plan: &Plan,
    options: &Options<'_>,
    observer: &mut dyn Observer,
) -> Result<Cluster, RunError> {
    let not_started = |source| match source {
        EngineError::Interrupted => RunError::Interrupted { folder: None },
        source => RunError::Engine {
            source: Box::new(source),
            folder: None,
        },
    };
    let kind = plan.document().world.kind;
    if kind == WorldKind::Hosts {
        return Err(not_started(EngineError::RealHosts));
    }
    Order::check_files(plan).map_err(not_started)?;
    observer.preparing(&format!("connecting to {engine}"));
    let waits = &mut || observer.preparing("it has no workers yet; waiting for the first");
    let wish = Wish {
        program: &options.program,
        is_installed: options.reach.is_installed,
        needs: elsewhere::needs(kind),
    };
    Cluster::reach(engine, &wish, options.stop, waits).map_err(not_started)
}

/// The changes of a plan's advised phase; empty without such a phase. Advice on a parameter of the sweep is not a
/// change: its values have been measured.
fn changes(plan: &Plan, finding: &Finding) -> Vec<(Parameter, toml::Value)> {
    let settings = advice::advised(finding);
    let settings = settings.iter();
    let settings = settings.map(|it| (Parameter::new(&it.parameter), it.value.as_str()));
    let is_varied =
        |(parameter, _): &(Parameter, &str)| plan.sweep().iter().any(|axis| axis.sets(parameter));
    if !plan.document().apply_advice || settings.clone().any(|it| is_varied(&it)) {
        return Vec::new();
    }
    let changes = settings.flat_map(|(parameter, text)| plan.changes_for(&parameter, text));
    changes.collect()
}

/// A run in progress.
struct Run<'a> {
    options: &'a Options<'a>,
    observer: &'a mut dyn Observer,
    folder: RunFolder,
    stage: Arc<Stage>,
    /// The real hosts, if any.
    fleet: Option<Fleet>,
    /// The engine's cluster, if cells do not run locally.
    cluster: Option<Cluster>,
    controls: Controls,
    manifest: Manifest,
    results: Results,
    clock: Clock,
    charts: BTreeMap<u64, CellCharts>,
    detail: Detail,
}

impl Run<'_> {
    fn carry_out(&mut self, plan: &Plan, cells: &[Cell]) -> Result<(), RunError> {
        let planned = self.phase(plan, Phase::Planned, cells)?;
        // Without I/Os there is no finding.
        let finding = (!planned.is_empty()).then(|| explain::finding(&planned));
        // If the advice is applied next, it must be a value rather than a bound.
        let finding = finding.map(|finding| match changes(plan, &finding).is_empty() {
            true => finding,
            false => self.predicted(finding, &planned),
        });
        self.results.finding = finding.clone().map(Into::into);
        self.write()?;
        self.observer.found(&self.results);
        if let Some(finding) = finding {
            self.apply(plan, &finding, &planned)?;
        }
        self.results.is_judged_without_ios = planned.is_empty();
        let expectations = plan.expectations().iter();
        self.results.expectations = expectations.map(|e| e.check(&self.results)).collect();
        self.results.paper = plan.paper(&self.results);
        Ok(())
    }

    /// The finding, with predictions from simulations of its cells.
    fn predicted(&self, finding: Finding, planned: &[Observed]) -> Finding {
        let (cells, folder) = (&self.results.cells, &self.folder);
        let records = |cell: u64| {
            let is_it = |it: &&CellResult| it.cell == cell && it.timeline.is_empty();
            cells.iter().find(is_it)?;
            Records::read(folder.cell(cell).path()).ok()
        };
        let stop = self.options.stop;
        let goes_on = || !stop.load(Ordering::Relaxed);
        advice::predict(finding, planned, &records, &goes_on)
    }

    /// Repeats the sweep with the finding's advice, if it is to be applied.
    fn apply(
        &mut self,
        plan: &Plan,
        finding: &Finding,
        planned: &[Observed],
    ) -> Result<(), RunError> {
        let changes = changes(plan, finding);
        let Some((parameter, value)) = changes.first() else {
            return Ok(());
        };
        let cells = plan.cells(Phase::Advised, &changes)?;
        for (name, value) in &changes {
            let text = value
                .as_str()
                .map_or_else(|| value.to_string(), str::to_owned);
            self.manifest.advised.insert(name.name().to_owned(), text);
        }
        let advised = self.phase(plan, Phase::Advised, &cells)?;
        let before = plan.value_of(parameter);
        let predicted = finding.predicted.as_deref().unwrap_or_default();
        self.results.advised = explain::advised(predicted, planned, &advised).map(|gain| Advised {
            parameter: parameter.name().to_owned(),
            planned_value: before.as_ref().map(plan::json),
            value: plan::json(value),
            ..gain
        });
        Ok(())
    }

    /// Measures and explains every cell of a phase.
    fn phase(
        &mut self,
        plan: &Plan,
        phase: Phase,
        cells: &[Cell],
    ) -> Result<Vec<Observed>, RunError> {
        let first = self.results.cells.len() as u64;
        self.clock.cell_begins();
        let is_beside = self.cluster.is_some() || cells[0].document.world.kind == WorldKind::Sim;
        let left = match is_beside {
            true => self.clock.left_beside(0.0),
            false => self.clock.left(&cells[0]),
        };
        self.observer.phase(phase, cells.len(), left);
        let mut observed = Vec::with_capacity(cells.len());
        // Even a run killed in its first cell is a valid run.
        self.write()?;
        if is_beside {
            return self.beside(plan, cells, first);
        }
        for (place, cell) in cells.iter().enumerate() {
            let number = first + place as u64;
            self.clock.cell_begins();
            let mut result = record::cell_result(number, cell);
            match self.cell(cell, &mut result) {
                Ok(of_cell) => observed.extend(of_cell),
                Err(error) => return Err(self.failed(cell, result, error)),
            }
            self.observer.cell(&result);
            self.results.cells.push(result);
            self.clock.cell_ends(cell);
            // If the lab is killed, the complete cells are kept.
            self.write()?;
        }
        Ok(observed)
    }

    /// Measures a cell; returns its explanation if it has I/Os. `result` has what is known, however it ends.
    fn cell(
        &mut self,
        cell: &Cell,
        result: &mut CellResult,
    ) -> Result<Option<Observed>, CellError> {
        let number = result.cell;
        let folder = self.folder.cell(number);
        let folder = folder.make()?;
        let mut watch = Progress {
            folder: &mut self.folder,
            observer: self.observer,
            clock: &self.clock,
            cell,
        };
        let means = Means {
            options: self.options,
            fleet: self.fleet.as_ref(),
            stage: &self.stage,
        };
        let (facts, outcome) = real::measured(
            cell,
            folder,
            self.detail,
            &means,
            &mut self.controls,
            &mut watch,
            result,
        );
        // The facts matter most for a failed cell; nothing is kept of an interrupted one.
        if !matches!(outcome, Err(CellError::Interrupted)) {
            self.manifest.cells.push(facts);
        }
        Ok(outcome?.map(|(observed, charts)| {
            self.charts.insert(observed.cell, charts);
            observed
        }))
    }

    /// Runs all cells of a phase concurrently, simulated ones on all local processors, or any on an engine, and
    /// processes them in order. Failed cells do not affect others.
    fn beside(
        &mut self,
        plan: &Plan,
        cells: &[Cell],
        first: u64,
    ) -> Result<Vec<Observed>, RunError> {
        let mut observed = Vec::with_capacity(cells.len());
        let mut failed: Vec<(u64, CellError)> = Vec::new();
        let (mut ended, mut written) = (0, Ok(()));
        let numbered = cells.iter().zip(first..);
        let work: Vec<Work<'_>> = numbered
            .map(|(cell, number)| Work {
                cell,
                known: record::cell_result(number, cell),
                folder: self.folder.cell(number),
                detail: self.detail,
            })
            .collect();
        let bounds = Bounds {
            stop: self.options.stop,
            budget: self.options.budget,
        };
        let all = self.clock.cells();
        let mut cluster = self.cluster.take();
        let take = &mut |event| {
            let (place, cell_ended) = match event {
                Event::Running(done) => {
                    let left = self.clock.left_beside(done - ended as f64);
                    self.observer.progress(self.clock.done(), all, left);
                    return true;
                }
                Event::Noted(what) => {
                    self.observer.preparing(&what);
                    return true;
                }
                Event::Ended(place, ended) => (place, *ended),
            };
            self.folder.keep();
            let cell = &cells[place];
            match self.take(cell, cell_ended) {
                Ok(of_cell) => observed.extend(of_cell),
                Err(error) => failed.push((first + place as u64, error)),
            }
            ended += 1;
            self.clock.cell_ends(cell);
            // If the lab is killed, the complete cells are kept.
            written = self.write();
            written.is_ok()
        };
        let done = match &mut cluster {
            None => {
                simulation::each(&work, &bounds, take);
                Ok(())
            }
            Some(cluster) => elsewhere::each(cluster, &work, plan, all, &bounds, take),
        };
        self.cluster = cluster;
        written?;
        let folder = || self.folder.path().to_owned();
        done.map_err(|source| RunError::Engine {
            source: Box::new(source),
            folder: self.folder.is_kept().then(folder),
        })?;
        if ended < cells.len() {
            let folder = self.folder.is_kept().then(folder);
            return Err(RunError::Interrupted { folder });
        }
        let mut failed = failed.into_iter();
        match failed.next() {
            Some((cell, error)) => Err(RunError::Cell {
                cell,
                folder: folder(),
                source: Box::new(error),
                others: failed.map(|(cell, _)| cell).collect(),
            }),
            None => Ok(observed),
        }
    }

    /// Adds a concurrently executed cell to the run.
    fn take(&mut self, cell: &Cell, ended: Ended) -> Result<Option<Observed>, CellError> {
        self.manifest.cells.push(ended.facts);
        if let Some(worker) = ended.worker {
            let mut known = self.manifest.workers.iter();
            if !known.any(|known| known.worker == worker.worker) {
                self.manifest.workers.push(worker);
            }
        }
        match ended.outcome {
            Ok(explained) => {
                self.observer.cell(&ended.result);
                self.results.cells.push(*ended.result);
                Ok(explained.map(|(observed, charts)| {
                    self.charts.insert(observed.cell, charts);
                    observed
                }))
            }
            Err(error) => {
                self.results
                    .cells
                    .push(failure(cell, *ended.result, &error));
                Err(error)
            }
        }
    }

    fn failed(&mut self, cell: &Cell, known: CellResult, error: CellError) -> RunError {
        let number = known.cell;
        if matches!(error, CellError::Interrupted) {
            self.folder.discard(number);
        }
        let folder = self.folder.path().to_owned();
        let kept = self.folder.is_kept();
        let error = match error {
            CellError::Interrupted => {
                let folder = kept.then_some(folder);
                return RunError::Interrupted { folder };
            }
            other if !kept => return RunError::NotStarted(Box::new(other)),
            other => other,
        };
        self.results.cells.push(failure(cell, known, &error));
        RunError::Cell {
            cell: number,
            folder,
            source: Box::new(error),
            others: Vec::new(),
        }
    }

    fn write(&self) -> Result<(), RunError> {
        self.folder.write_json("manifest.json", &self.manifest)?;
        self.folder.write_json("results.json", &self.results)?;
        Ok(())
    }
}

/// The remaining result of a failed cell.
fn failure(cell: &Cell, known: CellResult, error: &CellError) -> CellResult {
    CellResult {
        failure: Some(error.to_string()),
        path_dropped: known.path_dropped,
        path_marked: known.path_marked,
        path_queue_high_water_bytes: known.path_queue_high_water_bytes,
        paths: known.paths,
        netem: known.netem,
        timeline: known.timeline,
        ..record::cell_result(known.cell, cell)
    }
}

/// Adds a cell's measurements to its result, and explains it; `None` without I/Os. `records` are those in its folder,
/// if they are already in memory.
pub(super) fn conclude(
    cell: &Cell,
    folder: &Path,
    detail: Detail,
    measured: Measured,
    records: Option<&Records>,
    result: &mut CellResult,
) -> Result<Option<Explained>, CellError> {
    record::add_reports(result, measured.reports);
    record::add_streams(result, measured.streams);
    result.relays = measured.relays;
    if let Some((early, late)) = record::apart(result) {
        return Err(CellError::Apart { early, late });
    }
    let [from_ns, to_ns] = result.measured_ns().unwrap_or_default();
    record::add_routers(result, measured.vpns.usage(from_ns, to_ns));
    explain::flows(folder, records, cell, result)?;
    match cell.scenario.initiators[..] {
        [] => Ok(None),
        _ => {
            let read = match records {
                Some(_) => None,
                None => Some(Records::read(folder)?),
            };
            let records = records.or(read.as_ref()).expect("one of both is there");
            Ok(Some(explain::cell(records, folder, result, detail)?))
        }
    }
}

/// Reports a cell's progress.
struct Progress<'a> {
    folder: &'a mut RunFolder,
    observer: &'a mut dyn Observer,
    clock: &'a Clock,
    cell: &'a Cell,
}

impl Watch for Progress<'_> {
    fn started(&mut self) {
        self.folder.keep();
    }

    fn running(&mut self) {
        let left = self.clock.left(self.cell);
        self.observer
            .progress(self.clock.done(), self.clock.cells(), left);
    }
}
