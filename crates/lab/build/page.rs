//! Whether a page, the report's or the live one, was built from the sources that stand beside it.
//!
//! Cargo does not build the page, so a page of other sources may lie there. It says what it was built
//! from (`web/sources.mjs`), by content: what git does to the times of files does not matter.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// What it is built from, under `web`: files, and folders with all that is in them. As
/// `web/sources.mjs` has it.
pub(crate) const SOURCES: [&str; 6] = [
    "build.mjs",
    "package-lock.json",
    "package.json",
    "sources.mjs",
    "src",
    "tsconfig.json",
];

/// The page does not fit its sources, and why.
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

/// Where a page of `web` is, by its name there, when it was built from what stands there.
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

/// SHA-256, in hexadecimal, of the names and contents of all sources: of each its path under `web`
/// with `/`, a zero byte, the SHA-256 of its content, in the order of the paths' bytes.
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

/// Adds `name` to `names`, or what is in it when it is a folder.
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
