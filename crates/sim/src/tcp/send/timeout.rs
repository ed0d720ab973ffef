//! Timers: retransmission, tail loss probe (RFC 8985 §7), reordering, and zero-window probe (net/ipv4/tcp_timer.c).

use super::Sender;
use crate::tcp::congestion::{Event, State};
use crate::tcp::segment::Segment;

/// What a timer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Timer {
    /// Retransmission.
    Timeout,
    /// Tail loss probe.
    Probe,
    /// Packets that may only be reordered.
    Reordering,
    /// Zero-window probe.
    Window,
}

/// Maximum delay of the receiver's acknowledgements (the kernel assumes TCP_RTO_MIN).
const DELAYED_ACK_US: u64 = super::rtt::RTO_MIN_US;

impl Sender {
    /// When to call [`on_timer`](Sender::on_timer), or [`transmit`](Sender::transmit) if packets are paced, in
    /// nanoseconds.
    #[must_use]
    pub fn next_timer(&self) -> Option<u64> {
        let timer = self.timer.map(|(_, at_ns)| at_ns);
        let has_more = self.window.next < self.end() || self.board.lost > self.board.resent;
        let paced = (self.window.is_paced && has_more && self.board.in_flight() < self.window.cwnd)
            .then_some(self.window.departure_ns)
            .filter(|&at_ns| at_ns > self.paused_ns);
        match (timer, paced) {
            (Some(timer), Some(paced)) => Some(timer.min(paced)),
            (timer, paced) => timer.or(paced),
        }
    }

    fn set(&mut self, now_ns: u64, timer: Timer, delay_us: u64) {
        self.timer = Some((timer, self.config.hz.expiry_ns(now_ns, delay_us)));
    }

    /// Runs the timer if it is due.
    pub fn on_timer(&mut self, now_ns: u64) {
        let Some((timer, at_ns)) = self.timer else {
            return;
        };
        if at_ns > now_ns {
            return;
        }
        self.timer = None;
        match timer {
            Timer::Timeout => self.time_out(now_ns),
            Timer::Probe => self.probe_due = true,
            Timer::Reordering => self.look_for_lost(now_ns),
            Timer::Window => {
                self.trips.backoff += 1;
                self.window_probe_due = true;
            }
        }
        self.refresh();
    }

    /// Restarts the retransmission timer (`tcp_rearm_rto`).
    pub(super) fn arm_timeout(&mut self, now_ns: u64) {
        if self.board.is_empty() {
            self.timer = None;
            return;
        }
        let mut delay_us = self.trips.backed_off_us();
        // In place of a probe or reordering timer, it counts from the transmission of the head.
        if matches!(self.timer, Some((Timer::Probe | Timer::Reordering, _))) {
            delay_us = self.timeout_left_us(now_ns).max(1);
        }
        self.set(now_ns, Timer::Timeout, delay_us);
    }

    /// Restarts the retransmission timer from now.
    pub(super) fn restart_timeout(&mut self, now_ns: u64) {
        self.set(now_ns, Timer::Timeout, self.trips.backed_off_us());
    }

    /// The time left until the first packet times out (`tcp_rto_delta_us`).
    fn timeout_left_us(&self, now_ns: u64) -> u64 {
        let sent_ns = self.board.head().map_or(now_ns, |head| head.sent_ns);
        let age_us = now_ns.saturating_sub(sent_ns) / 1_000;
        self.trips.backed_off_us().saturating_sub(age_us)
    }

    /// Rearms the timer after an acknowledgement of new data.
    pub(super) fn rearm(&mut self, now_ns: u64) {
        if !self.schedule_probe(now_ns, true) {
            self.arm_timeout(now_ns);
        }
    }

