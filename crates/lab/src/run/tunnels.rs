//! The tunnels of a cell's world: starts them between its routers, and routes into them.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use ipnet::Ipv4Net;

use super::CellError;
use crate::plan::{Cell, PlannedRoute, Scenario, Tunnel, TunnelEnd};
use crate::vpn::{End, Kind, Traffic, TunnelSpec, Tunnels, VpnError};
use crate::world::{Hop, IpRoute, Node, World};

/// The kinds of the tunnels in a cell's world.
pub(super) fn kinds(cell: &Cell) -> impl Iterator<Item = Kind> {
    taken(&cell.scenario).map(|(_, tunnel)| tunnel.kind)
}

/// The routes in use that have a tunnel.
fn taken(scenario: &Scenario) -> impl Iterator<Item = (&PlannedRoute, &Tunnel)> {
    let routes = scenario.routes.iter();
    routes.filter_map(|planned| Some((planned, planned.taken_tunnel()?)))
}

/// Starts the tunnels of all routes in use, and routes into them. The outer paths must already carry packets. `program`
/// is the `wansan` binary; `stop` ends the wait for them.
pub(super) fn start(
    program: &Path,
    world: &World,
    scenario: &Scenario,
    stop: &AtomicBool,
) -> Result<Tunnels, CellError> {
    let taken: Vec<(&PlannedRoute, &Tunnel)> = taken(scenario).collect();
    let outer_mtu_bytes = scenario.topology.mtu_bytes;
    let specs: Vec<TunnelSpec<'_>> = taken
        .iter()
        .map(|(planned, tunnel)| TunnelSpec {
            name: planned.name.clone(),
            kind: tunnel.kind,
            near: end(world, &tunnel.near),
            far: end(world, &tunnel.far),
            outer_mtu_bytes,
            traffic: traffic(tunnel),
        })
        .collect();
    let tunnels = Tunnels::start(program, &specs, stop).map_err(|error| match error {
        VpnError::Interrupted => CellError::Interrupted,
        VpnError::NotUp { ref tunnel, .. } => CellError::Tunnel {
            paths: under(scenario, tunnel),
            source: error,
        },
        other => CellError::Vpn(other),
    })?;
    for ((_, tunnel), up) in taken.iter().zip(tunnels.tunnels()) {
        for (end, device) in [
            (&tunnel.near, &up.near_device),
            (&tunnel.far, &up.far_device),
        ] {
            lead_into(world, end, device)?;
        }
    }
    Ok(tunnels)
}

/// The names of the paths below a route's tunnel.
fn under(scenario: &Scenario, route: &str) -> String {
    let planned = scenario.routes.iter().find(|planned| planned.name == route);
    // The last network leads to the target.
    let between = planned.and_then(|planned| planned.networks.split_last());
    let links = between.into_iter().flat_map(|(_, between)| between);
    let names: Vec<String> = links
        .map(|network| format!("`{}`", scenario.links[*network].name))
        .collect();
    names.join(", ")
}

fn router<'w>(world: &'w World, end: &TunnelEnd) -> &'w Node {
    &world.nodes()[end.router]
}

fn end<'w>(world: &'w World, end: &TunnelEnd) -> End<'w> {
    End {
        router: router(world, end),
        address: end.outer,
    }
}

/// Its traffic: between each address on one side and each on the other.
fn traffic(tunnel: &Tunnel) -> Vec<Traffic> {
    let pairs = tunnel
        .near
        .inner
        .iter()
        .flat_map(|near| tunnel.far.inner.iter().map(move |far| (*near, *far)));
    pairs
        .map(|(near, far)| Traffic {
            near: Ipv4Net::from(near),
            far: Ipv4Net::from(far),
            near_ports: tunnel.ports.clone(),
        })
        .collect()
}

fn lead_into(world: &World, end: &TunnelEnd, device: &str) -> Result<(), CellError> {
    for inner in &end.routes {
        router(world, end).set_route(&IpRoute {
            destination: inner.destination,
            table: inner.table,
            hop: Hop::Device(device.to_owned()),
            source: None,
            mtu_bytes: None,
        })?;
    }
    Ok(())
}
