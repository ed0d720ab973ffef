//! Files of settings, in TOML.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::de::DeserializeOwned;
use wansan_mistake::Mistake;

/// The longest file that is read, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Reads a file.
///
/// # Errors
/// In one line what is wrong, and where: the file, the line, the nearest known key.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    let text = read_text(path).with_context(|| path.display().to_string())?;
    wansan_mistake::read(&text, "the file").map_err(|mistake| anyhow!(mistake.in_file(path)))
}

/// Says of settings that came from the file at `path`, if they did, what cannot be served, and on which line
/// it stands; `place` is the way to it, such as `target[1].lun[0]`.
pub(super) fn locate(
    path: Option<&Path>,
    place: Option<&str>,
    error: impl std::error::Error,
) -> anyhow::Error {
    let mut mistake = Mistake::new(error.to_string());
    let Some(path) = path else {
        return anyhow!(mistake);
    };
    if let Some(place) = place {
        // It may have changed or gone since.
        mistake = mistake.at(&read_text(path).unwrap_or_default(), place);
    }
    anyhow!(mistake.in_file(path))
}

/// The text of an ordinary file. A device may have no end, and a pipe may never begin.
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
