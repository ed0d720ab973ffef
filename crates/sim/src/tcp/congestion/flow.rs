//! A bulk flow for tests of algorithms: a sender without retransmissions, a bottleneck and a constant base RTT. Each
//! packet is acknowledged; the sender detects a loss when the acknowledgement would have been due.

use std::collections::VecDeque;

use super::super::jiffies::Hz;
use super::super::rate::{Sample, Snapshot};
use super::{Acked, Event, Law, State, Window, pacing};

const MSS: u32 = 1_448;

/// A packet in flight.
struct Packet {
    sent_ns: u64,
    /// When its acknowledgement arrives, or is missed.
    due_ns: u64,
    is_lost: bool,
    then: Snapshot,
}

/// Drops packets that exceed a rate and a burst.
pub(super) struct Policer {
    pub(super) packets_per_s: u64,
    pub(super) burst: f64,
}

pub(super) struct Flow {
    pub(super) law: Law,
    pub(super) window: Window,
    pub(super) now_ns: u64,
    pub(super) rtt_us: u64,
    /// The rate of the bottleneck; `None` if there is none.
    pub(super) packets_per_s: Option<u64>,
    /// Packets that the bottleneck has room for.
    pub(super) buffer: u64,
    /// One in this many packets is lost.
    pub(super) lose_every: Option<u64>,
    /// The number of a packet to lose.
    lose_at: u64,
    pub(super) policer: Option<Policer>,
    /// Acknowledgements arrive together at multiples of this.
    pub(super) aggregate_ns: u64,
    /// Recoveries begun.
    pub(super) recoveries: u64,
    sent: u64,
    tokens: f64,
    tokens_ns: u64,
    link_free_ns: u64,
    first_sent_ns: u64,
    losses: u32,
    recovery_end: u64,
    packets: VecDeque<Packet>,
}

impl Flow {
    /// A flow over a path of 100 ms without a bottleneck.
    pub(super) fn of(name: &str) -> Self {
        Self::with(Law::named(name, Hz::default(), 1).unwrap())
    }

    pub(super) fn with(mut law: Law) -> Self {
        let mut window = Window {
            una: 1,
            next: 1,
            is_limited: true,
            ..Window::new(MSS)
        };
        law.init(&mut window, 0);
        Flow {
            law,
            window,
            now_ns: 0,
            rtt_us: 100_000,
            packets_per_s: None,
            buffer: u64::MAX,
            lose_every: None,
            lose_at: 0,
            policer: None,
            aggregate_ns: 1,
            recoveries: 0,
            sent: 0,
            tokens: 0.0,
            tokens_ns: 0,
            link_free_ns: 0,
            first_sent_ns: 0,
            losses: 0,
            recovery_end: 0,
            packets: VecDeque::new(),
        }
    }

    /// The mean window, in packets, when one in `every` packets is lost and nothing limits the rate.
    pub(super) fn mean_window(mut self, rtt_us: u64, every: u64) -> f64 {
        self.rtt_us = rtt_us;
        self.lose_every = Some(every);
        self.window.is_paced = true;
        // About where Reno would be, instead of slow start up to the first loss.
        self.window.ssthresh = (1.5 * every as f64).sqrt() as u32;
        let run = |flow: &mut Flow, until: u64| {
            while flow.recoveries < until {
                flow.step();
            }
            (flow.now_ns, flow.window.delivered)
        };
        let (from_ns, from) = run(&mut self, 12);
        let (to_ns, to) = run(&mut self, 24);
        f64::from(to - from) * (rtt_us * 1_000) as f64 / (to_ns - from_ns) as f64
    }

    /// Runs for `ms` milliseconds; returns the packets delivered in that time.
    pub(super) fn run_ms(&mut self, ms: u64) -> u32 {
        let end_ns = self.now_ns + ms * 1_000_000;
        let before = self.window.delivered;
        while self.now_ns < end_ns {
            self.step();
        }
        self.window.delivered - before
    }

    /// Makes the next packet get lost.
    pub(super) fn lose_next(&mut self) {
        self.lose_at = self.sent + 1;
    }

    /// Sends, or waits for the next acknowledgement.
    pub(super) fn step(&mut self) {
        let may_send = self.window.in_flight < self.window.cwnd;
        let due_ns = self
            .packets
            .front()
            .map_or(u64::MAX, |packet| packet.due_ns);
        let departure_ns = if self.window.is_paced {
            self.window.departure_ns.max(self.now_ns)
        } else {
            self.now_ns
        };
        if may_send && departure_ns <= due_ns {
            self.now_ns = departure_ns;
            self.send();
        } else {
            self.now_ns = due_ns;
            let packet = self.packets.pop_front().unwrap();
            self.take(&packet);
        }
    }

