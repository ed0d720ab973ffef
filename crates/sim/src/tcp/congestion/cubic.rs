//! CUBIC (net/ipv4/tcp_cubic.c, RFC 9438): above the threshold the window follows a cubic function of the time
//! since the last reduction, with its inflection point at the window before it.
//!
//! W(t) = C (t - K)³ + W_max, K = ∛((W_max - cwnd) / C), C = 0.4 packets/s³, beta = 0.7 (RFC 9438 §4.2, §4.6).
//! The kernel computes it with integers, with t and K in units of 2^-10 s, timestamps in jiffies, and C = 410/1024.
//! Only the cube root differs: the kernel's table is off by 0.2 % on average, here it is exact.

use super::super::jiffies::Hz;
use super::law::Ops;
use super::{Acked, Event, State, Window};
use hystart::HyStart;

mod hystart;

/// The part of the window kept after a loss, in 1024ths.
const BETA: u32 = 717;
/// The denominator of window fractions.
const SCALE: u32 = 1024;
/// C, in 1024ths.
const C: u64 = 410;
/// 2^40 / C: the cube of K is this times (W_max - cwnd).
const CUBE_FACTOR: u64 = (1 << 40) / C;
/// Eight times the number of acknowledged windows per packet of growth for Reno with this beta: (1 + beta) / (3 (1 -
/// beta)), rounded down (RFC 9438 §4.3).
const RENO_SCALE: u32 = 8 * (SCALE + BETA) / 3 / (SCALE - BETA);
/// Before the first loss the window grows by at least 5 % per round trip.
const FIRST_PER: u32 = 20;
/// The window never grows by more than half per round trip.
const LEAST_PER: u32 = 2;

/// CUBIC.
#[derive(Debug, Clone, Copy)]
pub struct Cubic {
    hz: Hz,
    curve: Curve,
    hystart: HyStart,
}

/// The state of the curve (the part of `struct bictcp` that a timeout clears). Times are in jiffies.
#[derive(Debug, Clone, Copy, Default)]
struct Curve {
    /// Acknowledged packets per packet of growth (`cnt`).
    per: u32,
    /// The window before the last reduction, or less after fast convergence; 0 before the first.
    last_max: u32,
    /// The window and the time of the last update.
    last_cwnd: u32,
    last_time: u64,
    /// When the window began to follow the curve after the last reduction.
    epoch: Option<u64>,
    /// The window at the inflection point.
    origin: u32,
    /// The time from the epoch to the inflection point, in 2^-10 s.
    k: u64,
    /// The minimum RTT, in microseconds; 0 before the first sample.
    min_rtt_us: u32,
    /// Packets acknowledged in this epoch that have not yet grown Reno's window.
    acked: u32,
    /// The window that Reno would have.
    reno: u32,
}

impl Curve {
    /// Updates the growth rate of the window (`bictcp_update`).
    fn update(&mut self, hz: Hz, cwnd: u32, acked: u32, now: u64) {
        self.acked += acked;
        // Updates happen at most 32 times a second for an unchanged window, and at most once per jiffy.
        if self.last_cwnd == cwnd && now - self.last_time <= u64::from(hz.0) / 32 {
            return;
        }
        if self.epoch.is_none() || now != self.last_time {
            (self.last_cwnd, self.last_time) = (cwnd, now);
            self.follow(hz, cwnd, acked, now);
        }
        self.keep_up_with_reno(cwnd);
        self.per = self.per.max(LEAST_PER);
    }

    /// Aims at where the curve will be a round trip from now.
    fn follow(&mut self, hz: Hz, cwnd: u32, acked: u32, now: u64) {
        let epoch = *self.epoch.get_or_insert_with(|| {
            (self.acked, self.reno) = (acked, cwnd);
            self.origin = self.last_max.max(cwnd);
            self.k = cube_root(CUBE_FACTOR * u64::from(self.origin - cwnd));
            now
        });
        let jiffies = now - epoch + hz.from_us(u64::from(self.min_rtt_us));
        let t = (jiffies << 10) / u64::from(hz.0);
        let offset = t.abs_diff(self.k);
        // In the kernel's 32 bits, which suffice for windows below a million packets.
        let delta = (C.wrapping_mul(offset.wrapping_pow(3)) >> 40) as u32;
        let target = if t < self.k {
            self.origin.wrapping_sub(delta)
        } else {
            self.origin.wrapping_add(delta)
        };
        self.per = if target > cwnd {
            cwnd / (target - cwnd)
        } else {
            100 * cwnd
        };
        if self.last_max == 0 {
            self.per = self.per.min(FIRST_PER);
        }
    }

