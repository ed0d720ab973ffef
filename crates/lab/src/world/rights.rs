//! The privilege to create network namespaces: as root, or as root of a user namespace.

use std::fs;
use std::io;
use std::path::Path;

use rustix::io::Errno;
use rustix::process::{getgid, getuid};
use rustix::thread::UnshareFlags;

use super::WorldError;

/// How the lab obtained the privilege to create namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// The process already had it (CAP_SYS_ADMIN, for example as root).
    Privileged,
    /// It is root in its own user namespace, and an ordinary user outside.
    UserNamespace,
    /// Not needed: the world is simulated.
    Unneeded,
}

impl Rights {
    /// The name in manifests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Rights::Privileged => "privileged",
            Rights::Unneeded => "none needed",
            Rights::UserNamespace => "user namespace",
        }
    }
}

/// Moves the process into its own network namespace, which contains nothing but the lab; as an ordinary user, first
/// into a user namespace in which it is root.
///
/// Call it before the process starts a thread: only a single-threaded process can enter a user namespace. Files that
/// the lab writes belong to the real user.
///
/// # Errors
/// [`WorldError::EnvironmentLacks`] names the system setting that forbids it and how to change that;
/// [`WorldError::CallerMisused`] if there already are other threads.
pub fn isolate() -> Result<Rights, WorldError> {
    match unshare(UnshareFlags::NEWNET) {
        Ok(()) => return Ok(Rights::Privileged),
        Err(Errno::PERM) => {}
        Err(errno) => return Err(explain(Path::new("/"), errno)),
    }
    let (uid, gid) = (getuid().as_raw(), getgid().as_raw());
    match unshare(UnshareFlags::NEWUSER | UnshareFlags::NEWNET) {
        Ok(()) => {}
        Err(Errno::INVAL) if has_threads() => return Err(WorldError::CallerMisused),
        Err(errno) => return Err(explain(Path::new("/"), errno)),
    }
    // user_namespaces(7): without CAP_SETGID in the parent namespace, setgroups must be disabled before a group may be
    // mapped.
    for (file, text) in [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("0 {uid} 1")),
        ("gid_map", format!("0 {gid} 1")),
    ] {
        fs::write(Path::new("/proc/self").join(file), text).map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::PERM);
            explain(Path::new("/"), errno)
        })?;
    }
    Ok(Rights::UserNamespace)
}

/// unshare(2) for the calling thread.
#[allow(unsafe_code, reason = "rustix has unshare only as an unsafe function")]
pub(super) fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    assert!(!flags.contains(UnshareFlags::FILES));
    // SAFETY: the contract concerns file tables that threads no longer share (CLONE_FILES), which
    // the assertion above rules out.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

fn has_threads() -> bool {
    fs::read_dir("/proc/self/task").is_ok_and(|tasks| tasks.count() > 1)
}

/// Names the setting that made the kernel refuse a namespace. `root` is `/` except in tests.
fn explain(root: &Path, errno: Errno) -> WorldError {
    let read = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    let is = |path: &str, value: &str| read(path).trim() == value;
    let (cause, remedy) = if !root.join("proc/self/ns/net").exists() {
        (
            "the kernel has no network namespaces (CONFIG_NET_NS)".to_owned(),
            "use a kernel that has them, as every distribution's has",
        )
    } else if !root.join("proc/self/ns/user").exists() {
        (
            "the kernel has no user namespaces (CONFIG_USER_NS)".to_owned(),
            "run it as root",
        )
    } else if is("proc/sys/user/max_user_namespaces", "0") {
        (
            "user.max_user_namespaces is 0".to_owned(),
            "allow them with `sudo sysctl -w user.max_user_namespaces=15000`, or run it as root",
        )
    } else if is("proc/sys/user/max_net_namespaces", "0") {
        (
            "user.max_net_namespaces is 0".to_owned(),
            "allow them with `sudo sysctl -w user.max_net_namespaces=15000`",
        )
    } else if is("proc/sys/kernel/unprivileged_userns_clone", "0") {
        (
            "kernel.unprivileged_userns_clone is 0".to_owned(),
            "allow it with `sudo sysctl -w kernel.unprivileged_userns_clone=1`, or run it as root",
        )
    } else if is("proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") {
        (
            "kernel.apparmor_restrict_unprivileged_userns is 1".to_owned(),
            "allow it with `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, \
             or run it as root",
        )
    } else if errno == Errno::NOSPC {
        (
            "user.max_user_namespaces or user.max_net_namespaces is used up".to_owned(),
            "raise them with sysctl, or end what holds the namespaces (see `lsns`)",
        )
    } else if read("proc/self/status")
        .lines()
        .any(|line| line.starts_with("Seccomp:") && line.trim_end().ends_with('2'))
    {
        (
            "a seccomp filter forbids unshare(2), as in a container".to_owned(),
            "start the container with `--privileged`, or with `--cap-add SYS_ADMIN --cap-add \
             NET_ADMIN --security-opt seccomp=unconfined`",
        )
    } else {
        (
            format!("the kernel answers: {}", io::Error::from(errno)),
            "run it as root, and in a container start that with `--privileged`",
        )
    };
    WorldError::EnvironmentLacks {
        action: "make network namespaces".to_owned(),
        cause,
        remedy: remedy.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_obstacle_is_named_with_its_remedy() {
        for (file, value, part) in [
            (
                "proc/sys/user/max_user_namespaces",
                "0\n",
                "user.max_user_namespaces=15000",
            ),
            (
                "proc/sys/user/max_net_namespaces",
                "0\n",
                "user.max_net_namespaces=15000",
            ),
            (
                "proc/sys/kernel/unprivileged_userns_clone",
                "0\n",
                "kernel.unprivileged_userns_clone=1",
            ),
            (
                "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
                "1\n",
                "kernel.apparmor_restrict_unprivileged_userns=0",
            ),
            (
                "proc/self/status",
                "Name:\tx\nSeccomp:\t2\n",
                "seccomp=unconfined",
            ),
            (
                "proc/self/status",
                "Name:\tx\nSeccomp:\t0\n",
                "run it as root",
            ),
        ] {
            let root = tempfile::tempdir().unwrap();
            for name in ["proc/self/ns/net", "proc/self/ns/user", file] {
                let path = root.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, value).unwrap();
            }
            let message = explain(root.path(), Errno::PERM).to_string();
            assert!(message.contains(part), "{file}: {message}");
            assert!(!message.contains('\n'));
        }
    }

    #[test]
    fn a_kernel_without_namespaces_is_named() {
        let root = tempfile::tempdir().unwrap();
        let message = explain(root.path(), Errno::INVAL).to_string();
        assert!(message.contains("CONFIG_NET_NS"), "{message}");
    }
}
