//! The emulator's configuration for a scenario.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use wansan_trace::{Kinds, Recorder};

use super::CellError;
use crate::emulator::{
    Capture, Classes, Config, Direction, Emulator, EmulatorError, Port, Route, Tap,
};
use crate::plan::{self, Classifier, RecordKind, Scenario, Side};
use crate::record::RecordError;
use crate::world::World;

/// Time between two samples of a path.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// Starts the emulator of a world, and the captures of its paths in `folder`. `seed` is where its
/// losses begin; every direction of every link has a sequence of its own.
pub(super) fn start(
    world: &World,
    scenario: &Scenario,
    seed: u64,
    kinds: &[RecordKind],
    memory_bytes: u64,
    folder: &Path,
) -> Result<(Emulator, Vec<Capture>), CellError> {
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
    let mut captures = Vec::new();
    let mut directions = Vec::new();
    let mut routes = Vec::new();
    for (network, link) in scenario.links.iter().enumerate() {
        if link.wire {
            continue;
        }
        let names = Side::BOTH.map(|side| side.of(&link.name));
        let mut taps = if link.capture {
            let (capture, taps) = capture(folder, link, &names)?;
            captures.push(capture);
            taps.map(Some)
        } else {
            [None, None]
        }
        .into_iter();
        let [forward, back] = names;
        let ways = [
            (forward, &link.forward, &link.near, &link.far),
            (back, &link.back, &link.far, &link.near),
        ];
        for (name, planned, from_nodes, to_nodes) in ways {
            let direction = directions.len();
            let seed = seed.wrapping_add(direction as u64);
            directions.push(Direction {
                tap: taps.next().flatten(),
                ..self::direction(name, planned, &scenario.classifier, seed)?
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
    let emulator = Emulator::start(world.wan().handle(), config)?;
    Ok((emulator, captures))
}

/// Begins a link's capture.
fn capture(
    folder: &Path,
    link: &plan::Link,
    [forward, back]: &[String; 2],
) -> Result<(Capture, [Tap; 2]), RecordError> {
    let path = folder.join(format!("{}.pcapng", link.name));
    Capture::begin(&path, [forward, back]).map_err(|source| unwritten(&path, source))
}

/// Waits until a capture is written.
pub(super) fn end_capture(capture: Capture) -> Result<(), RecordError> {
    let path = capture.file().to_owned();
    capture.end().map_err(|source| unwritten(&path, source))
}

fn unwritten(path: &Path, source: io::Error) -> RecordError {
    RecordError {
        action: "write",
        path: path.to_owned(),
        source,
    }
}

/// One direction of a link.
fn direction(
    name: String,
    planned: &plan::Direction,
    classifier: &Classifier,
    seed: u64,
) -> Result<Direction, EmulatorError> {
    let chain = planned.effects.chain(seed);
    let chain = chain.map_err(|error| EmulatorError::CallerMisused(format!("{name}: {error}")))?;
    let mut direction = Direction::new(name, chain);
    direction.overhead_bytes = planned.overhead_bytes;
    if !planned.priorities.is_empty() {
        let priorities = planned.priorities.clone();
        let classifier = *classifier;
        let last = priorities.len() as u8;
        let of = move |source, destination| {
            let way = classifier.way(source, destination);
            let place = way.and_then(|way| priorities.iter().position(|place| *place == way));
            place.map_or(last, |place| place as u8)
        };
        direction.classes = Some(Classes::new(of, last));
    }
    Ok(direction)
}
