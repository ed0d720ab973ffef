//! What a receiver is set to.

use crate::tcp::jiffies::Hz;
use crate::tcp::segment::Segment;

/// Timestamps take so much of each segment (RFC 7323 §3.2, with two bytes of padding).
const TIMESTAMP_BYTES: u32 = 12;

/// Which end began the connection.
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
    /// `net.ipv4.tcp_rmem`, in bytes: least, initial and most receive buffer. The least matters only to hosts
    /// that are short of memory, which none here is.
    pub rmem_bytes: [u64; 3],
    /// `net.core.rmem_max`, in bytes: no SO_RCVBUF is more.
    pub rmem_max_bytes: u64,
    /// SO_RCVBUF as a program sets it before the connection is made, in bytes; `None` where it does not.
    pub so_rcvbuf_bytes: Option<u64>,
    /// `net.ipv4.tcp_moderate_rcvbuf`: whether the buffer grows with what arrives. It never does under an
    /// SO_RCVBUF.
    pub moderate_rcvbuf: bool,
    /// Data bytes of a full segment, which has timestamps: the MSS option less 12.
    pub mss: u32,
    /// Whether this end would use ECN (`net.ipv4.tcp_ecn`); it does where the peer's SYN agrees.
    pub ecn: bool,
    /// Ticks of the kernel's clock.
    pub hz: Hz,
    /// What memory a packet takes.
    pub truesize: Truesize,
    /// `net.ipv4.tcp_comp_sack_delay_ns`: the longest that an acknowledgement with SACK blocks waits.
    pub comp_sack_delay_ns: u64,
    /// `net.ipv4.tcp_comp_sack_nr`: so many acknowledgements with SACK blocks become one at most; 0 for none.
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
    /// The unit of the first window that is offered (`tcp_connect_init`, `tcp_openreq_init_rwin`): whoever
    /// begins does not know yet that segments will have timestamps.
    pub(super) fn first_unit_bytes(&self, opening: Opening) -> u64 {
        u64::from(match opening {
            Opening::Active => self.mss + TIMESTAMP_BYTES,
            Opening::Passive => self.mss,
        })
    }
}

/// The memory of a packet (`skb->truesize`), for data that lies in one piece behind its headers, in memory of the
/// next power of two, as drivers without page fragments and `veth` have it. 2304 bytes for 1448 of data.
///
/// Neighbouring packets keep their own memory: `tcp_try_coalesce`, which would share it, is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truesize {
    /// `struct sk_buff`, aligned.
    pub skb_bytes: u32,
    /// What shares the memory with the data: headroom, headers and `struct skb_shared_info`.
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
    /// The memory of all packets that a segment is made of (`skb_gro_receive`).
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

    /// The memory of a packet with so much data.
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
