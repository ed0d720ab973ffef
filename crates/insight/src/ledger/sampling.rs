//! How much the shares of causes may be off because only a sample of the I/Os was recorded.
//!
//! A cause's share of the latency is a ratio estimate: its time summed over the I/Os of the sample, over their latency.
//! Its variance is that of the residuals `time − share · latency` (Cochran, Sampling Techniques, 3rd edition, section
//! 6.4), with the correction for a finite population. The I/Os are chosen by tag, so that they need not be independent
//! of each other.

use super::Wait;
use crate::cause::Cause;
use crate::join::Joined;

/// The half-width of a 95 % confidence interval, in standard errors.
pub(crate) const STANDARD_ERRORS: f64 = 1.96;

/// Fewer I/Os than this are not explained: their confidence intervals would say more than is known.
pub const FEWEST_IOS: u64 = 100;

const CAUSES: usize = Cause::ALL.len();

/// Sums of products over the I/Os of a sample.
#[derive(Debug)]
pub(super) struct Spread {
    /// How many I/Os each one stands for.
    weight: f64,
    ios: f64,
    latency_ns: f64,
    latency_squares: f64,
    causes: [OfCause; CAUSES],
    /// The time of each cause of one I/O.
    own_ns: [u64; CAUSES],
}

/// One cause's part.
#[derive(Debug, Clone, Copy, Default)]
struct OfCause {
    ns: f64,
    squares: f64,
    by_latency: f64,
}

impl Spread {
    /// None for complete records.
    pub(super) fn of(joined: &Joined) -> Option<Box<Spread>> {
        (!joined.is_complete()).then(|| Box::new(Spread::weighing(joined.weights.mean())))
    }

    fn weighing(weight: f64) -> Spread {
        Spread {
            weight,
            ios: 0.0,
            latency_ns: 0.0,
            latency_squares: 0.0,
            causes: [OfCause::default(); CAUSES],
            own_ns: [0; CAUSES],
        }
    }

    /// Adds an I/O.
    pub(super) fn add(&mut self, latency_ns: u64, waits: &[Wait]) {
        self.own_ns = [0; CAUSES];
        for wait in waits {
            self.own_ns[wait.cause as usize] += wait.length_ns();
        }
        let latency_ns = latency_ns as f64;
        self.ios += 1.0;
        self.latency_ns += latency_ns;
        self.latency_squares += latency_ns * latency_ns;
        for (cause, own_ns) in self.causes.iter_mut().zip(self.own_ns) {
            let own_ns = own_ns as f64;
            cause.ns += own_ns;
            cause.squares += own_ns * own_ns;
            cause.by_latency += own_ns * latency_ns;
        }
    }

    /// Half of the 95 % confidence interval of the mean latency, in ns.
    pub(super) fn latency_uncertain_ns(&self) -> f64 {
        let mean_ns = self.latency_ns / self.ios.max(1.0);
        let variance = (self.latency_squares / self.ios.max(1.0) - mean_ns * mean_ns).max(0.0);
        STANDARD_ERRORS * (self.left_out() * variance / (self.ios - 1.0).max(1.0)).sqrt()
    }

    /// The share of the I/Os that are not in the sample: the correction for a finite population.
    fn left_out(&self) -> f64 {
        1.0 - 1.0 / self.weight.max(1.0)
    }

    /// The causes, each with half of the 95 % confidence interval of its share.
    pub(super) fn uncertain_shares(&self) -> Vec<(Cause, f64)> {
        let of = |cause: &OfCause| {
            if self.ios < FEWEST_IOS as f64 {
                return 1.0;
            }
            let share = cause.ns / self.latency_ns.max(1.0);
            let residuals = cause.squares - 2.0 * share * cause.by_latency
                + share * share * self.latency_squares;
            let correction = self.left_out() * self.ios / (self.ios - 1.0);
            let error = (correction * residuals.max(0.0)).sqrt() / self.latency_ns.max(1.0);
            (STANDARD_ERRORS * error).min(1.0)
        };
        Cause::ALL
            .into_iter()
            .zip(self.causes.iter().map(of))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use wansan_trace::{Layer, Sample, TaskTag};

    use super::*;
    use crate::wait::Source;

    fn wait(from_ns: u64, to_ns: u64, cause: Cause) -> Wait {
        Wait {
            from_ns,
            to_ns,
            layer: Layer::Store,
            way: None,
            cause,
            source: Source::Crossings,
            uncertain_ns: 0,
        }
    }

    /// Of I/Os with a latency of 1 to 2 ms, the store queues some for most of it.
    fn io(tag: u32) -> (u64, Vec<Wait>) {
        // A permutation of the numbers below 1000, unlike that by which the sample is chosen.
        let turn = u64::from(tag) * 387 % 1000;
        let (latency_ns, queued_ns) = (1_000_000 + turn * 1000, turn * 1500 * u64::from(tag % 2));
        let waits = vec![
            wait(0, queued_ns, Cause::StoreQueue),
            wait(queued_ns, latency_ns, Cause::StoreService),
        ];
        (latency_ns, waits)
    }

    fn share(tags: impl Iterator<Item = u32>) -> f64 {
        let (mut queued_ns, mut latency_ns) = (0, 0);
        for (own_ns, waits) in tags.map(io) {
            queued_ns += waits[0].length_ns();
            latency_ns += own_ns;
        }
        queued_ns as f64 / latency_ns as f64
    }

    /// 95 of 100 samples are expected within their intervals, with a standard deviation of 2.2.
    #[test]
    fn the_share_of_all_ios_is_within_the_interval_of_the_sample() {
        let sample = Sample::one_in(16);
        let (mut within, mut widths) = (0, Vec::new());
        for first in (0..100).map(|place| place * 1_000_003) {
            let tags = || first..first + 10_000;
            let taken = || tags().filter(|tag| sample.has(TaskTag(*tag)));
            let mut spread = Spread::weighing(16.0);
            for (latency_ns, waits) in taken().map(io) {
                spread.add(latency_ns, &waits);
            }
            let uncertain = spread.uncertain_shares();
            let (_, half) = uncertain
                .iter()
                .find(|it| it.0 == Cause::StoreQueue)
                .unwrap();
            within += u32::from((share(taken()) - share(tags())).abs() <= *half);
            widths.push(*half);
        }
        assert!(within >= 88, "{within} of 100");
        assert!(
            widths.iter().all(|half| (0.005..0.05).contains(half)),
            "{widths:?}"
        );
    }

    #[test]
    fn a_constant_share_is_certain_and_few_ios_say_nothing() {
        let mut spread = Spread::weighing(2.0);
        for ios in 1..200_u64 {
            let latency_ns = 1000 * ios;
            let waits = [
                wait(0, latency_ns / 4, Cause::StoreQueue),
                wait(latency_ns / 4, latency_ns, Cause::StoreService),
            ];
            spread.add(latency_ns, &waits);
            let all = spread.uncertain_shares();
            let (_, half) = all.iter().find(|it| it.0 == Cause::StoreQueue).unwrap();
            match ios >= FEWEST_IOS {
                true => assert!(*half < 1e-6, "{half}"),
                false => assert_eq!(*half, 1.0),
            }
        }
    }
}
