//! An archive in cpio's "newc" format, as Linux unpacks it into its first file system
//! (Documentation/driver-api/early-userspace/buffer-format.rst).

use std::io::{self, Write};

/// File types, as in `st_mode`.
const REGULAR: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
const LINK: u32 = 0o120_000;

/// Writes an archive, entry by entry. Everything in it belongs to root.
#[derive(Debug)]
pub struct Archive<W> {
    out: W,
    /// Inode numbers only have to differ.
    entries: u32,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, entries: 0 }
    }

    /// A folder; those above it have to come first.
    ///
    /// # Errors
    /// If the archive cannot be written.
    pub fn folder(&mut self, name: &str) -> io::Result<()> {
        self.entry(name, FOLDER | 0o755, b"")
    }

    /// A file with the permissions `mode`.
    ///
    /// # Errors
    /// If the archive cannot be written.
    pub fn file(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.entry(name, REGULAR | (mode & 0o7777), content)
    }

    /// A symbolic link.
    ///
    /// # Errors
    /// If the archive cannot be written.
    pub fn link(&mut self, name: &str, to: &str) -> io::Result<()> {
        self.entry(name, LINK | 0o777, to.as_bytes())
    }

    /// Closes the archive.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.entry("TRAILER!!!", 0, b"")?;
        self.out.flush()
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let content_bytes = u32::try_from(content.len()).map_err(io::Error::other)?;
        let name_bytes = u32::try_from(name.len() + 1).map_err(io::Error::other)?;
        let links = 1;
        let (user, group, modified_s) = (0, 0, 0);
        let fields = [
            self.entries,
            mode,
            user,
            group,
            links,
            modified_s,
            content_bytes,
            // The device the file is on, and the one that it is.
            0,
            0,
            0,
            0,
            name_bytes,
            // No checksum in this format.
            0,
        ];
        write!(self.out, "070701")?;
        for field in fields {
            write!(self.out, "{field:08x}")?;
        }
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(b"\0")?;
        // The header has 110 bytes; name and content end at a multiple of 4.
        self.pad(110 + name.len() + 1)?;
        self.out.write_all(content)?;
        self.pad(content.len())
    }

    fn pad(&mut self, length: usize) -> io::Result<()> {
        self.out.write_all(&[0; 3][..length.wrapping_neg() % 4])
    }
}
