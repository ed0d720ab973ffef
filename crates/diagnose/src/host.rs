//! This host's iSCSI connections, whatever software owns them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use serde::{Serialize, Serializer};
use wansan_tcp::diag::{Connection, Diag, DiagError, SocketInfo};

use crate::attributes::text;
use crate::lio::{self, PortalGroup};
use crate::open_iscsi::{self, KernelSession};
use crate::sockets::{self, Owner};
use crate::software::Software;

/// Which end of a session this host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The initiator.
    Initiator,
    /// The target.
    Target,
    /// Both: the session is internal to this host.
    Both,
}

/// A TCP connection of iSCSI.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostConnection {
    /// This host's end.
    pub local: SocketAddr,
    /// The remote end.
    pub remote: SocketAddr,
    /// Whether this end is the target's.
    pub is_target: bool,
    /// The process that owns it.
    pub owner: Option<Owner>,
    /// The socket, as identified by the kernel.
    pub socket: Connection,
    /// Window scales of this end and of the remote end.
    pub scales: [u8; 2],
    /// The name of this end's congestion control.
    pub congestion_control: String,
}

impl HostConnection {
    /// The initiator's and the target's address.
    #[must_use]
    pub fn ends(&self) -> Ends {
        let (initiator, target) = match self.is_target {
            true => (self.remote, self.local),
            false => (self.local, self.remote),
        };
        Ends { initiator, target }
    }
}

/// The ends of an iSCSI connection: in text, and in JSON, `INITIATOR to TARGET`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// The initiator's address.
    pub initiator: SocketAddr,
    /// The target's.
    pub target: SocketAddr,
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.initiator, self.target)
    }
}

impl Serialize for Ends {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The iSCSI objects of this host.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Host {
    /// The kernel's sessions as an initiator.
    pub sessions: Vec<KernelSession>,
    /// The kernel's target portal groups.
    pub portal_groups: Vec<PortalGroup>,
    /// Connections.
    pub connections: Vec<HostConnection>,
    /// Maximum TCP receive and send buffers, in bytes.
    pub buffers: [Option<u64>; 2],
}

/// The owner of a session on this host.
#[derive(Debug, Clone, PartialEq)]
pub struct HostSession {
    /// Which end.
    pub role: Role,
    /// The kernel's session.
    pub kernel: Option<KernelSession>,
    /// The process that owns a connection of it.
    pub owner: Option<Owner>,
    initiator: Software,
    target: Software,
}

impl HostSession {
    /// The software at this host's end in that role.
    #[must_use]
    pub fn software(&self, role: Role) -> Software {
        match role {
            Role::Target => self.target,
            Role::Initiator | Role::Both => self.initiator,
        }
    }
}

impl Host {
    /// Finds the objects below `sys` and `proc`, the mount points of sysfs and procfs, and the connections that have
    /// one of `ports`, or a port used by the kernel's sessions and targets, at either end.
    ///
    /// # Errors
    /// The kernel cannot list sockets.
    pub fn find(
        sys: &Path,
        proc: &Path,
        ports: &BTreeSet<u16>,
    ) -> Result<(Host, BTreeSet<u16>), DiagError> {
        let sessions = open_iscsi::sessions(sys);
        let portal_groups = lio::portal_groups(sys);
        let connections = sessions.iter().flat_map(|session| &session.connections);
        let listening = portal_groups.iter().flat_map(|group| &group.portals);
        let known = connections.map(|it| &it.target).chain(listening);
        let known = known.map(SocketAddr::port);
        let ports: BTreeSet<u16> = ports.iter().copied().chain(known).collect();
        let found = sockets::find(&mut Diag::open()?, &ports)?;
        let connections: Vec<Connection> = found.iter().map(|socket| socket.connection).collect();
        let owners = sockets::owners(proc, &connections);
        let connections = found
            .iter()
            .map(|socket| connection(socket, &ports, &owners));
        let host = Host {
            sessions,
            portal_groups,
            connections: connections.collect(),
            buffers: ["tcp_rmem", "tcp_wmem"].map(|name| {
                let sizes = text(&proc.join("sys/net/ipv4"), name)?;
                sizes.split_whitespace().nth(2)?.parse().ok()
            }),
        };
        Ok((host, ports))
    }

