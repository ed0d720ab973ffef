//! What a link carries.

use wansan_trace::Instant;

use crate::rate::{Moment, NANOBITS_PER_BYTE, Rate};
use crate::rate_trace::RateTrace;

/// How fast a link sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capacity {
    /// Packets take no time, so none waits.
    Unlimited,
    /// Always alike.
    Constant(Rate),
    /// Changing, from the first packet that comes to the link on.
    Trace(RateTrace),
}

impl From<Rate> for Capacity {
    fn from(rate: Rate) -> Self {
        Capacity::Constant(rate)
    }
}

impl Capacity {
    /// The greatest rate that it ever has; nothing when it is unlimited.
    #[must_use]
    pub fn fastest(&self) -> Option<Rate> {
        match self {
            Capacity::Unlimited => None,
            Capacity::Constant(rate) => Some(*rate),
            Capacity::Trace(trace) => Some(trace.fastest()),
        }
    }

    /// The rate in the long run, in bits per second; nothing when it is unlimited.
    #[must_use]
    pub fn mean_bits_per_s(&self) -> Option<u64> {
        match self {
            Capacity::Unlimited => None,
            Capacity::Constant(rate) => Some(rate.bits_per_s()),
            Capacity::Trace(trace) => Some(trace.mean_bits_per_s()),
        }
    }

    /// When a packet that begins at `start` has been sent. A trace began at `begun`.
    pub(crate) fn finish_packet(&self, begun: Instant, start: Moment, size_bytes: u32) -> Moment {
        self.finish(begun, start, u128::from(size_bytes) * NANOBITS_PER_BYTE)
    }

    pub(crate) fn finish(&self, begun: Instant, start: Moment, nanobits: u128) -> Moment {
        match self {
            Capacity::Unlimited => start,
            Capacity::Constant(rate) => rate.finish(start, nanobits),
            Capacity::Trace(trace) => trace.finish(begun, start, nanobits),
        }
    }

    /// What is sent from `from` until `end`, which it said itself.
    pub(crate) fn sent(&self, begun: Instant, from: Instant, end: Moment) -> u128 {
        match self {
            Capacity::Unlimited => 0,
            Capacity::Constant(rate) => rate.sent(from, end),
            Capacity::Trace(trace) => trace.sent(begun, from, end),
        }
    }

    /// The rate at a moment; 0 in a pause, nothing when it is unlimited.
    pub(crate) fn bits_per_s(&self, begun: Instant, at: Instant) -> Option<u64> {
        match self {
            Capacity::Unlimited => None,
            Capacity::Constant(rate) => Some(rate.bits_per_s()),
            Capacity::Trace(trace) => Some(trace.bits_per_s(begun, at)),
        }
    }
}
