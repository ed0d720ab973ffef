//! IPsec between routers, by strongSwan: IKEv2 (RFC 7296) with a pre-shared key for each tunnel,
//! made for this run, and ESP in tunnel mode inside UDP (RFC 3948).
//!
//! ESP is done by charon itself (its plugin `kernel-libipsec`) and not by the kernel, whether the
//! kernel could or not: so runs on different machines are alike, and what encryption costs a router
//! is the processor time of one process, which the kernel's own ESP would hide in the time of
//! whoever happened to be running.
//!
//! Each charon has a mount namespace of its own with an empty `/run` and its own
//! `/etc/strongswan.conf`, so it meets no other charon and leaves no file. Keys go to it over its
//! control socket and are in no file at all.

mod vici;

use std::collections::BTreeSet;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ipnet::Ipv4Net;
use rustix::rand::{GetRandomFlags, getrandom};

use self::vici::{Client, Section};
use wansan_schema::TunnelFacts;
use wansan_sim::network::vpn::Wrapping;

use super::{Cipher, End, Kind, Server, Traffic, TunnelSpec, Vpn, VpnError, routers};
use crate::world::{Node, Process};

/// Where Debian has charon and its plugins.
const CHARON: &str = "usr/lib/ipsec/charon";
const PLUGINS: &str = "usr/lib/ipsec/plugins/libstrongswan-";
/// The plugins that are loaded, in this order, and the Debian packages that bring them.
const LOADED: [(&str, &str); 13] = [
    ("random", "libstrongswan"),
    ("nonce", "libstrongswan"),
    ("aesni", "libstrongswan-standard-plugins"),
    ("openssl", "libstrongswan-standard-plugins"),
    ("gcm", "libstrongswan-standard-plugins"),
    ("drbg", "libstrongswan"),
    ("hmac", "libstrongswan"),
    ("kdf", "libstrongswan"),
    ("sha1", "libstrongswan"),
    ("kernel-libipsec", "libcharon-extra-plugins"),
    ("kernel-netlink", "strongswan-libcharon"),
    ("socket-default", "strongswan-libcharon"),
    ("vici", "strongswan-swanctl"),
];
/// Given the configuration on standard input: hides this computer's own strongSwan
/// from charon, and charon from it. The mount namespace goes with charon. `$1` is charon.
const ENTER: &str = "set -e; mount -t tmpfs -o mode=0700,size=1m none /run; \
    cat >/run/strongswan.conf; mount --bind /run/strongswan.conf /etc/strongswan.conf; exec \"$1\"";
/// charon's control socket, of a name that no other charon's has, in the directory and with the
/// beginning that Debian's AppArmor profile of charon allows.
const CONTROL: &str = "/run/charon.wansan.vici";
/// How long a charon may take to start.
const READY_LIMIT: Duration = Duration::from_secs(20);
/// How long a handshake may take, whose messages are repeated when one is lost.
const UP_LIMIT: Duration = Duration::from_secs(60);
/// How often a starting charon is looked at.
const POLL: Duration = Duration::from_millis(10);
/// The program that gives charon a mount namespace; it has to be on the PATH.
const ENTERED_BY: &str = "unshare";
/// The device through which `kernel-libipsec` takes and gives packets; it has one per router.
const DEVICE: &str = "ipsec0";
/// The port of ESP in UDP at both ends (RFC 3948 §2.1).
pub(super) const PORT: u16 = 4500;
/// The longest packet that `kernel-libipsec` reads from its device.
const MAX_MTU_BYTES: u32 = 1400;
/// charon makes routes into its device by destination alone, in a table of its own. Its rule comes
/// after those of all other tables (32767 is the last), so they count for nothing.
const RULE: u32 = 40_000;
/// The handshake's own cipher, the same for all tunnels.
const IKE_PROPOSAL: &str = "aes128-sha256-ecp256";

