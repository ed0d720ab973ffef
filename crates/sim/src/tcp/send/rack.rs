//! RACK loss detection (RFC 8985, `tcp_rack_*`): a packet is lost when one sent later has arrived, and a round trip and
//! a reordering window have passed since it was sent.

use super::scoreboard::{Id, Packet, Scoreboard};

/// Recoveries without a DSACK after which the reordering window is reset (TCP_RACK_RECOVERY_THRESH).
const PERSIST: u8 = 16;

/// The most recently sent packet that has arrived, and the state of the reordering window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rack {
    sent_ns: u64,
    end: u64,
    rtt_us: u64,
    /// Whether it has changed since the last loss detection.
    pub(super) advanced: bool,
    /// The reordering window in quarters of the minimum RTT.
    steps: u8,
    /// Recoveries until `steps` is reset.
    persist: u8,
    /// Packets delivered when a DSACK last enlarged the window.
    grown_at: u32,
}

impl Default for Rack {
    fn default() -> Self {
        Rack {
            sent_ns: 0,
            end: 0,
            rtt_us: 0,
            advanced: false,
            steps: 1,
            persist: 0,
            grown_at: 0,
        }
    }
}

/// What the reordering window depends on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reordering {
    /// Whether reordering was ever seen.
    pub(super) is_seen: bool,
    /// Whether a recovery is in progress.
    pub(super) in_recovery: bool,
    /// The reordering degree in packets (`tp->reordering`).
    pub(super) packets: u32,
    /// The minimum RTT.
    pub(super) least_us: Option<u64>,
    /// The smoothed RTT.
    pub(super) smoothed_us: u64,
}

fn is_sent_after(sent_ns: u64, other_ns: u64, end: u64, other_end: u64) -> bool {
    sent_ns > other_ns || (sent_ns == other_ns && end > other_end)
}

impl Rack {
    /// Notes a packet that has arrived (RFC 8985 §6.2 steps 1 and 2).
    pub(super) fn arrived(&mut self, now_ns: u64, packet: &Packet, least_us: Option<u64>) {
        let rtt_us = now_ns.saturating_sub(packet.sent_ns) / 1_000;
        // The original may have arrived, not the retransmission.
        if packet.was_resent && least_us.is_some_and(|least| rtt_us < least) {
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt_us;
        if is_sent_after(packet.sent_ns, self.sent_ns, packet.end(), self.end) {
            self.sent_ns = packet.sent_ns;
            self.end = packet.end();
        }
    }

    /// The reordering window in microseconds (§6.2 step 4).
    #[must_use]
    pub(super) fn window_us(&self, reordering: &Reordering, sacked: u32) -> u64 {
        if !reordering.is_seen && (reordering.in_recovery || sacked >= reordering.packets) {
            return 0;
        }
        let Some(least) = reordering.least_us else {
            return 1_000;
        };
        ((least >> 2) * u64::from(self.steps)).min(reordering.smoothed_us)
    }

    /// A DSACK enlarges the window, once per round trip; `PERSIST` recoveries without one reset it.
    pub(super) fn adapt(&mut self, dsack: bool, prior_delivered: u32, delivered: u32) {
        let is_of_this_round = prior_delivered.wrapping_sub(self.grown_at) as i32 >= 0;
        if dsack && is_of_this_round {
            self.steps = self.steps.saturating_add(1);
            self.grown_at = delivered;
            self.persist = PERSIST;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// Notes that a recovery has ended.
    pub(super) fn recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
    }

    /// Time until a packet counts as lost, 0 if it does now (`tcp_rack_skb_timeout`), in microseconds.
    #[must_use]
    pub(super) fn left_us(&self, now_ns: u64, packet: &Packet, window_us: u64) -> u64 {
        let age = now_ns.saturating_sub(packet.sent_ns) / 1_000;
        (self.rtt_us + window_us).saturating_sub(age)
    }

    /// Marks lost packets (§6.2 step 5); returns how many are newly lost, and the time until others may be, in
    /// microseconds.
    pub(super) fn detect(
        &self,
        now_ns: u64,
        board: &mut Scoreboard,
        window_us: u64,
    ) -> (u32, Option<u64>) {
        let (mut lost, mut wait) = (0, None);
        let mut next: Option<Id> = board.oldest();
        while let Some(id) = next {
            next = board.sent_after(id);
            let Some(packet) = board.get(id) else { break };
            if !is_sent_after(self.sent_ns, packet.sent_ns, self.end, packet.end()) {
                break;
            }
            match self.left_us(now_ns, packet, window_us) {
                0 => lost += u32::from(board.lose(id)),
                left => wait = wait.max(Some(left)),
            }
        }
        (lost, wait)
    }
}
