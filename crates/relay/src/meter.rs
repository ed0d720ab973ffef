//! Counters of a thread.

use wansan_split::Fallback;

use crate::error::ConnectError;

/// Counters of flows, since the relay began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meter {
    /// Accepted connections.
    pub accepted: u64,
    /// Accepted connections from addresses outside the listener's networks; they were reset.
    pub turned_away: u64,
    /// Accepted connections that the relay itself had made, because its target led back to it; they were reset.
    pub looped: u64,
    /// Flows that ended with a FIN from both sides.
    pub finished: u64,
    /// Flows that ended because a side was lost: reset by its peer, or timed out.
    pub lost: u64,
    /// Flows whose target refused the connection.
    pub refused: u64,
    /// Flows with no route to the target.
    pub unreachable: u64,
    /// Flows whose target did not answer in time.
    pub timed_out: u64,
    /// Flows that could not connect for another reason, such as lack of descriptors.
    pub failed: u64,
    /// Pauses of accepting, at the limit of flows or of descriptors.
    pub pauses: u64,
    /// Bytes written to targets' sockets.
    pub onward_bytes: u64,
    /// Bytes written to clients' sockets.
    pub back_bytes: u64,
    /// Bytes of both that were spliced without a copy (splice(2)).
    pub spliced_bytes: u64,
    /// ECE signals started towards a side.
    pub ece_signals: u64,
    /// How often the window alone had to bound a flow's backlog: by [`Fallback::ALL`], the reasons.
    pub fallbacks: [u64; 2],
    /// The most bytes that the relay held in one direction of a flow that has ended.
    pub held_bytes_max: usize,
}

impl Meter {
    /// Counts a flow whose connection attempt failed.
    pub(crate) fn count_failure(&mut self, error: &ConnectError) {
        let counter = match error {
            ConnectError::Refused => &mut self.refused,
            ConnectError::Unreachable(_) => &mut self.unreachable,
            ConnectError::TimedOut(_) | ConnectError::Unanswered => &mut self.timed_out,
            ConnectError::NoAddress | ConnectError::Settings(_) | ConnectError::Machine(_) => {
                &mut self.failed
            }
        };
        *counter += 1;
    }

    /// Counts a flow that is bounded by the window alone.
    pub(crate) fn count_fallback(&mut self, fallback: Fallback) {
        self.fallbacks[fallback as usize] += 1;
    }

    /// Adds the bytes a flow moved between two moments: onward, back, and spliced of both.
    pub(crate) fn add_bytes(&mut self, before: [u64; 3], after: [u64; 3]) {
        self.onward_bytes += after[0] - before[0];
        self.back_bytes += after[1] - before[1];
        self.spliced_bytes += after[2] - before[2];
    }

    /// Adds another thread's counters.
    pub(crate) fn add(&mut self, other: &Meter) {
        self.accepted += other.accepted;
        self.turned_away += other.turned_away;
        self.looped += other.looped;
        self.finished += other.finished;
        self.lost += other.lost;
        self.refused += other.refused;
        self.unreachable += other.unreachable;
        self.timed_out += other.timed_out;
        self.failed += other.failed;
        self.pauses += other.pauses;
        self.onward_bytes += other.onward_bytes;
        self.back_bytes += other.back_bytes;
        self.spliced_bytes += other.spliced_bytes;
        self.ece_signals += other.ece_signals;
        for (count, other) in self.fallbacks.iter_mut().zip(other.fallbacks) {
            *count += other;
        }
        self.held_bytes_max = self.held_bytes_max.max(other.held_bytes_max);
    }
}
