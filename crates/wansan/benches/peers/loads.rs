//! What is asked of targets, by `iscsi-perf` and by `wansan bench`.
//!
//! `iscsi-perf` starts its clock once it is logged in, and so does `wansan bench`. Neither has a
//! warm-up: the first turn of a comparison does not count.

use std::path::Path;
use std::time::Duration;

use wansan_peers::perf::{Load, Pattern};
use wansan_peers::process::PeerError;
use wansan_peers::qemu::Operation;
use wansan_peers::wansan;

/// The binary that is measured: the one that cargo built for this benchmark.
pub(crate) const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");
/// How long each sample takes.
pub(crate) const SAMPLE: Duration = Duration::from_secs(1);
/// Turns of each comparison: an even number, so that each side goes first as often as last, and enough for an
/// interval of the median.
pub(crate) const TURNS: usize = 4;
/// I/Os in flight over one connection.
pub(crate) const PARALLEL: u32 = 32;
/// Bytes of a small I/O, and of a large one.
pub(crate) const SMALL_BYTES: u64 = 4 << 10;
pub(crate) const LARGE_BYTES: u64 = 256 << 10;

pub(crate) const SMALL_RANDOM: Load = Load {
    pattern: Pattern::Random,
    block_bytes: SMALL_BYTES,
    parallel: PARALLEL,
    warmup_s: 0,
    time_s: SAMPLE.as_secs(),
};
pub(crate) const LARGE_SEQUENTIAL: Load = Load {
    pattern: Pattern::Sequential,
    block_bytes: LARGE_BYTES,
    ..SMALL_RANDOM
};

/// I/Os per second that `wansan bench` reaches with `load`.
pub(crate) fn our_iops(
    url: &str,
    operation: Operation,
    load: Load,
    more: &[&str],
) -> Result<f64, PeerError> {
    let operation = match operation {
        Operation::Read => "read",
        Operation::Write => "write",
    };
    let pattern = match load.pattern {
        Pattern::Random => "random",
        Pattern::Sequential => "sequential",
    };
    let (block, parallel) = (format!("{}B", load.block_bytes), load.parallel.to_string());
    let (warmup, time) = (format!("{}s", load.warmup_s), format!("{}s", load.time_s));
    let mut arguments = vec!["--op", operation, "--pattern", pattern, "--block", &block];
    arguments.extend([
        "--parallel",
        &parallel,
        "--warmup",
        &warmup,
        "--time",
        &time,
    ]);
    arguments.extend(more);
    let limit = 10 * Duration::from_secs(load.warmup_s + load.time_s);
    let printed = wansan::bench(Path::new(WANSAN), url, &arguments, limit)?;
    printed["iops"].as_f64().ok_or_else(|| PeerError::Failed {
        program: "wansan bench".to_owned(),
        what: "it named no iops".to_owned(),
        output: printed.to_string(),
    })
}
