//! Nodes in a line, each in a network namespace, and what leads from each to the next: an emulated path,
//! or a wire.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use wansan_lab::emulator::{Config, Direction, Emulator, Port, Route, Statistics};
use wansan_lab::world::{Medium, Namespace, NetworkSpec, TcpSettings, Topology, World};
use wansan_path::Effects;
use wansan_relay::{Law, ListenerConfig, ProcessSettings, Relay, RelayFile, RelaySettings};
use wansan_settings::quantity::{Size, SomeTime};
use wansan_settings::{Text, usual};
use wansan_trace::{Kinds, Recorder};

/// Where targets listen.
pub(crate) const PORT: u16 = 3260;

/// It stops and is gone when dropped.
pub(crate) struct LinearTopology {
    world: World,
    emulator: Emulator,
}

impl LinearTopology {
    /// A relay at node 1 whose flows may hold so many bytes, and the target at node 2 that its listener, once
    /// it is changed, leads to.
    pub(crate) fn relay(
        &self,
        memory: Size,
        change: impl FnOnce(&mut ListenerConfig),
    ) -> Result<(Relay, TcpListener), String> {
        let to = (LinearTopology::address(1, 2), PORT);
        let target = self.node(2).run(move || TcpListener::bind(to));
        let mut listener = ListenerConfig::new(
            &format!("{}:0", LinearTopology::address(0, 1)),
            &format!("{}:{PORT}", to.0),
        );
        change(&mut listener);
        let settings = RelaySettings {
            file: RelayFile {
                listener: vec![listener],
            },
            process: ProcessSettings {
                threads: Some(1),
                flows: 100,
                memory,
                ..usual()
            },
        };
        let report: fn(&str) = |line| eprintln!("relay: {line}");
        let relay = self.node(1).run(move || Relay::start(&settings, report));
        Ok((relay.map_err(text)?, target.map_err(text)?))
    }

    /// The same, with a backlog that is held to `latency` by arrival, which asks the target, or its clients.
    pub(crate) fn arrival(
        &self,
        latency: Duration,
        asks_target: bool,
    ) -> Result<(Relay, TcpListener), String> {
        self.relay(Size(16 << 20), |listener| {
            listener.flow.law = Some(Text(Law::Arrival));
            listener.flow.latency = Some(SomeTime(latency));
            if asks_target {
                listener.flow.r#in.congestion_control = Some("cubic".to_owned());
                listener.flow.out.congestion_control = Some("reno".to_owned());
            }
        })
    }

    /// Network `n` joins node `n` to the next one: by a path that has these effects both ways, or by a
    /// wire where there are none. Senders are of Reno, and buffers as large as they may grow.
    pub(crate) fn build(
        names: &[&str],
        networks: &[Option<Effects>],
        ecn: bool,
    ) -> Result<LinearTopology, String> {
        let tcp = TcpSettings {
            congestion_control: "reno".to_owned(),
            rmem_bytes: [4_096, 131_072, 33_554_432],
            wmem_bytes: [4_096, 16_384, 16_777_216],
            ecn,
        };
        let mut topology = Topology::flat(names, &tcp, 1500);
        let spec = |(network, effects): (usize, &Option<Effects>)| NetworkSpec {
            members: vec![network, network + 1],
            medium: match effects {
                Some(_) => Medium::Emulator,
                None => Medium::Wire,
            },
        };
        topology.networks = networks.iter().enumerate().map(spec).collect();
        let world = World::build(&topology).map_err(text)?;
        let nodes = 0..names.len();
        // A wire ends at no emulator.
        let ends = nodes.flat_map(|node| [node.checked_sub(1), Some(node)].map(|way| (node, way)));
        let port = |(node, network): (usize, Option<usize>)| {
            let interface = world.nodes()[node].interface(network?)?;
            Some((node, network?, interface.port()?))
        };
        let ports: Vec<_> = ends.filter_map(port).collect();
        let mut directions = Vec::new();
        let mut routes = Vec::new();
        for (network, effects) in networks.iter().enumerate() {
            let Some(effects) = effects else { continue };
            let end = |node| {
                let is_it = |(at, of, _): &(usize, usize, Port)| (*at, *of) == (node, network);
                ports.iter().position(is_it).ok_or("a node has no port")
            };
            let ends = [end(network)?, end(network + 1)?];
            for [from, to] in [[0, 1], [1, 0]] {
                routes.push(Route {
                    from: ends[from],
                    to: ends[to],
                    direction: directions.len(),
                });
                let name = format!("{} to {}", names[network + from], names[network + to]);
                directions.push(Direction::new(name, effects.chain(1).map_err(text)?));
            }
        }
        let config = Config {
            ports: ports.into_iter().map(|(_, _, port)| port).collect(),
            directions,
            routes,
            mtu_bytes: 1500,
            sample_interval: Duration::from_millis(100),
            recorder: Recorder::new(Kinds::NONE, 0),
        };
        let emulator = Emulator::start(world.wan().handle(), config).map_err(text)?;
        Ok(LinearTopology { world, emulator })
    }

    /// The namespace of a node.
    pub(crate) fn node(&self, place: usize) -> &Namespace {
        self.world.nodes()[place].namespace()
    }

    /// The address of a node in a network.
    pub(crate) fn address(network: usize, node: usize) -> Ipv4Addr {
        Topology::address(network, node)
    }

    /// Ends it, and returns what its emulator has counted.
    pub(crate) fn end(self) -> Result<Statistics, String> {
        let report = self.emulator.stop().map_err(text)?;
        Ok(report.statistics)
    }
}

/// An error in words.
pub(crate) fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
