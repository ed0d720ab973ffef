//! The real routers of a cell, each with its own emulator: the lab's side of [`super::carry`].

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use wansan_schema::{CellFacts, PathResult};

use super::CellError;
use super::carry::{Carriage, Carried};
use super::path_emulator::PathResults;
use super::program::{self, Event, Program};
use super::servers::LAST_WORDS;
use super::site::Place;
use crate::hosts::Fleet;
use crate::patience;
use crate::plan::{Cell, Side};
use crate::processors::Processors;
use crate::world::Process;

/// Time for a router to resolve its hosts and start.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The running routers.
pub(super) struct Routers(Vec<(String, Process)>);

impl Routers {
    /// Starts those of a cell. Bare routers forward packets without emulation.
    pub(super) fn start(
        fleet: &Fleet,
        cell: &Cell,
        program: &Path,
        is_bare: bool,
        stop: &AtomicBool,
    ) -> Result<Routers, CellError> {
        let mut unwatched = Processors::new(&[], 0);
        let mut names: Vec<&str> = Vec::new();
        for node in cell.scenario.links.iter().filter_map(|link| link.router) {
            let name = &*cell.scenario.topology.nodes[node].name;
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let files = match names.is_empty() {
            true => BTreeMap::new(),
            false => {
                let files = cell.files().map_err(CellError::Files)?.into_iter();
                files.map(|file| (file.name, file.text)).collect()
            }
        };
        let mut routers = Routers(Vec::new());
        for name in names {
            let host = fleet.host(name).expect("the fleet has all hosts");
            let settings = Carriage {
                router: name.to_owned(),
                document: cell.document.to_toml(),
                files: files.clone(),
                repeat: cell.repeat,
                is_bare,
                records: host.records().to_owned(),
            };
            let title = format!("the router `{name}`");
            let program = Program::by_lab(program, &["lab", "carry"], &settings);
            let mut process = program.start(&Place::Host(host), &title, &mut unwatched)?;
            let line = process.line_unless(stop, "begin", START_LIMIT)?;
            let line = line.ok_or(CellError::Interrupted)?;
            program::expect_event(&title, Event::Listening, &line)?;
            routers.0.push((title, process));
        }
        Ok(routers)
    }

    /// Fails with the reason if one has exited: none does so by itself, and otherwise only timeouts would reveal it.
    pub(super) fn check(&mut self) -> Result<(), CellError> {
        for (_, process) in &mut self.0 {
            if !process.is_running()? {
                process.line("carry packets", LAST_WORDS)?;
            }
        }
        Ok(())
    }

    /// Stops them, which makes them write their records; returns their results and adds facts on the cell.
    pub(super) fn end(self, facts: &mut CellFacts) -> Result<Option<PathResults>, CellError> {
        let mut results = PathResults::default();
        let has_any = !self.0.is_empty();
        for (title, process) in self.0 {
            process.terminate();
            let lines = process.succeed(patience::END)?;
            let Carried { carried, facts: of } = program::carried(&title, &lines)?;
            results.paths.extend(carried);
            facts.emulator_ring_drops += of.emulator_ring_drops;
            facts.emulator_strays += of.emulator_strays;
            facts.emulator_offloaded += of.emulator_offloaded;
            facts.emulator_send_failures += of.emulator_send_failures;
            facts.emulator_cpu_ns += of.emulator_cpu_ns;
            facts.emulator_scheduling = of.emulator_scheduling;
            facts.paths.extend(of.paths);
        }
        Ok(has_any.then_some(results))
    }
}

/// Checks that the packets of all emulated paths passed their routers, in both directions.
pub(super) fn have_all(
    fleet: &Fleet,
    cell: &Cell,
    carried: &[PathResult],
) -> Result<(), CellError> {
    let scenario = &cell.scenario;
    let name = |node: usize| &*scenario.topology.nodes[node].name;
    for link in &scenario.links {
        let Some(router) = link.router else {
            continue;
        };
        let (near, far) = (link.near[0], link.far[0]);
        for (side, [from, to]) in Side::BOTH.into_iter().zip([[near, far], [far, near]]) {
            let direction = side.of(&link.name);
            let mut counted = carried.iter().filter(|path| path.name == direction);
            if counted.all(|path| path.in_packets == 0) {
                let address = |node: usize| {
                    let host = fleet.host(name(node)).expect("the fleet has all hosts");
                    host.spec().address
                };
                return Err(CellError::NotThrough {
                    path: link.name.clone(),
                    from: name(from).to_owned(),
                    to: name(to).to_owned(),
                    router: name(router).to_owned(),
                    command: format!("ip route add {} via {}", address(to), address(router)),
                });
            }
        }
    }
    Ok(())
}
