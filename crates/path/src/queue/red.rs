//! Random early detection (Floyd and Jacobson, "Random Early Detection Gateways for Congestion
//! Avoidance", 1993).

use super::{DropTail, Idle};
use crate::limit::Limit;
use crate::packet::{Fate, Transit};
use crate::probability::Random;
use crate::sink::Sink;

/// Unit of the average queue and its thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Packets.
    #[default]
    Packets,
    /// Bytes. The drop probability is that of the average alone, independent of the packet's size (RFC 7141 §2.2).
    Bytes,
}

/// Parameters of a RED queue.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RedParameters {
    /// Unit of the thresholds.
    pub unit: Unit,
    /// Below this average nothing is dropped (`min_th`).
    pub min_threshold: f64,
    /// At this average the probability reaches `max_probability` (`max_th`).
    pub max_threshold: f64,
    /// The probability just below `max_threshold` (`max_p`).
    pub max_probability: f64,
    /// Weight of the present queue in the average (`w_q`).
    pub weight: f64,
    /// Packet size for the decay of the average while the link is idle, in bytes: as if packets of this size had been
    /// sent and had found the queue empty.
    pub packet_bytes: u32,
    /// Whether the probability rises further from `max_probability` at `max_threshold` to 1 at twice that (Floyd's
    /// "gentle" variant of 2000); otherwise it is 1 from `max_threshold` on, as in 1993.
    pub gentle: bool,
    /// Whether ECN-capable packets are marked where others are dropped at random. Where the average requires every
    /// packet to be dropped, they are dropped as well (RFC 3168 §7).
    pub ecn: bool,
}

/// Invalid parameters of a RED queue.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum RedError {
    /// The lower threshold is not below the upper one.
    #[error("the lower threshold {min} is not below the upper threshold {max}")]
    Thresholds {
        /// The lower one.
        min: f64,
        /// The upper one.
        max: f64,
    },
    /// Nothing would be dropped at random.
    #[error("maximum probability {0} is not above 0 and at most 1")]
    MaxProbability(f64),
    /// The average would never move.
    #[error("weight {0} is not above 0 and at most 1")]
    Weight(f64),
}

impl RedParameters {
    /// These thresholds, and otherwise Floyd's recommendations: a weight of 0.002, a maximum probability of 0.1,
    /// gentle; packets of 1000 bytes, no ECN.
    #[must_use]
    pub fn new(unit: Unit, min_threshold: f64, max_threshold: f64) -> Self {
        RedParameters {
            unit,
            min_threshold,
            max_threshold,
            max_probability: 0.1,
            weight: 0.002,
            packet_bytes: 1_000,
            gentle: true,
            ecn: false,
        }
    }

    fn check(&self) -> Result<(), RedError> {
        let within = |value: f64| value > 0.0 && value <= 1.0;
        let (min, max) = (self.min_threshold, self.max_threshold);
        if !(min >= 0.0 && min < max && max.is_finite()) {
            return Err(RedError::Thresholds { min, max });
        }
        if !within(self.max_probability) {
            return Err(RedError::MaxProbability(self.max_probability));
        }
        if !within(self.weight) {
            return Err(RedError::Weight(self.weight));
        }
        Ok(())
    }

    /// The probability `p_b` at an average queue, before drops are spread evenly.
    #[must_use]
    pub fn probability(&self, average: f64) -> f64 {
        let (min, max) = (self.min_threshold, self.max_threshold);
        if average < min {
            0.0
        } else if average < max {
            self.max_probability * (average - min) / (max - min)
        } else if self.gentle && average < 2.0 * max {
            self.max_probability + (1.0 - self.max_probability) * (average - max) / max
        } else {
            1.0
        }
    }
}

