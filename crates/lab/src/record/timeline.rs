//! Exports a cell as a timeline for Perfetto (ui.perfetto.dev, trace processor): a trace in its protobuf format.
//!
//! Each session is a group of tracks. An I/O is a slice on one of them, with its layers as nested slices; concurrent
//! I/Os are on different tracks. TCP and path state are counters, and TCP's events are instants. Times are those of the
//! records.

mod message;

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, Write};

use prost::Message as _;
use wansan_insight::Cell;
use wansan_insight::join::Task;
use wansan_trace::event::{Path, Tcp, TcpEvent};
use wansan_trace::{Layer, SessionId};

use self::message::{
    Counter, EVENT_COUNTER, EVENT_INSTANT, EVENT_SLICE_BEGIN, EVENT_SLICE_END, EventName, Interned,
    Packet, Trace, Track, TrackEvent,
};

/// A counter: its name, its unit, and its value in a record.
type Counted<T> = (&'static str, &'static str, fn(&T) -> u64);

/// Counters of a connection.
const OF_TCP: [Counted<Tcp>; 5] = [
    ("cwnd", "segments", |it| it.cwnd_packets.into()),
    ("in flight", "segments", |it| it.in_flight_packets.into()),
    ("srtt", "ns", |it| it.srtt_ns),
    ("rwnd", "bytes", |it| it.rwnd_bytes.into()),
    ("unsent", "bytes", |it| it.unsent_bytes.into()),
];

/// Counters of a path.
const OF_PATH: [Counted<Path>; 3] = [
    ("queue", "bytes", |it| it.queue_bytes),
    ("drops", "packets", |it| it.queue_drops + it.loss_drops),
    ("marks", "packets", |it| it.marks),
];

/// Writes the timeline of a cell.
///
/// # Errors
/// Errors of `out`.
pub fn write_perfetto(cell: &Cell, out: &mut dyn Write) -> io::Result<()> {
    let mut timeline = Timeline {
        out,
        tracks: 0,
        has_begun: false,
    };
    timeline.begin()?;
    timeline.tasks(cell)?;
    timeline.tcp(cell)?;
    timeline.paths(cell)
}

struct Timeline<'a> {
    out: &'a mut dyn Write,
    /// Number of tracks: each is identified by its number, from 1.
    tracks: u64,
    has_begun: bool,
}

