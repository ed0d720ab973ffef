//! Experiments in their written form: one TOML file each.
//!
//! ```toml
//! title = "Reads over a long path"
//!
//! [[host]]
//! name = "storage"
//!
//! [[host]]
//! name = "client"
//! count = 4                            # client-1 … client-4
//!
//! [[path]]
//! between = ["client", "storage"]
//! delay = "16ms"                       # one way
//! rate = "1Gbit/s"
//! queue = "4MiB"
//!
//! [target]
//! host = "storage"
//! luns = ["memory:1GiB"]
//! command_window = 100
//!
//! [[initiator]]
//! host = "client"
//!
//! [workload]
//! op = "read"
//! pattern = "random"
//! block = "4KiB"
//! time = "3s"
//!
//! [sweep]
//! workload.parallel = [16, 64, 176]
//!
//! [[expect]]
//! metric = "finding.limit"
//! equals = "command_window"
//! ```
//!
//! The effects of a path on packets, and their keys, are described in `docs/internals/emulator.md`.
//!
//! An axis of the sweep may set several parameters alike (`"path.a.delay + path.b.delay" = […]`), or step through named
//! sets of values:
//!
//! ```toml
//! [[case]]
//! name = "short"
//! set = { path.wan.delay = "1ms", workload.parallel = 4 }
//!
//! [sweep]
//! case = ["short", "long"]
//!
//! [quick]                              # set instead by `wansan lab run --quick`
//! workload.time = "500ms"
//! sweep.case = ["short"]
//!
//! [paper]
//! title = "Somebody: Something (2004)"
//!
//! [[paper.known]]                      # a number of the paper, to stand beside ours
//! metric = "cells.bytes_per_s"
//! where = { case = "long" }
//! value = "123Mbit/s"
//! ```
//!
//! Relays can split connections, and streams can be measured beside sessions or instead of them; the plan then needs no
//! target (`docs/how-to/measure-a-path.md`):
//!
//! ```toml
//! [[relay]]
//! host = "edge"
//! to = "storage"
//! out = { congestion_control = "wansan_hstcp", send_buffer = "16MiB" }
//!
//! [[stream]]
//! name = "backup"
//! from = "client"
//! to = "storage"
//! through = "relay"
//! flows = 10
//! ```
//!
//! Events during the run, at times from the start of the initiators:
//!
//! ```toml
//! timeline = ["at 5s wan.delay = 32ms", "at 8s wan down", "at 9s wan up"]
//! ```
//!
//! A [`Plan`] is read once and checked completely: every cell of its sweep is resolved before the first runs, so a
//! mistake costs no time and leaves nothing behind.

mod cell;
mod conditions;
mod document;
mod expect;
mod files;
mod json;
mod metric;
mod paper;
mod parameter;
mod quantity;
mod quick;
mod scenario;
mod subject;
mod sweep;
mod timeline;

use std::io::Read;
use std::path::{Path, PathBuf};

pub use cell::{Cell, Phase};
pub use conditions::{Amendment, Conditions};
pub use document::{
    CaptureWish, CaseTable, ControlTable, Count, Document, EffectsTable, EmulatorKind, HostTable,
    InitiatorTable, Jitter, JitterTable, KnownTable, LinkRate, Loss, LossKind, LossTable,
    PaperTable, PathTable, ProcessorsTable, Queue, QueueTable, RateTable, RecordKind, RelayTable,
    ReorderTable, RouteTable, RouterTable, RoutingBy, RoutingTable, SessionTable, StreamTable,
    TargetTable, TcpTable, TextOr, TraceTable, WorkloadTable, WorldKind, WorldTable,
};
pub use expect::{Comparison, Expectation};
pub use files::PlanFile;
pub(crate) use json::json;
pub use parameter::Parameter;
pub use quantity::{QueueBound, Share, Size, Span};
pub(crate) use scenario::STREAM_PORT;
pub use scenario::{
    Classifier, Connection, Direction, Inexpressible, Initiator, InnerRoute, Link, NetemSetting,
    PlannedRoute, RealHost, Receiver, Relay, Scenario, Stream, Tunnel, TunnelEnd,
};
pub use sweep::Axis;
pub use timeline::{Action, Moment, Side, Statement};

