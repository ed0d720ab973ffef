//! CPU time of a process, from `/proc`.

use std::io;
use std::time::Duration;

/// User and system time that all threads of process `id` have used, those that have ended
/// included. It advances in the kernel's clock ticks (commonly 10 ms).
///
/// # Errors
/// When there is no such process, or `/proc` does not look as proc(5) says.
pub fn time_used(id: u32) -> io::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
    let ticks = ticks_used(&stat).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!("/proc/{id}/stat: no utime and stime"),
        )
    })?;
    Ok(Duration::from_secs_f64(
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64,
    ))
}

/// utime + stime, fields 14 and 15 of proc(5)'s `stat`. The second field is the program's name in
/// parentheses and may hold spaces and parentheses itself, so fields are counted after the last.
fn ticks_used(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "8783 (a (b) c) S 8782 8776 4668 0 -1 4194304 25731 0 0 0 32 184 0 0 20 0 17";
        assert_eq!(ticks_used(stat), Some(216));
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
