//! The hosts of a world and the wan between them.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::process::Command;

use super::link::{self, End, Mac};
use super::namespace::Namespace;
use super::process::Process;
use super::{WorldError, offload, sysctl};

/// The name of a host's first interface, in the host; the others have a number behind it.
const INTERFACE: &str = "wan";
const LOOPBACK: &str = "lo";
/// The first interfaces of all hosts are neighbours in 10.83.0.0/16, the second ones in 10.84.0.0/16
/// and so on: address ranges inside their own namespaces.
const FIRST_RANGE: u8 = 83;
const PREFIX_BITS: u8 = 16;
/// The most interfaces that a host can have.
pub(crate) const MAX_INTERFACES: usize = 8;
/// The most hosts in one world.
pub(crate) const MAX_HOSTS: usize = 250;

/// What TCP is to be like on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TcpSettings {
    /// Congestion control of every connection, such as `cubic`.
    pub congestion_control: String,
    /// Least, first and greatest receive buffer in bytes (`net.ipv4.tcp_rmem`).
    pub rmem_bytes: [u64; 3],
    /// Least, first and greatest send buffer in bytes (`net.ipv4.tcp_wmem`).
    pub wmem_bytes: [u64; 3],
    /// Whether ECN is asked for and granted (RFC 3168; `net.ipv4.tcp_ecn` 1 or 0).
    pub ecn: bool,
}

/// A host to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSpec {
    /// Its name, unique in the world.
    pub name: String,
    /// Its kernel's TCP.
    pub tcp: TcpSettings,
    /// Its interfaces into the wan, 1 to 8: as many as there are paths side by side from it to
    /// another host.
    pub interfaces: usize,
}

/// A host: a network namespace with interfaces into the wan.
#[derive(Debug)]
pub struct Host {
    name: String,
    interfaces: Vec<Interface>,
    settings: BTreeMap<String, String>,
    namespace: Namespace,
}

/// One of a host's interfaces into the wan. It reaches the interfaces of the same place of other
/// hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its address.
    pub address: Ipv4Addr,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// The name of the link's other end, in the wan's namespace.
    pub wan_interface: String,
    /// Its own name, in the host.
    name: String,
}

/// Hosts, and the namespace that lies between them.
///
/// Dropping it ends the hosts' threads, and with them every process started on a host.
#[derive(Debug)]
pub struct World {
    hosts: Vec<Host>,
    wan: Namespace,
}

impl World {
    /// Makes the hosts and joins each to the wan. No frame passes between hosts until an emulator
    /// in the wan moves it.
    ///
    /// # Errors
    /// [`WorldError`] when the kernel lacks something or forbids it; nothing is left of the world
    /// then.
    ///
    /// # Panics
    /// With more than 250 hosts or more than 8 interfaces, which the plan has ruled out.
    pub fn build(specs: &[HostSpec], mtu_bytes: u32) -> Result<World, WorldError> {
        assert!(specs.len() <= MAX_HOSTS);
        let wan = Namespace::new("wan")?;
        step(&wan, "bring up loopback", || {
            link::bring_up(LOOPBACK, false)
        })?;
        let mut hosts = Vec::with_capacity(specs.len());
        for (place, spec) in specs.iter().enumerate() {
            hosts.push(Host::build(&wan, place as u8 + 1, spec, mtu_bytes)?);
        }
        for host in &hosts {
            for (place, interface) in host.interfaces.iter().enumerate() {
                let neighbours: Vec<(Ipv4Addr, Mac)> = hosts
                    .iter()
                    .filter_map(|other| other.interfaces.get(place))
                    .filter(|other| other.address != interface.address)
                    .map(|other| (other.address, other.mac))
                    .collect();
                let name = interface.name.clone();
                step(&host.namespace, "name the neighbours", move || {
                    neighbours
                        .into_iter()
                        .try_for_each(|(address, mac)| link::add_neighbour(&name, address, mac))
                })?;
            }
        }
        Ok(World { hosts, wan })
    }

    /// The hosts, in the order in which they were given.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The host of that name.
    #[must_use]
    pub fn host(&self, name: &str) -> Option<&Host> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// The namespace in which every host's link ends.
    #[must_use]
    pub fn wan(&self) -> &Namespace {
        &self.wan
    }

    /// The offloads that are switched off on every link, by ethtool's names.
    #[must_use]
    pub fn offloads_off() -> Vec<&'static str> {
        offload::SWITCHES.iter().map(|(name, _)| *name).collect()
    }
}

