//! The paths, and which connection takes which.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use wansan_insight::traffic::is_encrypted;
use wansan_insight::{Cell, Window};
use wansan_path::{Change, Limit};
use wansan_trace::event::{Packet, Path};
use wansan_trace::file::{Row, Table};

use super::drops::drops;
use super::tunnels::{Of, Tunnels};
use super::{Unfit, captured};
use crate::loss::LossShare;
use crate::setup::{Direction, Drop, Repeats, Through, capacity};

/// Bytes of an Ethernet header.
const ETHERNET_BYTES: u64 = 14;
/// Host name in path records of the lab's emulator.
const LAB_EMULATOR: &str = "wan";
/// Path elements that twins do not simulate, and their effects.
const LACKING: [(&str, &str); 6] = [
    ("outage", "went down"),
    ("mark", "marks packets at random"),
    ("corrupt", "spoils packets"),
    ("duplicate", "duplicates packets"),
    ("reorder", "reorders packets"),
    ("link-", "has several links"),
];

/// All recorded directions of paths, with their conditions from the start of the simulation to the end of the window.
/// If none was recorded, TCP's round-trip times give a single path.
pub(super) fn directions(
    cell: &Cell,
    simulated: Window,
    unknown: &mut Vec<String>,
) -> Result<Vec<Direction>, Unfit> {
    let Some(table) = recorded(cell) else {
        return by_round_trips(cell, simulated.from_ns, unknown);
    };
    let mut samples: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for row in &table.rows {
        let name = table.names.get(row.record.path);
        match Path::element(name) {
            (name, None) => samples.entry(name).or_default().push(&row.record),
            (path, Some(element)) => {
                let lacking = LACKING.iter().find(|(kind, _)| element.starts_with(kind));
                if let Some((_, what)) = lacking {
                    let path = path.to_owned();
                    return Err(Unfit::Path { path, what });
                }
            }
        }
    }
    let directions = samples.into_iter();
    let directions =
        directions.map(|(name, samples)| direction(cell, name, &samples, simulated, unknown));
    directions.collect()
}

fn direction(
    cell: &Cell,
    name: &str,
    samples: &[&Path],
    simulated: Window,
    unknown: &mut Vec<String>,
) -> Result<Direction, Unfit> {
    let last = samples[samples.len() - 1];
    if last.marks > 0 {
        return Err(Unfit::Path {
            path: name.to_owned(),
            what: "marks packets",
        });
    }
    let begins = samples.partition_point(|sample| sample.time.ns() <= simulated.from_ns);
    let ends = samples.partition_point(|sample| sample.time.ns() < simulated.to_ns);
    let begins = begins.saturating_sub(1);
    let conditions = Conditions::of(samples[begins]);
    if conditions.queue == Conditions::BOUNDLESS {
        unknown.push(format!(
            "what the queue of path `{name}` holds: assumed to hold everything"
        ));
    }
    let changes = changes(&samples[begins..ends.max(begins)], simulated.from_ns);
    let passed = Passed::of(cell, name, samples, simulated.from_ns);
    // The queue is behind the loss stage: every packet that arrived was subject to loss.
    let loss_share = LossShare::Recorded {
        lost: last.loss_drops,
        of: last.in_packets,
    };
    if passed.drops.is_none() && last.loss_drops > 0 {
        unknown.push(format!(
            "which packets path `{name}` lost: assumed to be {loss_share} at random"
        ));
    }
    if passed.overhead_bytes.is_none() && last.bits_per_s > 0 && last.in_packets > 0 {
        unknown.push(format!("what counts for each packet on path `{name}` beyond its Ethernet frame: assumed to be 0 bytes"));
    }
    Ok(Direction {
        name: name.to_owned(),
        delay: Duration::from_nanos(conditions.delay_ns),
        rate_bits_per_s: conditions.rate_bits_per_s,
        queue: conditions.queue,
        changes,
        loss: loss_share.model(),
        loss_share,
        repeats: match passed.drops {
            Some(_) => Repeats::Losses,
            None => Repeats::Nothing,
        },
        drops: passed.drops.unwrap_or_default(),
        overhead_bytes: passed.overhead_bytes.unwrap_or(0),
    })
}

