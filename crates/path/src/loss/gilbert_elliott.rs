//! Loss in bursts.

use crate::probability::{Probability, ProbabilityError, Random};

/// Invalid parameters of a channel.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum GilbertElliottError {
    /// One of the four is no probability.
    #[error("{parameter}: {error}")]
    NoProbability {
        /// Its name.
        parameter: &'static str,
        /// The error.
        error: ProbabilityError,
    },
    /// It never leaves the bad state, so it has no mean.
    #[error("the bad state is entered and never left: r must be more than 0")]
    NoWayBack,
}

/// A channel of two states, good and bad (Gilbert 1960, Elliott 1963).
///
/// Each packet is lost with the probability of the channel's state; after it the channel moves from good to bad with
/// probability `p`, and from bad to good with `r`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    p: Probability,
    r: Probability,
    loss_in_good: Probability,
    loss_in_bad: Probability,
}

impl GilbertElliott {
    /// A channel with these four probabilities. In the usual notation, loss is 1 − k in the good state and 1 − h in the
    /// bad state; Gilbert's own channel loses nothing in the good state, and the simplest one everything in the bad
    /// state.
    ///
    /// # Errors
    /// [`GilbertElliottError`] when one is no probability, or when `p` is not 0 but `r` is.
    pub fn new(
        p: f64,
        r: f64,
        loss_in_good: f64,
        loss_in_bad: f64,
    ) -> Result<Self, GilbertElliottError> {
        let probability = |parameter, value| {
            Probability::new(value)
                .map_err(|error| GilbertElliottError::NoProbability { parameter, error })
        };
        let channel = GilbertElliott {
            p: probability("p", p)?,
            r: probability("r", r)?,
            loss_in_good: probability("loss in the good state", loss_in_good)?,
            loss_in_bad: probability("loss in the bad state", loss_in_bad)?,
        };
        if channel.p != Probability::NEVER && channel.r == Probability::NEVER {
            return Err(GilbertElliottError::NoWayBack);
        }
        Ok(channel)
    }

    /// `p`, `r`, and the probabilities of loss in the good and in the bad state.
    #[must_use]
    pub fn parameters(&self) -> [Probability; 4] {
        [self.p, self.r, self.loss_in_good, self.loss_in_bad]
    }

    /// Share of time (in packets) in the bad state: p / (p + r).
    #[must_use]
    pub fn bad_share(&self) -> f64 {
        let p = self.p.value();
        if p == 0.0 {
            return 0.0;
        }
        p / (p + self.r.value())
    }

    /// The long-term loss rate.
    #[must_use]
    pub fn mean_loss(&self) -> f64 {
        let bad = self.bad_share();
        (1.0 - bad) * self.loss_in_good.value() + bad * self.loss_in_bad.value()
    }

    /// Mean number of consecutive losses; 0 without any loss, and infinite when all packets are lost. For Gilbert's
    /// simplest channel it is 1 / r.
    #[must_use]
    pub fn mean_burst_packets(&self) -> f64 {
        let (p, r) = (self.p.value(), self.r.value());
        let (good, bad) = (self.loss_in_good.value(), self.loss_in_bad.value());
        let in_bad = self.bad_share();
        // The share of packets that start a burst: lost after one that was not.
        let after_good = (1.0 - in_bad) * (1.0 - good) * ((1.0 - p) * good + p * bad);
        let after_bad = in_bad * (1.0 - bad) * (r * good + (1.0 - r) * bad);
        match self.mean_loss() {
            0.0 => 0.0,
            loss => loss / (after_good + after_bad),
        }
    }