/// A queue that drops or marks at random before it is full, by its average length.
///
/// Each arrival moves the average toward the present queue in packets (or bytes); after an idle time of the link it has
/// decayed as if small packets had kept arriving at an empty queue. Between the thresholds a packet is dropped with
/// `p_a = p_b / (1 − count · p_b)`, where `count` is the number of packets since the last drop, so that drops are
/// evenly spread. Packets beyond the limit are dropped as by a drop-tail queue.
#[derive(Debug)]
pub struct Red<T> {
    waiting: DropTail<T>,
    parameters: RedParameters,
    average: f64,
    /// Packets between the thresholds since the last drop; `None` below the lower one.
    since_drop: Option<u64>,
    random: Random,
}

impl<T> Red<T> {
    /// An empty queue. The same seed drops the same packets under the same load.
    ///
    /// # Errors
    /// [`RedError`].
    pub fn new(parameters: RedParameters, limit: Limit, seed: u64) -> Result<Self, RedError> {
        parameters.check()?;
        Ok(Red {
            waiting: DropTail::new(limit),
            parameters,
            average: 0.0,
            since_drop: None,
            random: Random::new(seed, "red"),
        })
    }

    /// The average queue, in the unit of the thresholds.
    #[must_use]
    pub fn average(&self) -> f64 {
        self.average
    }

    pub(super) fn waiting(&self) -> &DropTail<T> {
        &self.waiting
    }

    pub(super) fn waiting_mut(&mut self) -> &mut DropTail<T> {
        &mut self.waiting
    }

    pub(super) fn admit(
        &mut self,
        mut transit: Transit<T>,
        idle: Option<Idle>,
        sink: &mut Sink<'_, T>,
    ) -> Option<Transit<T>> {
        self.observe(idle);
        match self.judge() {
            Judgement::Pass => {}
            Judgement::Signal if self.parameters.ecn && transit.packet.ecn.is_capable() => {
                sink.mark(&mut transit);
            }
            Judgement::Signal | Judgement::Drop => {
                sink.drop(transit, Fate::DroppedByQueue);
                return None;
            }
        }
        self.waiting.admit(transit, idle, sink)
    }

    pub(super) fn pop(&mut self) -> Option<Transit<T>> {
        self.waiting.pop()
    }

    /// Updates the average on an arrival.
    fn observe(&mut self, idle: Option<Idle>) {
        let weight = self.parameters.weight;
        let Some(idle) = idle else {
            let depth = self.waiting.occupancy.held();
            let queue = match self.parameters.unit {
                Unit::Packets => depth.packets,
                Unit::Bytes => depth.bytes,
            };
            self.average += weight * (queue as f64 - self.average);
            return;
        };
        let Some(bits_per_s) = idle.bits_per_s else {
            // An unlimited link sends any number of packets in no time.
            self.average = 0.0;
            return;
        };
        let idle_bits = idle.ns as f64 * bits_per_s as f64 / 1e9;
        let packets = idle_bits / (f64::from(self.parameters.packet_bytes.max(1)) * 8.0);
        // The cast saturates; by then the average has decayed to nothing.
        self.average *= (1.0 - weight).powi(packets as i32);
    }

