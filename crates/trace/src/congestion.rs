//! Congestion control events derived from samples of TCP_INFO.
//!
//! The kernel's congestion state is known only at samples. An episode that begins and ends between two samples still
//! leaves a trace: a different slow-start threshold. A threshold set on leaving slow start without a reduction (CUBIC's
//! HyStart) is recognized because it is not below the previous congestion window. An episode that restores the same
//! threshold is missed, and several between two samples count as one: the result is a lower bound. Kernels from 6.7
//! count timeouts, so a timeout between two samples is always seen there.

use crate::event::{CongestionState, Tcp, TcpEvent};

/// The window reduction between two consecutive samples: [`TcpEvent::Cwr`], [`TcpEvent::Recovery`] or
/// [`TcpEvent::Loss`], the most severe that is visible.
#[must_use]
pub fn between(before: &Tcp, after: &Tcp) -> Option<TcpEvent> {
    if after.timeouts > before.timeouts {
        return Some(TcpEvent::Loss);
    }
    let another_threshold = after.ssthresh_packets != before.ssthresh_packets;
    let state = match after.congestion_state {
        CongestionState::CWR => Some(TcpEvent::Cwr),
        CongestionState::RECOVERY => Some(TcpEvent::Recovery),
        CongestionState::LOSS => Some(TcpEvent::Loss),
        _ => None,
    };
    if let Some(cut) = state {
        // The same state with a different threshold: it was left and entered again.
        let begun = after.congestion_state != before.congestion_state || another_threshold;
        return begun.then_some(cut);
    }
    // Leaving an episode may restore the threshold (RFC 4015 §3).
    let was_open = before.congestion_state <= CongestionState::DISORDER;
    let slow_start = before.cwnd_packets < before.ssthresh_packets;
    let fell = after.ssthresh_packets < before.cwnd_packets;
    if !was_open || !another_threshold || (slow_start && !fell) {
        return None;
    }
    if after.retransmits > before.retransmits {
        Some(TcpEvent::Recovery)
    } else {
        Some(TcpEvent::Cwr)
    }
}

/// Whether a reduction was undone between two samples: the threshold rose on leaving an episode.
#[must_use]
pub fn undone(before: &Tcp, after: &Tcp) -> bool {
    before.congestion_state >= CongestionState::CWR
        && after.ssthresh_packets > before.ssthresh_packets
}

/// Detects a sender's return to slow start (RFC 5681 §3.1): below its threshold after it had left that state. Takes
/// samples in time order.
#[derive(Debug, Clone, Copy, Default)]
pub struct SlowStarts {
    has_left: bool,
    is_in: bool,
    returns: u64,
}

impl SlowStarts {
    /// Processes a sample; `counts` says whether to count a return in it.
    pub fn see(&mut self, tcp: &Tcp, counts: bool) {
        // During loss recovery or a reduction, the window may be below the threshold for a moment.
        if [CongestionState::CWR, CongestionState::RECOVERY].contains(&tcp.congestion_state) {
            return;
        }
        let is_in = tcp.cwnd_packets < tcp.ssthresh_packets;
        self.returns += u64::from(is_in && !self.is_in && self.has_left && counts);
        self.has_left |= !is_in;
        self.is_in = is_in;
    }

    /// Whether it has ever left slow start.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// Counted returns.
    #[must_use]
    pub fn returns(&self) -> u64 {
        self.returns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(congestion_state: CongestionState, cwnd_packets: u32, ssthresh_packets: u32) -> Tcp {
        Tcp {
            congestion_state,
            cwnd_packets,
            ssthresh_packets,
            ..Tcp::BLANK
        }
    }

    #[test]
    fn a_counted_time_out_is_seen_after_it_has_passed() {
        let before = sample(CongestionState::OPEN, 20, 15);
        let after = Tcp {
            timeouts: 1,
            ..sample(CongestionState::OPEN, 3, 10)
        };
        assert_eq!(between(&before, &after), Some(TcpEvent::Loss));
    }

    #[test]
    fn a_threshold_that_is_set_back_is_an_undo() {
        let cut = sample(CongestionState::RECOVERY, 12, 10);
        assert!(undone(&cut, &sample(CongestionState::OPEN, 20, 18)));
        assert!(!undone(&cut, &sample(CongestionState::OPEN, 10, 10)));
        assert!(!undone(
            &sample(CongestionState::OPEN, 20, 10),
            &sample(CongestionState::OPEN, 20, 15)
        ));
    }

    #[test]
    fn a_return_to_slow_start_is_counted_once() {
        let mut starts = SlowStarts::default();
        let mut see = |state, cwnd, ssthresh| {
            // Timeouts before the measurement do not count.
            starts.see(&sample(state, cwnd, ssthresh), cwnd != 3);
            (starts.has_left(), starts.returns())
        };
        // The first slow start is not a return.
        assert_eq!(see(CongestionState::OPEN, 10, i32::MAX as u32), (false, 0));
        assert_eq!(see(CongestionState::OPEN, 400, i32::MAX as u32), (false, 0));
        // Recovery: below the threshold for a moment, at it afterwards.
        assert_eq!(see(CongestionState::RECOVERY, 150, 200), (false, 0));
        assert_eq!(see(CongestionState::OPEN, 200, 200), (true, 0));
        assert_eq!(see(CongestionState::CWR, 60, 100), (true, 0));
        assert_eq!(see(CongestionState::OPEN, 101, 100), (true, 0));
        assert_eq!(see(CongestionState::LOSS, 3, 100), (true, 0));
        assert_eq!(see(CongestionState::OPEN, 101, 100), (true, 0));
        // A timeout.
        assert_eq!(see(CongestionState::LOSS, 1, 50), (true, 1));
        assert_eq!(see(CongestionState::OPEN, 20, 50), (true, 1));
        assert_eq!(see(CongestionState::OPEN, 51, 50), (true, 1));
        assert_eq!(see(CongestionState::LOSS, 1, 25), (true, 2));
    }
}
