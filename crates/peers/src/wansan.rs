//! The `wansan` binary, started the way its users start it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{Finished, PeerError, Running, run};

/// The target name of every [`Target`].
pub const TARGET_NAME: &str = "iqn.2026-11.net.example:wansan";
const START_LIMIT: Duration = Duration::from_secs(20);

/// A running `wansan target`. Dropping it stops it and removes its files.
#[derive(Debug)]
pub struct Target {
    // Stopped before its folder is removed: fields drop in order.
    process: Running,
    listening: Value,
    folder: TempDir,
}

impl Target {
    /// Starts `binary target` on a free loopback port with `arguments` (logical units and all other options) and waits
    /// until it listens.
    ///
    /// # Errors
    /// It does not come up; the error contains its output.
    pub fn start(binary: &Path, arguments: &[&str]) -> Result<Self, PeerError> {
        Self::start_at(binary, "127.0.0.1:0", arguments)
    }

    /// See [`Target::start`]; at `portal` (`ADDRESS:PORT`).
    ///
    /// # Errors
    /// See [`Target::start`].
    pub fn start_at(binary: &Path, portal: &str, arguments: &[&str]) -> Result<Self, PeerError> {
        let own = [
            "target",
            "--json",
            "--listen",
            portal,
            "--name",
            TARGET_NAME,
        ];
        let (process, listening, folder) = start(binary, &[&own, arguments].concat(), "listening")?;
        Ok(Self {
            process,
            listening,
            folder,
        })
    }

    /// Its portal, `ADDRESS:PORT`.
    pub fn address(&self) -> &str {
        self.listening["address"].as_str().unwrap_or_default()
    }

    /// The address of its metrics, if it serves them.
    pub fn metrics_address(&self) -> Option<&str> {
        self.listening["metrics"].as_str()
    }

    /// The URL of logical unit `lun`.
    pub fn url(&self, lun: u64) -> String {
        format!("iscsi://{}/{TARGET_NAME}/{lun}", self.address())
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its standard error so far.
    pub fn log(&self) -> String {
        read_log(self.folder.path())
    }

    /// Asks it to exit (SIGTERM), as a user does, and returns its exit status.
    ///
    /// # Errors
    /// It does not exit.
    pub fn stop(self) -> Result<ExitStatus, PeerError> {
        self.process.stop()
    }
}

fn log(folder: &Path) -> PathBuf {
    folder.join("stderr")
}

fn read_log(folder: &Path) -> String {
    std::fs::read_to_string(log(folder)).unwrap_or_default()
}

/// A running `wansan attach` of one disk. Dropping it stops it.
#[derive(Debug)]
pub struct Attach {
    process: Running,
    attached: Value,
    folder: TempDir,
    /// The folder of its socket, if that is its own.
    _sockets: Option<TempDir>,
}

impl Attach {
    /// Starts `binary attach` of the disk at `url` with `arguments`, served at a Unix socket, and waits until it
    /// serves.
    ///
    /// # Errors
    /// It does not come up; the error contains its output.
    pub fn start(binary: &Path, url: &str, arguments: &[&str]) -> Result<Self, PeerError> {
        let sockets =
            TempDir::with_prefix("wansan-attach-").map_err(|source| PeerError::System {
                program: "wansan attach".to_owned(),
                source,
            })?;
        let attach = Self::start_at(binary, url, &sockets.path().join("disk"), arguments)?;
        Ok(Self {
            _sockets: Some(sockets),
            ..attach
        })
    }

    /// See [`Attach::start`]; at that socket.
    ///
    /// # Errors
    /// See [`Attach::start`].
    pub fn start_at(
        binary: &Path,
        url: &str,
        socket: &Path,
        arguments: &[&str],
    ) -> Result<Self, PeerError> {
        let place = format!("unix:{}", socket.display());
        let own = ["attach", url, "--json", "--nbd", &place];
        let (process, attached, folder) = start(binary, &[&own, arguments].concat(), "attached")?;
        Ok(Self {
            process,
            attached,
            folder,
            _sockets: None,
        })
    }

    /// Its socket.
    pub fn socket(&self) -> &str {
        let place = self.attached["nbd"].as_str().unwrap_or_default();
        place.strip_prefix("unix:").unwrap_or(place)
    }

    /// Its URI for NBD clients.
    pub fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket())
    }

    /// Its report of the disk.
    pub fn attached(&self) -> &Value {
        &self.attached
    }

    /// The process id.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// Its standard error so far.
    pub fn log(&self) -> String {
        read_log(self.folder.path())
    }

    /// Asks it to exit (SIGTERM), as a user does, and returns its exit status.
    ///
    /// # Errors
    /// It does not exit.
    pub fn stop(self) -> Result<ExitStatus, PeerError> {
        self.process.stop()
    }
}

/// Starts a server and waits for its first line, a JSON object with that `event`.
fn start(
    binary: &Path,
    arguments: &[&str],
    event: &'static str,
) -> Result<(Running, Value, TempDir), PeerError> {
    let program = format!("wansan {}", arguments.first().unwrap_or(&""));
    let system = |source| PeerError::System {
        program: program.clone(),
        source,
    };
    let folder = TempDir::with_prefix("wansan-server-").map_err(system)?;
    let mut command = Command::new(binary);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(File::create(log(folder.path())).map_err(system)?);
    let mut process = Running::start(&mut command)?;
    let stdout = process.take_stdout().expect("the command was given a pipe");
    let (sender, first_line) = mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = BufReader::new(stdout).lines();
        // The caller may have stopped waiting; the pipe is drained all the same, so that the server never blocks on it.
        let _ = sender.send(lines.next());
        lines.for_each(drop);
    });
    let line = first_line.recv_timeout(START_LIMIT);
    let started = match &line {
        Ok(Some(Ok(line))) => serde_json::from_str::<Value>(line).ok(),
        _ => None,
    };
    match started.filter(|line| line["event"] == event) {
        Some(started) => Ok((process, started, folder)),
        None => {
            let log = read_log(folder.path());
            Err(match line {
                Err(RecvTimeoutError::Timeout) => PeerError::TimedOut {
                    program,
                    awaited: event,
                    limit: START_LIMIT,
                    output: log,
                },
                Ok(Some(Ok(line))) => PeerError::Failed {
                    program,
                    what: format!("its first line is no `{event}`"),
                    output: format!("{line}\n{log}"),
                },
                _ => PeerError::Failed {
                    program,
                    what: format!("it ended before it was {event}"),
                    output: log,
                },
            })
        }
    }
}

/// Runs `binary` with `arguments` to completion.
///
/// # Errors
/// It cannot be started or exceeds `limit`.
pub fn command(binary: &Path, arguments: &[&str], limit: Duration) -> Result<Finished, PeerError> {
    run(Command::new(binary).args(arguments), limit)
}

/// Runs `binary bench URL --json` with `arguments` and parses the object that it prints.
///
/// # Errors
/// It fails or prints anything else.
pub fn bench(
    binary: &Path,
    url: &str,
    arguments: &[&str],
    limit: Duration,
) -> Result<Value, PeerError> {
    let finished = run(
        Command::new(binary)
            .args(["bench", url, "--json"])
            .args(arguments),
        limit,
    )?
    .success()?;
    serde_json::from_str(&finished.stdout)
        .map_err(|error| finished.failure(format!("its output is not one JSON object: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_no_target_is_reported_with_what_it_said() {
        let error = Target::start(Path::new("/bin/ls"), &[]).unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("ended before it was listening") && error.contains("target"),
            "{error}"
        );
    }
}
