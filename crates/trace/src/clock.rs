//! The one place where wansan reads a clock for its records.

use rustix::time::{ClockId, clock_gettime};

use crate::Instant;

/// CLOCK_MONOTONIC, now. Only drivers call it; pure crates are handed the result.
#[must_use]
pub fn now() -> Instant {
    let t = clock_gettime(ClockId::Monotonic);
    // CLOCK_MONOTONIC counts from boot: never negative.
    Instant::from_ns(t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64)
}

/// CLOCK_REALTIME, now, in nanoseconds since 1970: for clock anchors and folder names only.
#[must_use]
pub fn realtime_ns() -> u64 {
    let t = clock_gettime(ClockId::Realtime);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}
