//! Whether a silent connection is alive.

use std::time::Duration;

use wansan_trace::{Instant, TaskTag};

/// The minimum variation of the round-trip time, as in TCP's timers on Linux (TCP_RTO_MIN).
const LEAST_VARIATION: Duration = Duration::from_millis(200);
/// The round-trip time until one is measured (RFC 6298 §2.1).
const UNKNOWN: Duration = Duration::from_secs(1);
/// The longest timeout, also used until a round trip is measured: a silent connection is lost within a minute. One ping
/// delayed by seconds would extend that to minutes. An answer still has 45 s to arrive.
const LONGEST: Duration = Duration::from_secs(3);
/// After this many timeouts of silence the target is pinged.
const QUIET_TIMEOUTS: u32 = 5;
/// After this many more the connection is lost. TCP doubles its timeout with every loss of the same segment, so a ping,
/// or its answer, that is lost three times in a row still counts: 1 + 2 + 4 + 8.
const PATIENT_TIMEOUTS: u32 = 15;

/// The action on a connection's silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Silence {
    /// Nothing until then.
    Wait(Instant),
    /// Send a ping.
    Ask,
    /// Silent for too long.
    Lost,
}

/// The state of one connection's liveness. Its timers scale with the measured round-trip time (RFC 6298 §2), and any
/// received byte is a sign of life: a busy connection is never pinged.
#[derive(Debug)]
pub(super) struct Liveness {
    /// When the last sign of life came, including TCP acknowledgements, or no answer was due.
    last_heard: Instant,
    /// When bytes last arrived from the target.
    last_received: Instant,
    /// Smoothed round-trip time and its variation.
    round_trip: Option<(Duration, Duration)>,
    asked: Option<(TaskTag, Instant)>,
    /// When the first ping was sent of those that were not answered.
    unanswered_since: Option<Instant>,
}

impl Liveness {
    pub(super) fn new() -> Self {
        Liveness {
            last_heard: Instant::ZERO,
            last_received: Instant::ZERO,
            round_trip: None,
            asked: None,
            unanswered_since: None,
        }
    }

    /// Bytes arrived from the target at `now`.
    pub(super) fn received(&mut self, now: Instant) {
        self.heard(now);
        self.last_received = self.last_received.max(now);
    }

    /// The target's end showed a sign of life at `now`, or owes no answer.
    pub(super) fn heard(&mut self, now: Instant) {
        self.last_heard = self.last_heard.max(now);
    }

    /// The target was pinged with `ping`.
    pub(super) fn asked(&mut self, ping: TaskTag, now: Instant) {
        self.asked = Some((ping, now));
        self.unanswered_since.get_or_insert(now);
    }

    /// Whether an answer is outstanding.
    pub(super) fn is_asked(&self) -> bool {
        self.asked.is_some()
    }

    /// How long an answer has been outstanding.
    pub(super) fn unanswered(&self, now: Instant) -> Duration {
        let since = self.unanswered_since;
        since.map_or(Duration::ZERO, |since| now.since(since))
    }

    /// Whether no ping is outstanding, or the outstanding one must be lost: the target sent something else long after
    /// it. A late answer still gives the round-trip time. TCP acknowledgements do not count here: TCP acknowledges each
    /// ping to a target that hangs, which would be pinged forever and never be lost. A connection that `is_idle` is not
    /// lost by silence: it is pinged again.
    pub(super) fn may_be_asked(&self, is_idle: bool) -> bool {
        let heard = match is_idle {
            true => self.last_heard,
            false => self.last_received,
        };
        self.asked
            .is_none_or(|(_, asked)| heard > asked + self.timeout() * PATIENT_TIMEOUTS)
    }

    /// `ping` was answered; returns its round-trip time, if it is the outstanding ping.
    pub(super) fn answered(&mut self, ping: TaskTag, now: Instant) -> Option<Duration> {
        let (_, asked) = self.asked.take_if(|(asked, _)| *asked == ping)?;
        self.unanswered_since = None;
        let took = now.since(asked);
        self.measured(took);
        Some(took)
    }

    /// Takes a measured round-trip time.
    pub(super) fn measured(&mut self, sample: Duration) {
        self.round_trip = Some(match self.round_trip {
            None => (sample, sample / 2),
            Some((smoothed, variation)) => (
                (smoothed * 7 + sample) / 8,
                (variation * 3 + smoothed.abs_diff(sample)) / 4,
            ),
        });
    }

    /// The timeout of an answer.
    pub(super) fn timeout(&self) -> Duration {
        let (smoothed, variation) = self.round_trip.unwrap_or((UNKNOWN, UNKNOWN / 2));
        (smoothed + LEAST_VARIATION.max(variation * 4)).min(LONGEST)
    }

