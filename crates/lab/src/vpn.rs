//! Tunnels between the routers of a world, with real VPN programs.
//!
//! ```text
//!   near router                         outer path                        far router
//!   forwarding ── device ── program ══ UDP, encrypted ══ program ── device ── forwarding
//! ```
//!
//! As on a VPN router, each router runs one program for all its tunnels of a kind, so their cost is one process's
//! processor time. Call [`check`] before anything is built; [`Tunnels::start`] once the outer paths carry packets,
//! which the handshakes need; route into the tunnels' devices; call [`Tunnels::sample`] repeatedly during the
//! measurement, and [`Meter::usage`] on the result of [`Tunnels::end`].

mod ipsec;
mod usage;
mod wireguard;

use std::fs::OpenOptions;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use ipnet::Ipv4Net;
use serde::{Deserialize, Serialize};
use wansan_schema::TunnelFacts;
use wansan_sim::network::vpn::Wrapping;

use crate::world::{Node, Process, ProcessError, WorldError};

pub use usage::Meter;
pub(crate) use usage::{Counters, Metered};

/// Values of a route's `vpn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vpn {
    /// No tunnel.
    #[default]
    None,
    /// WireGuard, with our own program; needs no root.
    WireGuard,
    /// IPsec, with strongSwan.
    Ipsec,
}

/// Values of an IPsec route's `cipher`: ESP's encryption and authentication (RFC 4303).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Cipher {
    /// AES-128 in Galois/Counter Mode with a tag of 16 bytes (RFC 4106).
    #[default]
    #[serde(rename = "aes-gcm")]
    AesGcm,
    /// AES-128 in CBC mode (RFC 3602) with HMAC-SHA-256-128 (RFC 4868).
    #[serde(rename = "aes-cbc")]
    AesCbc,
    /// Triple DES in CBC mode (RFC 2451) with HMAC-SHA-1-96 (RFC 2404).
    #[serde(rename = "3des")]
    TripleDes,
}

/// The kind of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// WireGuard.
    WireGuard,
    /// IPsec with that cipher.
    Ipsec(Cipher),
}

/// A tunnel to set up.
#[derive(Debug, Clone)]
pub struct TunnelSpec<'w> {
    /// Its name, unique in the world: lower-case letters, digits and hyphens.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The end at the initiators' side, which initiates the handshake.
    pub near: End<'w>,
    /// The end at the target's side.
    pub far: End<'w>,
    /// MTU of the path between the two outer addresses.
    pub outer_mtu_bytes: u32,
    /// Its traffic. It passes nothing else, whatever is routed into its devices.
    pub traffic: Vec<Traffic>,
}

/// One end of a tunnel.
#[derive(Debug, Clone, Copy)]
pub struct End<'w> {
    /// The router.
    pub router: &'w Node,
    /// Its outer address, reachable from the other end.
    pub address: Ipv4Addr,
}

/// Traffic of a tunnel, in both directions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// The addresses at the initiators' side.
    pub near: Ipv4Net,
    /// The addresses at the target's side.
    pub far: Ipv4Net,
    /// The TCP ports at the initiators' side; `None` for any protocol and port. IPsec uses them to distinguish tunnels
    /// with the same addresses; WireGuard knows only addresses, and leaves ports to the routes into its devices.
    pub near_ports: Option<RangeInclusive<u16>>,
}

/// The tunnels of a world and their programs. Dropping it stops the programs, which removes their devices.
#[derive(Debug, Default)]
pub struct Tunnels {
    tunnels: Vec<TunnelFacts>,
    servers: Vec<Server>,
    meter: Meter,
}

/// The program for the tunnels of one kind at one router.
#[derive(Debug)]
struct Server {
    router: String,
    vpn: Vpn,
    /// The program's name.
    program: String,
    ciphers: Vec<&'static str>,
    /// The tunnels' devices at this router.
    devices: Vec<String>,
    process: Process,
}

