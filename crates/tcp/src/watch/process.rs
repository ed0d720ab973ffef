//! The sockets of a process.

use std::collections::HashSet;
use std::fs;
use std::io;

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub id: u32,
}

/// A process cannot be inspected.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// No such process.
    #[error("there is no process {id}")]
    Unknown {
        /// Its id.
        id: u32,
    },
    /// It belongs to another user.
    #[error("process {id} belongs to another user: run wansan as root to see its sockets")]
    Forbidden {
        /// Its id.
        id: u32,
    },
    /// Any other error.
    #[error("cannot read the open files of process {id}: {source}")]
    System {
        /// Its id.
        id: u32,
        /// The error.
        source: io::Error,
    },
}

impl Process {
    /// The inodes of all its sockets.
    ///
    /// # Errors
    /// [`ProcessError`]; `Unknown` when it has ended.
    pub(super) fn sockets(self) -> Result<HashSet<u32>, ProcessError> {
        let id = self.id;
        let failed = |source: io::Error| match (source.kind(), source.raw_os_error()) {
            (io::ErrorKind::NotFound, _) | (_, Some(libc::ESRCH)) => ProcessError::Unknown { id },
            (io::ErrorKind::PermissionDenied, _) => ProcessError::Forbidden { id },
            _ => ProcessError::System { id, source },
        };
        let files = fs::read_dir(format!("/proc/{id}/fd")).map_err(failed)?;
        let mut inodes = HashSet::new();
        for file in files {
            // A descriptor closed meanwhile has no link target.
            let target = fs::read_link(file.map_err(failed)?.path());
            let inode = target.ok().and_then(|target| {
                let text = target.to_str()?;
                let inode = text.strip_prefix("socket:[")?.strip_suffix(']')?;
                inode.parse::<u32>().ok()
            });
            inodes.extend(inode);
        }
        // The directory of a zombie is empty, or has no owner.
        if inodes.is_empty() && is_over(id) {
            return Err(ProcessError::Unknown { id });
        }
        Ok(inodes)
    }
}

/// Whether the process has ended, reaped by its parent or not.
fn is_over(id: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else {
        return true;
    };
    // The state follows the name, which is in parentheses and may hold any character.
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.split_whitespace().next());
    matches!(state, Some("Z" | "X"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::fd::AsRawFd;
    use std::process::Command;

    #[test]
    fn our_own_sockets_are_found() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let id = std::process::id();
        let link = fs::read_link(format!("/proc/{id}/fd/{}", socket.as_raw_fd())).unwrap();
        let sockets = Process { id }.sockets().unwrap();
        let ours = |inode: &u32| link.to_str() == Some(&format!("socket:[{inode}]"));
        assert!(sockets.iter().any(ours), "{link:?} in {sockets:?}");
    }

    #[test]
    fn a_process_that_has_ended_is_none() {
        let mut child = Command::new("true").spawn().unwrap();
        let id = child.id();
        // A zombie until it is waited for.
        while !is_over(id) {
            std::thread::yield_now();
        }
        let zombie = Process { id }.sockets();
        assert!(matches!(
            zombie,
            Err(ProcessError::Unknown { .. } | ProcessError::Forbidden { .. })
        ));
        child.wait().unwrap();
        let error = Process { id }.sockets().unwrap_err();
        assert!(matches!(error, ProcessError::Unknown { .. }), "{error}");
    }
}
