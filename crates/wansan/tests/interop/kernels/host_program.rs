//! Programs of this computer in a guest, with the libraries that they load: the guest's release may be another.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use wansan_peers::guest::Image;
use wansan_peers::process::run;
use wansan_peers::program::find;

use crate::stage::Stop;

const LDD_LIMIT: Duration = Duration::from_secs(60);

/// `image` with the program `name` of this computer, written into `folder`.
///
/// # Errors
/// [`Stop::NotRun`] when this computer does not have it.
pub(super) fn with(image: &Image, name: &str, folder: &Path) -> Result<Image, Stop> {
    let program = find(name)?;
    let listed = run(Command::new(find("ldd")?).arg(&program), LDD_LIMIT)?.success()?;
    let (loader, libraries) = libraries(&listed.stdout)
        .ok_or_else(|| Stop::NotRun(format!("{name} has no program loader")))?;
    let home = format!("usr/local/{name}");
    let start =
        format!("#!/bin/sh\nexec /{home}/{loader} --library-path /{home} /{home}/{name} \"$@\"\n");
    let image = image.with_files(folder, |archive| {
        archive.folder("usr/local")?;
        archive.folder("usr/local/bin")?;
        archive.folder(&home)?;
        archive.file(&format!("{home}/{name}"), 0o755, &fs::read(&program)?)?;
        for (name, path) in &libraries {
            archive.file(&format!("{home}/{name}"), 0o755, &fs::read(path)?)?;
        }
        archive.file(&format!("usr/local/bin/{name}"), 0o755, start.as_bytes())
    });
    Ok(image?)
}

/// The loader's name, and all files by their names, that `ldd` has listed: `NAME => PATH (ADDRESS)`, and for the loader
/// `PATH (ADDRESS)`.
fn libraries(listed: &str) -> Option<(String, BTreeMap<String, PathBuf>)> {
    let paths = listed.lines().filter_map(|line| {
        let path = line.rsplit("=>").next()?.split_whitespace().next()?;
        path.starts_with('/').then(|| PathBuf::from(path))
    });
    let libraries: BTreeMap<String, PathBuf> = paths
        .filter_map(|path| Some((path.file_name()?.to_string_lossy().into_owned(), path)))
        .collect();
    let mut names = libraries.keys();
    let loader = names.find(|name| name.starts_with("ld-"))?.clone();
    Some((loader, libraries))
}
