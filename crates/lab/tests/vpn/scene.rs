//! client ── near ══ spy ══ far ── storage: hosts, routers, and wires between them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::ops::RangeInclusive;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
use wansan_lab::vpn::{End, Kind, Traffic, TunnelSpec, Tunnels, VpnError};
use wansan_lab::world::{
    Hop, IpRoute, Medium, NetworkSpec, Node, NodeSpec, Role, TcpSettings, Topology, World,
};

use crate::spy::{Seen, Spy};

pub(crate) const FIRST_PORTS: RangeInclusive<u16> = 20_000..=20_255;
pub(crate) const OTHER_PORTS: RangeInclusive<u16> = 20_256..=20_511;
/// Port of the storage host.
const FAR_PORT: u16 = 3260;
/// The pattern that the client sends repeatedly.
const PATTERN: &[u8] = b"plain text that anybody on the way could read; ";
pub(crate) const TRANSFER_BYTES: usize = 2 << 20;

const MAIN_TABLE: u32 = 254;
const MTU_BYTES: u32 = 1500;
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 82, 0, 1);
const STORAGE: Ipv4Addr = Ipv4Addr::new(10, 82, 0, 5);
/// Network `n` joins nodes `n` and `n + 1`.
const NODES: [&str; 5] = ["client", "near", "spy", "far", "storage"];
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Scene {
    world: World,
}

impl Scene {
    pub(crate) fn build() -> Result<Scene, String> {
        let tcp = TcpSettings {
            congestion_control: "reno".to_owned(),
            rmem_bytes: [4096, 131_072, 6_291_456],
            wmem_bytes: [4096, 16_384, 4_194_304],
            ecn: false,
        };
        let outer = |network, node| Topology::address(network, node);
        let by = |destination, network, node| IpRoute {
            destination,
            table: MAIN_TABLE,
            hop: Hop::Neighbour { network, node },
            source: None,
            mtu_bytes: None,
        };
        let nodes = NODES.iter().enumerate().map(|(place, name)| NodeSpec {
            name: (*name).to_owned(),
            role: match place {
                0 | 4 => Role::Host,
                _ => Role::Router,
            },
            tcp: tcp.clone(),
            addresses: match place {
                0 => vec![CLIENT],
                4 => vec![STORAGE],
                _ => Vec::new(),
            },
            routes: match place {
                0 => vec![IpRoute {
                    source: Some(CLIENT),
                    ..by(STORAGE, 0, 1)
                }],
                1 => vec![by(CLIENT, 0, 0), by(outer(2, 3), 1, 2)],
                2 => vec![by(CLIENT, 1, 1), by(STORAGE, 2, 3)],
                3 => vec![by(STORAGE, 3, 4), by(outer(1, 1), 2, 2)],
                _ => vec![IpRoute {
                    source: Some(STORAGE),
                    ..by(CLIENT, 3, 3)
                }],
            },
            rules: Vec::new(),
        });
        let networks = (0..NODES.len() - 1).map(|place| NetworkSpec {
            members: vec![place, place + 1],
            medium: Medium::Wire,
        });
        let topology = Topology {
            nodes: nodes.collect(),
            networks: networks.collect(),
            mtu_bytes: MTU_BYTES,
        };
        let world = World::build(&topology).map_err(|error| error.to_string())?;
        Ok(Scene { world })
    }

    fn node(&self, name: &str) -> &Node {
        self.world.node(name).expect("the scene has it")
    }

    /// Starts tunnels between the near and the far router, each with its name and ports, and routes all traffic into
    /// their devices.
    pub(crate) fn tunnels(
        &self,
        kind: Kind,
        tunnels: &[(&str, Option<RangeInclusive<u16>>)],
    ) -> Result<Tunnels, String> {
        let go_on = AtomicBool::new(false);
        let tunnels = self.start(kind, tunnels, &go_on);
        let tunnels = tunnels.map_err(|error| error.to_string())?;
        let tunnel = &tunnels.tunnels()[0];
        for (router, destination, device) in [
            ("near", STORAGE, &tunnel.near_device),
            ("far", CLIENT, &tunnel.far_device),
        ] {
            lead(self.node(router), destination, Hop::Device(device.clone()))?;
        }
        Ok(tunnels)
    }

