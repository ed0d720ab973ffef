//! Receiver settings.

use crate::tcp::jiffies::Hz;
use crate::tcp::segment::Segment;

/// Bytes of the timestamps option in each segment (RFC 7323 §3.2, with two bytes of padding).
const TIMESTAMP_BYTES: u32 = 12;

/// Which end opened the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// This one: it sends the SYN.
    Active,
    /// The peer: it sends the SYN.
    Passive,
}

/// The settings of a receiver. The defaults are those of Linux 6.18 on a host with ample memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveConfig {
    /// `net.ipv4.tcp_rmem`, in bytes: minimum, initial and maximum receive buffer. The minimum matters only under
    /// memory pressure, which does not occur here.
    pub rmem_bytes: [u64; 3],
    /// `net.core.rmem_max`, in bytes: the maximum of SO_RCVBUF.
    pub rmem_max_bytes: u64,
    /// SO_RCVBUF as the program sets it before connecting, in bytes; `None` if it does not.
    pub so_rcvbuf_bytes: Option<u64>,
    /// `net.ipv4.tcp_moderate_rcvbuf`: whether the buffer is autotuned. It never is with SO_RCVBUF set.
    pub moderate_rcvbuf: bool,
    /// Data bytes of a full segment with timestamps: the MSS option less 12.
    pub mss: u32,
    /// Whether this end is willing to use ECN (`net.ipv4.tcp_ecn`); it does if the peer's SYN agrees.
    pub ecn: bool,
    /// The kernel's clock tick.
    pub hz: Hz,
    /// The memory of a packet.
    pub truesize: Truesize,
    /// `net.ipv4.tcp_comp_sack_delay_ns`: the maximum delay of an acknowledgement with SACK blocks.
    pub comp_sack_delay_ns: u64,
    /// `net.ipv4.tcp_comp_sack_nr`: the maximum number of compressed acknowledgements; 0 disables compression.
    pub comp_sack_nr: u32,
}

impl Default for ReceiveConfig {
    fn default() -> Self {
        ReceiveConfig {
            rmem_bytes: [4096, 131_072, 33_554_432],
            rmem_max_bytes: 4_194_304,
            so_rcvbuf_bytes: None,
            moderate_rcvbuf: true,
            mss: 1448,
            ecn: false,
            hz: Hz::default(),
            truesize: Truesize::default(),
            comp_sack_delay_ns: 1_000_000,
            comp_sack_nr: 44,
        }
    }
}

impl ReceiveConfig {
    /// The unit of the first window (`tcp_connect_init`, `tcp_openreq_init_rwin`): the active end does not know yet
    /// that segments will have timestamps.
    pub(super) fn first_unit_bytes(&self, opening: Opening) -> u64 {
        u64::from(match opening {
            Opening::Active => self.mss + TIMESTAMP_BYTES,
            Opening::Passive => self.mss,
        })
    }
}

/// The memory of a packet (`skb->truesize`) with linear data, allocated as a power of two, as by `veth` and drivers
/// without page fragments: 2304 bytes for 1448 bytes of data.
///
/// Adjacent packets keep their own memory: `tcp_try_coalesce`, which would share it, is not implemented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truesize {
    /// `struct sk_buff`, aligned.
    pub skb_bytes: u32,
    /// What is allocated with the data: headroom, headers and `struct skb_shared_info`.
    pub room_bytes: u32,
}

impl Default for Truesize {
    fn default() -> Self {
        // 64 of headroom, 14 + 20 + 32 of headers and 320 of shared info.
        Truesize {
            skb_bytes: 256,
            room_bytes: 450,
        }
    }
}

impl Truesize {
    /// The memory of all packets merged into a segment (`skb_gro_receive`).
    #[must_use]
    pub fn of_segment(&self, segment: &Segment) -> u64 {
        let full = match segment.packet_bytes {
            0 => return self.of(segment.bytes),
            full => full,
        };
        let last = match segment.bytes % full {
            0 => 0,
            bytes => self.of(bytes),
        };
        u64::from(segment.bytes / full) * self.of(full) + last
    }

    /// The memory of a packet with `data_bytes` of data.
    #[must_use]
    pub fn of(&self, data_bytes: u32) -> u64 {
        u64::from(self.skb_bytes) + u64::from((data_bytes + self.room_bytes).next_power_of_two())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_segment_takes_2304_bytes_and_a_fin_768() {
        assert_eq!(Truesize::default().of(1448), 2304);
        assert_eq!(Truesize::default().of(0), 768);
    }

    #[test]
    fn packets_that_came_as_one_keep_their_memory() {
        let of = |bytes, packet_bytes| {
            Truesize::default().of_segment(&Segment {
                bytes,
                packet_bytes,
                ..Segment::default()
            })
        };
        assert_eq!([of(0, 0), of(1448, 0)], [768, 2304]);
        assert_eq!([of(2896, 1448), of(2897, 1448)], [2 * 2304, 2 * 2304 + 768]);
    }
}