/// Path conditions that may change during a recording.
#[derive(Clone, Copy, PartialEq)]
struct Conditions {
    delay_ns: u64,
    rate_bits_per_s: Option<u64>,
    queue: Limit,
}

impl Conditions {
    const BOUNDLESS: Limit = Limit::bytes(u64::MAX);

    fn of(sample: &Path) -> Conditions {
        Conditions {
            delay_ns: sample.delay_ns,
            rate_bits_per_s: Some(sample.bits_per_s).filter(|rate| *rate > 0),
            queue: match (sample.queue_limit_packets, sample.queue_limit_bytes) {
                (0, 0) => Conditions::BOUNDLESS,
                (packets, bytes) => Limit { packets, bytes },
            },
        }
    }
}

/// Changes between samples, each at the time after `from_ns` of the first sample that shows it.
fn changes(samples: &[&Path], from_ns: u64) -> Vec<(Duration, Change)> {
    let mut changes = Vec::new();
    for pair in samples.windows(2) {
        let [before, after] = [0, 1].map(|place| Conditions::of(pair[place]));
        if before == after {
            continue;
        }
        let at = Duration::from_nanos(pair[1].time.ns().saturating_sub(from_ns));
        if before.delay_ns != after.delay_ns {
            let delay = Duration::from_nanos(after.delay_ns);
            changes.push((at, Change::Delay(delay)));
        }
        if before.rate_bits_per_s != after.rate_bits_per_s {
            changes.push((at, Change::Rate(capacity(after.rate_bits_per_s))));
        }
        if before.queue != after.queue {
            changes.push((at, Change::QueueLimit(after.queue)));
        }
    }
    changes
}

/// What the packets of a direction show.
#[derive(Default)]
struct Passed {
    /// The dropped ones; `None` if not all packets were recorded.
    drops: Option<Vec<Drop>>,
    overhead_bytes: Option<u32>,
}

impl Passed {
    fn of(cell: &Cell, name: &str, samples: &[&Path], from_ns: u64) -> Passed {
        let table = cell.packet.as_ref();
        let whole = table.filter(|table| table.dropped.values().all(|lost| *lost == 0));
        let path = whole.and_then(|table| Some((table, table.names.find(name)?)));
        let Some((table, path)) = path else {
            return Passed::default();
        };
        let rows = table.rows.iter().map(|row| &row.record);
        let packets: Vec<&Packet> = rows.filter(|packet| packet.path == path).collect();
        // Packets in flight at the end of the recording are counted but have no record.
        let count = packets.len() as u64;
        let recorded = |sample: &&&Path| (1..=count).contains(&sample.in_packets);
        let overhead_bytes = samples.iter().rev().find(recorded).and_then(|sample| {
            let counted = packets.iter().take(sample.in_packets as usize);
            let ip_bytes: u64 = counted.map(|packet| u64::from(packet.ip_bytes)).sum();
            let beyond = sample.in_bytes.saturating_sub(ip_bytes) / sample.in_packets;
            u32::try_from(beyond.saturating_sub(ETHERNET_BYTES)).ok()
        });
        Passed {
            drops: Some(drops(&packets, from_ns)),
            overhead_bytes,
        }
    }
}

