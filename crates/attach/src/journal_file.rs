//! The file of a journal, on a disk of this host.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use rustix::fs::{
    CWD, FallocateFlags, FlockOperation, RenameFlags, fallocate, flock, renameat_with,
};
use sha2::{Digest, Sha256};
use wansan_cache::{Failure, Identity, Journal, JournalConfig, JournalFile, OpenError};
use wansan_san::url::IscsiUrl;

use crate::disk::Facts;

/// Where the ring begins in the file at the latest.
const MARGIN_BYTES: u64 = 16 << 10;

/// A journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("journal {}: {why}", path.display())]
pub struct JournalError {
    /// Its file.
    pub path: PathBuf,
    /// Why.
    pub why: String,
}

/// Its file.
#[derive(Debug)]
pub(crate) struct LocalFile(File);

fn failure(error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::StorageFull => Failure::NoSpace,
        _ => Failure::Io,
    }
}

impl JournalFile for LocalFile {
    fn write_at(&mut self, place: u64, data: &[u8]) -> Result<(), Failure> {
        self.0
            .write_all_at(data, place)
            .map_err(|error| failure(&error))
    }

    fn read_at(&mut self, place: u64, into: &mut [u8]) -> Result<(), Failure> {
        self.0
            .read_exact_at(into, place)
            .map_err(|error| failure(&error))
    }

    fn sync(&mut self) -> Result<(), Failure> {
        self.0.sync_data().map_err(|error| failure(&error))
    }
}

/// Syncs the file in a thread of its own, one sync at a time.
#[derive(Debug)]
pub(crate) struct Syncer {
    begin: SyncSender<()>,
    ended: Receiver<Result<(), Failure>>,
    name: String,
}

impl Syncer {
    /// `waker` becomes readable when a sync has ended.
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
                    // A counter that is full wakes as well.
                    let _ = rustix::io::write(&waker, &1_u64.to_ne_bytes());
                }
            })?;
        Ok(Syncer { begin, ended, name })
    }

    pub(crate) fn begin(&self) {
        // The thread is there as long as this is.
        let _ = self.begin.try_send(());
    }

    /// How the sync ended, once it has.
    pub(crate) fn poll(&self) -> Option<Result<(), Failure>> {
        self.ended.try_recv().ok()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// The journal at `path` for a disk, with what is left in it; a new one of `ring_bytes` if the file is new or empty.
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
            Journal::open(LocalFile(file), config).map_err(|error| failed(refusal(error, url)))?
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create(path, &options, config).map_err(&system)?
        }
        Err(error) => return Err(system(error)),
    };
    let own = journal.file().0.try_clone().map_err(&system)?;
    let syncer = Syncer::start(own, waker, path.display().to_string()).map_err(&system)?;
    Ok((journal, syncer))
}

fn lock(file: &File) -> io::Result<()> {
    let locked = flock(file, FlockOperation::NonBlockingLockExclusive);
    locked.map_err(|_| io::Error::new(io::ErrorKind::ResourceBusy, "another process uses it"))
}

/// Makes a journal: under another name, so that one under its own is whole.
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
    // Room that is there from the beginning cannot run out later.
    let bytes = config.ring_bytes + MARGIN_BYTES;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        // The file system gives none in advance.
        Err(rustix::io::Errno::OPNOTSUPP) => file.set_len(bytes)?,
        allocated => allocated?,
    }
    let journal = Journal::create(LocalFile(file), config);
    let journal = journal
        .map_err(|failure| io::Error::other(format!("it cannot be written: {failure:?}")))?;
    renameat_with(CWD, &new, CWD, path, RenameFlags::NOREPLACE)?;
    // The name is to be there after a crash as well.
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()?;
    Ok(journal)
}

fn refusal(error: OpenError, url: &IscsiUrl) -> String {
    match error {
        OpenError::NoJournal => {
            "it is no journal, or torn; if it holds nothing of worth, remove it".to_owned()
        }
        OpenError::OtherDisk => {
            format!("it belongs to another disk than {url}, or to one of another size")
        }
        OpenError::File(failure) => format!("it cannot be read: {failure:?}"),
    }
}

/// What tells a disk from all others: its serial number, or its URL where it has none, and its size.
fn identity(url: &IscsiUrl, facts: &Facts) -> Identity {
    let mut digest = Sha256::new();
    match facts.serial.is_empty() {
        true => digest.update(url.to_string()),
        false => digest.update(&facts.serial),
    }
    digest.update(facts.capacity.blocks.to_le_bytes());
    digest.update(facts.capacity.block_bytes.to_le_bytes());
    digest.finalize().into()
}
