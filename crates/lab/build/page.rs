//! Checks that a page, the report or the live page, was built from the current sources.
//!
//! Cargo does not build the page, so it may be outdated. It records a fingerprint of its sources (`web/sources.mjs`),
//! by content: file times, which git changes, do not matter.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// Its sources, under `web`: files, and folders with all their contents. Matches `web/sources.mjs`.
pub(crate) const SOURCES: [&str; 6] = [
    "build.mjs",
    "package-lock.json",
    "package.json",
    "sources.mjs",
    "src",
    "tsconfig.json",
];

/// The page does not match its sources, with the reason.
#[derive(Debug)]
pub(crate) enum PageError {
    Missing(PathBuf),
    Stale(PathBuf),
    Unreadable(PathBuf, io::Error),
}

impl fmt::Display for PageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PageError::Missing(page) => write!(f, "{} is missing", page.display()),
            PageError::Stale(page) => {
                write!(f, "{} was built from other sources", page.display())
            }
            PageError::Unreadable(path, error) => {
                write!(f, "cannot read {}: {error}", path.display())
            }
        }
    }
}

/// The path of the page `name` of `web`, if it was built from the current sources.
pub(crate) fn current(web: &Path, name: &str) -> Result<PathBuf, PageError> {
    let page = web.join(name);
    if !page.exists() {
        return Err(PageError::Missing(page));
    }
    let html = read(&page)?;
    let mark = format!("<meta name=\"sources\" content=\"{}\">", fingerprint(web)?);
    let found = html.windows(mark.len()).any(|here| here == mark.as_bytes());
    if found {
        Ok(page)
    } else {
        Err(PageError::Stale(page))
    }
}

/// SHA-256, in hexadecimal, over all sources: for each, its path under `web` with `/`, a zero byte, and the SHA-256 of
/// its content, sorted by the paths' bytes.
fn fingerprint(web: &Path) -> Result<String, PageError> {
    let mut names = Vec::new();
    for source in SOURCES {
        collect(web, source.to_owned(), &mut names)?;
    }
    names.sort();
    let mut all = Sha256::new();
    for name in names {
        all.update(name.as_bytes());
        all.update([0]);
        all.update(Sha256::digest(read(&web.join(&name))?));
    }
    Ok(all
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// Adds `name` to `names`, or the contents of a folder.
fn collect(web: &Path, name: String, names: &mut Vec<String>) -> Result<(), PageError> {
    let path = web.join(&name);
    let unreadable = |error| PageError::Unreadable(path.clone(), error);
    if !fs::metadata(&path).map_err(unreadable)?.is_dir() {
        names.push(name);
        return Ok(());
    }
    for entry in fs::read_dir(&path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?.file_name();
        collect(web, format!("{name}/{}", entry.to_string_lossy()), names)?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, PageError> {
    fs::read(path).map_err(|error| PageError::Unreadable(path.to_owned(), error))
}