impl Timeline<'_> {
    fn packet(&mut self, mut packet: Packet) -> io::Result<()> {
        packet.sequence = Some(1);
        // The first packet clears a reader's incremental state, on which the others depend.
        packet.sequence_flags = Some(if self.has_begun { 2 } else { 1 });
        self.has_begun = true;
        let trace = Trace {
            packets: vec![packet],
        };
        self.out.write_all(&trace.encode_to_vec())
    }

    /// Interns the layers' names, by depth.
    fn begin(&mut self) -> io::Result<()> {
        let names = Layer::ALL.into_iter().map(|layer| EventName {
            id: Some(name_id(layer)),
            name: Some(layer.name().to_owned()),
        });
        self.packet(Packet {
            interned: Some(Interned {
                event_names: names.collect(),
            }),
            ..Packet::default()
        })
    }

    fn track(&mut self, name: String, parent: Option<u64>, unit: Option<&str>) -> io::Result<u64> {
        self.tracks += 1;
        let track = Track {
            id: Some(self.tracks),
            name: Some(name),
            parent,
            counter: unit.map(|unit| Counter {
                unit: Some(unit.to_owned()),
            }),
        };
        self.packet(Packet {
            track: Some(track),
            ..Packet::default()
        })?;
        Ok(self.tracks)
    }

    fn event(&mut self, ns: u64, event: TrackEvent) -> io::Result<()> {
        self.packet(Packet {
            ns: Some(ns),
            event: Some(event),
            ..Packet::default()
        })
    }

    fn tasks(&mut self, cell: &Cell) -> io::Result<()> {
        let mut sessions: BTreeMap<SessionId, Vec<InLayers<'_>>> = BTreeMap::new();
        for task in &cell.joined.tasks {
            let spans = spans(task);
            if !spans.is_empty() {
                sessions
                    .entry(task.session)
                    .or_default()
                    .push((task, spans));
            }
        }
        for (session, mut tasks) in sessions {
            tasks.sort_by_key(|(_, spans)| spans[0].from_ns);
            let group = self.track(format!("session {session}"), None, None)?;
            // Tracks by the end of their last I/O, free ones first.
            let mut lanes: BinaryHeap<Reverse<(u64, u64)>> = BinaryHeap::new();
            for (task, spans) in tasks {
                let from_ns = spans[0].from_ns;
                let is_free = lanes.peek().is_some_and(|lane| lane.0.0 <= from_ns);
                let lane = match is_free.then(|| lanes.pop()).flatten() {
                    Some(Reverse((_, lane))) => lane,
                    None => self.track(format!("I/O {}", lanes.len() + 1), Some(group), None)?,
                };
                lanes.push(Reverse((spans[0].to_ns, lane)));
                self.task(task, &spans, lane)?;
            }
        }
        Ok(())
    }

    /// The nested slices of one I/O.
    fn task(&mut self, task: &Task, spans: &[Span], track: u64) -> io::Result<()> {
        for (depth, span) in spans.iter().enumerate() {
            // The outermost slice identifies the I/O.
            let own = (depth == 0).then(|| format!("{} {:#x}", span.layer.name(), task.tag.0));
            let event = TrackEvent {
                kind: Some(EVENT_SLICE_BEGIN),
                track: Some(track),
                name_id: own.is_none().then(|| name_id(span.layer)),
                name: own,
                counter: None,
            };
            self.event(span.from_ns, event)?;
        }
        for span in spans.iter().rev() {
            let event = TrackEvent {
                kind: Some(EVENT_SLICE_END),
                track: Some(track),
                ..TrackEvent::default()
            };
            self.event(span.to_ns, event)?;
        }
        Ok(())
    }

    fn tcp(&mut self, cell: &Cell) -> io::Result<()> {
        let Some(table) = &cell.tcp else {
            return Ok(());
        };
        let mut connections = BTreeMap::new();
        for row in &table.rows {
            let sample = &row.record;
            let key = (row.host, sample.session, sample.connection);
            let (group, counters) = match connections.entry(key) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let (host, id) = (table.names.get(row.host), sample.connection.0);
                    let name =
                        format!("TCP at {host}: session {}, connection {id}", sample.session);
                    new.insert(self.counters(name, OF_TCP.map(|(name, unit, _)| (name, unit)))?)
                }
            };
            let ns = sample.time.ns();
            for (track, (_, _, read)) in counters.iter().zip(OF_TCP) {
                self.count(*track, ns, read(sample))?;
            }
            if sample.event != TcpEvent::Sample {
                let event = TrackEvent {
                    kind: Some(EVENT_INSTANT),
                    track: Some(*group),
                    name: Some(sample.event.name().to_owned()),
                    ..TrackEvent::default()
                };
                self.event(ns, event)?;
            }
        }
        Ok(())
    }

    fn paths(&mut self, cell: &Cell) -> io::Result<()> {
        let Some(table) = &cell.path else {
            return Ok(());
        };
        let mut paths = BTreeMap::new();
        for row in &table.rows {
            let sample = &row.record;
            let (_, counters) = match paths.entry(sample.path) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let name = format!("path {}", table.names.get(sample.path));
                    new.insert(self.counters(name, OF_PATH.map(|(name, unit, _)| (name, unit)))?)
                }
            };
            for (track, (_, _, read)) in counters.iter().zip(OF_PATH) {
                self.count(*track, sample.time.ns(), read(sample))?;
            }
        }
        Ok(())
    }

    /// A group of counters, each with name and unit.
    fn counters<const N: usize>(
        &mut self,
        name: String,
        of: [(&str, &str); N],
    ) -> io::Result<(u64, Vec<u64>)> {
        let group = self.track(name, None, None)?;
        let counters = of.into_iter();
        let counters =
            counters.map(|(name, unit)| self.track(name.to_owned(), Some(group), Some(unit)));
        Ok((group, counters.collect::<io::Result<_>>()?))
    }

    fn count(&mut self, track: u64, ns: u64, value: u64) -> io::Result<()> {
        let event = TrackEvent {
            kind: Some(EVENT_COUNTER),
            track: Some(track),
            counter: Some(value as i64),
            ..TrackEvent::default()
        };
        self.event(ns, event)
    }
}

