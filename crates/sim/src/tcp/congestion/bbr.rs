//! BBR, version 1 (net/ipv4/tcp_bbr.c; Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5),
//! 2016): sends at the maximum delivery rate of the last ten round trips, and keeps about twice the product of that
//! rate and the minimum RTT of the last ten seconds in flight. Losses alone do not slow it down.
//!
//! As in the kernel, bandwidths are in units of 2^-24 packets per microsecond, and gains in 256ths.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::super::jiffies::Hz;
use super::super::rate::Sample;
use super::law::Ops;
use super::pacing::GSO_BYTES;
use super::windowed_max::WindowedMax;
use super::{Acked, Event, INFINITE, INITIAL_WINDOW, State, Window};
use aggregation::Aggregation;
use long_term::{LongTerm, Verdict};

mod aggregation;
mod long_term;

/// Fractional bits of a bandwidth.
const BW_DIGITS: u32 = 24;
/// A gain of 1.
const UNIT: u32 = 256;

/// Doubles the rate each round trip: 2 / ln 2.
const HIGH_GAIN: u32 = UNIT * 2_885 / 1_000 + 1;
/// Drains the queue built by HIGH_GAIN in one round trip.
const DRAIN_GAIN: u32 = UNIT * 1_000 / 2_885;
/// The window in bandwidth-delay products: leaves room for delayed and stretched acknowledgements.
const CWND_GAIN: u32 = UNIT * 2;
/// Pacing gains of the phases of PROBE_BW, each about a round trip long: probe for more, drain, and cruise.
const CYCLE: [u32; 8] = [
    UNIT * 5 / 4,
    UNIT * 3 / 4,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
    UNIT,
];
/// PROBE_BW begins in any phase except the one that drains.
const FIRST_PHASES: u64 = 7;
/// Round trips for which the maximum bandwidth is remembered.
const BW_ROUNDS: u32 = CYCLE.len() as u32 + 2;
/// Pacing is 1 % below the bandwidth, so that no standing queue remains: 99 % of the microseconds in a second.
const MARGIN_US_PER_S: u64 = 1_000_000 / 100 * 99;
/// Minimum packets in flight.
const MIN_WINDOW: u32 = 4;
/// Seconds after which the minimum RTT is measured again.
const MIN_RTT_S: u64 = 10;
/// Time in PROBE_RTT, in microseconds.
const PROBE_RTT_US: u64 = 200_000;
/// The path is full when the bandwidth has not grown by a quarter
const FULL_GROWTH: u64 = UNIT as u64 * 5 / 4;
/// in three round trips.
const FULL_ROUNDS: u32 = 3;
/// Below 1.2 Mbit/s, here in bytes per second, packets are sent one by one.
const MIN_TSO_RATE: u64 = 1_200_000 / 8;

/// The mode (`enum bbr_mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Doubles its rate each round trip until the path is full.
    Startup,
    /// Drains the queue built in startup.
    Drain,
    /// Cycles the pacing gain around the bandwidth.
    ProbeBw,
    /// Keeps four packets in flight to measure the RTT of an empty path.
    ProbeRtt,
}

/// BBR.
#[derive(Debug, Clone)]
pub struct Bbr {
    hz: Hz,
    random: Pcg64Mcg,
    mode: Mode,
    pacing_gain: u32,
    cwnd_gain: u32,

    /// The maximum bandwidth of recent round trips.
    bandwidths: WindowedMax,
    /// Round trips so far. One ends when a packet sent after it began is acknowledged.
    rounds: u32,
    /// The round trip ends when a packet is acknowledged that was sent with at least this many delivered.
    round_end: u32,
    /// Whether this acknowledgement begins a round trip.
    is_round_start: bool,

    /// The minimum RTT, in microseconds, and when it was measured, in jiffies.
    min_rtt_us: Option<u64>,
    min_rtt_at: u64,
    /// When PROBE_RTT may end, in jiffies; set once few enough packets are in flight.
    probe_rtt_end: Option<u64>,
    /// Whether PROBE_RTT has lasted for a round trip.
    probe_rtt_round_done: bool,

    /// The phase of PROBE_BW, and when it began, in microseconds.
    phase: usize,
    phase_us: u64,

