//! The programs that wansan is held against, and wansan itself as its users start it.
//!
//! Tests and benchmarks start real programs on loopback: Debian's `tgtd`, the tools of libiscsi,
//! `qemu-img`, and the `wansan` binary. This crate finds them, starts and stops them, and reads
//! what they print. It judges nothing: what has to hold is said by the test or benchmark.
//!
//! - [`program`] finds a program, or says which package brings it;
//! - [`python`] finds Python with packages from PyPI;
//! - [`process`] runs one to its end, or keeps one running until it is dropped;
//! - [`tgtd`] and [`wansan`] are the two targets;
//! - [`cunit`], [`perf`] and [`qemu`] read what `iscsi-test-cu`, `iscsi-perf` and QEMU's tools
//!   print;
//! - [`session`] is logged in to a target and does nothing;
//! - [`trial`] runs a test that counts as not run when its peer is missing;
//! - [`compare`] measures ours and its peers in turns and gives the ratio, [`question`] chooses what is measured,
//!   and a [`verdict`] says what that means for a bound;
//! - [`haproxy`] is another proxy;
//! - [`qemu_nbd`] is another server of disks;
//! - [`cpu`] reads the CPU time that a process has used, [`memory`] what it has in memory, and [`machine`] what other
//!   programs take meanwhile.
//!
//! Nothing here needs root, a fixed port or a folder of its own: several can run side by side.

pub mod compare;
pub mod cpu;
pub mod cunit;
pub mod haproxy;
pub mod machine;
pub mod memory;
pub mod perf;
pub mod process;
pub mod program;
pub mod python;
pub mod qemu;
pub mod qemu_nbd;
pub mod question;
pub mod session;
pub mod tgtd;
pub mod trial;
pub mod verdict;
pub mod wansan;
