//! Two hosts and the long path between them.

use std::time::Duration;

use anyhow::{Context, Result};
use wansan_lab::emulator::{Config, Direction, Emulator, Route};
use wansan_lab::world::{Interface, Node, TcpSettings, Topology, World};
use wansan_path::{Effects, Limit, Rate};
use wansan_trace::{Kinds, Recorder};

/// There and back.
pub(crate) const ROUND_TRIP: Duration = Duration::from_millis(50);
const BITS_PER_S: u64 = 1_000_000_000;
/// More than the bandwidth-delay product of 6.25 MB, so that a connection that has halved its
/// window still fills the path.
pub(crate) const QUEUE_BYTES: u64 = 8 << 20;
pub(crate) const MTU_BYTES: u32 = 1500;
/// An IP packet of the MTU and its Ethernet header, which counts on the path.
const FRAME_BYTES: u32 = MTU_BYTES + 14;
/// TCP's payload in such a packet: IPv4, TCP and its timestamps take 52 bytes.
const SEGMENT_BYTES: u32 = MTU_BYTES - 52;
/// The greatest buffers that the kernel may give a connection: several bandwidth-delay products.
const BUFFER_BYTES: u64 = 64 << 20;

/// A running world: the hosts `client` and `storage`, and an emulator that moves their frames.
pub(crate) struct LongPath {
    // Ends before the hosts go: fields drop in order.
    emulator: Emulator,
    world: World,
}

impl LongPath {
    /// Builds it. The process has to be isolated.
    pub(crate) fn build(congestion_control: &str) -> Result<Self> {
        let tcp = tcp_settings(congestion_control);
        let topology = Topology::flat(&["client", "storage"], &tcp, MTU_BYTES);
        let world = World::build(&topology)?;
        let interfaces = world.nodes().iter().flat_map(|node| node.interfaces());
        let config = Config {
            ports: interfaces.filter_map(Interface::port).collect(),
            directions: vec![direction("wan:forward")?, direction("wan:back")?],
            routes: vec![
                Route {
                    from: 0,
                    to: 1,
                    direction: 0,
                },
                Route {
                    from: 1,
                    to: 0,
                    direction: 1,
                },
            ],
            mtu_bytes: MTU_BYTES as usize,
            sample_interval: Duration::from_millis(100),
            recorder: Recorder::new(Kinds::NONE, 0),
        };
        let emulator = Emulator::start(world.wan().handle(), config)?;
        Ok(LongPath { emulator, world })
    }

    /// The host of the initiators.
    pub(crate) fn client(&self) -> &Node {
        &self.world.nodes()[0]
    }

    /// The host of the targets.
    pub(crate) fn storage(&self) -> &Node {
        &self.world.nodes()[1]
    }

    /// Frames so far that the emulator lost because this machine was too busy, not the path.
    pub(crate) fn lost_frames(&self) -> u64 {
        let statistics = self.emulator.statistics();
        statistics.ring_drops + statistics.send_failures
    }

    /// The path in a line.
    pub(crate) fn text(congestion_control: &str) -> String {
        format!(
            "{} ms there and back, {} Mbit/s each way, a queue of {} MiB, {MTU_BYTES}-byte \
             packets, {congestion_control}",
            ROUND_TRIP.as_millis(),
            BITS_PER_S / 1_000_000,
            QUEUE_BYTES >> 20,
        )
    }
}

/// The kernel's TCP of both hosts.
pub(crate) fn tcp_settings(congestion_control: &str) -> TcpSettings {
    TcpSettings {
        congestion_control: congestion_control.to_owned(),
        rmem_bytes: [4096, 131_072, BUFFER_BYTES],
        wmem_bytes: [4096, 16_384, BUFFER_BYTES],
        ecn: false,
    }
}

/// How long the path takes to send `bytes` of a TCP stream.
pub(crate) fn transmission(bytes: u64) -> Duration {
    let frames = bytes as f64 / f64::from(SEGMENT_BYTES);
    Duration::from_secs_f64(frames * f64::from(FRAME_BYTES) * 8.0 / BITS_PER_S as f64)
}

fn direction(name: &str) -> Result<Direction> {
    let rate = Rate::from_bits_per_s(BITS_PER_S).context("a rate is above 0")?;
    let effects = Effects {
        capacity: rate.into(),
        queue_limit: Limit::bytes(QUEUE_BYTES),
        delay: ROUND_TRIP / 2,
        ..Effects::default()
    };
    Ok(Direction::new(name, effects.chain(0)?))
}
