//! A constant rate, and drift-free time on a link.

use core::num::NonZeroU64;

use wansan_trace::Instant;

/// Nanobits per byte: at `r` bits per second, `n` bytes take `n * NANOBITS_PER_BYTE / r` ns.
pub(crate) const NANOBITS_PER_BYTE: u128 = 8 * 1_000_000_000;

/// Bits per second; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(NonZeroU64);

impl Rate {
    /// `bits_per_s` bits per second (1 Gbit/s is 10^9), or `None` for zero.
    #[must_use]
    pub const fn from_bits_per_s(bits_per_s: u64) -> Option<Self> {
        match NonZeroU64::new(bits_per_s) {
            Some(rate) => Some(Rate(rate)),
            None => None,
        }
    }

    /// Bits per second.
    #[must_use]
    pub const fn bits_per_s(self) -> u64 {
        self.0.get()
    }

    /// When the transmission of `nanobits` that began at `start` ends.
    pub(crate) fn finish(self, start: Moment, nanobits: u128) -> Moment {
        let rate = self.bits_per_s();
        let nanobits = nanobits + u128::from(start.part);
        let (whole_ns, part) = match u64::try_from(nanobits) {
            // The usual case: a processor divides 128 bits slowly.
            Ok(nanobits) => (nanobits / rate, nanobits % rate),
            Err(_) => {
                let rate = u128::from(rate);
                let whole_ns = u64::try_from(nanobits / rate).unwrap_or(u64::MAX);
                // Less than the rate, which is a u64.
                (whole_ns, (nanobits % rate) as u64)
            }
        };
        Moment {
            ns: start.ns.saturating_add(whole_ns),
            part,
        }
    }

    /// Nanobits sent from `from` until `end`.
    pub(crate) fn sent(self, from: Instant, end: Moment) -> u128 {
        let whole_ns = u128::from(end.ns.saturating_sub(from.ns()));
        whole_ns * u128::from(self.bits_per_s()) + u128::from(end.part)
    }
}

/// A moment on one link's own clock: whole nanoseconds plus `part`/rate of another, where the rate is that of this
/// nanosecond; `part` is the nanobits sent in it so far. The part carries over from packet to packet, so a busy link
/// never drifts from its rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment {
    pub(crate) ns: u64,
    pub(crate) part: u64,
}

impl Moment {
    pub(crate) const ZERO: Moment = Moment { ns: 0, part: 0 };

    /// The first whole nanosecond that is not earlier: no packet leaves before it was sent.
    pub(crate) fn rounded_up(self) -> Instant {
        Instant::from_ns(self.ns.saturating_add(u64::from(self.part > 0)))
    }
}

impl From<Instant> for Moment {
    fn from(instant: Instant) -> Self {
        Moment {
            ns: instant.ns(),
            part: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_packets_end_where_their_sum_does() {
        // A rate that divides nothing evenly.
        let rate = Rate::from_bits_per_s(999_999_937).unwrap();
        let mut moment = Moment::ZERO;
        for _ in 0..1_000_000 {
            moment = rate.finish(moment, 1514 * NANOBITS_PER_BYTE);
        }
        let exact = (1_514_000_000u128 * NANOBITS_PER_BYTE).div_ceil(999_999_937);
        assert_eq!(u128::from(moment.rounded_up().ns()), exact);
    }

    #[test]
    fn the_largest_packet_on_the_slowest_link_saturates() {
        let rate = Rate::from_bits_per_s(1).unwrap();
        let end = rate.finish(
            Instant::FAR_FUTURE.into(),
            u128::from(u32::MAX) * NANOBITS_PER_BYTE,
        );
        assert_eq!(end.rounded_up(), Instant::FAR_FUTURE);
    }
}
