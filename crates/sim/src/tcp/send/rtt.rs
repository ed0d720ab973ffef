//! RTT estimation and the retransmission timeout (RFC 6298, as in `tcp_rtt_estimator`), in microseconds.

/// The minimum retransmission timeout (TCP_RTO_MIN).
pub(super) const RTO_MIN_US: u64 = 200_000;

/// The maximum retransmission timeout (TCP_RTO_MAX).
pub(super) const RTO_MAX_US: u64 = 120_000_000;

/// Margin added to the tail loss probe and reordering timers (TCP_TIMEOUT_MIN_US).
pub(super) const TIMEOUT_MIN_US: u64 = 2_000;

/// The timeout before the first RTT sample (TCP_TIMEOUT_INIT; RFC 6298 §2.1).
pub(super) const RTO_INITIAL_US: u64 = 1_000_000;

/// How long the minimum RTT is remembered (`tcp_min_rtt_wlen`).
const MIN_RTT_NS: u64 = 300_000_000_000;

/// The state of the RTT estimator.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RoundTrips {
    /// Eight times the smoothed RTT; 0 before the first sample.
    srtt8_us: u64,
    /// Four times the mean deviation.
    mdev4_us: u64,
    /// Its maximum in this round trip.
    mdev_max_us: u64,
    /// Four times the deviation that the timeout uses.
    rttvar_us: u64,
    /// The sequence number that ends this round trip.
    round_end: u64,
    /// Timeouts in a row.
    pub(super) backoff: u32,
    least: WindowedMin,
}

impl RoundTrips {
    /// The smoothed RTT, 0 before the first sample.
    #[must_use]
    pub(super) fn smoothed_us(&self) -> u64 {
        self.srtt8_us >> 3
    }

    /// The same in nanoseconds, with the fraction of a microsecond that the kernel keeps.
    #[must_use]
    pub(super) fn smoothed_ns(&self) -> u64 {
        self.srtt8_us * 125
    }

    /// The minimum RTT of the last five minutes.
    #[must_use]
    pub(super) fn least_us(&self) -> Option<u64> {
        self.least.get()
    }

    /// The retransmission timeout without backoff.
    #[must_use]
    pub(super) fn timeout_us(&self) -> u64 {
        match self.srtt8_us {
            0 => RTO_INITIAL_US,
            srtt8 => ((srtt8 >> 3) + self.rttvar_us).min(RTO_MAX_US),
        }
    }

    /// The retransmission timeout after `backoff` timeouts in a row.
    #[must_use]
    pub(super) fn backed_off_us(&self) -> u64 {
        let timeout = self.timeout_us();
        timeout
            .checked_shl(self.backoff.min(32))
            .map_or(RTO_MAX_US, |backed| backed.clamp(timeout, RTO_MAX_US))
    }

    /// Takes an RTT sample, and that of the newest packet for the minimum, with SND.UNA and SND.NXT at that time.
    pub(super) fn measure(
        &mut self,
        now_ns: u64,
        rtt_us: u64,
        newest_us: u64,
        una: u64,
        next: u64,
    ) {
        self.backoff = 0;
        self.least.update(now_ns, MIN_RTT_NS, newest_us.max(1));
        let rtt = rtt_us.max(1);
        if self.srtt8_us == 0 {
            // RFC 6298 (2.2), with the minimum RTO as a floor of the deviation.
            self.srtt8_us = rtt << 3;
            self.mdev4_us = rtt << 1;
            self.rttvar_us = self.mdev4_us.max(RTO_MIN_US);
            self.mdev_max_us = self.rttvar_us;
            self.round_end = next;
            return;
        }
        // SRTT ← 7/8 SRTT + 1/8 R, scaled by 8 (RFC 6298 (2.3)).
        let error = rtt as i64 - (self.srtt8_us >> 3) as i64;
        self.srtt8_us = self.srtt8_us.saturating_add_signed(error).max(1);
        // Lest a falling RTT raise the timeout, the deviation then rises by only a thirty-second of the excess error.
        let mut error = if error < 0 {
            let apart = -error - (self.mdev4_us >> 2) as i64;
            if apart > 0 { apart >> 3 } else { apart }
        } else {
            error - (self.mdev4_us >> 2) as i64
        };
        error = error.max(-(self.mdev4_us as i64));
        self.mdev4_us = self.mdev4_us.saturating_add_signed(error);
        if self.mdev4_us > self.mdev_max_us {
            self.mdev_max_us = self.mdev4_us;
            self.rttvar_us = self.rttvar_us.max(self.mdev_max_us);
        }
        // It may decrease once per round trip.
        if una > self.round_end {
            if self.mdev_max_us < self.rttvar_us {
                self.rttvar_us -= (self.rttvar_us - self.mdev_max_us) >> 2;
            }
            self.round_end = next;
            self.mdev_max_us = RTO_MIN_US;
        }
    }
}

