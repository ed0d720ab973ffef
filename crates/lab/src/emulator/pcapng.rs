//! Writes pcapng files according to draft-ietf-opsawg-pcapng: a capture needs only four kinds of block, less code than
//! the interface to a library.

use std::io::{self, Write};

/// The link type of Ethernet frames without a frame check sequence.
const LINKTYPE_ETHERNET: u16 = 1;
/// A byte-order mark: this file is little-endian.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Timestamps are in units of 10^-9 s.
const NANOSECONDS: u8 = 9;
/// A section of unknown length.
const UNKNOWN_LENGTH: u64 = u64::MAX;

/// Block types.
mod block {
    pub(super) const SECTION_HEADER: u32 = 0x0a0d_0d0a;
    pub(super) const INTERFACE_DESCRIPTION: u32 = 1;
    pub(super) const INTERFACE_STATISTICS: u32 = 5;
    pub(super) const ENHANCED_PACKET: u32 = 6;
}

/// Option codes; those above 1 are specific to a block type.
mod option {
    pub(super) const END: u16 = 0;
    pub(super) const COMMENT: u16 = 1;
    pub(super) const IF_NAME: u16 = 2;
    pub(super) const IF_TSRESOL: u16 = 9;
    pub(super) const ISB_IFRECV: u16 = 4;
    pub(super) const ISB_IFDROP: u16 = 5;
    pub(super) const SHB_USERAPPL: u16 = 4;
}

/// A file with one section.
#[derive(Debug)]
pub(super) struct File<W> {
    out: W,
}

/// The body of a block.
#[derive(Default)]
struct Body(Vec<u8>);

impl<W: Write> File<W> {
    /// Starts a file with these interfaces, numbered from 0, and a comment on the section.
    pub(super) fn begin(out: W, interfaces: &[&str], comment: &str) -> io::Result<File<W>> {
        let mut file = File { out };
        let mut header = Body::default();
        header.u32(BYTE_ORDER);
        // Version 1.0.
        header.u16(1);
        header.u16(0);
        header.u64(UNKNOWN_LENGTH);
        header.option(option::COMMENT, comment.as_bytes());
        header.option(option::SHB_USERAPPL, b"wansan");
        header.option(option::END, &[]);
        file.block(block::SECTION_HEADER, &header)?;
        for name in interfaces {
            let mut interface = Body::default();
            interface.u16(LINKTYPE_ETHERNET);
            interface.u16(0);
            // No snapshot length limit.
            interface.u32(0);
            interface.option(option::IF_NAME, name.as_bytes());
            interface.option(option::IF_TSRESOL, &[NANOSECONDS]);
            interface.option(option::END, &[]);
            file.block(block::INTERFACE_DESCRIPTION, &interface)?;
        }
        Ok(file)
    }

    /// Adds a frame; `time_ns` counts from 1970.
    pub(super) fn packet(
        &mut self,
        interface: u32,
        time_ns: u64,
        frame: &[u8],
        comment: Option<&str>,
    ) -> io::Result<()> {
        let length = frame.len() as u32;
        let mut packet = Body::default();
        packet.u32(interface);
        packet.time(time_ns);
        packet.u32(length);
        packet.u32(length);
        packet.padded(frame);
        if let Some(comment) = comment {
            packet.option(option::COMMENT, comment.as_bytes());
            packet.option(option::END, &[]);
        }
        self.block(block::ENHANCED_PACKET, &packet)
    }

    /// Writes an interface's final statistics: number of packets, and how many are missing in the file.
    pub(super) fn statistics(
        &mut self,
        interface: u32,
        time_ns: u64,
        packets: u64,
        missing: u64,
    ) -> io::Result<()> {
        let mut statistics = Body::default();
        statistics.u32(interface);
        statistics.time(time_ns);
        statistics.option(option::ISB_IFRECV, &packets.to_le_bytes());
        statistics.option(option::ISB_IFDROP, &missing.to_le_bytes());
        statistics.option(option::END, &[]);
        self.block(block::INTERFACE_STATISTICS, &statistics)
    }

    #[cfg(test)]
    pub(super) fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Ends the file.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn block(&mut self, kind: u32, body: &Body) -> io::Result<()> {
        let length = (body.0.len() + 12) as u32;
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&length.to_le_bytes())?;
        self.out.write_all(&body.0)?;
        self.out.write_all(&length.to_le_bytes())
    }
}

impl Body {
    fn u16(&mut self, value: u16) {
        self.0.extend(value.to_le_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    /// A timestamp: high half first.
    fn time(&mut self, ns: u64) {
        self.u32((ns >> 32) as u32);
        self.u32(ns as u32);
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        self.u16(code);
        self.u16(value.len() as u16);
        self.padded(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each block has its length at both ends, in whole words, and no gaps follow.
    #[test]
    fn blocks_are_framed_as_the_draft_says() {
        let mut out = Vec::new();
        let mut file = File::begin(&mut out, &["a:forward", "a:back"], "a comment").unwrap();
        let time = (3 << 32) + 5;
        file.packet(1, time, &[7; 61], Some("lost")).unwrap();
        file.packet(0, time, &[8; 60], None).unwrap();
        file.statistics(1, time, 10, 2).unwrap();
        file.end().unwrap();
        let word = |at: usize| u32::from_le_bytes(out[at..at + 4].try_into().unwrap());
        let mut kinds = Vec::new();
        let mut at = 0;
        while at < out.len() {
            let length = word(at + 4) as usize;
            assert_eq!(length % 4, 0);
            assert_eq!(word(at + length - 4) as usize, length);
            kinds.push(word(at));
            if kinds.len() == 4 {
                let packet: Vec<u32> = (0..7).map(|place| word(at + 4 * place)).collect();
                assert_eq!(packet[2..], [1, 3, 5, 61, 61]);
                // Three bytes of padding, then the comment.
                let comment = at + 28 + 64;
                assert_eq!(out[comment..comment + 8], *b"\x01\0\x04\0lost");
            }
            at += length;
        }
        assert_eq!(kinds, [0x0a0d_0d0a, 1, 1, 6, 6, 5]);
    }
}
