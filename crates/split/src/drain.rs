//! The rate at which one side of a flow drains.

use std::time::Duration;

use wansan_trace::Instant;

use super::Reading;

/// The kernel counts a connection's busy and limited times in ticks of at most 10 ms; over this span they are accurate
/// to within a quarter.
const LEAST_SPAN: Duration = Duration::from_millis(40);

/// The drain rate of one side, estimated from TCP's state.
///
/// A congestion-limited sender sends one window per round trip, so its rate is known at any time, even while it has
/// nothing to send. A receive-window-limited sender sends when the window opens, so its rate has to be measured from
/// the bytes acknowledged over some time.
#[derive(Debug, Default)]
pub(super) struct Drain {
    from: Counted,
    /// Rate while limited by the peer's receive window, in bytes per second.
    taken_bytes_per_s: Option<u64>,
}

/// Snapshot of TCP's counters.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    at: Instant,
    acked_bytes: u64,
    busy_ns: u64,
    held_back_ns: u64,
}

impl Drain {
    /// The current rate from TCP's state of the side, in bytes per second; 0 before the first measurement.
    pub(super) fn bytes_per_s(&mut self, info: &Reading, now: Instant) -> u64 {
        let counted = Counted {
            at: now,
            acked_bytes: info.acked_bytes,
            busy_ns: info.busy_ns,
            held_back_ns: info.rwnd_limited_ns,
        };
        let span = LEAST_SPAN.max(Duration::from_nanos(info.srtt_ns));
        if now.since(self.from.at) >= span {
            self.taken_bytes_per_s = self.from.taken_until(&counted);
            self.from = counted;
        }
        self.taken_bytes_per_s
            .unwrap_or_else(|| info.sending_bytes_per_s())
    }
}

impl Counted {
    /// The rate at which bytes were acknowledged between the two snapshots, if the sender was limited by the peer's
    /// window for at least half of its busy time.
    fn taken_until(&self, then: &Counted) -> Option<u64> {
        let busy = then.busy_ns.saturating_sub(self.busy_ns);
        let held_back = then.held_back_ns.saturating_sub(self.held_back_ns);
        let is_held_back = held_back > 0 && 2 * held_back >= busy;
        let bytes = u128::from(then.acked_bytes.saturating_sub(self.acked_bytes));
        let span = then.at.since(self.at).as_nanos().max(1);
        is_held_back.then(|| u64::try_from(bytes * 1_000_000_000 / span).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A side with a window of 100 segments of 1000 bytes and a round trip of 10 ms, with the given counters.
    fn info(acked_bytes: u64, busy_ms: u64, held_back_ms: u64) -> Reading {
        Reading {
            cwnd_packets: 100,
            mss_bytes: 1000,
            srtt_ns: 10_000_000,
            peer_window_bytes: 1 << 20,
            pacing_bytes_per_s: u64::MAX,
            acked_bytes,
            busy_ns: busy_ms * 1_000_000,
            rwnd_limited_ns: held_back_ms * 1_000_000,
            ..Reading::default()
        }
    }

    #[test]
    fn a_path_drains_a_window_in_a_round_trip() {
        let mut drain = Drain::default();
        for ms in [1, 50, 100, 150] {
            let now = Instant::from_ns(ms * 1_000_000);
            assert_eq!(drain.bytes_per_s(&info(ms * 10, ms, 0), now), 10_000_000);
        }
    }

    #[test]
    fn a_slow_reader_drains_what_it_takes() {
        let mut drain = Drain::default();
        for ms in [100, 200, 300] {
            let now = Instant::from_ns(ms * 1_000_000);
            let rate = drain.bytes_per_s(&info(ms * 1000, ms, ms), now);
            if ms > 100 {
                assert_eq!(rate, 1_000_000);
            }
        }
        // The peer's window no longer limits it.
        let now = Instant::from_ns(400_000_000);
        assert_eq!(drain.bytes_per_s(&info(400_000, 400, 300), now), 10_000_000);
    }
}
