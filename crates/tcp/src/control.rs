//! wansan's congestion controls, loaded into the running kernel as eBPF programs (`struct_ops`), which any socket of
//! any network namespace can then choose by name.
//!
//! [`load`] makes a [`Control`], which stays loaded as long as the value lives, or until reboot after
//! [`Control::keep`]; [`hold`] loads a control for a program's own use if necessary. [`list`] and [`show`] report what
//! is loaded, and [`unload`] ends what was kept. When a process dies, the kernel unloads whatever the process did not
//! keep.
//!
//! A connection keeps its congestion control until it closes, even after the control is unloaded.

use std::io;
use std::path::PathBuf;

pub mod data;
mod users;

#[cfg(not(feature = "ebpf"))]
#[path = "control/absent.rs"]
mod registry;
#[cfg(feature = "ebpf")]
mod registry;

pub use registry::{Control, hold, list, load, show, unload};
pub use users::{Users, UsersError, users};
pub use wansan_congestion::{
    Algorithm, Counting, Growth, HighSpeed, HighSpeedError, Options, OptionsError,
};

use crate::ebpf::EbpfError;

/// Whether a control is loaded, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Not loaded.
    Absent,
    /// Loaded until [`unload`].
    Kept,
    /// Held by a process, such as a running lab; unloaded with that process.
    Held,
}

/// State of a control.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Whether it is loaded.
    pub state: State,
    /// The options that it was loaded with; known only if it was kept.
    pub options: Option<Options>,
}

/// An operation on a control failed.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Programs cannot be loaded.
    #[error(transparent)]
    Ebpf(#[from] EbpfError),
    /// A control cannot be loaded with such options.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// A control of this name is loaded already.
    #[error(
        "congestion control '{name}' is loaded already: use it as it is, or unload it first (wansan \
         cc unload {name})"
    )]
    AlreadyThere {
        /// The name.
        name: &'static str,
    },
    /// A control of this name is loaded with other options than requested, or with unknown ones.
    #[error(
        "congestion control '{name}' is loaded already, {found}: unload it first (wansan cc unload \
         {name}), or use it as it is"
    )]
    LoadedOtherwise {
        /// The name.
        name: &'static str,
        /// "with other parameters", or that they are unknown.
        found: &'static str,
    },
    /// No such control is loaded.
    #[error("congestion control '{name}' is not loaded (wansan cc load {name})")]
    NotLoaded {
        /// The name.
        name: &'static str,
    },
    /// A process holds the control, so `unload` cannot end it.
    #[error(
        "congestion control '{name}' is held by a running program, such as a lab, and is unloaded when \
         that ends"
    )]
    HeldByProcess {
        /// The name.
        name: &'static str,
    },
    /// The kernel accepts the programs, but not the congestion control made of them.
    #[error("the kernel does not register congestion control '{name}': {reason}")]
    NotRegistered {
        /// The name.
        name: &'static str,
        /// The kernel's error.
        reason: String,
    },
    /// The kernel's objects cannot be listed.
    #[error("cannot list the loaded congestion controls: {0}")]
    Unseen(String),
    /// The pinned files that keep it loaded cannot be made, read or removed.
    #[error("cannot {action} {}: {source}", path.display())]
    Keeping {
        /// "make", "mount", "pin", "read" or "remove".
        action: &'static str,
        /// The path in the BPF file system.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}
