//! Executes a plan.
//!
//! Each cell of the sweep gets its own world: fresh namespaces, programs and connections, so that no cell affects the
//! next. If the plan requests it, the sweep runs a second time with the advice from the first run's finding.

mod beside;
mod carry;
mod cell;
mod clock;
mod congestion;
pub mod control;
mod course;
mod elsewhere;
mod emulation;
mod explain;
mod measured_paths;
mod path_emulator;
mod phase;
mod program;
mod real;
mod routers;
mod servers;
mod simulation;
mod single;
mod site;
mod tunnels;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use wansan_insight::ReadError;
use wansan_insight::report::PageError;
use wansan_mistake::Mistake;

use crate::emulator::EmulatorError;
use crate::engine::{Engine, EngineError};
use crate::hosts::{HostsError, Reach};
use crate::netem::NetemError;
use crate::plan::{Phase, PlanError};
use crate::record::RecordError;
use crate::vpn::VpnError;
use crate::world::{ProcessError, Rights, WorldError};
use wansan_schema::{CellResult, Results};

pub use crate::simulated::SimulationError;
pub use carry::{CarryError, carry};
pub use congestion::CongestionControlError;
pub use phase::run;
pub use single::single;

/// Options of a run.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// The `wansan` binary that the hosts run.
    pub program: PathBuf,
    /// The parent of run folders.
    pub out: PathBuf,
    /// The result of [`crate::world::isolate`].
    pub rights: Rights,
    /// How to reach real computers.
    pub reach: Reach,
    /// The engine that runs the cells; `None` for this computer.
    pub on: Option<Engine>,
    /// Time limit of a simulated cell; `None` for no limit.
    pub budget: Option<Duration>,
    /// Set by a signal handler to end the run early.
    pub stop: &'a AtomicBool,
}

/// Receives a run's progress.
pub trait Observer {
    /// A lengthy preparation precedes the first cell.
    fn preparing(&mut self, _what: &str) {}
    /// A phase of `cells` cells begins; `left` is the estimated time left of the whole run.
    fn phase(&mut self, phase: Phase, cells: usize, left: Duration);
    /// Progress: `done` of the run's `cells` have ended; `left` as above.
    fn progress(&mut self, done: usize, cells: usize, left: Duration);
    /// A cell has succeeded.
    fn cell(&mut self, result: &CellResult);
    /// The planned phase has ended, with its finding in `results`.
    fn found(&mut self, results: &Results);
}

/// The result of a completed run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Its folder.
    pub folder: PathBuf,
    /// Its results.
    pub results: Results,
}

