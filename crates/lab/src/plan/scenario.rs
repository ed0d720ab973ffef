//! What one cell builds and runs: hosts, routers and paths by index, and the programs on them.

mod effects;
mod flows;
mod link;
pub(super) mod listing;
mod names;
mod netem;
mod netem_setting;
mod programs;
mod real;
mod route;
mod routing;
mod simulated;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;

use wansan_mistake::Mistake;
use wansan_san::settings::{AckSettings, ScheduleSettings};

use super::document::{Document, EmulatorKind, InitiatorTable};
use super::quantity::Exactly;
use crate::world::{Medium, NetworkSpec, NodeSpec, TcpSettings, Topology};
pub use effects::Direction;
use effects::Surroundings;
use flows::Relays;
pub(crate) use flows::STREAM_PORT;
pub use flows::{Receiver, Relay, Stream};
pub use link::Link;
use names::Names;
pub use netem_setting::{Inexpressible, NetemSetting};
pub use real::RealHost;
use route::ConnectionRoute;
pub use route::{InnerRoute, PlannedRoute, Tunnel, TunnelEnd};
pub use routing::Classifier;
use routing::Routing;

/// A resolved cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The world: hosts, routers, networks and routing. Each `[[path]]` is a network, in plan order.
    pub topology: Topology,
    /// The effects on each network, in the same order.
    pub links: Vec<Link>,
    /// The `[[route]]`s in plan order, which is their priority.
    pub routes: Vec<PlannedRoute>,
    /// Maps packets to these.
    pub classifier: Classifier,
    /// The target's host, if there is a target.
    pub target_host: Option<String>,
    /// The real computers of its hosts; empty in another world.
    pub hosts: Vec<RealHost>,
    /// The initiators, one per host.
    pub initiators: Vec<Initiator>,
    /// The relays in use.
    pub relays: Vec<Relay>,
    /// The receivers of streams, one per host.
    pub receivers: Vec<Receiver>,
    /// The streams.
    pub streams: Vec<Stream>,
}

/// An initiator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initiator {
    /// Its host.
    pub host: String,
    /// The connections of its session; at least one.
    pub connections: Vec<Connection>,
    /// Its schedule of commands over these.
    pub schedule: ScheduleSettings,
    /// Its acknowledgement settings.
    pub acks: AckSettings,
}

/// A connection of an initiator's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The name of its `[[route]]` or `[[path]]`.
    pub route: String,
    /// Index of the `[[route]]` in [`Scenario::routes`]; `None` for a path straight to the target.
    pub route_place: Option<usize>,
    /// Source address; port 0 lets the kernel choose.
    pub source: SocketAddrV4,
    /// The address of the target, or of the relay to it.
    pub target: Ipv4Addr,
    /// The destination port.
    pub port: u16,
}

impl Initiator {
    /// Its name in messages.
    #[must_use]
    pub fn title(&self) -> String {
        format!("the initiator on `{}`", self.host)
    }
}

impl Scenario {
    /// The index of a host or router among the topology's nodes.
    ///
    /// # Panics
    /// The plan has no such name.
    #[must_use]
    pub fn node(&self, name: &str) -> usize {
        let place = self.topology.nodes.iter().position(|it| it.name == name);
        place.expect("the topology has all of the scenario's hosts")
    }