/// An I/O, and its time in each layer.
type InLayers<'a> = (&'a Task, Vec<Span>);

/// An I/O's time in a layer.
#[derive(Debug, Clone, Copy)]
struct Span {
    layer: Layer,
    from_ns: u64,
    to_ns: u64,
}

/// The layers that an I/O has both entered and left, from the top down. Two hosts' clocks may differ by more than its
/// time in a layer: each span is clipped to the one around it.
fn spans(task: &Task) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for layer in Layer::ALL {
        let Some((mut from_ns, mut to_ns)) = task.both_ns(layer) else {
            continue;
        };
        if let Some(around) = spans.last() {
            from_ns = from_ns.clamp(around.from_ns, around.to_ns);
            to_ns = to_ns.clamp(from_ns, around.to_ns);
        }
        spans.push(Span {
            layer,
            from_ns,
            to_ns: to_ns.max(from_ns),
        });
    }
    spans
}

/// Name IDs count from 1.
fn name_id(layer: Layer) -> u64 {
    layer.depth() as u64 + 1
}

#[cfg(test)]
mod tests {
    use wansan_trace::{ConnectionId, Direction, Instant, Kinds, Recorder, TaskTag};

    use super::*;

    /// I/Os by tag: submission and completion.
    const IOS: [(u32, u64, u64); 3] = [(1, 100, 400), (2, 200, 300), (3, 300, 500)];

    fn cell() -> Cell {
        let mut recorder = Recorder::new(Kinds::ALL, 1 << 20);
        for (tag, from_ns, to_ns) in IOS {
            // The lower layer's clock is ahead: it seems to end after the one above.
            let crossings = [
                (Layer::App, Direction::Enter, from_ns),
                (Layer::Target, Direction::Enter, from_ns + 20),
                (Layer::Target, Direction::Leave, to_ns + 20),
                (Layer::App, Direction::Leave, to_ns),
            ];
            for (layer, direction, ns) in crossings {
                let (session, connection) = (SessionId(7), ConnectionId(0));
                let time = Instant::from_ns(ns);
                recorder.crossing(time, session, connection, TaskTag(tag), layer, direction);
            }
        }
        Cell::gather(&[("lab", &recorder)]).expect("there are I/Os")
    }

    #[test]
    fn layers_are_slices_inside_each_other_on_a_track_for_each_io_in_flight() {
        let mut bytes = Vec::new();
        write_perfetto(&cell(), &mut bytes).expect("memory takes it");
        let trace = Trace::decode(&bytes[..]).expect("what was encoded");
        let tracks: BTreeMap<u64, String> = trace
            .packets
            .iter()
            .filter_map(|packet| packet.track.clone())
            .map(|track| (track.id.unwrap_or(0), track.name.unwrap_or_default()))
            .collect();
        let events = trace.packets.iter().filter_map(|packet| {
            let event = packet.event.as_ref()?;
            let name = event
                .name
                .clone()
                .or(event.name_id.map(|id| id.to_string()));
            Some((
                tracks[&event.track?].as_str(),
                event.kind?,
                packet.ns?,
                name.unwrap_or_default(),
            ))
        });
        let target = name_id(Layer::Target).to_string();
        let slices = |track, tag: u32, from_ns: u64, to_ns: u64| {
            [
                (track, EVENT_SLICE_BEGIN, from_ns, format!("app {tag:#x}")),
                (track, EVENT_SLICE_BEGIN, from_ns + 20, target.clone()),
                (track, EVENT_SLICE_END, to_ns, String::new()),
                (track, EVENT_SLICE_END, to_ns, String::new()),
            ]
        };
        let expected = [
            slices("I/O 1", 1, 100, 400),
            slices("I/O 2", 2, 200, 300),
            slices("I/O 2", 3, 300, 500),
        ];
        assert_eq!(events.collect::<Vec<_>>(), expected.concat());
        assert_eq!(trace.packets[0].sequence_flags, Some(1));
    }
}
