//! Settings of the load generator.

use std::time::Duration;

use wansan_settings::quantity::{Iops, Size, SomeTime, Span};
use wansan_settings::record::{KindSettings, TcpSettings};
use wansan_settings::{settings, usual};
use wansan_workload::sequence::{Operation, Pattern};
use wansan_workload::{Limit, LoadConfig};

use super::InitiatorSettings;

settings! {
    /// All settings of `wansan bench`.
    #[derive(Debug, Clone, PartialEq)]
    pub struct BenchSettings {
        /// How long to measure [default: 5s]
        pub time: Option<SomeTime>, "TIME", without count;
        /// Number of I/Os to measure, instead of a time
        pub count: Option<u64>, in 1..=u64::MAX, "N";
        /// Warm-up, excluded from results
        pub warmup: Span = Span(Duration::ZERO), "TIME";
        /// How long I/Os still in flight at the end may wait without any connection, not counting a
        /// reconnect attempt, before they are abandoned [default: --replacement-timeout]
        pub drain: Option<Span>, "TIME";
        /// Seed of the access order and of the data written
        pub seed: u64 = 1, in 0..=u64::MAX, "SEED";
        /// Report when logged in, and start on a line or end of file on standard input, so that several
        /// can start together
        pub hold: bool = false;
        /// Print the result as JSON
        pub json: bool = false;
        /// What to record, and where
        pub record: KindSettings = usual(), of KindSettings;
        with load: LoadSettings;
        with tcp: TcpSettings;
        with initiator: InitiatorSettings;
    }
}

settings! {
    /// The I/Os to submit.
    #[derive(Debug, Clone, PartialEq)]
    pub struct LoadSettings {
        /// Operation; a mix is 70 % reads and 30 % writes
        pub op: Operation = Operation::Read, "OP";
        /// Access pattern
        pub pattern: Pattern = Pattern::Random, "PATTERN";
        /// Size of one I/O
        pub block: Size = Size(4096), in LoadSettings::BLOCKS.0..=LoadSettings::BLOCKS.1, "BYTES";
        /// I/Os to keep in flight (queue depth)
        pub parallel: u32 = 32, in 1..=65_536, "N";
        /// Submit I/Os in batches: the next one only after the previous one is complete, like back-to-back read()
        /// calls on a raw device
        pub batch: bool = false, without rate;
        /// Submit this many I/Os per second, evenly spaced, instead of one for each completed
        pub rate: Option<Iops>, "IOPS";
        /// Verify the data read: reads against what `--op write --verify` wrote with the same seed and
        /// block size, writes and mixes against their own writes. WRITES DESTROY the data on the disk,
        /// as always
        pub verify: bool = false;
    }
}

impl LoadSettings {
    /// From one block of a disk to the most data of one command (MAXIMUM TRANSFER LENGTH of wansan's own targets).
    const BLOCKS: (Size, Size) = (Size(512), Size(16 << 20));
}

impl BenchSettings {
    /// The configuration of the load generator; a number of I/Os takes precedence over a time.
    #[must_use]
    pub fn config(&self) -> LoadConfig {
        const USUAL_TIME: Duration = Duration::from_secs(5);
        let load = &self.load;
        LoadConfig {
            operation: load.op,
            pattern: load.pattern,
            block_bytes: u32::try_from(load.block.0).unwrap_or(u32::MAX),
            listed: Default::default(),
            parallel: load.parallel as usize,
            batch: load.batch,
            limit: match self.count {
                Some(count) => Limit::Count(count),
                None => Limit::Time(self.time.map_or(USUAL_TIME, |time| time.0)),
            },
            warmup: self.warmup.0,
            drain: self.drain.map(|drain| drain.0),
            rate_per_s: load.rate.map(|rate| rate.0),
            seed: self.seed,
            verify: load.verify,
        }
    }
}
