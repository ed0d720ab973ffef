//! How packets find their way: the addresses of the ends, and the routes and rules of every node.
//!
//! All three kinds of routing are one scheme. On each node of a route stand a route to the target's
//! address by the next node and, for the way back, one to the initiator's address by the node before.
//! They stand in a table of the `[[route]]`'s own, which rules choose by port or by the initiator's
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

use super::Connection;
use super::flows::ISCSI_PORT;
use super::way::{InnerRoute, MAX_WAYS, Passage, Way};
use crate::plan::document::{MAX_CONNECTIONS, RoutingBy};
use crate::vpn::Kind;
use crate::world::{Hop, IpRoute, NodeSpec, Rule, Selector, Topology};

/// The ports of the first route's connections begin here, below those that Linux takes of itself
/// (from 32768 on).
const FIRST_PORT: u16 = 20_000;
const PORTS_OF_A_WAY: u16 = MAX_CONNECTIONS as u16;
/// The table of the first route; the kernel's own are 253 to 255.
const FIRST_TABLE: u32 = 1000;
const MAIN_TABLE: u32 = 254;

const _: () = assert!(FIRST_PORT as usize + PORTS_OF_A_WAY as usize * MAX_WAYS <= 32_768);

/// Tells to which `[[route]]` a packet belongs, in either direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Classifier {
    by: RoutingBy,
    ways: usize,
}

impl Classifier {
    pub(super) fn new(by: RoutingBy, ways: usize) -> Classifier {
        Classifier { by, ways }
    }

    /// The place of the route in [`super::Scenario::ways`], for a TCP segment between these ends.
    /// Packets inside of a tunnel cannot be told apart.
    #[must_use]
    pub fn way(&self, source: SocketAddrV4, destination: SocketAddrV4) -> Option<usize> {
        let way = |end: SocketAddrV4| match self.by {
            RoutingBy::Port => {
                let beyond = end.port().checked_sub(FIRST_PORT)?;
                Some(usize::from(beyond / PORTS_OF_A_WAY))
            }
            RoutingBy::Source | RoutingBy::Prefix => match end.ip().octets() {
                [10, 81, way, _] => Some(usize::from(way)),
                _ => None,
            },
        };
        let known = |way: &usize| *way < self.ways;
        way(source)
            .filter(known)
            .or_else(|| way(destination).filter(known))
    }
}

/// The address of a node itself.
fn own_address(node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 82, 0, node as u8 + 1)
}

/// The address that a node has for a route.
fn way_address(way: usize, node: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 81, way as u8, node as u8 + 1)
}

fn ports(way: usize) -> RangeInclusive<u16> {
    let first = FIRST_PORT + way as u16 * PORTS_OF_A_WAY;
    first..=first + (PORTS_OF_A_WAY - 1)
}

/// Gathers what nodes need for the connections that are made.
pub(super) struct Routing {
    by: RoutingBy,
    target: usize,
    /// The passages over routes, each once.
    passages: Vec<(usize, Passage)>,
    /// By which node, table and destination there is a way already.
    claimed: BTreeSet<(usize, u32, Ipv4Addr)>,
}

impl Routing {
    pub(super) fn begin(by: RoutingBy, target: usize) -> Routing {
        Routing {
            by,
            target,
            passages: Vec::new(),
            claimed: BTreeSet::new(),
        }
    }

    /// The ends of connection `number` of a session, over `passage`.
    pub(super) fn connection(&mut self, number: usize, passage: &Passage) -> Connection {
        let Some(way) = passage.way else {
            let network = passage.first_network;
            return Connection {
                route: passage.name.clone(),
                way: None,
                source: SocketAddrV4::new(Topology::address(network, passage.host), 0),
                target: Topology::address(network, self.target),
                port: ISCSI_PORT,
            };
        };
        if !self.passages.iter().any(|(_, taken)| taken == passage) {
            self.passages.push((way, passage.clone()));
        }
        let port = match self.by {
            RoutingBy::Port => ports(way).start() + number as u16,
            RoutingBy::Source | RoutingBy::Prefix => 0,
        };
        let (source, target) = self.ends(way, passage.host);
        Connection {
            route: passage.name.clone(),
            way: Some(way),
            source: SocketAddrV4::new(source, port),
            target,
            port: ISCSI_PORT,
        }
    }

