//! The ring of records in a file: its head, its tail, and how much of it is durable.

use super::record::{
    Identity, Kind, RING_AT_BYTES, Record, SECTOR_BYTES, SUPERBLOCK_BYTES, Superblock,
    header_bytes, ring_bytes,
};
use crate::action::Failure;
use crate::range::Range;

/// A file on this host.
pub trait JournalFile {
    /// Writes at an offset; the data may be lost until the file is synced.
    ///
    /// # Errors
    /// The file's error.
    fn write_at(&mut self, place: u64, data: &[u8]) -> Result<(), Failure>;

    /// Reads at an offset.
    ///
    /// # Errors
    /// The file's error, also if it is too short.
    fn read_at(&mut self, place: u64, into: &mut [u8]) -> Result<(), Failure>;

    /// Makes everything written durable, synchronously.
    ///
    /// # Errors
    /// The file's error.
    fn sync(&mut self) -> Result<(), Failure>;
}

/// Why a file is not usable as a disk's journal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenError {
    /// Not a journal, or both superblocks are torn.
    NoJournal,
    /// It belongs to another disk.
    OtherDisk,
    /// It cannot be read or written.
    File(Failure),
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> OpenError {
        OpenError::File(failure)
    }
}

/// The oldest record of a ring: position, number and incarnation.
type Head = (u64, u64, u64);

/// The ring. Positions only grow.
#[derive(Debug)]
pub(super) struct Ring<F> {
    file: F,
    superblock: Superblock,
    /// Position and number of the next record.
    tail: u64,
    number: u64,
    /// The head as last written.
    new_head: Head,
    /// Count of writes to the file, and how many of them are durable or being synced.
    written: u64,
    durable: u64,
    syncing: Option<u64>,
    is_broken: bool,
}

impl<F: JournalFile> Ring<F> {
    pub(super) fn create(file: F, identity: Identity, ring_bytes: u64) -> Result<Ring<F>, Failure> {
        let superblock = Superblock {
            identity,
            ring_bytes,
            generation: 0,
            head: 0,
            head_number: 0,
            head_incarnation: 0,
            incarnation: 0,
        };
        Ring::over(file, superblock, 0, 0)
    }

    /// Starts a new incarnation, and makes it durable before any of its records.
    fn over(file: F, superblock: Superblock, tail: u64, number: u64) -> Result<Ring<F>, Failure> {
        let mut ring = Ring {
            file,
            superblock: Superblock {
                incarnation: superblock.incarnation + 1,
                ..superblock
            },
            tail,
            number,
            new_head: (
                superblock.head,
                superblock.head_number,
                superblock.head_incarnation,
            ),
            written: 0,
            durable: 0,
            syncing: None,
            is_broken: false,
        };
        ring.write_superblock()?;
        ring.file.sync()?;
        ring.durable = ring.written;
        Ok(ring)
    }

    /// Opens the ring in a file, with its records from the head to the first incomplete one.
    pub(super) fn open(
        mut file: F,
        identity: Identity,
    ) -> Result<(Ring<F>, Vec<Record>), OpenError> {
        let mut found = None::<Superblock>;
        for slot in 0..2 {
            let mut bytes = vec![0; SUPERBLOCK_BYTES as usize];
            file.read_at(slot * SUPERBLOCK_BYTES, &mut bytes)?;
            let other = Superblock::parse(&bytes)
                .filter(|superblock| superblock.place() == slot * SUPERBLOCK_BYTES);
            if let Some(other) = other
                && found.is_none_or(|found| other.generation > found.generation)
            {
                found = Some(other);
            }
        }
        let superblock = found.ok_or(OpenError::NoJournal)?;
        if superblock.identity != identity {
            return Err(OpenError::OtherDisk);
        }
        let is_sane = superblock.ring_bytes >= SECTOR_BYTES
            && superblock.ring_bytes.is_multiple_of(SECTOR_BYTES)
            && superblock.head.is_multiple_of(SECTOR_BYTES);
        if !is_sane {
            return Err(OpenError::NoJournal);
        }
        let mut scan = Scan {
            file: &mut file,
            ring_bytes: superblock.ring_bytes,
            place: superblock.head,
            number: superblock.head_number,
            incarnation: superblock.head_incarnation,
            end: superblock.head + superblock.ring_bytes,
        };
        let mut records = Vec::new();
        while let Some(record) = scan.next()? {
            records.push(record);
        }
        let (tail, number, seen) = (scan.place, scan.number, scan.incarnation);
        let superblock = Superblock {
            incarnation: superblock.incarnation.max(seen),
            ..superblock
        };
        Ok((Ring::over(file, superblock, tail, number)?, records))
    }

