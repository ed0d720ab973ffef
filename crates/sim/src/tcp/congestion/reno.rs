//! Reno (net/ipv4/tcp_cong.c, RFC 5681): one packet more per round trip, half the window after a loss.

use super::law::Ops;
use super::{Acked, Window};

/// Reno.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reno;

impl Ops for Reno {}

/// Half the window, at least two packets (`tcp_reno_ssthresh`).
pub(super) fn ssthresh(window: &Window) -> u32 {
    (window.cwnd >> 1).max(2)
}

/// Slow start, and above the threshold one packet more per window (`tcp_reno_cong_avoid`).
pub(super) fn avoid(window: &mut Window, acked: &Acked) {
    avoid_by(window, acked, |cwnd| cwnd);
}

/// The same, but with one packet more for every `per(cwnd)` acknowledged packets.
pub(super) fn avoid_by(window: &mut Window, acked: &Acked, per: impl FnOnce(u32) -> u32) {
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
    window.increase(per(window.cwnd), packets);
}

#[cfg(test)]
mod tests {
    use super::super::flow::Flow;
    use super::*;

    /// sqrt(3 / (2 p)) packets (Mathis et al., CCR 27(3), 1997).
    #[test]
    fn the_mean_window_is_that_of_the_square_root_law() {
        for every in [1_000_u64, 10_000, 100_000] {
            let mean = Flow::of("reno").mean_window(100_000, every);
            let packets = (1.5 * every as f64).sqrt();
            assert!((mean / packets - 1.0).abs() < 0.05, "{mean} at 1/{every}");
        }
    }

    #[test]
    fn slow_start_doubles_the_window_each_round_trip() {
        let mut flow = Flow::of("reno");
        for cwnd in [20, 40, 80, 160] {
            flow.run_ms(100);
            while flow.window.cwnd < cwnd {
                flow.step();
            }
            assert_eq!(flow.now_ns % 100_000_000, 0);
            assert_eq!(flow.window.cwnd, cwnd);
        }
    }

    /// 4 of 10 packets go to slow start; the other 6 count for a window of 14 (RFC 5681 §3.1).
    #[test]
    fn what_slow_start_leaves_of_an_acknowledgement_counts_for_avoidance() {
        let mut window = Window {
            cwnd: 10,
            ssthresh: 14,
            is_limited: true,
            ..Window::new(1448)
        };
        let mut acked = Acked::default();
        acked.sample.acked_sacked = 10;
        avoid(&mut window, &acked);
        assert_eq!((window.cwnd, window.count), (14, 6));
        acked.sample.acked_sacked = 8;
        avoid(&mut window, &acked);
        assert_eq!((window.cwnd, window.count), (15, 0));
        window.is_limited = false;
        acked.sample.acked_sacked = 15;
        avoid(&mut window, &acked);
        assert_eq!(window.cwnd, 15);
    }
}