    /// Schedules a tail loss probe in two round trips (RFC 8985 §7.2, `tcp_schedule_loss_probe`); returns whether it
    /// did.
    pub(super) fn schedule_probe(&mut self, now_ns: u64, is_advancing: bool) -> bool {
        if self.board.is_empty()
            || self.board.sacked > 0 && self.window.state == State::Disorder
            || !matches!(self.window.state, State::Open | State::Cwr)
            || matches!(self.timer, Some((Timer::Reordering | Timer::Window, _)))
        {
            return false;
        }
        let mut delay_us = match self.trips.smoothed_us() {
            0 => super::rtt::RTO_INITIAL_US,
            // A single packet may be acknowledged with a delay.
            srtt if self.board.packets_out() == 1 => 2 * srtt + DELAYED_ACK_US,
            srtt => 2 * srtt + super::rtt::TIMEOUT_MIN_US,
        };
        let timeout_us = match is_advancing {
            true => self.trips.backed_off_us(),
            false => self.timeout_left_us(now_ns),
        };
        if timeout_us > 0 {
            delay_us = delay_us.min(timeout_us);
        }
        self.set(now_ns, Timer::Probe, delay_us);
        true
    }

    /// Sends the probe: new data if the peer's window permits, else the last packet again (RFC 8985 §7.3).
    pub(super) fn probe_tail(&mut self, now_ns: u64) -> Option<Segment> {
        if self.board.is_empty() || self.probe.is_some() {
            self.timer = None;
            self.arm_timeout(now_ns);
            return None;
        }
        self.has_probed = true;
        self.counts.probes += 1;
        let bytes = self.next_bytes();
        let can_send_new = bytes > 0 && self.window.next + u64::from(bytes) <= self.window_end();
        let segment = if can_send_new {
            Some(self.send(now_ns, bytes, false))
        } else {
            let last = self.board.next_id().wrapping_sub(1);
            self.resend(now_ns, last)
        };
        self.probe = Some((self.window.next, !can_send_new));
        self.set(now_ns, Timer::Timeout, self.trips.backed_off_us());
        segment
    }

    /// The retransmission timer has expired: marks the head, and all that was sent a round trip ago, as lost and begins
    /// slow start (RFC 5681 §3.1 (4), `tcp_enter_loss`).
    fn time_out(&mut self, now_ns: u64) {
        if self.board.is_empty() {
            return;
        }
        self.counts.timeouts += 1;
        self.enter_loss(now_ns);
        self.timeouts += 1;
        self.trips.backoff += 1;
        self.set(now_ns, Timer::Timeout, self.trips.backed_off_us());
    }

    fn enter_loss(&mut self, now_ns: u64) {
        let reneged = self.board.head().is_some_and(|head| head.is_sacked);
        self.probe = None;
        let first = self.board.first_id();
        for id in self.board.ids() {
            let packet = *self.board.get(id).expect("it is there");
            if reneged && packet.is_sacked {
                self.board.forget_sack(id);
            } else if id != first && self.rack.left_us(now_ns, &packet, 0) > 0 {
                continue;
            }
            self.lose(id);
        }
        let state = self.window.state;
        let is_new = state < State::Recovery;
        if state <= State::Disorder
            || self.high <= self.window.una
            || (state == State::Loss && self.timeouts == 0)
        {
            self.prior_ssthresh = self.current_ssthresh();
            self.window.prior = self.window.cwnd;
            self.refresh();
            self.window.ssthresh = self.law.ssthresh(&self.window);
            self.happens(now_ns, Event::Loss);
            self.begin_undo();
        }
        self.window.cwnd = self.board.in_flight() + 1;
        self.window.count = 0;
        self.used_ns = now_ns;
        if state <= State::Disorder && self.board.sacked >= super::REORDERING {
            self.reordering = self.reordering.min(super::REORDERING);
        }
        self.set_state(now_ns, State::Loss);
        self.high = self.window.next;
        self.must_say_cwr = self.uses_ecn;
        self.is_frto = is_new || self.timeouts > 0;
    }

    /// Sets the timer for a zero-window probe while the peer's window is closed (RFC 9293 §3.8.6.1).
    pub(super) fn probe_window(&mut self, now_ns: u64) {
        let waits = self.board.is_empty() && self.window.next < self.end();
        if !waits || self.timer.is_some() {
            return;
        }
        let bytes = (self.end() - self.window.next).min(u64::from(self.config.mss));
        if self.window.next + bytes > self.window_end() {
            self.set(
                now_ns,
                Timer::Window,
                self.trips.backed_off_us().max(super::rtt::RTO_MIN_US),
            );
        }
    }
}