use wansan_mistake::Mistake;
use wansan_schema::{Paper, Results};
use wansan_trace::units::parse_bytes;

/// Most cells in one phase of a plan.
const MAX_CELLS: usize = 10_000;
/// Longest plan, in bytes.
const MAX_PLAN_BYTES: u64 = 1 << 20;

/// A mistake in a plan, in one line: file, line if known, key, value and the nearest correct one. The plan's author can
/// fix it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{}: {mistake}", file.display(), line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct PlanError {
    /// The plan's file.
    pub file: PathBuf,
    /// The line of the mistake, from 1, if there is one.
    pub line: Option<usize>,
    /// The mistake and a correction.
    pub mistake: String,
}

/// A parsed and checked plan.
#[derive(Debug, Clone)]
pub struct Plan {
    file: PathBuf,
    table: toml::Table,
    document: Document,
    sweep: Vec<Axis>,
    expectations: Vec<Expectation>,
    known: Vec<paper::Known>,
    files: Vec<PlanFile>,
    /// Number of expectations that the quick form cannot check; `None` if this is not a quick form.
    quick_unchecked: Option<usize>,
}

impl Plan {
    /// Reads the plan in `file`.
    ///
    /// # Errors
    /// [`PlanError`] for any mistake in it, in any cell of its sweep.
    pub fn read(file: &Path) -> Result<Plan, PlanError> {
        let fail = |mistake: String| PlanError {
            file: file.to_owned(),
            line: None,
            mistake,
        };
        let unreadable = |error: std::io::Error| fail(format!("cannot read the plan: {error}"));
        // Devices and pipes have no length to query.
        let mut bytes = Vec::new();
        std::fs::File::open(file)
            .and_then(|opened| opened.take(MAX_PLAN_BYTES + 1).read_to_end(&mut bytes))
            .map_err(unreadable)?;
        if bytes.len() as u64 > MAX_PLAN_BYTES {
            return Err(fail(format!(
                "it is too long for a plan, which has at most {MAX_PLAN_BYTES} bytes"
            )));
        }
        let text = String::from_utf8(bytes)
            .map_err(|error| unreadable(std::io::Error::other(error.utf8_error())))?;
        Plan::parse(file, &text)
    }

    /// Parses a plan's text; `file` names it in errors and run folders.
    ///
    /// # Errors
    /// See [`Plan::read`].
    pub fn parse(file: &Path, text: &str) -> Result<Plan, PlanError> {
        let located = |mistake: Mistake| PlanError {
            file: file.to_owned(),
            line: mistake.line,
            mistake: mistake.text,
        };
        check_name(file).map_err(located)?;
        let document = document::from_text(text).map_err(located)?;
        let folder = folder_of(file);
        let scenario = Scenario::resolve(&document, text, folder).map_err(located)?;
        let conditions = Conditions::begin(&document, &scenario, folder).map_err(located)?;
        timeline::resolve(&document, text, &conditions).map_err(located)?;
        let table = document::to_table(&document).map_err(located)?;
        let mut plan = Plan {
            file: file.to_owned(),
            sweep: sweep::axes(&document.sweep, &document.case, &table, text).map_err(located)?,
            table,
            expectations: expect::resolve(&document.expect, text).map_err(located)?,
            known: paper::resolve(document.paper.as_ref()).map_err(located)?,
            files: Vec::new(),
            document,
            quick_unchecked: None,
        };
        let world = Parameter::new("world.kind");
        if plan.sweep.iter().any(|axis| axis.sets(&world)) {
            let mistake =
                "[sweep] `world.kind`: a run is in one world; `lab run --world both` compares them";
            return Err(located(Mistake::new(mistake)));
        }
        let cells = plan.expand(Phase::Planned, &[]).map_err(|mistake| {
            let axis = |name: &str| matches!(&plan.sweep[..], [only] if sweep::axis_name(name) == *only.name());
            located(mistake.at_dotted(text, "sweep", axis))
        })?;
        let hosts = |cell: &Cell| cell.scenario.hosts.clone();
        if cells.iter().any(|cell| hosts(cell) != hosts(&cells[0])) {
            let mistake = "[sweep] `host`: a run is on the same hosts in all cells";
            return Err(located(Mistake::new(mistake)));
        }
        plan.check_filters(&cells, text).map_err(located)?;
        plan.check_metrics(&cells, text).map_err(located)?;
        plan.files = files::of(&cells, folder).map_err(located)?;
        if !plan.document.quick.is_empty() {
            plan.quick().map_err(|error| quick::located(error, text))?;
        }
        Ok(plan)
    }

