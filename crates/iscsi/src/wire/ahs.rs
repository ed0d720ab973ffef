//! Additional header segments (RFC 7143 §11.2.2).

use super::ParseError;

/// Maximum bytes of additional header segments in one PDU: TotalAHSLength is one byte and counts
/// words.
pub const MAX_AHS_BYTES: usize = 255 * 4;

/// AHSLength and AHSType.
const PREFIX_BYTES: usize = 3;

const EXTENDED_CDB: u8 = 1;
const BIDIRECTIONAL_READ_LENGTH: u8 = 2;

/// One additional header segment. Only a SCSI Command may carry any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ahs<'a> {
    /// Byte 16 and following of a CDB longer than 16 bytes (RFC 7143 §11.2.2.3).
    ExtendedCdb(&'a [u8]),
    /// Bidirectional Read Expected Data Transfer Length, in bytes (RFC 7143 §11.2.2.4).
    BidirectionalReadLength(u32),
    /// A type that RFC 7143 does not assign.
    Other {
        /// AHSType: the whole byte.
        kind: u8,
        /// The AHS-specific bytes without padding.
        body: &'a [u8],
    },
}

impl<'a> Ahs<'a> {
    /// Parses the segments of [`Pdu::ahs`](super::Pdu::ahs), first to last. A segment that does not fit yields an error
    /// and ends the iteration.
    pub fn parse_all(bytes: &'a [u8]) -> impl Iterator<Item = Result<Ahs<'a>, ParseError>> {
        let mut offset = 0;
        core::iter::from_fn(move || {
            if offset >= bytes.len() {
                return None;
            }
            let parsed = Ahs::parse(&bytes[offset..]);
            let item = parsed
                .map(|(ahs, _)| ahs)
                .ok_or(ParseError::MalformedAhs { offset });
            offset = parsed.map_or(bytes.len(), |(_, wire_bytes)| offset + wire_bytes);
            Some(item)
        })
    }

    /// The first segment of `bytes`, and its length with padding.
    fn parse(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let (&[high, low, kind], rest) = bytes.split_first_chunk()?;
        let body = rest.get(..usize::from(u16::from_be_bytes([high, low])))?;
        let ahs = match kind {
            EXTENDED_CDB => {
                let (_reserved, cdb) = body.split_first()?;
                Ahs::ExtendedCdb(cdb)
            }
            BIDIRECTIONAL_READ_LENGTH => {
                let &[_reserved, a, b, c, d] = body else {
                    return None;
                };
                Ahs::BidirectionalReadLength(u32::from_be_bytes([a, b, c, d]))
            }
            _ => Ahs::Other { kind, body },
        };
        Some((ahs, (PREFIX_BYTES + body.len()).next_multiple_of(4)))
    }

    /// Bytes on the wire, padding included.
    pub(super) fn wire_bytes(&self) -> usize {
        let body = match self {
            Ahs::ExtendedCdb(cdb) => 1 + cdb.len(),
            Ahs::BidirectionalReadLength(_) => 5,
            Ahs::Other { body, .. } => body.len(),
        };
        (PREFIX_BYTES + body).next_multiple_of(4)
    }

    /// Writes the segment into `to`, which is [`Ahs::wire_bytes`] long.
    pub(super) fn emit(&self, to: &mut [u8]) {
        to.fill(0);
        let (kind, from, body, length) = match self {
            Ahs::ExtendedCdb(cdb) => (EXTENDED_CDB, 4, *cdb, 1 + cdb.len()),
            Ahs::BidirectionalReadLength(bytes) => {
                (BIDIRECTIONAL_READ_LENGTH, 4, &bytes.to_be_bytes()[..], 5)
            }
            Ahs::Other { kind, body } => (*kind, PREFIX_BYTES, *body, body.len()),
        };
        to[..2].copy_from_slice(&(length as u16).to_be_bytes());
        to[2] = kind;
        to[from..from + body.len()].copy_from_slice(body);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::vec, prelude::*};

    #[test]
    fn the_layouts_of_the_standard() {
        let mut bytes = [0xee; 8];
        Ahs::BidirectionalReadLength(0x0102_0304).emit(&mut bytes);
        assert_eq!(bytes, [0, 5, 2, 0, 1, 2, 3, 4]);
        // A CDB of 20 bytes: AHSLength is CDBLength − 15.
        Ahs::ExtendedCdb(&[0xa, 0xb, 0xc, 0xd]).emit(&mut bytes);
        assert_eq!(bytes, [0, 5, 1, 0, 0xa, 0xb, 0xc, 0xd]);
    }

    proptest! {
        #[test]
        fn segments_come_back(cdb in vec(any::<u8>(), 1..244), length: u32, body in vec(any::<u8>(), 0..40)) {
            let sent = [
                Ahs::ExtendedCdb(&cdb),
                Ahs::BidirectionalReadLength(length),
                Ahs::Other { kind: 9, body: &body },
            ];
            let mut bytes = Vec::new();
            for ahs in &sent {
                let from = bytes.len();
                bytes.resize(from + ahs.wire_bytes(), 0xee);
                ahs.emit(&mut bytes[from..]);
            }
            let received: Result<Vec<_>, _> = Ahs::parse_all(&bytes).collect();
            prop_assert_eq!(received, Ok(sent.to_vec()));
        }

        #[test]
        fn any_bytes_end_in_segments_or_one_error(bytes in vec(any::<u8>(), 0..64)) {
            let items: Vec<_> = Ahs::parse_all(&bytes).collect();
            prop_assert!(items.len() <= bytes.len() / 4 + 1);
            prop_assert!(items.iter().rev().skip(1).all(Result::is_ok));
        }
    }
}
