//! The frames of a capture file, one after the other: pcap with µs or ns, or pcapng.

use std::io::Read;
use std::ops::ControlFlow;

use pcap_parser::pcapng::Block;
use pcap_parser::traits::PcapNGPacketBlock as _;
use pcap_parser::{Linktype, OptionCode, PcapBlockOwned, PcapError, create_reader};

use super::CaptureEnd;

/// What the buffer holds at first, and at most: no block of a sane file is longer.
const BUFFER_BYTES: usize = 1 << 18;
const MOST_BUFFER_BYTES: usize = 1 << 24;
/// Interfaces of one section that are distinguished.
const MOST_INTERFACES: usize = 4096;
/// No frame is said to be later, in the year 2116, so that times can be added to.
const LATEST_NS: u64 = 1 << 62;
/// How a comment begins by which wansan's emulator says that a frame went no further.
const DROPPED: &str = "wansan: ";

/// One frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame<'a> {
    /// Its number in the file, from 1.
    pub(super) number: u64,
    /// When it was seen, since 1970.
    pub(super) time_ns: u64,
    /// The interface that saw it.
    pub(super) interface: u32,
    /// What it begins with.
    pub(super) link: Linktype,
    /// What the file has of it.
    pub(super) bytes: &'a [u8],
    /// Whether the file says that it went no further.
    pub(super) is_lost: bool,
}

/// An interface of a pcapng file.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link: Linktype,
    units_per_s: u64,
    offset_s: i64,
}

/// Reads the frames of `file` until its end, until it is damaged, or until `take` has enough. `None`
/// when this is no capture.
pub(super) fn each(
    file: impl Read + Send + 'static,
    mut take: impl FnMut(Frame<'_>) -> ControlFlow<()>,
) -> Option<CaptureEnd> {
    let mut reader = match create_reader(BUFFER_BYTES, file) {
        Ok(reader) => reader,
        Err(_) => return None,
    };
    let mut frames = Frames::default();
    let mut buffer_bytes = BUFFER_BYTES;
    let end = loop {
        let stop = match reader.next() {
            Ok((block_bytes, block)) => {
                let goes_on = frames.see(&block, &mut take);
                reader.consume(block_bytes);
                match goes_on {
                    ControlFlow::Continue(()) => continue,
                    ControlFlow::Break(()) => break CaptureEnd::Full,
                }
            }
            Err(error) => error.to_owned_vec(),
        };
        match stop {
            PcapError::Incomplete(_) => {}
            PcapError::BufferTooSmall if buffer_bytes < MOST_BUFFER_BYTES => {
                buffer_bytes *= 2;
                reader.grow(buffer_bytes);
            }
            PcapError::Eof => break CaptureEnd::Whole,
            PcapError::UnexpectedEof if reader.data().is_empty() => break CaptureEnd::Whole,
            PcapError::UnexpectedEof => break CaptureEnd::CutOff,
            PcapError::BufferTooSmall => {
                let reason =
                    format!("it says that a block has more than {MOST_BUFFER_BYTES} bytes");
                break CaptureEnd::Damaged(reason);
            }
            _ => break CaptureEnd::Damaged("what comes next is no block".to_owned()),
        }
        if let Err(error) = reader.refill() {
            break CaptureEnd::Damaged(error.to_string());
        }
    };
    Some(end)
}

/// What blocks before have said of those that follow.
#[derive(Debug, Default)]
struct Frames {
    number: u64,
    interfaces: Vec<Interface>,
    /// Units of time of a pcap file's fractions, in ns.
    fraction_ns: u64,
}

impl Frames {
    fn see(
        &mut self,
        block: &PcapBlockOwned<'_>,
        take: &mut impl FnMut(Frame<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.fraction_ns = if header.is_nanosecond_precision() {
                    1
                } else {
                    1000
                };
                self.interfaces = vec![Interface {
                    // The upper half says how frames end.
                    link: Linktype(header.network.0 & 0xffff),
                    units_per_s: 1,
                    offset_s: 0,
                }];
            }
            PcapBlockOwned::Legacy(packet) => {
                let fraction_ns = u64::from(packet.ts_usec) * self.fraction_ns;
                let time_ns = u64::from(packet.ts_sec) * 1_000_000_000 + fraction_ns;
                return self.frame(0, time_ns, packet.data, false, take);
            }
            PcapBlockOwned::NG(Block::SectionHeader(_)) => self.interfaces.clear(),
            PcapBlockOwned::NG(Block::InterfaceDescription(interface))
                if self.interfaces.len() < MOST_INTERFACES =>
            {
                self.interfaces.push(Interface {
                    link: interface.linktype,
                    units_per_s: units_per_s(interface.if_tsresol),
                    offset_s: interface.if_tsoffset,
                });
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                let comments = packet
                    .options
                    .iter()
                    .filter(|o| o.code == OptionCode::Comment);
                let mut comments = comments.filter_map(|option| option.as_str().ok());
                let is_lost = comments.any(|comment| comment.starts_with(DROPPED));
                let units = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let interface = self.interfaces.get(packet.if_id as usize);
                let time_ns = interface.map_or(0, |interface| interface.time_ns(units));
                return self.frame(packet.if_id, time_ns, packet.packet_data(), is_lost, take);
            }
            // A Simple Packet Block has no time, and other blocks no frame.
            PcapBlockOwned::NG(Block::SimplePacket(_)) => self.number += 1,
            PcapBlockOwned::NG(_) => {}
        }
        ControlFlow::Continue(())
    }

    fn frame(
        &mut self,
        interface: u32,
        time_ns: u64,
        bytes: &[u8],
        is_lost: bool,
        take: &mut impl FnMut(Frame<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        self.number += 1;
        let Some(described) = self.interfaces.get(interface as usize) else {
            return ControlFlow::Continue(());
        };
        take(Frame {
            number: self.number,
            time_ns,
            interface,
            link: described.link,
            bytes,
            is_lost,
        })
    }
}

/// What an interface's `if_tsresol` says: a power of ten, or of two where its top bit is set.
fn units_per_s(resolution: u8) -> u64 {
    let exponent = u32::from(resolution & 0x7f);
    let base: u64 = if resolution & 0x80 == 0 { 10 } else { 2 };
    base.checked_pow(exponent).unwrap_or(u64::MAX)
}

impl Interface {
    fn time_ns(&self, units: u64) -> u64 {
        let since_ns = u128::from(units) * 1_000_000_000 / u128::from(self.units_per_s);
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