    /// Starts tunnels like [`Scene::tunnels`], until `stop` is set.
    pub(crate) fn start(
        &self,
        kind: Kind,
        tunnels: &[(&str, Option<RangeInclusive<u16>>)],
        stop: &AtomicBool,
    ) -> Result<Tunnels, VpnError> {
        let (near, far) = (self.node("near"), self.node("far"));
        let specs: Vec<TunnelSpec<'_>> = tunnels
            .iter()
            .map(|(name, near_ports)| TunnelSpec {
                name: (*name).to_owned(),
                kind,
                near: End {
                    router: near,
                    address: Topology::address(1, 1),
                },
                far: End {
                    router: far,
                    address: Topology::address(2, 3),
                },
                outer_mtu_bytes: MTU_BYTES,
                traffic: vec![Traffic {
                    near: CLIENT.into(),
                    far: STORAGE.into(),
                    near_ports: near_ports.clone(),
                }],
            })
            .collect();
        let program = std::env::current_exe().expect("this program has a file");
        Tunnels::start(&program, &specs, stop)
    }

    /// Misroutes what the near router sends to the far one.
    pub(crate) fn cut(&self) -> Result<(), String> {
        let loopback = Hop::Device("lo".to_owned());
        lead(self.node("near"), Topology::address(2, 3), loopback)
    }

    /// Routes all traffic outside the tunnels.
    pub(crate) fn lead_around_tunnels(&self) -> Result<(), String> {
        let by_spy = |network| Hop::Neighbour { network, node: 2 };
        lead(self.node("near"), STORAGE, by_spy(1))?;
        lead(self.node("far"), CLIENT, by_spy(2))
    }

    /// What the spy sees during `job`.
    pub(crate) fn spied(&self, job: impl FnOnce() -> Result<(), String>) -> Result<Seen, String> {
        let spy = self.node("spy").namespace().run(|| Spy::begin(PATTERN));
        let spy = spy.map_err(|error| format!("cannot spy: {error}"))?;
        let done = job();
        let seen = spy.end();
        done.map_err(|error| format!("{error}; {seen:?}"))?;
        Ok(seen)
    }

    /// Sends from that port of the client, and checks that the storage host receives everything.
    pub(crate) fn transfer(&self, port: u16) -> Result<(), String> {
        let text = |error: std::io::Error| error.to_string();
        let listening = self.node("storage").namespace().run(|| {
            let listener = TcpListener::bind((STORAGE, FAR_PORT))?;
            Ok::<_, std::io::Error>(std::thread::spawn(move || receive(&listener)))
        });
        let receiver = listening.map_err(text)?;
        let mut stream = self.connect(port, PATIENCE).map_err(text)?;
        stream.set_write_timeout(Some(PATIENCE)).map_err(text)?;
        let sent: Vec<u8> = PATTERN
            .iter()
            .copied()
            .cycle()
            .take(TRANSFER_BYTES)
            .collect();
        stream.write_all(&sent).map_err(text)?;
        drop(stream);
        let received = receiver.join().expect("it does not panic").map_err(text)?;
        if received == sent {
            Ok(())
        } else {
            Err(format!("{} of {} bytes came", received.len(), sent.len()))
        }
    }

    /// Connects from that port of the client to the storage host.
    pub(crate) fn connect(&self, port: u16, patience: Duration) -> std::io::Result<TcpStream> {
        self.node("client").namespace().run(move || {
            let stream = socket(AddressFamily::INET, SocketType::STREAM, None)?;
            sockopt::set_socket_reuseaddr(&stream, true)?;
            // It applies to connect(2) too.
            let patience = Some(patience);
            sockopt::set_socket_timeout(&stream, sockopt::Timeout::Send, patience)?;
            bind(&stream, &SocketAddrV4::new(CLIENT, port))?;
            connect(&stream, &SocketAddrV4::new(STORAGE, FAR_PORT))?;
            Ok(TcpStream::from(stream))
        })
    }
}

fn receive(listener: &TcpListener) -> std::io::Result<Vec<u8>> {
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut received = Vec::new();
    stream.read_to_end(&mut received)?;
    Ok(received)
}

fn lead(node: &Node, destination: Ipv4Addr, hop: Hop) -> Result<(), String> {
    let route = IpRoute {
        destination,
        table: MAIN_TABLE,
        hop,
        source: None,
        mtu_bytes: None,
    };
    node.set_route(&route).map_err(|error| error.to_string())
}
