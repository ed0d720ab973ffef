//! Ours to ours beside what the kernel's TCP allows: bare exchanges and streams of the same bytes.

use std::path::Path;
use std::thread;

use wansan_peers::compare::{Bound, Comparison, Side, in_turns};
use wansan_peers::perf::Load;
use wansan_peers::process::PeerError;
use wansan_peers::qemu::Operation;
use wansan_peers::wansan::Target;

use crate::loads::{LARGE_SEQUENTIAL, PARALLEL, SAMPLE, SMALL_RANDOM, TURNS, WANSAN, our_iops};
use crate::{echo, stream};

const OURS: &str = "wansan bench and target";

/// What one I/O at a time may take beyond a bare exchange, in µs.
const ADDED_US: f64 = 15.0;

/// All of them.
pub(crate) fn limit() -> Result<Vec<Comparison>, PeerError> {
    let target = Target::start(Path::new(WANSAN), &["--lun", "memory:256MiB"])?;
    let url = target.url(0);
    Ok(vec![
        beside_echo(&url, 1, PARALLEL, 0.85)?,
        beside_echo(&url, 1, 4 * PARALLEL, 0.8)?,
        beside_echo(&url, 2, PARALLEL, 0.9)?,
        added(&url)?,
        beside_stream(&url, Operation::Read, 0.9)?,
        beside_stream(&url, Operation::Write, 0.85)?,
    ])
}

/// Small reads from so many programs at once, each over one connection, beside as many echo pairs.
fn beside_echo(
    url: &str,
    pairs: usize,
    parallel: u32,
    bound: f64,
) -> Result<Comparison, PeerError> {
    let load = Load {
        parallel,
        ..SMALL_RANDOM
    };
    let [ours, other] = in_turns(
        TURNS,
        [
            &mut || at_once(pairs, || our_iops(url, Operation::Read, load, &[])),
            &mut || {
                at_once(pairs, || {
                    echo::exchanges_per_second(parallel as usize, SAMPLE)
                })
            },
        ],
    )?;
    let by = match pairs {
        1 => String::new(),
        many => format!(", {many} of each at once"),
    };
    Ok(Comparison {
        question: format!(
            "limit: wansan to wansan beside a bare echo of the same bytes, {parallel} in flight{by}"
        ),
        unit: "I/O/s",
        ours: Side {
            name: OURS,
            samples: ours,
        },
        others: vec![Side {
            name: "echo pair",
            samples: other,
        }],
        bound: Bound::AtLeast(bound),
    })
}

/// The sum of what so many reach at the same time.
fn at_once(
    count: usize,
    measure: impl Fn() -> Result<f64, PeerError> + Sync,
) -> Result<f64, PeerError> {
    thread::scope(|scope| {
        let all: Vec<_> = (0..count).map(|_| scope.spawn(&measure)).collect();
        all.into_iter()
            .map(|one| one.join().expect("a measurement does not panic"))
            .sum()
    })
}

/// What one small read at a time takes beyond a bare exchange.
fn added(url: &str) -> Result<Comparison, PeerError> {
    let load = Load {
        parallel: 1,
        ..SMALL_RANDOM
    };
    let [ours, other] = in_turns(
        TURNS,
        [
            &mut || our_iops(url, Operation::Read, load, &[]),
            &mut || echo::exchanges_per_second(1, SAMPLE),
        ],
    )?;
    let added_us = ours.iter().zip(&other);
    Ok(Comparison {
        question: "limit: time of a 4 KiB read beyond a bare echo's, one in flight".to_owned(),
        unit: "µs",
        ours: Side {
            name: OURS,
            samples: added_us
                .map(|(ours, other)| 1e6 / ours - 1e6 / other)
                .collect(),
        },
        others: vec![Side {
            name: "promised",
            samples: vec![ADDED_US; TURNS],
        }],
        bound: Bound::AtMost(1.0),
    })
}

/// Large I/Os in sequence beside a bare stream.
fn beside_stream(url: &str, operation: Operation, bound: f64) -> Result<Comparison, PeerError> {
    let load = LARGE_SEQUENTIAL;
    let mb_per_s = |iops| iops * load.block_bytes as f64 / 1e6;
    let [ours, other] = in_turns(
        TURNS,
        [
            &mut || our_iops(url, operation, load, &[]).map(mb_per_s),
            &mut || stream::bytes_per_second(SAMPLE).map(|bytes| bytes / 1e6),
        ],
    )?;
    let what = match operation {
        Operation::Read => "reads",
        Operation::Write => "writes",
    };
    Ok(Comparison {
        question: format!(
            "limit: 256 KiB {what} in sequence beside a bare stream, {PARALLEL} in flight"
        ),
        unit: "MB/s",
        ours: Side {
            name: OURS,
            samples: ours,
        },
        others: vec![Side {
            name: "bare stream",
            samples: other,
        }],
        bound: Bound::AtLeast(bound),
    })
}
