//! `iscsi-perf`: libiscsi's load generator.

use std::process::Command;
use std::time::Duration;

use crate::process::{Finished, PeerError, run};
use crate::program::find;

/// The order in which `iscsi-perf` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// From the first block to the last, repeatedly.
    Sequential,
    /// At random.
    Random,
}

/// A read load over one connection.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// The order of the reads.
    pub pattern: Pattern,
    /// Bytes per read, a multiple of 512.
    pub block_bytes: u64,
    /// Queue depth.
    pub parallel: u32,
    /// Warm-up, excluded from the result, in whole seconds.
    pub warmup_s: u64,
    /// Duration of the measurement, in whole seconds.
    pub time_s: u64,
}

/// The result of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reached {
    /// Reads per second after the warm-up.
    pub iops: f64,
}

/// Logical block size that the loads assume; [`read`] fails if the unit's differs.
const LOGICAL_BLOCK_BYTES: u64 = 512;

/// Applies `load` to the unit at `url`.
///
/// # Errors
/// `iscsi-perf` is missing, fails, or read with other sizes than requested.
pub fn read(url: &str, load: Load) -> Result<Reached, PeerError> {
    let mut command = Command::new(find("iscsi-perf")?);
    command
        .arg("-m")
        .arg(load.parallel.to_string())
        .arg("-b")
        .arg((load.block_bytes / LOGICAL_BLOCK_BYTES).to_string())
        .arg("-t")
        .arg(runtime_s(load).to_string());
    if load.pattern == Pattern::Random {
        command.arg("-r");
    }
    let limit = Duration::from_secs(runtime_s(load) + 30);
    let finished = run(command.arg(url), limit)?.success()?;
    reached(&finished, load)
}

/// The runtime passed to `iscsi-perf`. It has no warm-up, but prints the rate of each second except the last, which
/// only enters its average.
fn runtime_s(load: Load) -> u64 {
    match load.warmup_s {
        0 => load.time_s,
        warmup_s => warmup_s + load.time_s + 1,
    }
}

fn reached(finished: &Finished, load: Load) -> Result<Reached, PeerError> {
    let Load { block_bytes, .. } = load;
    let size = format!("({block_bytes} byte)");
    let asked = finished
        .stdout
        .lines()
        .any(|line| line.contains("FIXED") && line.contains(&size));
    if !asked {
        return Err(finished.failure(format!("it did not read {block_bytes} bytes at a time")));
    }
    let iops = match load.warmup_s {
        0 => final_iops(&finished.stdout),
        warmup_s => iops_after(&finished.stdout, warmup_s, load.time_s),
    };
    match iops {
        Some(iops) if iops > 0.0 => Ok(Reached { iops }),
        _ => Err(finished.failure("it named no rate for the time that was asked for")),
    }
}

/// The mean rate of `time_s` seconds after the first `warmup_s`: each progress line has the rate since the previous one
/// as `iops current N`.
fn iops_after(stdout: &str, warmup_s: u64, time_s: u64) -> Option<f64> {
    let displays = stdout.split("iops current ").skip(1);
    let rates: Vec<f64> = displays
        .skip(usize::try_from(warmup_s).ok()?)
        .take(usize::try_from(time_s).ok()?)
        .filter_map(|display| display.split_ascii_whitespace().next()?.parse().ok())
        .collect();
    (rates.len() as u64 == time_s).then(|| rates.iter().sum::<f64>() / time_s as f64)
}

/// The run's final average: the last `iops average N`. The progress lines before it overwrite each other with carriage
/// returns.
fn final_iops(stdout: &str) -> Option<f64> {
    let (_, after) = stdout.rsplit_once("iops average ")?;
    after.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    const PRINTED: &str = "iscsi-perf version 0.1 - (c) 2014-2015 by Peter Lieven <pl@ĸamp.de>\n\n\
        connected to iscsi://127.0.0.1:3998/iqn.2026-11.test:d/1\n\
        capacity is 131072 blocks or 67108864 byte (64 MB)\n\
        performing RANDOM READ with 32 parallel requests\n\
        FIXED transfer size of 8 blocks (4096 byte)\n\
        will run for 3 seconds.\n\n\
        00:00:02 - lba 35657, iops current 21517 (84 MB/s), iops average 21517 (84 MB/s), \
        in_flight 32, busy 0        \riops average 24163 (94 MB/s)              \n\nfinished.\n";

    fn finished(stdout: &str) -> Finished {
        Finished {
            program: "iscsi-perf".to_owned(),
            status: std::process::ExitStatus::from_raw(0),
            stdout: stdout.to_owned(),
            stderr: String::new(),
            elapsed: Duration::from_secs(3),
        }
    }

    const LOAD: Load = Load {
        pattern: Pattern::Random,
        block_bytes: 4096,
        parallel: 32,
        warmup_s: 0,
        time_s: 3,
    };

    #[test]
    fn the_closing_average_counts_without_a_warm_up() {
        assert_eq!(
            reached(&finished(PRINTED), LOAD).unwrap(),
            Reached { iops: 24163.0 }
        );
    }

    #[test]
    fn with_a_warm_up_the_seconds_after_it_count() {
        let displays: String = [100, 900, 1000, 1200, 1300]
            .map(|rate| {
                format!(
                    "00:00:01 - lba 8, iops current {rate} (4 MB/s), iops average 1 (0 MB/s) \r"
                )
            })
            .concat();
        let printed = PRINTED.replace("iops current 21517 (84 MB/s), ", "") + &displays;
        let warmed = Load {
            warmup_s: 2,
            time_s: 2,
            ..LOAD
        };
        assert_eq!(runtime_s(warmed), 5);
        assert_eq!(
            reached(&finished(&printed), warmed).unwrap(),
            Reached { iops: 1100.0 }
        );
        let longer = Load {
            time_s: 4,
            ..warmed
        };
        assert!(reached(&finished(&printed), longer).is_err());
    }

    #[test]
    fn another_transfer_size_is_an_error() {
        let large = Load {
            block_bytes: 8192,
            ..LOAD
        };
        let error = reached(&finished(PRINTED), large).unwrap_err();
        assert!(
            error.to_string().contains("8192 bytes at a time"),
            "{error}"
        );
    }

    #[test]
    fn no_average_is_an_error() {
        let cut = PRINTED.replace("iops average", "iops");
        assert!(reached(&finished(&cut), LOAD).is_err());
    }
}
