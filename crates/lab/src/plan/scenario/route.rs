//! The routes of a plan: their routers and paths, and the sessions that use them.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

use wansan_mistake::{Mistake, nearest};

use super::link::Link;
use super::names::{self, Names};
use crate::plan::document::{Document, InitiatorTable, RouteTable};
use crate::vpn;
use crate::world::Role;

/// Most `[[route]]`s in a plan.
pub(super) const MAX_ROUTES: usize = 32;

/// A `[[route]]`: a path through routers for sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRoute {
    /// Its name.
    pub name: String,
    /// Its routers, from the initiators' side to the target's, by index; at least one.
    pub via: Vec<usize>,
    /// The networks between them and, last, to the target's host.
    pub networks: Vec<usize>,
    /// The tunnel between the first and the last router, if any.
    pub tunnel: Option<Tunnel>,
}

impl PlannedRoute {
    /// Its tunnel, if a session uses the route.
    #[must_use]
    pub fn taken_tunnel(&self) -> Option<&Tunnel> {
        let tunnel = self.tunnel.as_ref();
        tunnel.filter(|tunnel| !tunnel.near.inner.is_empty())
    }
}

/// A tunnel between the first and the last router of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunnel {
    /// Implementation and encryption.
    pub kind: vpn::Kind,
    /// Its end on the initiators' side.
    pub near: TunnelEnd,
    /// Its end on the target's side.
    pub far: TunnelEnd,
    /// The initiators' ports of its packets, if routes are distinguished by port.
    pub ports: Option<RangeInclusive<u16>>,
    /// MTU inside the tunnel, in bytes.
    pub mtu_bytes: u32,
}

/// One end of a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelEnd {
    /// The router, by index.
    pub router: usize,
    /// The network by which its encapsulated packets leave.
    pub network: usize,
    /// The router's address in that network, which the other end sends to.
    pub outer: Ipv4Addr,
    /// The addresses on this side that the other end reaches through the tunnel.
    pub inner: Vec<Ipv4Addr>,
    /// Routes into the tunnel's device, added once it exists.
    pub routes: Vec<InnerRoute>,
}

/// A route into a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerRoute {
    /// Its only destination address.
    pub destination: Ipv4Addr,
    /// Its routing table on the router.
    pub table: u32,
}

/// The route of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectionRoute {
    /// The name of the route or path.
    pub(super) name: String,
    /// The index of the route; `None` for a path straight to the target.
    pub(super) route: Option<usize>,
    /// The initiator's host.
    pub(super) host: usize,
    /// The network from there to the first router, or to the target's host.
    pub(super) first_network: usize,
}

/// Resolves all routes.
pub(super) fn resolve(
    document: &Document,
    text: &str,
    names: &Names,
    links: &[Link],
    target: usize,
) -> Result<Vec<PlannedRoute>, Mistake> {
    if document.route.len() > MAX_ROUTES {
        return Err(Mistake::new(format!(
            "{} [[route]]s are more than {MAX_ROUTES}",
            document.route.len()
        )));
    }
    let mut routes: Vec<PlannedRoute> = Vec::new();
    for (place, table) in document.route.iter().enumerate() {
        let at = |key: &'static str| move |m: Mistake| m.in_table(text, "route", place, key);
        names::check("[[route]]", &table.name).map_err(at("name"))?;
        if routes.iter().any(|other| other.name == table.name) {
            let mistake = Mistake::new(format!("[[route]] `{}` is given twice", table.name));
            return Err(at("name")(mistake));
        }
        let via = via(table, names).map_err(at("via"))?;
        let tunnel = tunnel(table, &via).map_err(at("vpn"))?;
        let stations = via.iter().copied().chain([target]).collect::<Vec<_>>();
        let networks = stations
            .windows(2)
            .map(|pair| network_between(pair[0], pair[1], &table.name, names, links))
            .collect::<Result<_, _>>()
            .map_err(|m| m.within(format!("[[route]] `{}`", table.name)))
            .map_err(at("via"))?;
        routes.push(PlannedRoute {
            name: table.name.clone(),
            via,
            networks,
            tunnel,
        });
    }
    Ok(routes)
}

fn via(table: &RouteTable, names: &Names) -> Result<Vec<usize>, Mistake> {
    let mut via = Vec::new();
    for name in &table.via {
        let router = names.router("route.via", name)?;
        if via.contains(&router) {
            return Err(Mistake::new(format!(
                "[[route]] `{}` goes by `{name}` twice",
                table.name
            )));
        }
        via.push(router);
    }
    if via.is_empty() {
        return Err(Mistake::new(format!(
            "[[route]] `{}` goes by no router: list at least one in `via`; a path that joins \
             initiator and target is a route by its own name",
            table.name
        )));
    }
    Ok(via)
}