    fn send(&mut self) {
        let now = self.now_ns;
        let window = &mut self.window;
        self.sent += 1;
        if window.in_flight == 0 {
            self.first_sent_ns = now;
            window.delivered_ns = now;
        }
        let mut is_lost = self.sent == self.lose_at
            || self
                .lose_every
                .is_some_and(|every| self.sent.is_multiple_of(every));
        if let Some(policer) = &self.policer {
            let rate = policer.packets_per_s as f64;
            self.tokens += (now - self.tokens_ns) as f64 * rate / 1e9;
            self.tokens = self.tokens.min(policer.burst);
            self.tokens_ns = now;
            is_lost |= self.tokens < 1.0;
            self.tokens -= if is_lost { 0.0 } else { 1.0 };
        }
        let mut through_ns = now;
        if let Some(rate) = self.packets_per_s {
            let each_ns = 1_000_000_000 / rate;
            let wait_ns = self.link_free_ns.saturating_sub(now);
            is_lost |= wait_ns / each_ns >= self.buffer;
            through_ns += wait_ns;
            if !is_lost {
                through_ns += each_ns;
                self.link_free_ns = through_ns;
            }
        }
        self.packets.push_back(Packet {
            sent_ns: now,
            due_ns: (through_ns + self.rtt_us * 1_000).next_multiple_of(self.aggregate_ns),
            is_lost,
            then: Snapshot {
                delivered: window.delivered,
                delivered_ns: window.delivered_ns,
                first_sent_ns: self.first_sent_ns,
                is_app_limited: window.delivered < window.app_limited_until,
            },
        });
        window.in_flight += 1;
        window.outstanding = window.in_flight;
        window.next += u64::from(MSS);
        window.last_sent_ns = now;
        if let Some(rate) = window.pacing_bytes_per_s {
            window.departure_ns =
                window.departure_ns.max(now) + u64::from(MSS) * 1_000_000_000 / rate.max(1);
        }
    }

    fn take(&mut self, packet: &Packet) {
        let prior_in_flight = self.window.in_flight;
        self.window.in_flight -= 1;
        self.window.outstanding = self.window.in_flight;
        if packet.is_lost {
            // It is retransmitted as if it were new.
            self.window.next -= u64::from(MSS);
            self.window.lost += 1;
            self.losses += 1;
            return;
        }
        let rtt_us = (self.now_ns - packet.sent_ns) / 1_000;
        let window = &mut self.window;
        window.una += u64::from(MSS);
        window.delivered += 1;
        window.delivered_ns = self.now_ns;
        window.srtt_us = match window.srtt_us {
            0 => rtt_us,
            srtt_us => (srtt_us * 7 + rtt_us) / 8,
        };
        window.min_rtt_us = Some(window.min_rtt_us.map_or(rtt_us, |least| least.min(rtt_us)));
        self.first_sent_ns = packet.sent_ns;
        let send_us = (packet.sent_ns - packet.then.first_sent_ns) / 1_000;
        let ack_us = (self.now_ns - packet.then.delivered_ns) / 1_000;
        let interval_us = send_us.max(ack_us);
        let acked = Acked {
            now_ns: self.now_ns,
            sample: Sample {
                prior_delivered: packet.then.delivered,
                delivered: window
                    .min_rtt_us
                    .is_some_and(|least| interval_us >= least)
                    .then(|| window.delivered - packet.then.delivered),
                interval_us,
                rtt_us: Some(rtt_us),
                acked_sacked: 1,
                losses: std::mem::take(&mut self.losses),
                prior_in_flight,
                is_app_limited: packet.then.is_app_limited,
                ..Sample::default()
            },
        };
        self.law.on_acked(window, &acked);
        if window.state == State::Open && acked.sample.losses > 0 {
            window.prior = window.cwnd;
            window.ssthresh = self.law.ssthresh(window);
            self.enter(State::Recovery);
            self.recoveries += 1;
            self.recovery_end = self.window.next;
        }
        let ends = self.window.state == State::Recovery && self.window.una >= self.recovery_end;
        if ends && !self.law.sends_paced() {
            self.window.cwnd = self.window.ssthresh;
            self.law
                .on_event(&mut self.window, Event::CompleteCwr, self.now_ns);
        }
        if ends {
            self.enter(State::Open);
        }
        if self.law.control(&mut self.window, &acked) {
            return;
        }
        if self.window.state == State::Recovery {
            self.window.cwnd = self.window.ssthresh;
        } else {
            self.law.avoid(&mut self.window, &acked);
        }
        self.window.pacing_bytes_per_s = Some(pacing::rate(&self.window));
    }

    fn enter(&mut self, state: State) {
        self.law.on_state(&mut self.window, state, self.now_ns);
        self.window.state = state;
    }
}
