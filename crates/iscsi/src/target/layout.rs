//! The layout of a task's Data-In PDUs (RFC 7143 §11.7).

use super::data_in::Segment;

/// How a read is split into Data-In PDUs: bursts end at multiples of MaxBurstLength, and within a burst every PDU
/// except the last has the maximum length that the initiator accepts. So a DataSN determines the bytes of a PDU, and no
/// state is needed to resend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    /// The first PDU of this layout: its DataSN and its offset. After a task has moved to another connection, earlier
    /// ones had another layout.
    pub(super) first_sn: u32,
    pub(super) first_bytes: u32,
    /// The initiator's MaxRecvDataSegmentLength.
    pub(super) pdu_bytes: u32,
    /// MaxBurstLength.
    pub(super) burst_bytes: u32,
}

impl Layout {
    /// From the task's first byte on.
    pub(super) fn new(pdu_bytes: u32, burst_bytes: u32) -> Layout {
        Layout {
            first_sn: 0,
            first_bytes: 0,
            pdu_bytes,
            burst_bytes,
        }
    }

    /// The offset of the PDU with that DataSN, not before the first.
    pub(super) fn offset(&self, data_sn: u32) -> u32 {
        let mut pdus = u64::from(data_sn - self.first_sn);
        let into_burst = self.first_bytes % self.burst_bytes;
        let in_first = u64::from((self.burst_bytes - into_burst).div_ceil(self.pdu_bytes));
        if pdus < in_first {
            return self.first_bytes + pdus as u32 * self.pdu_bytes;
        }
        pdus -= in_first;
        let in_burst = u64::from(self.burst_bytes.div_ceil(self.pdu_bytes));
        let bursts = pdus / in_burst;
        let start = self.first_bytes - into_burst + self.burst_bytes;
        let bytes =
            bursts * u64::from(self.burst_bytes) + pdus % in_burst * u64::from(self.pdu_bytes);
        start.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX))
    }

    /// The PDU with that DataSN, from `offset`, of data that ends at `end`.
    pub(super) fn segment(&self, data_sn: u32, offset: u32, end: u32) -> Segment {
        let longest_bytes = self.pdu_bytes.min(self.left_in_burst(offset));
        Segment {
            data_sn,
            offset_bytes: offset,
            len_bytes: longest_bytes.min(end - offset),
        }
    }

    /// Remaining bytes of the burst at `offset`.
    pub(super) fn left_in_burst(&self, offset: u32) -> u32 {
        self.burst_bytes - offset % self.burst_bytes
    }

    /// Whether a burst ends at `offset`.
    pub(super) fn ends_burst(&self, offset: u32) -> bool {
        offset.is_multiple_of(self.burst_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_number_finds_the_pdu_that_bore_it(
            pdu_bytes in 512_u32..5000,
            burst_bytes in 512_u32..20_000,
            before in 0_u32..20,
            other in 512_u32..5000,
        ) {
            // Some PDUs in one layout, then the rest in another.
            let mut layout = Layout::new(other, burst_bytes);
            let (mut sn, mut at) = (0, 0);
            for turn in 0..100 {
                if turn == before {
                    layout = Layout { first_sn: sn, first_bytes: at, pdu_bytes, burst_bytes };
                }
                prop_assert_eq!(layout.offset(sn), at);
                at += layout.pdu_bytes.min(layout.left_in_burst(at));
                sn += 1;
            }
        }
    }
}
