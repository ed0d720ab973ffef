//! What the emulator tells about itself while it runs.

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;
use wansan_path::{Counters, ElementCounters, Tally};
use wansan_trace::Instant;
use wansan_trace::time::duration_ns;

use super::Scheduling;

/// Over how long a throughput is taken: long enough for a slow link's packets to count.
const STRETCH: Duration = Duration::from_millis(500);

/// One direction's statistics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathStatistics {
    /// The direction's name.
    pub name: String,
    /// What its chain has counted.
    pub counters: Counters,
    /// Bytes of layer 2 that count for each frame beyond its own.
    pub overhead_bytes: u32,
    /// Whether it is down now.
    pub is_down: bool,
    /// The delay that is requested now.
    pub delay_ns: u64,
    /// What half of the frames were to be delayed at most, and 99 of 100, as jitter drew it for
    /// each, since the delay was last changed; nothing before one was.
    pub delay_asked_ns: Option<[u64; 2]>,
    /// How long half of them were delayed at most, and 99 of 100, until they were handed to the
    /// kernel.
    pub delay_achieved_ns: Option<[u64; 2]>,
    /// How much later than their path said half of the frames had been handed to the kernel, by
    /// the emulator's own clock.
    pub lateness_p50_ns: u64,
    /// The same for 99 of 100 frames.
    pub lateness_p99_ns: u64,
    /// The same for all frames.
    pub lateness_max_ns: u64,
    /// The rate that is requested now; nothing when it is unlimited.
    pub bits_per_s: Option<u64>,
    /// The most that came out in any half second since the rate was last changed; nothing before
    /// the first one is over.
    pub peak_bits_per_s: Option<u64>,
    /// Each element's, the first one nearest the sender.
    pub elements: Vec<ElementStatistics>,
}

/// The counters of one element of a direction; see [`ElementCounters`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ElementStatistics {
    /// Its name, such as `link`.
    pub name: String,
    /// What came to it.
    pub entered: Tally,
    /// What went on from it.
    pub left: Tally,
    /// What it dropped.
    pub dropped: Tally,
    /// What it marked.
    pub marked: Tally,
    /// Copies that it made.
    pub duplicated: Tally,
    /// What it spoiled.
    pub corrupted: Tally,
    /// What it held back.
    pub held_back: Tally,
    /// What it holds now; of a link, what waits.
    pub depth: Tally,
    /// The most of that.
    pub high_water: Tally,
    /// Time for which it has been sending.
    pub busy_ns: u64,
}

impl ElementStatistics {
    pub(crate) fn of(counters: ElementCounters<'_>) -> ElementStatistics {
        let is_link = counters.name.starts_with("link");
        ElementStatistics {
            name: counters.name.to_owned(),
            entered: counters.entered,
            left: counters.left,
            dropped: counters.dropped,
            marked: counters.marked,
            duplicated: counters.duplicated,
            corrupted: counters.corrupted,
            held_back: counters.held_back,
            depth: if is_link {
                counters.queued
            } else {
                counters.held
            },
            high_water: counters.high_water,
            busy_ns: counters.busy_ns,
        }
    }
}

/// An emulator's statistics; counters run from its start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Time since the emulator began.
    pub elapsed_ns: u64,
    /// Each direction's, in the order of the configuration.
    pub paths: Vec<PathStatistics>,
    /// Frames lost because the emulator did not run for so long that a ring filled up.
    pub ring_drops: u64,
    /// Frames to an address that no port has, or without a route.
    pub strays: u64,
    /// Frames of which no wire packets can be made, because more is left to do for them than
    /// segmentation of TCP and UDP over IPv4 and a checksum; they are dropped.
    pub offloaded: u64,
    /// Frames that the kernel refused to send.
    pub send_failures: u64,
    /// Processor time that the emulator's thread has used, including what the receiving hosts'
    /// network stacks used on its account.
    pub cpu_ns: u64,
    /// Time of that, about, in which it had nothing to do and only stayed awake because the next
    /// frame was due so soon.
    pub awake_ns: u64,
    /// How the thread is scheduled.
    pub scheduling: Scheduling,
}

/// How late frames were, by direction.
pub(super) struct Lateness {
    all: Histogram<u64>,
    /// The sum and the number of those that were not asked for yet.
    recent: (u64, u64),
}

impl Lateness {
    pub(super) fn new() -> Self {
        // Two digits from 1 ns to 10 s: a few KiB.
        let all = Histogram::new_with_bounds(1, 10_000_000_000, 2);
        Lateness {
            all: all.expect("the bounds are valid"),
            recent: (0, 0),
        }
    }

