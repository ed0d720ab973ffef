//! A store in a file or on a block device.

use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{Advice, FallocateFlags, FlockOperation, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::aligned::Aligned;
use super::durability::{sync, write_synced};
use super::syncing::{Linux, SyncCalls, Syncs, TwiceOpened};
use super::write_gate::{WriteGate, Writing};
use super::{Extent, OpenError, Operated, ReservationFile, Store, StoreError, check_range};

/// `f_type` of a tmpfs (`TMPFS_MAGIC`, linux/magic.h).
const TMPFS_MAGIC: i128 = 0x0102_1994;

/// A regular file or a block device, through the kernel's page cache or by [direct I/O](FileStore::direct).
///
/// It is locked (`flock`, exclusive; shared when read-only) while it is open, so that two targets do not write to each
/// other's disk. Reads of cached pages are done at once (`preadv2` with `RWF_NOWAIT`); direct I/O goes through io_uring
/// where that is available ([`QueuePair`](super::QueuePair)). Force unit access is `RWF_DSYNC`, flush is fdatasync. A
/// file on a tmpfs is memory.
///
/// When the kernel fails to write data to the medium, it reports the error once and then discards it, with the pages
/// (`fsync(2)`). So acknowledged data may be lost, and later successes prove nothing: from then on every write and
/// every flush fails, until the store is reopened. Reads continue, so that the remaining data can be saved; blocks
/// written since the last flush return either the new data or the old.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    /// The same file, opened a second time: an open file description that still reports write-back
    /// errors already consumed on `file`.
    witness: File,
    size_bytes: u64,
    on_tmpfs: bool,
    is_new: bool,
    /// If it bypasses the page cache, the size of the blocks in which it is accessed.
    direct: Option<u64>,
    /// Whether the file system supports `RWF_NOWAIT`; cleared when it does not.
    nowait: AtomicBool,
    calls: Box<dyn SyncCalls>,
    syncs: Syncs,
    /// Reads do not pass it; for writes its cost is negligible compared with the system call.
    gate: Arc<WriteGate>,
    /// For a writable regular file.
    reservations: Option<ReservationFile>,
}

impl FileStore {
    /// Opens the existing file or block device `path` for reading and writing.
    ///
    /// Blocks have `block_bytes`, and the file must hold a whole number of them, at least one.
    pub fn open(path: &Path, block_bytes: u32) -> Result<FileStore, OpenError> {
        FileStore::open_for(path, block_bytes, true)
    }

    /// Opens it for reading only.
    pub fn open_read_only(path: &Path, block_bytes: u32) -> Result<FileStore, OpenError> {
        FileStore::open_for(path, block_bytes, false)
    }

    fn open_for(path: &Path, block_bytes: u32, write: bool) -> Result<FileStore, OpenError> {
        let file = OpenOptions::new()
            .read(true)
            .write(write)
            .open(path)
            .map_err(|source| match source.kind() {
                io::ErrorKind::NotFound => OpenError::Missing {
                    path: path.to_owned(),
                },
                io::ErrorKind::IsADirectory => OpenError::NotAFile {
                    path: path.to_owned(),
                },
                _ => machine(path, source),
            })?;
        FileStore::with_file(file, path, block_bytes, write)
    }

