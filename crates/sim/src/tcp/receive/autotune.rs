//! The receiver's estimates of the RTT and of the data per round trip (dynamic right-sizing: Fisk and Feng, LACSI 2001;
//! `tcp_rcv_rtt_*` and `tcp_rcv_space_adjust` of Linux 6.18).

/// The receiver's RTT estimate.
#[derive(Debug, Default)]
pub(super) struct RoundTrip {
    /// In eighths of a microsecond; 0 before the first sample.
    eighths_us: u64,
    /// The last TSecr; each gives one sample.
    last_echo: u32,
    /// The right edge of the window when a measurement began, and the time of that in microseconds.
    flight: Option<(u64, u64)>,
}

impl RoundTrip {
    /// The estimate in microseconds.
    pub(super) fn us(&self) -> Option<u64> {
        (self.eighths_us != 0).then_some(self.eighths_us >> 3)
    }

    /// Takes a sample by timestamps from a segment that fills `rcv_mss`: the first segment with a new echo arrives a
    /// round trip after the echoed timestamp was sent (`tcp_rcv_rtt_measure_ts`). Less than a millisecond gives no
    /// sample.
    pub(super) fn on_echo(&mut self, now_ms: u32, echo_ms: u32, is_full: bool, is_all_read: bool) {
        if echo_ms == self.last_echo {
            return;
        }
        self.last_echo = echo_ms;
        let delta_ms = now_ms.wrapping_sub(echo_ms);
        // A TSecr in the future, or none, gives a difference that is too large.
        if is_full && delta_ms > 0 && delta_ms < i32::MAX as u32 / 1000 {
            self.update(u64::from(delta_ms) * 1000, false, is_all_read);
        }
    }

    /// Takes a sample without timestamps: a window takes at least a round trip (`tcp_rcv_rtt_measure`).
    pub(super) fn on_data(&mut self, now_us: u64, next: u64, window: u64, is_all_read: bool) {
        match self.flight {
            Some((end, _)) if next < end => return,
            Some((_, since_us)) => self.update((now_us - since_us).max(1), true, is_all_read),
            None => {}
        }
        self.flight = Some((next + window, now_us));
    }

    /// Adopts any smaller sample. Smooths in larger ones only from timestamps, and only if all data was read: an idle
    /// sender inflates window samples, and a slow reader timestamp samples (`tcp_rcv_rtt_update`).
    fn update(&mut self, sample_us: u64, is_by_window: bool, is_all_read: bool) {
        if self.eighths_us == 0 || sample_us << 3 < self.eighths_us {
            self.eighths_us = sample_us << 3;
        } else if !is_by_window && is_all_read {
            self.eighths_us = self.eighths_us - (self.eighths_us >> 3) + sample_us;
        }
    }
}

/// How much data the program reads per round trip (`rcvq_space`).
#[derive(Debug, Default)]
pub(super) struct Demand {
    /// The maximum of all round trips.
    pub(super) bytes: u64,
    /// How far data had been read when the round trip began, and the time of that in microseconds.
    copied: u64,
    since_us: u64,
}

impl Demand {
    /// Begins the first round trip, with an initial demand of `bytes`.
    pub(super) fn begin(bytes: u64, copied: u64, now_us: u64) -> Self {
        Demand {
            bytes,
            copied,
            since_us: now_us,
        }
    }

    /// The program has read up to `copied`, with `unread` bytes left: returns the data of a round trip when it is over
    /// and exceeds all before. Unread bytes are subtracted, since a reader that falls behind needs no larger buffer.
    pub(super) fn on_read(
        &mut self,
        now_us: u64,
        round_trip_us: u64,
        copied: u64,
        unread: u64,
    ) -> Option<u64> {
        if now_us - self.since_us < round_trip_us {
            return None;
        }
        let brought = (copied - self.copied).saturating_sub(unread);
        self.copied = copied;
        self.since_us = now_us;
        (brought > self.bytes).then_some(brought)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_smoothed_by_eighths_and_each_echo_counts_once() {
        let mut trip = RoundTrip::default();
        trip.on_echo(1100, 1000, true, true);
        assert_eq!(trip.us(), Some(100_000));
        trip.on_echo(1300, 1000, true, true);
        assert_eq!(trip.us(), Some(100_000));
        trip.on_echo(1380, 1200, true, true);
        assert_eq!(trip.us(), Some(110_000));
        trip.on_echo(1700, 1300, true, false);
        assert_eq!(
            trip.us(),
            Some(110_000),
            "what waits to be read makes the sample doubtful"
        );
        trip.on_echo(1390, 1370, true, true);
        assert_eq!(trip.us(), Some(20_000));
        trip.on_echo(1390, 1390, true, true);
        trip.on_echo(5000, 9000, true, true);
        trip.on_echo(1400, 1395, false, true);
        assert_eq!(trip.us(), Some(20_000));
    }

    #[test]
    fn without_timestamps_a_window_is_a_round_trip_and_the_least_counts() {
        let mut trip = RoundTrip::default();
        trip.on_data(0, 1, 1000, true);
        trip.on_data(5_000, 1000, 1000, true);
        assert_eq!(trip.us(), None);
        trip.on_data(10_000, 1001, 1000, true);
        assert_eq!(trip.us(), Some(10_000));
        trip.on_data(60_000, 2001, 1000, true);
        assert_eq!(trip.us(), Some(10_000));
        trip.on_data(67_000, 3001, 1000, true);
        assert_eq!(trip.us(), Some(7_000));
    }

    #[test]
    fn demand_is_what_a_round_trip_brought_less_what_waits() {
        let mut demand = Demand::begin(100, 0, 0);
        assert_eq!(demand.on_read(9, 10, 1000, 0), None);
        assert_eq!(demand.on_read(10, 10, 1000, 300), Some(700));
        assert_eq!(demand.on_read(20, 10, 1100, 0), None);
    }
}