    /// Resolves names and checks what serde cannot. Mistakes refer to lines of the plan's `text`, if given; the files
    /// that it names are in `folder`.
    pub(super) fn resolve(
        document: &Document,
        text: &str,
        folder: &Path,
    ) -> Result<Scenario, Mistake> {
        let mut names = Names::of(document, text)?;
        let hosts = real::resolve(document, text)?;
        names.have_addresses(hosts.iter().map(|host| host.address).collect());
        let names = names;
        let surroundings = Surroundings {
            folder,
            mtu_bytes: mtu(document),
            routes: document
                .route
                .iter()
                .map(|route| route.name.as_str())
                .collect(),
        };
        let links = link::resolve(document, text, &names, &surroundings)?;
        let target = target(document, text, &names)?;
        // Without a target, no route is used.
        let end = target.unwrap_or(0);
        let mut routes = route::resolve(document, text, &names, &links, end)?;
        simulated::check(document, text, &links)?;
        netem::check(document, text, &links, mtu(document))?;
        let mut routing = Routing::begin(document.routing.by, end);
        let mut relays = Relays::of(document, text, &names, &links)?;
        let mut initiators: Vec<Initiator> = Vec::new();
        for (place, table) in document.initiator.iter().enumerate() {
            let here = |mistake: Mistake| mistake.in_table(text, "initiator", place, "host");
            for &host in names.hosts("initiator", &table.host).map_err(here)? {
                let name = names.name(host);
                if initiators.iter().any(|other| other.host == name) {
                    return Err(here(Mistake::new(format!(
                        "[[initiator]] host = \"{}\": `{name}` has an initiator already",
                        table.host
                    ))));
                }
                let connections = match &table.through {
                    Some(relay) => relays
                        .session(table, relay, host, end)
                        .map_err(|mistake| mistake.in_table(text, "initiator", place, "through"))?,
                    None => {
                        let taken = route::taken(table, host, end, &names, &links, &routes)
                            .map_err(|mistake| {
                                mistake.in_table(text, "initiator", place, "routes")
                            })?;
                        let numbered = shared_out(table, &taken).map_err(|mistake| {
                            mistake.in_table(text, "initiator", place, "connections")
                        })?;
                        numbered
                            .map(|(number, taken)| routing.connection(number, taken, &names))
                            .collect()
                    }
                };
                initiators.push(Initiator {
                    host: name.to_owned(),
                    connections,
                    schedule: table.schedule,
                    acks: table.acks,
                });
            }
        }
        let flows = relays.streams(document, text)?;
        if initiators.is_empty() && flows.streams.is_empty() {
            let mistake = "the plan has no [[initiator]], and no [[stream]] with flows";
            return Err(Mistake::new(mistake));
        }
        if initiators.is_empty() && document.apply_advice {
            let mistake = "`apply_advice`: advice is about I/Os, and the plan has no [[initiator]]";
            return Err(Mistake::new(mistake));
        }
        programs::check(document, initiators.len()).map_err(|(table, key, what)| {
            Mistake::new(format!("`{table}.{key}`{what}")).in_section(text, table, key)
        })?;
        let relays = relays.used();
        let mut topology = topology(document, &names, &links);
        routing.finish(&mut topology, &mut routes);
        Ok(Scenario {
            topology,
            links,
            routes,
            classifier: Classifier::new(document.routing.by, document.route.len()),
            target_host: target.map(|target| names.name(target).to_owned()),
            hosts,
            initiators,
            relays,
            receivers: flows.receivers,
            streams: flows.streams,
        })
    }
}

/// The target's host, required if anything needs a target.
fn target(document: &Document, text: &str, names: &Names) -> Result<Option<usize>, Mistake> {
    if document.target.is_none() && (!document.initiator.is_empty() || !document.route.is_empty()) {
        let mistake = "the plan has an [[initiator]] or a [[route]], and no [target]";
        return Err(Mistake::new(mistake));
    }
    let table = document.target.as_ref();
    let host = table.map(|table| names.host("target", &table.host));
    host.transpose()
        .map_err(|mistake| mistake.in_section(text, "target", "host"))
}

/// The numbered connections of a session, each with its route or path.
fn shared_out<'a>(
    initiator: &InitiatorTable,
    taken: &'a [ConnectionRoute],
) -> Result<impl Iterator<Item = (usize, &'a ConnectionRoute)>, Mistake> {
    let count = initiator
        .connections
        .map_or(taken.len(), |count| count as usize);
    if let Some(left) = taken.get(count) {
        return Err(Mistake::new(format!(
            "[[initiator]] connections = {count}: none is left for `{}`: take it out of `routes`, or \
             have {} connections",
            left.name,
            taken.len()
        )));
    }
    Ok(taken.iter().cycle().take(count).enumerate())
}

/// The nodes and networks of a plan, without routing.
fn topology(document: &Document, names: &Names, links: &[Link]) -> Topology {
    let bytes = |sizes: Exactly<super::Size, 3>| sizes.0.map(|size| size.0);
    let tcp = TcpSettings {
        congestion_control: document.tcp.congestion_control.clone(),
        rmem_bytes: bytes(document.tcp.rmem),
        wmem_bytes: bytes(document.tcp.wmem),
        ecn: document.tcp.ecn,
    };
    let nodes = names.nodes().iter().map(|(name, role)| NodeSpec {
        name: name.clone(),
        role: *role,
        tcp: tcp.clone(),
        addresses: Vec::new(),
        routes: Vec::new(),
        rules: Vec::new(),
    });
    let networks = links.iter().map(|link| NetworkSpec {
        members: link.members().collect(),
        medium: match document.world.emulator {
            _ if link.wire => Medium::Wire,
            EmulatorKind::User => Medium::Emulator,
            EmulatorKind::Netem => Medium::Netem,
        },
    });
    Topology {
        nodes: nodes.collect(),
        networks: networks.collect(),
        mtu_bytes: mtu(document),
    }
}

/// Longest IP packet on every link, in bytes.
fn mtu(document: &Document) -> u32 {
    u32::try_from(document.world.mtu.0).unwrap_or(u32::MAX)
}
