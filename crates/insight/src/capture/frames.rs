//! The frames of a capture file in file order: pcap with µs or ns timestamps, or pcapng.

use std::io::Read;

use pcap_parser::nom::{self, Needed};
use pcap_parser::pcapng::{Block, parse_block_be, parse_block_le};
use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{
    LegacyPcapBlock, Linktype, OptionCode, PcapError, PcapHeader, parse_pcap_frame,
    parse_pcap_frame_be, parse_pcap_frame_modified, parse_pcap_header,
};

use super::CaptureEnd;
use super::kept::Kept;

/// Maximum length of a block; a longer one means a damaged file.
const MOST_BLOCK_BYTES: usize = 1 << 24;
/// Block type of the Section Header Block, with which a pcapng file begins.
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Bytes before the frame in an Enhanced Packet Block.
const ENHANCED_PACKET_HEADER_BYTES: usize = 28;
/// Maximum interfaces distinguished in one section.
const MOST_INTERFACES: usize = 4096;
/// Frame times are capped at this, in the year 2116, so that adding to them cannot overflow.
const LATEST_NS: u64 = 1 << 62;
/// Prefix of the packet comment by which wansan's emulator marks a dropped frame.
const DROPPED: &str = "wansan: ";

/// One frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    /// Its number in the file, from 1.
    pub(super) number: u64,
    /// When it was captured, in ns since 1970.
    pub(super) time_ns: u64,
    /// The interface that captured it.
    pub(super) interface: u32,
    /// Its link type.
    pub(super) link: Linktype,
    /// Its captured bytes.
    pub(super) bytes: &'a [u8],
    /// Whether the file marks it as dropped.
    pub(super) is_lost: bool,
}

/// A frame whose bytes are kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) number: u64,
    pub(super) time_ns: u64,
    pub(super) interface: u32,
    pub(super) link: Linktype,
    pub(super) is_lost: bool,
    /// Position of its bytes in [`Kept`].
    pub(super) place: u64,
    pub(super) length: usize,
}

impl Placed {
    /// The frame with its bytes.
    pub(super) fn frame<'a>(&self, kept: &'a Kept) -> Frame<'a> {
        Frame {
            number: self.number,
            time_ns: self.time_ns,
            interface: self.interface,
            link: self.link,
            bytes: &kept.since(self.place)[..self.length],
            is_lost: self.is_lost,
        }
    }
}

/// An interface of a pcapng file.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link: Linktype,
    units_per_s: u64,
    offset_s: i64,
}

/// What comes next in a file.
#[derive(Debug)]
pub(super) enum Next {
    /// A frame.
    Frame(Placed),
    /// More of the file has to be read first.
    More,
    /// The end of the file or of what can be read.
    End(CaptureEnd),
}

/// A file's format.
#[derive(Debug, Clone, Copy)]
enum Format {
    /// pcap: the frame parser, and the unit of fractional seconds, in ns.
    Pcap(for<'a> fn(&'a [u8]) -> Parsed<'a, LegacyPcapBlock<'a>>, u64),
    /// pcapng, and whether its current section is big-endian.
    PcapNg(bool),
}

type Parsed<'a, T> = Result<(&'a [u8], T), nom::Err<PcapError<&'a [u8]>>>;

/// The frames of a file. Its bytes are read into [`Kept`], where they stay while frames wait.
#[derive(Debug)]
pub(super) struct Frames<R> {
    file: R,
    /// Position of the next block.
    at: u64,
    is_exhausted: bool,
    format: Format,
    /// The number of the newest frame.
    number: u64,
    interfaces: Vec<Interface>,
}

impl<R: Read> Frames<R> {
    /// Begins to read a file, whose first frame is numbered `number` + 1. `None` if it is not a capture.
    pub(super) fn open(
        file: R,
        number: u64,
        kept: &mut Kept,
        needed: impl Fn() -> u64,
    ) -> Option<Frames<R>> {
        let mut frames = Frames {
            file,
            at: kept.end(),
            is_exhausted: false,
            format: Format::PcapNg(false),
            number,
            interfaces: Vec::new(),
        };
        loop {
            let bytes = kept.since(frames.at);
            match parse_pcap_header(bytes) {
                _ if bytes.starts_with(&SECTION_HEADER) => return Some(frames),
                Ok((rest, header)) => {
                    frames.begin_pcap(&header);
                    frames.at = kept.end() - rest.len() as u64;
                    return Some(frames);
                }
                Err(nom::Err::Incomplete(_)) if !frames.is_exhausted => {}
                Err(_) => return None,
            }
            frames.read(kept, &needed).ok()?;
        }
    }