    /// The fate of an arriving packet, by the average.
    fn judge(&mut self) -> Judgement {
        let base = self.parameters.probability(self.average);
        if self.average < self.parameters.min_threshold {
            self.since_drop = None;
            return Judgement::Pass;
        }
        if base >= 1.0 {
            self.since_drop = Some(0);
            return Judgement::Drop;
        }
        let count = self.since_drop.map_or(0, |count| count + 1);
        let spread = 1.0 - count as f64 * base;
        let probability = if spread > 0.0 { base / spread } else { 1.0 };
        let signal = self.random.unit() < probability;
        self.since_drop = Some(if signal { 0 } else { count });
        if signal {
            Judgement::Signal
        } else {
            Judgement::Pass
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Judgement {
    Pass,
    /// Drop, or mark where possible.
    Signal,
    Drop,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red(parameters: RedParameters) -> Red<()> {
        Red::new(parameters, Limit::packets(100), 1).unwrap()
    }

    fn close(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-12, "{value}, not {expected}");
    }

    #[test]
    fn the_probability_at_given_averages() {
        // min 5, max 15, max_p 0.1: 0.01 more for each packet in between.
        let gentle = RedParameters::new(Unit::Packets, 5.0, 15.0);
        let abrupt = RedParameters {
            gentle: false,
            ..gentle
        };
        for (average, of_gentle, of_abrupt) in [
            (0.0, 0.0, 0.0),
            (4.9, 0.0, 0.0),
            (5.0, 0.0, 0.0),
            (10.0, 0.05, 0.05),
            (14.0, 0.09, 0.09),
            (15.0, 0.1, 1.0),
            (22.5, 0.55, 1.0), // halfway from 0.1 to 1
            (30.0, 1.0, 1.0),
        ] {
            close(gentle.probability(average), of_gentle);
            close(abrupt.probability(average), of_abrupt);
        }
    }

    #[test]
    fn the_average_moves_by_its_weight_and_decays_while_idle() {
        let mut red = red(RedParameters {
            weight: 0.5,
            ..RedParameters::new(Unit::Packets, 5.0, 15.0)
        });
        red.average = 10.0;
        // An empty queue in front of a busy link: halfway to 0.
        red.observe(None);
        close(red.average(), 5.0);
        // 3 ms at 8 Mbit/s are three packets of 1000 bytes that found the queue empty.
        let idle = |ns| Idle {
            ns,
            bits_per_s: Some(8_000_000),
        };
        red.observe(Some(idle(3_000_000)));
        close(red.average(), 5.0 / 8.0);
        red.observe(Some(idle(u64::MAX)));
        close(red.average(), 0.0);
        red.average = 10.0;
        red.observe(Some(Idle {
            ns: 0,
            bits_per_s: None,
        }));
        close(red.average(), 0.0);
    }

    #[test]
    fn drops_are_evenly_spread() {
        // At p_b = 0.1 the nth packet after a drop is dropped with 0.1 / (1 − 0.1 n), so each of
        // the distances from 1 to 9 has the probability 1/9.
        let mut red = red(RedParameters::new(Unit::Packets, 5.0, 15.0));
        red.average = 15.0 - 1e-9;
        red.since_drop = Some(0);
        let mut counts = [0u32; 10];
        let mut since = 0;
        for _ in 0..500_000 {
            since += 1;
            if red.judge() == Judgement::Signal {
                counts[since - 1usize] += 1;
                since = 0;
            }
        }
        assert_eq!(counts[9], 0);
        let drops = f64::from(counts.iter().sum::<u32>());
        let sigma = (drops * 1.0 / 9.0 * 8.0 / 9.0).sqrt();
        for (distance, count) in (1..).zip(&counts[..9]) {
            assert!(
                (f64::from(*count) - drops / 9.0).abs() < 4.0 * sigma,
                "{count} of {drops} drops at distance {distance}"
            );
        }
    }

    #[test]
    fn below_the_lower_threshold_the_count_begins_anew() {
        let mut red = red(RedParameters::new(Unit::Packets, 5.0, 15.0));
        red.since_drop = Some(9);
        assert_eq!((red.judge(), red.since_drop), (Judgement::Pass, None));
        red.average = 31.0;
        assert_eq!((red.judge(), red.since_drop), (Judgement::Drop, Some(0)));
    }

    #[test]
    fn nonsense_is_refused() {
        let wrong = |parameters| Red::<()>::new(parameters, Limit::packets(1), 0).is_err();
        let right = RedParameters::new(Unit::Bytes, 5.0, 15.0);
        assert!(wrong(RedParameters::new(Unit::Bytes, 15.0, 15.0)));
        assert!(wrong(RedParameters::new(Unit::Bytes, f64::NAN, 15.0)));
        for share in [0.0, 1.1, f64::NAN] {
            assert!(wrong(RedParameters {
                weight: share,
                ..right
            }));
            assert!(wrong(RedParameters {
                max_probability: share,
                ..right
            }));
        }
    }
}
