//! The analysed time interval.

use serde::{Deserialize, Serialize};

/// A half-open interval of CLOCK_MONOTONIC time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Its first nanosecond.
    pub from_ns: u64,
    /// The first nanosecond after it.
    pub to_ns: u64,
}

impl Window {
    /// Its length; 0 when it ends before it begins.
    #[must_use]
    pub fn length_ns(self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    /// Its length in seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        self.length_ns() as f64 / 1e9
    }

    /// Whether a moment lies in it.
    #[must_use]
    pub fn contains(self, time_ns: u64) -> bool {
        (self.from_ns..self.to_ns).contains(&time_ns)
    }

    /// The length of the part of `start_ns..end_ns` that lies in it.
    #[must_use]
    pub fn overlap_ns(self, start_ns: u64, end_ns: u64) -> u64 {
        end_ns
            .min(self.to_ns)
            .saturating_sub(start_ns.max(self.from_ns))
    }
}
