//! Builds a world from its topology.

use std::io;
use std::net::Ipv4Addr;

use super::link::{self, Mac};
use super::namespace::Namespace;
use super::node::{LOOPBACK, Node};
use super::topology::{MAX_NETWORKS, MAX_NODES, Medium, Topology};
use super::{WorldError, offload};

/// Hosts and routers, and the namespace between them.
///
/// Dropping it ends the nodes' threads, and with them every process started on a node.
#[derive(Debug)]
pub struct World {
    nodes: Vec<Node>,
    wan: Namespace,
}

impl World {
    /// Creates the nodes and joins them. On an emulated network no frame passes until an emulator in the wan moves it.
    ///
    /// # Errors
    /// [`WorldError`] if the kernel lacks something or forbids it; nothing remains of the world then.
    ///
    /// # Panics
    /// A topology that the plan check excludes: more than 250 nodes or more than 100 networks, a network with an
    /// unknown member, or a wire without two ends.
    pub fn build(topology: &Topology) -> Result<World, WorldError> {
        assert!(topology.nodes.len() <= MAX_NODES && topology.networks.len() <= MAX_NETWORKS);
        let wan = Namespace::new("wan")?;
        step(&wan, "bring up loopback", || {
            link::bring_up(LOOPBACK, false)
        })?;
        let nodes: Vec<Node> = topology
            .nodes
            .iter()
            .map(Node::build)
            .collect::<Result<_, _>>()?;
        let mut world = World { nodes, wan };
        for network in 0..topology.networks.len() {
            world.join(topology, network)?;
        }
        for node in &world.nodes {
            node.set_routes_and_rules()?;
        }
        Ok(world)
    }

    /// Creates every member's interface into a network, with its neighbours.
    fn join(&mut self, topology: &Topology, network: usize) -> Result<(), WorldError> {
        let spec = &topology.networks[network];
        let mtu_bytes = topology.mtu_bytes;
        match spec.medium {
            Medium::Emulator | Medium::Netem => {
                let one_by_one = spec.medium == Medium::Netem;
                for &node in &spec.members {
                    self.nodes[node].join(&self.wan, network, node, mtu_bytes, one_by_one)?;
                }
            }
            Medium::Wire => {
                let ends = <[usize; 2]>::try_from(&spec.members[..]).expect("a wire has two ends");
                let [near, far] = self
                    .nodes
                    .get_disjoint_mut(ends)
                    .expect("two nodes of the world");
                near.wire(far, network, ends, mtu_bytes)?;
            }
        }
        let members = spec.members.iter().map(|&node| &self.nodes[node]);
        let addresses: Vec<(Ipv4Addr, Mac)> = members
            .clone()
            .filter_map(|node| node.interface(network))
            .map(|interface| (interface.address, interface.mac))
            .collect();
        for node in members {
            node.know_neighbours(network, &addresses)?;
        }
        Ok(())
    }

    /// The nodes, in the order of the topology.
    #[must_use]
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The node of that name.
    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name() == name)
    }

    /// The namespace in which every link of the emulated networks ends.
    #[must_use]
    pub fn wan(&self) -> &Namespace {
        &self.wan
    }

    /// The offloads disabled on every emulated link, by ethtool's names.
    #[must_use]
    pub fn offloads_off() -> Vec<&'static str> {
        offload::off()
    }
}

/// A feature that a kernel may lack: it then returns EOPNOTSUPP.
pub(super) struct Part {
    cause: &'static str,
    remedy: &'static str,
}

pub(super) const VETH: Part = Part {
    cause: "the kernel has no virtual Ethernet (CONFIG_VETH)",
    remedy: "load it with `sudo modprobe veth`",
};

pub(super) const POLICY_ROUTING: Part = Part {
    cause: "the kernel has no policy routing (CONFIG_IP_MULTIPLE_TABLES)",
    remedy: "say `by = \"prefix\"` in [routing], which needs none",
};

/// Performs an operation in a node's namespace; an error names the operation and the node.
pub(super) fn step(
    namespace: &Namespace,
    action: &str,
    job: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<(), WorldError> {
    namespace.run(job).map_err(|source| WorldError::Refused {
        action: action.to_owned(),
        node: namespace.name().to_owned(),
        source,
    })
}

/// A [`step`] that needs an optional kernel feature.
pub(super) fn step_with(
    part: &Part,
    namespace: &Namespace,
    action: &str,
    job: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<(), WorldError> {
    let unsupported = Some(rustix::io::Errno::OPNOTSUPP.raw_os_error());
    step(namespace, action, job).map_err(|error| match error {
        WorldError::Refused { source, .. } if source.raw_os_error() == unsupported => {
            WorldError::EnvironmentLacks {
                action: format!("{action} (`{}`)", namespace.name()),
                cause: part.cause.to_owned(),
                remedy: part.remedy.to_owned(),
            }
        }
        other => other,
    })
}