/// Whether charon, its plugins and what it is started by are there. `root` is `/`, but for tests.
pub(super) fn check(root: &Path) -> Result<(), VpnError> {
    let mut missing = Vec::new();
    if !root.join(CHARON).exists() {
        missing.push("strongswan-charon");
    }
    for (plugin, package) in LOADED {
        let file = root.join(format!("{PLUGINS}{plugin}.so"));
        if !file.exists() && !missing.contains(&package) {
            missing.push(package);
        }
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |folder: PathBuf| {
        let folder = folder.strip_prefix("/").unwrap_or(&folder);
        root.join(folder).join(ENTERED_BY).exists()
    };
    if !std::env::split_paths(&path).any(is_there) {
        missing.push("util-linux");
    }
    if !missing.is_empty() {
        return Err(VpnError::PackagesMissing { missing });
    }
    Ok(())
}

/// Starts the charon of every router, and has all tunnels set up, unless `stop` is set before.
pub(super) fn start(specs: &[&TunnelSpec<'_>], stop: &AtomicBool) -> Result<Vec<Server>, VpnError> {
    if specs.is_empty() {
        return Ok(Vec::new());
    }
    let secrets: Vec<String> = specs.iter().map(|_| secret()).collect::<Result<_, _>>()?;
    let mtu_bytes = device_mtu_bytes(specs);
    let mut servers = Vec::new();
    for router in routers(specs) {
        for address in stand_ins(router, specs) {
            router.add_address(address)?;
        }
        let (mut process, mut client) = charon(router, stop)?;
        let version = client
            .ask("version", &Section::default())
            .map_err(|source| said(router, &mut process, &source))?;
        let version = version.get("version").unwrap_or_default();
        let mut ciphers = Vec::new();
        for (spec, secret) in specs.iter().zip(&secrets) {
            for (here, there, near) in [(spec.near, spec.far, true), (spec.far, spec.near, false)] {
                if here.router.name() == router.name() {
                    configure(&mut client, spec, here, there, near, secret)
                        .map_err(|source| said(router, &mut process, &source))?;
                    ciphers.push(spec.kind.cipher_name());
                }
            }
        }
        router.bring_up_device(DEVICE, mtu_bytes)?;
        ciphers.sort_unstable();
        ciphers.dedup();
        let server = Server {
            router: router.name().to_owned(),
            vpn: Vpn::Ipsec,
            program: format!("strongSwan {version} with kernel-libipsec"),
            ciphers,
            devices: vec![DEVICE.to_owned()],
            process,
        };
        servers.push((router, server, client));
    }
    for spec in specs {
        let (router, server, client) = servers
            .iter_mut()
            .find(|(router, ..)| router.name() == spec.near.router.name())
            .expect("every router has a server");
        let ask = Section::default()
            .text("child", &spec.name)
            .text("ike", &spec.name)
            .text("timeout", UP_LIMIT.as_millis().to_string());
        match client.ask_unless(stop, "initiate", &ask) {
            Ok(Some(_)) => {}
            Ok(None) => return Err(VpnError::Interrupted),
            Err(source) => {
                return Err(match said(router, &mut server.process, &source) {
                    VpnError::Refused { said, .. } => spec.is_not_up(said),
                    ended => ended,
                });
            }
        }
    }
    for (router, ..) in &servers {
        for address in stand_ins(router, specs) {
            router.give_up_delivery(address)?;
        }
    }
    Ok(servers.into_iter().map(|(_, server, _)| server).collect())
}

/// Addresses that a router has to have for `kernel-libipsec`, which insists on an own one among
/// those on its side of each tunnel. They are hosts' that the router forwards for, so once the
/// tunnels are up, the router must give up taking what comes for them.
fn stand_ins(router: &Node, specs: &[&TunnelSpec<'_>]) -> Vec<Ipv4Addr> {
    let is_here = |end: End<'_>| end.router.name() == router.name();
    let ends = specs.iter().flat_map(|spec| {
        let near = spec.traffic.iter().map(|traffic| traffic.near);
        let far = spec.traffic.iter().map(|traffic| traffic.far);
        let near = near.filter(move |_| is_here(spec.near));
        near.chain(far.filter(move |_| is_here(spec.far)))
    });
    let has_own = |net: &Ipv4Net| {
        let mut own = router.interfaces().iter();
        own.any(|interface| net.contains(&interface.address))
    };
    let mut addresses: Vec<Ipv4Addr> = ends
        .filter(|net| !has_own(net))
        .map(|net| net.network())
        .collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// The tunnels as they will be.
pub(super) fn tunnels(specs: &[&TunnelSpec<'_>]) -> Vec<TunnelFacts> {
    let mtu_bytes = device_mtu_bytes(specs);
    let tunnel = |spec: &&TunnelSpec<'_>| TunnelFacts {
        near_device: DEVICE.to_owned(),
        far_device: DEVICE.to_owned(),
        mtu_bytes,
        overhead_bytes: wrapping(cipher(spec)).outer_bytes(mtu_bytes) - mtu_bytes,
        ..spec.kind.facts(&spec.name)
    };
    specs.iter().map(tunnel).collect()
}

/// The longest packet that may go into any of the tunnels: they share devices.
fn device_mtu_bytes(specs: &[&TunnelSpec<'_>]) -> u32 {
    let kinds: Vec<Kind> = specs.iter().map(|spec| spec.kind).collect();
    let each = specs
        .iter()
        .map(|spec| spec.kind.shared_mtu_bytes(&kinds, spec.outer_mtu_bytes));
    each.min().unwrap_or(MAX_MTU_BYTES)
}

/// How ESP lengthens packets.
pub(super) const fn wrapping(cipher: Cipher) -> Wrapping {
    Esp::of(cipher).wrapping()
}

/// The longest packet that may go into a tunnel.
pub(super) const fn mtu_bytes(cipher: Cipher, outer_mtu_bytes: u32) -> u32 {
    let fitting = wrapping(cipher).inner_bytes(outer_mtu_bytes);
    if fitting < MAX_MTU_BYTES {
        fitting
    } else {
        MAX_MTU_BYTES
    }
}

fn cipher(spec: &TunnelSpec<'_>) -> Cipher {
    match spec.kind {
        Kind::Ipsec(cipher) => cipher,
        Kind::WireGuard => unreachable!("only IPsec tunnels come here"),
    }
}

/// A cipher suite of ESP.
#[derive(Debug, Clone, Copy)]
struct Esp {
    /// The proposal, as strongSwan writes it.
    proposal: &'static str,
    /// The initialization vector.
    vector_bytes: u32,
    /// What is encrypted is a multiple of this.
    block_bytes: u32,
    /// The integrity check value.
    check_bytes: u32,
}

impl Esp {
    const fn of(cipher: Cipher) -> Esp {
        let (proposal, vector_bytes, block_bytes, check_bytes) = match cipher {
            Cipher::AesGcm => ("aes128gcm16", 8, 4, 16),
            Cipher::AesCbc => ("aes128-sha256", 16, 16, 16),
            Cipher::TripleDes => ("3des-sha1", 8, 8, 12),
        };
        Esp {
            proposal,
            vector_bytes,
            block_bytes,
            check_bytes,
        }
    }

    const fn wrapping(self) -> Wrapping {
        Wrapping {
            // Outer IPv4 header, UDP header, SPI and sequence number.
            around_bytes: 20 + 8 + 8 + self.vector_bytes + self.check_bytes,
            // Pad length and next header.
            trailer_bytes: 2,
            block_bytes: self.block_bytes,
        }
    }
}

/// A pre-shared key: 256 random bits, in hexadecimal digits as charon takes them.
fn secret() -> Result<String, VpnError> {
    let mut random = [0; 32];
    let mut filled = 0;
    while filled < random.len() {
        filled += getrandom(&mut random[filled..], GetRandomFlags::empty()).map_err(|errno| {
            VpnError::System {
                action: "make keys".to_owned(),
                source: errno.into(),
            }
        })?;
    }
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Starts a router's charon, and connects to its control socket.
fn charon(router: &Node, stop: &AtomicBool) -> Result<(Process, Client), VpnError> {
    let title = title(router);
    let mut command = Command::new(ENTERED_BY);
    command.args(["--mount", "sh", "-c", ENTER, "sh"]);
    command.arg(Path::new("/").join(CHARON));
    let mut process = router.start_fed(&title, command, configuration().into_bytes())?;
    // The process has the same id throughout: each program gives way to the next.
    let control = format!("/proc/{}/root{CONTROL}", process.id());
    let deadline = Instant::now() + READY_LIMIT;
    let stream = loop {
        match UnixStream::connect(&control) {
            Ok(stream) => break stream,
            Err(_) if stop.load(Ordering::Relaxed) => return Err(VpnError::Interrupted),
            Err(_) if process.is_running()? && Instant::now() < deadline => thread::sleep(POLL),
            Err(source) => return Err(said(router, &mut process, &source)),
        }
    };
    let limit = Some(UP_LIMIT + READY_LIMIT);
    stream
        .set_read_timeout(limit)
        .and_then(|()| stream.set_write_timeout(limit))
        .map_err(|source| said(router, &mut process, &source))?;
    Ok((process, Client::new(stream)))
}

fn title(router: &Node) -> String {
    format!("the charon of router `{}`", router.name())
}

/// charon's configuration file.
fn configuration() -> String {
    let plugins: Vec<&str> = LOADED.iter().map(|(plugin, _)| *plugin).collect();
    format!(
        "charon {{\n\
           load_modular = no\n\
           load = {}\n\
           routing_table_prio = {RULE}\n\
           install_virtual_ip = no\n\
           retransmit_timeout = 1\n\
           plugins {{\n\
             kernel-libipsec {{ allow_peer_ts = yes }}\n\
             vici {{ socket = unix://{CONTROL} }}\n\
           }}\n\
           filelog {{ stderr {{ default = 0 }} }}\n\
           syslog {{ daemon {{ default = -1 }} \n auth {{ default = -1 }} }}\n\
         }}\n",
        plugins.join(" ")
    )
}

/// Tells a router's charon of its end of a tunnel, and the key that it shares with the other end.
fn configure(
    client: &mut Client,
    spec: &TunnelSpec<'_>,
    here: End<'_>,
    there: End<'_>,
    near: bool,
    secret: &str,
) -> io::Result<()> {
    let (mine, theirs) = if near {
        ("near", "far")
    } else {
        ("far", "near")
    };
    // The names of the ends say which tunnel is meant, also between the same two routers.
    let id = |end: &str| format!("@{end}.{}", spec.name);
    let shared = Section::default()
        .text("id", &spec.name)
        .text("type", "IKE")
        .text("data", secret)
        .list("owners", [id(mine), id(theirs)]);
    client.ask("load-shared", &shared)?;
    let selectors = |of_near: bool| -> BTreeSet<String> {
        let selector = |traffic: &Traffic| {
            let net = if of_near { traffic.near } else { traffic.far };
            match &traffic.near_ports {
                Some(ports) if of_near => {
                    format!("{net}[tcp/{}-{}]", ports.start(), ports.end())
                }
                Some(_) => format!("{net}[tcp]"),
                None => net.to_string(),
            }
        };
        spec.traffic.iter().map(selector).collect()
    };
    let child = Section::default()
        .text("mode", "tunnel")
        .list("esp_proposals", [Esp::of(cipher(spec)).proposal])
        .list("local_ts", selectors(near))
        .list("remote_ts", selectors(!near));
    let end = |id: String| Section::default().text("auth", "psk").text("id", id);
    let connection = Section::default()
        .text("version", "2")
        // ESP in UDP is all that `kernel-libipsec` can.
        .text("encap", "yes")
        // Addresses stay where they are, whatever else changes in the router.
        .text("mobike", "no")
        .list("local_addrs", [here.address.to_string()])
        .list("remote_addrs", [there.address.to_string()])
        .list("proposals", [IKE_PROPOSAL])
        .section("local", end(id(mine)))
        .section("remote", end(id(theirs)))
        .section("children", Section::default().section(&spec.name, child));
    let load = Section::default().section(&spec.name, connection);
    client.ask("load-conn", &load).map(drop)
}

/// What charon says against something; when it has ended, why it did.
fn said(router: &Node, process: &mut Process, source: &io::Error) -> VpnError {
    if let Err(ended @ crate::world::ProcessError::Ended { .. }) =
        process.line("serve", Duration::from_millis(200))
    {
        return ended.into();
    }
    VpnError::Refused {
        title: title(router),
        said: source.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_outer_packet_is_longer_than_the_path_carries() {
        for cipher in [Cipher::AesGcm, Cipher::AesCbc, Cipher::TripleDes] {
            for outer in 576..=1500 {
                let inner = mtu_bytes(cipher, outer);
                let wrapping = wrapping(cipher);
                assert!(wrapping.outer_bytes(inner) <= outer, "{cipher:?} {outer}");
                let as_long_as_can_be = wrapping.outer_bytes(inner + 1) > outer;
                assert!(as_long_as_can_be || inner == MAX_MTU_BYTES);
            }
        }
    }

    /// An acknowledgement and the longest packet: RFC 4303 §2 in RFC 3948's UDP, with RFC 4106's vector of 8 bytes and
    /// tag of 16, RFC 3602's vector of 16 with RFC 4868's 16, and RFC 2451's 8 with RFC 2404's 12.
    #[test]
    fn outer_packets_are_as_long_as_the_ciphers_make_them() {
        for (cipher, short, long) in [
            (Cipher::AesGcm, 116, 1464),
            (Cipher::AesCbc, 132, 1476),
            (Cipher::TripleDes, 112, 1464),
        ] {
            let outer = [52, 1400].map(|inner| wrapping(cipher).outer_bytes(inner));
            assert_eq!(outer, [short, long], "{cipher:?}");
        }
    }

    #[test]
    fn missing_packages_are_named_in_one_line_with_the_command() {
        let root = tempfile::tempdir().unwrap();
        let error = check(root.path()).unwrap_err().to_string();
        assert!(!error.contains('\n'), "{error}");
        for package in [
            "util-linux",
            "strongswan-charon",
            "libcharon-extra-plugins",
            "strongswan-swanctl",
        ] {
            assert_eq!(error.matches(package).count(), 2, "{error}");
        }
        assert!(
            error.contains("apt-get install strongswan-charon "),
            "{error}"
        );

        let mut files = vec![CHARON.to_owned()];
        let plugin = |(plugin, _): &(&str, &str)| format!("{PLUGINS}{plugin}.so");
        files.extend(LOADED.iter().map(plugin));
        let path = std::env::var("PATH").unwrap();
        let folder = path.split(':').find(|folder| folder.starts_with('/'));
        files.push(format!(
            "{}/unshare",
            folder.unwrap().trim_start_matches('/')
        ));
        for file in files {
            let file = root.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, "").unwrap();
        }
        check(root.path()).unwrap();
    }
}