    /// The bandwidth to exceed by a quarter, and the number of round trips that did not.
    full_bandwidth: u32,
    full_rounds: u32,
    is_full: bool,

    /// The state at the last acknowledgement, and the window before Recovery or PROBE_RTT.
    previous: State,
    prior_cwnd: u32,
    /// Whether packets are conserved: one sent per packet delivered, in the first round trip of a recovery.
    conserves: bool,
    /// Whether sending restarted after idle, and nothing has been delivered since.
    is_restart: bool,
    /// Whether the pacing rate is based on a measured RTT.
    has_seen_rtt: bool,

    long_term: LongTerm,
    aggregation: Aggregation,
}

impl Bbr {
    pub(super) fn new(hz: Hz, seed: u64) -> Self {
        Bbr {
            hz,
            random: Pcg64Mcg::seed_from_u64(seed),
            mode: Mode::Startup,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            bandwidths: WindowedMax::default(),
            rounds: 0,
            round_end: 0,
            is_round_start: false,
            min_rtt_us: None,
            min_rtt_at: 0,
            probe_rtt_end: None,
            probe_rtt_round_done: false,
            phase: 0,
            phase_us: 0,
            full_bandwidth: 0,
            full_rounds: 0,
            is_full: false,
            previous: State::Open,
            prior_cwnd: 0,
            conserves: false,
            is_restart: false,
            has_seen_rtt: false,
            long_term: LongTerm::default(),
            aggregation: Aggregation::default(),
        }
    }

    /// The bandwidth estimate in use (`bbr_bw`).
    fn bandwidth(&self) -> u32 {
        self.long_term.limit().unwrap_or(self.bandwidths.get())
    }

    /// Takes a delivery rate sample (`bbr_update_bw`).
    fn measure(&mut self, window: &Window, sample: &Sample) {
        self.is_round_start = false;
        let Some(delivered) = rated(sample) else {
            return;
        };
        if sample.prior_delivered >= self.round_end {
            self.round_end = window.delivered;
            self.rounds += 1;
            self.is_round_start = true;
            self.conserves = false;
        }
        self.look_for_a_policer(window, sample.losses, sample.is_app_limited);
        let bandwidth = bandwidth(delivered, sample.interval_us);
        // An application-limited sample says nothing about the path, unless it exceeds the estimate.
        if !sample.is_app_limited || bandwidth >= self.bandwidths.get() {
            self.bandwidths.update(BW_ROUNDS, self.rounds, bandwidth);
        }
    }

    fn look_for_a_policer(&mut self, window: &Window, losses: u32, is_app_limited: bool) {
        let probes = self.mode == Mode::ProbeBw;
        let is_round_start = self.is_round_start;
        match self
            .long_term
            .sample(window, is_round_start, probes, losses, is_app_limited)
        {
            Verdict::Same => {}
            Verdict::Policed => self.pacing_gain = UNIT,
            Verdict::Over => self.probe_bandwidth(window),
        }
    }

    /// Enters PROBE_BW in a random phase (`bbr_reset_probe_bw_mode`).
    fn probe_bandwidth(&mut self, window: &Window) {
        self.mode = Mode::ProbeBw;
        let back = (u64::from(self.random.next_u32()) * FIRST_PHASES) >> 32;
        self.phase = CYCLE.len() - 1 - back as usize;
        self.next_phase(window);
    }

    fn next_phase(&mut self, window: &Window) {
        self.phase = (self.phase + 1) % CYCLE.len();
        self.phase_us = window.delivered_ns / 1_000;
    }

    /// Whether the phase of PROBE_BW is over (`bbr_is_next_cycle_phase`).
    fn is_phase_over(&self, window: &Window, acked: &Acked) -> bool {
        let lasted_us = window.delivered_ns / 1_000 - self.phase_us;
        let is_round = self.min_rtt_us.is_some_and(|least| lasted_us > least);
        if self.pacing_gain == UNIT {
            return is_round;
        }
        let sample = &acked.sample;
        let in_path = self.in_path(window, sample.prior_in_flight, acked.now_ns);
        let bandwidth = self.bandwidths.get();
        if self.pacing_gain > UNIT {
            // Until that much is in flight, unless losses show that the path cannot hold it.
            return is_round
                && (sample.losses > 0
                    || in_path >= self.in_flight_goal(window, bandwidth, self.pacing_gain));
        }
        is_round || in_path <= self.in_flight_goal(window, bandwidth, UNIT)
    }

