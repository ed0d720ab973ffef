//! A file, or a block device.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;

use rustix::fs::{
    Advice, FallocateFlags, FlockOperation, SeekFrom, fadvise, fallocate, flock, seek,
};
use rustix::io::Errno;
use wansan_cache::{Action, Answer, Extent, Failure, Outcome, Range};
use wansan_trace::Instant;

use super::End;
use crate::copy::CopyError;

/// A file that is read and written at any offset.
pub(in crate::copy) struct FileEnd {
    file: File,
    size_bytes: u64,
    /// The file was just truncated: unwritten ranges read as zeros.
    is_blank: bool,
    is_device: bool,
    identity: String,
    done: VecDeque<(u64, Outcome)>,
    reason: Option<String>,
}

impl FileEnd {
    /// Opens it for reading.
    pub(in crate::copy) fn source(path: &Path) -> Result<FileEnd, CopyError> {
        let opened = File::open(path).and_then(|file| {
            FileEnd::of(file, |found| {
                // A file that was modified is a different source.
                format!(
                    "{}:{} {}.{:09}",
                    found.dev(),
                    found.ino(),
                    found.mtime(),
                    found.mtime_nsec()
                )
            })
        });
        opened.map_err(|error| unusable(path, &error))
    }

    /// Opens it for writing. Creates the file if missing; truncates an existing one unless it `resumes` a copy.
    pub(in crate::copy) fn sink(path: &Path, resumes: bool) -> Result<FileEnd, CopyError> {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(!resumes)
            .truncate(false)
            .open(path);
        let opened = opened.and_then(|file| {
            // Two copies into one file would corrupt each other. Not all file systems support such locks.
            if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
                return Err(io::Error::other(
                    "it is locked by another copy or another program",
                ));
            }
            let mut end = FileEnd::of(file, |found| format!("{}:{}", found.dev(), found.ino()))?;
            if !end.is_device && !resumes {
                end.file.set_len(0)?;
                end.size_bytes = 0;
                end.is_blank = true;
            }
            Ok(end)
        });
        opened.map_err(|error| unusable(path, &error))
    }

    fn of(file: File, identity: impl Fn(&std::fs::Metadata) -> String) -> io::Result<FileEnd> {
        let found = file.metadata()?;
        let is_device = found.file_type().is_block_device();
        if !is_device && !found.is_file() {
            let what = "it is neither a file nor a block device";
            return Err(io::Error::new(ErrorKind::InvalidInput, what));
        }
        Ok(FileEnd {
            size_bytes: seek(&file, SeekFrom::End(0))?,
            is_blank: false,
            is_device,
            // A device's inode does not identify the disk behind it.
            identity: match is_device {
                true => String::new(),
                false => identity(&found),
            },
            file,
            done: VecDeque::new(),
            reason: None,
        })
    }

    /// Sets its length, if it is a file.
    pub(in crate::copy) fn resize(&mut self, size_bytes: u64) -> io::Result<()> {
        if !self.is_device && self.size_bytes != size_bytes {
            self.file.set_len(size_bytes)?;
            self.size_bytes = size_bytes;
        }
        Ok(())
    }

    fn work(&mut self, action: Action) -> io::Result<Answer> {
        match action {
            Action::Read { range } => return self.read(range).map(Answer::Data),
            Action::Write {
                offset_bytes, data, ..
            } => {
                self.file.write_all_at(&data, offset_bytes)?;
                self.size_bytes = self.size_bytes.max(offset_bytes + data.len() as u64);
            }
            Action::Zero { range, .. } | Action::Trim { range, .. } => self.zero(range)?,
            Action::Flush => {
                self.file.sync_data()?;
                // Verification should read the medium; proceed even if the kernel keeps its cache.
                let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
            }
            Action::Status { range, .. } => return self.status(range).map(Answer::Status),
            Action::Prefetch { .. } => {}
        }
        Ok(Answer::Done)
    }

    /// The data of a range, up to the end of the file.
    fn read(&self, range: Range) -> io::Result<Vec<u8>> {
        let mut data = vec![0; range.bytes() as usize];
        let mut filled = 0;
        while filled < data.len() {
            match self
                .file
                .read_at(&mut data[filled..], range.start + filled as u64)
            {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        data.truncate(filled);
        Ok(data)
    }

    fn zero(&mut self, range: Range) -> io::Result<()> {
        if self.is_blank {
            return self.resize(self.size_bytes.max(range.end));
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if range.end <= self.size_bytes
            && fallocate(&self.file, flags, range.start, range.bytes()).is_ok()
        {
            return Ok(());
        }
        // Not all file systems and devices support holes.
        let zeros = vec![0; (1 << 20).min(range.bytes() as usize)];
        let mut at = range.start;
        while at < range.end {
            let length = zeros.len().min((range.end - at) as usize);
            self.file.write_all_at(&zeros[..length], at)?;
            at += length as u64;
        }
        Ok(())
    }

    /// The data extents and the holes between them. What is beyond the end of the file counts as data, which a read
    /// then finds missing.
    fn status(&self, range: Range) -> io::Result<Vec<Extent>> {
        let end = range.end.min(self.size_bytes);
        let mut extents = Vec::new();
        let mut at = range.start;
        while at < end {
            let data = match seek(&self.file, SeekFrom::Data(at)) {
                Ok(data) => data.min(end),
                Err(rustix::io::Errno::NXIO) => end,
                // No holes, or no support for finding them.
                Err(rustix::io::Errno::INVAL) => at,
                Err(errno) => return Err(errno.into()),
            };
            if data > at {
                extents.push(Extent {
                    length_bytes: data - at,
                    is_hole: true,
                    reads_zero: true,
                });
            }
            if data < end {
                let hole = seek(&self.file, SeekFrom::Hole(data)).unwrap_or(end);
                let hole = hole.clamp(data + 1, end);
                extents.push(Extent::data(hole - data));
                at = hole;
            } else {
                at = end;
            }
        }
        if range.end > at {
            extents.push(Extent::data(range.end - at));
        }
        Ok(extents)
    }
}

fn unusable(path: &Path, error: &io::Error) -> CopyError {
    CopyError::End {
        place: path.display().to_string(),
        why: error.to_string(),
    }
}

impl End for FileEnd {
    fn size_bytes(&self) -> Option<u64> {
        Some(self.size_bytes)
    }

    fn room_bytes(&self) -> Option<u64> {
        self.is_device.then_some(self.size_bytes)
    }

    fn identity(&self) -> String {
        self.identity.clone()
    }

    fn submit(&mut self, tag: u64, action: Action) {
        let outcome = self.work(action).map_err(|error| {
            self.reason = Some(error.to_string());
            match error.kind() {
                ErrorKind::StorageFull => Failure::NoSpace,
                _ => Failure::Io,
            }
        });
        self.done.push_back((tag, outcome));
    }

    fn turn(&mut self, _deadline: Instant) -> Result<(), CopyError> {
        Ok(())
    }

    fn poll_done(&mut self) -> Option<(u64, Outcome)> {
        self.done.pop_front()
    }

    fn take_reason(&mut self) -> Option<String> {
        self.reason.take()
    }

    fn close(self: Box<Self>) -> Option<File> {
        Some(self.file)
    }
}
