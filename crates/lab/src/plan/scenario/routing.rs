//! Addressing and routing: the addresses of the ends, and the routes and rules of every node.
//!
//! All three kinds of routing use one scheme. Each node of a route has a route to the target's address by the next node
//! and, for the return path, one to the initiator's address by the previous node. They are in a table per `[[route]]`,
//! selected by rules on the port or the initiator's address; or in the main table, if the target's address
//! distinguishes the routes.
//!
//! | by | initiator | target | rules |
//! |---|---|---|---|
//! | port | 10.82.0.(1 + node), ports of the route | 10.82.0.(1 + node) | from and to the ports |
//! | source | 10.81.(route).(1 + node) | 10.82.0.(1 + node) | from and to 10.81.(route).0/24 |
//! | prefix | 10.81.(route).(1 + node) | 10.81.(route).(1 + node) | none |

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::ops::RangeInclusive;

use wansan_iscsi::text::send_targets::ISCSI_PORT;

use super::Connection;
use super::names::Names;
use super::route::{ConnectionRoute, InnerRoute, MAX_ROUTES, PlannedRoute};
use crate::plan::document::{InitiatorTable, RoutingBy};
use crate::vpn::Kind;
use crate::world::{Hop, IpRoute, NodeSpec, Rule, Selector, Topology};

/// First port of the first route's connections, below Linux's ephemeral range (from 32768).
const FIRST_PORT: u16 = 20_000;
const PORTS_OF_A_ROUTE: u16 = InitiatorTable::MAX_CONNECTIONS as u16;
/// Routing table of the first route; the kernel's own are 253 to 255.
const FIRST_TABLE: u32 = 1000;
const MAIN_TABLE: u32 = 254;

const _: () = assert!(FIRST_PORT as usize + PORTS_OF_A_ROUTE as usize * MAX_ROUTES <= 32_768);

/// Maps packets, in either direction, to `[[route]]`s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classifier {
    by: RoutingBy,
    routes: usize,
}

impl Classifier {
    pub(super) fn new(by: RoutingBy, routes: usize) -> Classifier {
        Classifier { by, routes }
    }

    /// The index of the route in [`super::Scenario::routes`], for a TCP segment between these ends. Packets inside a
    /// tunnel cannot be distinguished.
    #[must_use]
    pub fn route(&self, source: SocketAddrV4, destination: SocketAddrV4) -> Option<usize> {
        let route = |end: SocketAddrV4| match self.by {
            RoutingBy::Port => {
                let beyond = end.port().checked_sub(FIRST_PORT)?;
                Some(usize::from(beyond / PORTS_OF_A_ROUTE))
            }
            RoutingBy::Source | RoutingBy::Prefix => match end.ip().octets() {
                [10, 81, route, _] => Some(usize::from(route)),
                _ => None,
            },
        };
        let known = |route: &usize| *route < self.routes;
        route(source)
            .filter(known)
            .or_else(|| route(destination).filter(known))
    }
}

/// A node's own address.
fn own_address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 82, 0, node as u8 + 1)
}

/// A node's address for a route.
fn route_address(route: usize, node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 81, route as u8, node as u8 + 1)
}

fn ports(route: usize) -> RangeInclusive<u16> {
    let first = FIRST_PORT + route as u16 * PORTS_OF_A_ROUTE;
    first..=first + (PORTS_OF_A_ROUTE - 1)
}

/// Collects the addresses, routes and rules that connections need on each node.
pub(super) struct Routing {
    by: RoutingBy,
    target: usize,
    /// Routes in use, each once.
    taken: Vec<(usize, ConnectionRoute)>,
    /// Existing routes, by node, table and destination.
    claimed: BTreeSet<(usize, u32, Ipv4Addr)>,
}

impl Routing {
    pub(super) fn begin(by: RoutingBy, target: usize) -> Routing {
        Routing {
            by,
            target,
            taken: Vec::new(),
            claimed: BTreeSet::new(),
        }
    }