    pub(super) fn record(&mut self, due: Instant, sent: Instant) {
        let late_ns = (sent - due).as_nanos() as u64;
        self.all.saturating_record(late_ns);
        self.recent.0 += late_ns;
        self.recent.1 += 1;
    }

    /// No less than this share of the frames were at most that late.
    pub(super) fn quantile_ns(&self, share: f64) -> u64 {
        self.all.value_at_quantile(share)
    }

    pub(super) fn max_ns(&self) -> u64 {
        self.all.max()
    }

    /// The mean since this was asked before; 0 when there were none.
    pub(super) fn take_recent_mean_ns(&mut self) -> u64 {
        let (sum, count) = std::mem::take(&mut self.recent);
        sum / count.max(1)
    }
}

/// The delays of one direction's frames, as they were asked for and as they were achieved.
pub(super) struct Delays {
    since: Instant,
    asked: Spread,
    achieved: Spread,
}

impl Delays {
    /// Of what comes to the delay from `since` on, while it is `delay` without its jitter.
    pub(super) fn since(since: Instant, delay: Duration) -> Self {
        let spread = || Spread::around(duration_ns(delay));
        Delays {
            since,
            asked: spread(),
            achieved: spread(),
        }
    }

    /// A frame that was to leave at `departed`, `delayed` after it came to the delay, was `sent`.
    pub(super) fn record(&mut self, departed: Instant, delayed: Duration, sent: Instant) {
        // Those that were on the line before a change have the delay of then.
        if departed - delayed >= self.since {
            self.asked.record(duration_ns(delayed));
            self.achieved
                .record(duration_ns(delayed + (sent - departed)));
        }
    }

    /// What half of the frames were to be delayed at most, and 99 of 100.
    pub(super) fn asked_ns(&self) -> Option<[u64; 2]> {
        self.asked.quantiles_ns()
    }

    /// What half of the frames were delayed at most, and 99 of 100.
    pub(super) fn achieved_ns(&self) -> Option<[u64; 2]> {
        self.achieved.quantiles_ns()
    }
}

/// Times by how far they are from a middle, to a hundredth of that: exact where all are the middle.
struct Spread {
    middle_ns: u64,
    below: Histogram<u32>,
    above: Histogram<u32>,
}

impl Spread {
    fn around(middle_ns: u64) -> Self {
        // Two digits from 1 ns to 120 s, twice the longest delay: some tens of KiB for both.
        let half = || Histogram::new_with_bounds(1, 120_000_000_000, 2);
        Spread {
            middle_ns,
            below: half().expect("the bounds are valid"),
            above: half().expect("the bounds are valid"),
        }
    }

    fn record(&mut self, ns: u64) {
        if ns < self.middle_ns {
            self.below.saturating_record(self.middle_ns - ns);
        } else {
            self.above.saturating_record(ns - self.middle_ns);
        }
    }

    /// Half of the times are at most the first, and 99 of 100 the second.
    fn quantiles_ns(&self) -> Option<[u64; 2]> {
        let all = self.below.len() + self.above.len();
        (all > 0).then(|| [0.5, 0.99].map(|share| self.at((share * all as f64).ceil() as u64)))
    }

    /// The time at that place, from 1, when they are sorted.
    fn at(&self, place: u64) -> u64 {
        let below = self.below.len();
        if place <= below {
            // The farthest below comes first.
            let share = (below - place + 1) as f64 / below as f64;
            let early_ns = self.below.value_at_quantile(share);
            return self.middle_ns.saturating_sub(early_ns);
        }
        let share = (place - below) as f64 / self.above.len() as f64;
        self.middle_ns + self.above.value_at_quantile(share)
    }
}

/// How much a direction's link sent in any stretch of [`STRETCH`]: before the delay, whose jitter brings
/// packets closer together than they were sent.
///
/// Stretches are from the leaving of one packet to that of another: what left after the first one
/// took the link that long, so that a slow link's few packets count no more than it carried.
#[derive(Debug, Default)]
pub(super) struct Throughput {
    /// When the last packet before each sample of the last stretch was sent, and all bytes that had been
    /// by then.
    samples: VecDeque<(Instant, u64)>,
    peak_bits_per_s: Option<u64>,
}

impl Throughput {
    /// Takes note of what has been sent by now, as [`wansan_path::Chain::sent`] tells it.
    pub(super) fn sample(&mut self, sent: Option<(Instant, u64)>) {
        let Some(last) = sent.filter(|last| self.samples.back() != Some(last)) else {
            return;
        };
        self.samples.push_back(last);
        let (now, bytes) = last;
        while let Some(&(before, bytes_before)) = self.samples.front()
            && now - before >= STRETCH
        {
            let bits = u128::from(bytes - bytes_before) * 8_000_000_000;
            let bits_per_s = (bits / (now - before).as_nanos()) as u64;
            self.peak_bits_per_s = self.peak_bits_per_s.max(Some(bits_per_s));
            self.samples.pop_front();
        }
    }

