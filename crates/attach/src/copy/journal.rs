//! What a copy has done, kept beside its sink, so that another can go on where it was interrupted.

use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::CopyError;

/// What is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Progress {
    pub(super) from: String,
    pub(super) to: String,
    /// The source's size, in bytes.
    pub(super) size_bytes: u64,
    /// When the source was changed last, where that is known, in ns since 1970.
    pub(super) changed_ns: Option<i128>,
    /// Up to where everything is on the sink's medium.
    pub(super) done_bytes: u64,
}

/// A journal at its place.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    progress: Progress,
}

impl Journal {
    /// The journal at `path`, of the copy that `progress` describes from its beginning.
    ///
    /// # Errors
    /// When one is there that is of another copy, or that cannot be read.
    pub(super) fn open(path: PathBuf, progress: Progress) -> Result<Journal, CopyError> {
        let kept = match fs::read(&path) {
            Ok(text) => {
                serde_json::from_slice::<Progress>(&text).map_err(|error| CopyError::Journal {
                    path: path.clone(),
                    why: format!("it is no journal of a copy ({error}); remove it to begin anew"),
                })?
            }
            Err(error) if error.kind() == ErrorKind::NotFound => progress.clone(),
            Err(error) => {
                let why = error.to_string();
                return Err(CopyError::Journal { path, why });
            }
        };
        let done_bytes = kept.done_bytes.min(kept.size_bytes);
        let same = Progress {
            done_bytes,
            ..progress
        };
        if kept != same {
            let why = match (&kept.from, &kept.to) == (&same.from, &same.to) {
                true => "the source has changed since; remove it to begin anew".to_owned(),
                false => format!(
                    "it is of a copy from {} to {}; remove it to begin anew",
                    kept.from, kept.to
                ),
            };
            return Err(CopyError::Journal { path, why });
        }
        Ok(Journal {
            path,
            progress: same,
        })
    }

    /// Up to where everything is done.
    pub(super) fn done_bytes(&self) -> u64 {
        self.progress.done_bytes
    }

    /// Keeps that everything is done up to there.
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

    /// The copy is done.
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

/// Replaces the file as a whole: a crash leaves the old one or the new one.
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