impl Host {
    fn build(
        wan: &Namespace,
        number: u8,
        spec: &HostSpec,
        mtu_bytes: u32,
    ) -> Result<Host, WorldError> {
        let namespace = Namespace::new(&spec.name)?;
        let tcp = spec.tcp.clone();
        let settings = namespace
            .run(move || sysctl::apply(&tcp))
            .map_err(|source| read_only_settings(&spec.name, source))?;
        step(&namespace, "bring up loopback", || {
            link::bring_up(LOOPBACK, false)
        })?;
        let interfaces = (0..spec.interfaces)
            .map(|place| Interface::build(wan, &namespace, number, place, mtu_bytes))
            .collect::<Result<_, _>>()?;
        Ok(Host {
            name: spec.name.clone(),
            interfaces,
            settings,
            namespace,
        })
    }

    /// The host's name in the plan.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of the host's first interface, which the other hosts reach through the wan.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.interfaces[0].address
    }

    /// The host's interfaces into the wan; one at least.
    #[must_use]
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// The kernel settings in force in the host's namespace, by sysctl name.
    #[must_use]
    pub fn settings(&self) -> &BTreeMap<String, String> {
        &self.settings
    }

    /// The host's namespace.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Starts a program on the host; see [`Process`]. `title` names it in errors.
    ///
    /// # Errors
    /// [`super::ProcessError`] when it cannot be started.
    pub fn start(&self, title: &str, command: Command) -> Result<Process, super::ProcessError> {
        let title = title.to_owned();
        self.namespace.run(move || Process::spawn(title, command))
    }
}

impl Interface {
    /// Makes the interface at `place` of host `number`, and its other end in the wan.
    fn build(
        wan: &Namespace,
        host: &Namespace,
        number: u8,
        place: usize,
        mtu_bytes: u32,
    ) -> Result<Interface, WorldError> {
        assert!(place < MAX_INTERFACES);
        let place = place as u8;
        let (name, wan_interface) = match place {
            0 => (INTERFACE.to_owned(), format!("h{number}")),
            _ => (
                format!("{INTERFACE}{}", place + 1),
                format!("h{number}-{}", place + 1),
            ),
        };
        // Locally administered addresses (IEEE 802c), so that they cannot be a real card's.
        let mac = [0x02, 0x53, 0x41, 0x4e, 2 * place, number];
        let wan_mac = [0x02, 0x53, 0x41, 0x4e, 2 * place + 1, number];
        let handle = host.handle().as_raw_fd();
        let (here, there) = (wan_interface.clone(), name.clone());
        step(wan, "make the virtual Ethernet pair", move || {
            let here = End {
                name: &here,
                mac: wan_mac,
            };
            let there = End { name: &there, mac };
            link::create_pair(&here, &there, handle, mtu_bytes)?;
            offload::turn_off(here.name)?;
            link::bring_up(here.name, true)
        })?;
        let address = Ipv4Addr::new(10, FIRST_RANGE + place, 0, number);
        let own = name.clone();
        step(host, "bring up the interface", move || {
            offload::turn_off(&own)?;
            link::add_address(&own, address, PREFIX_BITS)?;
            // ARP stays on: without it the kernel would take every neighbour's address for the
            // interface's own. Permanent neighbours make it silent.
            link::bring_up(&own, false)
        })?;
        Ok(Interface {
            address,
            mac,
            wan_interface,
            name,
        })
    }
}

fn step(
    namespace: &Namespace,
    action: &str,
    job: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<(), WorldError> {
    namespace.run(job).map_err(|source| {
        let action = format!("{action} ({})", namespace.name());
        // RTM_NEWLINK answers EOPNOTSUPP for a kind of link that the kernel does not have.
        if source.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()) {
            WorldError::EnvironmentLacks {
                action,
                cause: "the kernel has no virtual Ethernet (CONFIG_VETH)".to_owned(),
                remedy: "load it with `sudo modprobe veth`".to_owned(),
            }
        } else {
            WorldError::Refused {
                action,
                host: namespace.name().to_owned(),
                source,
            }
        }
    })
}

fn read_only_settings(host: &str, source: io::Error) -> WorldError {
    if source.kind() == io::ErrorKind::ReadOnlyFilesystem {
        WorldError::EnvironmentLacks {
            action: format!("set TCP up on host `{host}`"),
            cause: "/proc/sys is mounted read-only, as in a container".to_owned(),
            remedy: "start the container with `--privileged`".to_owned(),
        }
    } else {
        WorldError::Refused {
            action: "set TCP up".to_owned(),
            host: host.to_owned(),
            source,
        }
    }
}
