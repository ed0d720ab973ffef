//! Requests prompt scheduling of the emulator's thread.

use std::num::NonZeroU64;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::set_current_timer_slack;

/// Time slice requested under fair scheduling: the kernel's minimum. A thread with a short slice preempts one with a
/// long slice on wake-up, and any user may request one (Linux 6.12).
const SLICE_NS: u64 = 100_000;

/// Scheduling class of the emulator's thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// Real-time (SCHED_FIFO, priority 1), ahead of all ordinary threads: as root, or with RLIMIT_RTPRIO.
    RealTime,
    /// Nice −20: if RLIMIT_NICE permits.
    Preferred,
    /// Default scheduling.
    #[default]
    Ordinary,
}

impl Scheduling {
    /// The name in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Scheduling::RealTime => "real-time",
            Scheduling::Preferred => "nice -20",
            Scheduling::Ordinary => "ordinary",
        }
    }
}

/// Requests exact timers and the best scheduling available to the calling thread. The emulator's correctness does not
/// depend on it, only its timing.
pub fn prefer() -> Scheduling {
    // The default slack lets a timer run 50 µs late. On failure the thread keeps it.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let nice = getpriority_process(None).unwrap_or(0);
    if schedule(libc::SCHED_FIFO, 0, 1, 0) {
        return Scheduling::RealTime;
    }
    // Fails on kernels without custom slices, with no effect.
    schedule(libc::SCHED_OTHER, nice, 0, SLICE_NS);
    match setpriority_process(None, -20) {
        Ok(()) => Scheduling::Preferred,
        Err(_) => Scheduling::Ordinary,
    }
}

/// Calls sched_setattr(2) for the calling thread; returns whether it succeeded.
#[allow(unsafe_code, reason = "neither rustix nor libc wraps sched_setattr(2)")]
fn schedule(policy: libc::c_int, nice: i32, priority: u32, slice_ns: u64) -> bool {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: policy as u32,
        sched_flags: 0,
        sched_nice: nice,
        sched_priority: priority,
        sched_runtime: slice_ns,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of one `sched_attr`; 0 is the calling thread.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) == 0 }
}
