//! The emulator's configuration for a scenario.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use wansan_trace::{Kinds, Recorder};

use super::CellError;
use crate::emulator::{
    Capture, Classes, Config, Direction, Emulator, EmulatorError, Port, Route, Tap, Watch,
};
use crate::plan::{self, CaptureWish, Classifier, RecordKind, Scenario, Side};
use crate::record::RecordError;
use crate::world::World;

/// Sample interval of a path.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// Starts the emulator of a world, and the captures of its paths in `folder`. `seed` seeds its losses; every direction
/// of every link has its own sequence.
pub(super) fn start(
    world: &World,
    scenario: &Scenario,
    seed: u64,
    kinds: &[RecordKind],
    memory_bytes: u64,
    folder: &Path,
) -> Result<(Emulator, Vec<Capture>), CellError> {
    // One port per interface into an emulated network, which is one link's.
    let mut ports = Ports::default();
    for (node, at) in world.nodes().iter().zip(0..) {
        for interface in node.interfaces() {
            if let Some(port) = interface.port() {
                ports.add((interface.network, at), port);
            }
        }
    }
    let recorder = recorder(kinds, memory_bytes);
    let (config, captures) = config(ports, scenario, seed, recorder, folder)?;
    let emulator = Emulator::start(world.wan().handle(), config)?;
    Ok((emulator, captures))
}

/// The ports of hosts, by network (a link's) and local node.
#[derive(Default)]
pub(super) struct Ports {
    each: Vec<Port>,
    of: BTreeMap<(usize, usize), usize>,
}

impl Ports {
    /// Adds a node's port in a network. A real router reaches a node in several networks through the same port.
    pub(super) fn add(&mut self, place: (usize, usize), port: Port) {
        let known = self.each.iter().position(|other| *other == port);
        let number = known.unwrap_or(self.each.len());
        if known.is_none() {
            self.each.push(port);
        }
        self.of.insert(place, number);
    }
}

/// The emulator's recorder for the record kinds of a plan.
pub(super) fn recorder(kinds: &[RecordKind], memory_bytes: u64) -> Recorder {
    let kinds = Kinds {
        path: kinds.contains(&RecordKind::Path),
        packet: kinds.contains(&RecordKind::Packet),
        ..Kinds::NONE
    };
    Recorder::new(kinds, usize::try_from(memory_bytes).unwrap_or(usize::MAX))
}

/// Configures an emulator of the links whose nodes have ports, and the captures of their paths.
pub(super) fn config(
    ports: Ports,
    scenario: &Scenario,
    seed: u64,
    recorder: Recorder,
    folder: &Path,
) -> Result<(Config, Vec<Capture>), CellError> {
    let mut captures = Captures {
        folder,
        begun: Vec::new(),
    };
    let mut directions = Vec::new();
    let mut routes = Vec::new();
    let links = scenario.links.iter().enumerate();
    let emulated = links.filter(|(_, link)| !link.wire);
    for ((network, link), first) in emulated.zip((0..).step_by(2)) {
        // Others are emulated elsewhere.
        if !ports.of.contains_key(&(network, link.near[0])) {
            continue;
        }
        let names = Side::BOTH.map(|side| side.of(&link.name));
        let mut taps = Vec::new();
        let mut watches = [Vec::new(), Vec::new()];
        match &link.capture {
            CaptureWish::Path(false) => {}
            CaptureWish::Path(true) => taps = captures.path(link, &names)?,
            CaptureWish::Elements(elements) => {
                for element in elements {
                    let [forward, back] = captures.element(link, &names, element)?;
                    watches[0].push(forward);
                    watches[1].push(back);
                }
            }
        }
        let (mut taps, mut watches) = (taps.into_iter(), watches.into_iter());
        let [forward, back] = names;
        let ways = [
            (forward, &link.forward, &link.near, &link.far),
            (back, &link.back, &link.far, &link.near),
        ];
        for ((name, planned, from_nodes, to_nodes), number) in ways.into_iter().zip(first..) {
            let direction = directions.len();
            let seed = seed.wrapping_add(number);
            directions.push(Direction {
                tap: taps.next(),
                watches: watches.next().unwrap_or_default(),
                ..self::direction(name, planned, &scenario.classifier, seed)?
            });
            for from in from_nodes {
                for to in to_nodes {
                    routes.push(Route {
                        from: ports.of[&(network, *from)],
                        to: ports.of[&(network, *to)],
                        direction,
                    });
                }
            }
        }
    }
    let config = Config {
        ports: ports.each,
        directions,
        routes,
        mtu_bytes: scenario.topology.mtu_bytes as usize,
        sample_interval: SAMPLE_INTERVAL,
        recorder,
    };
    Ok((config, captures.begun))
}

/// The captures of a cell.
struct Captures<'a> {
    folder: &'a Path,
    begun: Vec<Capture>,
}

impl Captures<'_> {
    /// Starts a path's capture; returns a tap per direction.
    fn path(&mut self, link: &plan::Link, names: &[String; 2]) -> Result<Vec<Tap>, RecordError> {
        let interfaces: Vec<&str> = names.iter().map(String::as_str).collect();
        self.begin(&link.name, &interfaces, "Frames as they leave the path")
    }

    /// Starts the capture of one element of a path, in both directions.
    fn element(
        &mut self,
        link: &plan::Link,
        names: &[String; 2],
        element: &str,
    ) -> Result<[Watch; 2], RecordError> {
        let sides = ["before", "after"];
        let interfaces: Vec<String> = names
            .iter()
            .flat_map(|name| sides.map(|side| format!("{name} {side} {element}")))
            .collect();
        let interfaces: Vec<&str> = interfaces.iter().map(String::as_str).collect();
        let about = format!("Frames as they come to the element `{element}` and as they leave it");
        let file = format!("{}.{element}", link.name);
        let mut taps = self.begin(&file, &interfaces, &about)?.into_iter();
        let mut watch = || Watch {
            element: element.to_owned(),
            before: taps.next().expect("each interface has a tap"),
            after: taps.next().expect("each interface has a tap"),
        };
        Ok([watch(), watch()])
    }

    fn begin(
        &mut self,
        name: &str,
        interfaces: &[&str],
        about: &str,
    ) -> Result<Vec<Tap>, RecordError> {
        let path = self.folder.join(format!("{name}.pcapng"));
        let begun = Capture::begin(&path, interfaces, about);
        let (capture, taps) = begun.map_err(|source| unwritten(&path, source))?;
        self.begun.push(capture);
        Ok(taps)
    }
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
        let classifier = *classifier;
        let other = planned.class_of(None);
        let planned = planned.clone();
        let of = move |source, destination| planned.class_of(classifier.route(source, destination));
        direction.classes = Some(Classes::new(of, other));
    }
    Ok(direction)
}
