//! Detection of a policer (`bbr_lt_bw_sampling`): two consecutive intervals in which a fifth was lost and the delivery
//! rate was the same. That rate is then used as the bandwidth for 48 round trips.

use super::super::Window;
use super::{UNIT, bandwidth, bytes_per_s};

/// Minimum round trips of an interval; the maximum is four times as many.
const ROUNDS: u32 = 4;
/// Minimum loss in an interval relative to what it delivered, in 256ths: 20 %.
const LOST: u64 = 50;
/// Rates are the same when they differ by at most an eighth
const SAME_PART: u32 = 8;
/// or by at most 4 kbit/s, in bytes per second.
const SAME_BYTES_PER_S: u64 = 4_000 / 8;
/// Round trips for which the policer's rate is used.
const LIMITED_ROUNDS: u32 = 48;
/// Maximum interval in milliseconds: longer ones would overflow the kernel's 32 bits.
const LONGEST_MS: u64 = u32::MAX as u64 / 1_000;

/// The effect of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing.
    Same,
    /// A policer was found.
    Policed,
    /// The policer's rate has expired.
    Over,
}

/// The current interval, and the result of the last one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LongTerm {
    /// The rate of the last interval; 0 before the first.
    bandwidth: u32,
    is_policed: bool,
    is_sampling: bool,
    rounds: u32,
    /// When the interval began, and the packets delivered and lost until then.
    since_ms: u64,
    delivered: u32,
    lost: u32,
}

impl LongTerm {
    /// The policer's rate, if one was found.
    pub(super) fn limit(&self) -> Option<u32> {
        self.is_policed.then_some(self.bandwidth)
    }

    /// Forgets everything.
    pub(super) fn reset(&mut self, window: &Window) {
        *self = LongTerm::default();
        self.begin(window);
    }

    fn begin(&mut self, window: &Window) {
        self.since_ms = window.delivered_ns / 1_000_000;
        self.delivered = window.delivered;
        self.lost = window.lost;
        self.rounds = 0;
    }

    /// Processes an acknowledgement. `probes` is true in PROBE_BW.
    pub(super) fn sample(
        &mut self,
        window: &Window,
        is_round_start: bool,
        probes: bool,
        losses: u32,
        is_app_limited: bool,
    ) -> Verdict {
        if self.is_policed {
            if probes && is_round_start {
                self.rounds += 1;
                if self.rounds >= LIMITED_ROUNDS {
                    self.reset(window);
                    return Verdict::Over;
                }
            }
            return Verdict::Same;
        }
        // The first loss shows that the policer's tokens are used up.
        if !self.is_sampling {
            if losses == 0 {
                return Verdict::Same;
            }
            self.begin(window);
            self.is_sampling = true;
        }
        if is_app_limited {
            self.reset(window);
            return Verdict::Same;
        }
        self.rounds += u32::from(is_round_start);
        if self.rounds < ROUNDS {
            return Verdict::Same;
        }
        if self.rounds > 4 * ROUNDS {
            self.reset(window);
            return Verdict::Same;
        }
        // An interval also ends with a loss, so that no tokens are left at its end.
        let delivered = window.delivered - self.delivered;
        let lost = window.lost - self.lost;
        if losses == 0 || delivered == 0 || u64::from(lost) << 8 < LOST * u64::from(delivered) {
            return Verdict::Same;
        }
        let ms = window.delivered_ns / 1_000_000 - self.since_ms;
        if ms == 0 {
            return Verdict::Same;
        }
        if ms >= LONGEST_MS {
            self.reset(window);
            return Verdict::Same;
        }
        self.compare(window, bandwidth(delivered, ms * 1_000))
    }

    /// Compares the rate of an interval with that of the previous one (`bbr_lt_bw_interval_done`).
    fn compare(&mut self, window: &Window, rate: u32) -> Verdict {
        if self.bandwidth > 0 {
            let difference = rate.abs_diff(self.bandwidth);
            if difference <= self.bandwidth / SAME_PART
                || bytes_per_s(window, difference, UNIT) <= SAME_BYTES_PER_S
            {
                self.bandwidth = self.bandwidth.midpoint(rate);
                self.is_policed = true;
                self.rounds = 0;
                return Verdict::Policed;
            }
        }
        self.bandwidth = rate;
        self.begin(window);
        Verdict::Same
    }
}
