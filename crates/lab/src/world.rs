//! A small network on one computer: every host and router is a network namespace. The nodes joined by a path form a
//! network of their own, the first one 10.83.0.0/16, the next 10.84.0.0/16 and so on, over virtual Ethernet to one more
//! namespace, the *wan*, in which the emulator moves frames; or, on a wire, directly from one to the other.
//!
//! ```text
//!   host "client-1"          wan                  router "far"             host "storage"
//!   wan 10.83.0.2 ═══════ h2   h1 ═══════ wan 10.83.0.1   wan2 10.84.0.1 ═══ wan2 10.84.0.3
//! ```
//!
//! Call [`isolate`] first, while the process is single-threaded; then [`World::build`]. The namespaces have no names: a
//! thread of this process lives in each, a host's processes are children of that thread and die with it, and the kernel
//! removes everything when the last of them exits. So nothing remains, however the lab ends, and several labs can run
//! side by side.

mod build;
mod link;
mod namespace;
mod netlink;
mod node;
mod offload;
mod precedence;
mod process;
mod rights;
mod route;
mod sysctl;
mod topology;
mod way;

use std::io;

pub use build::World;
pub use namespace::Namespace;
pub use node::{Interface, Node};
pub(crate) use process::{Elsewhere, Tail, stand_alone};
pub use process::{Ended, Process, ProcessError};
pub use rights::{Rights, isolate};
pub(crate) use sysctl::in_force;
pub use topology::{
    Hop, IpRoute, Medium, NetworkSpec, NodeSpec, Role, Rule, Selector, TcpSettings, Topology,
};
pub(crate) use topology::{MAX_NETWORKS, MAX_NODES};
pub use way::NoWay;
pub(crate) use way::way_to;

/// Why a world could not be built.
#[derive(Debug, thiserror::Error)]
pub enum WorldError {
    /// The system forbids or lacks something that a lab needs; `remedy` says how to permit it.
    #[error("cannot {action}: {cause}; {remedy}")]
    EnvironmentLacks {
        /// The operation.
        action: String,
        /// The setting or the missing kernel feature that prevents it.
        cause: String,
        /// The remedy.
        remedy: String,
    },
    /// [`isolate`] was called after the process had started a second thread.
    #[error("the lab was isolated after the process had started threads: isolate it first")]
    CallerMisused,
    /// The kernel refused an operation for a reason that no known setting explains.
    #[error("`{node}`: cannot {action}: {source}")]
    Refused {
        /// The operation.
        action: String,
        /// The namespace.
        node: String,
        /// The kernel's error.
        source: io::Error,
    },
}
