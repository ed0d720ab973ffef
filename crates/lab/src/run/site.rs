//! Where a cell runs: in a world of namespaces built for it, or on the run's real hosts.

use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use wansan_schema::{NodeFacts, TunnelFacts};
use wansan_trace::event::Role;
use wansan_trace::file;

use super::cell::Kept;
use super::path_emulator::PathEmulator;
use super::routers::Routers;
use super::{CellError, Options, tunnels};
use crate::emulator::Remote;
use crate::hosts::{Attended, Clocks, CollectError, Fleet};
use crate::plan::Cell;
use crate::processors::Processors;
use crate::record::node_facts;
use crate::vpn::{Meter, Tunnels};
use crate::world::{Node, World};

/// Host name of thread records, for all nodes of a world.
const LAB: &str = "lab";

/// The site, with its packet emulation.
pub(super) enum Site<'a> {
    /// Namespaces on this computer.
    Netns(Box<Netns>),
    /// Other computers.
    Hosts(Hosts<'a>),
}

/// A world of namespaces.
pub(super) struct Netns {
    world: World,
    emulator: PathEmulator,
    tunnels: Tunnels,
}

/// Real hosts.
pub(super) struct Hosts<'a> {
    fleet: &'a Fleet,
    /// The routers among them that emulate paths.
    routers: Routers,
    target: Option<&'a str>,
    stop: &'a AtomicBool,
}

/// One host of a site.
#[derive(Clone, Copy)]
pub(super) enum Place<'a> {
    Node(&'a Node),
    Host(&'a Attended),
}

/// Results available at its end.
pub(super) struct Ended {
    /// Each router's work for its tunnels.
    pub(super) vpns: Meter,
    /// The clocks of its hosts, if they have their own.
    pub(super) clocks: Clocks,
}

impl<'a> Site<'a> {
    /// Builds a cell's world; `seed` seeds the losses of its paths.
    pub(super) fn build(
        cell: &Cell,
        seed: u64,
        folder: &Path,
        options: &Options<'_>,
    ) -> Result<Site<'a>, CellError> {
        let world = World::build(&cell.scenario.topology)?;
        let emulator = PathEmulator::start(&world, cell, seed, folder)?;
        let tunnels = tunnels::start(&options.program, &world, &cell.scenario, options.stop)?;
        Ok(Site::Netns(Box::new(Netns {
            world,
            emulator,
            tunnels,
        })))
    }

    /// Prepares real hosts for a cell.
    pub(super) fn of_hosts(
        fleet: &'a Fleet,
        cell: &'a Cell,
        options: &Options<'a>,
    ) -> Result<Site<'a>, CellError> {
        fleet.begin(cell)?;
        let stop = options.stop;
        Ok(Site::Hosts(Hosts {
            fleet,
            routers: Routers::start(fleet, cell, &options.program, false, stop)?,
            target: cell.scenario.target_host.as_deref(),
            stop,
        }))
    }

    /// The host of that name.
    pub(super) fn place(&self, name: &str) -> Place<'_> {
        let place = match self {
            Site::Netns(netns) => netns.world.node(name).map(Place::Node),
            Site::Hosts(hosts) => hosts.fleet.host(name).map(Place::Host),
        };
        place.expect("it has all its scenario's hosts")
    }

    /// Facts about its hosts and routers.
    pub(super) fn nodes(&self) -> Vec<NodeFacts> {
        match self {
            Site::Netns(netns) => netns.world.nodes().iter().map(node_facts).collect(),
            Site::Hosts(hosts) => hosts.fleet.nodes(),
        }
    }

    /// Its tunnels.
    pub(super) fn tunnels(&self) -> &[TunnelFacts] {
        match self {
            Site::Netns(netns) => netns.tunnels.tunnels(),
            Site::Hosts(_) => &[],
        }
    }

    /// Watches the programs of its tunnels.
    pub(super) fn watch(&self, processors: &mut Processors) {
        if let Site::Netns(netns) = self {
            for (router, vpn, process) in netns.tunnels.programs() {
                processors.watch(router, vpn, Role::Vpn, process);
            }
        }
    }

    /// Its emulator, for changes during the run, if it supports them.
    pub(super) fn emulator(&self) -> Option<Remote> {
        match self {
            Site::Netns(netns) => netns.emulator.remote(),
            Site::Hosts(_) => None,
        }
    }

    /// Samples its tunnels, and fails if a router has failed; call it often.
    pub(super) fn sample(&mut self) -> Result<(), CellError> {
        match self {
            Site::Netns(netns) => Ok(netns.tunnels.sample()?),
            Site::Hosts(hosts) => hosts.routers.check(),
        }
    }

    /// Stops the emulation, and merges the records in `folder`.
    pub(super) fn end(
        self,
        folder: &Path,
        processors: Processors,
        kept: &mut Kept,
    ) -> Result<Ended, CellError> {
        match self {
            Site::Netns(netns) => {
                let netns = *netns;
                let carried = netns.emulator.end(&netns.world, folder, &mut kept.facts);
                let carried = carried.map(|carried| kept.carried = Some(carried));
                let written = file::write_part(folder, LAB, &[processors.end()]);
                let merged = written.and_then(|_| file::merge_parts(folder));
                carried?;
                merged?;
                Ok(Ended {
                    vpns: netns.tunnels.end(),
                    clocks: Clocks::default(),
                })
            }
            Site::Hosts(hosts) => {
                let carried = hosts.routers.end(&mut kept.facts);
                let clocks = hosts.fleet.collect(folder, hosts.target, hosts.stop);
                kept.carried = carried?;
                let clocks = clocks.map_err(|error| match error {
                    CollectError::Hosts(error) => error.into(),
                    CollectError::Files(error) => CellError::Records(error),
                })?;
                kept.facts.clocks = clocks.facts();
                Ok(Ended {
                    vpns: Meter::default(),
                    clocks,
                })
            }
        }
    }
}

impl Place<'_> {
    /// The host's name.
    pub(super) fn name(&self) -> &str {
        match self {
            Place::Node(node) => node.name(),
            Place::Host(host) => &host.spec().name,
        }
    }

    /// The address that a target on it listens at: its only one, or the wildcard on an isolated host.
    pub(super) fn listens_at(&self) -> Ipv4Addr {
        match self {
            Place::Host(host) => host.spec().address,
            Place::Node(node) => match (node.interfaces(), &node.spec().addresses[..]) {
                ([only], []) => only.address,
                _ => Ipv4Addr::UNSPECIFIED,
            },
        }
    }

    /// The folder in which its programs record, given the cell's `folder`.
    pub(super) fn records<'f>(&'f self, folder: &'f Path) -> &'f Path {
        match self {
            Place::Node(_) => folder,
            Place::Host(host) => host.records(),
        }
    }
}
