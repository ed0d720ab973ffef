//! A file, or a block device.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, seek};
use wansan_cache::{Action, Answer, Extent, Failure, Outcome, Range};
use wansan_trace::Instant;

use super::End;
use crate::copy::CopyError;

/// A file that is read or written where it is asked for.
pub(in crate::copy) struct FileEnd {
    file: File,
    name: String,
    size_bytes: u64,
    /// It is a file that has just been made: what is not written reads as zeros.
    is_blank: bool,
    is_device: bool,
    done: VecDeque<(u64, Outcome)>,
    /// What the system said when something failed.
    failed: Option<io::Error>,
}

impl FileEnd {
    /// To read it.
    pub(in crate::copy) fn source(path: &Path) -> Result<FileEnd, CopyError> {
        let opened = File::open(path).and_then(|file| {
            let is_device = is_device(&file)?;
            let size = seek(&file, SeekFrom::End(0))?;
            Ok((file, is_device, size))
        });
        FileEnd::of(path, opened, false)
    }

    /// To write it. A file that is not there is made; with `resumes` one that is there is taken as it is, else it is
    /// emptied first.
    pub(in crate::copy) fn sink(path: &Path, resumes: bool) -> Result<FileEnd, CopyError> {
        let opened = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .and_then(|file| {
                let is_device = is_device(&file)?;
                if !is_device && !resumes {
                    file.set_len(0)?;
                }
                let size = seek(&file, SeekFrom::End(0))?;
                Ok((file, is_device, size))
            });
        FileEnd::of(path, opened, !resumes)
    }

    fn of(
        path: &Path,
        opened: io::Result<(File, bool, u64)>,
        is_new: bool,
    ) -> Result<FileEnd, CopyError> {
        let name = path.display().to_string();
        let (file, is_device, size_bytes) = opened.map_err(|error| CopyError::End {
            place: name.clone(),
            why: error.to_string(),
        })?;
        Ok(FileEnd {
            file,
            name,
            size_bytes,
            is_blank: is_new && !is_device,
            is_device,
            done: VecDeque::new(),
            failed: None,
        })
    }

    /// Makes it as large as that, if it is a file.
    pub(in crate::copy) fn resize(&mut self, size_bytes: u64) -> Result<(), CopyError> {
        if !self.is_device && self.size_bytes != size_bytes {
            self.file
                .set_len(size_bytes)
                .map_err(|error| self.error(&error))?;
            self.size_bytes = size_bytes;
        }
        Ok(())
    }

    fn error(&self, error: &io::Error) -> CopyError {
        CopyError::End {
            place: self.name.clone(),
            why: error.to_string(),
        }
    }

    fn work(&mut self, action: Action) -> io::Result<Answer> {
        match action {
            Action::Read { range } => {
                let mut data = vec![0; range.bytes() as usize];
                self.file.read_exact_at(&mut data, range.start)?;
                return Ok(Answer::Data(data));
            }
            Action::Write {
                offset_bytes, data, ..
            } => self.file.write_all_at(&data, offset_bytes)?,
            Action::Zero { range, .. } | Action::Trim { range, .. } => self.zero(range)?,
            Action::Flush => self.file.sync_data()?,
            Action::Status { range, .. } => return self.status(range).map(Answer::Status),
            Action::Prefetch { .. } => {}
        }
        Ok(Answer::Done)
    }

    fn zero(&mut self, range: Range) -> io::Result<()> {
        if self.is_blank {
            return Ok(());
        }
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        if fallocate(&self.file, flags, range.start, range.bytes()).is_ok() {
            return Ok(());
        }
        // Neither all file systems nor all devices have holes.
        let zeros = vec![0; (1 << 20).min(range.bytes() as usize)];
        let mut at = range.start;
        while at < range.end {
            let length = zeros.len().min((range.end - at) as usize);
            self.file.write_all_at(&zeros[..length], at)?;
            at += length as u64;
        }
        Ok(())
    }

    /// The parts with data, and the holes between them.
    fn status(&self, range: Range) -> io::Result<Vec<Extent>> {
        let mut extents = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let data = match seek(&self.file, SeekFrom::Data(at)) {
                Ok(data) => data.min(range.end),
                Err(rustix::io::Errno::NXIO) => range.end,
                // What has no holes, or does not tell.
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
            if data >= range.end {
                break;
            }
            let hole = seek(&self.file, SeekFrom::Hole(data))
                .unwrap_or(range.end)
                .min(range.end);
            extents.push(Extent::data(hole.max(data + 1) - data));
            at = hole.max(data + 1);
        }
        Ok(extents)
    }
}

fn is_device(file: &File) -> io::Result<bool> {
    let kind = file.metadata()?.file_type();
    if kind.is_file() || kind.is_block_device() {
        return Ok(kind.is_block_device());
    }
    Err(io::Error::new(
        ErrorKind::InvalidInput,
        "it is neither a file nor a block device",
    ))
}

impl End for FileEnd {
    fn size_bytes(&self) -> Option<u64> {
        Some(self.size_bytes)
    }

    fn block_bytes(&self) -> u64 {
        1
    }

    fn is_blank(&self) -> bool {
        self.is_blank
    }

    fn submit(&mut self, tag: u64, action: Action) {
        let outcome = self.work(action).map_err(|error| {
            let is_full = error.kind() == ErrorKind::StorageFull;
            self.failed.get_or_insert(error);
            if is_full {
                Failure::NoSpace
            } else {
                Failure::Io
            }
        });
        self.done.push_back((tag, outcome));
    }

    fn turn(&mut self, _deadline: Instant) -> Result<(), CopyError> {
        match self.failed.take() {
            Some(error) => Err(self.error(&error)),
            None => Ok(()),
        }
    }

    fn poll_done(&mut self) -> Option<(u64, Outcome)> {
        self.done.pop_front()
    }

    fn close(self: Box<Self>) -> Result<(), CopyError> {
        Ok(())
    }
}