/// The minimum over a span of time, by its three best candidates (lib/win_minmax.c).
#[derive(Debug, Clone, Copy, Default)]
struct WindowedMin {
    /// The time in nanoseconds and the value of each, best first.
    best: [(u64, u64); 3],
    is_set: bool,
}

impl WindowedMin {
    fn get(&self) -> Option<u64> {
        self.is_set.then_some(self.best[0].1)
    }

    fn update(&mut self, now_ns: u64, span_ns: u64, value: u64) {
        let seen = (now_ns, value);
        if !self.is_set || value <= self.best[0].1 || now_ns - self.best[2].0 > span_ns {
            self.best = [seen; 3];
            self.is_set = true;
            return;
        }
        if value <= self.best[1].1 {
            self.best[1] = seen;
            self.best[2] = seen;
        } else if value <= self.best[2].1 {
            self.best[2] = seen;
        }
        let age = now_ns - self.best[0].0;
        if age > span_ns {
            self.best = [self.best[1], self.best[2], seen];
            if now_ns - self.best[0].0 > span_ns {
                self.best = [self.best[1], self.best[2], seen];
            }
        } else if self.best[1].0 == self.best[0].0 && age > span_ns / 4 {
            self.best[1] = seen;
            self.best[2] = seen;
        } else if self.best[2].0 == self.best[1].0 && age > span_ns / 2 {
            self.best[2] = seen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_round_trip_sets_all() {
        let mut trips = RoundTrips::default();
        assert_eq!(trips.timeout_us(), RTO_INITIAL_US);
        trips.measure(0, 40_000, 40_000, 1, 100);
        assert_eq!(trips.smoothed_us(), 40_000);
        assert_eq!(trips.timeout_us(), 40_000 + RTO_MIN_US);
    }

    #[test]
    fn a_steady_round_trip_times_out_200_ms_after_it() {
        let mut trips = RoundTrips::default();
        for turn in 0..1_000 {
            trips.measure(
                turn * 100_000_000,
                100_000,
                100_000,
                turn * 10 + 1,
                turn * 10 + 10,
            );
        }
        assert_eq!(trips.smoothed_us(), 100_000);
        let timeout = trips.timeout_us();
        assert!((300_000..301_000).contains(&timeout), "{timeout}");
    }

    #[test]
    fn timeouts_in_a_row_double_to_two_minutes() {
        let mut trips = RoundTrips::default();
        trips.measure(0, 100_000, 100_000, 1, 2);
        let once = trips.timeout_us();
        for backoff in 0..40 {
            trips.backoff = backoff;
            let expected = (u128::from(once) << backoff).min(u128::from(RTO_MAX_US));
            assert_eq!(u128::from(trips.backed_off_us()), expected);
        }
    }

    #[test]
    fn the_least_is_forgotten_after_five_minutes() {
        let mut least = WindowedMin::default();
        least.update(0, MIN_RTT_NS, 10);
        for second in 1..=300 {
            least.update(second * 1_000_000_000, MIN_RTT_NS, 20);
            assert_eq!(least.get(), Some(10));
        }
        least.update(302_000_000_000, MIN_RTT_NS, 20);
        assert_eq!(least.get(), Some(20));
    }
}
