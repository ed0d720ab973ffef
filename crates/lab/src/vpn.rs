//! Tunnels between the routers of a world, by real VPN programs.
//!
//! ```text
//!   near router                         outer path                        far router
//!   forwarding ── device ── program ══ UDP, encrypted ══ program ── device ── forwarding
//! ```
//!
//! Every router has one program for all the tunnels of a kind that end at it, as a VPN router has,
//! so what they cost is one process's processor time. Call [`check`] before anything is built;
//! [`Tunnels::start`] once the outer paths carry packets, for the ends shake hands over them; route
//! into the devices of the tunnels; call [`Tunnels::sample`] again and again while it is
//! measured, and [`Meter::usage`] of what [`Tunnels::end`] gives.

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

/// What may stand at a route's `vpn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Vpn {
    /// Packets go as they are.
    #[default]
    None,
    /// WireGuard, by a program of our own; it needs no root.
    WireGuard,
    /// IPsec, by strongSwan.
    Ipsec,
}

/// What may stand at an IPsec route's `cipher`: how ESP (RFC 4303) encrypts and authenticates.
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

/// A tunnel to be made.
#[derive(Debug, Clone)]
pub struct TunnelSpec<'w> {
    /// Its name, unique in the world: small letters, digits and hyphens.
    pub name: String,
    /// Its kind.
    pub kind: Kind,
    /// The end at the initiators' side, which begins the handshake.
    pub near: End<'w>,
    /// The end at the target's side.
    pub far: End<'w>,
    /// The longest IP packet on the path between the two outer addresses.
    pub outer_mtu_bytes: u32,
    /// What goes through it. Nothing else passes, whatever is routed into its devices.
    pub traffic: Vec<Traffic>,
}

/// One end of a tunnel.
#[derive(Debug, Clone, Copy)]
pub struct End<'w> {
    /// The router.
    pub router: &'w Node,
    /// Its outer address, which the other end reaches.
    pub address: Ipv4Addr,
}

/// Traffic of a tunnel, in both directions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// The addresses at the initiators' side.
    pub near: Ipv4Net,
    /// The addresses at the target's side.
    pub far: Ipv4Net,
    /// The TCP ports at the initiators' side; any protocol and port without them. IPsec tells two
    /// tunnels with the same addresses apart by them; WireGuard knows addresses only, and leaves
    /// ports to what is routed into its devices.
    pub near_ports: Option<RangeInclusive<u16>>,
}

/// The tunnels of a world and the programs that serve them. Dropping it ends these, and with them
/// their devices.
#[derive(Debug, Default)]
pub struct Tunnels {
    tunnels: Vec<TunnelFacts>,
    servers: Vec<Server>,
    meter: Meter,
}

/// The program that serves the tunnels of one kind at one router.
#[derive(Debug)]
struct Server {
    router: String,
    vpn: Vpn,
    /// What the program is.
    program: String,
    ciphers: Vec<&'static str>,
    /// The tunnels' devices at this router.
    devices: Vec<String>,
    process: Process,
}

