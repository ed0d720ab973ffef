//! The CRC32C of a record file's data.
//!
//! The `parquet` crate's decoder panics on some damaged pages. The writer therefore stores a checksum of everything
//! before the footer in the footer, and the reader verifies it before decoding. Damage that passes (in the footer, or
//! by a crafted file) is caught by [`guarded`].

use std::fs::File;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::FileError;

/// A file being written, with a running checksum.
pub(super) struct Summed {
    file: File,
    bytes: u64,
    crc32c: u32,
}

impl Summed {
    pub(super) fn new(file: File) -> Self {
        Summed {
            file,
            bytes: 0,
            crc32c: 0,
        }
    }

    /// Length and checksum so far, in the footer's format.
    pub(super) fn so_far(&self) -> String {
        format!("{} {:08x}", self.bytes, self.crc32c)
    }
}

impl Write for Summed {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let written = self.file.write(data)?;
        self.bytes += written as u64;
        self.crc32c = crc32c::crc32c_append(self.crc32c, &data[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Verifies the data of the file at `path` against the checksum in its footer.
///
/// # Errors
/// [`FileError::Damaged`] if they differ, [`FileError::System`] if it cannot be read.
pub(super) fn check(path: &Path, expected: &str) -> Result<(), FileError> {
    let parsed = expected.split_once(' ').and_then(|(bytes, crc)| {
        Some((
            bytes.parse::<u64>().ok()?,
            u32::from_str_radix(crc, 16).ok()?,
        ))
    });
    let Some((mut left, expected)) = parsed else {
        return Err(FileError::damaged(path, "its checksum is unreadable"));
    };
    let mut file = File::open(path).map_err(|error| FileError::read(path, &error))?;
    let mut chunk = vec![0; 256 * 1024];
    let mut crc32c = 0;
    while left > 0 {
        let most = usize::try_from(left).map_or(chunk.len(), |left| left.min(chunk.len()));
        let got = file
            .read(&mut chunk[..most])
            .map_err(|error| FileError::read(path, &error))?;
        if got == 0 {
            return Err(FileError::damaged(path, "it was cut short"));
        }
        crc32c = crc32c::crc32c_append(crc32c, &chunk[..got]);
        left -= got as u64;
    }
    if crc32c == expected {
        Ok(())
    } else {
        Err(FileError::damaged(
            path,
            "its data do not match its checksum",
        ))
    }
}

/// Calls the decoder and turns a panic into an error.
pub(super) fn guarded<R>(
    path: &Path,
    decode: impl FnOnce() -> Result<R, FileError>,
) -> Result<R, FileError> {
    // After a panic, the decoder's state is only dropped, never used again.
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| {
        Err(FileError::damaged(
            path,
            "its contents contradict each other",
        ))
    })
}
