//! Events from the kernel, by eBPF programs.

#[cfg(not(feature = "ebpf"))]
mod absent;
#[cfg(feature = "ebpf")]
mod callers;
#[cfg(feature = "ebpf")]
mod decode;
#[cfg(feature = "ebpf")]
mod kernel;

#[cfg(not(feature = "ebpf"))]
pub(super) use absent::Events;
#[cfg(feature = "ebpf")]
pub(super) use kernel::Events;
