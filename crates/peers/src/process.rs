//! Runs programs: to completion with a time limit, or until dropped.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::program::Missing;

/// Poll interval.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// Time for a server to exit after SIGTERM before it is killed.
const STOP_LIMIT: Duration = Duration::from_secs(20);

/// Why a program gave no result.
#[derive(Debug, thiserror::Error)]
pub enum PeerError {
    /// The program is not on this machine.
    #[error(transparent)]
    Missing(#[from] Missing),
    /// The operating system could not start or watch the program.
    #[error("{program}: {source}")]
    System {
        /// The program's name.
        program: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The program did not reach a state in time.
    #[error("{program}: not {awaited} within {limit:?}; it printed:\n{output}")]
    TimedOut {
        /// The program's name.
        program: String,
        /// The awaited state.
        awaited: &'static str,
        /// The time limit.
        limit: Duration,
        /// Its output so far.
        output: String,
    },
    /// The program failed, or its output cannot be parsed.
    #[error("{program}: {what}; it printed:\n{output}")]
    Failed {
        /// The program's name.
        program: String,
        /// The error.
        what: String,
        /// Its output.
        output: String,
    },
    /// The measurement is below the machine's noise.
    #[error("{0}")]
    Noise(String),
    /// A program is not where it should have been built.
    #[error("{}: no such file; build it there, or unset {variable}", path.display())]
    NotBuilt {
        /// The environment variable that determines the path.
        variable: &'static str,
        /// The expected path.
        path: PathBuf,
    },
}

impl PeerError {
    /// The reason, briefly, why a program that ran gave no result.
    ///
    /// # Errors
    /// The error itself if the program did not run.
    pub fn without_result(self) -> Result<String, PeerError> {
        match self {
            PeerError::TimedOut { limit, .. } => Ok(format!("did not end within {limit:?}")),
            PeerError::Failed { what, .. } => Ok(what),
            error => Err(error),
        }
    }
}

/// An exited program and its output.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The program's name, for messages.
    pub program: String,
    /// Its exit status.
    pub status: ExitStatus,
    /// Its standard output. Bytes that are not UTF-8 are replaced.
    pub stdout: String,
    /// Its standard error, likewise.
    pub stderr: String,
    /// Time from start to exit.
    pub elapsed: Duration,
}

impl Finished {
    /// Both outputs concatenated.
    pub fn output(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// The program itself, or an error with its output if its exit status is not 0.
    ///
    /// # Errors
    /// [`PeerError::Failed`] for any other exit status or a signal.
    pub fn success(self) -> Result<Self, PeerError> {
        if self.status.success() {
            Ok(self)
        } else {
            Err(self.failure(self.status.to_string()))
        }
    }

    /// An error with this description and the program's output.
    pub fn failure(&self, what: impl Into<String>) -> PeerError {
        PeerError::Failed {
            program: self.program.clone(),
            what: what.into(),
            output: self.output(),
        }
    }
}

/// Runs `command` to completion; kills it after `limit`.
///
/// # Errors
/// [`PeerError::System`] if it cannot be started, [`PeerError::TimedOut`] if it was killed. A nonzero exit status is
/// not an error here: see [`Finished::success`].
pub fn run(command: &mut Command, limit: Duration) -> Result<Finished, PeerError> {
    let started = Instant::now();
    let mut running = Running::start(
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped()),
    )?;
    let stdout = running.child.stdout.take().map(read_to_end);
    let stderr = running.child.stderr.take().map(read_to_end);
    let status = running.wait(limit)?;
    let program = running.program.clone();
    let killed = status.is_none();
    let status = match status {
        Some(status) => status,
        None => running.kill()?,
    };
    let elapsed = started.elapsed();
    let finished = Finished {
        program,
        status,
        stdout: text_of(stdout),
        stderr: text_of(stderr),
        elapsed,
    };
    if killed {
        return Err(PeerError::TimedOut {
            output: finished.output(),
            program: finished.program,
            awaited: "done",
            limit,
        });
    }
    Ok(finished)
}

fn read_to_end(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // A broken pipe has delivered what there was; the exit status tells the rest.
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}

fn text_of(reader: Option<JoinHandle<Vec<u8>>>) -> String {
    let bytes = reader
        .and_then(|thread| thread.join().ok())
        .unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A running program. Dropping it kills it by its process ID and reaps it.
#[derive(Debug)]
pub struct Running {
    program: String,
    child: Child,
}

impl Running {
    /// Starts `command` with its outputs as configured by the caller.
    ///
    /// # Errors
    /// [`PeerError::System`] if the system cannot start it.
    pub fn start(command: &mut Command) -> Result<Self, PeerError> {
        let program = command.get_program().to_string_lossy().into_owned();
        match command.spawn() {
            Ok(child) => Ok(Self { program, child }),
            Err(source) => Err(PeerError::System { program, source }),
        }
    }

    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The program's standard input, if it is a pipe that has not been taken.
    pub fn take_stdin(&mut self) -> Option<std::process::ChildStdin> {
        self.child.stdin.take()
    }

    /// The program's standard output, if it is a pipe that has not been taken.
    pub fn take_stdout(&mut self) -> Option<std::process::ChildStdout> {
        self.child.stdout.take()
    }

    /// Waits up to `limit` for its exit; `None` if it still runs.
    ///
    /// # Errors
    /// [`PeerError::System`] if the system call fails.
    pub fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>, PeerError> {
        let until = Instant::now() + limit;
        loop {
            let status = self
                .child
                .try_wait()
                .map_err(|source| self.system(source))?;
            if status.is_some() || Instant::now() >= until {
                return Ok(status);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Asks the program to exit (SIGTERM) and waits for it.
    ///
    /// # Errors
    /// [`PeerError::TimedOut`] if it does not exit; it is then killed.
    pub fn stop(mut self) -> Result<ExitStatus, PeerError> {
        self.signal(Signal::TERM)?;
        match self.wait(STOP_LIMIT)? {
            Some(status) => Ok(status),
            None => Err(PeerError::TimedOut {
                program: self.program.clone(),
                awaited: "ended after SIGTERM",
                limit: STOP_LIMIT,
                output: String::new(),
            }),
        }
    }

    /// Sends `signal` to the program; does nothing if it has exited.
    ///
    /// # Errors
    /// [`PeerError::System`] if the system refuses.
    pub fn signal(&mut self, signal: Signal) -> Result<(), PeerError> {
        if self.wait(Duration::ZERO)?.is_some() {
            return Ok(());
        }
        let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) else {
            return Ok(());
        };
        rustix::process::kill_process(pid, signal).map_err(|errno| self.system(errno.into()))
    }

    fn kill(&mut self) -> Result<ExitStatus, PeerError> {
        self.child.kill().map_err(|source| self.system(source))?;
        self.child.wait().map_err(|source| self.system(source))
    }

    fn system(&self, source: std::io::Error) -> PeerError {
        PeerError::System {
            program: self.program.clone(),
            source,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Only an unreaped child still owns its process ID.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.kill();
        }
    }
}

/// A loopback address with a port that was free just now. The host is one of 127/8 that no other process of these
/// suites uses, so that a server bound to port 0 cannot be given the same port meanwhile; any other program may take
/// it, so callers retry with another one if their server does not come up.
///
/// # Errors
/// The system's error if no port is left.
pub fn free_address() -> std::io::Result<SocketAddr> {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, high, low, NEXT.fetch_add(1, Ordering::Relaxed));
    TcpListener::bind((host, 0))?.local_addr()
}

/// Waits until `server` accepts connections at `address`; `false` if it exits or `limit` expires.
///
/// # Errors
/// [`PeerError::System`] if the server's state cannot be determined.
pub fn wait_for_listener(
    server: &mut Running,
    address: SocketAddr,
    limit: Duration,
) -> Result<bool, PeerError> {
    let until = Instant::now() + limit;
    while Instant::now() < until {
        if TcpStream::connect(address).is_ok() {
            return Ok(true);
        }
        if server.wait(LOOK_AGAIN)?.is_some() {
            return Ok(false);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finished_program_shows_its_outputs_and_status() {
        let finished = run(
            Command::new("sh").args(["-c", "echo out; echo err >&2; exit 3"]),
            Duration::from_secs(30),
        )
        .unwrap();
        assert_eq!(finished.status.code(), Some(3));
        assert_eq!(
            (finished.stdout.as_str(), finished.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert!(
            finished
                .success()
                .unwrap_err()
                .to_string()
                .contains("exit status: 3")
        );
    }

    #[test]
    fn a_program_over_its_limit_is_killed_and_shows_what_it_printed() {
        let error = run(
            Command::new("sh").args(["-c", "echo begun; exec sleep 600"]),
            Duration::from_millis(300),
        )
        .unwrap_err();
        assert!(matches!(error, PeerError::TimedOut { ref output, .. } if output == "begun\n"));
    }

    #[test]
    fn dropping_ends_the_process() {
        let running = Running::start(Command::new("sleep").arg("600")).unwrap();
        let folder = format!("/proc/{}", running.id());
        assert!(std::path::Path::new(&folder).exists());
        drop(running);
        assert!(!std::path::Path::new(&folder).exists());
    }

    #[test]
    fn stopping_ends_it_by_signal() {
        let running = Running::start(Command::new("sleep").arg("600")).unwrap();
        assert_eq!(running.stop().unwrap().code(), None);
    }
}
