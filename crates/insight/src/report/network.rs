//! TCP and path records on a cell's time axis.

use std::collections::{BTreeMap, BTreeSet};

use wansan_trace::event::{Path, Tcp};
use wansan_trace::file::Table;
use wansan_trace::{ConnectionId, NameId, SessionId};

use super::time_axis::{Steps, rounded};
use super::{ConnectionSamples, CutMark, PathSamples, Samples};
use crate::congestion::{self, Cut};

/// Maximum number of sending ends shown: more lines would be indistinguishable.
const MAX_CONNECTIONS: usize = 16;
/// Number of the busiest ends for which ssthresh and segments in flight are shown too.
const MAX_DETAILED: usize = 4;
/// Maximum number of window cuts shown per end.
const MAX_CUTS: usize = 300;
/// Maximum number of path directions shown.
const MAX_PATHS: usize = 16;
/// An end with less than this share of the busiest end's acknowledged bytes does not fill its window, so it is shown
/// only if its window was cut.
const MIN_SHARE: f64 = 0.05;

/// One end of a connection: the host that recorded it, its session and its CID.
type End = (NameId, SessionId, ConnectionId);

/// The sending ends, busiest first, and how many were left out.
pub(super) fn connections(tcp: &Table<Tcp>, steps: &Steps) -> (Vec<ConnectionSamples>, usize) {
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
    ends.retain(|(_, records)| {
        acked(records) as f64 >= least || congestion::cuts(records).next().is_some()
    });
    ends.truncate(MAX_CONNECTIONS);
    let several = |session| {
        let same = ends.iter().filter(|((_, other, _), _)| *other == session);
        same.map(|((.., connection), _)| connection)
            .collect::<BTreeSet<_>>()
            .len()
            > 1
    };
    let shown = ends
        .iter()
        .enumerate()
        .map(|(place, ((host, session, connection), records))| {
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
            let detail = |value: &dyn Fn(&Tcp) -> Option<u32>| {
                if place < MAX_DETAILED {
                    extremes(steps, records, value)
                } else {
                    Samples::new()
                }
            };
            let mut cuts: Vec<CutMark> = congestion::cuts(records)
                .map(|(time_ns, cut)| CutMark {
                    at_s: steps.seconds(time_ns),
                    why: match cut {
                        Cut::Cwr => "cwr",
                        Cut::Recovery => "recovery",
                        Cut::Loss => "loss",
                    }
                    .to_owned(),
                })
                .collect();
            cuts.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
            ConnectionSamples {
                name: format!("{here} to {peer}{cid}"),
                cwnd_packets: extremes(steps, records, |record| Some(record.cwnd_packets)),
                ssthresh_packets: detail(&|record| record.threshold_packets()),
                in_flight_packets: detail(&|record| Some(record.in_flight_packets)),
                cuts_left_out: cuts.len().saturating_sub(MAX_CUTS),
                cuts: cuts.into_iter().take(MAX_CUTS).collect(),
                retransmits: grown(records, |record| u64::from(record.retransmits)),
            }
        });
    let shown: Vec<ConnectionSamples> = shown.collect();
    let left_out = all - shown.len();
    (shown, left_out)
}

/// The paths' directions, by name.
pub(super) fn paths(path: &Table<Path>, steps: &Steps) -> Vec<PathSamples> {
    let mut directions: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for row in &path.rows {
        let name = path.names.get(row.record.path);
        if Path::element(name).1.is_some() {
            continue;
        }
        directions.entry(name).or_default().push(&row.record);
    }
    let shown = directions.into_iter().take(MAX_PATHS);
    shown
        .map(|(name, records)| PathSamples {
            name: name.to_owned(),
            queue_bytes: greatest(steps, &records),
            utilisation: utilisation(steps, &records),
            queue_drops: grown(&records, |record| record.queue_drops),
            loss_drops: grown(&records, |record| record.loss_drops),
        })
        .collect()
}

/// The growth of a counter over the records.
fn grown<T>(records: &[&T], counter: impl Fn(&T) -> u64) -> u64 {
    match records {
        [first, .., last] => counter(last).saturating_sub(counter(first)),
        _ => 0,
    }
}

