//! The programs that wansan is compared with, and wansan itself, started as users start it.
//!
//! Tests and benchmarks start real programs on loopback: Debian's `tgtd`, the tools of libiscsi, `qemu-img`, and the
//! `wansan` binary. This crate finds them, starts and stops them, and parses their output. Tests and benchmarks define
//! the expectations.
//!
//! - [`program`] finds a program, or names the package that provides it;
//! - [`python`] finds Python with packages from PyPI;
//! - [`process`] runs one to completion, or keeps one running until dropped;
//! - [`tgtd`] and [`wansan`] are the two targets;
//! - [`cunit`], [`perf`] and [`qemu`] parse the output of `iscsi-test-cu`, `iscsi-perf` and QEMU's tools;
//! - [`session`] logs in to a target and then stays idle;
//! - [`trial`] runs a test that counts as not run if its peer is missing;
//! - [`compare`] measures ours and its peers in turns and returns the ratio, [`question`] selects what is measured, and
//!   [`verdict`] judges it against a bound;
//! - [`guest`] is a virtual machine with Debian's kernel;
//! - [`haproxy`] is another proxy;
//! - [`qemu_nbd`] is another NBD server;
//! - [`cpu`] reads the CPU time of a process, [`memory`] its resident memory, and [`machine`] what other programs use
//!   meanwhile.
//!
//! Nothing here needs root, a fixed port or a fixed folder: several instances can run side by side.

pub mod compare;
pub mod cpu;
pub mod cunit;
pub mod guest;
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
