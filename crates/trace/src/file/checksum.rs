//! The CRC32C that a record file keeps of its own data.
//!
//! The decoder of the `parquet` crate trusts page contents enough to panic on some damaged ones.
//! The writer therefore puts the checksum of everything before the footer into the footer, and
//! the reader checks it before it decodes anything. What still gets through (a damaged footer, a
//! file made to deceive) is caught by [`guarded`].

use std::fs::File;
use std::io::{self, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use super::FileError;

/// A file under writing, with the checksum of what was written.
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

    /// Length and checksum so far, as the footer holds them.
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

/// Checks the data of the file at `path` against what its footer says.
///
/// # Errors
/// [`FileError::Damaged`] when they differ, [`FileError::System`] when it cannot be read.
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

/// Runs a call into the decoder and turns a panic of it into an error.
pub(super) fn guarded<R>(
    path: &Path,
    decode: impl FnOnce() -> Result<R, FileError>,
) -> Result<R, FileError> {
    // What the decoder leaves behind is only dropped afterwards, never used again.
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| {
        Err(FileError::damaged(
            path,
            "its contents contradict each other",
        ))
    })
}