/// The tunnel of a route, without its ends.
fn tunnel(table: &RouteTable, via: &[usize]) -> Result<Option<Tunnel>, Mistake> {
    let name = &table.name;
    let kind = vpn::Kind::of(table.vpn, table.cipher)
        .map_err(|reason| Mistake::new(format!("[[route]] `{name}`: {reason}")))?;
    let Some(kind) = kind else {
        return Ok(None);
    };
    if via.len() < 2 {
        return Err(Mistake::new(format!(
            "[[route]] `{name}`: vpn = \"{}\" is a tunnel from its first router to its last, and it \
             has only one: name both ends in `via`",
            table.vpn.name()
        )));
    }
    let end = |router| TunnelEnd {
        router,
        network: 0,
        outer: Ipv4Addr::UNSPECIFIED,
        inner: Vec::new(),
        routes: Vec::new(),
    };
    Ok(Some(Tunnel {
        kind,
        near: end(via[0]),
        far: end(via[via.len() - 1]),
        ports: None,
        mtu_bytes: 0,
    }))
}

/// The network that joins two nodes; if there are several, the one with the route's name.
pub(super) fn network_between(
    one: usize,
    other: usize,
    route: &str,
    names: &Names,
    links: &[Link],
) -> Result<usize, Mistake> {
    let joining: Vec<usize> = (0..links.len())
        .filter(|&network| links[network].joins(one, other))
        .collect();
    let (from, to) = (names.name(one), names.name(other));
    match joining[..] {
        [] => Err(Mistake::new(format!(
            "no [[path]] joins `{from}` and `{to}`"
        ))),
        [only] => Ok(only),
        [first, second, ..] => joining
            .iter()
            .copied()
            .find(|&network| links[network].name == route)
            .ok_or_else(|| {
                Mistake::new(format!(
                    "[[path]] `{}` and `{}` both join `{from}` and `{to}`: name the one that it \
                     takes `{route}`, as the route",
                    links[first].name, links[second].name
                ))
            }),
    }
}

/// The routes of the connections of an initiator on `host`, in the order of its table.
pub(super) fn taken(
    initiator: &InitiatorTable,
    host: usize,
    target: usize,
    names: &Names,
    links: &[Link],
    routes: &[PlannedRoute],
) -> Result<Vec<ConnectionRoute>, Mistake> {
    let straight = |network: usize| ConnectionRoute {
        name: links[network].name.clone(),
        route: None,
        host,
        first_network: network,
    };
    let over = |place: usize| {
        let planned: &PlannedRoute = &routes[place];
        let to_first = network_between(host, planned.via[0], &planned.name, names, links);
        Ok(ConnectionRoute {
            name: planned.name.clone(),
            route: Some(place),
            host,
            first_network: to_first
                .map_err(|m| m.within(format!("[[route]] `{}`", planned.name)))?,
        })
    };
    let direct: Vec<usize> = (0..links.len())
        .filter(|&network| links[network].joins(host, target))
        .collect();
    if initiator.routes.is_empty() {
        return match (&direct[..], routes) {
            ([only], []) => Ok(vec![straight(*only)]),
            ([], [_]) => Ok(vec![over(0)?]),
            _ => Err(undecided(host, target, &direct, names, links, routes)),
        };
    }
    let mut taken = Vec::with_capacity(initiator.routes.len());
    for (place, route) in initiator.routes.iter().enumerate() {
        if initiator.routes[..place].contains(route) {
            return Err(Mistake::new(format!(
                "`initiator.routes` names `{route}` twice: `connections` says how many there are"
            )));
        }
        let planned = routes.iter().position(|planned| planned.name == *route);
        let path = direct
            .iter()
            .find(|&&network| links[network].name == *route);
        taken.push(match (planned, path) {
            (Some(planned), _) => over(planned)?,
            (None, Some(network)) => straight(*network),
            (None, None) => {
                return Err(unknown(route, host, target, &direct, names, links, routes));
            }
        });
    }
    Ok(taken)
}

/// Why an initiator without `routes` has no route, or has to choose.
fn undecided(
    host: usize,
    target: usize,
    direct: &[usize],
    names: &Names,
    links: &[Link],
    routes: &[PlannedRoute],
) -> Mistake {
    let (host, target) = (names.name(host), names.name(target));
    let routers = names.nodes().iter().any(|(_, role)| *role == Role::Router);
    let candidates = routes
        .iter()
        .map(|planned| format!("[[route]] `{}`", planned.name))
        .chain(
            direct
                .iter()
                .map(|&n| format!("[[path]] `{}`", links[n].name)),
        )
        .collect::<Vec<_>>();
    Mistake::new(match &candidates[..] {
        [] if routers => format!(
            "no [[path]] joins `{host}` and the target's host `{target}`: write a [[route]] that \
             says by which routers its connections go"
        ),
        [] => format!("no [[path]] joins `{host}` and the target's host `{target}`"),
        [.., last] => format!(
            "the connections of `{host}` can take {} or {last}: say in `routes` of the [[initiator]] \
             which of them they do",
            candidates[..candidates.len() - 1].join(", ")
        ),
    })
}

/// Why a name in `initiator.routes` is undefined.
fn unknown(
    route: &str,
    host: usize,
    target: usize,
    direct: &[usize],
    names: &Names,
    links: &[Link],
    routes: &[PlannedRoute],
) -> Mistake {
    let known: Vec<&str> = routes
        .iter()
        .map(|planned| planned.name.as_str())
        .chain(direct.iter().map(|&network| links[network].name.as_str()))
        .collect();
    Mistake::new(format!(
        "`initiator.routes`: `{route}` is neither a [[route]] nor a [[path]] that joins `{}` and `{}`; {}",
        names.name(host),
        names.name(target),
        nearest(route, &known)
    ))
}
