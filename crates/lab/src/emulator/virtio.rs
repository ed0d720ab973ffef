//! The header before each frame on a packet socket with PACKET_VNET_HDR: the work that the sender's kernel has left to
//! a network card (linux/virtio_net.h, `struct virtio_net_hdr`).

/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const SEGMENT_TCP_IPV4: u8 = 1;
const SEGMENT_UDP: u8 = 5;
/// Set with the type if the first segment carries CWR.
const ECN: u8 = 0x80;

/// Segmentation type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// TCP over IPv4.
    Tcp,
    /// UDP datagrams.
    Udp,
}

/// The remaining checksum: the transport's, over everything from `start`. Its field, `offset` bytes after that, holds
/// the pseudo-header sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Checksum {
    pub(super) start: u16,
    pub(super) offset: u16,
}

/// The remaining segmentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Segmentation {
    pub(super) kind: Kind,
    /// Payload of each segment but the last, in bytes.
    pub(super) segment_bytes: u16,
    /// Total header length, in bytes.
    pub(super) header_bytes: u16,
    /// Whether the first segment carries CWR (RFC 3168 §6.1.2).
    pub(super) cwr: bool,
}

/// The remaining work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Offload {
    pub(super) checksum: Option<Checksum>,
    pub(super) segmentation: Option<Segmentation>,
}

impl Offload {
    /// Decodes a header; `None` for segmentation types that no host here uses.
    pub(super) fn parse(header: [u8; HEADER_BYTES]) -> Option<Offload> {
        let [flags, kind, ..] = header;
        let word = |at: usize| u16::from_ne_bytes([header[at], header[at + 1]]);
        let checksum = (flags & NEEDS_CHECKSUM != 0).then(|| Checksum {
            start: word(6),
            offset: word(8),
        });
        let segmentation = |kind, cwr| Segmentation {
            kind,
            segment_bytes: word(4),
            header_bytes: word(2),
            cwr,
        };
        let segmentation = match (kind & !ECN, kind & ECN != 0) {
            (0, false) => None,
            (SEGMENT_TCP_IPV4, cwr) => Some(segmentation(Kind::Tcp, cwr)),
            (SEGMENT_UDP, false) => Some(segmentation(Kind::Udp, false)),
            _ => return None,
        };
        Some(Offload {
            checksum,
            segmentation,
        })
    }

    /// Encodes the header.
    pub(super) fn emit(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let mut put = |at: usize, word: u16| {
            header[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        };
        if let Some(Checksum { start, offset }) = self.checksum {
            put(6, start);
            put(8, offset);
        }
        if let Some(segmentation) = self.segmentation {
            put(2, segmentation.header_bytes);
            put(4, segmentation.segment_bytes);
            header[1] = match segmentation.kind {
                Kind::Tcp => SEGMENT_TCP_IPV4,
                Kind::Udp => SEGMENT_UDP,
            };
            header[1] |= if segmentation.cwr { ECN } else { 0 };
        }
        header[0] = if self.checksum.is_some() {
            NEEDS_CHECKSUM
        } else {
            0
        };
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_emitted_is_parsed() {
        let checksum = Some(Checksum {
            start: 34,
            offset: 16,
        });
        for (kind, cwr) in [(Kind::Tcp, false), (Kind::Tcp, true), (Kind::Udp, false)] {
            let offload = Offload {
                checksum,
                segmentation: Some(Segmentation {
                    kind,
                    segment_bytes: 1448,
                    header_bytes: 66,
                    cwr,
                }),
            };
            assert_eq!(Offload::parse(offload.emit()), Some(offload));
        }
        for offload in [
            Offload::default(),
            Offload {
                checksum,
                segmentation: None,
            },
        ] {
            assert_eq!(Offload::parse(offload.emit()), Some(offload));
        }
    }

    #[test]
    fn another_segmentation_is_refused() {
        // TCP over IPv6, and IP fragments.
        for kind in [4, 3, SEGMENT_UDP | ECN, ECN] {
            assert_eq!(Offload::parse([1, kind, 0, 0, 0, 0, 0, 0, 0, 0]), None);
        }
    }
}