    /// Packets that will be in the network when pacing lets the next one depart (`bbr_packets_in_net_at_edt`).
    fn in_path(&self, window: &Window, in_flight: u32, now_ns: u64) -> u32 {
        let wait_us = window.departure_ns.saturating_sub(now_ns) / 1_000;
        let delivered = (u64::from(self.bandwidth()) * wait_us) >> BW_DIGITS;
        let next = if self.pacing_gain > UNIT {
            send_quantum(window)
        } else {
            0
        };
        u64::from(in_flight + next).saturating_sub(delivered) as u32
    }

    /// The bandwidth-delay product times a gain, in packets, rounded up (`bbr_bdp`).
    fn pipe(&self, bandwidth: u32, gain: u32) -> u32 {
        let Some(least_us) = self.min_rtt_us else {
            return INITIAL_WINDOW;
        };
        let packets = (u64::from(bandwidth) * least_us * u64::from(gain)) >> 8;
        packets.div_ceil(1 << BW_DIGITS) as u32
    }

    /// Adds room for what both ends aggregate into large packets (`bbr_quantization_budget`).
    fn with_room(&self, window: &Window, packets: u32) -> u32 {
        let even = (packets + 3 * send_quantum(window)).next_multiple_of(2);
        // Probing for more needs extra packets in flight even on a short path.
        let more = if self.mode == Mode::ProbeBw && self.phase == 0 {
            2
        } else {
            0
        };
        even + more
    }

    /// `bbr_inflight`.
    fn in_flight_goal(&self, window: &Window, bandwidth: u32, gain: u32) -> u32 {
        self.with_room(window, self.pipe(bandwidth, gain))
    }

    /// `bbr_check_full_bw_reached`.
    fn see_whether_it_is_full(&mut self, sample: &Sample) {
        if self.is_full || !self.is_round_start || sample.is_app_limited {
            return;
        }
        let bandwidth = self.bandwidths.get();
        if u64::from(bandwidth) >= (u64::from(self.full_bandwidth) * FULL_GROWTH) >> 8 {
            self.full_bandwidth = bandwidth;
            self.full_rounds = 0;
            return;
        }
        self.full_rounds += 1;
        self.is_full = self.full_rounds >= FULL_ROUNDS;
    }

    /// `bbr_check_drain`.
    fn drain(&mut self, window: &mut Window, now_ns: u64) {
        if self.mode == Mode::Startup && self.is_full {
            self.mode = Mode::Drain;
            window.ssthresh = self.in_flight_goal(window, self.bandwidths.get(), UNIT);
        }
        if self.mode == Mode::Drain
            && self.in_path(window, window.in_flight, now_ns)
                <= self.in_flight_goal(window, self.bandwidths.get(), UNIT)
        {
            self.probe_bandwidth(window);
        }
    }