/// The sampled values from the first sample to the last. Of the samples in each pair of steps, the minimum and the
/// maximum are kept, in their order, so that no peak is lost.
fn extremes(steps: &Steps, records: &[&Tcp], value: impl Fn(&Tcp) -> Option<u32>) -> Samples {
    let mut values: Samples = vec![None; steps.count];
    let mut last_step = 0;
    let inside = records.iter().filter_map(|record| {
        let step = steps.step_of(record.time)?;
        Some((step, value(record).map(f64::from)))
    });
    let inside: Vec<(usize, Option<f64>)> = inside.collect();
    for pair in inside.chunk_by(|a, b| a.0 / 2 == b.0 / 2) {
        let set = || {
            pair.iter()
                .filter_map(|(step, value)| Some((*step, (*value)?)))
        };
        let least = set().enumerate().min_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let greatest = set().enumerate().max_by(|a, b| a.1.1.total_cmp(&b.1.1));
        let (Some((i, (step, least))), Some((j, (_, greatest)))) = (least, greatest) else {
            continue;
        };
        let first = step / 2 * 2;
        if i == j {
            values[step] = Some(least);
            last_step = last_step.max(step);
        } else {
            let (former, latter) = if i < j {
                (least, greatest)
            } else {
                (greatest, least)
            };
            values[first] = Some(former);
            last_step = last_step.max(first);
            if let Some(second) = values.get_mut(first + 1) {
                *second = Some(latter);
                last_step = first + 1;
            }
        }
    }
    if let Some(seen) = values.get_mut(..=last_step) {
        hold(seen);
    }
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

/// The maximum queue depth in each step; between samples the last one applies.
fn greatest(steps: &Steps, records: &[&Path]) -> Samples {
    let mut values: Samples = vec![None; steps.count];
    let mut last_step = 0;
    for record in records {
        if let Some(step) = steps.step_of(record.time) {
            let bytes = rounded(record.queue_bytes as f64);
            values[step] = Some(values[step].map_or(bytes, |most: f64| most.max(bytes)));
            last_step = last_step.max(step);
        }
    }
    hold(&mut values[..=last_step.min(steps.count - 1)]);
    values
}

/// The share of each step in which the link was sending. The counter is interpolated linearly at the step's two edges;
/// a step that extends beyond the samples has no value.
fn utilisation(steps: &Steps, records: &[&Path]) -> Samples {
    let edges_ns: Vec<u64> = steps.edges_ns().collect();
    let busy_ns: Samples = edges_ns
        .iter()
        .map(|&edge| busy_at(records, edge))
        .collect();
    let step = |i: usize| {
        let busy = busy_ns[i + 1]? - busy_ns[i]?;
        let length_ns = edges_ns[i + 1] - edges_ns[i];
        Some(rounded((busy / length_ns as f64).clamp(0.0, 1.0)))
    };
    (0..steps.count).map(step).collect()
}

/// The link's cumulative sending time at `time_ns`; `None` before the first sample and after the last.
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
    fn axis() -> Steps {
        let window = Window {
            from_ns: 0,
            to_ns: 600_000,
        };
        Steps::new(600, window, window).unwrap()
    }

    fn path(time_ns: u64, queue_bytes: u64, busy_ns: u64) -> Path {
        Path {
            time: Instant::from_ns(time_ns),
            path: NameId(0),
            queue_bytes,
            queue_drops: time_ns / 1_000,
            busy_ns,
            ..Path::BLANK
        }
    }

    fn tcp(time_ns: u64, cwnd_packets: u32) -> Tcp {
        Tcp {
            time: Instant::from_ns(time_ns),
            session: SessionId(1),
            cwnd_packets,
            ssthresh_packets: i32::MAX as u32,
            mss_bytes: 1448,
            ..Tcp::BLANK
        }
    }

    #[test]
    fn utilisation_is_read_between_samples() {
        // Half busy for 10 µs, then fully busy.
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
        let outside = [tcp(600_000, 1)];
        let outside: Vec<&Tcp> = outside.iter().collect();
        let values = extremes(&axis(), &outside, |record| Some(record.cwnd_packets));
        assert!(values.iter().all(Option::is_none));
        assert_eq!(busy_at(&[], 5), None);
    }

    #[test]
    fn two_steps_keep_the_least_and_the_greatest_of_many_samples() {
        // A spike in steps 0 and 1, one sample in step 3, a drop in steps 4 and 5.
        let samples: Vec<Tcp> = [
            (100, 10),
            (500, 90),
            (900, 12),
            (1_500, 11),
            (3_200, 30),
            (4_100, 50),
            (4_200, 20),
        ]
        .map(|(time_ns, cwnd)| tcp(time_ns, cwnd))
        .into();
        let samples: Vec<&Tcp> = samples.iter().collect();
        let values = extremes(&axis(), &samples, |record| Some(record.cwnd_packets));
        let kept = [10.0, 90.0, 90.0, 30.0, 50.0, 20.0].map(Some);
        assert_eq!(values[..6], kept);
        assert_eq!(values[6], None);
        let unset = extremes(&axis(), &samples, |_| None);
        assert!(unset.iter().all(Option::is_none));
    }
}
