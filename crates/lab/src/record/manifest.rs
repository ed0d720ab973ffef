//! Contents of manifest.json.

use std::collections::BTreeMap;

use wansan_path::SUPER_FRAME_MAX_BYTES;
use wansan_schema::{CellFacts, ClockAnchor, Manifest, NodeFacts, PathFacts};
use wansan_trace::clock::Both;

use super::machine;
use crate::emulator::Statistics;
use crate::plan::{Plan, WorldKind, json};
use crate::world::{Node, Rights, Role, World};

/// The manifest of a run that starts now.
#[must_use]
pub(crate) fn manifest(plan: &Plan, rights: Rights) -> Manifest {
    let is_emulated = plan.document().world.kind != WorldKind::Hosts;
    let offloads = World::offloads_off().into_iter().filter(|_| is_emulated);
    Manifest {
        plan: plan.name(),
        plan_file: plan.file().display().to_string(),
        quick: plan.quick_unchecked().is_some(),
        document: json(plan.document()),
        seed: Some(plan.document().seed),
        wansan_version: Some(env!("CARGO_PKG_VERSION").to_owned()),
        wansan_commit: Some(env!("WANSAN_COMMIT").to_owned()),
        rights: rights.name().to_owned(),
        machine: machine::here(),
        clock_anchors: vec![clock_anchor()],
        offloads_off: offloads.map(str::to_owned).collect(),
        super_frame_max_bytes: match is_emulated {
            true => SUPER_FRAME_MAX_BYTES,
            false => 0,
        },
        path_bytes:
            "Ethernet frame without preamble, checksum and gap: IP packet + 14 bytes, + the \
                     path's `overhead`"
                .to_owned(),
        ..Manifest::default()
    }
}

/// Both clocks, now.
#[must_use]
pub(crate) fn clock_anchor() -> ClockAnchor {
    let both = Both::now();
    ClockAnchor {
        monotonic_ns: both.monotonic.ns(),
        realtime_ns: both.realtime_ns,
        uncertainty_ns: both.width_ns,
    }
}

/// Facts about a node.
#[must_use]
pub(crate) fn node_facts(node: &Node) -> NodeFacts {
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
        }
        .to_owned(),
        // On real hosts, a host that acts as a router is in no network of its own.
        address: match node.interfaces() {
            [] => String::new(),
            _ => node.address().to_string(),
        },
        addresses,
        routes: spec.routes.iter().map(ToString::to_string).collect(),
        rules: spec.rules.iter().map(ToString::to_string).collect(),
        settings: node.settings().clone(),
    }
}

/// Adds the emulator's statistics.
pub(crate) fn add_statistics(cell: &mut CellFacts, statistics: &Statistics) {
    cell.emulator_ring_drops = statistics.ring_drops;
    cell.emulator_strays = statistics.strays;
    cell.emulator_offloaded = statistics.offloaded;
    cell.emulator_send_failures = statistics.send_failures;
    cell.emulator_cpu_ns = statistics.cpu_ns;
    cell.emulator_scheduling = statistics.scheduling.name().to_owned();
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
    cell.paths = statistics.paths.iter().map(facts).collect();
}
