//! The file next to a store that keeps its unit's persistent reservations.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// `PATH.reservations` next to the file at `PATH`. It exists only while there is something to keep, and is replaced as
/// a whole, so that a crash leaves the old one or the new one.
#[derive(Debug)]
pub struct ReservationFile {
    path: PathBuf,
}

/// Maximum size: more than any unit's reservations need.
const MAX_BYTES: u64 = 1 << 20;

impl ReservationFile {
    /// The file of the store at `path`.
    #[must_use]
    pub fn beside(path: &Path) -> ReservationFile {
        ReservationFile {
            path: with_suffix(path, ".reservations"),
        }
    }

    /// Its path, if it exists.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The saved text; empty when there is none.
    ///
    /// # Errors
    /// When the file exists and cannot be read as text of less than 1 MiB.
    pub fn read(&self) -> io::Result<String> {
        match fs::metadata(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(error),
            Ok(metadata) if metadata.len() > MAX_BYTES => Err(io::ErrorKind::FileTooLarge.into()),
            Ok(_) => fs::read_to_string(&self.path),
        }
    }

    /// Saves `text`, or removes the file when it is empty. It is on the medium when the call returns. May block. The
    /// unit makes one change at a time.
    ///
    /// # Errors
    /// When it cannot be written to the medium. The previous text is then restored, so that it is read when the unit is
    /// served again, unless that fails, too. After a crash of the machine it may be either.
    pub fn keep(&self, text: &str) -> io::Result<()> {
        self.keep_with(text, File::sync_all)
    }

    /// [`ReservationFile::keep`] with a function that writes the directory entry to the medium.
    fn keep_with(
        &self,
        text: &str,
        sync_folder: impl FnOnce(&File) -> io::Result<()>,
    ) -> io::Result<()> {
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        // Before anything changes.
        let folder = File::open(folder)?;
        let before = self.read()?;
        self.put(text)?;
        let synced = sync_folder(&folder);
        if synced.is_err() {
            // The first failure is the error, whatever the result of this.
            let _ = self.put(&before);
        }
        synced
    }

    /// Replaces the file with `text`, or removes it when empty. On failure it is unchanged.
    fn put(&self, text: &str) -> io::Result<()> {
        if text.is_empty() {
            return match fs::remove_file(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let new = with_suffix(&self.path, ".new");
        let mut file = File::create(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_last_is_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = ReservationFile::beside(&folder.path().join("disk.img"));
        assert_eq!(file.read().expect("nothing is there"), "");
        file.keep("one").expect("written");
        file.keep("two").expect("replaced");
        assert_eq!(file.read().expect("read"), "two");
        let again = ReservationFile::beside(&folder.path().join("disk.img"));
        assert_eq!(again.read().expect("read"), "two");
        file.keep("").expect("removed");
        assert!(!file.path().exists());
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }

    #[test]
    fn what_was_kept_before_is_put_back_when_the_folder_fails() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = ReservationFile::beside(&folder.path().join("disk.img"));
        let fails = |_: &File| Err(io::ErrorKind::Other.into());
        file.keep_with("one", fails).expect_err("the folder fails");
        assert_eq!(file.read().expect("read"), "");
        assert!(!file.path().exists());
        file.keep("one").expect("written");
        for text in ["two", ""] {
            file.keep_with(text, fails).expect_err("the folder fails");
            assert_eq!(file.read().expect("read"), "one");
        }
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        let file = ReservationFile::beside(Path::new("/nonexistent/disk.img"));
        assert!(file.keep("text").is_err());
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = ReservationFile::beside(&folder.path().join("disk.img"));
        fs::create_dir(file.path()).expect("a folder in its place");
        assert!(file.read().is_err());
    }
}
