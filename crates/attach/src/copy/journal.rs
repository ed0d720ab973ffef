//! The progress of a copy, kept beside its sink, so that an interrupted copy can be resumed.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{CopyError, CopyPlace};

/// The stored progress.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Progress {
    pub(super) from: String,
    /// Distinguishes the source from another one of the same name, as far as possible.
    pub(super) source: String,
    pub(super) to: String,
    /// The same for the destination.
    pub(super) destination: String,
    /// The source's size, in bytes.
    pub(super) size_bytes: u64,
    /// Everything below this offset is on the sink's medium.
    pub(super) done_bytes: u64,
}

impl Progress {
    /// Checks that the progress belongs to a copy between these places.
    pub(super) fn check_names(
        &self,
        path: &Path,
        from: &CopyPlace,
        to: &CopyPlace,
    ) -> Result<(), CopyError> {
        if self.from == from.to_string() && self.to == to.to_string() {
            return Ok(());
        }
        Err(CopyError::Journal {
            path: path.to_owned(),
            why: format!(
                "it belongs to a copy from {} to {}; delete it to start over",
                self.from, self.to
            ),
        })
    }
}

/// A progress journal on disk.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    progress: Progress,
}

impl Journal {
    /// Reads the journal at `path`, if there is one.
    ///
    /// # Errors
    /// It is not a journal, or cannot be read.
    pub(super) fn read(path: &Path) -> Result<Option<Progress>, CopyError> {
        let failed = |why: String| CopyError::Journal {
            path: path.to_owned(),
            why,
        };
        match fs::read(path) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(progress) => Ok(Some(progress)),
                Err(error) => Err(failed(format!(
                    "not a copy journal ({error}); delete it to start over"
                ))),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Opens the journal at `path` for the copy that `progress` describes; `kept` is the progress found there.
    ///
    /// # Errors
    /// The stored progress belongs to another copy.
    pub(super) fn open(
        path: PathBuf,
        kept: Option<Progress>,
        progress: Progress,
    ) -> Result<Journal, CopyError> {
        // A copy without progress cannot be resumed.
        let kept = kept.filter(|kept| kept.done_bytes > 0);
        let done_bytes = kept
            .as_ref()
            .map_or(0, |kept| kept.done_bytes.min(kept.size_bytes));
        let same = Progress {
            done_bytes,
            ..progress
        };
        if let Some(kept) = kept
            && kept != same
        {
            let why = if kept.destination != same.destination {
                "the destination is not the one that was written".to_owned()
            } else {
                "the source has changed since".to_owned()
            };
            let why = format!("{why}; delete it to start over");
            return Err(CopyError::Journal { path, why });
        }
        Ok(Journal {
            path,
            progress: same,
        })
    }

    /// Everything below this offset is done.
    pub(super) fn done_bytes(&self) -> u64 {
        self.progress.done_bytes
    }

    /// Records that everything below this offset is done.
    pub(super) fn keep(&mut self, done_bytes: u64) -> Result<(), CopyError> {
        if done_bytes == self.progress.done_bytes && done_bytes > 0 {
            return Ok(());
        }
        self.progress.done_bytes = done_bytes;
        write(&self.path, &self.progress).map_err(|error| CopyError::Journal {
            path: self.path.clone(),
            why: error.to_string(),
        })
    }

    /// Removes the journal of a completed copy.
    pub(super) fn remove(self) -> Result<(), CopyError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(CopyError::Journal {
                path: self.path,
                why: error.to_string(),
            }),
            _ => Ok(()),
        }
    }
}

/// Replaces the file atomically: after a crash, either the old or the new version is there.
fn write(path: &Path, progress: &Progress) -> std::io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let mut file = File::create(&new)?;
    serde_json::to_writer(&mut file, progress)?;
    file.write_all(b"\n")?;
    file.sync_data()?;
    fs::rename(&new, path)
}
