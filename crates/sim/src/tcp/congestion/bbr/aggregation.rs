//! How many packets come acknowledged at once beyond what the bandwidth lets expect (`bbr_update_ack_aggregation`):
//! so many more must be in flight to send on in the silence between.

use super::super::Window;
use super::{BW_DIGITS, Sample, rated};

/// Round trips after which one of the two maxima is forgotten.
const ROUNDS: u32 = 5;
/// The most packets that are counted from one start.
const MOST: u32 = 1 << 20;
/// At most what the bandwidth delivers in so long.
const LONGEST_US: u64 = 100_000;

/// The excess of late.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Aggregation {
    /// When counting began, in microseconds, and packets since.
    since_us: u64,
    acked: u32,
    /// The largest excess of this time and of the one before.
    most: [u32; 2],
    rounds: u32,
}

impl Aggregation {
    /// Counts from now.
    pub(super) fn begin(&mut self, now_us: u64) {
        self.since_us = now_us;
        self.acked = 0;
    }

    /// Takes an acknowledgement into account.
    pub(super) fn update(
        &mut self,
        window: &Window,
        sample: &Sample,
        is_round_start: bool,
        bandwidth: u32,
    ) {
        if sample.acked_sacked == 0 || rated(sample).is_none() {
            return;
        }
        if is_round_start {
            self.rounds += 1;
            if self.rounds >= ROUNDS {
                self.rounds = 0;
                self.most = [0, self.most[0]];
            }
        }
        let now_us = window.delivered_ns / 1_000;
        let mut expected = packets(bandwidth, now_us.saturating_sub(self.since_us));
        // Counting begins anew where fewer come than expected.
        if u64::from(self.acked) <= expected || self.acked + sample.acked_sacked >= MOST {
            self.begin(now_us);
            expected = 0;
        }
        self.acked = (self.acked + sample.acked_sacked).min(MOST - 1);
        let excess = u64::from(self.acked).saturating_sub(expected) as u32;
        self.most[0] = self.most[0].max(excess.min(window.cwnd));
    }

    /// Packets to have in flight beyond those that the path holds (`bbr_ack_aggregation_cwnd`).
    pub(super) fn packets(&self, bandwidth: u32) -> u32 {
        let most = self.most[0].max(self.most[1]);
        u64::from(most).min(packets(bandwidth, LONGEST_US)) as u32
    }
}

/// Packets that a bandwidth delivers in some microseconds.
fn packets(bandwidth: u32, us: u64) -> u64 {
    (u64::from(bandwidth) * us) >> BW_DIGITS
}
