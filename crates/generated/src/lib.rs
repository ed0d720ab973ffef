//! Generated files in the tree: written on request, and otherwise checked.

use std::path::Path;

/// Checks that the file at `path`, relative to the root of the tree, equals `text`. With `WANSAN_UPDATE` in the
/// environment, writes it first.
///
/// # Panics
/// If it differs, or cannot be read or written.
#[track_caller]
pub fn check(path: &str, text: &str) {
    let place = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(path);
    if std::env::var_os("WANSAN_UPDATE").is_some() {
        std::fs::write(&place, text).expect("the tree can be written");
    }
    let there = std::fs::read_to_string(&place).unwrap_or_default();
    assert!(
        there == text,
        "{path} is out of date: WANSAN_UPDATE=1 writes it"
    );
}
