//! Layout of a journal's file: two superblocks, then a ring of records.
//!
//! A position in the ring counts through all its rounds, so it only grows. A record is contiguous: if the rest of a
//! round is too short for it, it starts at the next round. All numbers are little-endian.

use crate::range::Range;

/// Padding unit of a record with its data, in bytes: what a disk writes atomically.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Offset of the ring in the file: after the two superblocks, each in its own page.
pub(super) const RING_AT_BYTES: u64 = 2 * SUPERBLOCK_BYTES;
pub(super) const SUPERBLOCK_BYTES: u64 = 4096;

const SUPERBLOCK_MAGIC: [u8; 8] = *b"wansanJ2";
const RECORD_MAGIC: u32 = 0x4a53_4e57;

/// Length of a record's header, in bytes.
const HEADER_BYTES: usize = 64;

/// Identity of the disk that a journal belongs to; another disk's journal is refused.
pub type Identity = [u8; 32];

/// Identifies a journal and locates its oldest record not yet written back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superblock {
    /// Identity of its disk.
    pub identity: Identity,
    /// The ring's length, in bytes.
    pub ring_bytes: u64,
    /// Generation: the superblock with the higher one is valid.
    pub generation: u64,
    /// Position of the oldest record.
    pub head: u64,
    /// Its number.
    pub head_number: u64,
    /// Incarnation of the oldest record, or of the next one if there is none: an older record at that position is a
    /// leftover that a torn record had hidden.
    pub head_incarnation: u64,
    /// Number of times the journal was opened.
    pub incarnation: u64,
}

impl Superblock {
    const SEALED_BYTES: usize = 88;

    /// Its encoding.
    #[must_use]
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SUPERBLOCK_BYTES as usize);
        bytes.extend(SUPERBLOCK_MAGIC);
        bytes.extend(self.identity);
        for number in [
            self.ring_bytes,
            self.generation,
            self.head,
            self.head_number,
            self.head_incarnation,
            self.incarnation,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes.resize(SUPERBLOCK_BYTES as usize, 0);
        bytes
    }

    /// Decodes a superblock; `None` if invalid or torn.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Superblock> {
        let sealed = bytes.get(..Self::SEALED_BYTES)?;
        let is_whole = word(bytes, Self::SEALED_BYTES)? == crc32c::crc32c(sealed);
        if !is_whole || sealed[..8] != SUPERBLOCK_MAGIC {
            return None;
        }
        Some(Superblock {
            identity: sealed[8..40].try_into().ok()?,
            ring_bytes: long(sealed, 40)?,
            generation: long(sealed, 48)?,
            head: long(sealed, 56)?,
            head_number: long(sealed, 64)?,
            head_incarnation: long(sealed, 72)?,
            incarnation: long(sealed, 80)?,
        })
    }

    /// Its offset in the file: superblocks alternate, so that a torn one leaves the other intact.
    #[must_use]
    pub fn place(&self) -> u64 {
        self.generation % 2 * SUPERBLOCK_BYTES
    }
}

/// Type of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Write; the data follow.
    Write,
    /// Zero the range; it may become a hole.
    Zero { may_unmap: bool },
    /// Discard the range.
    Trim,
    /// The next record is at the start of the ring.
    Wrap,
}

impl Kind {
    fn code(self) -> u32 {
        match self {
            Kind::Write => 1,
            Kind::Zero { may_unmap: false } => 2,
            Kind::Zero { may_unmap: true } => 3,
            Kind::Trim => 4,
            Kind::Wrap => 5,
        }
    }

    fn of(code: u32) -> Option<Kind> {
        let all = [
            Kind::Write,
            Kind::Zero { may_unmap: false },
            Kind::Zero { may_unmap: true },
            Kind::Trim,
            Kind::Wrap,
        ];
        all.into_iter().find(|kind| kind.code() == code)
    }
}

/// A record in the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: Kind,
    /// Consecutive sequence number.
    pub(super) number: u64,
    /// The journal's incarnation when it was written: records left after a torn one must be ignored once that one has
    /// been rewritten.
    pub(super) incarnation: u64,
    /// Records of one epoch may reach the disk in any order, but all before any of a later epoch.
    pub(super) epoch: u64,
    pub(super) range: Range,
    /// Its position in the ring.
    pub(super) place: u64,
}

