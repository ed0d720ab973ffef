//! The capacity of a link.

use wansan_trace::Instant;

use crate::rate::{Moment, NANOBITS_PER_BYTE, Rate};
use crate::rate_trace::RateTrace;

/// The sending rate of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capacity {
    /// Transmission takes no time, so no packet waits.
    Unlimited,
    /// A constant rate.
    Constant(Rate),
    /// A rate that changes over time, starting with the first packet at the link.
    Trace(RateTrace),
}

impl From<Rate> for Capacity {
    fn from(rate: Rate) -> Self {
        Capacity::Constant(rate)
    }
}

impl Capacity {
    /// The maximum rate; `None` when it is unlimited.
    #[must_use]
    pub fn fastest(&self) -> Option<Rate> {
        match self {
            Capacity::Unlimited => None,
            Capacity::Constant(rate) => Some(*rate),
            Capacity::Trace(trace) => Some(trace.fastest()),
        }
    }

    /// The long-term mean rate, in bits per second; `None` when it is unlimited.
    #[must_use]
    pub fn mean_bits_per_s(&self) -> Option<u64> {
        match self {
            Capacity::Unlimited => None,
            Capacity::Constant(rate) => Some(rate.bits_per_s()),
            Capacity::Trace(trace) => Some(trace.mean_bits_per_s()),
        }
    }

    /// When the transmission of a packet that begins at `start` ends. A trace began at `begun`.
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

    /// Nanobits sent from `from` until `end`, a result of [`Capacity::finish_packet`].
    pub(crate) fn sent(&self, begun: Instant, from: Instant, end: Moment) -> u128 {
        match self {
            Capacity::Unlimited => 0,
            Capacity::Constant(rate) => rate.sent(from, end),
            Capacity::Trace(trace) => trace.sent(begun, from, end),
        }
    }

    /// The rate at a moment; 0 in a pause, `None` when it is unlimited.
    pub(crate) fn bits_per_s(&self, begun: Instant, at: Instant) -> Option<u64> {
        match self {
            Capacity::Unlimited => None,
            Capacity::Constant(rate) => Some(rate.bits_per_s()),
            Capacity::Trace(trace) => Some(trace.bits_per_s(begun, at)),
        }
    }
}