    /// Gives the nodes their addresses, routes and rules, and the tunnels theirs.
    pub(super) fn finish(mut self, topology: &mut Topology, ways: &mut [Way]) {
        // Where the main table knows one way only, it is that of the route that comes first.
        let mut passages = std::mem::take(&mut self.passages);
        passages.sort_by_key(|(way, _)| *way);
        // Only the tunnels of routes that are taken come into being.
        let taken = passages
            .iter()
            .filter_map(|(way, _)| ways[*way].tunnel.as_ref());
        let kinds: Vec<Kind> = taken.map(|tunnel| tunnel.kind).collect();
        for (place, way) in ways.iter_mut().enumerate() {
            let by_port = self.by == RoutingBy::Port;
            dig(way, by_port.then(|| ports(place)), &kinds, topology);
        }
        for (place, passage) in &passages {
            self.lead(passage, *place, &mut ways[*place], topology);
        }
    }

    /// Leads the packets of a passage there and back.
    fn lead(&mut self, passage: &Passage, place: usize, way: &mut Way, topology: &mut Topology) {
        let (initiator, target) = self.ends(place, passage.host);
        let stations = [&[passage.host], &way.via[..], &[self.target]].concat();
        let networks = [&[passage.first_network], &way.networks[..]].concat();
        let (last_router, last) = (way.via.len(), way.via.len() + 1);
        for (number, &node) in stations.iter().enumerate() {
            if way.tunnel.is_some() && (2..last_router).contains(&number) {
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
                let into = way.tunnel.as_mut().and_then(|tunnel| match (number, next) {
                    (1, _) if next > number => Some(&mut tunnel.near),
                    _ if number == last_router && next < number => Some(&mut tunnel.far),
                    _ => None,
                });
                if let Some(end) = into {
                    end.routes.push(InnerRoute { destination, table });
                    continue;
                }
                let mtu_bytes = way.tunnel.as_ref().map(|tunnel| tunnel.mtu_bytes);
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
        if let Some(tunnel) = &mut way.tunnel {
            add(&mut tunnel.near.inner, initiator);
            add(&mut tunnel.far.inner, target);
        }
    }

    /// Whether no way has led from there to that address by that table yet; from now on one has.
    fn claim(&mut self, node: usize, table: u32, destination: Ipv4Addr) -> bool {
        self.claimed.insert((node, table, destination))
    }

    /// The addresses of the initiator on `host` and of the target, on a route.
    fn ends(&self, way: usize, host: usize) -> (Ipv4Addr, Ipv4Addr) {
        match self.by {
            RoutingBy::Port => (own_address(host), own_address(self.target)),
            RoutingBy::Source => (way_address(way, host), own_address(self.target)),
            RoutingBy::Prefix => (way_address(way, host), way_address(way, self.target)),
        }
    }

    /// The tables that lead over a route: its own, and the main one, for what no rule tells apart.
    fn tables(&self, way: usize) -> impl Iterator<Item = u32> + use<> {
        let own = self.table(way);
        [own, MAIN_TABLE]
            .into_iter()
            .take(if own == MAIN_TABLE { 1 } else { 2 })
    }

    fn table(&self, way: usize) -> u32 {
        match self.by {
            RoutingBy::Port | RoutingBy::Source => FIRST_TABLE + way as u32,
            RoutingBy::Prefix => MAIN_TABLE,
        }
    }

    fn selectors(&self, way: usize) -> Vec<Selector> {
        match self.by {
            RoutingBy::Port => vec![
                Selector::FromPorts(ports(way)),
                Selector::ToPorts(ports(way)),
            ],
            RoutingBy::Source => {
                let prefix = Ipv4Addr::new(10, 81, way as u8, 0);
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
fn dig(way: &mut Way, ports: Option<RangeInclusive<u16>>, kinds: &[Kind], topology: &mut Topology) {
    let Some(tunnel) = &mut way.tunnel else {
        return;
    };
    tunnel.mtu_bytes = tunnel.kind.shared_mtu_bytes(kinds, topology.mtu_bytes);
    tunnel.ports = ports;
    // The last network is the one to the target.
    let between = &way.networks[..way.networks.len() - 1];
    let far_end = between.len();
    for (end, network) in [
        (&mut tunnel.near, between[0]),
        (&mut tunnel.far, between[far_end - 1]),
    ] {
        end.network = network;
        end.outer = Topology::address(network, end.router);
    }
    let (near, far) = (tunnel.near.outer, tunnel.far.outer);
    for (number, &node) in way.via.iter().enumerate() {
        let mut lead = |destination, network: usize, next: usize| {
            let hop = Hop::Neighbour {
                network: between[network],
                node: way.via[next],
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
