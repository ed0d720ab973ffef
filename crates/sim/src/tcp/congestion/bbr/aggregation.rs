//! ACK aggregation: packets acknowledged beyond what the bandwidth predicts (`bbr_update_ack_aggregation`). As many
//! more must be in flight to keep sending between bursts of acknowledgements.

use super::super::Window;
use super::{BW_DIGITS, Sample, rated};

/// Round trips after which the older of the two maxima is forgotten.
const ROUNDS: u32 = 5;
/// Limit of the packets counted from one start.
const MOST: u32 = 1 << 20;
/// The excess is limited to what the bandwidth delivers in this time.
const LONGEST_US: u64 = 100_000;

/// The recent excess.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Aggregation {
    /// When counting began, in microseconds, and packets acknowledged since.
    since_us: u64,
    acked: u32,
    /// The maximum excess in the current period and in the previous one.
    most: [u32; 2],
    rounds: u32,
}

impl Aggregation {
    /// Restarts counting.
    pub(super) fn begin(&mut self, now_us: u64) {
        self.since_us = now_us;
        self.acked = 0;
    }

    /// Processes an acknowledgement.
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
        // Restart counting when no more are acknowledged than expected.
        if u64::from(self.acked) <= expected || self.acked + sample.acked_sacked >= MOST {
            self.begin(now_us);
            expected = 0;
        }
        self.acked = (self.acked + sample.acked_sacked).min(MOST - 1);
        let excess = u64::from(self.acked).saturating_sub(expected) as u32;
        self.most[0] = self.most[0].max(excess.min(window.cwnd));
    }

    /// Packets to keep in flight beyond those that the path holds (`bbr_ack_aggregation_cwnd`).
    pub(super) fn packets(&self, bandwidth: u32) -> u32 {
        let most = self.most[0].max(self.most[1]);
        u64::from(most).min(packets(bandwidth, LONGEST_US)) as u32
    }
}

/// Packets that a bandwidth delivers in `us` microseconds.
fn packets(bandwidth: u32, us: u64) -> u64 {
    (u64::from(bandwidth) * us) >> BW_DIGITS
}
