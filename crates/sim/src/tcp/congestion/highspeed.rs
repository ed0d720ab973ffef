//! HighSpeed TCP (net/ipv4/tcp_highspeed.c, RFC 3649): from 38 packets on, the larger the window, the more it
//! grows per round trip and the less a loss takes from it.

use std::sync::LazyLock;

use super::law::Ops;
use super::{Acked, Window};

/// Steps of the table; in the n-th, the window grows by n packets per round trip.
const STEPS: usize = 72;

/// A step: the largest window it applies to, and the decrease for a loss, in 256ths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Step {
    cwnd: u32,
    decrease: u32,
}

/// The table of RFC 3649 Appendix B without its last line, as in the kernel. It follows from §5's equations for
/// the decrease b(w), which falls with log(w) from 0.5 at 38 packets to 0.1 at 83000, and for the increase
/// a(w) = w² p(w) 2 b(w) / (2 - b(w)) with p(w) = 1 / (12.8 w^1.2): a step ends where a(w) is larger by one than
/// where the step before it ended.
static TABLE: LazyLock<[Step; STEPS]> = LazyLock::new(|| {
    let mut table = [Step::default(); STEPS];
    table[0] = Step {
        cwnd: 38,
        decrease: 128,
    };
    let (mut at, mut increase) = (1, 1.0);
    for cwnd in 39_u32.. {
        let w = f64::from(cwnd);
        let b = 0.5 - 0.4 * (w / 38.0).ln() / (83_000_f64 / 38.0).ln();
        let a = w * w * 2.0 * b / ((2.0 - b) * w.powf(1.2) * 12.8);
        if a > increase + 1.0 {
            increase = a;
            table[at] = Step {
                cwnd,
                decrease: (256.0 * b) as u32,
            };
            at += 1;
            if at == STEPS {
                break;
            }
        }
    }
    table
});

/// HighSpeed TCP.
#[derive(Debug, Clone, Copy, Default)]
pub struct HighSpeed {
    /// The step of the last growth in congestion avoidance. Slow start does not change it, so the first loss halves the
    /// window, however large it is.
    step: usize,
}

impl Ops for HighSpeed {
    fn init(&mut self, window: &mut Window, _now_ns: u64) {
        // Larger windows would overflow the decrease's 32 bits.
        window.clamp = window.clamp.min(u32::MAX / 128);
    }

    fn ssthresh(&mut self, window: &Window) -> u32 {
        let less = (window.cwnd * TABLE[self.step].decrease) >> 8;
        (window.cwnd - less).max(2)
    }

    fn avoid(&mut self, window: &mut Window, acked: &Acked) {
        if !window.is_limited {
            return;
        }
        if window.in_slow_start() {
            window.slow_start(acked.sample.acked_sacked);
            return;
        }
        while window.cwnd > TABLE[self.step].cwnd && self.step < STEPS - 1 {
            self.step += 1;
        }
        while self.step > 0 && window.cwnd <= TABLE[self.step - 1].cwnd {
            self.step -= 1;
        }
        // Acknowledgements are counted, not packets, as in the kernel: delayed ones halve the growth.
        if window.cwnd < window.clamp {
            window.count += self.step as u32 + 1;
            if window.count >= window.cwnd {
                window.count -= window.cwnd;
                window.cwnd += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::flow::Flow;
    use super::*;

    /// Lines of RFC 3649 Appendix B, whose b(w) has two digits.
    #[test]
    fn the_table_is_that_of_the_rfc() {
        for (increase, cwnd, decrease) in [
            (1, 38, 0.50),
            (2, 118, 0.44),
            (3, 221, 0.41),
            (4, 347, 0.38),
            (5, 495, 0.37),
            (10, 1529, 0.31),
            (20, 5036, 0.25),
            (30, 10661, 0.21),
            (40, 18955, 0.18),
            (50, 30975, 0.15),
            (60, 48961, 0.13),
            (70, 79517, 0.10),
            (72, 89053, 0.10),
        ] {
            let step = TABLE[increase - 1];
            assert_eq!(step.cwnd, cwnd, "a(w) = {increase}");
            let b = f64::from(step.decrease) / 256.0;
            assert!((b - decrease).abs() < 0.01, "{b} at {cwnd}");
        }
    }

    /// The response function of RFC 3649 §5, w = 0.12 / p^0.835, and its Table 5. The kernel uses the increase that the
    /// RFC's table has for the end of a step throughout the step, so it grows by up to one packet more.
    #[test]
    fn the_mean_window_is_that_of_the_response_function() {
        for (every, packets) in [(10_000, 263.0), (100_000, 1_795.0)] {
            let mean = Flow::of("highspeed").mean_window(100_000, every);
            let ratio = mean / packets;
            assert!((1.0..1.15).contains(&ratio), "{mean} at 1/{every}");
        }
    }

    #[test]
    fn the_first_loss_halves_the_window_of_slow_start() {
        let mut law = HighSpeed::default();
        let window = Window {
            cwnd: 10_000,
            ..Window::new(1448)
        };
        assert_eq!(law.ssthresh(&window), 5_000);
    }
}
