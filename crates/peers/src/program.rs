//! Finds third-party programs, or names the packages that provide them.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A program that is not installed. A test that needs it counts as not run, with this as the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{program} is not installed (Debian package {package})")]
pub struct Missing {
    /// The missing program.
    pub program: String,
    /// The Debian package that provides it.
    pub package: &'static str,
}

/// Folders that hold daemons but are not on an ordinary user's `PATH`.
const DAEMON_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Searches `PATH` for `program`, then Debian's folders for daemons.
///
/// # Errors
/// [`Missing`] if there is no executable file of that name.
pub fn find(program: &str) -> Result<PathBuf, Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_in(program, &path).ok_or_else(|| Missing {
        program: program.to_owned(),
        package: package_of(program),
    })
}

fn find_in(program: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path)
        .chain(DAEMON_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The Debian package that provides `program`.
fn package_of(program: &str) -> &'static str {
    match program {
        "tgtd" | "tgtadm" => "tgt",
        "qemu-img" | "qemu-io" | "qemu-nbd" => "qemu-utils",
        "qemu-system-x86_64" => "qemu-system-x86",
        "apt-get" => "apt",
        "tc" | "ip" => "iproute2",
        "nft" => "nftables",
        "strip" => "binutils",
        "dpkg-deb" => "dpkg",
        // Debian 12's libiscsi-bin lacks some of libiscsi's tools.
        "iscsi-md5sum" => "libiscsi-bin, of a release after Debian 12",
        "haproxy" => "haproxy",
        "pkg-config" => "pkg-config",
        "c++" => "g++",
        "tcpdump" => "tcpdump",
        "tshark" => "tshark",
        "sshd" => "openssh-server",
        "ssh" => "openssh-client",
        "nbdinfo" | "nbdcopy" => "libnbd-bin",
        "fio" => "fio",
        "mandoc" => "mandoc",
        "fish" => "fish",
        "zsh" => "zsh",
        "bash" => "bash",
        "java" => "default-jre-headless",
        "find" => "findutils",
        "unshare" | "setpriv" => "util-linux",
        "systemd-analyze" => "systemd",
        "systemd-nspawn" => "systemd-container",
        "lintian" => "lintian",
        "mmdebstrap" => "mmdebstrap",
        "buildah" => "buildah",
        name if name.starts_with("iscsi-") => "libiscsi-bin",
        _ => "coreutils",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_on_the_path_is_found() {
        assert!(find("sh").is_ok());
    }

    #[test]
    fn daemons_are_found_without_their_folder_on_the_path() {
        // Every Linux has some program under /usr/sbin; any will do.
        let name = std::fs::read_dir("/usr/sbin")
            .unwrap()
            .flatten()
            .find_map(|entry| {
                is_executable(&entry.path())
                    .then(|| entry.file_name().into_string().ok())
                    .flatten()
            });
        if let Some(name) = name {
            assert!(find_in(&name, OsStr::new("/nowhere")).is_some());
        }
    }

    #[test]
    fn what_is_missing_names_its_package() {
        let missing = find("iscsi-no-such-tool").unwrap_err();
        assert_eq!(
            missing.to_string(),
            "iscsi-no-such-tool is not installed (Debian package libiscsi-bin)"
        );
    }
}