    /// Updates the minimum RTT, and enters PROBE_RTT when it is old (`bbr_update_min_rtt`).
    fn measure_round_trip(&mut self, window: &mut Window, acked: &Acked) {
        let sample = &acked.sample;
        let now = self.hz.at(acked.now_ns);
        let is_old = now > self.min_rtt_at + MIN_RTT_S * u64::from(self.hz.0);
        if let Some(rtt_us) = sample.rtt_us
            && (self.min_rtt_us.is_none_or(|least| rtt_us < least)
                || (is_old && !sample.is_ack_delayed))
        {
            self.min_rtt_us = Some(rtt_us);
            self.min_rtt_at = now;
        }
        if is_old && !self.is_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_window(window);
            self.probe_rtt_end = None;
        }
        if self.mode == Mode::ProbeRtt {
            // So few packets say nothing about the bandwidth.
            window.app_limited_until = (window.delivered + window.in_flight).max(1);
            if self.probe_rtt_end.is_some() {
                self.probe_rtt_round_done |= self.is_round_start;
                if self.probe_rtt_round_done {
                    self.end_probe_rtt(window, now);
                }
            } else if window.in_flight <= MIN_WINDOW {
                self.probe_rtt_end = Some(now + self.hz.from_us(PROBE_RTT_US));
                self.probe_rtt_round_done = false;
                self.round_end = window.delivered;
            }
        }
        if sample.delivered.is_some_and(|delivered| delivered > 0) {
            self.is_restart = false;
        }
    }

    /// `bbr_check_probe_rtt_done`.
    fn end_probe_rtt(&mut self, window: &mut Window, now: u64) {
        if self.probe_rtt_end.is_none_or(|end| now <= end) {
            return;
        }
        self.min_rtt_at = now;
        window.cwnd = window.cwnd.max(self.prior_cwnd);
        if self.is_full {
            self.probe_bandwidth(window);
        } else {
            self.mode = Mode::Startup;
        }
    }

    /// `bbr_update_gains`.
    fn set_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.long_term.limit().is_some() => (UNIT, CWND_GAIN),
            Mode::ProbeBw => (CYCLE[self.phase], CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }

    /// Sets the pacing rate (`bbr_set_pacing_rate`), which falls only once the path has been full.
    fn pace(&mut self, window: &mut Window, gain: u32) {
        let rate = bytes_per_s(window, self.bandwidth(), gain);
        if !self.has_seen_rtt && window.srtt_us > 0 {
            self.pace_by_window(window);
        }
        if self.is_full || window.pacing_bytes_per_s.is_some_and(|now| rate > now) {
            window.pacing_bytes_per_s = Some(rate);
        }
    }

    /// The initial pacing rate (`bbr_init_pacing_rate_from_rtt`): HIGH_GAIN times the window per RTT, 1 ms if unknown.
    fn pace_by_window(&mut self, window: &mut Window) {
        self.has_seen_rtt = window.srtt_us > 0;
        let rtt_us = match window.srtt_us {
            0 => 1_000,
            srtt_us => srtt_us,
        };
        let bandwidth = bandwidth(window.cwnd, rtt_us);
        window.pacing_bytes_per_s = Some(bytes_per_s(window, bandwidth, HIGH_GAIN));
    }

    /// `bbr_set_cwnd`.
    fn set_window(&mut self, window: &mut Window, sample: &Sample) {
        let acked = sample.acked_sacked;
        let mut cwnd = window.cwnd;
        if acked > 0 {
            cwnd = self.recover_or_restore(window, sample);
            if self.conserves {
                cwnd = cwnd.max(window.in_flight + acked);
            } else {
                let bandwidth = self.bandwidth();
                let extra = if self.is_full {
                    self.aggregation.packets(bandwidth)
                } else {
                    0
                };
                let target = self.with_room(window, self.pipe(bandwidth, self.cwnd_gain) + extra);
                if self.is_full {
                    cwnd = (cwnd + acked).min(target);
                } else if cwnd < target || window.delivered < INITIAL_WINDOW {
                    cwnd += acked;
                }
                cwnd = cwnd.max(MIN_WINDOW);
            }
        }
        window.cwnd = cwnd.min(window.clamp);
        if self.mode == Mode::ProbeRtt {
            window.cwnd = window.cwnd.min(MIN_WINDOW);
        }
    }

    /// The window at the beginning or end of a recovery (`bbr_set_cwnd_to_recover_or_restore`).
    fn recover_or_restore(&mut self, window: &Window, sample: &Sample) -> u32 {
        let mut cwnd = window.cwnd;
        if sample.losses > 0 {
            cwnd = cwnd.saturating_sub(sample.losses).max(1);
        }
        if window.state == State::Recovery && self.previous != State::Recovery {
            self.conserves = true;
            self.round_end = window.delivered;
            cwnd = window.in_flight + sample.acked_sacked;
        } else if self.previous >= State::Recovery && window.state < State::Recovery {
            cwnd = cwnd.max(self.prior_cwnd);
            self.conserves = false;
        }
        self.previous = window.state;
        cwnd
    }

    /// Saves the window before a recovery or PROBE_RTT (`bbr_save_cwnd`).
    fn save_window(&mut self, window: &Window) {
        self.prior_cwnd = if self.previous < State::Recovery && self.mode != Mode::ProbeRtt {
            window.cwnd
        } else {
            self.prior_cwnd.max(window.cwnd)
        };
    }
}