impl Outcome {
    /// Whether every expectation of the plan was met.
    #[must_use]
    pub fn as_expected(&self) -> bool {
        self.results.expectations.iter().all(|verdict| verdict.met)
    }
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A cell failed. The folder is kept; cells before it are complete, as are, in a simulated world, all others not
    /// listed.
    #[error("cell {cell} failed: {source}{} (see {})", also(others), folder.display())]
    Cell {
        /// The cell's number.
        cell: u64,
        /// The run's folder.
        folder: PathBuf,
        /// The error.
        source: Box<CellError>,
        /// Further failed cells, if simulated; their results give the reasons.
        others: Vec<u64>,
    },
    /// The first cell failed before any measurement; nothing is kept of the run.
    #[error(transparent)]
    NotStarted(Box<CellError>),
    /// The run was interrupted. Complete cells are kept.
    #[error("interrupted{}", kept(folder.as_deref()))]
    Interrupted {
        /// The run's folder, if anything was kept.
        folder: Option<PathBuf>,
    },
    /// The engine for its cells cannot be used, or failed. Complete cells are kept.
    #[error("{source}{}", kept(folder.as_deref()))]
    Engine {
        /// The error.
        source: Box<EngineError>,
        /// The run's folder, if anything was kept.
        folder: Option<PathBuf>,
    },
    /// The plan names an unavailable congestion control, or does not accept the advice.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The folder cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The report cannot be created.
    #[error(transparent)]
    Page(#[from] PageError),
}

/// Describes where complete cells are kept.
fn kept(folder: Option<&Path>) -> String {
    let kept = |folder: &Path| format!("; completed cells are in {}", folder.display());
    folder.map(kept).unwrap_or_default()
}

/// Most cells listed in an error.
const LISTED: usize = 10;

/// Describes the further failed cells.
fn also(others: &[u64]) -> String {
    let listed: Vec<String> = others.iter().take(LISTED).map(u64::to_string).collect();
    let listed = listed.join(", ");
    match others.len() {
        0 => String::new(),
        1 => format!("; so did cell {listed}"),
        2..=LISTED => format!("; so did cells {listed}"),
        all => format!("; so did cells {listed} and {} more", all - LISTED),
    }
}

/// Why a cell failed.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// Its world could not be built.
    #[error(transparent)]
    World(#[from] WorldError),
    /// Its paths could not be emulated.
    #[error(transparent)]
    Emulator(#[from] EmulatorError),
    /// netem cannot be used for its paths.
    #[error(transparent)]
    Netem(#[from] NetemError),
    /// Its tunnels could not be set up, or failed.
    #[error(transparent)]
    Vpn(#[from] VpnError),
    /// Its congestion control is unavailable.
    #[error(transparent)]
    CongestionControl(#[from] CongestionControlError),
    /// A route's tunnel did not come up over its paths.
    #[error("{source}; it goes over {paths}: do packets get through there?")]
    Tunnel {
        /// The paths, each in backticks.
        paths: String,
        /// The tunnel, and its program's error.
        source: VpnError,
    },
    /// One of its programs failed.
    #[error(transparent)]
    Program(#[from] ProcessError),
    /// A path was down when it failed.
    #[error("{source}; a path was down by then: {changes}")]
    Down {
        /// What failed.
        source: Box<CellError>,
        /// What took which path down, and when.
        changes: String,
    },
    /// A program's output is not understood: its version differs from the lab's.
    #[error("{title} printed `{said}` instead of a {awaited}")]
    Babble {
        /// The program.
        title: String,
        /// What was expected.
        awaited: &'static str,
        /// Its output.
        said: String,
    },
    /// There was no time at which all of its initiators, or streams, were measured.
    #[error(
        "the loads do not overlap: `{early}` had been measured before `{late}` began to \
         be; measure longer (`workload.time`), or have fewer of them"
    )]
    Apart {
        /// The host of the initiator that ended first.
        early: String,
        /// The host of the one that began last.
        late: String,
    },
    /// It could not be simulated.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// Its simulation exceeded the time limit.
    #[error(
        "it exceeded its budget of {} with {:.1} % done; raise --budget, or simulate \
         less: fewer I/Os or bytes per second, a shorter `workload.time`",
        wansan_settings::quantity::Span(*budget),
        100.0 * done
    )]
    Budget {
        /// The time limit.
        budget: Duration,
        /// Share of its measurement completed by then, from 0 to 1.
        done: f64,
    },
    /// The simulator has a defect.
    #[error("the simulator failed, which is a defect: {0}; please report it with the plan")]
    Panicked(String),
    /// Its real hosts could not be used.
    #[error(transparent)]
    Hosts(HostsError),
    /// It failed on an engine's worker, for this reason.
    #[error("{0}")]
    Elsewhere(String),
    /// Packets bypass the router that is to emulate their path.
    #[error(
        "[[path]] `{path}`: what `{from}` sends to `{to}` does not go through its router `{router}`: send it there, as \
         by `{command}` on `{from}`"
    )]
    NotThrough {
        /// The path.
        path: String,
        /// The sending host.
        from: String,
        /// The receiving host.
        to: String,
        /// The router.
        router: String,
        /// The command that would route them there.
        command: String,
    },
    /// The files that its plan names can no longer be read.
    #[error("{0}")]
    Files(Mistake),
    /// Its records could not be written or merged.
    #[error(transparent)]
    Records(#[from] wansan_trace::file::FileError),
    /// Its folder could not be written.
    #[error(transparent)]
    Folder(#[from] RecordError),
    /// Its records could not be explained.
    #[error(transparent)]
    Explain(#[from] ReadError),
    /// The run was interrupted.
    #[error("interrupted")]
    Interrupted,
}

impl From<HostsError> for CellError {
    fn from(error: HostsError) -> CellError {
        match error {
            HostsError::Interrupted => CellError::Interrupted,
            other => CellError::Hosts(other),
        }
    }
}
