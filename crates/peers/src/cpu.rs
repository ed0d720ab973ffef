//! CPU time of a process, from `/proc`.

use std::io;
use std::time::Duration;

/// User and system time used by all threads of process `id`, exited ones included. Its resolution is the kernel's clock
/// tick (commonly 10 ms).
///
/// # Errors
/// No such process, or `/proc` does not match proc(5).
pub fn time_used(id: u32) -> io::Result<Duration> {
    time(&id.to_string(), OWN)
}

/// User and system time of this process's reaped children, and of theirs.
///
/// # Errors
/// `/proc` does not match proc(5).
pub fn time_used_by_children() -> io::Result<Duration> {
    time("self", CHILDREN)
}

/// Fields 14 and 15 of proc(5)'s `stat`, utime and stime, counted from after the program's name.
const OWN: usize = 11;
/// Fields 16 and 17, cutime and cstime.
const CHILDREN: usize = 13;

fn time(process: &str, field: usize) -> io::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let ticks = ticks_used(&stat, field).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("/proc/{process}/stat: no times"),
        )
    })?;
    Ok(Duration::from_secs_f64(
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
    ))
}

/// User plus system time at that field. The second field is the program's name in parentheses and may itself contain
/// spaces and parentheses, so fields are counted from the last parenthesis.
fn ticks_used(stat: &str, field: usize) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(field);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "8783 (a (b) c) S 8782 8776 4668 0 -1 4194304 25731 0 0 0 32 184 5 7 20 0 17";
        assert_eq!(ticks_used(stat, OWN), Some(216));
        assert_eq!(ticks_used(stat, CHILDREN), Some(12));
    }

    #[test]
    fn work_shows_as_time_used() {
        let before = time_used(std::process::id()).unwrap();
        let mut sum = 0_u64;
        while time_used(std::process::id()).unwrap() < before + Duration::from_millis(20) {
            sum = (0..100_000_u64).fold(sum, |sum, x| sum.wrapping_mul(31).wrapping_add(x));
        }
        assert_ne!(std::hint::black_box(sum), 1);
    }

    #[test]
    fn no_such_process_is_an_error() {
        assert!(time_used(u32::MAX).is_err());
    }
}
