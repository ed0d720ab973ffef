//! What a thread counts.

use wansan_split::Fallback;

use crate::error::ConnectError;

/// Counters of flows, since the relay began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meter {
    /// Connections that were accepted.
    pub accepted: u64,
    /// Those of them that no network of the listener's list holds; they were reset.
    pub turned_away: u64,
    /// Those of them that the relay itself had made, as its target led to it; they were reset.
    pub looped: u64,
    /// Flows that ended with a FIN from both sides.
    pub finished: u64,
    /// Flows that ended as a side was lost: reset by its peer, or given up.
    pub lost: u64,
    /// Flows whose target refused the connection.
    pub refused: u64,
    /// Flows to whose target there was no way.
    pub unreachable: u64,
    /// Flows whose target did not answer in time.
    pub timed_out: u64,
    /// Flows that could not connect for another reason, such as a lack of descriptors.
    pub failed: u64,
    /// Times that accepting paused, as there were as many flows as there may be, or no descriptors.
    pub pauses: u64,
    /// Bytes that the targets' sockets took.
    pub onward_bytes: u64,
    /// Bytes that the clients' sockets took.
    pub back_bytes: u64,
    /// Bytes of both that went without a copy (splice(2)).
    pub spliced_bytes: u64,
    /// Times that ECE towards a side began.
    pub ece_signals: u64,
    /// Times that the window alone had to hold a flow's backlog: by [`Fallback::ALL`], the reasons.
    pub fallbacks: [u64; 2],
    /// The most that the relay itself held of one direction of a flow that has ended, in bytes.
    pub held_bytes_max: usize,
}

impl Meter {
    /// Counts a flow that did not come about.
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

    /// Counts that a flow is held by the window alone.
    pub(crate) fn count_fallback(&mut self, fallback: Fallback) {
        self.fallbacks[fallback as usize] += 1;
    }

    /// Adds what a flow has moved between two moments: onward, back, and spliced bytes of both.
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