    /// The plan's quick form: with the values of `[quick]`. Expectations and paper figures without a cell in it are
    /// left out.
    ///
    /// # Errors
    /// [`PlanError`] if the plan has none.
    pub fn quick(&self) -> Result<Plan, PlanError> {
        let fail = |mistake| self.fail(mistake);
        let document = quick::document(&self.document).map_err(fail)?;
        let table = document::to_table(&document).map_err(fail)?;
        let mut plan = Plan {
            file: self.file.clone(),
            sweep: sweep::axes(&document.sweep, &document.case, &table, "").map_err(fail)?,
            table,
            expectations: self.expectations.clone(),
            known: self.known.clone(),
            files: Vec::new(),
            document,
            quick_unchecked: None,
        };
        let cells = plan.cells(Phase::Planned, &[])?;
        plan.files = files::of(&cells, folder_of(&self.file)).map_err(fail)?;
        let is_advised = plan.document.apply_advice;
        let is_there = |subject: &subject::Subject| subject.is_among(&cells, is_advised);
        plan.expectations.retain(|e| is_there(e.subject()));
        plan.known.retain(|known| is_there(known.subject()));
        plan.quick_unchecked = Some(self.expectations.len() - plan.expectations.len());
        // The document becomes a plan of its own: exactly what was run.
        plan.document.expect = plan
            .expectations
            .iter()
            .map(|e| e.table().clone())
            .collect();
        if let Some(paper) = &mut plan.document.paper {
            paper.known = plan
                .known
                .iter()
                .map(|known| known.table().clone())
                .collect();
        }
        Ok(plan)
    }

    /// The same plan in another kind of world.
    ///
    /// # Errors
    /// [`PlanError`] if such a world does not support it.
    pub fn in_world(&self, kind: WorldKind) -> Result<Plan, PlanError> {
        let mut plan = self.clone();
        let name = toml::Value::String(kind.name().to_owned());
        Parameter::new("world.kind")
            .set(&mut plan.table, name)
            .map_err(|mistake| self.fail(mistake))?;
        plan.document.world.kind = kind;
        plan.cells(Phase::Planned, &[])?;
        Ok(plan)
    }

    /// The plan with these changes, as an experiment of its own: without expectations and paper figures, which apply to
    /// the original.
    ///
    /// # Errors
    /// [`PlanError`] if a parameter does not exist or does not accept that value.
    pub fn with(&self, changes: &[(Parameter, toml::Value)]) -> Result<Plan, PlanError> {
        let fail = |mistake| self.fail(mistake);
        let mut table = self.table.clone();
        for key in ["expect", "paper", "quick"] {
            table.remove(key);
        }
        for (parameter, value) in changes {
            parameter.set(&mut table, value.clone()).map_err(fail)?;
        }
        let document = document::from_table(&table).map_err(fail)?;
        let plan = Plan {
            table,
            document,
            expectations: Vec::new(),
            known: Vec::new(),
            quick_unchecked: None,
            ..self.clone()
        };
        plan.cells(Phase::Planned, &[])?;
        Ok(plan)
    }

