//! The link-layer header of a frame, by the capture's link type: where its IP packet is found.

use std::collections::BTreeMap;

use pcap_parser::Linktype;
use serde::Serialize;

/// Header lengths of Linux cooked captures, versions 1 and 2.
const COOKED_BYTES: usize = 16;
const COOKED_2_BYTES: usize = 20;

/// The supported link types, in words.
pub(super) const READ: &str = "Ethernet (1), Linux cooked (113, 276), raw IP (101, 228, 229) and BSD loopback (0, 108) are read";

/// Names of some unsupported link types, by the registry of tcpdump.org.
const NAMES: [(i32, &str); 12] = [
    (6, "Token Ring"),
    (9, "PPP"),
    (10, "FDDI"),
    (50, "PPP in HDLC"),
    (51, "PPPoE"),
    (105, "IEEE 802.11"),
    (119, "IEEE 802.11 with a Prism header"),
    (127, "IEEE 802.11 with radiotap"),
    (189, "USB"),
    (220, "USB"),
    (239, "NFLOG"),
    (247, "InfiniBand"),
];

/// The link-layer header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    /// An Ethernet header.
    Ethernet,
    /// A header of `bytes` bytes, with the protocol (`EtherType`) at offset `protocol`.
    Cooked { protocol: usize, bytes: usize },
    /// `behind` bytes without needed information, followed by an IP packet.
    Ip { behind: usize },
}

/// The link-layer header of frames of a link type; `None` if it is unsupported.
pub(super) fn beginning(link: Linktype) -> Option<Beginning> {
    Some(match link {
        Linktype::ETHERNET => Beginning::Ethernet,
        Linktype::LINUX_SLL => Beginning::Cooked {
            protocol: 14,
            bytes: COOKED_BYTES,
        },
        Linktype::LINUX_SLL2 => Beginning::Cooked {
            protocol: 0,
            bytes: COOKED_2_BYTES,
        },
        Linktype::RAW | Linktype::IPV4 | Linktype::IPV6 => Beginning::Ip { behind: 0 },
        Linktype::NULL | Linktype::LOOP => Beginning::Ip { behind: 4 },
        _ => return None,
    })
}

/// Frames of an unsupported link type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnreadLink {
    /// Its number in the registry of tcpdump.org.
    pub link_type: i32,
    /// Its name there, if known.
    pub name: Option<&'static str>,
    /// Number of such frames.
    pub frames: u64,
}

/// Number of unsupported frames, by link type.
#[derive(Debug, Clone, Default)]
pub(super) struct Unread(BTreeMap<i32, u64>);

impl Unread {
    /// Counts a frame if its link type is unsupported.
    pub(super) fn take(&mut self, link: Linktype) {
        if beginning(link).is_none() {
            *self.0.entry(link.0).or_default() += 1;
        }
    }

    /// The unsupported link types that occurred.
    pub(super) fn links(&self) -> Vec<UnreadLink> {
        let name = |number| NAMES.iter().find(|(known, _)| *known == number);
        let links = self.0.iter().map(|(number, frames)| UnreadLink {
            link_type: *number,
            name: name(*number).map(|(_, name)| *name),
            frames: *frames,
        });
        links.collect()
    }
}

/// Which frames are not read, and which link types are supported, in a sentence without full stop; `None` if all
/// frames are read.
#[must_use]
pub fn unread_in_words(links: &[UnreadLink]) -> Option<String> {
    /// Link types beyond this number are counted together.
    const TOLD: usize = 3;
    let told = links.iter().take(TOLD).map(|link| {
        let name = link.name.map_or(String::new(), |name| format!(" ({name})"));
        format!("{} of link type {}{name}", link.frames, link.link_type)
    });
    let mut told: Vec<String> = told.collect();
    let others: u64 = links.iter().skip(TOLD).map(|link| link.frames).sum();
    if others > 0 {
        told.push(format!("{others} of others"));
    }
    let told = (!told.is_empty()).then(|| told.join(", "));
    told.map(|told| format!("frames that are not read: {told}; {READ}"))
}