    /// The most; nothing before the first stretch is over.
    pub(super) fn peak_bits_per_s(&self) -> Option<u64> {
        self.peak_bits_per_s
    }
}

#[cfg(test)]
mod tests {
    use wansan_path::{Distribution, Effects, Jitter, Packet, Rate};

    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_peak_is_that_of_whole_stretches() {
        let mut throughput = Throughput::default();
        let mut sent = 0;
        for step in 0..300u64 {
            // 1000 B each 10 ms, and four times as many in the middle for as long as a stretch.
            let bytes = if (100..150).contains(&step) {
                4000
            } else {
                1000
            };
            sent += bytes;
            throughput.sample(Some((Instant::from_ns(step * 10 * MS), sent)));
            assert_eq!(throughput.peak_bits_per_s().is_some(), step >= 50);
            assert!(throughput.samples.len() <= 51);
        }
        assert_eq!(throughput.peak_bits_per_s(), Some(3_200_000));
    }

    /// 1500 B take 120 ms at 100 kbit/s, so that half a second has four packets or five.
    #[test]
    fn a_slow_link_carries_no_more_than_its_rate() {
        let mut throughput = Throughput::default();
        let mut sent = None;
        for tick in 0..1000u64 {
            if tick % 12 == 5 {
                let before = sent.map_or(0, |(_, bytes)| bytes);
                sent = Some((Instant::from_ns(tick * 10 * MS), before + 1500));
            }
            throughput.sample(sent);
        }
        assert_eq!(throughput.peak_bits_per_s(), Some(100_000));
    }

    /// What jitter brings together was sent apart, whether it may overtake or not.
    #[test]
    fn jitter_makes_no_link_faster() {
        for overtaking in [false, true] {
            let spread = Duration::from_millis(20);
            let effects = Effects {
                capacity: Rate::from_bits_per_s(20_000_000).unwrap().into(),
                delay: spread,
                jitter: Some(Jitter {
                    distribution: Distribution::Uniform { spread },
                    overtaking,
                }),
                ..Effects::default()
            };
            let mut chain = effects.chain(7).unwrap();
            let mut throughput = Throughput::default();
            for step in 0..30_000u64 {
                let now = Instant::from_ns(step * MS / 10);
                // Twice what the link carries.
                if step % 3 == 0 {
                    chain.enqueue(now, Packet::new(1500, ()));
                }
                while chain.poll(now).is_some() {}
                if step % 100 == 0 {
                    throughput.sample(chain.sent());
                }
            }
            let peak = throughput.peak_bits_per_s().unwrap();
            assert!(peak.abs_diff(20_000_000) < 100_000, "{peak} bit/s");
        }
    }

    /// Even from 0 to 10 ms around 5 ms, each 20 µs late.
    #[test]
    fn jitter_is_part_of_what_was_asked_for() {
        let mut delays = Delays::since(Instant::ZERO, Duration::from_millis(5));
        assert_eq!((delays.asked_ns(), delays.achieved_ns()), (None, None));
        for step in 1..=1000u64 {
            let came = Instant::from_ns(step * MS);
            let delayed = Duration::from_micros(10 * step);
            let departed = came + delayed;
            delays.record(departed, delayed, departed + Duration::from_micros(20));
        }
        let near = |found: Option<[u64; 2]>, wanted_us: [u64; 2]| {
            let pairs = found.unwrap().into_iter().zip(wanted_us);
            pairs.for_each(|(ns, us)| assert!(ns.abs_diff(us * 1000) <= 50_000, "{ns} ns"));
        };
        near(delays.asked_ns(), [5_000, 9_900]);
        near(delays.achieved_ns(), [5_020, 9_920]);
    }

    #[test]
    fn a_delay_without_jitter_is_told_exactly() {
        let (since, delay) = (Instant::from_ns(50 * MS), Duration::from_millis(38));
        let mut delays = Delays::since(since, delay);
        // Came before the change, with the delay of then.
        delays.record(
            Instant::from_ns(51 * MS),
            Duration::from_millis(2),
            since + delay,
        );
        assert_eq!(delays.asked_ns(), None);
        let departed = since + delay;
        delays.record(departed, delay, departed);
        assert_eq!(delays.asked_ns(), Some([38 * MS; 2]));
        assert_eq!(delays.achieved_ns(), Some([38 * MS; 2]));
    }
}
