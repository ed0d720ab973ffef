//! The definition of a world: nodes, the networks that join them, and their routes and rules. Plain data;
//! [`super::World::build`] builds it.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

/// The first network is 10.83.0.0/16, the second one 10.84.0.0/16 and so on: address ranges inside
/// their own namespaces.
const FIRST_RANGE: u8 = 83;
/// Prefix length of a network.
pub(super) const PREFIX_BITS: u8 = 16;
/// Most networks in one world.
pub(crate) const MAX_NETWORKS: usize = 100;
/// Most nodes in one world.
pub(crate) const MAX_NODES: usize = 250;

/// The definition of a world. Nodes and networks are given by index, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The nodes, at most 250.
    pub nodes: Vec<NodeSpec>,
    /// The networks, at most 100.
    pub networks: Vec<NetworkSpec>,
    /// The MTU of every network.
    pub mtu_bytes: u32,
}

/// The definition of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its name, unique in the world.
    pub name: String,
    /// Whether it forwards packets.
    pub role: Role,
    /// Its kernel's TCP settings.
    pub tcp: TcpSettings,
    /// The node's own addresses, reachable over any interface, in addition to its interfaces' addresses.
    pub addresses: Vec<Ipv4Addr>,
    /// Routes beyond its neighbours.
    pub routes: Vec<IpRoute>,
    /// Policy rules for tables other than the main one, in order.
    pub rules: Vec<Rule>,
}

/// Treatment of packets for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Drops them.
    Host,
    /// Forwards them.
    Router,
}

/// TCP settings of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpSettings {
    /// Congestion control of every connection, such as `cubic`.
    pub congestion_control: String,
    /// Minimum, default and maximum receive buffer in bytes (`net.ipv4.tcp_rmem`).
    pub rmem_bytes: [u64; 3],
    /// Minimum, default and maximum send buffer in bytes (`net.ipv4.tcp_wmem`).
    pub wmem_bytes: [u64; 3],
    /// Whether ECN is requested and accepted (RFC 3168; `net.ipv4.tcp_ecn` 1 or 0).
    pub ecn: bool,
}

/// Nodes that reach each other without a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSpec {
    /// The nodes with an interface into it.
    pub members: Vec<usize>,
    /// Its medium.
    pub medium: Medium,
}

/// The medium of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// The emulator: every interface ends in the wan's namespace.
    Emulator,
    /// netem: every interface ends in the wan's namespace, where packets arrive one by one.
    Netem,
    /// The kernel: a virtual Ethernet pair directly between two members, with offloads.
    Wire,
}

/// A route beyond a neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpRoute {
    /// Its only destination address.
    pub destination: Ipv4Addr,
    /// Its routing table.
    pub table: u32,
    /// Its next hop.
    pub hop: Hop,
    /// The source address of the node's own packets on this route; `None` for the kernel's choice.
    pub source: Option<Ipv4Addr>,
    /// The path MTU, in bytes, if less than the interface's. TCP observes it from its first segment.
    pub mtu_bytes: Option<u32>,
}

/// The next hop of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hop {
    /// To a neighbour in one of the node's networks.
    Neighbour {
        /// The network.
        network: usize,
        /// The neighbour.
        node: usize,
    },
    /// A device of the node that belongs to no network, such as a tunnel's.
    Device(String),
}

impl fmt::Display for IpRoute {
    /// In `ip route`'s syntax.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.destination)?;
        match &self.hop {
            Hop::Neighbour { network, node } => {
                write!(f, " via {}", Topology::address(*network, *node))?;
            }
            Hop::Device(name) => write!(f, " dev {name}")?,
        }
        write!(f, " table {}", self.table)?;
        if let Some(source) = self.source {
            write!(f, " src {source}")?;
        }
        if let Some(mtu_bytes) = self.mtu_bytes {
            write!(f, " mtu {mtu_bytes}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Rule {
    /// In `ip rule`'s syntax.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.selector {
            Selector::FromPorts(ports) => {
                write!(f, "ipproto tcp sport {}-{}", ports.start(), ports.end())?;
            }
            Selector::ToPorts(ports) => {
                write!(f, "ipproto tcp dport {}-{}", ports.start(), ports.end())?;
            }
            Selector::FromAddresses(address, bits) => write!(f, "from {address}/{bits}")?,
            Selector::ToAddresses(address, bits) => write!(f, "to {address}/{bits}")?,
        }
        write!(f, " lookup {}", self.table)
    }
}

/// A policy rule that selects a table other than the main one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The packets that it matches.
    pub selector: Selector,
    /// The table. If it has no route, the following rules are tried.
    pub table: u32,
}

/// Packets that a [`Rule`] matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// From one of these TCP ports.
    FromPorts(RangeInclusive<u16>),
    /// To one of these TCP ports.
    ToPorts(RangeInclusive<u16>),
    /// From an address within this prefix.
    FromAddresses(Ipv4Addr, u8),
    /// To an address within this prefix.
    ToAddresses(Ipv4Addr, u8),
}

impl Topology {
    /// Hosts that each have one interface into a single emulated network.
    #[must_use]
    pub fn flat(names: &[&str], tcp: &TcpSettings, mtu_bytes: u32) -> Topology {
        let nodes = names.iter().map(|name| NodeSpec {
            name: (*name).to_owned(),
            role: Role::Host,
            tcp: tcp.clone(),
            addresses: Vec::new(),
            routes: Vec::new(),
            rules: Vec::new(),
        });
        Topology {
            nodes: nodes.collect(),
            networks: vec![NetworkSpec {
                members: (0..names.len()).collect(),
                medium: Medium::Emulator,
            }],
            mtu_bytes,
        }
    }

    /// The address of a node's interface into a network: 10.(83 + network).0.(1 + node).
    ///
    /// # Panics
    /// Indices beyond any topology.
    #[must_use]
    pub fn address(network: usize, node: usize) -> Ipv4Addr {
        assert!(network < MAX_NETWORKS && node < MAX_NODES);
        Ipv4Addr::new(10, FIRST_RANGE + network as u8, 0, node as u8 + 1)
    }
}
