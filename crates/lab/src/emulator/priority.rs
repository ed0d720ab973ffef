//! Asks the scheduler to run the emulator's thread as soon as it can.

use std::num::NonZeroU64;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::set_current_timer_slack;

/// Asked of the scheduler as the thread's time slice when it shares its processor fairly: the
/// least it grants. A thread with a short slice preempts one with a long slice when it wakes, and
/// any user may ask for one (Linux 6.12).
const SLICE_NS: u64 = 100_000;

/// How the emulator's thread is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// Before all ordinary threads (SCHED_FIFO, priority 1): root's lab, or RLIMIT_RTPRIO.
    RealTime,
    /// At nice −20: as RLIMIT_NICE may allow.
    Preferred,
    /// As any other thread.
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

/// Takes what the calling thread can get: exact timers, and the first scheduling that is granted.
/// None of it is needed for the emulator to be right, only for it to be punctual.
pub fn prefer() -> Scheduling {
    // The default slack lets a timer run 50 µs late. A thread that is refused keeps it.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let nice = getpriority_process(None).unwrap_or(0);
    if schedule(libc::SCHED_FIFO, 0, 1, 0) {
        return Scheduling::RealTime;
    }
    // Refused where slices are unknown, which leaves things as they were.
    schedule(libc::SCHED_OTHER, nice, 0, SLICE_NS);
    match setpriority_process(None, -20) {
        Ok(()) => Scheduling::Preferred,
        Err(_) => Scheduling::Ordinary,
    }
}

/// sched_setattr(2) for the calling thread; whether it was granted.
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
