//! Emulates a cell's paths: with the emulator, or with netem.

use std::path::Path;

use wansan_schema::{CellFacts, NetemResult, PathResult};
use wansan_trace::file;

use super::{CellError, emulation};
use crate::emulator::{Capture, Emulator, Remote};
use crate::netem::Netem;
use crate::plan::{Cell, EmulatorKind};
use crate::record::add_statistics;
use crate::world::World;

/// The host name of the emulator's records.
const WAN: &str = "wan";

/// The running emulation.
pub(super) enum PathEmulator {
    /// The emulator, with its captures.
    Emulator(Emulator, Vec<Capture>),
    /// netem.
    Netem(Netem),
}

/// Results of each direction of each path, from its emulator.
#[derive(Debug, Default)]
pub(super) struct PathResults {
    pub(super) paths: Vec<PathResult>,
    pub(super) netem: Vec<NetemResult>,
}

impl PathEmulator {
    /// Starts emulating the paths of a world. `seed` seeds losses; every direction of every link has its own sequence.
    pub(super) fn start(
        world: &World,
        cell: &Cell,
        seed: u64,
        folder: &Path,
    ) -> Result<PathEmulator, CellError> {
        let (document, scenario) = (&cell.document, &cell.scenario);
        match document.world.emulator {
            EmulatorKind::User => {
                let kinds = &document.trace.kinds;
                let memory_bytes = document.trace.memory.0;
                let (emulator, captures) =
                    emulation::start(world, scenario, seed, kinds, memory_bytes, folder)?;
                Ok(PathEmulator::Emulator(emulator, captures))
            }
            EmulatorKind::Netem => Ok(PathEmulator::Netem(Netem::start(world, scenario, seed)?)),
        }
    }

    /// A handle for changes during the run; `None` for netem, which does not support them.
    pub(super) fn remote(&self) -> Option<Remote> {
        match self {
            PathEmulator::Emulator(emulator, _) => Some(emulator.remote()),
            PathEmulator::Netem(_) => None,
        }
    }

    /// Stops it and writes its records; returns the paths' results.
    pub(super) fn end(
        self,
        world: &World,
        folder: &Path,
        facts: &mut CellFacts,
    ) -> Result<PathResults, CellError> {
        let (emulator, captures) = match self {
            PathEmulator::Emulator(emulator, captures) => (emulator, captures),
            PathEmulator::Netem(netem) => {
                facts.netem_commands = netem.commands().to_vec();
                return Ok(PathResults {
                    netem: netem.results(world.wan())?,
                    ..PathResults::default()
                });
            }
        };
        let report = emulator.stop()?;
        add_statistics(facts, &report.statistics);
        file::write_part(folder, WAN, &[report.recorder])?;
        captures.into_iter().try_for_each(emulation::end_capture)?;
        let paths = report.statistics.paths.iter();
        Ok(PathResults {
            paths: paths.map(PathResult::from).collect(),
            ..PathResults::default()
        })
    }
}
