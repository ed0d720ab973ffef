//! A node of a world: a host or a router.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::process::Command;

use wansan_path::SUPER_FRAME_MAX_BYTES;

use super::build::{POLICY_ROUTING, VETH, step, step_with};
use super::link::{self, End, Mac};
use super::namespace::Namespace;
use super::process::{Process, ProcessError};
use super::route::{self, NextHop};
use super::topology::{Hop, IpRoute, NodeSpec, PREFIX_BITS, Role, Topology};
use super::{WorldError, offload, precedence, sysctl};
use crate::emulator::Port;

/// The name of a node's interface into its first network; further ones have the network's number, from 2, as suffix.
const INTERFACE: &str = "wan";
pub(super) const LOOPBACK: &str = "lo";
/// Priority of a node's first rule: after the kernel's own for local addresses (0), before that of the main table
/// (32766).
const FIRST_RULE: u32 = 1000;

/// A host or a router: a network namespace with an interface into each of its networks.
#[derive(Debug)]
pub struct Node {
    spec: NodeSpec,
    interfaces: Vec<Interface>,
    settings: BTreeMap<String, String>,
    namespace: Namespace,
}

/// A node's interface into a network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// The network.
    pub network: usize,
    /// Its name on the node.
    pub name: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// The name of the link's other end in the wan's namespace; `None` on a wire.
    pub wan_interface: Option<String>,
}

impl Interface {
    /// Its link's port in the wan; `None` on a wire, which has no emulator.
    #[must_use]
    pub fn port(&self) -> Option<Port> {
        Some(Port {
            interface: self.wan_interface.clone()?,
            host_mac: self.mac,
            routed: None,
        })
    }
}

impl Node {
    /// Creates the node, with a loopback interface only.
    pub(super) fn build(spec: &NodeSpec) -> Result<Node, WorldError> {
        let namespace = Namespace::new(&spec.name)?;
        let (role, tcp) = (spec.role, spec.tcp.clone());
        let settings = namespace
            .run(move || sysctl::apply(role, &tcp))
            .map_err(|source| read_only_settings(&spec.name, source))?;
        let own = spec.addresses.clone();
        step(&namespace, "bring up loopback", move || {
            link::bring_up(LOOPBACK, false)?;
            own.into_iter()
                .try_for_each(|address| link::add_address(LOOPBACK, address, 32))
        })?;
        Ok(Node {
            spec: spec.clone(),
            interfaces: Vec::new(),
            settings,
            namespace,
        })
    }

    /// The node's name in the plan.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Whether it is a host or a router.
    #[must_use]
    pub fn role(&self) -> Role {
        self.spec.role
    }

    /// Its specification: its own addresses, its routes and its rules.
    #[must_use]
    pub fn spec(&self) -> &NodeSpec {
        &self.spec
    }

