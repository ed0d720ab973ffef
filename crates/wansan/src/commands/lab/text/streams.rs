//! Results of streams and relays, per cell.

use wansan_relay::Fallback;
use wansan_schema::CellResult;

use super::{megabits, milliseconds};
use crate::commands::grid::{grid, right};

/// A row for each stream and each relay of each cell; empty without any.
pub(super) fn tables(cells: &[&CellResult]) -> String {
    [streams(cells), relays(cells)].concat()
}

fn streams(cells: &[&CellResult]) -> String {
    if cells.iter().all(|cell| cell.streams.is_empty()) {
        return String::new();
    }
    let mut table = grid([
        "cell",
        "stream",
        "through",
        "flows",
        "Mbit/s",
        "per\nflow",
        "fair-\nness",
        "p50\nms",
        "p99\nms",
        "one way\np50 ms",
        "one way\np99 ms",
        "back in\nslow start",
    ]);
    for cell in cells {
        for (name, stream) in &cell.streams {
            let time = |ns: Option<u64>| ns.map_or_else(String::new, milliseconds);
            let rate = |known: Option<f64>| known.map_or_else(String::new, megabits);
            table.add_row([
                cell.cell.to_string(),
                name.clone(),
                stream.through.clone().unwrap_or_default(),
                stream.flows.len().to_string(),
                rate(stream.bytes_per_s),
                rate(stream.flow_bytes_per_s),
                stream
                    .fairness
                    .map_or_else(String::new, |fairness| format!("{fairness:.3}")),
                time(stream.latency_p50_ns),
                time(stream.latency_p99_ns),
                time(stream.one_way_p50_ns),
                time(stream.one_way_p99_ns),
                stream.slow_start_returns.to_string(),
            ]);
        }
    }
    right(&mut table, 3..12);
    format!("{table}\n")
}

fn relays(cells: &[&CellResult]) -> String {
    if cells.iter().all(|cell| cell.relays.is_empty()) {
        return String::new();
    }
    let mut table = grid([
        "cell",
        "relay",
        "onward\nMB",
        "back\nMB",
        "backlog\nmean kB",
        "p99\nkB",
        "mean\nms",
        "p99\nms",
        "law",
        "ECE",
        "no ECN",
        "power-\nless",
        "flows\nlost",
    ]);
    let shown = |value: Option<f64>, unit: f64| {
        value.map_or_else(String::new, |value| format!("{:.1}", value / unit))
    };
    for cell in cells {
        for (name, relay) in &cell.relays {
            let fallbacks = |reason: Fallback| {
                let count = relay.fallbacks.get(reason.name());
                count.map_or_else(String::new, u64::to_string)
            };
            table.add_row([
                cell.cell.to_string(),
                name.clone(),
                format!("{:.1}", relay.onward_bytes as f64 / 1e6),
                format!("{:.1}", relay.back_bytes as f64 / 1e6),
                shown(relay.backlog_mean_bytes, 1e3),
                shown(relay.backlog_p99_bytes.map(|bytes| bytes as f64), 1e3),
                shown(relay.backlog_mean_ns, 1e6),
                shown(relay.backlog_p99_ns, 1e6),
                relay.law.clone().unwrap_or_default(),
                relay
                    .ece_signals
                    .map_or_else(String::new, |count| count.to_string()),
                fallbacks(Fallback::NoEcn),
                fallbacks(Fallback::Powerless),
                relay.lost.to_string(),
            ]);
        }
    }
    right(&mut table, 2..8);
    right(&mut table, 9..13);
    format!("{table}\n")
}
