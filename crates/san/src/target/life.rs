//! Liveness: when to ping a silent connection, and when to drop it.

use std::os::fd::AsFd;
use std::time::Duration;

use wansan_tcp::TcpInfo;
use wansan_trace::Instant;

/// The shortest silence after which an initiator is pinged.
const LEAST_SILENCE: Duration = Duration::from_secs(10);

/// On longer paths, this number of round trips: a ping, its answer, and the data that may be queued ahead of them.
const ROUND_TRIPS: u32 = 32;

/// Liveness of a connection. Any byte from the initiator is a sign of life, and so is the acknowledgement of bytes sent
/// to it: on a slow path a large response takes long, and the initiator has nothing to send meanwhile.
#[derive(Debug)]
pub(super) struct Life {
    last_sign: Instant,
    acked_bytes: u64,
}

/// The verdict on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Alive recently.
    Lively,
    /// Silent for long enough to be pinged.
    Ask,
    /// Pinged, and silent for as long again.
    GiveUp,
}

impl Life {
    pub(super) fn new(now: Instant) -> Life {
        Life {
            last_sign: now,
            acked_bytes: 0,
        }
    }

    /// Bytes arrived from the initiator.
    pub(super) fn heard(&mut self, now: Instant) {
        self.last_sign = now;
    }

    /// Time since bytes last arrived.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        now.since(self.last_sign)
    }

    /// Judges the connection of that socket. Queries the kernel only after some silence.
    pub(super) fn judge(&mut self, socket: impl AsFd, now: Instant) -> Verdict {
        if self.silence(now) < LEAST_SILENCE {
            return Verdict::Lively;
        }
        match TcpInfo::of(socket) {
            Ok(info) => self.weigh(info.acked_bytes(), info.srtt_ns(), now),
            Err(_) => self.weigh(self.acked_bytes, 0, now),
        }
    }

    fn weigh(&mut self, acked_bytes: u64, srtt_ns: u64, now: Instant) -> Verdict {
        if acked_bytes != self.acked_bytes {
            self.acked_bytes = acked_bytes;
            self.last_sign = now;
        }
        let patience = LEAST_SILENCE.max(Duration::from_nanos(srtt_ns) * ROUND_TRIPS);
        match self.silence(now) {
            silence if silence >= 2 * patience => Verdict::GiveUp,
            silence if silence >= patience => Verdict::Ask,
            _ => Verdict::Lively,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::from_ns(seconds * 1_000_000_000)
    }

    #[test]
    fn silence_is_asked_about_once_and_then_given_up() {
        let mut life = Life::new(at(0));
        assert_eq!(life.weigh(0, 0, at(9)), Verdict::Lively);
        assert_eq!(life.weigh(0, 0, at(10)), Verdict::Ask);
        life.heard(at(19));
        assert_eq!(life.weigh(0, 0, at(20)), Verdict::Lively);
        assert_eq!(life.weigh(0, 0, at(39)), Verdict::GiveUp);
    }

    #[test]
    fn long_paths_are_given_more_time() {
        let mut life = Life::new(at(0));
        let second_ns = 1_000_000_000;
        assert_eq!(life.weigh(0, second_ns, at(31)), Verdict::Lively);
        assert_eq!(life.weigh(0, second_ns, at(63)), Verdict::Ask);
        assert_eq!(life.weigh(0, second_ns, at(64)), Verdict::GiveUp);
    }

    #[test]
    fn what_it_acknowledges_it_lives_to_receive() {
        let mut life = Life::new(at(0));
        for second in 10..100 {
            assert_eq!(life.weigh(second, 0, at(second)), Verdict::Lively);
        }
        assert_eq!(life.weigh(99, 0, at(119)), Verdict::GiveUp);
    }
}
