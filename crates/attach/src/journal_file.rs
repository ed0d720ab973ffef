//! The file of a journal on this host.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use rustix::fs::{
    CWD, FallocateFlags, FlockOperation, RenameFlags, SeekFrom, fallocate, flock, renameat_with,
    seek,
};
use sha2::{Digest, Sha256};
use wansan_cache::{Failure, Identity, Journal, JournalConfig, JournalFile, OpenError};
use wansan_san::url::IscsiUrl;

use crate::disk::Facts;

/// Largest offset of the ring in the file.
const MARGIN_BYTES: u64 = 16 << 10;

/// A journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("journal {}: {why}", path.display())]
pub struct JournalError {
    /// Its file.
    pub path: PathBuf,
    /// The reason.
    pub why: String,
}

/// How far ahead of the records the file is zeroed, in bytes.
const AHEAD_BYTES: u64 = 4 << 20;

/// Bytes of that per write call. The page cache stores a call's data in folios as large as the call allows, and ext4
/// walks all blocks of a folio for each record written into it.
const PIECE_BYTES: usize = 128 << 10;

/// A journal's file.
#[derive(Debug)]
pub(crate) struct LocalFile {
    file: File,
    /// The range whose blocks are known to have been written before.
    written: Range<u64>,
}

impl LocalFile {
    fn of(file: File) -> LocalFile {
        LocalFile {
            file,
            written: 0..0,
        }
    }

    /// Writes zeros to allocated but unwritten blocks in and after `range`: otherwise each sync after a first write
    /// makes the file system convert the extent in its own journal, which takes longer than the records. The contents
    /// do not change. A file system that cannot report such blocks stays slow.
    fn write_ahead(&mut self, range: Range<u64>) {
        if self.written.start <= range.start && range.end <= self.written.end {
            return;
        }
        self.written = range.start..range.end;
        let Ok(hole) = seek(&self.file, SeekFrom::Hole(range.start)) else {
            return;
        };
        self.written.end = hole.max(range.end);
        if hole >= range.end {
            return;
        }
        let end = match seek(&self.file, SeekFrom::Data(hole)) {
            Ok(data) => data,
            Err(_) => self.file.metadata().map_or(hole, |file| file.len()),
        };
        let end = end.min(hole + AHEAD_BYTES);
        let zeros = vec![0; PIECE_BYTES];
        let mut place = hole;
        while place < end {
            let bytes = PIECE_BYTES.min((end - place) as usize);
            if self.file.write_all_at(&zeros[..bytes], place).is_err() {
                break;
            }
            place += bytes as u64;
        }
        self.written.end = range.end.max(place);
    }
}

fn failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::StorageFull => Failure::NoSpace,
        _ => Failure::Io,
    }
}

impl JournalFile for LocalFile {
    fn write_at(&mut self, place: u64, data: &[u8]) -> Result<(), Failure> {
        self.write_ahead(place..place + data.len() as u64);
        self.file
            .write_all_at(data, place)
            .map_err(|error| failure(&error))
    }

    fn read_at(&mut self, place: u64, into: &mut [u8]) -> Result<(), Failure> {
        self.file
            .read_exact_at(into, place)
            .map_err(|error| failure(&error))
    }

    fn sync(&mut self) -> Result<(), Failure> {
        self.file.sync_data().map_err(|error| failure(&error))
    }
}

/// Syncs the file in its own thread, one sync at a time.
#[derive(Debug)]
pub(crate) struct Syncer {
    begin: SyncSender<()>,
    ended: Receiver<Result<(), Failure>>,
    name: String,
}