    /// Appends a record; returns `None` if there is no room.
    pub(super) fn append(
        &mut self,
        kind: Kind,
        epoch: u64,
        range: Range,
        data: &[u8],
    ) -> Result<Option<Record>, Failure> {
        if self.is_broken {
            return Err(Failure::Io);
        }
        let needed = ring_bytes(kind, range.bytes());
        // If the rest of the round is too short for it, it needs up to twice its length.
        if 2 * needed > self.bytes() {
            return Err(Failure::NoSpace);
        }
        let left = self.bytes() - self.tail % self.bytes();
        let skipped = if left < needed { left } else { 0 };
        if self.tail + skipped + needed > self.superblock.head + self.bytes() {
            return Ok(None);
        }
        if skipped > 0 {
            let record = self.record(Kind::Wrap, epoch, Range::new(0, 0));
            self.write(record.place, &record.emit(&[]))?;
            self.number += 1;
            self.tail += skipped;
        }
        let record = self.record(kind, epoch, range);
        self.write(record.place, &record.emit(data))?;
        self.number += 1;
        self.tail += needed;
        Ok(Some(record))
    }

    fn record(&self, kind: Kind, epoch: u64, range: Range) -> Record {
        Record {
            kind,
            number: self.number,
            incarnation: self.superblock.incarnation,
            epoch,
            range,
            place: self.tail,
        }
    }

    fn write(&mut self, place: u64, bytes: &[u8]) -> Result<(), Failure> {
        let at = RING_AT_BYTES + place % self.bytes();
        self.file.write_at(at, bytes)?;
        self.written += 1;
        Ok(())
    }

    /// Reads a record's data.
    pub(super) fn read(&mut self, place: u64, into: &mut [u8]) -> Result<(), Failure> {
        let at = RING_AT_BYTES + place % self.bytes();
        let read = self.file.read_at(at, into);
        self.is_broken |= read.is_err();
        read
    }

    /// Moves the head to `oldest`, or to the tail; returns the write count that must be durable before [`Ring::free`].
    pub(super) fn write_head(&mut self, oldest: Option<&Record>) -> Result<u64, Failure> {
        let next = (self.tail, self.number, self.superblock.incarnation);
        let head = oldest.map_or(next, |record| {
            (record.place, record.number, record.incarnation)
        });
        let superblock = Superblock {
            generation: self.superblock.generation + 1,
            head: head.0,
            head_number: head.1,
            head_incarnation: head.2,
            ..self.superblock
        };
        self.new_head = head;
        self.superblock.generation = superblock.generation;
        let written = self.file.write_at(superblock.place(), &superblock.emit());
        self.is_broken |= written.is_err();
        written?;
        self.written += 1;
        Ok(self.written)
    }

    /// Frees everything before the written head, which is durable now.
    pub(super) fn free(&mut self) {
        let superblock = &mut self.superblock;
        (
            superblock.head,
            superblock.head_number,
            superblock.head_incarnation,
        ) = self.new_head;
    }

    fn write_superblock(&mut self) -> Result<(), Failure> {
        self.superblock.generation += 1;
        let superblock = self.superblock;
        self.file.write_at(superblock.place(), &superblock.emit())?;
        self.written += 1;
        Ok(())
    }

    pub(super) fn bytes(&self) -> u64 {
        self.superblock.ring_bytes
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Whether to start a sync so that the first `wanted` writes become durable.
    pub(super) fn begin_sync(&mut self, wanted: u64) -> bool {
        let begins = wanted > self.durable && self.syncing.is_none() && !self.is_broken;
        if begins {
            self.syncing = Some(self.written);
        }
        begins
    }

    pub(super) fn end_sync(&mut self, is_durable: bool) {
        match (self.syncing.take(), is_durable) {
            (Some(written), true) => self.durable = self.durable.max(written),
            // The kernel may have dropped the data that it could not write, and a later sync would not report it.
            (_, false) => self.is_broken = true,
            (None, true) => {}
        }
    }

    pub(super) fn file(&self) -> &F {
        &self.file
    }
}

/// Scans consecutive records.
struct Scan<'a, F> {
    file: &'a mut F,
    ring_bytes: u64,
    place: u64,
    number: u64,
    incarnation: u64,
    /// Where the ring would wrap to its head.
    end: u64,
}

impl<F: JournalFile> Scan<'_, F> {
    /// The next record; `None` after the last. An unreadable file is an error, not the end.
    fn next(&mut self) -> Result<Option<Record>, Failure> {
        loop {
            let Some(record) = self.read()? else {
                return Ok(None);
            };
            self.number += 1;
            self.incarnation = record.incarnation;
            if record.kind == Kind::Wrap {
                self.place += self.ring_bytes - self.place % self.ring_bytes;
                continue;
            }
            self.place += record.ring_bytes();
            return Ok(Some(record));
        }
    }

    fn read(&mut self) -> Result<Option<Record>, Failure> {
        let within = self.place % self.ring_bytes;
        let at = RING_AT_BYTES + within;
        let mut header = vec![0; header_bytes()];
        self.file.read_at(at, &mut header)?;
        let Some(record) = Record::parse(&header) else {
            return Ok(None);
        };
        let is_next = record.number == self.number
            && record.place == self.place
            && record.incarnation >= self.incarnation
            && record.data_bytes() <= self.ring_bytes
            && within + record.ring_bytes() <= self.ring_bytes
            && self.place + record.ring_bytes() <= self.end;
        if !is_next {
            return Ok(None);
        }
        let mut data = vec![0; record.data_bytes() as usize];
        self.file.read_at(at + header.len() as u64, &mut data)?;
        Ok(Record::is_whole(&header, &data).then_some(record))
    }
}
