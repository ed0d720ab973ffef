//! Congestion controls of our own, which the running kernel takes on as programs (eBPF,
//! `struct_ops`) and any socket of any network namespace can then choose by name.
//!
//! [`load`] makes a [`Control`], which lasts as long as the value, or as long as the machine runs
//! after [`Control::keep`]; [`hold`] does for a program's own use what is needed so that a name can be
//! chosen. [`list`] and [`show`] report what is loaded, and [`unload`] ends what was kept. A process that
//! dies takes with it whatever it did not keep.
//!
//! A connection that uses one keeps it until it closes, whatever becomes of the name.

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

/// Whether the kernel has a control, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It is not there.
    Absent,
    /// It stays until [`unload`].
    Kept,
    /// A process holds it, such as a lab that runs; it goes with that process.
    Held,
}

/// A control and what is known of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Status {
    /// Which.
    pub algorithm: Algorithm,
    /// Whether the kernel has it.
    pub state: State,
    /// What it was loaded with; known of one that is kept.
    pub options: Option<Options>,
}

/// Nothing could be done about a control.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Programs cannot be loaded.
    #[error(transparent)]
    Ebpf(#[from] EbpfError),
    /// A control cannot be loaded with such options.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// The name is taken.
    #[error(
        "congestion control '{name}' is loaded already: use it as it is, or unload it first (wansan \
         cc unload {name})"
    )]
    AlreadyThere {
        /// The name.
        name: &'static str,
    },
    /// The name is taken, by a control with other options than are wanted, or with unknown ones.
    #[error(
        "congestion control '{name}' is loaded already, {found}: unload it first (wansan cc unload \
         {name}), or use it as it is"
    )]
    LoadedOtherwise {
        /// The name.
        name: &'static str,
        /// "with other parameters", or that they cannot be seen.
        found: &'static str,
    },
    /// There is nothing to unload.
    #[error("congestion control '{name}' is not loaded (wansan cc load {name})")]
    NotLoaded {
        /// The name.
        name: &'static str,
    },
    /// It is not ours to unload.
    #[error(
        "congestion control '{name}' is held by a program that runs, such as a lab, and goes when \
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
        /// Its answer.
        reason: String,
    },
    /// The kernel's objects cannot be looked through.
    #[error("cannot look which congestion controls are loaded: {0}")]
    Unseen(String),
    /// What keeps it loaded cannot be made, read or removed.
    #[error("cannot {action} {}: {source}", path.display())]
    Keeping {
        /// "make", "mount", "pin", "read" or "remove".
        action: &'static str,
        /// Where, in the kernel's file system for eBPF.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}
