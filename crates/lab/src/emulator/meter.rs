//! What the emulator tells about itself while it runs.

use hdrhistogram::Histogram;
use wansan_path::Counters;
use wansan_trace::Instant;

use super::Scheduling;

/// One direction's statistics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathStatistics {
    /// The direction's name.
    pub name: String,
    /// What its chain has counted.
    pub counters: Counters,
    /// The delay that was asked for.
    pub delay_ns: u64,
    /// How much later than their path said half of the frames had been handed to the kernel, by
    /// the emulator's own clock. What was asked for plus this is what was achieved.
    pub lateness_p50_ns: u64,
    /// The same for 99 of 100 frames.
    pub lateness_p99_ns: u64,
    /// The same for all frames.
    pub lateness_max_ns: u64,
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
    /// How the thread is scheduled.
    pub scheduling: Scheduling,
}

/// How late frames were, by direction.
pub(super) struct Lateness(Histogram<u64>);

impl Lateness {
    pub(super) fn new() -> Self {
        // Two digits from 1 ns to 10 s: a few KiB.
        Lateness(Histogram::new_with_bounds(1, 10_000_000_000, 2).expect("the bounds are valid"))
    }

    pub(super) fn record(&mut self, due: Instant, sent: Instant) {
        self.0.saturating_record((sent - due).as_nanos() as u64);
    }

    pub(super) fn statistics(
        &self,
        name: &str,
        counters: Counters,
        delay_ns: u64,
    ) -> PathStatistics {
        PathStatistics {
            name: name.to_owned(),
            counters,
            delay_ns,
            lateness_p50_ns: self.0.value_at_quantile(0.5),
            lateness_p99_ns: self.0.value_at_quantile(0.99),
            lateness_max_ns: self.0.max(),
        }
    }
}
