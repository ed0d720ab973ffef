//! Limits of queues.

use core::time::Duration;

use wansan_trace::time::duration_ns;

use crate::Rate;
use crate::counters::Tally;

/// The limit of a queue or a delay line, in packets and in bytes; both apply.
///
/// A packet counts as at least one byte here, so a limit in bytes bounds the packets too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Most packets.
    pub packets: u64,
    /// Most bytes.
    pub bytes: u64,
}

impl Limit {
    /// At most `packets` packets of any size.
    #[must_use]
    pub const fn packets(packets: u64) -> Self {
        Limit {
            packets,
            bytes: u64::MAX,
        }
    }

    /// At most `bytes` bytes in any number of packets.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Limit {
            packets: bytes,
            bytes,
        }
    }

    /// Room for all that a link of `rate` can put on a line of `delay`, in packets of at most `largest_packet_bytes`:
    /// the bandwidth-delay product and two packets for its ends.
    #[must_use]
    pub fn bandwidth_delay(rate: Rate, delay: Duration, largest_packet_bytes: u32) -> Self {
        let product =
            u128::from(rate.bits_per_s()) * u128::from(duration_ns(delay)) / (8 * 1_000_000_000);
        let product_bytes = u64::try_from(product).unwrap_or(u64::MAX);
        Limit::bytes(product_bytes.saturating_add(2 * u64::from(largest_packet_bytes)))
    }

    /// Whether a packet of `size_bytes` fits in addition to `held`.
    pub(crate) fn admits(&self, held: Tally, size_bytes: u32) -> bool {
        held.packets < self.packets
            && held.bytes.saturating_add(u64::from(size_bytes)) <= self.bytes
    }
}