    fn begin_pcap(&mut self, header: &PcapHeader) {
        let parse = match (header.is_modified_format(), header.is_bigendian()) {
            (true, _) => parse_pcap_frame_modified,
            (false, true) => parse_pcap_frame_be,
            (false, false) => parse_pcap_frame,
        };
        let fraction_ns = match header.is_nanosecond_precision() {
            true => 1,
            false => 1000,
        };
        self.format = Format::Pcap(parse, fraction_ns);
        self.interfaces = vec![Interface {
            // The upper 16 bits describe the frame check sequence.
            link: Linktype(header.network.0 & 0xffff),
            units_per_s: 1,
            offset_s: 0,
        }];
    }

    /// Position of the first byte not parsed yet.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// Reads more of the file; bytes before the position given by `needed` may be discarded.
    ///
    /// # Errors
    /// How the reading ends, if the operating system reports an error.
    pub(super) fn read(
        &mut self,
        kept: &mut Kept,
        needed: impl FnOnce() -> u64,
    ) -> Result<(), CaptureEnd> {
        let came = kept.read(&mut self.file, needed);
        let came = came.map_err(|error| CaptureEnd::Damaged(error.to_string()))?;
        self.is_exhausted = came == 0;
        Ok(())
    }

    /// The next frame in what was read.
    pub(super) fn next(&mut self, kept: &Kept) -> Next {
        let end = kept.end();
        let mut bytes = kept.since(self.at);
        loop {
            let is_over = bytes.is_empty() && self.is_exhausted;
            let parsed = match self.format {
                _ if is_over => return Next::End(CaptureEnd::Whole),
                Format::Pcap(parse, fraction_ns) => parse(bytes).map(|(rest, packet)| {
                    let time_ns = u64::from(packet.ts_sec) * 1_000_000_000
                        + u64::from(packet.ts_usec) * fraction_ns;
                    let behind = rest.len() + packet.data.len();
                    (
                        rest,
                        self.placed(0, time_ns, false, end - behind as u64, packet.data),
                    )
                }),
                Format::PcapNg(is_big_endian) => match plain_packet(bytes, is_big_endian) {
                    Some((rest, packet)) => {
                        let placed = self.packet(&packet, false, end - bytes.len() as u64);
                        Ok((rest, placed))
                    }
                    None => {
                        let parse = match is_big_endian {
                            true => parse_block_be,
                            false => parse_block_le,
                        };
                        parse(bytes).map(|(rest, block)| (rest, self.see(&block, bytes, end)))
                    }
                },
            };
            let stop = match parsed {
                Ok((rest, placed)) => {
                    self.at = end - rest.len() as u64;
                    bytes = rest;
                    match placed {
                        Some(placed) => return Next::Frame(placed),
                        None => continue,
                    }
                }
                Err(stop) => stop,
            };
            let nom::Err::Incomplete(needed) = stop else {
                let reason = "what comes next is no block".to_owned();
                return Next::End(CaptureEnd::Damaged(reason));
            };
            let missing = match needed {
                Needed::Size(bytes) => bytes.get(),
                Needed::Unknown => 0,
            };
            if self.is_exhausted {
                return Next::End(CaptureEnd::CutOff);
            }
            if bytes.len() + missing >= MOST_BLOCK_BYTES {
                let reason = format!("it says that a block has more than {MOST_BLOCK_BYTES} bytes");
                return Next::End(CaptureEnd::Damaged(reason));
            }
            return Next::More;
        }
    }

