//! WireGuard between routers, with `wansan`'s own program on each.

use std::net::SocketAddrV4;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use wansan_schema::TunnelFacts;
use wansan_wireguard::{Config, Event, Key, OVERHEAD_BYTES, TunnelConfig};

use super::{End, Kind, Server, Traffic, TunnelSpec, Vpn, VpnError, routers};
use crate::world::{Node, Process, ProcessError};

/// Timeout for a router to create its devices.
const READY_LIMIT: Duration = Duration::from_secs(20);
/// Timeout for handshakes, which are retried every 5 s.
const UP_LIMIT: Duration = Duration::from_secs(60);
/// WireGuard's usual port; a router's tunnels use it and the following ones.
const FIRST_PORT: u16 = 51_820;

/// Starts every router's program and waits until all tunnels are up, or `stop` is set.
pub(super) fn start(
    program: &Path,
    specs: &[&TunnelSpec<'_>],
    stop: &AtomicBool,
) -> Result<Vec<Server>, VpnError> {
    let pairs = keys(specs)?;
    let tunnels = tunnels(specs);
    let mut servers = Vec::new();
    for router in routers(specs) {
        let config = config(router, specs, &pairs);
        let title = format!("the WireGuard of router `{}`", router.name());
        let mut command = Command::new(program);
        command.arg("wireguard");
        let input = serde_json::to_vec(&config).expect("a config is plain data");
        let mut process = router.start_fed(&title, command, input)?;
        match event(&title, &mut process, stop, "make its devices", READY_LIMIT)? {
            Event::Ready => {}
            other => return Err(unexpected(&title, &other)),
        }
        let mut devices = Vec::new();
        for tunnel in &tunnels {
            if config
                .tunnels
                .iter()
                .any(|end| end.device == tunnel.near_device)
            {
                router.bring_up_device(&tunnel.near_device, tunnel.mtu_bytes)?;
                devices.push(tunnel.near_device.clone());
            }
        }
        servers.push(Server {
            router: router.name().to_owned(),
            vpn: Vpn::WireGuard,
            program: "wansan with boringtun".to_owned(),
            ciphers: vec![Kind::WireGuard.cipher_name()],
            devices,
            process,
        });
    }
    for server in &mut servers {
        let title = format!("the WireGuard of router `{}`", server.router);
        let mut awaited = server.devices.clone();
        while let Some(device) = awaited.first() {
            match event(&title, &mut server.process, stop, "shake hands", UP_LIMIT) {
                Ok(Event::Up { device }) => awaited.retain(|other| *other != device),
                Ok(other) => return Err(unexpected(&title, &other)),
                Err(VpnError::Program(ProcessError::TooLong { limit, .. })) => {
                    let alike = specs.iter().zip(&tunnels);
                    let mut late = alike.filter(|(_, tunnel)| tunnel.near_device == *device);
                    let (spec, _) = late.next().expect("the device of a tunnel");
                    let reason = format!("no handshake within {} s", limit.as_secs());
                    return Err(spec.is_not_up(reason));
                }
                Err(other) => return Err(other),
            }
        }
    }
    Ok(servers)
}

/// The facts of the tunnels to be set up.
pub(super) fn tunnels(specs: &[&TunnelSpec<'_>]) -> Vec<TunnelFacts> {
    let tunnel = |(place, spec): (usize, &&TunnelSpec<'_>)| TunnelFacts {
        near_device: device(place),
        far_device: device(place),
        mtu_bytes: spec.kind.mtu_bytes(spec.outer_mtu_bytes),
        overhead_bytes: OVERHEAD_BYTES,
        ..spec.kind.facts(&spec.name)
    };
    specs.iter().enumerate().map(tunnel).collect()
}

/// The port of both ends of the tunnel with that index.
pub(super) const fn port(place: usize) -> u16 {
    FIRST_PORT + place as u16
}

fn device(place: usize) -> String {
    format!("vpn{place}")
}

/// The keys of a tunnel, kept only until they are passed on.
struct Keys {
    near: Key,
    far: Key,
    shared: Key,
}

fn keys(specs: &[&TunnelSpec<'_>]) -> Result<Vec<Keys>, VpnError> {
    let random = || {
        Key::random().map_err(|source| VpnError::System {
            action: "make keys".to_owned(),
            source,
        })
    };
    specs
        .iter()
        .map(|_| {
            Ok(Keys {
                near: random()?,
                far: random()?,
                shared: random()?,
            })
        })
        .collect()
}

/// A router's configuration: all its tunnel ends.
fn config(router: &Node, specs: &[&TunnelSpec<'_>], pairs: &[Keys]) -> Config {
    let mut tunnels = Vec::new();
    for (place, (spec, keys)) in specs.iter().zip(pairs).enumerate() {
        let port = port(place);
        let outer = |end: End<'_>| SocketAddrV4::new(end.address, port);
        let mut end = |here: End<'_>, there: End<'_>, own: &Key, other: &Key, initiates: bool| {
            if here.router.name() == router.name() {
                let theirs = |traffic: &Traffic| {
                    if initiates { traffic.far } else { traffic.near }
                };
                tunnels.push(TunnelConfig {
                    device: device(place),
                    local: outer(here),
                    peer: outer(there),
                    private_key: own.clone(),
                    peer_public_key: other.public(),
                    preshared_key: keys.shared.clone(),
                    allowed: spec.traffic.iter().map(theirs).collect(),
                    initiates,
                });
            }
        };
        end(spec.near, spec.far, &keys.near, &keys.far, true);
        end(spec.far, spec.near, &keys.far, &keys.near, false);
    }
    Config { tunnels }
}

fn event(
    title: &str,
    process: &mut Process,
    stop: &AtomicBool,
    awaited: &'static str,
    limit: Duration,
) -> Result<Event, VpnError> {
    let line = process.line_unless(stop, awaited, limit)?;
    let line = line.ok_or(VpnError::Interrupted)?;
    serde_json::from_str(&line).map_err(|_| VpnError::Refused {
        title: title.to_owned(),
        said: format!("printed `{line}` instead of an event"),
    })
}

fn unexpected(title: &str, event: &Event) -> VpnError {
    VpnError::Refused {
        title: title.to_owned(),
        said: format!("{event:?} is out of order"),
    }
}
