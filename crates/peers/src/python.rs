//! Python with the packages of `setup/python-packages.txt`, which `setup/need test` installs below cargo's target
//! folder.

use std::path::{Path, PathBuf};

use crate::trial::Stop;

/// The folder of its programs, if the package's are installed there. `target_tmp` is `CARGO_TARGET_TMPDIR` of the test.
///
/// # Errors
/// [`Stop::NotRun`] if they are not.
pub fn programs_with(package: &str, target_tmp: &str) -> Result<PathBuf, Stop> {
    let target = Path::new(target_tmp).parent().unwrap_or(Path::new("."));
    let python = target.join("python");
    let libraries = std::fs::read_dir(python.join("lib")).into_iter().flatten();
    let mut versions = libraries.flatten().map(|entry| entry.path());
    if versions.any(|version| version.join("site-packages").join(package).exists()) {
        Ok(python.join("bin"))
    } else {
        Err(Stop::NotRun(format!(
            "Python's package {package} is not installed (setup/need test)"
        )))
    }
}
