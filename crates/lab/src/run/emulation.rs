//! The emulator's configuration for a scenario.

use std::collections::BTreeMap;
use std::time::Duration;

use wansan_path::{
    Chain, Delay, DropTail, Element, Limit, Link, Loss, LossModel, Probability, Rate,
};
use wansan_trace::{Kinds, Recorder};

use super::CellError;
use crate::emulator::{Config, Direction, Emulator, EmulatorError, Frame, Port, Route};
use crate::plan::{self, QueueBound, RecordKind, Scenario};
use crate::world::World;

/// Time between two samples of a path.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);
/// Ethernet's header, which counts on a path.
const ETHERNET_HEADER_BYTES: u32 = 14;
/// Rate at which a path without a stated rate is taken to fill its delay line.
const UNSTATED_BITS_PER_S: u64 = 100_000_000_000;

/// Starts the emulator of a world. `seed` is where its losses begin; every direction of every
/// link has a sequence of its own.
pub(super) fn start(
    world: &World,
    scenario: &Scenario,
    seed: u64,
    kinds: &[RecordKind],
    memory_bytes: u64,
) -> Result<Emulator, CellError> {
    // One port for every interface into an emulated network, which is one link's.
    let mut ports = Vec::new();
    let mut port_of = BTreeMap::new();
    for (node, at) in world.nodes().iter().zip(0..) {
        for interface in node.interfaces() {
            if let Some(port) = Port::of(interface) {
                port_of.insert((interface.network, at), ports.len());
                ports.push(port);
            }
        }
    }
    let mut directions = Vec::new();
    let mut routes = Vec::new();
    for (network, link) in scenario.links.iter().enumerate() {
        if link.wire {
            continue;
        }
        let ways = [
            ("forward", &link.near, &link.far),
            ("back", &link.far, &link.near),
        ];
        for (way, from_nodes, to_nodes) in ways {
            let direction = directions.len();
            let seed = seed.wrapping_add(direction as u64);
            directions.push(Direction {
                name: format!("{}:{way}", link.name),
                chain: chain(link, scenario.topology.mtu_bytes, seed)?,
            });
            for from in from_nodes {
                for to in to_nodes {
                    routes.push(Route {
                        from: port_of[&(network, *from)],
                        to: port_of[&(network, *to)],
                        direction,
                    });
                }
            }
        }
    }
    let kinds = Kinds {
        path: kinds.contains(&RecordKind::Path),
        packet: kinds.contains(&RecordKind::Packet),
        ..Kinds::NONE
    };
    let memory_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
    let config = Config {
        ports,
        directions,
        routes,
        mtu_bytes: scenario.topology.mtu_bytes as usize,
        sample_interval: SAMPLE_INTERVAL,
        recorder: Recorder::new(kinds, memory_bytes),
    };
    Ok(Emulator::start(world.wan().handle(), config)?)
}

/// One direction of a link: loss, then the link's queue and rate, then its delay.
fn chain(link: &plan::Link, mtu_bytes: u32, seed: u64) -> Result<Chain<Frame>, EmulatorError> {
    let wrong = |error: &dyn std::fmt::Display| {
        EmulatorError::CallerMisused(format!("path `{}`: {error}", link.name))
    };
    let mut elements = Vec::new();
    if link.loss.0 > 0.0 {
        let probability = Probability::new(link.loss.0).map_err(|error| wrong(&error))?;
        let model = LossModel::Bernoulli(probability);
        elements.push(Element::Loss(Loss::new(model, seed)));
    }
    let rate = link.rate_bits_per_s.and_then(Rate::from_bits_per_s);
    if let Some(rate) = rate {
        let limit = match link.queue {
            QueueBound::Bytes(bytes) => Limit::bytes(bytes),
            QueueBound::Packets(packets) => Limit::packets(u64::from(packets)),
        };
        elements.push(Element::Link(Link::new(rate, DropTail::new(limit))));
    }
    let line_rate = rate
        .or(Rate::from_bits_per_s(UNSTATED_BITS_PER_S))
        .expect("the constant is not 0");
    let on_the_line =
        Limit::bandwidth_delay(line_rate, link.delay, mtu_bytes + ETHERNET_HEADER_BYTES);
    elements.push(Element::Delay(Delay::new(link.delay, on_the_line)));
    Ok(Chain::new(elements))
}