/// Why there are no tunnels.
#[derive(Debug, thiserror::Error)]
pub enum VpnError {
    /// A program or plugin is not installed.
    #[error(
        "`vpn = \"ipsec\"` needs {}: install with `apt-get install {}`",
        missing.join(", "), missing.join(" ")
    )]
    PackagesMissing {
        /// The Debian packages that bring what is missing.
        missing: Vec<&'static str>,
    },
    /// No device can be made for packets that go into tunnels.
    #[error(
        "`vpn` needs /dev/net/tun: {source}; load the driver with `sudo modprobe tun`, and allow \
         reading and writing it (`sudo chmod 666 /dev/net/tun`, as udev does)"
    )]
    NoTun {
        /// Why it cannot be opened.
        source: std::io::Error,
    },
    /// The ends of a tunnel did not find each other.
    #[error("the tunnel `{tunnel}` between routers `{near}` and `{far}` did not come up: {reason}")]
    NotUp {
        /// The tunnel's name.
        tunnel: String,
        /// The router at its near end.
        near: String,
        /// The router at its far end.
        far: String,
        /// What its program says.
        reason: String,
    },
    /// Whoever asked for tunnels does not want them any more.
    #[error("interrupted")]
    Interrupted,
    /// A router's program could not be started or ended.
    #[error(transparent)]
    Program(#[from] ProcessError),
    /// A router's program said or answered something else than it should.
    #[error("{title}: {said}")]
    Refused {
        /// Which program.
        title: String,
        /// What it said, in one line.
        said: String,
    },
    /// The device could not be brought up.
    #[error(transparent)]
    World(#[from] WorldError),
    /// Random numbers for keys, or a look at a router's counters, failed.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried.
        action: String,
        /// Why.
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
    /// The kind of tunnel that a plan asks for; none when packets go as they are.
    ///
    /// # Errors
    /// In words, when there is a cipher to choose only for IPsec.
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

    /// Which VPN it is.
    #[must_use]
    pub const fn vpn(self) -> Vpn {
        match self {
            Kind::WireGuard => Vpn::WireGuard,
            Kind::Ipsec(_) => Vpn::Ipsec,
        }
    }

    /// The UDP port at both ends of the tunnel at that place among those of its VPN.
    pub(crate) const fn port(self, place: usize) -> u16 {
        match self {
            Kind::WireGuard => wireguard::port(place),
            Kind::Ipsec(_) => ipsec::PORT,
        }
    }

    /// How it lengthens packets.
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

    /// The longest packet that may go into such a tunnel when the outer path carries packets of at
    /// most so many bytes, so that no outer packet is fragmented.
    #[must_use]
    pub const fn mtu_bytes(self, outer_mtu_bytes: u32) -> u32 {
        match self {
            Kind::WireGuard => self.wrapping().inner_bytes(outer_mtu_bytes),
            Kind::Ipsec(cipher) => ipsec::mtu_bytes(cipher, outer_mtu_bytes),
        }
    }

    /// The longest packet that may go into such a tunnel in a world that has tunnels of `all` these
    /// kinds, itself among them: those of one VPN share devices, and with them the least of their
    /// lengths.
    #[must_use]
    pub fn shared_mtu_bytes(self, all: &[Kind], outer_mtu_bytes: u32) -> u32 {
        let alike = all.iter().filter(|other| other.vpn() == self.vpn());
        let each = alike.map(|other| other.mtu_bytes(outer_mtu_bytes));
        each.fold(self.mtu_bytes(outer_mtu_bytes), u32::min)
    }

    /// The facts of a tunnel of this kind, of which no more is known.
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

    /// How it encrypts.
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

/// Where programs make devices for packets that go into tunnels.
const TUN: &str = "/dev/net/tun";

/// Whether this machine has what tunnels of these kinds need.
///
/// # Errors
/// [`VpnError::PackagesMissing`] names all the packages that are missing; [`VpnError::NoTun`].
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
    /// Starts the programs of all routers, and gives the tunnels once both ends of each have
    /// shaken hands, which is waited for until `stop` is set. `program` is the `wansan` binary.
    ///
    /// # Errors
    /// [`VpnError`]; nothing is left of the tunnels then.
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

    /// The programs that serve them: router, name of the VPN, process id.
    pub fn programs(&self) -> impl Iterator<Item = (&str, &'static str, u32)> {
        let servers = self.servers.iter();
        servers.map(|server| (&server.router[..], server.vpn.name(), server.process.id()))
    }

    /// The tunnels, in the order in which they were asked for.
    #[must_use]
    pub fn tunnels(&self) -> &[TunnelFacts] {
        &self.tunnels
    }
}

/// The routers at which any of these tunnels ends, each once: first those that only answer, so that
/// they are there when the others begin.
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
