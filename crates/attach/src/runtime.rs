//! The runtime folder that processes attaching disks share.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// In the user's runtime folder, or in the system's.
pub(crate) fn folder() -> PathBuf {
    // A service run as root has no user runtime folder.
    if geteuid().is_root() {
        return "/run/wansan".into();
    }
    match std::env::var_os("XDG_RUNTIME_DIR") {
        Some(runtime) if !runtime.is_empty() => Path::new(&runtime).join("wansan"),
        _ => std::env::temp_dir().join(format!("wansan-{}", geteuid().as_raw())),
    }
}

/// The same folder, created if needed and accessible to this user only.
///
/// # Errors
/// It cannot be created, or other users can access it.
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
