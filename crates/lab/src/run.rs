//! A plan carried out.
//!
//! Each cell of the sweep gets a world of its own: fresh namespaces, fresh programs, fresh
//! connections, so that nothing of one cell can be felt in the next. When the plan asks for it,
//! the sweep runs a second time with what the finding of the first advises.

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

/// How a plan is to be run.
#[derive(Debug, Clone)]
pub struct Options<'a> {
    /// The `wansan` binary that the hosts run.
    pub program: PathBuf,
    /// The folder in which run folders are made.
    pub out: PathBuf,
    /// What [`crate::world::isolate`] gave.
    pub rights: Rights,
    /// How real computers are reached.
    pub reach: Reach,
    /// What runs the cells; this computer when there is none.
    pub on: Option<Engine>,
    /// How long a simulated cell may take; no bound when there is none.
    pub budget: Option<Duration>,
    /// Set by a signal's handler to end the run early.
    pub stop: &'a AtomicBool,
}

/// Whoever wants to know how a run gets on.
pub trait Observer {
    /// Something that takes its time comes before the first cell.
    fn preparing(&mut self, _what: &str) {}
    /// A phase of so many cells begins; `left` is a guess of how long the whole run still takes.
    fn phase(&mut self, phase: Phase, cells: usize, left: Duration);
    /// Time passes: `done` of the run's `cells` have ended, and `left` is a guess as above.
    fn progress(&mut self, done: usize, cells: usize, left: Duration);
    /// A cell has ended well.
    fn cell(&mut self, result: &CellResult);
    /// The planned phase has ended and its finding is in `results`.
    fn found(&mut self, results: &Results);
}

/// A run that was carried out.
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

/// Why a run was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// A cell failed. The folder is kept; cells before that one are complete, and in a simulated world all
    /// others that are not named.
    #[error("cell {cell} failed: {source}{} (see {})", also(others), folder.display())]
    Cell {
        /// The cell's number.
        cell: u64,
        /// The run's folder.
        folder: PathBuf,
        /// Why.
        source: Box<CellError>,
        /// The numbers of those that failed as well, of simulated ones; their results say why.
        others: Vec<u64>,
    },
    /// The first cell failed before anything was measured; nothing is left of the run.
    #[error(transparent)]
    NotStarted(Box<CellError>),
    /// It was asked to stop. What is complete is kept.
    #[error("interrupted{}", kept(folder.as_deref()))]
    Interrupted {
        /// The run's folder, if there was anything to keep.
        folder: Option<PathBuf>,
    },
    /// The engine that is to run its cells cannot be used, or failed. What is complete is kept.
    #[error("{source}{}", kept(folder.as_deref()))]
    Engine {
        /// Why.
        source: Box<EngineError>,
        /// The run's folder, if there was anything to keep.
        folder: Option<PathBuf>,
    },
    /// The plan names a congestion control that is not there, or the advice does not fit it.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The folder cannot be written.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The report cannot be made.
    #[error(transparent)]
    Page(#[from] PageError),
}

/// Where what is complete is kept, in words.
fn kept(folder: Option<&Path>) -> String {
    let kept = |folder: &Path| format!("; completed cells are in {}", folder.display());
    folder.map(kept).unwrap_or_default()
}

/// The most cells that an error lists.
const LISTED: usize = 10;

/// Those that failed as well, in words.
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
    /// netem does not carry its packets.
    #[error(transparent)]
    Netem(#[from] NetemError),
    /// Its tunnels could not be made, or broke.
    #[error(transparent)]
    Vpn(#[from] VpnError),
    /// Its congestion control could not be had.
    #[error(transparent)]
    CongestionControl(#[from] CongestionControlError),
    /// The tunnel of a route did not come up over its paths.
    #[error("{source}; it goes over {paths}: do packets get through there?")]
    Tunnel {
        /// The paths, each in backticks.
        paths: String,
        /// Which tunnel, and what its program says.
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
    /// A program said something that the lab does not understand: the program is of another
    /// version than the lab.
    #[error("{title} says `{said}`, which is no {awaited}")]
    Babble {
        /// Which program.
        title: String,
        /// What was waited for.
        awaited: &'static str,
        /// What came.
        said: String,
    },
    /// There was no time at which all of its initiators, or streams, were measured.
    #[error(
        "the loads do not overlap: `{early}` had been measured before `{late}` began to \
         be; measure longer (`workload.time`), or have fewer of them"
    )]
    Apart {
        /// The host of the initiator that was done first.
        early: String,
        /// The host of the one that began last.
        late: String,
    },
    /// It could not be simulated.
    #[error(transparent)]
    Simulation(#[from] SimulationError),
    /// It took longer to simulate than it may.
    #[error(
        "it took longer than its budget of {}, which was enough for {:.1} % of it; raise --budget, or simulate \
         less: fewer I/Os or bytes per second, a shorter `workload.time`",
        wansan_settings::quantity::Span(*budget),
        100.0 * done
    )]
    Budget {
        /// How long it may take.
        budget: Duration,
        /// How much of its measurement was done by then, from 0 to 1.
        done: f64,
    },
    /// The simulator has a defect.
    #[error("the simulator failed, which is a defect: {0}; please report it with the plan")]
    Panicked(String),
    /// Its real hosts could not be used.
    #[error(transparent)]
    Hosts(HostsError),
    /// It failed on a worker of an engine, for that reason.
    #[error("{0}")]
    Elsewhere(String),
    /// Packets do not go through the router that is to emulate their path.
    #[error(
        "[[path]] `{path}`: what `{from}` sends to `{to}` does not go through its router `{router}`: send it there, as \
         by `{command}` on `{from}`"
    )]
    NotThrough {
        /// The path.
        path: String,
        /// The host that sends.
        from: String,
        /// The one that is sent to.
        to: String,
        /// The router.
        router: String,
        /// What would lead it there.
        command: String,
    },
    /// The files that its plan names cannot be read any more.
    #[error("{0}")]
    Files(Mistake),
    /// Its records could not be written or joined.
    #[error(transparent)]
    Records(#[from] wansan_trace::file::FileError),
    /// Its folder could not be written.
    #[error(transparent)]
    Folder(#[from] RecordError),
    /// Its records could not be explained.
    #[error(transparent)]
    Explain(#[from] ReadError),
    /// The run was asked to stop.
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