/// A single path with TCP's minimum RTT, or with what captured packets show.
fn by_round_trips(
    cell: &Cell,
    from_ns: u64,
    unknown: &mut Vec<String>,
) -> Result<Vec<Direction>, Unfit> {
    let samples = cell.tcp.iter().flat_map(|table| &table.rows);
    let seen_ns = samples
        .map(|row| row.record.min_rtt_ns)
        .filter(|ns| *ns > 0);
    let direction = |name: &str, delay_ns, packets: Vec<&Packet>| {
        let drops = drops(&packets, from_ns);
        let loss_share = LossShare::Recorded {
            lost: drops.len() as u64,
            of: packets.len() as u64,
        };
        Direction {
            name: name.to_owned(),
            delay: Duration::from_nanos(delay_ns),
            rate_bits_per_s: None,
            queue: Conditions::BOUNDLESS,
            changes: Vec::new(),
            loss: loss_share.model(),
            loss_share,
            drops,
            repeats: Repeats::Losses,
            overhead_bytes: 0,
        }
    };
    let ways = [("path:forward", true), ("path:back", false)];
    let (directions, how) = match (seen_ns.min(), cell.carriers.is_empty()) {
        (Some(least_ns), _) => (
            ways.map(|(name, _)| direction(name, least_ns / 2, Vec::new())),
            "the same each way, without a rate, a queue or losses",
        ),
        (None, false) => (
            ways.map(|(name, is_there)| {
                let delay_ns = captured::least_transit_ns(cell, is_there);
                direction(name, delay_ns, captured::packets(cell, is_there).collect())
            }),
            "with the losses that the packets show; without a queue, and without a rate unless the load asks for more than that at which data was acknowledged, or only that fits",
        ),
        (None, true) => return Err(Unfit::Missing("path")),
    };
    let round_trip: Duration = directions.iter().map(|it| it.delay).sum();
    if round_trip.is_zero() {
        return Err(Unfit::NoRoundTrip);
    }
    unknown.push(format!(
        "the path: assumed to have TCP's minimum RTT ({:.3} ms), {how}",
        round_trip.as_secs_f64() * 1e3,
    ));
    Ok(directions.into())
}

/// The directions that each connection's packets take, and in which tunnels.
pub(super) struct Routes {
    /// The directions between two addresses, in order, each with the first packet seen there.
    of: HashMap<(SocketAddr, SocketAddr), Vec<(usize, Packet)>>,
    /// Both directions of the only path, if packets do not show the routes.
    only: Option<[usize; 2]>,
    pub(super) tunnels: Tunnels,
}

/// Route of a connection towards the target, and back.
pub(super) struct Ways {
    pub(super) places: [Vec<usize>; 2],
    pub(super) through: Option<Through>,
}

impl Routes {
    /// Routes in a cell whose connections of sessions are known.
    pub(super) fn of(
        cell: &Cell,
        directions: &[Direction],
        window: Window,
        unknown: &mut Vec<String>,
    ) -> Result<Routes, Unfit> {
        let connections = cell.connection.iter().flat_map(|table| &table.rows);
        let mut own: BTreeMap<SocketAddr, Of> = BTreeMap::new();
        for row in connections {
            let record = &row.record;
            let of = (record.session, record.connection);
            own.extend([(record.local, of), (record.remote, of)]);
        }
        let mut of: HashMap<(SocketAddr, SocketAddr), Vec<(usize, Packet)>> = HashMap::new();
        let mut in_clear = HashSet::new();
        let tables = cell.packet.iter();
        let packets =
            tables.flat_map(|table| table.rows.iter().map(move |row| (table, &row.record)));
        for (table, packet) in packets.filter(|(_, packet)| !is_encrypted(packet)) {
            let ends = (packet.source, packet.destination);
            if !own.contains_key(&ends.0) || !own.contains_key(&ends.1) {
                return Err(Unfit::Others);
            }
            let name = table.names.get(packet.path);
            if let Some(place) = directions.iter().position(|it| it.name == name) {
                let route = of.entry(ends).or_default();
                if !route.iter().any(|(known, _)| *known == place) {
                    route.push((place, *packet));
                    in_clear.extend([own[&ends.0], own[&ends.1]]);
                }
            }
        }
        let tunnels = Tunnels::of(cell, directions, window, &in_clear, unknown)?;
        let only = match of.is_empty() {
            true => only(cell, directions),
            false => None,
        };
        Ok(Routes { of, only, tunnels })
    }

