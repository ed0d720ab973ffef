//! The log of writes that the kernel's dm-log-writes keeps
//! (Documentation/admin-guide/device-mapper/log-writes.rst; the format: drivers/md/dm-log-writes.c).
//!
//! A write is in it once it was done and a flush that was sent after that is done too. So the log up to any
//! entry is what a disk with a volatile cache holds for certain when it loses power there.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const VERSION: u64 = 1;

const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;

/// One entry.
#[derive(Debug)]
pub(super) enum Entry {
    /// The device was flushed.
    Flush,
    /// `data` was written from `sector` on, in sectors of the log.
    Write { sector: u64, data: Vec<u8> },
    /// Somebody left this word in the log.
    Mark(String),
}

impl Entry {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Entry::Flush => "flush",
            Entry::Write { .. } => "write",
            Entry::Mark(_) => "mark",
        }
    }
}

/// Reads a log from its beginning.
pub(super) struct WriteLog {
    file: BufReader<File>,
    sector_bytes: u64,
    /// Entries that are left.
    left: u64,
}

impl WriteLog {
    /// # Errors
    /// When the file cannot be read or holds no log.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut file = BufReader::new(File::open(path)?);
        let [magic, version, entries, sector] = words(&mut file)?;
        let sector_bytes = u64::from(sector as u32);
        if (magic, version) != (MAGIC, VERSION) || sector_bytes < 32 {
            return Err(io::Error::other(format!(
                "no log of dm-log-writes: {magic:x}, version {version}, sectors of {sector_bytes}"
            )));
        }
        file.seek(SeekFrom::Start(sector_bytes))?;
        Ok(Self {
            file,
            sector_bytes,
            left: entries,
        })
    }

    fn entry(&mut self) -> io::Result<Entry> {
        let [sector, sectors, flags, word_bytes] = words(&mut self.file)?;
        let mut rest = vec![0; (self.sector_bytes - 32) as usize];
        self.file.read_exact(&mut rest)?;
        if flags & MARK != 0 {
            rest.truncate(word_bytes as usize);
            return Ok(Entry::Mark(String::from_utf8_lossy(&rest).into_owned()));
        }
        if flags & DISCARD != 0 {
            return Err(io::Error::other("a discard, which this does not replay"));
        }
        if sectors == 0 {
            return Ok(Entry::Flush);
        }
        let mut data = vec![0; (sectors * self.sector_bytes) as usize];
        self.file.read_exact(&mut data)?;
        Ok(Entry::Write { sector, data })
    }
}

impl Iterator for WriteLog {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<io::Result<Entry>> {
        self.left = self.left.checked_sub(1)?;
        Some(self.entry())
    }
}

/// The next four words of 64 bits.
fn words(from: &mut impl Read) -> io::Result<[u64; 4]> {
    let mut words = [0; 4];
    for word in &mut words {
        let mut bytes = [0; 8];
        from.read_exact(&mut bytes)?;
        *word = u64::from_le_bytes(bytes);
    }
    Ok(words)
}
