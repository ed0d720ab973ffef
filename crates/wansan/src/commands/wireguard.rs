//! `wansan wireguard`: one router's ends of WireGuard tunnels, started by the lab.

use std::io::{stdin, stdout};

use anyhow::Result;

/// Serves the tunnels of the configuration on standard input until killed.
///
/// # Errors
/// The error that prevents serving; the exit status is then 2.
pub(crate) fn run() -> Result<std::process::ExitCode> {
    match wansan_wireguard::run(stdin().lock(), stdout().lock())? {}
}