    /// The address at which others reach the node: its first own one, or else its first interface's.
    ///
    /// # Panics
    /// The node is in no network.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        let own = self.spec.addresses.first().copied();
        own.unwrap_or_else(|| self.interfaces[0].address)
    }

    /// The node's interfaces into its networks, in order.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The node's interface into that network.
    #[must_use]
    pub fn interface(&self, network: usize) -> Option<&Interface> {
        self.interfaces
            .iter()
            .find(|interface| interface.network == network)
    }

    /// The kernel settings in force in the node's namespace, by sysctl name.
    #[must_use]
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// The node's namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Starts a program on the node; see [`Process`]. `title` names it in errors.
    ///
    /// # Errors
    /// [`super::ProcessError`] if it cannot be started.
    pub fn start(&self, title: &str, command: Command) -> Result<Process, ProcessError> {
        let title = title.to_owned();
        self.first(move || Process::spawn(title, command))
    }

    /// Starts a program like [`Node::start`], with `input` on its standard input.
    ///
    /// # Errors
    /// [`super::ProcessError`] if it cannot be started.
    pub fn start_fed(
        &self,
        title: &str,
        command: Command,
        input: Vec<u8>,
    ) -> Result<Process, ProcessError> {
        let title = title.to_owned();
        self.first(move || Process::spawn_fed(title, command, &input))
    }

    /// Starts a program like [`Node::start_fed`] that reads its standard input to the end before it continues;
    /// [`Process::release`] lets it.
    ///
    /// # Errors
    /// [`super::ProcessError`] if it cannot be started.
    pub fn start_held(
        &self,
        title: &str,
        command: Command,
        input: Vec<u8>,
    ) -> Result<Process, ProcessError> {
        let title = title.to_owned();
        self.first(move || Process::spawn_held(title, command, &input))
    }

    /// Starts a program with precedence over the computer's others.
    fn first(
        &self,
        start: impl FnOnce() -> Result<Process, ProcessError> + Send + 'static,
    ) -> Result<Process, ProcessError> {
        self.namespace.run(move || {
            let process = start()?;
            precedence::put_first(process.id());
            Ok(process)
        })
    }

    /// Adds an address of its own to the node, on its loopback interface.
    ///
    /// # Errors
    /// [`WorldError::Refused`] if it already has that address.
    pub fn add_address(&self, address: Ipv4Addr) -> Result<(), WorldError> {
        step(&self.namespace, "add the address", move || {
            link::add_address(LOOPBACK, address, 32)
        })
    }

    /// Makes the node forward packets for one of its own addresses as it does for others.
    ///
    /// # Errors
    /// [`WorldError::Refused`] if it does not have that address.
    pub fn give_up_delivery(&self, address: Ipv4Addr) -> Result<(), WorldError> {
        step(&self.namespace, "give up delivery", move || {
            route::remove_local_route(address)
        })
    }

    /// Brings up a device created by a program on the node.
    ///
    /// # Errors
    /// [`WorldError::Refused`] if there is no such device, or it does not support that MTU.
    pub fn bring_up_device(&self, device: &str, mtu_bytes: u32) -> Result<(), WorldError> {
        let device = device.to_owned();
        step(&self.namespace, "bring up the tunnel", move || {
            link::set_mtu(&device, mtu_bytes)?;
            link::bring_up(&device, false)
        })
    }

    /// Adds a route, replacing the one to the same address in the same table. The world adds those of the topology;
    /// this is for devices created later.
    ///
    /// # Errors
    /// [`WorldError::Refused`], for example if the device does not exist.
    ///
    /// # Panics
    /// The route leads into a network that the node is not in.
    pub fn set_route(&self, route: &IpRoute) -> Result<(), WorldError> {
        let (device, gateway) = match &route.hop {
            Hop::Device(name) => (name.clone(), None),
            Hop::Neighbour { network, node } => {
                let interface = self.interface(*network).expect("a route by an interface");
                let gateway = Topology::address(*network, *node);
                (interface.name.clone(), Some(gateway))
            }
        };
        let route = route.clone();
        let action = format!("set the route to {}", route.destination);
        step(&self.namespace, &action, move || {
            let hop = NextHop {
                device: &device,
                gateway,
            };
            route::set_route(
                route.destination,
                route.table,
                &hop,
                route.source,
                route.mtu_bytes,
            )
        })
    }

    /// Adds the routes and rules of its specification, once all its interfaces exist.
    pub(super) fn set_routes_and_rules(&self) -> Result<(), WorldError> {
        for route in &self.spec.routes {
            self.set_route(route)?;
        }
        for (place, rule) in self.spec.rules.iter().enumerate() {
            let (rule, priority) = (rule.clone(), FIRST_RULE + place as u32);
            step_with(&POLICY_ROUTING, &self.namespace, "add a rule", move || {
                route::add_rule(&rule.selector, rule.table, priority)
            })?;
        }
        Ok(())
    }

    /// Adds neighbour entries for the node's neighbours in a network.
    pub(super) fn know_neighbours(
        &self,
        network: usize,
        all: &[(Ipv4Addr, Mac)],
    ) -> Result<(), WorldError> {
        let Some(own) = self.interface(network) else {
            return Ok(());
        };
        let (name, address) = (own.name.clone(), own.address);
        let neighbours: Vec<(Ipv4Addr, Mac)> = all
            .iter()
            .filter(|(other, _)| *other != address)
            .copied()
            .collect();
        step(&self.namespace, "name the neighbours", move || {
            neighbours
                .into_iter()
                .try_for_each(|(address, mac)| link::add_neighbour(&name, address, mac))
        })
    }

    /// Gives the node with index `node` an interface into an emulated network, and the wan the other end; packets
    /// arrive there `one_by_one` or in super-frames.
    pub(super) fn join(
        &mut self,
        wan: &Namespace,
        network: usize,
        node: usize,
        mtu_bytes: u32,
        one_by_one: bool,
    ) -> Result<(), WorldError> {
        let mut interface = Interface::new(network, node);
        let wan_interface = match network {
            0 => format!("h{}", node + 1),
            _ => format!("h{}-{}", node + 1, network + 1),
        };
        let mut wan_mac = interface.mac;
        wan_mac[4] += 1;
        let handle = self.namespace.handle().as_raw_fd();
        let (here, there) = (wan_interface.clone(), interface.clone());
        step_with(&VETH, wan, "make the virtual Ethernet pair", move || {
            let here = End {
                name: &here,
                mac: wan_mac,
                super_frame_max_bytes: None,
                one_by_one,
            };
            let there = End {
                one_by_one,
                ..there.end()
            };
            link::create_pair(&here, &there, handle, mtu_bytes)?;
            offload::turn_off(here.name)?;
            link::bring_up(here.name, true)
        })?;
        interface.wan_interface = Some(wan_interface);
        let own = interface.name.clone();
        step(&self.namespace, "turn the offloads off", move || {
            offload::turn_off(&own)
        })?;
        self.bring_up(interface)
    }

    /// Joins two nodes, with indices `node` and `other_node`, by a wire.
    pub(super) fn wire(
        &mut self,
        other: &mut Node,
        network: usize,
        [node, other_node]: [usize; 2],
        mtu_bytes: u32,
    ) -> Result<(), WorldError> {
        let here = Interface::new(network, node);
        let there = Interface::new(network, other_node);
        let handle = other.namespace.handle().as_raw_fd();
        let (near, far) = (here.clone(), there.clone());
        step_with(&VETH, &self.namespace, "make the wire", move || {
            link::create_pair(&near.end(), &far.end(), handle, mtu_bytes)
        })?;
        self.bring_up(here)?;
        other.bring_up(there)
    }

    fn bring_up(&mut self, interface: Interface) -> Result<(), WorldError> {
        let own = interface.clone();
        step(&self.namespace, "bring up the interface", move || {
            link::add_address(&own.name, own.address, PREFIX_BITS)?;
            // Keep ARP enabled: without it the kernel would take every neighbour's address for the interface's own.
            // Permanent neighbours keep it silent.
            link::bring_up(&own.name, false)
        })?;
        self.interfaces.push(interface);
        Ok(())
    }
}

