//! Westwood+ (net/ipv4/tcp_westwood.c; Grieco and Mascolo, CCR 34(2), 2004): Reno, but a loss sets the window to the
//! recent delivery rate times the minimum RTT.

use super::super::jiffies::Hz;
use super::law::Ops;
use super::{Acked, Event, Window};

/// A rate is measured over at least 1/20 s.
const MIN_PER_SECOND: u32 = 20;
/// The RTT before the first sample: 20 s, more than any that follows.
const INITIAL_RTT_S: u32 = 20;

/// Westwood+. As in the kernel, times are in jiffies and rates in bytes per jiffy: a short RTT counts as a jiffy.
#[derive(Debug, Clone, Copy)]
pub struct Westwood {
    hz: Hz,
    /// The rate, filtered once and twice; 0 before the first sample.
    once: u32,
    twice: u32,
    /// When the current sample began.
    since: u64,
    /// Bytes delivered since.
    bytes: u32,
    /// The sequence number up to which they are accounted for.
    una: u64,
    /// Bytes counted for duplicate acknowledgements and not yet cumulatively acknowledged.
    ahead: u64,
    rtt: u32,
    min_rtt: u32,
    /// Whether the first acknowledgement is yet to come.
    is_first: bool,
    /// Whether the next RTT replaces the minimum.
    forgets_min_rtt: bool,
}

impl Westwood {
    pub(super) fn new(hz: Hz) -> Self {
        Westwood {
            hz,
            once: 0,
            twice: 0,
            since: 0,
            bytes: 0,
            una: 0,
            ahead: 0,
            rtt: INITIAL_RTT_S * hz.0,
            min_rtt: INITIAL_RTT_S * hz.0,
            is_first: true,
            forgets_min_rtt: true,
        }
    }

    /// Ends the sample when it has lasted a round trip (`westwood_update_window`).
    fn sample(&mut self, now_ns: u64) {
        let now = self.hz.at(now_ns);
        let jiffies = (now - self.since) as u32;
        if jiffies <= self.rtt.max(self.hz.0 / MIN_PER_SECOND) {
            return;
        }
        let rate = self.bytes / jiffies;
        if self.once == 0 && self.twice == 0 {
            (self.once, self.twice) = (rate, rate);
        } else {
            self.once = filtered(self.once, rate);
            self.twice = filtered(self.twice, self.once);
        }
        self.bytes = 0;
        self.since = now;
    }

    /// Bytes delivered according to an acknowledgement (`westwood_acked_count`): one packet for a duplicate; for a
    /// cumulative one, what duplicates have not counted yet.
    ///
    /// The kernel does this only in its slow path, which handles all duplicates; its fast path counts all bytes, and so
    /// differs only for the first acknowledgement of several packets after a recovery.
    fn delivered(&mut self, window: &Window) -> u64 {
        let mss = u64::from(window.mss);
        let mut bytes = window.una - self.una;
        self.una = window.una;
        if bytes == 0 {
            self.ahead += mss;
            bytes = mss;
        }
        if bytes > mss {
            if self.ahead >= bytes {
                self.ahead -= bytes;
                bytes = mss;
            } else {
                bytes -= self.ahead;
                self.ahead = 0;
            }
        }
        bytes
    }

    /// Rate times minimum RTT, in packets (`tcp_westwood_bw_rttmin`).
    fn pipe(&self, window: &Window) -> u32 {
        (self.twice.wrapping_mul(self.min_rtt) / window.mss).max(2)
    }
}

/// Seven eighths of the old value plus one eighth of the new.
fn filtered(old: u32, new: u32) -> u32 {
    (7 * old + new) >> 3
}

impl Ops for Westwood {
    fn init(&mut self, window: &mut Window, now_ns: u64) {
        *self = Westwood {
            since: self.hz.at(now_ns),
            una: window.una,
            ..Westwood::new(self.hz)
        };
    }

    fn on_event(&mut self, window: &mut Window, event: Event, _now_ns: u64) {
        match event {
            Event::CompleteCwr => {
                window.ssthresh = self.pipe(window);
                window.cwnd = window.ssthresh;
            }
            Event::Loss => {
                window.ssthresh = self.pipe(window);
                self.forgets_min_rtt = true;
            }
            Event::TransmitStart | Event::Restart => {}
        }
    }

    fn on_acked(&mut self, window: &mut Window, acked: &Acked) {
        if let Some(rtt_us @ 1..) = acked.sample.rtt_us {
            self.rtt = self.hz.from_us(rtt_us) as u32;
        }
        self.sample(acked.now_ns);
        if self.is_first {
            self.una = window.una;
            self.is_first = false;
        } else {
            self.bytes += self.delivered(window) as u32;
        }
        if self.forgets_min_rtt {
            self.min_rtt = self.rtt;
            self.forgets_min_rtt = false;
        } else {
            self.min_rtt = self.min_rtt.min(self.rtt);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flow::Flow;
    use super::*;

    /// 2000 packets/s times 100.5 ms, which count as 26 jiffies of 4 ms, are 208 packets, whatever is in the queue: the
    /// path stays full after a loss.
    #[test]
    fn a_loss_takes_the_window_to_what_the_path_holds() {
        let mut flow = Flow::of("westwood");
        flow.packets_per_s = Some(2_000);
        (flow.window.cwnd, flow.window.ssthresh) = (190, 190);
        flow.run_ms(20_000);
        assert!(flow.window.cwnd > 300);
        flow.lose_next();
        while flow.recoveries == 0 {
            flow.step();
        }
        flow.run_ms(300);
        let cwnd = flow.window.cwnd;
        assert!((200..=210).contains(&cwnd), "{cwnd}");
    }

    /// The response of two filters in series to a step of the rate: after n samples, 1 - (7/8)^n (1 + n/8) of it.
    #[test]
    fn the_rate_is_filtered_twice() {
        let mut law = Westwood::new(Hz(100));
        let mut window = Window::new(1_000);
        law.init(&mut window, 0);
        let mut acked = Acked::default();
        acked.sample.rtt_us = Some(100_000);
        let mut second = |law: &mut Westwood, bytes: u64| {
            acked.now_ns += 1_000_000_000;
            window.una += bytes;
            law.on_acked(&mut window, &acked);
        };
        // The bytes of an acknowledgement count towards the next sample.
        second(&mut law, 0);
        second(&mut law, 100_000);
        second(&mut law, 900_000);
        assert_eq!(law.twice, 1_000);
        for n in 1..=20_i32 {
            second(&mut law, 900_000);
            let part = 1.0 - 0.875_f64.powi(n) * (1.0 + f64::from(n) / 8.0);
            let rate = 1_000.0 + 8_000.0 * part;
            assert!(
                (f64::from(law.twice) - rate).abs() < 16.0,
                "{} {rate}",
                law.twice
            );
        }
    }

    /// A duplicate counts one packet; after three of them, the cumulative acknowledgement of four counts the rest.
    #[test]
    fn bytes_of_duplicates_are_counted_once() {
        let mut law = Westwood::new(Hz(100));
        let mut window = Window::new(1_000);
        law.is_first = false;
        for _ in 0..3 {
            assert_eq!(law.delivered(&window), 1_000);
        }
        window.una = 4_000;
        assert_eq!(law.delivered(&window), 1_000);
        window.una = 6_000;
        assert_eq!(law.delivered(&window), 2_000);
    }
}
