//! How full the emulated paths were.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wansan_trace::NameId;
use wansan_trace::event::Path;
use wansan_trace::file::Table;

use crate::window::Window;

/// A path counts as full from this utilisation on.
pub(crate) const FULL_UTILISATION: f64 = 0.95;

/// One direction of one path in the measured window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PathUse {
    /// The path and direction.
    pub path: String,
    /// The share of the time for which the link was sending, 0 to 1.
    pub utilisation: f64,
    /// Mean number of packets waiting for the link.
    pub queue_packets: f64,
    /// Mean number of bytes waiting for the link.
    pub queue_bytes: f64,
    /// Maximum number of packets waiting for the link in any sample.
    pub queue_max_packets: u32,
    /// Bytes delivered per second.
    pub out_bytes_per_s: f64,
    /// Packets dropped by the queue.
    pub queue_drops: u64,
    /// Packets dropped by the loss element.
    pub loss_drops: u64,
    /// Packets marked with ECN CE.
    pub marks: u64,
}

/// The use of all paths with at least two samples in the window, by name.
#[must_use]
pub fn path_use(table: &Table<Path>, window: Window) -> Vec<PathUse> {
    let mut paths: BTreeMap<&str, Vec<&Path>> = BTreeMap::new();
    for row in &table.rows {
        if window.contains(row.record.time.ns()) {
            let name = table.names.get(row.record.path);
            if Path::element(name).1.is_some() {
                continue;
            }
            paths.entry(name).or_default().push(&row.record);
        }
    }
    paths
        .into_iter()
        .filter_map(|(name, samples)| one_path(name, &samples))
        .collect()
}

/// The times at which any path's delay was changed, sorted. A change alters the minimum latency of I/Os.
pub(crate) fn delay_changes_ns(table: &Table<Path>) -> Vec<u64> {
    let mut delays: BTreeMap<NameId, u64> = BTreeMap::new();
    let changed = table.rows.iter().filter_map(|row| {
        let record = &row.record;
        let is_whole = Path::element(table.names.get(record.path)).1.is_none();
        let before = is_whole.then(|| delays.insert(record.path, record.delay_ns))??;
        (before != record.delay_ns).then(|| record.time.ns())
    });
    let mut changed: Vec<u64> = changed.collect();
    changed.sort_unstable();
    changed.dedup();
    changed
}

fn one_path(name: &str, samples: &[&Path]) -> Option<PathUse> {
    let (first, last) = (samples.first()?, samples.last()?);
    let passed_ns = (last.time - first.time).as_nanos() as f64;
    if passed_ns <= 0.0 {
        return None;
    }
    let grown = |counter: fn(&Path) -> u64| counter(last).saturating_sub(counter(first));
    let mean = |value: fn(&Path) -> f64| {
        samples.iter().map(|sample| value(sample)).sum::<f64>() / samples.len() as f64
    };
    Some(PathUse {
        path: name.to_owned(),
        utilisation: (grown(|sample| sample.busy_ns) as f64 / passed_ns).min(1.0),
        queue_packets: mean(|sample| f64::from(sample.queue_packets)),
        queue_bytes: mean(|sample| sample.queue_bytes as f64),
        queue_max_packets: samples.iter().map(|s| s.queue_packets).max().unwrap_or(0),
        out_bytes_per_s: grown(|sample| sample.out_bytes) as f64 * 1e9 / passed_ns,
        queue_drops: grown(|sample| sample.queue_drops),
        loss_drops: grown(|sample| sample.loss_drops),
        marks: grown(|sample| sample.marks),
    })
}
