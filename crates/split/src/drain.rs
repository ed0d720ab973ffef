//! How fast one side of a flow takes what is to be sent there.

use std::time::Duration;

use wansan_trace::Instant;

use super::Reading;

/// The kernel counts the times of a connection in ticks, of 10 ms at most: over this many they are
/// right to a quarter.
const LEAST_SPAN: Duration = Duration::from_millis(40);

/// The rate of one side, as TCP shows it while it runs.
///
/// A sender that the path holds back sends a window in a round-trip time, which tells the rate at any
/// moment, also of what it could send when there was something. One that its peer's window holds back
/// sends when that opens: only what was taken over some time tells how fast that is.
#[derive(Debug, Default)]
pub(super) struct Drain {
    from: Counted,
    /// What was taken while the peer's window held the sender back, in bytes per second.
    taken_bytes_per_s: Option<u64>,
}

/// Counters of TCP at one moment.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    at: Instant,
    acked_bytes: u64,
    busy_ns: u64,
    held_back_ns: u64,
}

impl Drain {
    /// The rate by what TCP says of the side now, in bytes per second; 0 before the first measurement.
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
    /// How fast bytes were taken until then, if the peer's window was what held them back most of the
    /// time.
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

    /// A side that sends 100 segments of 1000 bytes in 10 ms, with counters.
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
        // Its window is wide open again.
        let now = Instant::from_ns(400_000_000);
        assert_eq!(drain.bytes_per_s(&info(400_000, 400, 300), now), 10_000_000);
    }
}
