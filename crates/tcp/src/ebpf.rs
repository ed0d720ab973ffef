//! Programs of ours in the running kernel (eBPF): whether that can be done here, and loading them.
//!
//! The sources are in `src/bpf`, a file `NAME.bpf.c` for each object; the build script compiles them
//! when the crate has its feature `ebpf`. Structures of the kernel that they use are declared in
//! `kernel.h` and found by name in the running kernel's BTF, so one build fits many kernels.
//! What the kernel's verifier says is gathered while an object is loaded. When the kernel refuses
//! one, that is kept in a file, and the error says where. A developer has all of it kept, of every
//! program that is loaded, by naming a folder in the environment's WANSAN_VERIFIER_LOGS.

use std::io;
use std::path::PathBuf;

#[cfg(feature = "ebpf")]
mod load;
#[cfg(feature = "ebpf")]
mod verifier;

#[cfg(feature = "ebpf")]
pub use load::{Loaded, load};
#[cfg(feature = "ebpf")]
pub use verifier::refused;

/// The running kernel's types, which programs are fitted to when they are loaded.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// A program could not be brought into the kernel, or what it does there cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum EbpfError {
    /// This build has no programs in it.
    #[error(
        "this wansan was built without eBPF: install clang, libelf-dev and zlib1g-dev, then build \
         it with `make build`, or with `cargo build --features ebpf`"
    )]
    NotBuilt,
    /// The process may not.
    #[error(
        "programs in the kernel need root (CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON in the first \
         user namespace)"
    )]
    NotAllowed,
    /// The kernel does not describe its types.
    #[error(
        "this kernel has no {KERNEL_TYPES}, to which programs are fitted: it needs \
         CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypes,
    /// The verifier, or another check of the kernel's, says no.
    #[error(
        "the kernel refuses {object}: {reason}; what its verifier said is in {}",
        log.display()
    )]
    Refused {
        /// Which of the objects, by the name of its source.
        object: &'static str,
        /// The kernel's answer.
        reason: String,
        /// All that libbpf and the verifier said.
        log: PathBuf,
    },
    /// The log of an object that the kernel took could not be kept where the environment wants it.
    #[error(
        "cannot keep the verifier's log of {object} in {} (WANSAN_VERIFIER_LOGS): {source}",
        folder.display()
    )]
    Unkept {
        /// Which of the objects, by the name of its source.
        object: &'static str,
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refused, and that could not be written down.
    #[error(
        "the kernel refuses {object}: {reason}; its verifier's log could not be kept: {source}"
    )]
    RefusedUnkept {
        /// Which of the objects, by the name of its source.
        object: &'static str,
        /// The kernel's answer.
        reason: String,
        /// Why there is no file.
        source: io::Error,
    },
}

/// Whether programs can be loaded by this process into this kernel, as far as can be told without
/// trying: the feature is built in, it has the rights, and the kernel describes its types.
///
/// # Errors
/// What is missing: [`EbpfError::NotBuilt`], [`EbpfError::NotAllowed`] or [`EbpfError::NoTypes`].
pub fn available() -> Result<(), EbpfError> {
    if !cfg!(feature = "ebpf") {
        return Err(EbpfError::NotBuilt);
    }
    if !may_load() {
        return Err(EbpfError::NotAllowed);
    }
    if !std::path::Path::new(KERNEL_TYPES).exists() {
        return Err(EbpfError::NoTypes);
    }
    Ok(())
}

/// CAP_BPF and its companions count in the first user namespace only (capabilities(7)).
fn may_load() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    let needed = CapabilitySet::BPF | CapabilitySet::NET_ADMIN | CapabilitySet::PERFMON;
    let all = CapabilitySet::SYS_ADMIN | CapabilitySet::NET_ADMIN;
    let held = capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(needed) || sets.effective.contains(all));
    held && in_first_user_namespace()
}

/// The first user namespace maps every id to itself (user_namespaces(7)).
fn in_first_user_namespace() -> bool {
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| {
        let mut words = map.split_whitespace();
        words.next() == Some("0") && words.next() == Some("0") && words.next() == Some("4294967295")
    })
}
