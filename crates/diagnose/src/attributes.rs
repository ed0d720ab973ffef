//! Files of sysfs and configfs, each of which is an attribute.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// The text of an attribute without surrounding white space; `None` if missing or empty.
pub(crate) fn text(folder: &Path, name: &str) -> Option<String> {
    let text = fs::read_to_string(folder.join(name)).ok()?;
    let text = text.trim();
    // How the kernel prints a string that was never set.
    (!text.is_empty() && text != "(null)" && text != "<NULL>").then(|| text.to_owned())
}

/// A number, or any other type that can be parsed.
pub(crate) fn number<T: FromStr>(folder: &Path, name: &str) -> Option<T> {
    text(folder, name)?.parse().ok()
}

/// Whether an attribute is 1 or Yes; `None` unless it is a boolean.
pub(crate) fn flag(folder: &Path, name: &str) -> Option<bool> {
    match text(folder, name)?.as_str() {
        "1" | "Yes" => Some(true),
        "0" | "No" => Some(false),
        _ => None,
    }
}

/// The entries of a folder, sorted by name; empty if there is no folder.
pub(crate) fn entries(folder: &Path) -> Vec<(String, PathBuf)> {
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let named =
        found.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())));
    let mut entries: Vec<(String, PathBuf)> = named.collect();
    entries.sort();
    entries
}

/// The number after a prefix, as in `session4`.
pub(crate) fn numbered(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.parse().ok()
}