    /// The addresses of connection `number` of a session, over `taken`.
    pub(super) fn connection(
        &mut self,
        number: usize,
        taken: &ConnectionRoute,
        names: &Names,
    ) -> Connection {
        let Some(route) = taken.route else {
            let network = taken.first_network;
            return Connection {
                route: taken.name.clone(),
                route_place: None,
                source: SocketAddrV4::new(names.address(network, taken.host), 0),
                target: names.address(network, self.target),
                port: ISCSI_PORT,
            };
        };
        if !self.taken.iter().any(|(_, other)| other == taken) {
            self.taken.push((route, taken.clone()));
        }
        let port = match self.by {
            RoutingBy::Port => ports(route).start() + number as u16,
            RoutingBy::Source | RoutingBy::Prefix => 0,
        };
        let (source, target) = self.ends(route, taken.host);
        Connection {
            route: taken.name.clone(),
            route_place: Some(route),
            source: SocketAddrV4::new(source, port),
            target,
            port: ISCSI_PORT,
        }
    }

    /// Assigns addresses, routes and rules to nodes, and routes to tunnels.
    pub(super) fn finish(mut self, topology: &mut Topology, routes: &mut [PlannedRoute]) {
        // Where the main table has a single route, it is that of the first route.
        let mut connections = std::mem::take(&mut self.taken);
        connections.sort_by_key(|(route, _)| *route);
        // Only the tunnels of routes in use are created.
        let tunnels = connections
            .iter()
            .filter_map(|(route, _)| routes[*route].tunnel.as_ref());
        let kinds: Vec<Kind> = tunnels.map(|tunnel| tunnel.kind).collect();
        for (place, planned) in routes.iter_mut().enumerate() {
            let by_port = self.by == RoutingBy::Port;
            dig(planned, by_port.then(|| ports(place)), &kinds, topology);
        }
        for (place, taken) in &connections {
            self.lead(taken, *place, &mut routes[*place], topology);
        }
    }

    /// Adds the routes of a connection in both directions.
    fn lead(
        &mut self,
        taken: &ConnectionRoute,
        place: usize,
        planned: &mut PlannedRoute,
        topology: &mut Topology,
    ) {
        let (initiator, target) = self.ends(place, taken.host);
        let stations = [&[taken.host], &planned.via[..], &[self.target]].concat();
        let networks = [&[taken.first_network], &planned.networks[..]].concat();
        let (last_router, last) = (planned.via.len(), planned.via.len() + 1);
        for (number, &node) in stations.iter().enumerate() {
            if planned.tunnel.is_some() && (2..last_router).contains(&number) {
                // It only sees encapsulated packets.
                continue;
            }
            let own = match number {
                0 => Some(initiator),
                _ if number == last => Some(target),
                _ => None,
            };
            let spec = &mut topology.nodes[node];
            own.into_iter()
                .for_each(|own| add(&mut spec.addresses, own));
            for selector in self.selectors(place) {
                let table = self.table(place);
                add(&mut spec.rules, Rule { selector, table });
            }
            let forward = (number < last).then_some((target, number + 1));
            let back = number.checked_sub(1).map(|before| (initiator, before));
            let legs = [forward, back].into_iter().flatten();
            let tables = legs.flat_map(|leg| self.tables(place).map(move |table| (leg, table)));
            for ((destination, next), table) in tables.collect::<Vec<_>>() {
                if !self.claim(node, table, destination) {
                    continue;
                }
                let into = planned
                    .tunnel
                    .as_mut()
                    .and_then(|tunnel| match (number, next) {
                        (1, _) if next > number => Some(&mut tunnel.near),
                        _ if number == last_router && next < number => Some(&mut tunnel.far),
                        _ => None,
                    });
                if let Some(end) = into {
                    end.routes.push(InnerRoute { destination, table });
                    continue;
                }
                let mtu_bytes = planned.tunnel.as_ref().map(|tunnel| tunnel.mtu_bytes);
                spec.routes.push(IpRoute {
                    destination,
                    table,
                    hop: Hop::Neighbour {
                        network: networks[next.min(number)],
                        node: stations[next],
                    },
                    source: own,
                    mtu_bytes: mtu_bytes.filter(|_| own.is_some()),
                });
            }
        }
        if let Some(tunnel) = &mut planned.tunnel {
            add(&mut tunnel.near.inner, initiator);
            add(&mut tunnel.far.inner, target);
        }
    }

