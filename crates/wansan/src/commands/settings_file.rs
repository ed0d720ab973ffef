//! Files of settings, in TOML.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;

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
