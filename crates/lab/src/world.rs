//! A small network on one computer: every host is a network namespace, and all hosts are joined
//! by virtual Ethernet to one more namespace, the *wan*, in which the emulator moves frames.
//!
//! ```text
//!   host "client-1"          wan                host "storage"
//!   wan 10.83.0.2 ═══════ h2   h1 ═══════ wan 10.83.0.1
//! ```
//!
//! Hosts that are joined by several paths side by side have an interface for each: `wan2` with an
//! address in 10.84.0.0/16, and so on.
//!
//! Call [`isolate`] first, while the process has one thread; then [`World::build`]. The
//! namespaces have no names anywhere: a thread of this process lives in each, the processes of a
//! host are children of that thread and die with it, and the kernel takes everything away when
//! the last of them is gone. So nothing is left behind, however the lab ends, and several labs
//! run side by side.

mod host;
mod link;
mod namespace;
mod netlink;
mod offload;
mod process;
mod rights;
mod sysctl;

use std::io;

pub use host::{Host, HostSpec, Interface, TcpSettings, World};
pub(crate) use host::{MAX_HOSTS, MAX_INTERFACES};
pub use namespace::Namespace;
pub use process::{Ended, Process, ProcessError};
pub use rights::{Rights, isolate};

/// Why a world could not be built.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The system forbids or lacks something that a lab needs; `remedy` says how to allow it.
    #[error("cannot {action}: {cause}; {remedy}")]
    EnvironmentLacks {
        /// What was tried.
        action: String,
        /// The setting or missing part of the kernel that stands in the way.
        cause: String,
        /// What to do about it.
        remedy: String,
    },
    /// [`isolate`] was called after the process had started a second thread.
    #[error("the lab was isolated after the process had started threads: isolate it first")]
    CallerMisused,
    /// The kernel refused a step for a reason that no known setting explains.
    #[error("cannot {action} of host `{host}`: {source}")]
    Refused {
        /// What was tried.
        action: String,
        /// In whose namespace.
        host: String,
        /// The kernel's answer.
        source: io::Error,
    },
}
