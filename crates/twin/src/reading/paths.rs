//! The paths, and which connection goes over which.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use wansan_insight::traffic::is_encrypted;
use wansan_insight::{Cell, Window};
use wansan_path::{Limit, Listed, LossModel, Probability};
use wansan_trace::event::{Packet, Path, Verdict};
use wansan_trace::file::Table;

use super::{Unfit, captured};
use crate::setup::Direction;

/// Bytes of an Ethernet header.
const ETHERNET_BYTES: u64 = 14;
/// Elements of a path that a twin lacks, and what they do.
const LACKING: [(&str, &str); 6] = [
    ("outage", "went down"),
    ("mark", "marks packets at random"),
    ("corrupt", "spoils packets"),
    ("duplicate", "duplicates packets"),
    ("reorder", "reorders packets"),
    ("link-", "has several links"),
];

/// All directions of paths that were recorded. Where none was, the round-trip times of TCP give one path.
pub(super) fn directions(
    cell: &Cell,
    window: Window,
    unknown: &mut Vec<String>,
) -> Result<Vec<Direction>, Unfit> {
    let Some(table) = recorded(cell) else {
        return by_round_trips(cell, unknown);
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
        directions.map(|(name, samples)| direction(cell, name, &samples, window, unknown));
    directions.collect()
}

fn direction(
    cell: &Cell,
    name: &str,
    samples: &[&Path],
    window: Window,
    unknown: &mut Vec<String>,
) -> Result<Direction, Unfit> {
    let conditions = |sample: &Path| (sample.delay_ns, sample.bits_per_s, sample.queue_limit_bytes);
    let (first, last) = (samples[0], samples[samples.len() - 1]);
    let mut until = samples
        .iter()
        .take_while(|sample| sample.time.ns() < window.to_ns);
    let unfit = |what| Unfit::Path {
        path: name.to_owned(),
        what,
    };
    if until.any(|sample| conditions(sample) != conditions(first)) {
        return Err(unfit("was changed meanwhile"));
    }
    if last.marks > 0 {
        return Err(unfit("marks packets"));
    }
    let queue = match (last.queue_limit_packets, last.queue_limit_bytes) {
        (0, 0) => {
            unknown.push(format!(
                "what the queue of path `{name}` holds: it is taken to hold everything"
            ));
            Limit::bytes(u64::MAX)
        }
        (packets, bytes) => Limit { packets, bytes },
    };
    let passed = Passed::of(cell, name, samples);
    let loss_share = last.loss_drops as f64 / last.in_packets.max(1) as f64;
    let is_lossy = last.loss_drops > 0;
    let loss = match passed.lost.filter(|_| is_lossy) {
        Some(lost) => LossModel::Listed(lost),
        None if is_lossy => {
            let spread = 1.96 * (loss_share * (1.0 - loss_share) / last.in_packets as f64).sqrt();
            unknown.push(format!(
                "which packets path `{name}` lost: {:.4} % ± {:.4} % at random are taken",
                loss_share * 100.0,
                spread * 100.0,
            ));
            by_chance(loss_share)
        }
        None => LossModel::NONE,
    };
    if passed.overhead_bytes.is_none() && last.bits_per_s > 0 {
        unknown.push(format!("what counts for each packet on path `{name}` beyond its Ethernet frame: 0 bytes are taken"));
    }
    Ok(Direction {
        name: name.to_owned(),
        delay: Duration::from_nanos(last.delay_ns),
        rate_bits_per_s: Some(last.bits_per_s).filter(|rate| *rate > 0),
        queue,
        loss,
        loss_share,
        overhead_bytes: passed.overhead_bytes.unwrap_or(0),
    })
}

/// Loss of that share of the packets, each as likely.
pub(crate) fn by_chance(share: f64) -> LossModel {
    let probability = Probability::new(share.clamp(0.0, 1.0));
    LossModel::Bernoulli(probability.unwrap_or(Probability::NEVER))
}

/// What the packets of a direction show.
#[derive(Default)]
struct Passed {
    /// Those that were lost, by their numbers; `None` where not all packets were recorded.
    lost: Option<Listed>,
    overhead_bytes: Option<u32>,
}

impl Passed {
    fn of(cell: &Cell, name: &str, samples: &[&Path]) -> Passed {
        let table = cell.packet.as_ref();
        let whole = table.filter(|table| table.dropped.values().all(|lost| *lost == 0));
        let path = whole.and_then(|table| Some((table, table.names.find(name)?)));
        let Some((table, path)) = path else {
            return Passed::default();
        };
        let rows = table.rows.iter().map(|row| &row.record);
        let packets: Vec<&Packet> = rows.filter(|packet| packet.path == path).collect();
        let numbered = packets.iter().zip(1_u64..);
        let lost = numbered.filter(|(packet, _)| packet.verdict == Verdict::DroppedByLoss);
        let lost = lost.map(|(_, number)| number).collect();
        // What was on its way at the end of the recording is counted and has no record.
        let count = packets.len() as u64;
        let recorded = |sample: &&&Path| (1..=count).contains(&sample.in_packets);
        let overhead_bytes = samples.iter().rev().find(recorded).and_then(|sample| {
            let counted = packets.iter().take(sample.in_packets as usize);
            let ip_bytes: u64 = counted.map(|packet| u64::from(packet.ip_bytes)).sum();
            let beyond = sample.in_bytes.saturating_sub(ip_bytes) / sample.in_packets;
            u32::try_from(beyond.saturating_sub(ETHERNET_BYTES)).ok()
        });
        Passed {
            lost: Listed::new(lost).ok(),
            overhead_bytes,
        }
    }
}

/// One path for all, with the least round-trip time that TCP saw, or by what captured packets show.
fn by_round_trips(cell: &Cell, unknown: &mut Vec<String>) -> Result<Vec<Direction>, Unfit> {
    let samples = cell.tcp.iter().flat_map(|table| &table.rows);
    let seen_ns = samples
        .map(|row| row.record.min_rtt_ns)
        .filter(|ns| *ns > 0);
    let direction = |name: &str, delay_ns, (lost, all): (Vec<u64>, u64)| Direction {
        name: name.to_owned(),
        delay: Duration::from_nanos(delay_ns),
        rate_bits_per_s: None,
        queue: Limit::bytes(u64::MAX),
        loss_share: lost.len() as f64 / all.max(1) as f64,
        loss: match lost.is_empty() {
            true => LossModel::NONE,
            false => Listed::new(lost).map_or(LossModel::NONE, LossModel::Listed),
        },
        overhead_bytes: 0,
    };
    let ways = [("path:forward", true), ("path:back", false)];
    let (directions, how) = match (seen_ns.min(), cell.carriers.is_empty()) {
        (Some(least_ns), _) => (
            ways.map(|(name, _)| direction(name, least_ns / 2, (Vec::new(), 0))),
            "the same each way, without a rate, a queue or losses",
        ),
        (None, false) => (
            ways.map(|(name, is_there)| {
                let delay_ns = captured::least_transit_ns(cell, is_there);
                direction(name, delay_ns, captured::lost(cell, is_there))
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
        "the path: it is taken to have the least round-trip time of TCP ({:.3} ms), {how}",
        round_trip.as_secs_f64() * 1e3,
    ));
    Ok(directions.into())
}

/// Which directions packets pass between two addresses, in their order.
pub(super) struct Routes {
    of: HashMap<(SocketAddr, SocketAddr), Vec<usize>>,
    /// Both ways over the only path, where packets do not tell.
    only: Option<[usize; 2]>,
}

impl Routes {
    /// Of a cell whose sessions' connections are known.
    pub(super) fn of(cell: &Cell, directions: &[Direction]) -> Result<Routes, Unfit> {
        let connections = cell.connection.iter().flat_map(|table| &table.rows);
        let own: BTreeSet<SocketAddr> = connections
            .flat_map(|row| [row.record.local, row.record.remote])
            .collect();
        let mut of: HashMap<(SocketAddr, SocketAddr), Vec<usize>> = HashMap::new();
        let tables = cell.packet.iter();
        let packets =
            tables.flat_map(|table| table.rows.iter().map(move |row| (table, &row.record)));
        for (table, packet) in packets {
            if is_encrypted(packet) {
                return Err(Unfit::Tunnel);
            }
            let ends = (packet.source, packet.destination);
            if !own.contains(&ends.0) || !own.contains(&ends.1) {
                return Err(Unfit::Others);
            }
            let name = table.names.get(packet.path);
            if let Some(place) = directions.iter().position(|it| it.name == name) {
                let route = of.entry(ends).or_default();
                if !route.contains(&place) {
                    route.push(place);
                }
            }
        }
        let only = match of.is_empty() {
            true => only(cell, directions),
            false => None,
        };
        Ok(Routes { of, only })
    }

    /// The directions from one address to the other, and back; `None` where nothing tells.
    pub(super) fn between(&self, [near, far]: [SocketAddr; 2]) -> Option<[Vec<usize>; 2]> {
        if let Some([there, back]) = self.only {
            return Some([vec![there], vec![back]]);
        }
        let route = |ends| self.of.get(&ends).cloned();
        Some([route((near, far))?, route((far, near))?])
    }
}

/// The records of paths, where there is any: a wire has none.
fn recorded(cell: &Cell) -> Option<&Table<Path>> {
    cell.path.as_ref().filter(|table| !table.rows.is_empty())
}

/// The two directions of the only path: towards the target, and back. The way that carries more bytes is that of
/// the data.
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
