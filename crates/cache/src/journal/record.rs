//! How a journal's file is laid out: two superblocks, then a ring of records.
//!
//! A place in the ring is counted through all its rounds, so that it only grows; a record lies whole, and what is
//! left of a round that is too short for the next one is passed over. All numbers are little-endian.

use crate::range::Range;

/// What a record and its data are padded to, in bytes: what a disk writes whole.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Where the ring begins in the file: behind the two superblocks, each in a page of its own.
pub(super) const RING_AT_BYTES: u64 = 2 * SUPERBLOCK_BYTES;
pub(super) const SUPERBLOCK_BYTES: u64 = 4096;

const SUPERBLOCK_MAGIC: [u8; 8] = *b"wansanJ2";
const RECORD_MAGIC: u32 = 0x4a53_4e57;

/// Of a record, ahead of its data.
const HEADER_BYTES: usize = 64;

/// Which disk a journal belongs to: another's is refused.
pub type Identity = [u8; 32];

/// What a journal is, and where its oldest record is that is not at the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superblock {
    /// Which disk it belongs to.
    pub identity: Identity,
    /// The ring's length, in bytes.
    pub ring_bytes: u64,
    /// Counts superblocks: the later one holds.
    pub generation: u64,
    /// The place of the oldest record.
    pub head: u64,
    /// Its number.
    pub head_number: u64,
    /// The incarnation of the oldest record, or of the next one where there is none: an older one at that place is one that
    /// a torn one hid.
    pub head_incarnation: u64,
    /// Counts how often the journal was opened.
    pub incarnation: u64,
}

impl Superblock {
    const SEALED_BYTES: usize = 88;

    /// As it is in the file.
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

    /// Reads one; `None` when it is none, or torn.
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

    /// Where it goes in the file: superblocks take turns, so that a torn one leaves the other.
    #[must_use]
    pub fn place(&self) -> u64 {
        self.generation % 2 * SUPERBLOCK_BYTES
    }
}

/// What a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Data of a range follow.
    Write,
    /// A range reads as zeros; it may become a hole.
    Zero { may_unmap: bool },
    /// The data of a range are of no use.
    Trim,
    /// The next record is at the ring's start.
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

/// A record of the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) kind: Kind,
    /// Numbers follow each other without gaps.
    pub(super) number: u64,
    /// The journal's when it was written: behind a torn record there may be others, which are no longer meant once that
    /// one was written again.
    pub(super) incarnation: u64,
    /// All records of one epoch may reach the disk in any order, and before any of a later one.
    pub(super) epoch: u64,
    pub(super) range: Range,
    /// Where it begins in the ring.
    pub(super) place: u64,
}

impl Record {
    /// The bytes of the ring that it takes.
    pub(super) fn ring_bytes(&self) -> u64 {
        ring_bytes(self.kind, self.range.bytes())
    }

    /// Where its data begin in the ring.
    pub(super) fn data_place(&self) -> u64 {
        self.place + HEADER_BYTES as u64
    }

    /// As it is in the ring, with its data.
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

    /// Reads the header of one, which says how many bytes of data follow; `None` when it is none.
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

    /// Whether the header and the data of a record are those that were written together.
    pub(super) fn is_whole(header: &[u8], data: &[u8]) -> bool {
        let sealed = HEADER_BYTES - 4;
        let Some(sum) = word(header, sealed) else {
            return false;
        };
        crc32c::crc32c_append(crc32c::crc32c(&header[..sealed]), data) == sum
    }

    /// Bytes of data that follow its header.
    pub(super) fn data_bytes(&self) -> u64 {
        match self.kind {
            Kind::Write => self.range.bytes(),
            Kind::Zero { .. } | Kind::Trim | Kind::Wrap => 0,
        }
    }
}

/// The bytes of the ring that a record takes.
pub(super) fn ring_bytes(kind: Kind, range_bytes: u64) -> u64 {
    let data = if kind == Kind::Write { range_bytes } else { 0 };
    (HEADER_BYTES as u64 + data).next_multiple_of(SECTOR_BYTES)
}

/// What is read first of a record.
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