    /// The action on the silence at `now`, while the target owes an answer.
    pub(super) fn judge(&self, now: Instant) -> Silence {
        let timeout = self.timeout();
        let quiet = self.last_heard + timeout * QUIET_TIMEOUTS;
        let lost = |asked: Instant| asked.max(self.last_heard) + timeout * PATIENT_TIMEOUTS;
        match self.asked {
            Some((_, asked)) if now >= lost(asked) => Silence::Lost,
            Some((_, asked)) => Silence::Wait(lost(asked)),
            None if now >= quiet => Silence::Ask,
            None => Silence::Wait(quiet),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_ns(ms * 1_000_000)
    }

    #[test]
    fn a_black_hole_is_noticed_in_bounded_time() {
        let mut liveness = Liveness::new();
        liveness.heard(at(1000));
        liveness.measured(Duration::from_millis(50));
        // 50 ms and four times 25 ms are less than 50 and 200.
        assert_eq!(liveness.judge(at(1000)), Silence::Wait(at(2250)));
        assert_eq!(liveness.judge(at(2250)), Silence::Ask);
        liveness.asked(TaskTag(7), at(2250));
        assert_eq!(liveness.judge(at(2300)), Silence::Wait(at(6000)));
        assert_eq!(liveness.judge(at(6000)), Silence::Lost);
    }

    #[test]
    fn any_byte_is_a_sign_of_life() {
        let mut liveness = Liveness::new();
        liveness.measured(Duration::from_millis(50));
        liveness.asked(TaskTag(7), at(0));
        for ms in (0..60_000).step_by(1000) {
            liveness.heard(at(ms));
            assert!(matches!(liveness.judge(at(ms + 999)), Silence::Wait(_)));
        }
    }

    #[test]
    fn a_ping_is_taken_for_lost_only_long_after_it_is_late() {
        let mut liveness = Liveness::new();
        assert!(liveness.may_be_asked(false));
        liveness.measured(Duration::from_millis(2));
        liveness.asked(TaskTag(1), at(0));
        liveness.received(at(1000));
        assert!(!liveness.may_be_asked(false));
        assert_eq!(
            liveness.answered(TaskTag(1), at(1000)),
            Some(Duration::from_secs(1))
        );
        liveness.asked(TaskTag(2), at(1000));
        liveness.received(at(100_000));
        assert!(liveness.may_be_asked(false));
    }

    #[test]
    fn an_idle_connection_whose_ping_was_dropped_is_pinged_again() {
        let mut liveness = Liveness::new();
        liveness.measured(Duration::from_millis(2));
        liveness.asked(TaskTag(1), at(0));
        liveness.heard(at(10_000));
        assert!(!liveness.may_be_asked(false));
        assert!(liveness.may_be_asked(true));
        liveness.asked(TaskTag(2), at(10_000));
        assert_eq!(liveness.unanswered(at(11_000)), Duration::from_secs(11));
        liveness.answered(TaskTag(2), at(11_000));
        assert_eq!(liveness.unanswered(at(12_000)), Duration::ZERO);
    }

    #[test]
    fn a_target_that_hangs_is_lost_although_tcp_acknowledges_pings() {
        let mut liveness = Liveness::new();
        liveness.measured(Duration::from_millis(2));
        let mut now_ms = 0;
        while liveness.judge(at(now_ms)) != Silence::Lost {
            if liveness.may_be_asked(false) {
                liveness.asked(TaskTag(now_ms as u32), at(now_ms));
                // Its acknowledgement counts only when the connection would be lost.
                liveness.heard(at(now_ms + 10_000));
            }
            now_ms += 100;
            assert!(now_ms < 60_000);
        }
    }

    #[test]
    fn a_ping_that_was_held_up_delays_no_later_loss_by_minutes() {
        let mut liveness = Liveness::new();
        liveness.measured(Duration::from_millis(10));
        liveness.asked(TaskTag(1), at(0));
        liveness.heard(at(9000));
        liveness.answered(TaskTag(1), at(9000));
        let Silence::Wait(quiet) = liveness.judge(at(9000)) else {
            panic!("it is asked at once");
        };
        liveness.asked(TaskTag(2), quiet);
        assert_eq!(liveness.judge(at(9000 + 60_000)), Silence::Lost);
    }

    #[test]
    fn the_timeout_follows_the_round_trip() {
        let mut liveness = Liveness::new();
        assert_eq!(liveness.timeout(), Duration::from_secs(3));
        for _ in 0..50 {
            liveness.measured(Duration::from_millis(600));
        }
        assert_eq!(liveness.timeout(), Duration::from_millis(800));
        liveness.asked(TaskTag(1), at(0));
        liveness.answered(TaskTag(2), at(5));
        liveness.answered(TaskTag(1), at(1400));
        // A sample that is 800 ms off moves the mean by an eighth and the variation by a quarter.
        let expected = Duration::from_millis(700 + 4 * 200);
        assert!(liveness.timeout().abs_diff(expected) < Duration::from_millis(1));
    }
}
