//! Statistics of a running emulator.

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;
use wansan_path::{Counters, ElementCounters, Tally};
use wansan_trace::Instant;
use wansan_trace::time::duration_ns;

use super::Scheduling;

/// Averaging period of throughput: long enough for a slow link's packets.
const STRETCH: Duration = Duration::from_millis(500);

/// One direction's statistics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathStatistics {
    /// The direction's name.
    pub name: String,
    /// Its chain's counters.
    pub counters: Counters,
    /// Layer 2 overhead per frame, in bytes.
    pub overhead_bytes: u32,
    /// Whether it is down.
    pub is_down: bool,
    /// The configured delay.
    pub delay_ns: u64,
    /// Intended delay of frames, including their jitter, since the delay was last changed: median and 99th percentile.
    /// `None` before the first frame.
    pub delay_asked_ns: Option<[u64; 2]>,
    /// Achieved delay until the frame was passed to the kernel: median and 99th percentile.
    pub delay_achieved_ns: Option<[u64; 2]>,
    /// Lateness of frames when passed to the kernel, relative to their path's schedule, by the emulator's own clock:
    /// median.
    pub lateness_p50_ns: u64,
    /// 99th percentile.
    pub lateness_p99_ns: u64,
    /// Maximum.
    pub lateness_max_ns: u64,
    /// The configured rate; `None` if unlimited.
    pub bits_per_s: Option<u64>,
    /// Highest throughput over any half second since the rate was last changed; `None` before the first has passed.
    pub peak_bits_per_s: Option<u64>,
    /// Statistics per element, starting at the sender.
    pub elements: Vec<ElementStatistics>,
}

/// The counters of one element of a direction; see [`ElementCounters`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ElementStatistics {
    /// Its name, such as `link`.
    pub name: String,
    /// What entered it.
    pub entered: Tally,
    /// What left it.
    pub left: Tally,
    /// What it dropped.
    pub dropped: Tally,
    /// What it marked.
    pub marked: Tally,
    /// Copies that it made.
    pub duplicated: Tally,
    /// What it corrupted.
    pub corrupted: Tally,
    /// What it delayed for reordering.
    pub held_back: Tally,
    /// What it holds now; for a link, its queue.
    pub depth: Tally,
    /// Maximum of that.
    pub high_water: Tally,
    /// Time spent sending.
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

/// An emulator's statistics; counters start with it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Time since it started.
    pub elapsed_ns: u64,
    /// Statistics per direction, in order of configuration.
    pub paths: Vec<PathStatistics>,
    /// Frames dropped by a full ring, because the emulator did not run for too long.
    pub ring_drops: u64,
    /// Frames to an unknown address, or without a route.
    pub strays: u64,
    /// Frames dropped because they cannot be cut into wire packets: their offload is neither segmentation of TCP or UDP
    /// over IPv4 nor a checksum.
    pub offloaded: u64,
    /// Frames that the kernel refused to send.
    pub send_failures: u64,
    /// Processor time of the emulator's thread, including the receiving hosts' network stacks, which run on its time.
    pub cpu_ns: u64,
    /// Part of it, approximately, spent busy-waiting because the next frame was due soon.
    pub awake_ns: u64,
    /// The thread's scheduling class.
    pub scheduling: Scheduling,
}

/// Lateness of frames, per direction.
pub(super) struct Lateness {
    all: Histogram<u64>,
    /// Sum and number of those since the last query.
    recent: (u64, u64),
}

impl Lateness {
    pub(super) fn new() -> Self {
        // Two digits of precision from 1 ns to 10 s: a few KiB.
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

    /// The lateness that this share of the frames did not exceed.
    pub(super) fn quantile_ns(&self, share: f64) -> u64 {
        self.all.value_at_quantile(share)
    }

    pub(super) fn max_ns(&self) -> u64 {
        self.all.max()
    }

    /// The mean since the last call; 0 if there were none.
    pub(super) fn take_recent_mean_ns(&mut self) -> u64 {
        let (sum, count) = std::mem::take(&mut self.recent);
        sum / count.max(1)
    }
}

/// Intended and achieved delays of one direction's frames.
pub(super) struct Delays {
    since: Instant,
    asked: Spread,
    achieved: Spread,
}

impl Delays {
    /// For frames that enter the delay from `since` on, while its delay without jitter is `delay`.
    pub(super) fn since(since: Instant, delay: Duration) -> Self {
        let spread = || Spread::around(duration_ns(delay));
        Delays {
            since,
            asked: spread(),
            achieved: spread(),
        }
    }

    /// Records that a frame due at `departed`, `delayed` after it entered the delay, was `sent`.
    pub(super) fn record(&mut self, departed: Instant, delayed: Duration, sent: Instant) {
        // Frames in transit at a change still have the previous delay.
        if departed - delayed >= self.since {
            self.asked.record(duration_ns(delayed));
            self.achieved
                .record(duration_ns(delayed + (sent - departed)));
        }
    }

    /// Intended delay: median and 99th percentile.
    pub(super) fn asked_ns(&self) -> Option<[u64; 2]> {
        self.asked.quantiles_ns()
    }

    /// Achieved delay: median and 99th percentile.
    pub(super) fn achieved_ns(&self) -> Option<[u64; 2]> {
        self.achieved.quantiles_ns()
    }
}

/// A histogram of times by their distance from a centre, with 1 % precision of the distance: exact if all equal the
/// centre.
struct Spread {
    middle_ns: u64,
    below: Histogram<u32>,
    above: Histogram<u32>,
}

impl Spread {
    fn around(middle_ns: u64) -> Self {
        // Two digits of precision from 1 ns to 120 s, twice the longest delay: some tens of KiB for both.
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

    /// Median and 99th percentile.
    fn quantiles_ns(&self) -> Option<[u64; 2]> {
        let all = self.below.len() + self.above.len();
        (all > 0).then(|| [0.5, 0.99].map(|share| self.at((share * all as f64).ceil() as u64)))
    }

    /// The time of rank `place`, from 1.
    fn at(&self, place: u64) -> u64 {
        let below = self.below.len();
        if place <= below {
            // The farthest below the centre come first.
            let share = (below - place + 1) as f64 / below as f64;
            let early_ns = self.below.value_at_quantile(share);
            return self.middle_ns.saturating_sub(early_ns);
        }
        let share = (place - below) as f64 / self.above.len() as f64;
        self.middle_ns + self.above.value_at_quantile(share)
    }
}

/// Throughput of a direction's link over any period of [`STRETCH`], measured before the delay, whose jitter brings
/// packets closer together.
///
/// Periods run from the departure of one packet to that of another: the link took that long for what left after the
/// first, so that a slow link's few packets count no more than it carried.
#[derive(Debug, Default)]
pub(super) struct Throughput {
    /// For each sample of the last period: the last departure before it, and the total bytes by then.
    samples: VecDeque<(Instant, u64)>,
    peak_bits_per_s: Option<u64>,
}

impl Throughput {
    /// Records what was sent so far, as returned by [`wansan_path::Chain::sent`].
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

    /// The maximum; `None` before the first period has passed.
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
            // 1000 B every 10 ms, and four times as many for one period in the middle.
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

    /// At 100 kbit/s, 1500 B take 120 ms, so half a second holds four or five packets.
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

    /// Jitter brings packets together that were sent apart, with or without reordering.
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
                // Twice the link's capacity.
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

    /// Uniform from 0 to 10 ms around 5 ms, each 20 µs late.
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
        // Entered before the change, with the previous delay.
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