    /// Opens `path`, or creates it as a sparse file of `size_bytes` when it does not exist. An existing one must have
    /// that size, and is not changed. A new one survives a crash: its folder is synchronized.
    pub fn open_or_create(
        path: &Path,
        size_bytes: u64,
        block_bytes: u32,
    ) -> Result<FileStore, OpenError> {
        if size_bytes == 0 || !size_bytes.is_multiple_of(u64::from(block_bytes)) {
            return Err(blocks(path, size_bytes, block_bytes));
        }
        match OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
        {
            Ok(file) => {
                let sized = file.set_len(size_bytes);
                let made = sized
                    .map_err(|source| machine(path, source))
                    .and_then(|()| FileStore::with_file(file, path, block_bytes, true))
                    .and_then(|store| {
                        sync_new(&store.file, path).map_err(|source| machine(path, source))?;
                        Ok(store)
                    });
                if made.is_err() {
                    // Leave no partial file; an error of removing it would only hide the one that matters.
                    let _ = std::fs::remove_file(path);
                }
                Ok(FileStore {
                    is_new: true,
                    ..made?
                })
            }
            Err(source) if source.kind() == io::ErrorKind::AlreadyExists => {
                let store = FileStore::open(path, block_bytes)?;
                if store.size_bytes == size_bytes {
                    Ok(store)
                } else {
                    Err(OpenError::OtherSize {
                        path: path.to_owned(),
                        size_bytes: store.size_bytes,
                        asked_bytes: size_bytes,
                    })
                }
            }
            Err(source) => Err(machine(path, source)),
        }
    }

