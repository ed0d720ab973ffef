//! TCP and path records on a cell's time axis.

use std::collections::{BTreeMap, BTreeSet};

use wansan_trace::event::{Path, Tcp};
use wansan_trace::file::Table;
use wansan_trace::{ConnectionId, NameId, SessionId};

use super::time_axis::rounded;
use super::{ConnectionSamples, PathSamples, Samples, TimeAxis};

/// Most sending ends that are shown: more lines than these nobody tells apart.
const MAX_CONNECTIONS: usize = 16;
/// Most directions of paths that are shown.
const MAX_PATHS: usize = 16;
/// An end that has sent less than this share of the busiest end's bytes does not fill its window,
/// so its window tells nothing.
const MIN_SHARE: f64 = 0.05;

/// One end of a connection: the host that recorded it, its session and its CID.
type End = (NameId, SessionId, ConnectionId);

/// The sending ends, busiest first, and how many were left out.
pub(super) fn connections(tcp: &Table<Tcp>, axis: &TimeAxis) -> (Vec<ConnectionSamples>, usize) {
    let mut ends: BTreeMap<End, Vec<&Tcp>> = BTreeMap::new();
    let mut hosts: BTreeMap<SessionId, BTreeSet<NameId>> = BTreeMap::new();
    for row in &tcp.rows {
        let record = &row.record;
        let end = (row.host, record.session, record.connection);
        ends.entry(end).or_default().push(record);
        hosts.entry(record.session).or_default().insert(row.host);
    }
    let all = ends.len();
    let mut ends: Vec<(End, Vec<&Tcp>)> = ends.into_iter().collect();
    let acked = |records: &[&Tcp]| records.last().map_or(0, |record| record.acked_bytes);
    ends.sort_by_key(|(_, records)| std::cmp::Reverse(acked(records)));
    let least = ends
        .first()
        .map_or(0.0, |(_, first)| acked(first) as f64 * MIN_SHARE);
    ends.retain(|(_, records)| acked(records) as f64 >= least);
    ends.truncate(MAX_CONNECTIONS);
    let several = |session| {
        let same = ends.iter().filter(|((_, other, _), _)| *other == session);
        same.map(|((.., connection), _)| connection)
            .collect::<BTreeSet<_>>()
            .len()
            > 1
    };
    let shown = ends.iter().map(|((host, session, connection), records)| {
        let here = tcp.names.get(*host);
        let peers: Vec<NameId> = hosts[session]
            .iter()
            .copied()
            .filter(|h| h != host)
            .collect();
        let peer = match peers[..] {
            [peer] => tcp.names.get(peer).to_owned(),
            _ => format!("session {session}"),
        };
        let cid = if several(*session) {
            format!(", connection {}", connection.0)
        } else {
            String::new()
        };
        ConnectionSamples {
            name: format!("{here} to {peer}{cid}"),
            cwnd_packets: held(
                axis,
                records.iter().map(|r| (r.time, f64::from(r.cwnd_packets))),
            ),
            retransmits: grown(records, |record| u64::from(record.retransmits)),
        }
    });
    let shown: Vec<ConnectionSamples> = shown.collect();
    let left_out = all - shown.len();
    (shown, left_out)
}

/// The paths' directions, by name.
pub(super) fn paths(path: &Table<Path>, axis: &TimeAxis) -> Vec<PathSamples> {
    let mut directions: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for row in &path.rows {
        let name = path.names.get(row.record.path);
        directions.entry(name).or_default().push(&row.record);
    }
    let shown = directions.into_iter().take(MAX_PATHS);
    shown
        .map(|(name, records)| PathSamples {
            name: name.to_owned(),
            queue_bytes: greatest(axis, &records),
            utilisation: utilisation(axis, &records),
            queue_drops: grown(&records, |record| record.queue_drops),
            loss_drops: grown(&records, |record| record.loss_drops),
        })
        .collect()
}

/// By how much a counter grew over the records.
fn grown<T>(records: &[&T], counter: impl Fn(&T) -> u64) -> u64 {
    match records {
        [first, .., last] => counter(last).saturating_sub(counter(first)),
        _ => 0,
    }
}

/// The value last sampled in or before each step, from the first sample to the last.
fn held(axis: &TimeAxis, samples: impl Iterator<Item = (wansan_trace::Instant, f64)>) -> Samples {
    let mut values: Samples = vec![None; axis.steps];
    let mut last_step = 0;
    for (time, value) in samples {
        if let Some(step) = axis.step_of(time) {
            values[step] = Some(rounded(value));
            last_step = last_step.max(step);
        }
    }
    hold(&mut values[..=last_step.min(axis.steps - 1)]);
    values
}