    /// Handles a pcapng block at the beginning of `bytes`, which end at position `end`.
    fn see(&mut self, block: &Block<'_>, bytes: &[u8], end: u64) -> Option<Placed> {
        match block {
            Block::SectionHeader(section) => {
                self.interfaces.clear();
                self.format = Format::PcapNg(section.big_endian());
            }
            Block::InterfaceDescription(interface) if self.interfaces.len() < MOST_INTERFACES => {
                self.interfaces.push(Interface {
                    link: interface.linktype,
                    units_per_s: units_per_s(interface.if_tsresol),
                    offset_s: interface.if_tsoffset,
                });
            }
            Block::EnhancedPacket(packet) => {
                let comments = packet
                    .options
                    .iter()
                    .filter(|o| o.code == OptionCode::Comment);
                let mut comments = comments.filter_map(|option| option.as_str().ok());
                let is_lost = comments.any(|comment| comment.starts_with(DROPPED));
                let of_block = Packet {
                    interface: packet.if_id,
                    units: u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low),
                    data: packet.packet_data(),
                };
                return self.packet(&of_block, is_lost, end - bytes.len() as u64);
            }
            // A Simple Packet Block has no timestamp, and other blocks hold no frame.
            Block::SimplePacket(_) => self.number += 1,
            _ => {}
        }
        None
    }

    /// The frame in the Enhanced Packet Block at position `block_at`.
    fn packet(&mut self, packet: &Packet<'_>, is_lost: bool, block_at: u64) -> Option<Placed> {
        let interface = self.interfaces.get(packet.interface as usize);
        let time_ns = interface.map_or(0, |interface| interface.time_ns(packet.units));
        let place = block_at + ENHANCED_PACKET_HEADER_BYTES as u64;
        self.placed(packet.interface, time_ns, is_lost, place, packet.data)
    }

    fn placed(
        &mut self,
        interface: u32,
        time_ns: u64,
        is_lost: bool,
        place: u64,
        bytes: &[u8],
    ) -> Option<Placed> {
        self.number += 1;
        let described = self.interfaces.get(interface as usize)?;
        Some(Placed {
            number: self.number,
            time_ns,
            interface,
            link: described.link,
            is_lost,
            place,
            length: bytes.len(),
        })
    }

    /// The number of the newest frame.
    pub(super) fn number(&self) -> u64 {
        self.number
    }
}

/// The contents of an Enhanced Packet Block.
struct Packet<'a> {
    interface: u32,
    units: u64,
    data: &'a [u8],
}

/// Parses the Enhanced Packet Block at the beginning of `bytes`, if it is complete and has no options, as most have
/// none. Returns the rest of `bytes` too.
fn plain_packet(bytes: &[u8], is_big_endian: bool) -> Option<(&[u8], Packet<'_>)> {
    const TYPE: u32 = 6;
    let (header, behind) = bytes.split_at_checked(ENHANCED_PACKET_HEADER_BYTES)?;
    let (words, _) = header.as_chunks::<4>();
    let word = |place: usize| match is_big_endian {
        true => u32::from_be_bytes(words[place]),
        false => u32::from_le_bytes(words[place]),
    };
    let (block_bytes, captured_bytes) = (word(1) as usize, word(5) as usize);
    let padded_bytes = captured_bytes.checked_next_multiple_of(4)?;
    let is_plain =
        word(0) == TYPE && ENHANCED_PACKET_HEADER_BYTES + padded_bytes + 4 == block_bytes;
    let (_, rest) = bytes.split_at_checked(block_bytes).filter(|_| is_plain)?;
    let packet = Packet {
        interface: word(2),
        units: u64::from(word(3)) << 32 | u64::from(word(4)),
        data: &behind[..captured_bytes],
    };
    (behind[padded_bytes..padded_bytes + 4] == words[1]).then_some((rest, packet))
}

/// Time units per second by an interface's `if_tsresol`: a power of ten, or of two if its top bit is set.
fn units_per_s(resolution: u8) -> u64 {
    let exponent = u32::from(resolution & 0x7f);
    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(exponent).unwrap_or(u64::MAX)
}

impl Interface {
    fn time_ns(&self, units: u64) -> u64 {
        let since_ns = match self.units_per_s {
            1_000_000_000 => u128::from(units),
            units_per_s => u128::from(units) * 1_000_000_000 / u128::from(units_per_s),
        };
        let offset_ns = i128::from(self.offset_s) * 1_000_000_000;
        let time_ns = (since_ns as i128).saturating_add(offset_ns);
        u64::try_from(time_ns.max(0)).map_or(LATEST_NS, |time_ns| time_ns.min(LATEST_NS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_damaged_file_can_be_added_to() {
        let interface = Interface {
            link: Linktype::ETHERNET,
            units_per_s: 1,
            offset_s: i64::MAX,
        };
        assert_eq!(interface.time_ns(u64::MAX), LATEST_NS);
        assert_eq!(interface.time_ns(0), LATEST_NS);
        let before = Interface {
            offset_s: -1,
            ..interface
        };
        assert_eq!(before.time_ns(0), 0);
        assert_eq!(before.time_ns(3), 2_000_000_000);
    }
}
