//! The folder for what processes that attach disks leave for each other while they run.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// In the user's runtime folder, or in that of the system.
pub(crate) fn folder() -> PathBuf {
    // A service of root has no runtime folder of its user's.
    if geteuid().is_root() {
        return "/run/wansan".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if !runtime.is_empty() => Path::new(&runtime).join("wansan"),
        _ => std::env::temp_dir().join(format!("wansan-{}", geteuid().as_raw())),
    }
}

/// The same; it is there, and no other user can look into it.
///
/// # Errors
/// When it cannot be made, or is somebody else's as well.
pub(crate) fn own_folder() -> io::Result<PathBuf> {
    let folder = folder();
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(&folder)?;
    let found = fs::metadata(&folder)?;
    if found.uid() == geteuid().as_raw() && found.mode() & 0o077 == 0 {
        return Ok(folder);
    }
    let what = format!("{} is open to other users", folder.display());
    Err(io::Error::new(ErrorKind::PermissionDenied, what))
}
