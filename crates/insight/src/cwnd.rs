//! The congestion windows of a cell's main data sender: the swing of each, and their sum.

use std::collections::BTreeMap;

use wansan_schema::CwndUse;
use wansan_trace::event::{Tcp, TcpEvent};
use wansan_trace::file::Table;
use wansan_trace::{ConnectionId, SessionId};

use crate::transport::TransportUse;
use crate::window::Window;

/// Summarizes the congestion windows of the host that sent the most; `None` if nothing was sampled. `transport` must
/// cover the same window.
#[must_use]
pub fn cwnd_use(table: &Table<Tcp>, transport: &[TransportUse], window: Window) -> Option<CwndUse> {
    let sender = &transport.iter().max_by_key(|end| end.acked_bytes)?.host;
    let ends: Vec<&TransportUse> = transport.iter().filter(|end| end.host == *sender).collect();
    let samples = table.rows.iter().filter(|row| {
        table.names.get(row.host) == sender
            && row.record.event == TcpEvent::Sample
            && window.contains(row.record.time.ns())
    });
    let mut windows: BTreeMap<(SessionId, ConnectionId), Swing> = BTreeMap::new();
    let mut sum_max_packets = 0;
    for sample in samples.map(|row| &row.record) {
        let swing = windows
            .entry((sample.session, sample.connection))
            .or_insert(Swing::NONE);
        swing.see(u64::from(sample.cwnd_packets));
        let sum = windows.values().map(|swing| swing.now).sum();
        sum_max_packets = sum_max_packets.max(sum);
    }
    let swings: Vec<f64> = windows.values().map(Swing::share).collect();
    let sum = |events: fn(&TransportUse) -> u64| ends.iter().map(|end| events(end)).sum();
    (!swings.is_empty()).then(|| CwndUse {
        connections: windows.len() as u64,
        sum_max_packets,
        sum_mean_packets: Some(windows.values().map(Swing::mean).sum()),
        least_swing: swings.iter().copied().fold(1.0, f64::min),
        most_swing: swings.iter().copied().fold(0.0, f64::max),
        cwr_events: sum(|end| end.cwr_events),
        recovery_events: sum(|end| end.recovery_events),
        loss_events: sum(|end| end.loss_events),
    })
}

/// The range of one congestion window.
#[derive(Debug, Clone, Copy)]
struct Swing {
    now: u64,
    least: u64,
    most: u64,
    sum: u64,
    samples: u64,
}

impl Swing {
    const NONE: Swing = Swing {
        now: 0,
        least: u64::MAX,
        most: 0,
        sum: 0,
        samples: 0,
    };

    fn see(&mut self, packets: u64) {
        self.now = packets;
        self.least = self.least.min(packets);
        self.most = self.most.max(packets);
        self.sum += packets;
        self.samples += 1;
    }

    /// The mean of the samples, which are taken at equal intervals.
    fn mean(&self) -> f64 {
        self.sum as f64 / self.samples.max(1) as f64
    }

    fn share(&self) -> f64 {
        1.0 - self.least as f64 / self.most.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_window_does_not_swing() {
        let mut swing = Swing::NONE;
        swing.see(350);
        swing.see(350);
        assert_eq!(swing.share(), 0.0);
        swing.see(245);
        assert!((swing.share() - 0.3).abs() < 1e-9);
        assert_eq!(swing.mean(), 315.0);
    }
}
