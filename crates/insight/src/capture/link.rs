//! What frames begin with, by the link type that a capture says: where the IP packet in them is found.

use std::collections::BTreeMap;

use pcap_parser::Linktype;
use serde::Serialize;

/// Lengths of the headers of captures of all interfaces, old and new.
const COOKED_BYTES: usize = 16;
const COOKED_2_BYTES: usize = 20;

/// Those that are read, in words.
pub(super) const READ: &str = "Ethernet (1), Linux cooked (113, 276), raw IP (101, 228, 229) and BSD loopback (0, 108) are read";

/// Names of some that are not read, by the registry of tcpdump.org.
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

/// How a frame begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beginning {
    /// With an Ethernet header.
    Ethernet,
    /// With a header of so many bytes that names the protocol behind it at that place.
    Cooked { protocol: usize, bytes: usize },
    /// With so many bytes that say nothing, and then an IP packet.
    Ip { behind: usize },
}

/// How frames of a link type begin; `None` of one that is not read.
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

/// Frames of a link type that is not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnreadLink {
    /// Its number in the registry of tcpdump.org.
    pub link_type: i32,
    /// Its name there, where it is a known one.
    pub name: Option<&'static str>,
    /// How many frames are of it.
    pub frames: u64,
}

/// Frames that are not read, by their link type.
#[derive(Debug, Clone, Default)]
pub(super) struct Unread(BTreeMap<i32, u64>);

impl Unread {
    /// Counts a frame if it is one that is not read.
    pub(super) fn take(&mut self, link: Linktype) {
        if beginning(link).is_none() {
            *self.0.entry(link.0).or_default() += 1;
        }
    }

    /// Those link types of which there are frames.
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

/// Which frames are not read, and which are, in a sentence without its full stop; `None` where all are.
#[must_use]
pub fn unread_in_words(links: &[UnreadLink]) -> Option<String> {
    /// More are counted together.
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