    /// Makes it bypass the page cache (open(2), `O_DIRECT`). Reads one block to find out whether the file system and the
    /// device can do that with blocks of `block_bytes`; a [new](FileStore::is_new) file is written there instead.
    ///
    /// # Errors
    /// They cannot, or the access fails.
    pub fn direct(mut self, path: &Path, block_bytes: u32) -> Result<FileStore, OpenError> {
        let failed = |source: io::Error| match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::INVAL | Errno::OPNOTSUPP) => OpenError::Direct {
                path: path.to_owned(),
                block_bytes,
                source,
            },
            _ => machine(path, source),
        };
        let set = |flags: OFlags| rustix::fs::fcntl_setfl(&self.file, flags | OFlags::DIRECT);
        let flags = rustix::fs::fcntl_getfl(&self.file).and_then(set);
        flags.map_err(|errno| failed(errno.into()))?;
        self.probe_direct(u64::from(block_bytes)).map_err(failed)?;
        self.direct = Some(u64::from(block_bytes));
        Ok(self)
    }

    /// Accesses a block that begins at no multiple of larger blocks, if there is one. The kernel checks the alignment of
    /// reads only where there is data. An old file without data is taken on trust.
    fn probe_direct(&self, block_bytes: u64) -> io::Result<()> {
        let data = match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(0)) {
            Ok(data) => Some(data),
            Err(Errno::NXIO) => None,
            // A device without holes.
            Err(Errno::INVAL) => Some(0),
            Err(errno) => return Err(errno.into()),
        };
        let last = self.size_bytes - block_bytes;
        match data {
            Some(data) => {
                let mut block = vec![0; block_bytes as usize];
                self.read_direct(last.min(data + block_bytes), &mut block, block_bytes)
            }
            None if self.is_new => with_aligned(block_bytes as usize, |block| {
                block.fill(0);
                self.file.write_all_at(block, last.min(block_bytes))
            }),
            None => Ok(()),
        }
    }

    /// Reads the whole blocks around `dst`, which a READ with a short Expected Data Transfer Length cuts.
    fn read_direct(&self, offset: u64, dst: &mut [u8], block_bytes: u64) -> io::Result<()> {
        for (piece, offset) in dst.chunks_mut(PIECE_BYTES).zip(pieces(offset)) {
            let before = (offset % block_bytes) as usize;
            let whole = (before + piece.len()).next_multiple_of(block_bytes as usize);
            with_aligned(whole, |bytes| {
                self.file.read_exact_at(bytes, offset - before as u64)?;
                piece.copy_from_slice(&bytes[before..][..piece.len()]);
                Ok::<_, io::Error>(())
            })?;
        }
        Ok(())
    }

    /// Whether opening it created its file.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    fn with_file(
        mut file: File,
        path: &Path,
        block_bytes: u32,
        write: bool,
    ) -> Result<FileStore, OpenError> {
        let machine = |source| machine(path, source);
        let kind = file.metadata().map_err(machine)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(OpenError::NotAFile {
                path: path.to_owned(),
            });
        }
        let lock = match write {
            true => FlockOperation::NonBlockingLockExclusive,
            false => FlockOperation::NonBlockingLockShared,
        };
        match rustix::fs::flock(&file, lock) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(OpenError::InUse {
                    path: path.to_owned(),
                });
            }
            Err(errno) => return Err(machine(errno.into())),
        }
        // The end of the file: a block device's metadata reports 0.
        let size_bytes = file.seek(SeekFrom::End(0)).map_err(machine)?;
        if size_bytes == 0 || !size_bytes.is_multiple_of(u64::from(block_bytes)) {
            return Err(blocks(path, size_bytes, block_bytes));
        }
        let on_tmpfs = kind.is_file()
            && rustix::fs::fstatfs(&file)
                .is_ok_and(|filesystem| i128::from(filesystem.f_type) == TMPFS_MAGIC);
        // By its descriptor: the path may have been replaced.
        let witness = OpenOptions::new()
            .read(true)
            .write(write)
            .open(format!("/proc/self/fd/{}", file.as_raw_fd()))
            .map_err(machine)?;
        Ok(FileStore {
            file,
            witness,
            size_bytes,
            on_tmpfs,
            is_new: false,
            direct: None,
            nowait: AtomicBool::new(true),
            calls: Box::new(Linux),
            syncs: Syncs::default(),
            gate: Arc::default(),
            reservations: (write && kind.is_file()).then(|| ReservationFile::beside(path)),
        })
    }

    /// A store of `size_bytes` on `path`, any kind of file, that uses `calls` to write to the medium.
    #[cfg(test)]
    pub(super) fn for_test(path: &Path, size_bytes: u64, calls: Box<dyn SyncCalls>) -> FileStore {
        let open = || OpenOptions::new().read(true).write(true).open(path);
        FileStore {
            file: open().expect("a file"),
            witness: open().expect("a file"),
            size_bytes,
            on_tmpfs: false,
            is_new: false,
            direct: None,
            nowait: AtomicBool::new(true),
            calls,
            syncs: Syncs::default(),
            gate: Arc::default(),
            reservations: None,
        }
    }

    /// Rejects writes after data loss and excludes [`Store::update`].
    fn begin_write(&self) -> Result<Writing, StoreError> {
        self.syncs.check()?;
        Ok(self.gate.begin())
    }

    /// Writes all of `src`, to the medium if `fua`.
    fn write_all(&self, offset: u64, src: &[u8], fua: bool) -> Result<(), StoreError> {
        if self.direct.is_none() {
            return self.write_prepared(offset, src, fua);
        }
        for (piece, offset) in src.chunks(PIECE_BYTES).zip(pieces(offset)) {
            with_aligned(piece.len(), |bytes| {
                bytes.copy_from_slice(piece);
                self.write_prepared(offset, bytes, fua)
            })?;
        }
        Ok(())
    }

    fn write_prepared(&self, offset: u64, src: &[u8], fua: bool) -> Result<(), StoreError> {
        if fua && !self.on_tmpfs {
            return self.syncs.run(|| write_synced(&self.opened(), offset, src));
        }
        self.file
            .write_all_at(src, offset)
            .map_err(|source| StoreError::of_io(Operated::Write, offset, src.len(), source))
    }

    /// The file with its two open file descriptions.
    fn opened(&self) -> TwiceOpened<'_> {
        TwiceOpened {
            file: &self.file,
            witness: &self.witness,
            calls: &*self.calls,
        }
    }
}

/// Bytes that are copied at a time for direct I/O.
const PIECE_BYTES: usize = 1 << 20;

/// The offsets of pieces from `offset` on.
fn pieces(offset: u64) -> impl Iterator<Item = u64> {
    (offset..).step_by(PIECE_BYTES)
}

