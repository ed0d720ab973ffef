//! eBPF programs in the running kernel: whether they can be loaded here, and loading them.
//!
//! The sources are in `src/bpf`, a file `NAME.bpf.c` for each object; the build script compiles them when the crate has
//! its feature `ebpf`. The kernel structures that they use are declared in `kernel.h` and found by name in the running
//! kernel's BTF, so one build fits many kernels. The log of the kernel's verifier is collected while an object is
//! loaded. When the kernel rejects an object, its log goes to a file that the error names. To keep the logs of all
//! loaded programs, set the environment variable WANSAN_VERIFIER_LOGS to a folder.

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

/// The running kernel's types, to which programs are relocated at load.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Loading a program, or using a loaded one, failed.
#[derive(Debug, thiserror::Error)]
pub enum EbpfError {
    /// This build contains no eBPF programs.
    #[error(
        "this wansan was built without eBPF: install clang, libelf-dev and zlib1g-dev, then build \
         it with `make build`, or with `cargo build --features ebpf`"
    )]
    NotBuilt,
    /// The process lacks the privileges.
    #[error(
        "eBPF programs need root (CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON in the first \
         user namespace)"
    )]
    NotAllowed,
    /// The kernel provides no BTF.
    #[error(
        "this kernel has no {KERNEL_TYPES}, which eBPF programs need: build it with \
         CONFIG_DEBUG_INFO_BTF"
    )]
    NoTypes,
    /// The verifier, or another check of the kernel, rejects the object.
    #[error(
        "the kernel rejects {object}: {reason}; the verifier's log is in {}",
        log.display()
    )]
    Refused {
        /// The object, by the name of its source.
        object: &'static str,
        /// The kernel's error.
        reason: String,
        /// The log of libbpf and the verifier.
        log: PathBuf,
    },
    /// The verifier's log of a loaded object could not be written where WANSAN_VERIFIER_LOGS says.
    #[error(
        "cannot write the verifier's log of {object} in {} (WANSAN_VERIFIER_LOGS): {source}",
        folder.display()
    )]
    Unkept {
        /// The object, by the name of its source.
        object: &'static str,
        /// The folder.
        folder: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The kernel rejected the object, and the log could not be written.
    #[error(
        "the kernel rejects {object}: {reason}; the verifier's log could not be written: {source}"
    )]
    RefusedUnkept {
        /// The object, by the name of its source.
        object: &'static str,
        /// The kernel's error.
        reason: String,
        /// Why there is no file.
        source: io::Error,
    },
}

/// Whether this process can load programs into this kernel, as far as can be checked without trying: the feature is
/// built in, the process has the privileges, and the kernel provides its types.
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

/// CAP_BPF and its companions are effective in the first user namespace only (capabilities(7)).
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
