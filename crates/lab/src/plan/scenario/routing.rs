//! How packets find their way: the addresses of the ends, and the routes and rules of every node.
//!
//! All three kinds of routing are one scheme. On each node of a route stand a route to the target's
//! address by the next node and, for the way back, one to the initiator's address by the node before.
//! They are in a table of the `[[route]]`'s own, which rules choose by port or by the initiator's
//! address; or in the main table, when the target's address tells the routes apart.
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

/// The ports of the first route's connections begin here, below those that Linux takes of itself
/// (from 32768 on).
const FIRST_PORT: u16 = 20_000;
const PORTS_OF_A_ROUTE: u16 = InitiatorTable::MAX_CONNECTIONS as u16;
/// The table of the first route; the kernel's own are 253 to 255.
const FIRST_TABLE: u32 = 1000;
const MAIN_TABLE: u32 = 254;

const _: () = assert!(FIRST_PORT as usize + PORTS_OF_A_ROUTE as usize * MAX_ROUTES <= 32_768);

/// Tells to which `[[route]]` a packet belongs, in either direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classifier {
    by: RoutingBy,
    routes: usize,
}

impl Classifier {
    pub(super) fn new(by: RoutingBy, routes: usize) -> Classifier {
        Classifier { by, routes }
    }

    /// The place of the route in [`super::Scenario::routes`], for a TCP segment between these ends.
    /// Packets inside of a tunnel cannot be distinguished.
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

/// The address of a node itself.
fn own_address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 82, 0, node as u8 + 1)
}

/// The address that a node has for a route.
fn route_address(route: usize, node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 81, route as u8, node as u8 + 1)
}

fn ports(route: usize) -> RangeInclusive<u16> {
    let first = FIRST_PORT + route as u16 * PORTS_OF_A_ROUTE;
    first..=first + (PORTS_OF_A_ROUTE - 1)
}

/// Gathers what nodes need for the connections that are made.
pub(super) struct Routing {
    by: RoutingBy,
    target: usize,
    /// What connections take routes, each once.
    taken: Vec<(usize, ConnectionRoute)>,
    /// By which node, table and destination there is a way already.
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

    /// The ends of connection `number` of a session, over `taken`.
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

    /// Gives the nodes their addresses, routes and rules, and the tunnels theirs.
    pub(super) fn finish(mut self, topology: &mut Topology, routes: &mut [PlannedRoute]) {
        // Where the main table knows one way only, it is that of the route that comes first.
        let mut connections = std::mem::take(&mut self.taken);
        connections.sort_by_key(|(route, _)| *route);
        // Only the tunnels of routes that are taken come into being.
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

    /// Leads the packets of a connection there and back.
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
                // It sees wrapped packets only.
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

    /// Whether no way has led from there to that address by that table yet; from now on one has.
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

    /// The tables that lead over a route: its own, and the main one, for what no rule distinguishes.
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

/// Settles where a tunnel's ends are and what its MTU is among the tunnels of these `kinds`, and leads its wrapped packets by the routers between them.
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
    // The last network is the one to the target.
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
        // Those beside an end are its neighbours.
        if number + 1 < far_end {
            lead(far, number, number + 1);
        }
        if number > 1 {
            lead(near, number - 1, number - 1);
        }
    }
}

/// Adds a route, unless the table has one to that address already.
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
