//! Cores of a benchmark: the last one is the emulator's if there are several, so that it does not take time from senders
//! and sinks, nor they from it. A real-time thread stays on the core on which it starts.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Number of cores.
pub(crate) fn count() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps the calling thread to these cores. Fails in a container with other ones; the scheduler then decides.
pub(crate) fn keep_to(cores: impl IntoIterator<Item = usize>) {
    let mut own = CpuSet::new();
    cores.into_iter().for_each(|core| own.set(core));
    let _ = sched_setaffinity(None, &own);
}

/// Keeps the calling thread off the emulator's core.
pub(crate) fn leave_last_to_emulator() {
    keep_to(0..count().saturating_sub(1).max(1));
}

/// Calls `start` on the emulator's core. Threads that it starts stay there.
///
/// # Errors
/// If the kernel refuses this thread's own cores.
pub(crate) fn on_last<T>(start: impl FnOnce() -> T) -> io::Result<T> {
    let before = sched_getaffinity(None)?;
    keep_to([count() - 1]);
    let started = start();
    sched_setaffinity(None, &before)?;
    Ok(started)
}
