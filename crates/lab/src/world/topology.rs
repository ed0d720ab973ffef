//! What a world is to be made of: nodes, the networks that join them, and the routes and rules by
//! which packets find their way. Plain data; [`super::World::build`] makes it real.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;

/// The first network is 10.83.0.0/16, the second one 10.84.0.0/16 and so on: address ranges inside
/// their own namespaces.
const FIRST_RANGE: u8 = 83;
/// Leading bits of an address that all nodes of a network share.
pub(super) const PREFIX_BITS: u8 = 16;
/// The most networks in one world.
pub(crate) const MAX_NETWORKS: usize = 100;
/// The most nodes in one world.
pub(crate) const MAX_NODES: usize = 250;

/// Everything that a world is made of. Nodes and networks are named by their places in it, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// The nodes, 250 at most.
    pub nodes: Vec<NodeSpec>,
    /// The networks, 100 at most.
    pub networks: Vec<NetworkSpec>,
    /// The longest IP packet on every network, in bytes.
    pub mtu_bytes: u32,
}

/// A node to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpec {
    /// Its name, unique in the world.
    pub name: String,
    /// What it does with packets that are not for itself.
    pub role: Role,
    /// Its kernel's TCP.
    pub tcp: TcpSettings,
    /// Addresses of the node itself, whichever interface packets come in by, beside those that its
    /// interfaces have.
    pub addresses: Vec<Ipv4Addr>,
    /// Ways to what lies behind its neighbours.
    pub routes: Vec<IpRoute>,
    /// When another table than the main one is asked for the way; earlier ones first.
    pub rules: Vec<Rule>,
}

/// What a node does with packets that are not for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It drops them.
    Host,
    /// It sends them on.
    Router,
}

/// What TCP is to be like on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpSettings {
    /// Congestion control of every connection, such as `cubic`.
    pub congestion_control: String,
    /// Least, first and greatest receive buffer in bytes (`net.ipv4.tcp_rmem`).
    pub rmem_bytes: [u64; 3],
    /// Least, first and greatest send buffer in bytes (`net.ipv4.tcp_wmem`).
    pub wmem_bytes: [u64; 3],
    /// Whether ECN is requested and granted (RFC 3168; `net.ipv4.tcp_ecn` 1 or 0).
    pub ecn: bool,
}

/// Nodes that reach each other without a router.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkSpec {
    /// The nodes that have an interface into it.
    pub members: Vec<usize>,
    /// What carries its frames.
    pub medium: Medium,
}

/// What carries a network's frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// The emulator: every interface ends in the wan's namespace.
    Emulator,
    /// netem: every interface ends in the wan's namespace, and packets come there one by one.
    Netem,
    /// The kernel: one virtual Ethernet pair straight between two members, offloads on.
    Wire,
}

/// A way to what lies behind a neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpRoute {
    /// The only address that it leads to.
    pub destination: Ipv4Addr,
    /// The table that it is in.
    pub table: u32,
    /// Where packets go next.
    pub hop: Hop,
    /// The source address of packets that the node itself sends this way; the kernel's choice when
    /// there is none.
    pub source: Option<Ipv4Addr>,
    /// The longest IP packet that goes through in one piece, in bytes, when it is less than the
    /// interface's. TCP's segments heed it from their first one on.
    pub mtu_bytes: Option<u32>,
}

/// Where packets go next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hop {
    /// To a neighbour in one of the node's networks.
    Neighbour {
        /// The network.
        network: usize,
        /// The neighbour.
        node: usize,
    },
    /// Into a device of the node that no network has made, such as a tunnel's.
    Device(String),
}

impl fmt::Display for IpRoute {
    /// As `ip route` has it.
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
    /// As `ip rule` has it.
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

/// When a table other than the main one is asked for the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Which packets it is about.
    pub selector: Selector,
    /// The table that is asked. When it knows no way, the rules that follow are tried.
    pub table: u32,
}

/// What packets a [`Rule`] is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// Those from one of these TCP ports.
    FromPorts(RangeInclusive<u16>),
    /// Those to one of these TCP ports.
    ToPorts(RangeInclusive<u16>),
    /// Those from an address that shares this many leading bits with it.
    FromAddresses(Ipv4Addr, u8),
    /// Those to an address that shares this many leading bits with it.
    ToAddresses(Ipv4Addr, u8),
}

impl Topology {
    /// Hosts that all have one interface each into the one emulated network.
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

    /// The address that a node's interface into a network has: 10.(83 + network).0.(1 + node).
    ///
    /// # Panics
    /// For places that no topology has.
    #[must_use]
    pub fn address(network: usize, node: usize) -> Ipv4Addr {
        assert!(network < MAX_NETWORKS && node < MAX_NODES);
        Ipv4Addr::new(10, FIRST_RANGE + network as u8, 0, node as u8 + 1)
    }
}