    /// Number of expectations that this quick form does not check; `None` if this is the full plan.
    #[must_use]
    pub fn quick_unchecked(&self) -> Option<usize> {
        self.quick_unchecked
    }

    /// The plan's name: its file name without extension.
    #[must_use]
    pub fn name(&self) -> String {
        self.file.file_stem().map_or_else(
            || "plan".to_owned(),
            |stem| stem.to_string_lossy().into_owned(),
        )
    }

    /// The file that it was read from.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The plan as written, with all defaults filled in.
    #[must_use]
    pub fn document(&self) -> &Document {
        &self.document
    }

    /// The axes of the sweep, slowest-varying first.
    #[must_use]
    pub fn sweep(&self) -> &[Axis] {
        &self.sweep
    }

    /// The jitter and rate files that its cells name, as they were when the plan was read.
    #[must_use]
    pub fn files(&self) -> &[PlanFile] {
        &self.files
    }

    /// The plan's expectations.
    #[must_use]
    pub fn expectations(&self) -> &[Expectation] {
        &self.expectations
    }

    /// The paper's figures beside those of a run, if the plan reproduces a paper's experiment.
    #[must_use]
    pub fn paper(&self, results: &Results) -> Option<Paper> {
        let table = self.document.paper.as_ref()?;
        Some(paper::beside(table, &self.known, results))
    }

    /// The cells of one phase: the product of the sweep's lists, in plan order, `repeat` times. `changes` are applied
    /// to every cell first; the advised phase applies the finding's advice.
    ///
    /// # Errors
    /// [`PlanError`] if a parameter does not exist or does not accept that value.
    pub fn cells(
        &self,
        phase: Phase,
        changes: &[(Parameter, toml::Value)],
    ) -> Result<Vec<Cell>, PlanError> {
        self.expand(phase, changes)
            .map_err(|mistake| self.fail(mistake))
    }

    fn expand(
        &self,
        phase: Phase,
        changes: &[(Parameter, toml::Value)],
    ) -> Result<Vec<Cell>, Mistake> {
        let mut base = self.table.clone();
        for (parameter, value) in changes {
            parameter.set(&mut base, value.clone())?;
        }
        let folder = folder_of(&self.file);
        let repeat = self.document.repeat;
        cell::expand(&base, &self.sweep, repeat, phase, folder, MAX_CELLS)
    }

    /// The plan's value for a parameter, if any.
    #[must_use]
    pub fn value_of(&self, parameter: &Parameter) -> Option<toml::Value> {
        parameter.get(&self.table)
    }

    /// Parses `text` as a value for a parameter: of the type that the plan has there, or a number if it has none and
    /// `text` is one. In a list of sizes, as of buffers, it replaces the last and largest.
    #[must_use]
    pub fn value_for(&self, parameter: &Parameter, text: &str) -> toml::Value {
        let whole = || toml::Value::String(text.to_owned());
        match self.value_of(parameter) {
            None | Some(toml::Value::Integer(_)) => text.parse().map(toml::Value::Integer).ok(),
            Some(toml::Value::Boolean(_)) => text.parse().map(toml::Value::Boolean).ok(),
            Some(toml::Value::Array(mut list)) => list.pop().map(|_| {
                list.push(whole());
                toml::Value::Array(list)
            }),
            Some(_) => None,
        }
        .unwrap_or_else(whole)
    }

