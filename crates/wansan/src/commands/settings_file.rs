//! Files of settings, in TOML.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error};

/// The longest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a file.
///
/// # Errors
/// In one line what is wrong, and where: the file, the line, the nearest known key.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let in_file = || path.display().to_string();
    let text = read_text(path).with_context(in_file)?;
    wansan_mistake::read(&text, "the file").with_context(in_file)
}

/// The text of an ordinary file. A device may have no end, and a pipe may never begin.
pub(super) fn read_text(path: &Path) -> Result<String> {
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

/// A value that is written as text.
#[derive(Debug)]
pub(super) struct Parsed<T>(pub(super) T);

impl<'de, T: FromStr<Err: std::fmt::Display>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map(Parsed).map_err(D::Error::custom)
    }
}
