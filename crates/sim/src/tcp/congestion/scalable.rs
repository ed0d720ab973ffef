//! Scalable TCP (net/ipv4/tcp_scalable.c; Kelly, CCR 33(2), 2003): grows the window by a hundredth per round trip and
//! cuts it by an eighth after a loss, so that the time to recover does not depend on the window.

use super::law::Ops;
use super::{Acked, Window, reno};

/// Acknowledged packets per packet of growth, for windows larger than this.
const INCREASE_PER: u32 = 100;

/// Scalable TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scalable;

impl Ops for Scalable {
    fn ssthresh(&mut self, window: &Window) -> u32 {
        (window.cwnd - (window.cwnd >> 3)).max(2)
    }

    fn avoid(&mut self, window: &mut Window, acked: &Acked) {
        reno::avoid_by(window, acked, |cwnd| cwnd.min(INCREASE_PER));
    }
}

#[cfg(test)]
mod tests {
    use super::super::flow::Flow;

    /// Growing back from 7/8 of the window takes ln(8/7) / ln(1.01) = 13.4 round trips, however large it is.
    #[test]
    fn the_time_to_recover_does_not_depend_on_the_window() {
        for cwnd in [1_000, 10_000] {
            let mut flow = Flow::of("scalable");
            (flow.window.cwnd, flow.window.ssthresh) = (cwnd, cwnd);
            flow.window.is_paced = true;
            flow.lose_next();
            while flow.window.cwnd >= cwnd {
                flow.step();
            }
            assert_eq!(flow.window.cwnd, cwnd - cwnd / 8);
            let from_ns = flow.now_ns;
            while flow.window.cwnd < cwnd {
                flow.step();
            }
            let rounds = (flow.now_ns - from_ns) as f64 / 1e8;
            // The recovery itself takes one more.
            assert!((rounds - 14.4).abs() < 0.7, "{rounds} from {cwnd}");
        }
    }
}
