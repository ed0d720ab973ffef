//! What becomes of freed memory of a process that fills much of it, frees it and fills it again.

/// Keeps freed memory in the process for what it allocates next, to its end. Otherwise glibc gives larger pieces back at
/// once, and each of their pages takes a fault and is cleared when it is next written. Other C libraries go on as they do.
pub fn keep_freed() {
    #[cfg(target_env = "gnu")]
    for setting in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        set(setting, libc::c_int::MAX);
    }
}

#[cfg(target_env = "gnu")]
#[allow(unsafe_code, reason = "there is no safe wrapper of mallopt")]
fn set(setting: libc::c_int, bytes: libc::c_int) {
    // SAFETY: mallopt changes nothing but glibc's own settings, under its lock. What it refuses stays as it was, which only
    // costs time.
    unsafe { libc::mallopt(setting, bytes) };
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    // A thread's heap holds up to 64 MiB.
    const BYTES: usize = 16 << 20;
    const PAGE_BYTES: usize = 4096;

    /// Page faults of this process so far that took no reading (proc(5), `minflt`).
    fn faults() -> usize {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let (_, behind_name) = stat.rsplit_once(')').unwrap();
        behind_name
            .split_whitespace()
            .nth(7)
            .unwrap()
            .parse()
            .unwrap()
    }

    #[test]
    fn what_is_filled_again_takes_no_page_faults() {
        keep_freed();
        drop(std::hint::black_box(vec![1_u8; BYTES]));
        let before = faults();
        drop(std::hint::black_box(vec![2_u8; BYTES]));
        assert!(faults() - before < BYTES / PAGE_BYTES / 10);
    }
}