    /// Keeps growth at least as fast as that of Reno with the same beta (RFC 9438 §4.3).
    fn keep_up_with_reno(&mut self, cwnd: u32) {
        let per = (cwnd * RENO_SCALE) >> 3;
        let grown = self.acked.saturating_sub(1) / per;
        self.acked -= grown * per;
        self.reno += grown;
        if self.reno > cwnd {
            self.per = self.per.min(cwnd / (self.reno - cwnd));
        }
    }
}

/// The cube root, rounded down, of a value below 2^53.
fn cube_root(cube: u64) -> u64 {
    let mut root = (cube as f64).cbrt() as u64;
    while root.pow(3) > cube {
        root -= 1;
    }
    while (root + 1).pow(3) <= cube {
        root += 1;
    }
    root
}

impl Cubic {
    pub(super) fn new(hz: Hz) -> Self {
        Cubic {
            hz,
            curve: Curve::default(),
            hystart: HyStart::default(),
        }
    }
}

impl Ops for Cubic {
    fn init(&mut self, window: &mut Window, now_ns: u64) {
        self.curve = Curve::default();
        self.hystart = HyStart::new(window, now_ns);
    }

    fn ssthresh(&mut self, window: &Window) -> u32 {
        let curve = &mut self.curve;
        curve.epoch = None;
        // Fast convergence (RFC 9438 §4.7): a window that fell short of the last maximum releases bandwidth.
        curve.last_max = if window.cwnd < curve.last_max {
            window.cwnd * (SCALE + BETA) / (2 * SCALE)
        } else {
            window.cwnd
        };
        (window.cwnd * BETA / SCALE).max(2)
    }

    fn avoid(&mut self, window: &mut Window, acked: &Acked) {
        if !window.is_limited {
            return;
        }
        let mut packets = acked.sample.acked_sacked;
        if window.in_slow_start() {
            packets = window.slow_start(packets);
            if packets == 0 {
                return;
            }
        }
        let now = self.hz.at(acked.now_ns);
        self.curve.update(self.hz, window.cwnd, packets, now);
        window.increase(self.curve.per, packets);
    }

    fn on_state(&mut self, window: &mut Window, state: State, now_ns: u64) {
        if state == State::Loss {
            self.init(window, now_ns);
        }
    }

    fn on_event(&mut self, window: &mut Window, event: Event, now_ns: u64) {
        if event != Event::TransmitStart {
            return;
        }
        // Idle time does not move the window along the curve.
        let now = self.hz.at(now_ns);
        let idle = now.saturating_sub(self.hz.at(window.last_sent_ns));
        if let Some(epoch) = &mut self.curve.epoch {
            *epoch = (*epoch + idle).min(now);
        }
    }

    fn on_acked(&mut self, window: &mut Window, acked: &Acked) {
        let Some(rtt_us) = acked.sample.rtt_us else {
            return;
        };
        let curve = &mut self.curve;
        // Discard samples in the second after a recovery, which leaves a queue.
        let now = self.hz.at(acked.now_ns);
        if curve
            .epoch
            .is_some_and(|epoch| now - epoch < u64::from(self.hz.0))
        {
            return;
        }
        let rtt_us = (rtt_us as u32).max(1);
        if curve.min_rtt_us == 0 || rtt_us < curve.min_rtt_us {
            curve.min_rtt_us = rtt_us;
        }
        if window.in_slow_start() {
            self.hystart
                .on_acked(window, rtt_us, curve.min_rtt_us, acked.now_ns);
        }
    }
}

#[cfg(test)]
mod tests;
