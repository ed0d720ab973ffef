//! Vegas (net/ipv4/tcp_vegas.c; Brakmo and Peterson, JSAC 13(8), 1995): compares the RTT with its minimum once per
//! round trip, and keeps two to four packets in the queue.

use super::law::Ops;
use super::{Acked, Event, State, Window, reno};

/// With fewer packets in the queue, the window grows.
const ALPHA: u32 = 2;
/// With more packets in the queue, the window shrinks.
const BETA: u32 = 4;
/// With more packets in the queue, slow start ends.
const GAMMA: u32 = 1;

/// The RTT before the first sample.
const NEVER: u32 = 0x7fff_ffff;

/// Vegas.
#[derive(Debug, Clone, Copy)]
pub struct Vegas {
    /// Whether Vegas is active; else it acts as Reno.
    is_on: bool,
    /// The sequence number that ends this round trip.
    round_end: u64,
    /// Samples in this round trip.
    samples: u32,
    /// The minimum RTT of this round trip plus 1, in microseconds.
    round_us: u32,
    /// The minimum RTT since the last start from idle plus 1, in microseconds.
    base_us: u32,
}

impl Default for Vegas {
    fn default() -> Self {
        Vegas {
            is_on: false,
            round_end: 0,
            samples: 0,
            round_us: NEVER,
            base_us: NEVER,
        }
    }
}

impl Vegas {
    /// Activates Vegas, with a round trip that begins with the next packet sent.
    fn enable(&mut self, window: &Window) {
        self.is_on = true;
        self.begin_round(window);
    }

    fn begin_round(&mut self, window: &Window) {
        self.round_end = window.next;
        self.samples = 0;
        self.round_us = NEVER;
    }

    /// Adjusts the window at the end of a round trip.
    fn adjust(&self, window: &mut Window, acked: &Acked) {
        // Packets in the queue: cwnd (rtt - base) / base, in the kernel's 32 bits.
        let queued = window.cwnd.wrapping_mul(self.round_us - self.base_us) / self.base_us;
        if window.in_slow_start() {
            if queued > GAMMA {
                // The achieved rate times the base RTT.
                let target =
                    u64::from(window.cwnd) * u64::from(self.base_us) / u64::from(self.round_us);
                window.cwnd = window.cwnd.min(target as u32 + 1);
                window.ssthresh = lowered(window);
            } else {
                window.slow_start(acked.sample.acked_sacked);
            }
        } else if queued > BETA {
            window.cwnd -= 1;
            window.ssthresh = lowered(window);
        } else if queued < ALPHA {
            window.cwnd += 1;
        }
        window.cwnd = window.cwnd.max(2).min(window.clamp);
        // tcp_current_ssthresh: at least three quarters of the window.
        window.ssthresh = window.ssthresh.max((window.cwnd >> 1) + (window.cwnd >> 2));
    }
}

/// The threshold, but at most the window, so that slow start does not begin again (`tcp_vegas_ssthresh`).
fn lowered(window: &Window) -> u32 {
    window.ssthresh.min(window.cwnd)
}

impl Ops for Vegas {
    fn init(&mut self, window: &mut Window, _now_ns: u64) {
        self.base_us = NEVER;
        self.enable(window);
    }

    fn on_state(&mut self, window: &mut Window, state: State, _now_ns: u64) {
        if state == State::Open {
            self.enable(window);
        } else {
            self.is_on = false;
        }
    }

    fn on_event(&mut self, window: &mut Window, event: Event, now_ns: u64) {
        if matches!(event, Event::Restart | Event::TransmitStart) {
            self.init(window, now_ns);
        }
    }

    fn on_acked(&mut self, _: &mut Window, acked: &Acked) {
        let Some(rtt_us) = acked.sample.rtt_us else {
            return;
        };
        // Never 0, as it is a divisor.
        let rtt_us = rtt_us as u32 + 1;
        self.base_us = self.base_us.min(rtt_us);
        self.round_us = self.round_us.min(rtt_us);
        self.samples += 1;
    }

    fn avoid(&mut self, window: &mut Window, acked: &Acked) {
        if !self.is_on {
            reno::avoid(window, acked);
        } else if window.una > self.round_end {
            // One or two samples may all come from delayed acknowledgements.
            if self.samples <= 2 {
                reno::avoid(window, acked);
            } else {
                self.adjust(window, acked);
            }
            self.begin_round(window);
        } else if window.in_slow_start() {
            window.slow_start(acked.sample.acked_sacked);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flow::Flow;
    use super::*;

    /// 2000 packets/s times 100 ms are 200 packets; two to four more are in the queue.
    #[test]
    fn it_holds_two_to_four_packets_in_the_queue() {
        let mut flow = Flow::of("vegas");
        flow.packets_per_s = Some(2_000);
        // After slow start the window shrinks by a packet per round trip.
        flow.run_ms(200_000);
        for _ in 0..50 {
            flow.run_ms(100);
            assert!(
                (201..=205).contains(&flow.window.cwnd),
                "{}",
                flow.window.cwnd
            );
        }
        assert_eq!(flow.window.lost, 0);
    }

    /// 100 packets in 125 ms, of which 25 ms are queueing: 80 packets fill the path.
    #[test]
    fn slow_start_ends_with_the_window_that_fills_the_path() {
        let mut law = Vegas::default();
        let mut window = Window {
            cwnd: 100,
            una: 1,
            next: 1,
            is_limited: true,
            ..Window::new(1448)
        };
        law.init(&mut window, 0);
        (window.una, window.next) = (2, 3);
        let mut acked = Acked::default();
        acked.sample.acked_sacked = 1;
        acked.sample.rtt_us = Some(100_000);
        law.on_acked(&mut window, &acked);
        law.avoid(&mut window, &acked);
        // One sample is not enough to measure.
        assert_eq!(window.cwnd, 101);
        assert!(window.in_slow_start());
        window.cwnd = 100;
        acked.sample.rtt_us = Some(125_000);
        for _ in 0..3 {
            law.on_acked(&mut window, &acked);
        }
        (window.una, window.next) = (4, 5);
        law.avoid(&mut window, &acked);
        assert_eq!((window.cwnd, window.ssthresh), (81, 81));
    }

    #[test]
    fn out_of_open_it_is_reno() {
        let mut law = Vegas::default();
        let mut window = Window {
            cwnd: 10,
            ssthresh: 10,
            is_limited: true,
            ..Window::new(1448)
        };
        law.init(&mut window, 0);
        law.on_state(&mut window, State::Recovery, 0);
        let mut acked = Acked::default();
        acked.sample.acked_sacked = 10;
        law.avoid(&mut window, &acked);
        assert_eq!(window.cwnd, 11);
    }
}