impl Record {
    /// Its length in the ring, in bytes.
    pub(super) fn ring_bytes(&self) -> u64 {
        ring_bytes(self.kind, self.range.bytes())
    }

    /// Position of its data.
    pub(super) fn data_place(&self) -> u64 {
        self.place + HEADER_BYTES as u64
    }

    /// Its encoding, with its data.
    pub(super) fn emit(&self, data: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.ring_bytes() as usize);
        bytes.extend(RECORD_MAGIC.to_le_bytes());
        bytes.extend(self.kind.code().to_le_bytes());
        for number in [
            self.number,
            self.epoch,
            self.range.start,
            self.range.end,
            self.place,
            self.incarnation,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.resize(HEADER_BYTES - 4, 0);
        let sum = crc32c::crc32c_append(crc32c::crc32c(&bytes), data);
        bytes.extend(sum.to_le_bytes());
        bytes.extend(data);
        bytes.resize(self.ring_bytes() as usize, 0);
        bytes
    }

    /// Decodes a header, which gives the length of the data; `None` if invalid.
    pub(super) fn parse(bytes: &[u8]) -> Option<Record> {
        if word(bytes, 0)? != RECORD_MAGIC {
            return None;
        }
        let (start, end) = (long(bytes, 24)?, long(bytes, 32)?);
        Some(Record {
            kind: Kind::of(word(bytes, 4)?)?,
            number: long(bytes, 8)?,
            epoch: long(bytes, 16)?,
            range: (start <= end).then_some(Range { start, end })?,
            place: long(bytes, 40)?,
            incarnation: long(bytes, 48)?,
        })
    }

    /// Whether the header and data of a record match their checksum.
    pub(super) fn is_whole(header: &[u8], data: &[u8]) -> bool {
        let sealed = HEADER_BYTES - 4;
        let Some(sum) = word(header, sealed) else {
            return false;
        };
        crc32c::crc32c_append(crc32c::crc32c(&header[..sealed]), data) == sum
    }

    /// Length of its data, in bytes.
    pub(super) fn data_bytes(&self) -> u64 {
        match self.kind {
            Kind::Write => self.range.bytes(),
            Kind::Zero { .. } | Kind::Trim | Kind::Wrap => 0,
        }
    }
}

/// Length in the ring of a record, in bytes.
pub(super) fn ring_bytes(kind: Kind, range_bytes: u64) -> u64 {
    let data = if kind == Kind::Write { range_bytes } else { 0 };
    (HEADER_BYTES as u64 + data).next_multiple_of(SECTOR_BYTES)
}

/// Length of the part of a record that is read first.
pub(super) const fn header_bytes() -> usize {
    HEADER_BYTES
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn superblocks_round_trip(identity: [u8; 32], numbers: [u64; 6], torn in 0_usize..92) {
            let [ring_bytes, generation, head, head_number, head_incarnation, incarnation] = numbers;
            let superblock = Superblock { identity, ring_bytes, generation, head, head_number, head_incarnation, incarnation };
            let mut bytes = superblock.emit();
            prop_assert_eq!(Superblock::parse(&bytes), Some(superblock));
            bytes[torn] ^= 1;
            prop_assert_eq!(Superblock::parse(&bytes), None);
        }

        #[test]
        fn records_round_trip(code in 1_u32..6, numbers: [u64; 4], start: u32, data: Vec<u8>, torn: prop::sample::Index) {
            let [number, epoch, place, incarnation] = numbers;
            let kind = Kind::of(code).expect("a code");
            let range = Range::new(start.into(), data.len() as u64);
            let record = Record { kind, number, epoch, range, place, incarnation };
            let data = &data[..record.data_bytes() as usize];
            let mut bytes = record.emit(data);
            prop_assert_eq!(bytes.len() as u64, record.ring_bytes());
            prop_assert_eq!(Record::parse(&bytes), Some(record));
            let end = HEADER_BYTES + data.len();
            prop_assert!(Record::is_whole(&bytes[..HEADER_BYTES], &bytes[HEADER_BYTES..end]));
            bytes[torn.index(end)] ^= 1;
            prop_assert!(!Record::is_whole(&bytes[..HEADER_BYTES], &bytes[HEADER_BYTES..end]));
        }
    }
}
