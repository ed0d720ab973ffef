//! What the emulator tells about itself while it runs.

use std::collections::VecDeque;
use std::time::Duration;

use hdrhistogram::Histogram;
use wansan_path::{Counters, ElementCounters, Tally};
use wansan_trace::Instant;

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
    /// The delay that is asked for now.
    pub delay_ns: u64,
    /// How much later than their path said half of the frames had been handed to the kernel, by
    /// the emulator's own clock. What was asked for plus this is what was achieved.
    pub lateness_p50_ns: u64,
    /// The same for 99 of 100 frames.
    pub lateness_p99_ns: u64,
    /// The same for all frames.
    pub lateness_max_ns: u64,
    /// The rate that is asked for now; nothing when it is unlimited.
    pub bits_per_s: Option<u64>,
    /// The most that came out in any half second; nothing before the first one is over.
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
    pub(super) fn of(counters: ElementCounters<'_>) -> ElementStatistics {
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

/// How much left a direction in any stretch of [`STRETCH`].
#[derive(Debug, Default)]
pub(super) struct Throughput {
    /// Samples of the last stretch: when, and the bytes that had left by then.
    samples: VecDeque<(Instant, u64)>,
    peak_bits_per_s: Option<u64>,
}

impl Throughput {
    pub(super) fn sample(&mut self, now: Instant, bytes: u64) {
        self.samples.push_back((now, bytes));
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
    use super::*;

    #[test]
    fn the_peak_is_that_of_whole_stretches() {
        let mut throughput = Throughput::default();
        let mut bytes = 0;
        for step in 0..300u64 {
            // 1000 B each 10 ms, and four times as many in the middle for as long as a stretch.
            bytes += if (100..150).contains(&step) {
                4000
            } else {
                1000
            };
            throughput.sample(Instant::from_ns(step * 10_000_000), bytes);
            assert_eq!(throughput.peak_bits_per_s().is_some(), step >= 50);
            assert!(throughput.samples.len() <= 51);
        }
        assert_eq!(throughput.peak_bits_per_s(), Some(3_200_000));
    }
}
