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

/// The name of a host's only interface, in the host.
const INTERFACE: &str = "wan";
const LOOPBACK: &str = "lo";
/// All hosts are neighbours in 10.83.0.0/16, an address range inside their own namespaces.
const PREFIX_BITS: u8 = 16;
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
}

/// A host: a network namespace with one interface into the wan.
#[derive(Debug)]
pub struct Host {
    name: String,
    address: Ipv4Addr,
    mac: Mac,
    wan_interface: String,
    settings: BTreeMap<String, String>,
    namespace: Namespace,
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
    /// With more than 250 hosts, which the plan has ruled out.
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
            let neighbours: Vec<(Ipv4Addr, Mac)> = hosts
                .iter()
                .filter(|other| other.address != host.address)
                .map(|other| (other.address, other.mac))
                .collect();
            step(&host.namespace, "name the neighbours", move || {
                neighbours
                    .into_iter()
                    .try_for_each(|(address, mac)| link::add_neighbour(INTERFACE, address, mac))
            })?;
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
        let wan_interface = format!("h{number}");
        // Locally administered addresses (IEEE 802c), so that they cannot be a real card's.
        let mac = [0x02, 0x53, 0x41, 0x4e, 0x00, number];
        let handle = namespace.handle().as_raw_fd();
        let here = wan_interface.clone();
        step(wan, "make the virtual Ethernet pair", move || {
            let here = End {
                name: &here,
                mac: [0x02, 0x53, 0x41, 0x4e, 0x01, number],
            };
            let there = End {
                name: INTERFACE,
                mac,
            };
            link::create_pair(&here, &there, handle, mtu_bytes)?;
            offload::turn_off(here.name)?;
            link::bring_up(here.name, true)
        })?;
        let address = Ipv4Addr::new(10, 83, 0, number);
        step(&namespace, "bring up the interfaces", move || {
            offload::turn_off(INTERFACE)?;
            link::bring_up(LOOPBACK, false)?;
            link::add_address(INTERFACE, address, PREFIX_BITS)?;
            // ARP stays on: without it the kernel would take every neighbour's address for the
            // interface's own. Permanent neighbours make it silent.
            link::bring_up(INTERFACE, false)
        })?;
        Ok(Host {
            name: spec.name.clone(),
            address,
            mac,
            wan_interface,
            settings,
            namespace,
        })
    }

    /// The host's name in the plan.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The host's address, which the other hosts reach through the wan.
    #[must_use]
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The MAC address of the host's interface.
    #[must_use]
    pub fn mac(&self) -> [u8; 6] {
        self.mac
    }

    /// The name of the link's other end, in the wan's namespace.
    #[must_use]
    pub fn wan_interface(&self) -> &str {
        &self.wan_interface
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
