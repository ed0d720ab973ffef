//! `iscsi-perf`: libiscsi's load generator.

use std::process::Command;
use std::time::Duration;

use crate::process::{Finished, PeerError, run};
use crate::program::find;

/// The order in which `iscsi-perf` reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// From the first block to the last, over and over.
    Sequential,
    /// Anywhere.
    Random,
}

/// A load of reads by one connection.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// The order of the reads.
    pub pattern: Pattern,
    /// Bytes per read, a multiple of 512.
    pub block_bytes: u64,
    /// Reads in flight.
    pub parallel: u32,
    /// How long to read, in whole seconds as `iscsi-perf` takes them.
    pub time_s: u64,
}

/// What a load reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reached {
    /// Reads per second over the whole load.
    pub iops: f64,
}

/// Logical block size that the loads assume; [`read`] fails when the unit has another one.
const LOGICAL_BLOCK_BYTES: u64 = 512;

/// Reads from the unit at `url` as `load` says.
///
/// # Errors
/// When `iscsi-perf` is missing, fails, or read other sizes than were asked for.
pub fn read(url: &str, load: Load) -> Result<Reached, PeerError> {
    let mut command = Command::new(find("iscsi-perf")?);
    command
        .arg("-m")
        .arg(load.parallel.to_string())
        .arg("-b")
        .arg((load.block_bytes / LOGICAL_BLOCK_BYTES).to_string())
        .arg("-t")
        .arg(load.time_s.to_string());
    if load.pattern == Pattern::Random {
        command.arg("-r");
    }
    let limit = Duration::from_secs(load.time_s + 30);
    let finished = run(command.arg(url), limit)?.success()?;
    reached(&finished, load.block_bytes)
}

fn reached(finished: &Finished, block_bytes: u64) -> Result<Reached, PeerError> {
    let size = format!("({block_bytes} byte)");
    let asked = finished
        .stdout
        .lines()
        .any(|line| line.contains("FIXED") && line.contains(&size));
    if !asked {
        return Err(finished.failure(format!("it did not read {block_bytes} bytes at a time")));
    }
    match final_iops(&finished.stdout) {
        Some(iops) if iops > 0.0 => Ok(Reached { iops }),
        _ => Err(finished.failure("it named no average")),
    }
}

/// The average that closes the run: the last `iops average N`. The running displays before it are
/// overwritten in place with carriage returns.
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

    #[test]
    fn the_closing_average_counts() {
        assert_eq!(
            reached(&finished(PRINTED), 4096).unwrap(),
            Reached { iops: 24163.0 }
        );
    }

    #[test]
    fn another_transfer_size_is_an_error() {
        let error = reached(&finished(PRINTED), 8192).unwrap_err();
        assert!(
            error.to_string().contains("8192 bytes at a time"),
            "{error}"
        );
    }

    #[test]
    fn no_average_is_an_error() {
        let cut = PRINTED.replace("iops average", "iops");
        assert!(reached(&finished(&cut), 4096).is_err());
    }
}