/// Why tunnels are unavailable.
#[derive(Debug, thiserror::Error)]
pub enum VpnError {
    /// A program or plugin is not installed.
    #[error(
        "`vpn = \"ipsec\"` needs {}: install with `apt-get install {}`",
        missing.join(", "), missing.join(" ")
    )]
    PackagesMissing {
        /// The Debian packages that provide what is missing.
        missing: Vec<&'static str>,
    },
    /// No TUN device can be created.
    #[error(
        "`vpn` needs /dev/net/tun: {source}; load the driver with `sudo modprobe tun`, and allow \
         reading and writing it (`sudo chmod 666 /dev/net/tun`, as udev does)"
    )]
    NoTun {
        /// The error from opening it.
        source: std::io::Error,
    },
    /// A tunnel's handshake did not complete.
    #[error("the tunnel `{tunnel}` between routers `{near}` and `{far}` did not come up: {reason}")]
    NotUp {
        /// The tunnel's name.
        tunnel: String,
        /// The router at its near end.
        near: String,
        /// The router at its far end.
        far: String,
        /// Its program's error.
        reason: String,
    },
    /// The caller stopped waiting.
    #[error("interrupted")]
    Interrupted,
    /// A router's program could not be started or stopped.
    #[error(transparent)]
    Program(#[from] ProcessError),
    /// A router's program refused a request, or gave an unexpected answer.
    #[error("{title}: {said}")]
    Refused {
        /// The program.
        title: String,
        /// Its output, in one line.
        said: String,
    },
    /// The device could not be brought up.
    #[error(transparent)]
    World(#[from] WorldError),
    /// Random numbers for keys, or a router's counters, are unavailable.
    #[error("cannot {action}: {source}")]
    System {
        /// The operation.
        action: String,
        /// The error.
        source: std::io::Error,
    },
}

impl Vpn {
    /// The name in plans and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Vpn::None => "none",
            Vpn::WireGuard => "wireguard",
            Vpn::Ipsec => "ipsec",
        }
    }
}

impl Cipher {
    /// The name in plans and results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Cipher::AesGcm => "aes-gcm",
            Cipher::AesCbc => "aes-cbc",
            Cipher::TripleDes => "3des",
        }
    }
}

impl Kind {
    /// The kind of tunnel for a plan's values; `None` without a tunnel.
    ///
    /// # Errors
    /// A description, if a cipher is given for anything but IPsec.
    pub const fn of(vpn: Vpn, cipher: Option<Cipher>) -> Result<Option<Kind>, &'static str> {
        match (vpn, cipher) {
            (Vpn::None, None) => Ok(None),
            (Vpn::WireGuard, None) => Ok(Some(Kind::WireGuard)),
            (Vpn::Ipsec, Some(cipher)) => Ok(Some(Kind::Ipsec(cipher))),
            (Vpn::Ipsec, None) => Ok(Some(Kind::Ipsec(Cipher::AesGcm))),
            (Vpn::None, Some(_)) => Err("`cipher` is for vpn = \"ipsec\", and its vpn is \"none\""),
            (Vpn::WireGuard, Some(_)) => Err(
                "`cipher` is for vpn = \"ipsec\", and its vpn is \"wireguard\", which has but one",
            ),
        }
    }

    /// Its VPN.
    #[must_use]
    pub const fn vpn(self) -> Vpn {
        match self {
            Kind::WireGuard => Vpn::WireGuard,
            Kind::Ipsec(_) => Vpn::Ipsec,
        }
    }

    /// The UDP port at both ends of the tunnel with index `place` among its VPN's.
    pub(crate) const fn port(self, place: usize) -> u16 {
        match self {
            Kind::WireGuard => wireguard::port(place),
            Kind::Ipsec(_) => ipsec::PORT,
        }
    }

    /// Its encapsulation overhead.
    #[must_use]
    pub const fn wrapping(self) -> Wrapping {
        match self {
            // `boringtun` does not pad.
            Kind::WireGuard => Wrapping {
                around_bytes: wansan_wireguard::OVERHEAD_BYTES,
                trailer_bytes: 0,
                block_bytes: 1,
            },
            Kind::Ipsec(cipher) => ipsec::wrapping(cipher),
        }
    }

    /// The largest MTU of such a tunnel at which outer packets are not fragmented, given the outer path's MTU.
    #[must_use]
    pub const fn mtu_bytes(self, outer_mtu_bytes: u32) -> u32 {
        match self {
            Kind::WireGuard => self.wrapping().inner_bytes(outer_mtu_bytes),
            Kind::Ipsec(cipher) => ipsec::mtu_bytes(cipher, outer_mtu_bytes),
        }
    }

    /// The MTU of such a tunnel in a world with tunnels of `all` these kinds, including itself: those of one VPN share
    /// devices, and so the smallest MTU.
    #[must_use]
    pub fn shared_mtu_bytes(self, all: &[Kind], outer_mtu_bytes: u32) -> u32 {
        let alike = all.iter().filter(|other| other.vpn() == self.vpn());
        let each = alike.map(|other| other.mtu_bytes(outer_mtu_bytes));
        each.fold(self.mtu_bytes(outer_mtu_bytes), u32::min)
    }

    /// The facts that follow from a tunnel's kind.
    pub(crate) fn facts(self, name: &str) -> TunnelFacts {
        TunnelFacts {
            name: name.to_owned(),
            vpn: self.vpn().name().to_owned(),
            cipher: match self {
                Kind::WireGuard => None,
                Kind::Ipsec(cipher) => Some(cipher.name().to_owned()),
            },
            ..TunnelFacts::default()
        }
    }

    /// Its cipher's name.
    #[must_use]
    pub const fn cipher_name(self) -> &'static str {
        match self {
            Kind::WireGuard => "chacha20-poly1305",
            Kind::Ipsec(cipher) => cipher.name(),
        }
    }
}