impl Syncer {
    /// `waker` becomes readable when a sync completes.
    fn start(file: File, waker: OwnedFd, name: String) -> io::Result<Syncer> {
        let (begin, begins) = sync_channel::<()>(1);
        let (ends, ended) = sync_channel(1);
        thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || {
                for () in begins {
                    let result = file.sync_data().map_err(|error| failure(&error));
                    if ends.send(result).is_err() {
                        return;
                    }
                    // A full counter wakes as well.
                    let _ = rustix::io::write(&waker, &1_u64.to_ne_bytes());
                }
            })?;
        Ok(Syncer { begin, ended, name })
    }

    pub(crate) fn begin(&self) {
        // The thread lives as long as this.
        let _ = self.begin.try_send(());
    }

    /// The result of the sync, once it has completed.
    pub(crate) fn poll(&self) -> Option<Result<(), Failure>> {
        self.ended.try_recv().ok()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// Opens the journal at `path` for a disk, with the records left in it; creates one of `ring_bytes` if there is none.
pub(crate) fn open(
    path: &Path,
    url: &IscsiUrl,
    facts: &Facts,
    (ring_bytes, burst_bytes, operations): (u64, u64, usize),
    marks: bool,
    waker: OwnedFd,
) -> Result<(Journal<LocalFile>, Syncer), JournalError> {
    let failed = |why: String| JournalError {
        path: path.to_owned(),
        why,
    };
    let system = |error: io::Error| failed(error.to_string());
    let config = JournalConfig {
        identity: identity(url, facts),
        ring_bytes: ring_bytes.next_multiple_of(4096),
        burst_bytes,
        operations,
        marks,
    };
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    let journal = match options.open(path) {
        Ok(file) => {
            lock(&file).map_err(&system)?;
            // Too short for a journal; reading it would fail like a disk error.
            if file.metadata().map_err(&system)?.len() < MARGIN_BYTES {
                return Err(failed(refusal(OpenError::NoJournal, url)));
            }
            Journal::open(LocalFile::of(file), config)
                .map_err(|error| failed(refusal(error, url)))?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create(path, &options, config).map_err(&system)?
        }
        Err(error) => return Err(system(error)),
    };
    let own = journal.file().file.try_clone().map_err(&system)?;
    let syncer = Syncer::start(own, waker, path.display().to_string()).map_err(&system)?;
    Ok((journal, syncer))
}

fn lock(file: &File) -> io::Result<()> {
    let locked = flock(file, FlockOperation::NonBlockingLockExclusive);
    locked.map_err(|_| io::Error::new(io::ErrorKind::ResourceBusy, "another process uses it"))
}

/// Creates a journal under a temporary name and renames it, so that a journal under its own name is complete.
fn create(
    path: &Path,
    options: &OpenOptions,
    config: JournalConfig,
) -> io::Result<Journal<LocalFile>> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let file = options.clone().create(true).truncate(true).open(&new)?;
    lock(&file)?;
    let journal = fill(file, config).and_then(|journal| {
        renameat_with(CWD, &new, CWD, path, RenameFlags::NOREPLACE)?;
        Ok(journal)
    });
    if journal.is_err() {
        // It may have used all the space that the file system had.
        let _ = std::fs::remove_file(&new);
    }
    let journal = journal?;
    // Make the name survive a crash.
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(journal)
}

/// Formats an empty file as a journal.
fn fill(file: File, config: JournalConfig) -> io::Result<Journal<LocalFile>> {
    // Allocated space cannot run out later.
    let bytes = config.ring_bytes + MARGIN_BYTES;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        // The file system does not support preallocation.
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes)?,
        Err(rustix::io::Errno::NOSPC) => {
            let why = format!(
                "its file system has no room for {} MiB: free some, or choose a smaller journal size",
                bytes >> 20
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, why));
        }
        allocated => allocated?,
    }
    Journal::create(LocalFile::of(file), config)
        .map_err(|failure| io::Error::other(format!("it cannot be written: {failure:?}")))
}

fn refusal(error: OpenError, url: &IscsiUrl) -> String {
    match error {
        OpenError::NoJournal => {
            "it is no journal, or torn; if it holds nothing of worth, remove it".to_owned()
        }
        OpenError::OtherDisk => {
            format!("it belongs to another disk than {url}, or to one of another size")
        }
        OpenError::File(_) => "it cannot be read, or is cut short".to_owned(),
    }
}

/// Identifies a disk by its serial number, or by its URL if it has none, and by its size.
fn identity(url: &IscsiUrl, facts: &Facts) -> Identity {
    let mut digest = Sha256::new();
    match facts.serial() {
        [] => digest.update(url.to_string()),
        serial => digest.update(serial),
    }
    digest.update(facts.capacity.blocks.to_le_bytes());
    digest.update(facts.capacity.block_bytes.to_le_bytes());
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RING_BYTES: u64 = 16 << 20;

    /// A preallocated file with no block written.
    fn file(folder: &Path) -> LocalFile {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true);
        let file = options.open(folder.join("journal")).expect("a file");
        fallocate(&file, FallocateFlags::empty(), 0, RING_BYTES).expect("room");
        LocalFile::of(file)
    }

    #[test]
    fn what_is_written_ahead_changes_nothing_that_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut before = file(folder.path());
        before.write_at(1 << 20, &[9; 4096]).expect("written");
        let mut after = file(folder.path());
        after.write_at(0, &[7; 4096]).expect("written");
        let mut found = vec![0; 2 << 20];
        after.read_at(0, &mut found).expect("read");
        let mut expected = vec![0; 2 << 20];
        expected[..4096].fill(7);
        expected[1 << 20..(1 << 20) + 4096].fill(9);
        assert!(found == expected);
    }

    #[test]
    fn a_journal_that_cannot_be_made_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("journal");
        std::fs::create_dir(&path).expect("something has its name");
        let mut options = OpenOptions::new();
        let config = JournalConfig {
            identity: [7; 32],
            ring_bytes: RING_BYTES,
            burst_bytes: 1 << 18,
            operations: 1,
            marks: false,
        };
        assert!(create(&path, options.read(true).write(true), config).is_err());
        let left = std::fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, 1);
    }
}
