//! A role that holds programs in namespaces until it is killed, and tests of what remains afterwards.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use super::Arm;

/// Longer than any machine takes to end processes.
const PATIENCE: Duration = Duration::from_secs(20);

impl Arm {
    /// Starts this test program in a role that ends in [`until_killed`]; returns its process and the process IDs of the
    /// programs that it holds.
    ///
    /// # Errors
    /// The process cannot be started, or ends before it holds them.
    pub fn holds(self, words: &[&str]) -> Result<(Child, Vec<u32>), Failed> {
        let mut holder = self
            .role(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()?;
        let mut line = String::new();
        BufReader::new(holder.stdout.take().expect("piped")).read_line(&mut line)?;
        let programs: Result<Vec<u32>, _> = line.split_whitespace().map(str::parse).collect();
        Ok((holder, programs?))
    }
}

/// Ends a role that holds the programs with these process IDs: waits to be killed.
pub fn until_killed(programs: &[impl Display]) -> ! {
    let ids: Vec<String> = programs.iter().map(ToString::to_string).collect();
    println!("{}", ids.join(" "));
    loop {
        std::thread::park();
    }
}

/// Whether a process is alive.
#[must_use]
pub fn is_alive(id: u32) -> bool {
    // An orphaned dead process is a zombie until init reaps it.
    std::fs::read_to_string(format!("/proc/{id}/stat")).is_ok_and(|stat| {
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        !after_name.starts_with(" Z")
    })
}

/// The network namespace of a process.
///
/// # Errors
/// No such process, or no permission to inspect it.
pub fn network_of(id: u32) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/{id}/ns/net"))
}

/// Whether any process that we may inspect is in that network namespace.
#[must_use]
pub fn is_inhabited(network: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut networks = processes.map(|process| std::fs::read_link(process.path().join("ns/net")));
    networks.any(|other| other.is_ok_and(|other| other == network))
}

/// Waits until `done` returns true.
///
/// # Errors
/// `otherwise`, after 20 s.
pub fn wait_until(mut done: impl FnMut() -> bool, otherwise: &str) -> Result<(), String> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if done() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Err(otherwise.to_owned())
}
