//! The distribution of a session's commands over its connections: a command stays on one of them
//! from CmdSN to completion (RFC 7143 §4.2.5.1).

use foldhash::HashMap;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wansan_trace::event::{Pdu, PduDirection};
use wansan_trace::{ConnectionId, Layer, TaskTag};

use crate::join::{Joined, Task};
use crate::opcode::SCSI_COMMAND;
use crate::pdus::Pdus;
use crate::window::Window;

/// A connection is starved while it has less than this part of an even share of its session's commands in flight.
const STARVED_PART: f64 = 0.6;

/// One connection of a session that has several, in the measured window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ConnectionUse {
    /// Its CID.
    pub connection: u16,
    /// Commands completed.
    pub commands: u64,
    /// Mean number of commands in flight.
    pub in_flight_mean: f64,
    /// Mean time from CmdSN assignment to completion, of completed commands.
    pub inside_mean_ns: f64,
    /// Mean time that the target held an arrived command until those with lower CmdSNs arrived on other connections
    /// (RFC 7143 §4.2.2.1); 0 if the target's PDUs were not recorded.
    pub held_mean_ns: f64,
    /// The share of the time in which it had less than 60 % of an even share of the session's commands in flight; unknown
    /// from a sample of the I/Os.
    pub starved_share: Option<f64>,
    /// The share of the time in which it had none although the session had commands in flight; unknown from a sample.
    pub empty_share: Option<f64>,
}

/// The use of each of a session's connections, by CID; empty if it has only one.
pub(crate) fn connection_uses(
    tasks: &[&Task],
    joined: &Joined,
    pdus: Option<&Pdus>,
    window: Window,
) -> Vec<ConnectionUse> {
    let (Some(first), Some(last)) = (tasks.first(), tasks.last()) else {
        return Vec::new();
    };
    if tasks.iter().all(|task| task.connection == last.connection) {
        return Vec::new();
    }
    // A foreign initiator records nothing: use the target's records.
    let Some(&layer) = [Layer::Window, Layer::Target]
        .iter()
        .find(|layer| joined.layers.contains(layer))
    else {
        return Vec::new();
    };
    let mut spans: BTreeMap<ConnectionId, Vec<(u64, u64)>> = BTreeMap::new();
    for task in tasks {
        if let Some(span) = task.span_ns(layer, joined.records) {
            spans.entry(task.connection).or_default().push(span);
        }
    }
    let mut came_ns: HashMap<TaskTag, u64> = HashMap::default();
    let mut see = |pdu: &Pdu| {
        let is_command = pdu.session == first.session && pdu.opcode == SCSI_COMMAND;
        if is_command && pdu.direction == PduDirection::Received {
            came_ns.insert(pdu.task, pdu.time.ns());
        }
    };
    { pdus.iter() }.for_each(|pdus| pdus.for_each(|_, pdu| see(pdu)));
    let mut waits: BTreeMap<ConnectionId, (u64, u64)> = BTreeMap::new();
    for task in tasks {
        let times = (came_ns.get(&task.tag), task.enter_ns(Layer::Target));
        if let (Some(came_ns), Some(from_ns)) = times
            && window.contains(from_ns)
        {
            let (sum_ns, count) = waits.entry(task.connection).or_default();
            *sum_ns += from_ns.saturating_sub(*came_ns);
            *count += 1;
        }
    }
    let held = Held::over(&spans, window);
    let length_ns = window.length_ns().max(1) as f64;
    let weight = joined.weights.of_session(first.session);
    let share = |part_ns: u64| joined.is_complete().then(|| part_ns as f64 / length_ns);
    spans
        .iter()
        .zip(held)
        .map(|((connection, spans), held)| {
            let done: Vec<u64> = spans
                .iter()
                .filter(|(_, to_ns)| window.contains(*to_ns))
                .map(|(from_ns, to_ns)| to_ns - from_ns)
                .collect();
            ConnectionUse {
                connection: connection.0,
                commands: (done.len() as f64 * weight).round() as u64,
                in_flight_mean: held.population_ns / length_ns * weight,
                inside_mean_ns: done.iter().sum::<u64>() as f64 / done.len().max(1) as f64,
                held_mean_ns: waits
                    .get(connection)
                    .map_or(0.0, |&(sum_ns, count)| sum_ns as f64 / count as f64),
                starved_share: share(held.starved_ns),
                empty_share: share(held.empty_ns),
            }
        })
        .collect()
}

/// A connection's commands in flight, integrated over time.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    population_ns: f64,
    starved_ns: u64,
    empty_ns: u64,
}

impl Held {
    /// Of each connection, in the order of `spans`, over `window`.
    fn over(spans: &BTreeMap<ConnectionId, Vec<(u64, u64)>>, window: Window) -> Vec<Held> {
        let mut steps: Vec<(u64, usize, bool)> = Vec::new();
        for (place, spans) in spans.values().enumerate() {
            for &(from_ns, to_ns) in spans {
                if window.overlap_ns(from_ns, to_ns) > 0 {
                    steps.push((from_ns.max(window.from_ns), place, true));
                    steps.push((to_ns.min(window.to_ns), place, false));
                }
            }
        }
        steps.sort_unstable();
        let mut held = vec![Held::default(); spans.len()];
        let mut counts = vec![0_u64; spans.len()];
        let mut since_ns = window.from_ns;
        for (time_ns, place, enters) in steps {
            let passed_ns = time_ns - since_ns;
            let total: u64 = counts.iter().sum();
            if passed_ns > 0 && total > 0 {
                let starved = STARVED_PART * total as f64 / spans.len() as f64;
                for (held, &count) in held.iter_mut().zip(&counts) {
                    held.population_ns += count as f64 * passed_ns as f64;
                    held.starved_ns += if (count as f64) < starved {
                        passed_ns
                    } else {
                        0
                    };
                    held.empty_ns += if count == 0 { passed_ns } else { 0 };
                }
            }
            since_ns = time_ns;
            if enters {
                counts[place] += 1;
            } else {
                counts[place] -= 1;
            }
        }
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starved_and_empty_times_are_exact() {
        let window = Window {
            from_ns: 100,
            to_ns: 200,
        };
        // The first holds one command for 30 of the 100; the second always two.
        let spans = BTreeMap::from([
            (ConnectionId(0), vec![(50, 110), (150, 170)]),
            (ConnectionId(1), vec![(0, 1000), (100, 200)]),
        ]);
        let held = Held::over(&spans, window);
        let of = |place: usize| {
            let held: Held = held[place];
            (held.population_ns, held.starved_ns, held.empty_ns)
        };
        // Holding one of three is 67 % of an even share.
        assert_eq!(of(0), (30.0, 70, 70));
        assert_eq!(of(1), (200.0, 0, 0));
    }
}