/// Calls `use_bytes` with `length` aligned bytes of this thread.
fn with_aligned<T>(length: usize, use_bytes: impl FnOnce(&mut [u8]) -> T) -> T {
    thread_local! {
        static ALIGNED: RefCell<Aligned> = RefCell::default();
    }
    ALIGNED.with_borrow_mut(|aligned| {
        let used = use_bytes(aligned.bytes(length));
        aligned.shrink();
        used
    })
}

/// Writes a new file, and its directory entry, to the medium.
fn sync_new(file: &File, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    File::open(folder)?.sync_all()
}

fn machine(path: &Path, source: io::Error) -> OpenError {
    OpenError::Machine {
        path: path.to_owned(),
        source,
    }
}

fn blocks(path: &Path, size_bytes: u64, block_bytes: u32) -> OpenError {
    OpenError::Blocks {
        what: path.display().to_string(),
        size_bytes,
        block_bytes,
    }
}

impl Store for FileStore {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, dst: &mut [u8]) -> Result<(), StoreError> {
        check_range(offset, dst.len() as u64, self.size_bytes)?;
        let read = match self.direct {
            Some(block_bytes) => self.read_direct(offset, dst, block_bytes),
            None => self.file.read_exact_at(dst, offset),
        };
        read.map_err(|source| StoreError::of_io(Operated::Read, offset, dst.len(), source))
    }

    fn write_at(&self, offset: u64, src: &[u8], fua: bool) -> Result<(), StoreError> {
        check_range(offset, src.len() as u64, self.size_bytes)?;
        let _shared = self.begin_write()?;
        self.write_all(offset, src, fua)
    }

    fn flush(&self) -> Result<(), StoreError> {
        if self.on_tmpfs {
            return Ok(());
        }
        self.syncs.run(|| sync(&self.opened()))
    }

    fn update(
        &self,
        offset: u64,
        len: usize,
        fua: bool,
        change: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> Result<(), StoreError> {
        check_range(offset, len as u64, self.size_bytes)?;
        self.syncs.check()?;
        self.gate.alone(|| {
            let mut bytes = vec![0; len];
            self.read_at(offset, &mut bytes)?;
            if change(&mut bytes) {
                self.write_all(offset, &bytes, fua)?;
            }
            Ok(())
        })
    }

    /// A hole in the file, or zeros where holes are not supported.
    fn deallocate(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        check_range(offset, len, self.size_bytes)?;
        let _shared = self.begin_write()?;
        if len == 0 {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        loop {
            match rustix::fs::fallocate(&self.file, flags, offset, len) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::NODEV | Errno::INVAL) => break,
                Err(errno) => {
                    return Err(StoreError::of_io(
                        Operated::Write,
                        offset,
                        len as usize,
                        errno.into(),
                    ));
                }
            }
        }
        let zeros = vec![0; len.min(1 << 20) as usize];
        let mut at = offset;
        while at < offset + len {
            let bytes = (offset + len - at).min(zeros.len() as u64) as usize;
            self.write_all(at, &zeros[..bytes], false)?;
            at += bytes as u64;
        }
        Ok(())
    }

    fn extent_at(&self, offset: u64) -> Result<Extent, StoreError> {
        check_range(offset, 1, self.size_bytes)?;
        let look_failed = |errno: Errno| StoreError::of_io(Operated::Read, offset, 1, errno.into());
        // Nothing depends on the file's offset, which this moves.
        let data = match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(offset)) {
            Ok(data) => data,
            // Only a hole is left.
            Err(Errno::NXIO) => self.size_bytes,
            // A device without holes.
            Err(Errno::INVAL) => offset,
            Err(errno) => return Err(look_failed(errno)),
        };
        if data > offset {
            return Ok(Extent {
                allocated: false,
                end: data.min(self.size_bytes),
            });
        }
        let end = match rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Hole(offset)) {
            Ok(hole) if hole > offset => hole.min(self.size_bytes),
            Ok(_) | Err(Errno::NXIO | Errno::INVAL) => self.size_bytes,
            Err(errno) => return Err(look_failed(errno)),
        };
        Ok(Extent {
            allocated: true,
            end,
        })
    }

    fn pre_fetch(&self, offset: u64, len: u64) {
        if self.direct.is_some() {
            return;
        }
        // It is a hint: a failure is no error.
        let len = core::num::NonZeroU64::new(len);
        let _ = rustix::fs::fadvise(&self.file, offset, len, Advice::WillNeed);
    }

    fn reservations(&self) -> Option<&ReservationFile> {
        self.reservations.as_ref()
    }

    fn direct_file(&self, offset: u64, length: usize) -> Option<&File> {
        let is_whole = |bytes: u64| self.direct.is_some_and(|block| bytes.is_multiple_of(block));
        let is_inside = check_range(offset, length as u64, self.size_bytes).is_ok();
        (is_inside && is_whole(offset) && is_whole(length as u64)).then_some(&self.file)
    }

    fn begin_direct_write(&self) -> Option<Writing> {
        // A worker says why not.
        self.syncs.check().ok()?;
        self.gate.try_begin()
    }

    fn is_memory(&self) -> bool {
        self.on_tmpfs
    }

    fn try_read_now(&self, offset: u64, dst: &mut [u8]) -> Option<Result<(), StoreError>> {
        if self.on_tmpfs {
            return Some(self.read_at(offset, dst));
        }
        if let Err(error) = check_range(offset, dst.len() as u64, self.size_bytes) {
            return Some(Err(error));
        }
        if self.direct.is_some() || !self.nowait.load(Ordering::Relaxed) {
            return None;
        }
        let mut done = 0;
        while done < dst.len() {
            let rest = &mut [IoSliceMut::new(&mut dst[done..])];
            let at = offset + done as u64;
            match rustix::io::preadv2(&self.file, rest, at, ReadWriteFlags::NOWAIT) {
                // The end of cached pages; a worker determines whether the file ends there.
                Ok(0) | Err(Errno::AGAIN) => return None,
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.nowait.store(false, Ordering::Relaxed);
                    return None;
                }
                Err(errno) => {
                    return Some(Err(StoreError::of_io(
                        Operated::Read,
                        at,
                        dst.len() - done,
                        errno.into(),
                    )));
                }
            }
        }
        Some(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store on a kernel device.
    fn on(device: &str) -> FileStore {
        FileStore::for_test(Path::new(device), 1 << 20, Box::new(Linux))
    }

    #[test]
    fn after_a_failed_flush_nothing_is_written_any_more() {
        // /dev/zero accepts every write, and cannot be synchronized (EINVAL).
        let store = on("/dev/zero");
        store.write_at(0, &[1; 512], false).expect("taken");
        assert!(matches!(
            store.flush(),
            Err(StoreError::Machine {
                operated: Operated::Flush,
                ..
            })
        ));
        let mut asked = false;
        let later = [
            store.flush(),
            store.flush(),
            store.write_at(0, &[1; 512], false),
            store.write_at(0, &[1; 512], true),
            store.deallocate(0, 4096),
            store.update(0, 512, false, &mut |_| {
                asked = true;
                true
            }),
        ];
        for result in later {
            assert!(matches!(result, Err(StoreError::Lost)), "{result:?}");
        }
        assert!(!asked);
        store.read_at(0, &mut [0; 512]).expect("reading goes on");
    }

    #[test]
    fn a_full_file_system_says_so() {
        // /dev/full rejects every write with ENOSPC, as a full file system does.
        let store = on("/dev/full");
        let error = store.write_at(4096, &[0; 512], false);
        assert!(matches!(
            error,
            Err(StoreError::NoSpace {
                offset: 4096,
                bytes: 512
            })
        ));
        let sense = error.map_err(|error| error.sense().fixed());
        assert!(matches!(
            sense,
            Err([_, _, 0x07, _, _, _, _, _, _, _, _, _, 0x27, 0x07, ..])
        ));
    }
}
