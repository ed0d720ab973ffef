//! Asks the scheduler to run the emulator's thread as soon as it can.

use std::num::NonZeroU64;

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::set_current_timer_slack;

/// Asked of the scheduler as the thread's time slice: the least it grants. A thread with a short
/// slice preempts one with a long slice when it wakes, and any user may ask for one (Linux 6.12).
const SLICE_NS: u64 = 100_000;

/// How the emulator's thread is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scheduling {
    /// At nice −20, which root may ask for.
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
            Scheduling::Preferred => "nice -20",
            Scheduling::Ordinary => "ordinary",
        }
    }
}

/// Takes what the calling thread can get: exact timers, a short slice and a high priority. None
/// of them is needed for the emulator to be right, only for it to be punctual.
pub(super) fn prefer() -> Scheduling {
    // The default slack lets a timer run 50 µs late. A thread that is refused keeps it.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    ask_for_short_slice();
    match setpriority_process(None, -20) {
        Ok(()) => Scheduling::Preferred,
        Err(_) => Scheduling::Ordinary,
    }
}

#[allow(unsafe_code, reason = "neither rustix nor libc wraps sched_setattr(2)")]
fn ask_for_short_slice() {
    let attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: libc::SCHED_OTHER as u32,
        sched_flags: 0,
        sched_nice: getpriority_process(None).unwrap_or(0),
        sched_priority: 0,
        sched_runtime: SLICE_NS,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel reads `size` bytes of one `sched_attr`; 0 is the calling thread. A kernel
    // that knows no slices ignores the run time or refuses, and both leave things as they were.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}