    /// The routes of a connection over a relay, whose two parts have these addresses, and how many directions of each
    /// route precede the relay. A part without records is a wire; `None` if a whole route has none.
    pub(super) fn over_relay(
        &self,
        parts: [[SocketAddr; 2]; 2],
    ) -> Option<([Vec<usize>; 2], [usize; 2])> {
        let route = |ends| -> Vec<usize> {
            let known = self.of.get(&ends).into_iter().flatten();
            known.map(|(place, _)| *place).collect()
        };
        let [first, second] = parts;
        let there = [(first[0], first[1]), (second[0], second[1])].map(route);
        let back = [(second[1], second[0]), (first[1], first[0])].map(route);
        let after = [there[0].len(), back[0].len()];
        let ways = [there.concat(), back.concat()];
        ways.iter()
            .all(|way| !way.is_empty())
            .then_some((ways, after))
    }

    /// The route of a connection between these addresses; `None` if unknown.
    pub(super) fn between(&self, of: Of, [near, far]: [SocketAddr; 2]) -> Option<Ways> {
        if let Some(tunnel) = self.tunnels.through(of) {
            return Some(self.inside(tunnel, [near, far]));
        }
        if let Some([there, back]) = self.only {
            return Some(Ways {
                places: [vec![there], vec![back]],
                through: None,
            });
        }
        let route = |ends| {
            let known = self.of.get(&ends)?;
            Some(known.iter().map(|(place, _)| *place).collect())
        };
        Some(Ways {
            places: [route((near, far))?, route((far, near))?],
            through: None,
        })
    }

    /// The route of a connection through a tunnel; directions that it takes in clear are before the tunnel or behind
    /// it.
    fn inside(&self, tunnel: usize, [near, far]: [SocketAddr; 2]) -> Ways {
        let mut inside = [0..0, 0..0];
        let places = [(near, far), (far, near)];
        let places = [0, 1].map(|way| {
            let in_clear = self.of.get(&places[way]).into_iter().flatten();
            let (ahead, behind): (Vec<_>, Vec<_>) =
                in_clear.partition(|(_, first)| self.tunnels.is_ahead(tunnel, way, first));
            let encrypted = &self.tunnels.places(tunnel)[way];
            inside[way] = ahead.len()..ahead.len() + encrypted.len();
            let place = |it: Vec<&(usize, Packet)>| -> Vec<usize> {
                it.into_iter().map(|(place, _)| *place).collect()
            };
            [place(ahead), encrypted.clone(), place(behind)].concat()
        });
        Ways {
            places,
            through: Some(Through { tunnel, inside }),
        }
    }
}

/// The path records, if any: a wire has none.
fn recorded(cell: &Cell) -> Option<&Table<Path>> {
    cell.path.as_ref().filter(|table| !table.rows.is_empty())
}

/// Whether the lab's own emulator recorded all paths, in namespaces or simulated. Records of a real router's paths
/// have its own host name.
pub(super) fn are_of_lab(cell: &Cell) -> bool {
    recorded(cell).is_some_and(|table| {
        let is_lab = |row: &Row<Path>| table.names.get(row.host) == LAB_EMULATOR;
        table.rows.iter().all(is_lab)
    })
}

/// The two directions of the only path, towards the target and back: the one with more bytes is that of the data.
fn only(cell: &Cell, directions: &[Direction]) -> Option<[usize; 2]> {
    let [_, _] = directions else {
        return None;
    };
    let Some(table) = recorded(cell) else {
        return Some([0, 1]);
    };
    let carried = |direction: &Direction| {
        let id = table.names.find(&direction.name);
        let rows = table.rows.iter().rev();
        let last = { rows }.find(|row| Some(row.record.path) == id);
        last.map_or(0, |row| row.record.in_bytes)
    };
    let pdus = cell.pdu.iter().flat_map(|table| &table.rows);
    let way = |is_request: bool| -> u64 {
        let of_way = pdus
            .clone()
            .filter(|row| wansan_insight::opcode::is_request(row.record.opcode) == is_request);
        of_way.map(|row| u64::from(row.record.data_bytes)).sum()
    };
    let writes = way(true) > way(false);
    let first_is_fuller = carried(&directions[0]) > carried(&directions[1]);
    Some(match writes == first_is_fuller {
        true => [0, 1],
        false => [1, 0],
    })
}
