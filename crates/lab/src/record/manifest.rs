//! manifest.json: everything that a later reader needs to trust a result or to repeat it.

use std::collections::BTreeMap;

use serde::Serialize;
use wansan_trace::clock::Both;

use super::Machine;
use crate::emulator::Statistics;
use crate::plan::{ControlTable, Document, Plan};
use crate::vpn::Tunnel;
use crate::world::{Node, Rights, Role, World};

/// The content of manifest.json.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Manifest {
    /// The plan's name.
    pub plan: String,
    /// The file that it was read from.
    pub plan_file: String,
    /// Whether that is its quick form.
    pub quick: bool,
    /// The plan with every default in it.
    pub document: Document,
    /// The files that the plan names, by their names in it.
    pub files: BTreeMap<String, FileFacts>,
    /// The parameters set over the plan in the advised phase.
    pub advised: BTreeMap<String, String>,
    /// Where all randomness began.
    pub seed: u32,
    /// wansan's version.
    pub wansan_version: &'static str,
    /// The commit that it was built from, or `unknown`.
    pub wansan_commit: &'static str,
    /// How the lab got the right to make namespaces.
    pub rights: &'static str,
    /// The machine.
    pub machine: Machine,
    /// Readings of both clocks, to convert between them: records are CLOCK_MONOTONIC.
    pub clock_anchors: Vec<ClockAnchor>,
    /// Switched off on every link, by ethtool's names.
    pub offloads_off: Vec<&'static str>,
    /// The longest super-frame that a host leaves to its link to segment; the emulator cuts it
    /// into packets. As Linux has it, `gso_max_size`. By netem, hosts send packets one by one.
    pub super_frame_max_bytes: u32,
    /// What a byte on a path is.
    pub path_bytes: &'static str,
    /// What was built and measured in each cell.
    pub cells: Vec<CellFacts>,
}

/// A file that the plan names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileFacts {
    /// The SHA-256 of what is in it, in hexadecimal.
    pub sha256: String,
    /// Where its copy is, from the run's folder.
    pub copy: String,
}

/// CLOCK_MONOTONIC and CLOCK_REALTIME at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClockAnchor {
    /// CLOCK_MONOTONIC.
    pub monotonic_ns: u64,
    /// CLOCK_REALTIME, since 1970.
    pub realtime_ns: u64,
    /// How long reading both took: the anchor's uncertainty.
    pub uncertainty_ns: u64,
}

/// The world of one cell.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CellFacts {
    /// The cell's number.
    pub cell: usize,
    /// The congestion control of its connections.
    pub congestion_control: ControlFacts,
    /// Its hosts and routers.
    pub nodes: Vec<NodeFacts>,
    /// The command line of every program, by host.
    pub programs: BTreeMap<String, String>,
    /// Its tunnels.
    pub tunnels: Vec<Tunnel>,
    /// What the emulator achieved on each direction of each path.
    pub paths: Vec<PathFacts>,
    /// How netem was set up in the wan's namespace, if it carried the packets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub netem_commands: Vec<String>,
    /// Frames lost because the emulator did not run for too long.
    pub emulator_ring_drops: u64,
    /// Frames that had nowhere to go.
    pub emulator_strays: u64,
    /// Frames of which no wire packets could be made, dropped.
    pub emulator_offloaded: u64,
    /// Frames that the kernel refused to send.
    pub emulator_send_failures: u64,
    /// Processor time of the emulator.
    pub emulator_cpu_ns: u64,
    /// How the emulator's thread was scheduled.
    pub emulator_scheduling: &'static str,
}

/// The congestion control of a cell's connections.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ControlFacts {
    /// Its name.
    pub name: String,
    /// `lab`: one of ours, which the lab loaded for the run; `before`: one of ours that was loaded
    /// already; `kernel`: any other.
    pub origin: &'static str,
    /// What it was loaded with: null of the kernel's, and where that cannot be seen.
    pub parameters: Option<ControlTable>,
}

/// One host or router of a cell's world.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeFacts {
    /// Its name.
    pub name: String,
    /// `host` or `router`.
    pub role: &'static str,
    /// The address that others reach it at.
    pub address: String,
    /// All its addresses by interface.
    pub addresses: BTreeMap<String, Vec<String>>,
    /// Its routes to what lies behind its neighbours, as `ip route` has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<String>,
    /// Its rules, as `ip rule` has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// The kernel settings in force in its namespace.
    pub settings: BTreeMap<String, String>,
}

