//! A scenario's paths as links of a simulated network, and the routes over them.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use wansan_path::Effects;
use wansan_schema::PathResult;
use wansan_sim::network::{Hop, Network};
use wansan_trace::time::duration_ns;

use super::SimulationError;
use super::tunnels::{Through, Tunnels};
use crate::emulator::{ElementStatistics, PathStatistics};
use crate::plan::{Connection, Link, Scenario, Side};
use crate::vpn::Meter;
use crate::world::Topology;

/// The links of each path, forward and back, and the tunnels.
pub(super) struct Directions {
    links: Vec<[u32; 2]>,
    /// Names and overheads of the links of paths other than wires.
    named: Vec<(String, u32, u32)>,
    tunnels: Tunnels,
}

/// Adds the links of all paths, and the tunnels. Every direction has its own random sequence, as in the emulator.
pub(super) fn build(
    network: &mut Network,
    scenario: &Scenario,
    seed: u64,
) -> Result<Directions, SimulationError> {
    let mut directions = Directions {
        links: Vec::new(),
        named: Vec::new(),
        tunnels: Tunnels::build(network, scenario),
    };
    let mut number = 0;
    for link in &scenario.links {
        let mut both = [0; 2];
        for (place, side) in Side::BOTH.into_iter().enumerate() {
            let planned = [&link.forward, &link.back][place];
            let wire = Effects::default();
            let effects = match link.wire {
                true => &wire,
                false => &planned.effects,
            };
            let added = network.link(effects, seed.wrapping_add(number));
            let added = added.map_err(|source| SimulationError::Effects {
                path: link.name.clone(),
                source,
            })?;
            if !link.wire {
                let name = side.of(&link.name);
                network.name_link(added, &name);
                network.set_overhead(added, planned.overhead_bytes);
                directions.named.push((name, added, planned.overhead_bytes));
                number += 1;
            }
            both[place] = added;
        }
        directions.links.push(both);
    }
    Ok(directions)
}

impl Directions {
    /// The route of a connection from an initiator's host to the target's, and back.
    pub(super) fn routes(
        &self,
        scenario: &Scenario,
        host: usize,
        connection: &Connection,
    ) -> [Vec<Hop>; 2] {
        let mut there = Vec::new();
        let mut add = |path: usize, from: usize| {
            let is_forward = scenario.links[path].near.contains(&from);
            there.push((path, usize::from(!is_forward)));
        };
        match connection.route_place {
            None => {
                let named = |link: &crate::plan::Link| link.name == connection.route;
                if let Some(path) = scenario.links.iter().position(named) {
                    add(path, host);
                }
            }
            Some(place) => {
                let route = &scenario.routes[place];
                let joins = |link: &crate::plan::Link| link.joins(host, route.via[0]);
                if let Some(first) = scenario.links.iter().position(joins) {
                    add(first, host);
                }
                for (&network, &from) in route.networks.iter().zip(&route.via) {
                    add(network, from);
                }
            }
        }
        self.both_ways(scenario, &there, connection.route_place)
    }

    /// The direct route from a host to another one's address, and back; and the host's own address there.
    pub(super) fn straight(
        &self,
        scenario: &Scenario,
        host: usize,
        to: Ipv4Addr,
    ) -> ([Vec<Hop>; 2], Ipv4Addr) {
        let leads = |(place, link): &(usize, &Link)| {
            let mut members = link.members();
            members.any(|member| Topology::address(*place, member) == to)
        };
        let found = scenario.links.iter().enumerate().find(leads);
        let (place, link) = found.expect("plans are checked for a path to where streams go");
        let is_forward = link.near.contains(&host);
        let routes = self.both_ways(scenario, &[(place, usize::from(!is_forward))], None);
        (routes, Topology::address(place, host))
    }

    /// The routes over these directions of paths, for the route at index `place`, and back.
    fn both_ways(
        &self,
        scenario: &Scenario,
        there: &[(usize, usize)],
        route: Option<usize>,
    ) -> [Vec<Hop>; 2] {
        let through = route.and_then(|place| self.tunnels.of_route(place));
        let back: Vec<_> = there
            .iter()
            .rev()
            .map(|&(path, side)| (path, 1 - side))
            .collect();
        let ways = [(there, 0), (&back[..], 1)];
        ways.map(|(steps, way)| self.way(scenario, steps, route, through.map(|both| both[way])))
    }

    /// The route over these directions of paths: in a tunnel, if there is one, on all but the first and the last.
    fn way(
        &self,
        scenario: &Scenario,
        steps: &[(usize, usize)],
        route: Option<usize>,
        through: Option<Through>,
    ) -> Vec<Hop> {
        let last = steps.len().saturating_sub(1);
        let mut hops = Vec::new();
        for (place, &(path, side)) in steps.iter().enumerate() {
            let is_inside = through.is_some() && (1..last).contains(&place);
            match through {
                Some(Through { seal, tunnel, .. }) if place == 1 => {
                    hops.push(Hop::Seal { side: seal, tunnel });
                }
                Some(Through { open, .. }) if place == last => hops.push(Hop::Open { side: open }),
                _ => {}
            }
            let link = &scenario.links[path];
            let direction = [&link.forward, &link.back][side];
            hops.push(Hop::Link {
                link: self.links[path][side],
                // Packets inside a tunnel cannot be classified.
                class: direction.class_of(route.filter(|_| !is_inside)),
            });
        }
        hops
    }

    /// The work of the routers' VPN programs over time.
    pub(super) fn meter(&self, network: &Network) -> Meter {
        self.tunnels.meter(network)
    }

    /// The link of a direction with that name.
    pub(super) fn link(&self, name: &str) -> Option<u32> {
        let mut named = self.named.iter();
        named.find(|(other, ..)| other == name).map(|it| it.1)
    }

    /// Results of each direction of each path.
    pub(super) fn results(&self, network: &mut Network) -> Vec<PathResult> {
        let named = self.named.iter();
        let statistics = named.map(|(name, link, overhead_bytes)| {
            let (delay, bits_per_s) = network.conditions(*link);
            let elements = network.element_counters(*link).map(ElementStatistics::of);
            let elements = elements.collect();
            PathStatistics {
                name: name.clone(),
                counters: network.counters(*link),
                overhead_bytes: *overhead_bytes,
                delay_ns: duration_ns(delay),
                bits_per_s,
                elements,
                ..PathStatistics::default()
            }
        });
        statistics.map(|it| PathResult::from(&it)).collect()
    }
}

/// The addresses at which a program on a host listens: all of its own, with that port.
pub(super) fn addresses(scenario: &Scenario, host: &str, listen: SocketAddrV4) -> Vec<SocketAddr> {
    let host = scenario.node(host);
    let links = scenario.links.iter().enumerate();
    let own = links.filter(|(_, link)| link.members().any(|member| member == host));
    own.map(|(place, _)| SocketAddr::from((Topology::address(place, host), listen.port())))
        .collect()
}
