//! A store in a file or on a block device.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSliceMut, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::FlockOperation;
use rustix::io::{Errno, ReadWriteFlags};

use super::{OpenError, Operated, Store, StoreError, check_range};

/// `f_type` of a tmpfs (`TMPFS_MAGIC`, linux/magic.h).
const TMPFS_MAGIC: i128 = 0x0102_1994;

/// A regular file or a block device, through the kernel's page cache.
///
/// It is locked (`flock`, exclusive) while it is open, so that two targets do not write into each
/// other's disk. Reads whose pages the kernel has are done at once (`preadv2` with `RWF_NOWAIT`). Force unit
/// access and flush are fdatasync. A file on a tmpfs is memory.
#[derive(Debug)]
pub struct FileStore {
    file: File,
    size_bytes: u64,
    on_tmpfs: bool,
    is_new: bool,
    /// Whether the file system knows `RWF_NOWAIT`; cleared when it says no.
    nowait: AtomicBool,
}

impl FileStore {
    /// Opens the existing file or block device `path` for reading and writing.
    ///
    /// Blocks have `block_bytes`, and the file must hold a whole number of them, at least one.
    pub fn open(path: &Path, block_bytes: u32) -> Result<FileStore, OpenError> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
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
        FileStore::with_file(file, path, block_bytes)
    }

    /// Opens `path`, or creates it as a sparse file of `size_bytes` when it does not exist. One that
    /// exists must have that size, and is not changed.
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
                    .and_then(|()| FileStore::with_file(file, path, block_bytes));
                if made.is_err() {
                    // Nothing half-made is left; that the file cannot be removed either would
                    // only hide the error that matters.
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

    /// Whether opening it has made its file.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    fn with_file(mut file: File, path: &Path, block_bytes: u32) -> Result<FileStore, OpenError> {
        let machine = |source| machine(path, source);
        let kind = file.metadata().map_err(machine)?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(OpenError::NotAFile {
                path: path.to_owned(),
            });
        }
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(OpenError::InUse {
                    path: path.to_owned(),
                });
            }
            Err(errno) => return Err(machine(errno.into())),
        }
        // The end of the file: a block device's metadata says 0.
        let size_bytes = file.seek(SeekFrom::End(0)).map_err(machine)?;
        if size_bytes == 0 || !size_bytes.is_multiple_of(u64::from(block_bytes)) {
            return Err(blocks(path, size_bytes, block_bytes));
        }
        let on_tmpfs = kind.is_file()
            && rustix::fs::fstatfs(&file)
                .is_ok_and(|filesystem| i128::from(filesystem.f_type) == TMPFS_MAGIC);
        Ok(FileStore {
            file,
            size_bytes,
            on_tmpfs,
            is_new: false,
            nowait: AtomicBool::new(true),
        })
    }
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

fn failed(operated: Operated, offset: u64, bytes: usize, source: io::Error) -> StoreError {
    match source.kind() {
        io::ErrorKind::UnexpectedEof => StoreError::Short {
            end: offset + bytes as u64,
        },
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            StoreError::NoSpace { offset, bytes }
        }
        _ => StoreError::Machine {
            operated,
            offset,
            bytes,
            source,
        },
    }
}

impl Store for FileStore {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn read_at(&self, offset: u64, dst: &mut [u8]) -> Result<(), StoreError> {
        check_range(offset, dst.len(), self.size_bytes)?;
        self.file
            .read_exact_at(dst, offset)
            .map_err(|source| failed(Operated::Read, offset, dst.len(), source))
    }

    fn write_at(&self, offset: u64, src: &[u8], fua: bool) -> Result<(), StoreError> {
        check_range(offset, src.len(), self.size_bytes)?;
        self.file
            .write_all_at(src, offset)
            .and_then(|()| if fua { self.file.sync_data() } else { Ok(()) })
            .map_err(|source| failed(Operated::Write, offset, src.len(), source))
    }

    fn flush(&self) -> Result<(), StoreError> {
        self.file
            .sync_data()
            .map_err(|source| failed(Operated::Flush, 0, 0, source))
    }

    fn is_memory(&self) -> bool {
        self.on_tmpfs
    }

    fn try_read_now(&self, offset: u64, dst: &mut [u8]) -> Option<Result<(), StoreError>> {
        if self.on_tmpfs {
            return Some(self.read_at(offset, dst));
        }
        if let Err(error) = check_range(offset, dst.len(), self.size_bytes) {
            return Some(Err(error));
        }
        if !self.nowait.load(Ordering::Relaxed) {
            return None;
        }
        let mut done = 0;
        while done < dst.len() {
            let rest = &mut [IoSliceMut::new(&mut dst[done..])];
            let at = offset + done as u64;
            match rustix::io::preadv2(&self.file, rest, at, ReadWriteFlags::NOWAIT) {
                // Where the cached pages end; a worker finds out whether the file ends there.
                Ok(0) | Err(Errno::AGAIN) => return None,
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.nowait.store(false, Ordering::Relaxed);
                    return None;
                }
                Err(errno) => {
                    return Some(Err(failed(
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

    #[test]
    fn a_full_file_system_says_so() {
        // /dev/full refuses every write with ENOSPC, as a full file system does.
        let file = OpenOptions::new().read(true).write(true).open("/dev/full");
        let store = FileStore {
            file: file.expect("every Linux has it"),
            size_bytes: 1 << 20,
            on_tmpfs: false,
            is_new: false,
            nowait: AtomicBool::new(true),
        };
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
