//! `wansan wireguard`: one router's ends of WireGuard tunnels, as the lab starts it.

use std::io::{stdin, stdout};

use anyhow::Result;

/// Serves the tunnels of the config on standard input until the process is killed.
///
/// # Errors
/// Whatever keeps the tunnels from being served; the exit status is 2 then.
pub(crate) fn run() -> Result<std::process::ExitCode> {
    match wansan_wireguard::run(stdin().lock(), stdout().lock())? {}
}