    /// The session of a connection between these addresses.
    #[must_use]
    pub fn session(&self, initiator: SocketAddr, target: SocketAddr) -> HostSession {
        let ends = |is_target: bool| {
            let mut of_it = self.connections.iter();
            of_it.find(|it| it.is_target == is_target && it.ends() == Ends { initiator, target })
        };
        let (ours, theirs) = (ends(false), ends(true));
        let role = match (ours, theirs) {
            (Some(_), Some(_)) => Role::Both,
            (None, Some(_)) => Role::Target,
            (Some(_), None) => Role::Initiator,
            // It began after `find`.
            (None, None) if self.is_own(target) => Role::Target,
            (None, None) => Role::Initiator,
        };
        let name = |of: Option<&HostConnection>| {
            let owner = of.and_then(|of| of.owner.as_ref());
            owner.map(|owner| owner.name.clone())
        };
        let initiators = name(ours);
        let is_kernel = matches!(initiators.as_deref(), None | Some("iscsid"));
        let kernel = self.kernel_session(initiator, target);
        let kernel = kernel
            .filter(|_| role != Role::Target && is_kernel)
            .cloned();
        let is_lio = self.groups_at(target).next().is_some();
        HostSession {
            role,
            initiator: match kernel {
                Some(_) => Software::OpenIscsi,
                None => Software::of_initiator(initiators.as_deref()),
            },
            target: Software::of_target(name(theirs).as_deref(), is_lio),
            kernel,
            owner: ours.or(theirs).and_then(|of| of.owner.clone()),
        }
    }

    /// The kernel session of a connection between these addresses; `None` if ambiguous, as the kernel does not report
    /// its ports.
    fn kernel_session(&self, initiator: SocketAddr, target: SocketAddr) -> Option<&KernelSession> {
        let with = |is_it: &dyn Fn(Option<u16>) -> bool| {
            let sessions = self.sessions.iter().filter(|session| {
                let mut connections = session.connections.iter();
                connections.any(|it| it.target == target && is_it(it.local_port))
            });
            let found: Vec<&KernelSession> = sessions.collect();
            match found[..] {
                [only] => Some(only),
                _ => None,
            }
        };
        with(&|port| port == Some(initiator.port())).or_else(|| with(&|port| port.is_none()))
    }

    /// Whether an address belongs to this host, judging by its connections.
    fn is_own(&self, address: SocketAddr) -> bool {
        let mut connections = self.connections.iter();
        connections.any(|it| it.local.ip() == address.ip())
    }

    /// The LIO portal group of a session: the named target's, or without a name the only one listening at this address.
    #[must_use]
    pub fn lio(&self, at: SocketAddr, name: Option<&str>) -> Option<&PortalGroup> {
        let groups = self.groups_at(at);
        let named = groups.filter(|group| name.is_none_or(|name| group.target == name));
        let found: Vec<&PortalGroup> = named.collect();
        match found[..] {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The LIO portal groups listening at this address.
    fn groups_at(&self, at: SocketAddr) -> impl Iterator<Item = &PortalGroup> {
        let listens = move |group: &&PortalGroup| {
            let mut portals = group.portals.iter();
            portals.any(|portal| {
                portal.port() == at.port()
                    && (portal.ip().is_unspecified() || portal.ip() == at.ip().to_canonical())
            })
        };
        self.portal_groups.iter().filter(listens)
    }
}

fn connection(
    socket: &SocketInfo,
    ports: &BTreeSet<u16>,
    owners: &BTreeMap<(SocketAddr, SocketAddr), Owner>,
) -> HostConnection {
    let Connection { local, remote, .. } = socket.connection;
    HostConnection {
        local: canonical(local),
        remote: canonical(remote),
        is_target: ports.contains(&local.port()),
        owner: owners.get(&(local, remote)).cloned(),
        socket: socket.connection,
        scales: socket.info.window_scales().into(),
        congestion_control: socket.congestion_control.clone(),
    }
}

/// The same address, as IPv4 if it is an IPv4-mapped IPv6 address.
pub(crate) fn canonical(of: SocketAddr) -> SocketAddr {
    SocketAddr::new(of.ip().to_canonical(), of.port())
}
