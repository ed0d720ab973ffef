//! QEMU's block tools over libiscsi: `qemu-io` at queue depth 1, `qemu-img bench` at any.

use std::process::Command;
use std::time::Duration;

use crate::process::{Finished, PeerError, run};
use crate::program::find;

/// Reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// Time allowed beyond the I/Os themselves: opening a disk takes several round trips.
const LIMIT: Duration = Duration::from_secs(60);

/// Executes `count` I/Os of `block_bytes` at queue depth 1 over one session, and returns the seconds that each took.
///
/// # Errors
/// `qemu-io` is missing, fails, or does not print the times.
pub fn one_by_one(
    url: &str,
    operation: Operation,
    block_bytes: u64,
    count: usize,
) -> Result<Vec<f64>, PeerError> {
    let verb = match operation {
        Operation::Read => "read",
        Operation::Write => "write",
    };
    let mut command = Command::new(find("qemu-io")?);
    command.args(["-f", "raw", "-t", "none"]);
    for _ in 0..count {
        // -C: bytes,operations,time,bytes per second,operations per second
        command.args(["-c", &format!("{verb} -C 0 {block_bytes}")]);
    }
    let finished = run(command.arg(url), LIMIT)?.success()?;
    let seconds: Vec<f64> = finished.stdout.lines().filter_map(seconds).collect();
    if seconds.len() == count {
        Ok(seconds)
    } else {
        Err(finished.failure(format!("it did not tell of {count} I/Os")))
    }
}

/// The duration of a line's single operation, from its rate, as the printed time is rounded.
fn seconds(line: &str) -> Option<f64> {
    let per_second: f64 = line.rsplit_once(',')?.1.parse().ok()?;
    (per_second > 0.0).then(|| 1.0 / per_second)
}

/// A sequential load over one connection.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    /// Reads or writes.
    pub operation: Operation,
    /// Bytes per I/O.
    pub block_bytes: u64,
    /// Queue depth.
    pub parallel: u32,
    /// Warm-up, excluded from the result: number of I/Os.
    pub warmup_ios: u64,
    /// Measured I/Os.
    pub ios: u64,
}

/// Applies `load`; returns the bytes per second after the warm-up. `qemu-img` has no warm-up, so it runs twice, each
/// time over a new connection: the time of the warm-up alone is subtracted from the time of both.
///
/// # Errors
/// `qemu-img` is missing, fails, or does not print its time.
pub fn bench(url: &str, load: Load) -> Result<f64, PeerError> {
    let (warmup_s, _) = bench_s(url, load, load.warmup_ios)?;
    let (both_s, finished) = bench_s(url, load, load.warmup_ios + load.ios)?;
    match both_s - warmup_s {
        seconds if seconds > 0.0 => Ok((load.ios * load.block_bytes) as f64 / seconds),
        _ => Err(finished.failure(format!("the warm-up alone took longer: {warmup_s} s"))),
    }
}

/// The seconds that `count` I/Os of `load` take.
fn bench_s(url: &str, load: Load, count: u64) -> Result<(f64, Finished), PeerError> {
    let mut command = Command::new(find("qemu-img")?);
    command.args(["bench", "-f", "raw", "-t", "none"]);
    if load.operation == Operation::Write {
        command.arg("-w");
    }
    command
        .args(["-c", &count.to_string()])
        .args(["-d", &load.parallel.to_string()])
        .args(["-s", &load.block_bytes.to_string()]);
    let finished = run(command.arg(url), LIMIT)?.success()?;
    let seconds = completed_s(&finished).ok_or_else(|| finished.failure("it named no time"))?;
    Ok((seconds, finished))
}

/// The time in "Run completed in N seconds."
fn completed_s(finished: &Finished) -> Option<f64> {
    let (_, after) = finished.stdout.rsplit_once("Run completed in ")?;
    let seconds: f64 = after.split_ascii_whitespace().next()?.parse().ok()?;
    (seconds > 0.0).then_some(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn the_time_of_an_operation_is_exact() {
        let line = "4194304,1,0:00:00.04,95070735.638,22.667";
        let took = seconds(line).unwrap();
        assert!((took - 0.044_117).abs() < 1e-6, "{took}");
        assert_eq!(seconds("qemu-io: can't open"), None);
    }

    #[test]
    fn the_time_of_a_run_is_its_last_line() {
        let finished = Finished {
            program: "qemu-img".to_owned(),
            status: std::process::ExitStatus::from_raw(0),
            stdout: "Sending 64 write requests, 65536 bytes each, 8 in parallel\n\
                     Run completed in 2.500 seconds.\n"
                .to_owned(),
            stderr: String::new(),
            elapsed: Duration::from_secs(3),
        };
        assert_eq!(completed_s(&finished), Some(2.5));
    }
}