    /// Claims a route from a node to an address in a table; returns whether it was not claimed before.
    fn claim(&mut self, node: usize, table: u32, destination: Ipv4Addr) -> bool {
        self.claimed.insert((node, table, destination))
    }

    /// The addresses of the initiator on `host` and of the target, on a route.
    fn ends(&self, route: usize, host: usize) -> (Ipv4Addr, Ipv4Addr) {
        match self.by {
            RoutingBy::Port => (own_address(host), own_address(self.target)),
            RoutingBy::Source => (route_address(route, host), own_address(self.target)),
            RoutingBy::Prefix => (
                route_address(route, host),
                route_address(route, self.target),
            ),
        }
    }

    /// The tables of a route: its own, and the main one, for packets that no rule matches.
    fn tables(&self, route: usize) -> impl Iterator<Item = u32> + use<> {
        let own = self.table(route);
        [own, MAIN_TABLE]
            .into_iter()
            .take(if own == MAIN_TABLE { 1 } else { 2 })
    }

    fn table(&self, route: usize) -> u32 {
        match self.by {
            RoutingBy::Port | RoutingBy::Source => FIRST_TABLE + route as u32,
            RoutingBy::Prefix => MAIN_TABLE,
        }
    }

    fn selectors(&self, route: usize) -> Vec<Selector> {
        match self.by {
            RoutingBy::Port => vec![
                Selector::FromPorts(ports(route)),
                Selector::ToPorts(ports(route)),
            ],
            RoutingBy::Source => {
                let prefix = Ipv4Addr::new(10, 81, route as u8, 0);
                vec![
                    Selector::FromAddresses(prefix, 24),
                    Selector::ToAddresses(prefix, 24),
                ]
            }
            RoutingBy::Prefix => Vec::new(),
        }
    }
}

/// Determines a tunnel's ends and its MTU among tunnels of these `kinds`, and routes its encapsulated packets over the
/// routers between them.
fn dig(
    planned: &mut PlannedRoute,
    ports: Option<RangeInclusive<u16>>,
    kinds: &[Kind],
    topology: &mut Topology,
) {
    let Some(tunnel) = &mut planned.tunnel else {
        return;
    };
    tunnel.mtu_bytes = tunnel.kind.shared_mtu_bytes(kinds, topology.mtu_bytes);
    tunnel.ports = ports;
    // The last network leads to the target.
    let between = &planned.networks[..planned.networks.len() - 1];
    let far_end = between.len();
    for (end, network) in [
        (&mut tunnel.near, between[0]),
        (&mut tunnel.far, between[far_end - 1]),
    ] {
        end.network = network;
        end.outer = Topology::address(network, end.router);
    }
    let (near, far) = (tunnel.near.outer, tunnel.far.outer);
    for (number, &node) in planned.via.iter().enumerate() {
        let mut lead = |destination, network: usize, next: usize| {
            let hop = Hop::Neighbour {
                network: between[network],
                node: planned.via[next],
            };
            let route = IpRoute {
                destination,
                table: MAIN_TABLE,
                hop,
                source: None,
                mtu_bytes: None,
            };
            add_route(&mut topology.nodes[node], route);
        };
        // Adjacent to an end, they are its neighbours.
        if number + 1 < far_end {
            lead(far, number, number + 1);
        }
        if number > 1 {
            lead(near, number - 1, number - 1);
        }
    }
}

/// Adds a route, unless the table already has one to that address.
fn add_route(node: &mut NodeSpec, route: IpRoute) {
    let same =
        |other: &IpRoute| (other.table, other.destination) == (route.table, route.destination);
    if !node.routes.iter().any(same) {
        node.routes.push(route);
    }
}

fn add<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}
