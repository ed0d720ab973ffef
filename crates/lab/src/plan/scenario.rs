//! What one cell builds and runs: hosts, routers and paths by their places, and the programs on
//! them.

mod effects;
mod link;
mod listing;
mod names;
mod routing;
mod way;

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::time::Duration;

use wansan_mistake::Mistake;
use wansan_trace::units::{format_bytes, format_duration};

use super::document::{Document, Schedule, SessionTable, WorkloadTable};
use crate::world::{Medium, NetworkSpec, NodeSpec, TcpSettings, Topology};
pub use effects::Direction;
use effects::Surroundings;
pub use link::Link;
use names::Names;
pub use routing::Classifier;
use routing::Routing;
pub use way::{InnerRoute, Tunnel, TunnelEnd, Way};

/// A resolved cell.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The world: hosts, routers, networks and how packets find their way. Each `[[path]]` is a
    /// network, in the order of the plan.
    pub topology: Topology,
    /// What happens on each of the networks, in the same order.
    pub links: Vec<Link>,
    /// The `[[route]]`s, in the order of the plan, which is that of their priority.
    pub ways: Vec<Way>,
    /// Tells to which of them a packet belongs.
    pub classifier: Classifier,
    /// The host of the target.
    pub target_host: String,
    /// The initiators, one on a host.
    pub initiators: Vec<Initiator>,
}

/// An initiator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Initiator {
    /// Its host.
    pub host: String,
    /// The connections of its session; one at least.
    pub connections: Vec<Connection>,
    /// How they share out commands.
    pub schedule: Schedule,
}

/// A connection of an initiator's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The name of the `[[route]]` or `[[path]]` that it goes over.
    pub route: String,
    /// The place of the `[[route]]` in [`Scenario::ways`]; `None` when it goes over a path straight
    /// to the target.
    pub way: Option<usize>,
    /// Where it comes from; port 0 leaves the port to the kernel.
    pub source: SocketAddrV4,
    /// The address of the target.
    pub target: Ipv4Addr,
}

impl Scenario {
    /// Resolves names and checks what serde cannot. Mistakes stand on lines of the plan's `text`, if
    /// there is one; the files that it names are in `folder`.
    pub(super) fn resolve(
        document: &Document,
        text: &str,
        folder: &Path,
    ) -> Result<Scenario, Mistake> {
        let names = Names::of(document, text)?;
        let surroundings = Surroundings {
            folder,
            mtu_bytes: mtu(document)?,
            routes: document
                .route
                .iter()
                .map(|route| route.name.as_str())
                .collect(),
        };
        let links = link::resolve(document, text, &names, &surroundings)?;
        let target = names.host("target", &document.target.host)?;
        let mut ways = way::resolve(document, text, &names, &links, target)?;
        let mut routing = Routing::begin(document.routing.by, target);
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
                let taken = way::taken(table, host, target, &names, &links, &ways)
                    .map_err(|mistake| mistake.in_table(text, "initiator", place, "routes"))?;
                let count = table
                    .connections
                    .map_or(taken.len(), |count| count as usize);
                let numbered = taken.iter().cycle().take(count).enumerate();
                initiators.push(Initiator {
                    host: name.to_owned(),
                    connections: numbered
                        .map(|(number, passage)| routing.connection(number, passage))
                        .collect(),
                    schedule: table.schedule,
                });
            }
        }
        if initiators.is_empty() {
            return Err(Mistake::new("the plan has no [[initiator]]"));
        }
        if document.target.luns.is_empty() {
            return Err(Mistake::new(
                "[target] luns: list one at least, such as \"memory:1GiB\"",
            ));
        }
        workload(&document.workload)?;
        session(&document.session)?;
        let mut topology = topology(document, &names, &links)?;
        routing.finish(&mut topology, &mut ways);
        Ok(Scenario {
            topology,
            links,
            ways,
            classifier: Classifier::new(document.routing.by, document.route.len()),
            target_host: names.name(target).to_owned(),
            initiators,
        })
    }
}

/// The nodes and networks of a plan, without routes.
fn topology(document: &Document, names: &Names, links: &[Link]) -> Result<Topology, Mistake> {
    let bytes = |sizes: [super::Size; 3]| sizes.map(|size| size.0);
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
        medium: if link.wire {
            Medium::Wire
        } else {
            Medium::Emulator
        },
    });
    Ok(Topology {
        nodes: nodes.collect(),
        networks: networks.collect(),
        mtu_bytes: mtu(document)?,
    })
}

fn mtu(document: &Document) -> Result<u32, Mistake> {
    let mtu = document.world.mtu.0;
    u32::try_from(mtu)
        .ok()
        .filter(|mtu| (576..=9000).contains(mtu))
        .ok_or_else(|| {
            Mistake::new(format!(
                "`world.mtu` = {} is not within 576B to 9000B",
                format_bytes(mtu)
            ))
        })
}

fn workload(workload: &WorkloadTable) -> Result<(), Mistake> {
    let time = workload.time.0;
    if !(Duration::from_millis(100)..=Duration::from_secs(3600)).contains(&time) {
        return Err(Mistake::new(format!(
            "`workload.time` = {} is not within 100ms to 1h",
            format_duration(time)
        )));
    }
    if workload.warmup.0 > Duration::from_secs(3600) {
        return Err(Mistake::new(format!(
            "`workload.warmup` = {} is more than 1h",
            format_duration(workload.warmup.0)
        )));
    }
    let block = workload.block.0;
    if block == 0 || !block.is_multiple_of(512) || block > 16 << 20 {
        return Err(Mistake::new(format!(
            "`workload.block` = {} is no whole number of 512B up to 16MiB",
            format_bytes(block)
        )));
    }
    Ok(())
}

/// Lengths that keys can have: 512 to 2^24 − 1 (RFC 7143 §13.12 to §13.14).
fn session(session: &SessionTable) -> Result<(), Mistake> {
    let lengths = [
        ("first_burst", session.first_burst),
        ("max_burst", session.max_burst),
        ("max_recv_data_segment", session.max_recv_data_segment),
    ];
    let wrong = lengths
        .into_iter()
        .find(|(_, length)| !(512..1 << 24).contains(&length.0));
    match wrong {
        Some((key, length)) => Err(Mistake::new(format!(
            "`session.{key}` = {length} is not within 512B to 16777215B"
        ))),
        None if session.first_burst > session.max_burst => Err(Mistake::new(format!(
            "`session.first_burst` = {} is more than `session.max_burst` = {}: lower the first or \
             raise the second",
            session.first_burst, session.max_burst
        ))),
        None => Ok(()),
    }
}
