//! IPsec between routers with strongSwan: IKEv2 (RFC 7296) with a pre-shared key per tunnel, generated for the run, and
//! ESP in tunnel mode, encapsulated in UDP (RFC 3948).
//!
//! ESP is done by charon itself (its plugin `kernel-libipsec`), even if the kernel supports it: this makes runs on
//! different machines comparable, and the cost of encryption is the processor time of one process, while the kernel's
//! ESP would be charged to whatever process is running.
//!
//! Each charon has its own mount namespace with an empty `/run` and its own `/etc/strongswan.conf`, so that it neither
//! interferes with another charon nor leaves files. Keys are passed over its control socket and are never in a file.

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

/// Debian's paths of charon and its plugins.
const CHARON: &str = "usr/lib/ipsec/charon";
const PLUGINS: &str = "usr/lib/ipsec/plugins/libstrongswan-";
/// The plugins to load, in this order, and their Debian packages.
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
/// Reads the configuration from standard input; hides this computer's own strongSwan from charon, and vice versa. The
/// mount namespace ends with charon. `$1` is charon.
const ENTER: &str = "set -e; mount -t tmpfs -o mode=0700,size=1m none /run; \
    cat >/run/strongswan.conf; mount --bind /run/strongswan.conf /etc/strongswan.conf; exec \"$1\"";
/// charon's control socket, with a unique name in the directory and with the prefix that Debian's AppArmor profile of
/// charon permits.
const CONTROL: &str = "/run/charon.wansan.vici";
/// Timeout for charon's start.
const READY_LIMIT: Duration = Duration::from_secs(20);
/// Timeout for a handshake, whose lost messages are retransmitted.
const UP_LIMIT: Duration = Duration::from_secs(60);
/// Poll interval while charon starts.
const POLL: Duration = Duration::from_millis(10);
/// The program that creates charon's mount namespace; it has to be on the PATH.
const ENTERED_BY: &str = "unshare";
/// The TUN device of `kernel-libipsec`, one per router.
const DEVICE: &str = "ipsec0";
/// The UDP port of ESP at both ends (RFC 3948 §2.1).
pub(super) const PORT: u16 = 4500;
/// Largest packet that `kernel-libipsec` reads from its device.
const MAX_MTU_BYTES: u32 = 1400;
/// charon adds routes into its device by destination only, in its own table. Its rule follows those of all other tables
/// (32767 is the last), so they have no effect.
const RULE: u32 = 40_000;
/// IKE's own proposal, the same for all tunnels.
const IKE_PROPOSAL: &str = "aes128-sha256-ecp256";

/// Checks that charon, its plugins and the programs to start it are installed. `root` is `/` except in tests.
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

/// Starts every router's charon, and sets up all tunnels, unless `stop` is set first.
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

/// Addresses that a router needs for `kernel-libipsec`, which requires one of its own on its side of each tunnel. They
/// belong to hosts behind the router, so local delivery to them must be removed once the tunnels are up.
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

/// The facts of the tunnels to be set up.
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

/// The MTU common to the tunnels, which share devices.
fn device_mtu_bytes(specs: &[&TunnelSpec<'_>]) -> u32 {
    let kinds: Vec<Kind> = specs.iter().map(|spec| spec.kind).collect();
    let each = specs
        .iter()
        .map(|spec| spec.kind.shared_mtu_bytes(&kinds, spec.outer_mtu_bytes));
    each.min().unwrap_or(MAX_MTU_BYTES)
}

/// Encapsulation overhead of ESP.
pub(super) const fn wrapping(cipher: Cipher) -> Wrapping {
    Esp::of(cipher).wrapping()
}

/// MTU of a tunnel.
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
    /// The proposal in strongSwan's syntax.
    proposal: &'static str,
    /// Length of the initialization vector.
    vector_bytes: u32,
    /// Block size for padding.
    block_bytes: u32,
    /// Length of the integrity check value.
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

/// A pre-shared key: 256 random bits, in hexadecimal as charon expects.
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
    // Each program execs the next, so the process ID stays the same.
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

/// Configures a router's charon for its end of a tunnel, with the key shared with the other end.
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
    // The identities include the tunnel's name, to distinguish tunnels between the same two routers.
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
        // `kernel-libipsec` supports only ESP in UDP.
        .text("encap", "yes")
        // Addresses stay fixed, whatever else changes on the router.
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

/// charon's error; if it has exited, the reason.
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

    /// An acknowledgement and the longest packet: RFC 4303 §2 in RFC 3948's UDP, with RFC 4106's IV of 8 bytes and ICV
    /// of 16, RFC 3602's IV of 16 with RFC 4868's ICV of 16, and RFC 2451's IV of 8 with RFC 2404's ICV of 12.
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