/// Fills each gap with the value before it.
fn hold(values: &mut [Option<f64>]) {
    let mut before = None;
    for value in values {
        before = value.or(before);
        *value = before;
    }
}

/// The greatest queue depth seen in each step; between samples the last one holds.
fn greatest(axis: &TimeAxis, records: &[&Path]) -> Samples {
    let mut values: Samples = vec![None; axis.steps];
    let mut last_step = 0;
    for record in records {
        if let Some(step) = axis.step_of(record.time) {
            let bytes = rounded(record.queue_bytes as f64);
            values[step] = Some(values[step].map_or(bytes, |most: f64| most.max(bytes)));
            last_step = last_step.max(step);
        }
    }
    hold(&mut values[..=last_step.min(axis.steps - 1)]);
    values
}

/// The link's sending time in each step as a share of the step. The counter is read at the step's
/// two edges, on straight lines between its samples; a step that reaches outside of them has none.
fn utilisation(axis: &TimeAxis, records: &[&Path]) -> Samples {
    let edges_ns: Vec<u64> = axis.edges_ns().collect();
    let busy_ns: Samples = edges_ns
        .iter()
        .map(|&edge| busy_at(records, edge))
        .collect();
    let step = |i: usize| {
        let busy = busy_ns[i + 1]? - busy_ns[i]?;
        let length_ns = edges_ns[i + 1] - edges_ns[i];
        Some(rounded((busy / length_ns as f64).clamp(0.0, 1.0)))
    };
    (0..axis.steps).map(step).collect()
}

/// The link's sending time until `time_ns`; `None` before the first sample and after the last.
fn busy_at(records: &[&Path], time_ns: u64) -> Option<f64> {
    let after = records.partition_point(|record| record.time.ns() <= time_ns);
    let before = records[..after].last()?;
    let (from_ns, from) = (before.time.ns(), before.busy_ns as f64);
    if from_ns == time_ns {
        return Some(from);
    }
    let next = records.get(after)?;
    let share = (time_ns - from_ns) as f64 / (next.time.ns() - from_ns) as f64;
    Some(from + share * (next.busy_ns as f64 - from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::Window;
    use wansan_trace::Instant;

    /// 600 steps of 1 µs.
    fn axis() -> TimeAxis {
        let window = Window {
            from_ns: 0,
            to_ns: 600_000,
        };
        TimeAxis::new(window, window).unwrap()
    }

    fn path(time_ns: u64, queue_bytes: u64, busy_ns: u64) -> Path {
        Path {
            time: Instant::from_ns(time_ns),
            path: NameId(0),
            queue_packets: 0,
            queue_bytes,
            in_packets: 0,
            in_bytes: 0,
            out_packets: 0,
            out_bytes: 0,
            queue_drops: time_ns / 1_000,
            loss_drops: 0,
            marks: 0,
            busy_ns,
        }
    }

    #[test]
    fn utilisation_is_read_between_samples() {
        // Half busy for 10 µs, then wholly.
        let records = [
            path(0, 0, 0),
            path(10_000, 0, 5_000),
            path(20_500, 0, 15_500),
        ];
        let records: Vec<&Path> = records.iter().collect();
        let shares = utilisation(&axis(), &records);
        assert_eq!(shares[0], Some(0.5));
        assert_eq!(shares[9], Some(0.5));
        assert_eq!(shares[10], Some(1.0));
        assert_eq!(shares[19], Some(1.0));
        // The samples end inside step 20.
        assert_eq!(shares[20], None);
        assert_eq!(grown(&records, |record| record.queue_drops), 20);
    }

    #[test]
    fn queues_keep_their_peaks_and_hold_between_samples() {
        let records = [
            path(0, 10, 0),
            path(400, 70, 0),
            path(800, 20, 0),
            path(3_000, 5, 0),
        ];
        let records: Vec<&Path> = records.iter().collect();
        let depth = greatest(&axis(), &records);
        assert_eq!(
            depth[..5],
            [Some(70.0), Some(70.0), Some(70.0), Some(5.0), None]
        );
    }

    #[test]
    fn samples_outside_the_axis_change_nothing() {
        let outside = [(Instant::from_ns(600_000), 1.0)];
        assert!(
            held(&axis(), outside.into_iter())
                .iter()
                .all(Option::is_none)
        );
        assert_eq!(busy_at(&[], 5), None);
    }
}
