//! Segments on the path.

/// SACK blocks that fit in the option beside timestamps (RFC 2018 §3).
pub const SACK_BLOCKS: usize = 3;

/// A range of sequence numbers, `from` inclusive and `to` exclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Range {
    /// The first sequence number.
    pub from: u64,
    /// One past the last sequence number.
    pub to: u64,
}

/// The blocks of a SACK option, newest first; a DSACK block precedes them all (RFC 2883 §4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sack {
    blocks: [Range; SACK_BLOCKS],
    count: u8,
}

impl Sack {
    /// Appends a block; does nothing if the option is full.
    pub fn push(&mut self, block: Range) {
        if let Some(room) = self.blocks.get_mut(usize::from(self.count)) {
            *room = block;
            self.count += 1;
        }
    }

    /// The blocks.
    #[must_use]
    pub fn blocks(&self) -> &[Range] {
        &self.blocks[..usize::from(self.count)]
    }
}

/// A segment. Both ends use timestamps (RFC 7323) and SACK (RFC 2018).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Segment {
    /// The first sequence number.
    pub seq: u64,
    /// Bytes of data.
    pub bytes: u32,
    /// The next sequence number that the sender expects.
    pub ack: u64,
    /// The advertised window beyond `ack`, in bytes: the window field, scaled.
    pub window_bytes: u64,
    /// SYN.
    pub syn: bool,
    /// FIN.
    pub fin: bool,
    /// RST.
    pub rst: bool,
    /// PSH.
    pub push: bool,
    /// ECE (RFC 3168 §6.1).
    pub ece: bool,
    /// CWR (RFC 3168 §6.1).
    pub cwr: bool,
    /// TSval, in milliseconds.
    pub ts_value: u32,
    /// TSecr, in milliseconds.
    pub ts_echo: u32,
    /// SACK blocks.
    pub sack: Sack,
    /// For packets that a host merged into one: data bytes of each but the last, which may have fewer; 0 if not merged.
    pub packet_bytes: u32,
}

impl Segment {
    /// TSval at a given time, on either end, in milliseconds (TCP_TS_HZ).
    #[must_use]
    pub fn timestamp_ms(now_ns: u64) -> u32 {
        (now_ns / 1_000_000) as u32
    }

    /// The sequence number after the segment.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.bytes) + u64::from(self.syn) + u64::from(self.fin)
    }

    /// Data bytes of the largest packet in it (`gso_size`).
    #[must_use]
    pub fn full_bytes(&self) -> u32 {
        match self.packet_bytes {
            0 => self.bytes,
            bytes => bytes,
        }
    }

    /// Packets in it (`gso_segs`).
    #[must_use]
    pub fn packets(&self) -> u32 {
        match self.packet_bytes {
            0 => 1,
            bytes => self.bytes.div_ceil(bytes),
        }
    }

    /// Bytes of the TCP header with its options: timestamps take 12, SACK 4 and 8 for each block.
    #[must_use]
    pub fn header_bytes(&self) -> u32 {
        let sack = match self.sack.blocks().len() as u32 {
            0 => 0,
            blocks => 4 + 8 * blocks,
        };
        // MSS 4, SACK-permitted and timestamps 12, window scale 4 (RFC 9293 §3.2, RFC 7323 §2).
        let options = if self.syn { 20 } else { 12 };
        20 + options + sack
    }
}