/// Packets delivered in a sample; `None` if it gives no rate.
fn rated(sample: &Sample) -> Option<u32> {
    sample.delivered.filter(|_| sample.interval_us > 0)
}

/// The bandwidth that delivers `packets` in `us` microseconds.
fn bandwidth(packets: u32, us: u64) -> u32 {
    ((u64::from(packets) << BW_DIGITS) / us) as u32
}

/// A bandwidth times a gain, less the margin, in bytes per second (`bbr_rate_bytes_per_sec`).
fn bytes_per_s(window: &Window, bandwidth: u32, gain: u32) -> u64 {
    let per_us = (u64::from(bandwidth) * u64::from(window.mss) * u64::from(gain)) >> 8;
    (per_us * MARGIN_US_PER_S) >> BW_DIGITS
}

/// `bbr_min_tso_segs`.
fn min_tso_segments(window: &Window) -> u32 {
    match window.pacing_bytes_per_s {
        Some(..MIN_TSO_RATE) => 1,
        _ => 2,
    }
}

/// Packets of a burst (`bbr_tso_segs_goal`): about a millisecond at the pacing rate.
fn send_quantum(window: &Window) -> u32 {
    let bytes = window
        .pacing_bytes_per_s
        .map_or(GSO_BYTES, |rate| (rate >> 10).min(GSO_BYTES));
    let packets = bytes as u32 / window.mss;
    packets.max(min_tso_segments(window)).min(127)
}

impl Ops for Bbr {
    fn init(&mut self, window: &mut Window, now_ns: u64) {
        window.ssthresh = INFINITE;
        window.is_paced = true;
        self.min_rtt_us = window.min_rtt_us;
        self.min_rtt_at = self.hz.at(now_ns);
        self.pace_by_window(window);
        self.long_term.reset(window);
        self.aggregation.begin(now_ns / 1_000);
    }

    fn ssthresh(&mut self, window: &Window) -> u32 {
        self.save_window(window);
        window.ssthresh
    }

    fn on_state(&mut self, window: &mut Window, state: State, _now_ns: u64) {
        if state == State::Loss {
            self.previous = State::Loss;
            self.full_bandwidth = 0;
            self.is_round_start = true;
            self.look_for_a_policer(window, 1, false);
        }
    }

    fn on_event(&mut self, window: &mut Window, event: Event, now_ns: u64) {
        if event != Event::TransmitStart || window.app_limited_until == 0 {
            return;
        }
        self.is_restart = true;
        self.aggregation.begin(now_ns / 1_000);
        match self.mode {
            // After an idle period, pace at the estimated bandwidth without gain.
            Mode::ProbeBw => self.pace(window, UNIT),
            Mode::ProbeRtt => self.end_probe_rtt(window, self.hz.at(now_ns)),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn undo(&mut self, window: &Window) -> u32 {
        self.full_bandwidth = 0;
        self.full_rounds = 0;
        self.long_term.reset(window);
        window.cwnd
    }

    fn control(&mut self, window: &mut Window, acked: &Acked) -> bool {
        let sample = &acked.sample;
        self.measure(window, sample);
        self.aggregation
            .update(window, sample, self.is_round_start, self.bandwidth());
        if self.mode == Mode::ProbeBw && self.is_phase_over(window, acked) {
            self.next_phase(window);
        }
        self.see_whether_it_is_full(sample);
        self.drain(window, acked.now_ns);
        self.measure_round_trip(window, acked);
        self.set_gains();
        self.pace(window, self.pacing_gain);
        self.set_window(window, sample);
        true
    }

    fn sends_paced(&self) -> bool {
        true
    }

    fn min_tso_segments(&self, window: &Window) -> u32 {
        min_tso_segments(window)
    }

    fn sndbuf_expand(&self) -> u32 {
        3
    }
}

#[cfg(test)]
mod tests;