impl TunnelSpec<'_> {
    fn is_not_up(&self, reason: String) -> VpnError {
        VpnError::NotUp {
            tunnel: self.name.clone(),
            near: self.near.router.name().to_owned(),
            far: self.far.router.name().to_owned(),
            reason,
        }
    }
}

/// The device by which programs create tunnel interfaces.
const TUN: &str = "/dev/net/tun";

/// Checks that this machine has what tunnels of these kinds need.
///
/// # Errors
/// [`VpnError::PackagesMissing`], listing all missing packages; [`VpnError::NoTun`].
pub fn check(kinds: &[Kind]) -> Result<(), VpnError> {
    if kinds.iter().any(|kind| kind.vpn() == Vpn::Ipsec) {
        ipsec::check(Path::new("/"))?;
    }
    if kinds.is_empty() {
        return Ok(());
    }
    let opened = OpenOptions::new().read(true).write(true).open(TUN);
    opened
        .map(drop)
        .map_err(|source| VpnError::NoTun { source })
}

impl Tunnels {
    /// Starts the programs of all routers, and returns the tunnels once all handshakes are complete; waits for that
    /// until `stop` is set. `program` is the `wansan` binary.
    ///
    /// # Errors
    /// [`VpnError`]; nothing remains of the tunnels then.
    pub fn start(
        program: &Path,
        specs: &[TunnelSpec<'_>],
        stop: &AtomicBool,
    ) -> Result<Tunnels, VpnError> {
        let of = |vpn: Vpn| -> Vec<&TunnelSpec<'_>> {
            let alike = specs.iter().filter(|spec| spec.kind.vpn() == vpn);
            alike.collect()
        };
        let (wireguard, ipsec) = (of(Vpn::WireGuard), of(Vpn::Ipsec));
        let mut servers = wireguard::start(program, &wireguard, stop)?;
        servers.extend(ipsec::start(&ipsec, stop)?);
        let mut tunnels: Vec<TunnelFacts> = wireguard::tunnels(&wireguard);
        tunnels.extend(ipsec::tunnels(&ipsec));
        for tunnel in &mut tunnels {
            let mut alike = servers
                .iter()
                .filter(|server| server.vpn.name() == tunnel.vpn);
            tunnel.program = alike
                .next()
                .map_or_else(String::new, |server| server.program.clone());
        }
        tunnels.sort_by_key(|tunnel| specs.iter().position(|spec| spec.name == tunnel.name));
        let metered = servers.iter().map(|server| Metered {
            router: server.router.clone(),
            vpn: server.vpn,
            ciphers: server.ciphers.clone(),
        });
        Ok(Tunnels {
            tunnels,
            meter: Meter::new(metered.collect()),
            servers,
        })
    }

    /// The programs: router, name of the VPN, process ID.
    pub fn programs(&self) -> impl Iterator<Item = (&str, &'static str, u32)> {
        let servers = self.servers.iter();
        servers.map(|server| (&server.router[..], server.vpn.name(), server.process.id()))
    }

    /// The tunnels, in the requested order.
    #[must_use]
    pub fn tunnels(&self) -> &[TunnelFacts] {
        &self.tunnels
    }
}

/// The routers at which these tunnels end, each once: responders first, so that they are ready when initiators start.
fn routers<'w>(specs: &[&TunnelSpec<'w>]) -> Vec<&'w Node> {
    let mut routers: Vec<&Node> = Vec::new();
    let ends = specs
        .iter()
        .map(|spec| spec.far.router)
        .chain(specs.iter().map(|spec| spec.near.router));
    for router in ends {
        if !routers.iter().any(|known| known.name() == router.name()) {
            routers.push(router);
        }
    }
    let begins = |router: &Node| {
        let mut near = specs.iter().map(|spec| spec.near.router.name());
        near.any(|name| name == router.name())
    };
    routers.sort_by_key(|router| begins(router));
    routers
}