/// One direction of a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathFacts {
    /// Its name.
    pub name: String,
    /// The one-way delay that was asked for.
    pub delay_ns: u64,
    /// How much later half of the frames left than they should have.
    pub lateness_p50_ns: u64,
    /// The same for 99 of 100 frames.
    pub lateness_p99_ns: u64,
    /// The same for all frames.
    pub lateness_max_ns: u64,
    /// Packets that came in.
    pub in_packets: u64,
    /// Packets that came out.
    pub out_packets: u64,
    /// Packets dropped by the queue.
    pub queue_drops: u64,
    /// Packets dropped by the loss element.
    pub loss_drops: u64,
}

impl Manifest {
    /// The manifest of a run that begins now.
    #[must_use]
    pub fn begin(plan: &Plan, rights: Rights) -> Manifest {
        Manifest {
            plan: plan.name(),
            plan_file: plan.file().display().to_string(),
            quick: plan.quick_unchecked().is_some(),
            document: plan.document().clone(),
            files: BTreeMap::new(),
            advised: BTreeMap::new(),
            seed: plan.document().seed,
            wansan_version: env!("CARGO_PKG_VERSION"),
            wansan_commit: env!("WANSAN_COMMIT"),
            rights: rights.name(),
            machine: Machine::here(),
            clock_anchors: vec![ClockAnchor::now()],
            offloads_off: World::offloads_off(),
            super_frame_max_bytes: World::super_frame_max_bytes(),
            path_bytes: "Ethernet frame without preamble, checksum and gap: IP packet + 14 bytes, + the \
                         path's `overhead`",
            cells: Vec::new(),
        }
    }
}

impl ClockAnchor {
    /// Both clocks, now.
    #[must_use]
    pub fn now() -> ClockAnchor {
        let both = Both::now();
        ClockAnchor {
            monotonic_ns: both.monotonic.ns(),
            realtime_ns: both.realtime_ns,
            uncertainty_ns: both.width_ns,
        }
    }
}

impl NodeFacts {
    /// What is known about a node.
    #[must_use]
    pub fn of(node: &Node) -> NodeFacts {
        let spec = node.spec();
        let mut addresses: BTreeMap<String, Vec<String>> = BTreeMap::new();
        if !spec.addresses.is_empty() {
            let own = spec.addresses.iter().map(ToString::to_string);
            addresses.insert("lo".to_owned(), own.collect());
        }
        for interface in node.interfaces() {
            let name = interface.name.clone();
            addresses.insert(name, vec![interface.address.to_string()]);
        }
        NodeFacts {
            name: node.name().to_owned(),
            role: match node.role() {
                Role::Host => "host",
                Role::Router => "router",
            },
            address: node.address().to_string(),
            addresses,
            routes: spec.routes.iter().map(ToString::to_string).collect(),
            rules: spec.rules.iter().map(ToString::to_string).collect(),
            settings: node.settings().clone(),
        }
    }
}

impl CellFacts {
    /// Those of a cell of which nothing has been built yet.
    #[must_use]
    pub fn begin(cell: usize, congestion_control: ControlFacts) -> CellFacts {
        CellFacts {
            cell,
            congestion_control,
            nodes: Vec::new(),
            programs: BTreeMap::new(),
            tunnels: Vec::new(),
            paths: Vec::new(),
            netem_commands: Vec::new(),
            emulator_ring_drops: 0,
            emulator_strays: 0,
            emulator_offloaded: 0,
            emulator_send_failures: 0,
            emulator_cpu_ns: 0,
            emulator_scheduling: "",
        }
    }

    /// Adds what the emulator did.
    pub fn add_statistics(&mut self, statistics: &Statistics) {
        self.emulator_ring_drops = statistics.ring_drops;
        self.emulator_strays = statistics.strays;
        self.emulator_offloaded = statistics.offloaded;
        self.emulator_send_failures = statistics.send_failures;
        self.emulator_cpu_ns = statistics.cpu_ns;
        self.emulator_scheduling = statistics.scheduling.name();
        let facts = |path: &crate::emulator::PathStatistics| PathFacts {
            name: path.name.clone(),
            delay_ns: path.delay_ns,
            lateness_p50_ns: path.lateness_p50_ns,
            lateness_p99_ns: path.lateness_p99_ns,
            lateness_max_ns: path.lateness_max_ns,
            in_packets: path.counters.entered.packets,
            out_packets: path.counters.delivered.packets,
            queue_drops: path.counters.dropped_by_queue.packets,
            loss_drops: path.counters.dropped_by_loss.packets,
        };
        self.paths = statistics.paths.iter().map(facts).collect();
    }
}
