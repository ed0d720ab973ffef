//! Settings files, in TOML.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;
use wansan_mistake::Mistake;

/// Longest file, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a file.
///
/// # Errors
/// The mistake and its place, in one line: the file, the line, the nearest known key.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = read_text(path).with_context(|| path.display().to_string())?;
    wansan_mistake::read(&text, "the file").map_err(|mistake| anyhow!(mistake.in_file(path)))
}

/// Origin of settings.
#[derive(Debug)]
pub(super) enum Origin {
    /// Options of the command line.
    Options,
    /// A JSON object on standard input.
    StandardInput,
    /// A file.
    File(PathBuf),
}

/// The name of standard input in errors.
pub(super) const STANDARD_INPUT: &str = "standard input";

impl Origin {
    /// The file, if it is one.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Origin::File(path) => Some(path),
            Origin::Options | Origin::StandardInput => None,
        }
    }

    /// Formats a mistake in the settings with its place: in a file, on which line; `place` is its path, such as
    /// `target[1].lun[0]`. Options have no places.
    pub(super) fn locate(
        &self,
        place: Option<&str>,
        error: impl std::error::Error,
    ) -> anyhow::Error {
        let mistake = Mistake::new(error.to_string());
        match (self, place) {
            (Origin::Options, _) => anyhow!(mistake),
            (Origin::StandardInput, None) => anyhow!(mistake.within(STANDARD_INPUT)),
            (Origin::StandardInput, Some(place)) => {
                anyhow!(mistake.within(format!("{STANDARD_INPUT}: `{place}`")))
            }
            (Origin::File(path), None) => anyhow!(mistake.in_file(path)),
            (Origin::File(path), Some(place)) => {
                // It may have changed or been removed since.
                let text = read_text(path).unwrap_or_default();
                anyhow!(mistake.at(&text, place).in_file(path))
            }
        }
    }
}

/// Reads a regular file. A device may be endless, and a pipe may never deliver data.
fn read_text(path: &Path) -> Result<String> {
    if !std::fs::metadata(path)?.is_file() {
        bail!("not an ordinary file");
    }
    let mut text = String::new();
    File::open(path)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        bail!("longer than {MAX_FILE_BYTES} bytes");
    }
    Ok(text)
}
