//! Entering another network namespace.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace, by its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Namespace {
    path: PathBuf,
}

/// A network namespace cannot be entered.
#[derive(Debug, thiserror::Error)]
pub enum NamespaceError {
    /// The file does not exist.
    #[error(
        "there is no network namespace {path}: `ip netns list` names those there are, and a path \
         such as /proc/PID/ns/net is taken too", path = path.display()
    )]
    Unknown {
        /// The file.
        path: PathBuf,
    },
    /// The caller lacks the privileges.
    #[error(
        "entering the network namespace {path} needs CAP_SYS_ADMIN there: run wansan as root, or \
         start it inside (`ip netns exec`, `nsenter`)", path = path.display()
    )]
    Forbidden {
        /// The file.
        path: PathBuf,
    },
    /// Any other error.
    #[error("cannot enter the network namespace {path}: {source}", path = path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
}

impl Namespace {
    /// The namespace named `name` in `ip netns`, or of the file at a path with a `/`.
    #[must_use]
    pub fn named(name: &str) -> Namespace {
        let path = if name.contains('/') {
            PathBuf::from(name)
        } else {
            Path::new("/run/netns").join(name)
        };
        Namespace { path }
    }

    /// The namespace of a process.
    #[must_use]
    pub fn of_process(id: u32) -> Namespace {
        Namespace {
            path: PathBuf::from(format!("/proc/{id}/ns/net")),
        }
    }

    /// Its file.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether its file no longer stands for the calling thread's namespace.
    pub(super) fn has_gone(&self) -> bool {
        let Ok(here) = std::fs::metadata("/proc/thread-self/ns/net") else {
            return false;
        };
        match std::fs::metadata(&self.path) {
            Ok(there) => (there.dev(), there.ino()) != (here.dev(), here.ino()),
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Moves the calling thread into the namespace, unless it is there already.
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