impl Interface {
    /// The interface of the node with index `node` into a network.
    fn new(network: usize, node: usize) -> Interface {
        let address = Topology::address(network, node);
        let name = match network {
            0 => INTERFACE.to_owned(),
            _ => format!("{INTERFACE}{}", network + 1),
        };
        Interface {
            network,
            name,
            address,
            // Locally administered addresses (IEEE 802c), so that they cannot be a real card's. The next one belongs to
            // the wan's end.
            mac: [0x02, 0x53, 0x41, 0x4e, 2 * network as u8, node as u8 + 1],
            wan_interface: None,
        }
    }

    fn end(&self) -> End<'_> {
        End {
            name: &self.name,
            mac: self.mac,
            // The emulator's limit; on wires too, so that routers need not segment what they forward to an emulated
            // path.
            super_frame_max_bytes: Some(SUPER_FRAME_MAX_BYTES),
            one_by_one: false,
        }
    }
}

fn read_only_settings(node: &str, source: std::io::Error) -> WorldError {
    if source.kind() == std::io::ErrorKind::ReadOnlyFilesystem {
        WorldError::EnvironmentLacks {
            action: format!("set TCP up on `{node}`"),
            cause: "/proc/sys is mounted read-only, as in a container".to_owned(),
            remedy: "start the container with `--privileged`".to_owned(),
        }
    } else {
        WorldError::Refused {
            action: "set TCP up".to_owned(),
            node: node.to_owned(),
            source,
        }
    }
}