    pub(super) fn drops(&self, is_bad: &mut bool, random: &mut Random) -> bool {
        let (loss, moves) = if *is_bad {
            (self.loss_in_bad, self.r)
        } else {
            (self.loss_in_good, self.p)
        };
        let lost = random.decides(loss);
        *is_bad ^= random.decides(moves);
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::{Loss, LossModel};

    const PACKETS: u32 = 1_000_000;

    /// Lost packets and bursts out of a million.
    fn run(channel: GilbertElliott, seed: u64) -> (f64, f64) {
        let mut loss = Loss::new(LossModel::GilbertElliott(channel), seed);
        let (mut lost, mut bursts, mut in_burst) = (0u32, 0u32, false);
        for _ in 0..PACKETS {
            let drops = loss.drops();
            lost += u32::from(drops);
            bursts += u32::from(drops && !in_burst);
            in_burst = drops;
        }
        (f64::from(lost), f64::from(bursts))
    }

    #[test]
    fn a_million_packets_lose_their_share() {
        for (p, r, good, bad) in [
            (0.01, 0.3, 0.0, 1.0),
            (0.001, 0.1, 0.0001, 0.5),
            (0.2, 0.2, 0.01, 0.9),
            (0.6, 0.9, 0.0, 0.3),
        ] {
            let channel = GilbertElliott::new(p, r, good, bad).unwrap();
            let mean = channel.mean_loss();
            // Packets are correlated: the covariance at distance j is that of the states, times
            // (1 − p − r)^j.
            let in_bad = channel.bad_share();
            let memory = 1.0 - p - r;
            let states = in_bad * (1.0 - in_bad) * (bad - good) * (bad - good);
            let variance = mean * (1.0 - mean) + 2.0 * states * memory / (1.0 - memory);
            let sigma = (variance * f64::from(PACKETS)).sqrt();
            let expected = mean * f64::from(PACKETS);
            for seed in 1..=3 {
                let (lost, _) = run(channel, seed);
                println!("{channel:?}, seed {seed}: {lost} lost, {expected} ± {sigma} expected");
                assert!(
                    (lost - expected).abs() <= 3.0 * sigma,
                    "{channel:?}, seed {seed}: {lost} lost, expected {expected} ± {}",
                    3.0 * sigma
                );
            }
        }
    }

    #[test]
    fn bursts_are_as_long_as_said() {
        // Gilbert's simplest channel: bursts are geometric of mean 1 / r, and independent.
        for (p, r) in [(0.01, 0.3), (0.005, 0.05), (0.1, 0.9)] {
            let channel = GilbertElliott::new(p, r, 0.0, 1.0).unwrap();
            assert!((channel.mean_burst_packets() - 1.0 / r).abs() < 1e-9);
            for seed in 4..=6 {
                let (lost, bursts) = run(channel, seed);
                let sigma = ((1.0 - r) / (r * r) / bursts).sqrt();
                let length = lost / bursts;
                println!("p {p}, r {r}, seed {seed}: bursts of {length} ± {sigma}");
                assert!(
                    (length - 1.0 / r).abs() <= 3.0 * sigma,
                    "p {p}, r {r}, seed {seed}: bursts of {length}, expected {}",
                    1.0 / r
                );
            }
        }
    }

    #[test]
    fn a_general_channel_has_the_mean_burst_of_its_formula() {
        let channel = GilbertElliott::new(0.02, 0.25, 0.001, 0.6).unwrap();
        let (lost, bursts) = run(channel, 7);
        let length = lost / bursts;
        // Bursts have a standard deviation of about their mean.
        let sigma = length / bursts.sqrt();
        assert!(
            (length - channel.mean_burst_packets()).abs() <= 3.0 * sigma,
            "bursts of {length}, expected {}, seed 7",
            channel.mean_burst_packets()
        );
    }

    #[test]
    fn edges() {
        let clean = GilbertElliott::new(0.0, 0.0, 0.0, 1.0).unwrap();
        assert_eq!((clean.mean_loss(), clean.mean_burst_packets()), (0.0, 0.0));
        let all = GilbertElliott::new(0.0, 0.0, 1.0, 1.0).unwrap();
        assert_eq!(all.mean_burst_packets(), f64::INFINITY);
        let alternating = GilbertElliott::new(1.0, 1.0, 0.0, 1.0).unwrap();
        assert_eq!(run(alternating, 8), (500_000.0, 500_000.0));
        assert_eq!(
            GilbertElliott::new(0.1, 0.0, 0.0, 1.0),
            Err(GilbertElliottError::NoWayBack)
        );
        let error = GilbertElliott::new(0.1, 1.5, 0.0, 1.0).unwrap_err();
        assert!(
            error.to_string().starts_with("r: probability 1.5"),
            "{error}"
        );
    }
}
