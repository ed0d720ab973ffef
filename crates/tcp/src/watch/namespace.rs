//! Entering another network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace, by a file that stands for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    path: PathBuf,
}

/// A network namespace cannot be entered.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// There is no such file.
    #[error(
        "there is no network namespace {path}: `ip netns list` names those there are, and a path \
         such as /proc/PID/ns/net is taken too", path = path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// The caller may not.
    #[error(
        "entering the network namespace {path} needs CAP_SYS_ADMIN there: run wansan as root, or \
         start it inside (`ip netns exec`, `nsenter`)", path = path.display()
    )]
    Forbidden {
        /// The file.
        path: PathBuf,
    },
    /// Anything else that the system says.
    #[error("cannot enter the network namespace {path}: {source}", path = path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
}

impl Namespace {
    /// The one that `ip netns` calls `name`, or that a file with a `/` in its path stands for.
    #[must_use]
    pub fn named(name: &str) -> Namespace {
        let path = if name.contains('/') {
            PathBuf::from(name)
        } else {
            Path::new("/run/netns").join(name)
        };
        Namespace { path }
    }

    /// That of a process.
    #[must_use]
    pub fn of_process(id: u32) -> Namespace {
        Namespace {
            path: PathBuf::from(format!("/proc/{id}/ns/net")),
        }
    }

    /// The file that stands for it.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its file does not stand for the calling thread's namespace any more.
    pub(super) fn has_gone(&self) -> bool {
        let Ok(here) = std::fs::metadata("/proc/thread-self/ns/net") else {
            return false;
        };
        match std::fs::metadata(&self.path) {
            Ok(there) => (there.dev(), there.ino()) != (here.dev(), here.ino()),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Moves the calling thread there, unless it is there already.
    pub(super) fn enter(&self) -> Result<(), NamespaceError> {
        let failed = |source: io::Error| {
            let path = self.path.clone();
            match source.kind() {
                io::ErrorKind::NotFound => NamespaceError::Unknown { path },
                io::ErrorKind::PermissionDenied => NamespaceError::Forbidden { path },
                _ => NamespaceError::System { path, source },
            }
        };
        let file = File::open(&self.path).map_err(failed)?;
        let there = file.metadata().map_err(failed)?;
        let here = std::fs::metadata("/proc/thread-self/ns/net").map_err(failed)?;
        if (there.dev(), there.ino()) == (here.dev(), here.ino()) {
            return Ok(());
        }
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|errno| failed(errno.into()))
    }
}