    /// The changes that set a parameter to `text`, together with what must follow: FirstBurstLength must not exceed
    /// MaxBurstLength (RFC 7143 §13.14). A MaxBurstLength that is large enough is kept.
    #[must_use]
    pub fn changes_for(&self, parameter: &Parameter, text: &str) -> Vec<(Parameter, toml::Value)> {
        let value = self.value_for(parameter, text);
        let mut changes = vec![(parameter.clone(), value.clone())];
        let negotiation = &self.document.session.negotiation;
        let is_first_burst = parameter.name() == "session.first_burst";
        let bytes = parse_bytes(text).ok().filter(|_| is_first_burst);
        if bytes.is_some_and(|bytes| bytes <= negotiation.first_burst.0) {
            changes.clear();
        }
        if bytes.is_some_and(|bytes| bytes > negotiation.max_burst.0) {
            changes.push((Parameter::new("session.max_burst"), value));
        }
        changes
    }

    /// Rejects a filter that no cell can match, which would make its expectation fail without a reason.
    fn check_filters(&self, cells: &[Cell], text: &str) -> Result<(), Mistake> {
        let expectations = self.expectations.iter().enumerate();
        let expectations = expectations.map(|(place, e)| (Some(place), "expect", e.subject()));
        let known = self.known.iter();
        let known = known.map(|known| (None, "paper.known", known.subject()));
        for (place, table, subject) in expectations.chain(known) {
            for (key, filter) in subject.filters() {
                if cells.iter().any(|cell| filter.selects_sweep(cell)) {
                    continue;
                }
                let about = format!("[[{table}]] `{}`", subject.metric());
                let mistake = Mistake::new(format!("no cell of the sweep has {filter}"));
                let mistake = mistake.within(about);
                return Err(match place {
                    Some(place) => mistake.in_table(text, table, place, key),
                    None => mistake,
                });
            }
        }
        Ok(())
    }

    /// Rejects a metric that a selected cell does not record.
    fn check_metrics(&self, cells: &[Cell], text: &str) -> Result<(), Mistake> {
        for (place, expectation) in self.expectations.iter().enumerate() {
            let (metric, subject) = (expectation.metric(), expectation.subject());
            let meant = |cell: &&Cell| subject.chooses(cell);
            let mut lacks = cells.iter().filter(meant).filter_map(|cell| {
                let lack = metric::lack(metric, cell)?;
                Some(match &cell.parameters[..] {
                    [] => lack,
                    parameters => format!("{lack} (where {})", cell::written(parameters)),
                })
            });
            if let Some(lack) = lacks.next() {
                let mistake = Mistake::new(format!("[[expect]] `{metric}` is never there: {lack}"));
                return Err(mistake.in_table(text, "expect", place, "metric"));
            }
        }
        Ok(())
    }

    /// This computer's error about a parameter `TABLE.KEY`, with the line of the plan's file that sets it, in its sweep
    /// or in that table.
    #[must_use]
    pub fn wrong(&self, parameter: &str, why: &dyn std::fmt::Display) -> PlanError {
        let mistake = Mistake::new(why.to_string());
        // Without the file, the mistake has no line.
        let text = std::fs::read_to_string(&self.file).unwrap_or_default();
        let is_meant = |name: &str| sweep::is_meant(name, parameter);
        let is_swept = self.sweep.iter().any(|axis| is_meant(axis.name().name()));
        self.fail(match parameter.split_once('.') {
            _ if is_swept => mistake.at_dotted(&text, "sweep", is_meant),
            Some((table, key)) => mistake.in_section(&text, table, key),
            None => mistake,
        })
    }

    fn fail(&self, mistake: Mistake) -> PlanError {
        PlanError {
            file: self.file.clone(),
            line: mistake.line,
            mistake: mistake.text,
        }
    }
}

/// A plan's name is also the name of its runs' folder, so it must not denote another folder.
fn check_name(file: &Path) -> Result<(), Mistake> {
    match file.file_stem().and_then(std::ffi::OsStr::to_str) {
        Some(stem @ ("." | "..")) => Err(Mistake::new(format!(
            "the plan is named `{stem}`, and no folder of runs can be: give its file another name"
        ))),
        _ => Ok(()),
    }
}

/// The folder of the files that a plan names: the plan's own.
fn folder_of(plan: &Path) -> &Path {
    plan.parent().unwrap_or(Path::new(""))
}
