//! A program on a host.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::precedence;
use rustix::process::{
    Pid, Signal, getpid, getppid, kill_process, set_parent_process_death_signal,
};

/// Longest output line of a program; longer ones are split.
const MAX_LINE_BYTES: u64 = 1 << 20;
/// Most queued lines of standard output, before the program blocks.
const MAX_LINES: usize = 1024;
/// Length of the tail of standard error kept for messages.
const STDERR_TAIL_BYTES: usize = 16 * 1024;
/// How often a program's exit is polled.
const POLL: Duration = Duration::from_millis(2);
/// How often a waiting caller checks whether the run should stop.
const STOP_POLL: Duration = Duration::from_millis(50);
/// Time limit for draining the pipes of an exited program.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Errors of a program on a host. Messages include the tail of its standard error.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// It could not be started.
    #[error("cannot start {title}: {source}")]
    Start {
        /// The program and its host.
        title: String,
        /// The error.
        source: std::io::Error,
    },
    /// It exited before the awaited output, or with a failure.
    #[error("{title} ended with {status}{stderr}")]
    Ended {
        /// The program and its host.
        title: String,
        /// Its exit status.
        status: ExitStatus,
        /// The tail of its standard error on one line, after `: `, or nothing.
        stderr: String,
    },
    /// It exceeded its time limit.
    #[error("{title} did not {awaited} within {} s{stderr}", limit.as_secs())]
    TooLong {
        /// The program and its host.
        title: String,
        /// What was awaited.
        awaited: &'static str,
        /// The time limit.
        limit: Duration,
        /// The tail of its standard error on one line, after `: `, or nothing.
        stderr: String,
    },
    /// Its status cannot be queried.
    #[error("cannot wait for {title}: {source}")]
    Wait {
        /// The program and its host.
        title: String,
        /// The error.
        source: std::io::Error,
    },
}

/// The result of an exited program.
#[derive(Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// Its unread standard output, as lines.
    pub lines: Vec<String>,
    /// The tail of its standard error.
    pub stderr: String,
}

/// A running program. It has its own session (see [`super::precedence`]), so that Ctrl-C at the terminal reaches the
/// lab only, which then ends its programs in order. It is killed on drop, and by the kernel if the lab dies before
/// that.
///
/// A program on another computer ([`Process::elsewhere`]) has the same interface.
#[derive(Debug)]
pub struct Process {
    title: String,
    running: Running,
    lines: Receiver<String>,
}

#[derive(Debug)]
enum Running {
    Here {
        child: Child,
        /// Standard input of a held program.
        held: Option<ChildStdin>,
        stderr: Tail,
    },
    Elsewhere(Box<dyn Elsewhere>),
}

/// A program started by somebody else on another computer. Dropping it kills it.
pub(crate) trait Elsewhere: std::fmt::Debug + Send {
    /// Its exit status, once it has exited.
    ///
    /// # Errors
    /// Its status is unknown, as the connection to its computer is lost.
    fn try_wait(&mut self) -> std::io::Result<Option<ExitStatus>>;
    /// Closes its standard input.
    fn release(&mut self);
    /// Asks it to exit (SIGTERM).
    fn terminate(&self);
    /// The tail of its standard error, once it has exited.
    fn stderr(&self) -> String;
}

/// The tail of a program's standard error, read continuously.
#[derive(Debug)]
pub(crate) struct Tail {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// Disconnects at the end of the stream.
    end: Receiver<Infallible>,
}

impl Tail {
    /// Reads a pipe to its end, in its own thread.
    pub(crate) fn of(mut pipe: impl Read + Send + 'static) -> Tail {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&bytes);
        let (reading, end) = mpsc::channel();
        thread::spawn(move || {
            let _reading = reading;
            let mut chunk = [0; 4096];
            while let Ok(n) = pipe.read(&mut chunk) {
                if n == 0 {
                    break;
                }
                let mut kept = kept.lock().expect("nobody panics while holding it");
                kept.extend_from_slice(&chunk[..n]);
                let excess = kept.len().saturating_sub(STDERR_TAIL_BYTES);
                kept.drain(..excess);
            }
        });
        Tail { bytes, end }
    }

    /// The tail so far.
    pub(crate) fn so_far(&self) -> String {
        let bytes = self.bytes.lock().expect("nobody panics while holding it");
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The tail, once the program has exited and its output has been read.
    pub(crate) fn last_words(&self) -> String {
        // A child of its own may keep the pipe open: then use what has arrived.
        let _ = self.end.recv_timeout(LAST_WORDS);
        self.so_far()
    }
}

impl Process {
    /// Starts `command` as a child of the calling thread, which must outlive it, as a host's does.
    pub(super) fn spawn(title: String, command: Command) -> Result<Process, ProcessError> {
        Process::spawn_with(title, command, Stdio::null())
    }

    /// Like [`Process::spawn`], with `input` followed by end of file on standard input. Use it for secrets: others can
    /// read arguments and files.
    pub(super) fn spawn_fed(
        title: String,
        command: Command,
        input: &[u8],
    ) -> Result<Process, ProcessError> {
        let mut process = Process::spawn_held(title, command, input)?;
        process.release();
        Ok(process)
    }

    /// Like [`Process::spawn_fed`], but standard input stays open after `input` until [`Process::release`].
    pub(crate) fn spawn_held(
        title: String,
        command: Command,
        input: &[u8],
    ) -> Result<Process, ProcessError> {
        let mut process = Process::spawn_with(title, command, Stdio::piped())?;
        let Running::Here { child, held, .. } = &mut process.running else {
            unreachable!("it was spawned here");
        };
        let mut pipe = child.stdin.take().expect("piped above");
        match pipe.write_all(input) {
            // It exited before it had read everything: its own output gives the reason.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(ProcessError::Start {
                title: process.title.clone(),
                source: error,
            }),
            _ => {
                *held = Some(pipe);
                Ok(process)
            }
        }
    }

    fn spawn_with(
        title: String,
        mut command: Command,
        stdin: Stdio,
    ) -> Result<Process, ProcessError> {
        command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        stand_alone(&mut command);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(source) => return Err(ProcessError::Start { title, source }),
        };
        let (give, lines) = mpsc::sync_channel(MAX_LINES);
        let stdout = child.stdout.take().expect("piped above");
        thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = String::new();
            while matches!((&mut reader).take(MAX_LINE_BYTES).read_line(&mut line), Ok(n) if n > 0)
            {
                let text = std::mem::take(&mut line);
                if give.send(text.trim_end().to_owned()).is_err() {
                    break;
                }
            }
        });
        let stderr = Tail::of(child.stderr.take().expect("piped above"));
        Ok(Process {
            title,
            running: Running::Here {
                child,
                held: None,
                stderr,
            },
            lines,
        })
    }

    /// A program on another computer, whose standard output arrives in `lines`, which disconnects at the end.
    pub(crate) fn elsewhere(
        title: String,
        program: Box<dyn Elsewhere>,
        lines: Receiver<String>,
    ) -> Process {
        Process {
            title,
            running: Running::Elsewhere(program),
            lines,
        }
    }

    /// Takes the channel of its lines, for a separate thread: [`Process::line`] and [`Process::end`] then return none.
    pub(crate) fn take_lines(&mut self) -> Receiver<String> {
        let (_, none) = mpsc::sync_channel(0);
        std::mem::replace(&mut self.lines, none)
    }

    /// The next line of standard output.
    ///
    /// # Errors
    /// [`ProcessError::Ended`] if the program exits first, [`ProcessError::TooLong`] if no line arrives within `limit`.
    pub fn line(&mut self, awaited: &'static str, limit: Duration) -> Result<String, ProcessError> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(line),
            Err(RecvTimeoutError::Timeout) => Err(self.too_long(awaited, limit)),
            Err(RecvTimeoutError::Disconnected) => {
                let status = self.wait(awaited, limit)?;
                Err(self.ended(status))
            }
        }
    }

    /// See [`Process::line`]; returns `None` as soon as `stop` is set.
    ///
    /// # Errors
    /// See [`Process::line`].
    pub fn line_unless(
        &mut self,
        stop: &AtomicBool,
        awaited: &'static str,
        limit: Duration,
    ) -> Result<Option<String>, ProcessError> {
        let deadline = Instant::now() + limit;
        loop {
            if stop.load(Ordering::Relaxed) {
                return Ok(None);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.line(awaited, left.min(STOP_POLL)) {
                Err(ProcessError::TooLong { .. }) if left > STOP_POLL => {}
                Err(ProcessError::TooLong { .. }) => return Err(self.too_long(awaited, limit)),
                other => return other.map(Some),
            }
        }
    }

    /// The program's process ID. It is not reused until the value is dropped.
    ///
    /// # Panics
    /// The program is on another computer: it has no process ID here.
    #[must_use]
    pub fn id(&self) -> u32 {
        match &self.running {
            Running::Here { child, .. } => child.id(),
            Running::Elsewhere(_) => panic!("{} runs on another computer", self.title),
        }
    }

    /// Processor time, user and system, used by all threads of the program so far.
    ///
    /// # Errors
    /// The program has exited and has been reaped.
    ///
    /// # Panics
    /// See [`Process::id`].
    pub fn cpu_time(&self) -> std::io::Result<Duration> {
        cpu_clock(self.id())
    }

    /// Closes the standard input of a held program, which lets it continue.
    pub fn release(&mut self) {
        match &mut self.running {
            Running::Here { held, .. } => *held = None,
            Running::Elsewhere(program) => program.release(),
        }
    }

    /// Asks the program to exit (SIGTERM). Does nothing if it has exited.
    pub fn terminate(&self) {
        match &self.running {
            Running::Here { child, .. } => {
                if let Some(pid) = Pid::from_raw(child.id() as i32) {
                    // The child is not yet reaped, so the process ID is still its own, even if it is dead.
                    let _ = kill_process(pid, Signal::TERM);
                }
            }
            Running::Elsewhere(program) => program.terminate(),
        }
    }

    /// Whether the program is still running.
    ///
    /// # Errors
    /// [`ProcessError::Wait`] if its status cannot be queried.
    pub fn is_running(&mut self) -> Result<bool, ProcessError> {
        match self.running.try_wait() {
            Ok(status) => Ok(status.is_none()),
            Err(source) => Err(ProcessError::Wait {
                title: self.title.clone(),
                source,
            }),
        }
    }

    /// Waits until the program exits.
    ///
    /// # Errors
    /// [`ProcessError::TooLong`] if it is still running after `limit`; it is then killed.
    pub fn end(mut self, limit: Duration) -> Result<Ended, ProcessError> {
        let deadline = Instant::now() + limit;
        let mut lines = Vec::new();
        // Drain standard output meanwhile, or a program with much output would never exit.
        let status = loop {
            lines.extend(self.lines.try_iter());
            match self.wait("end", Duration::ZERO) {
                Ok(status) => break status,
                Err(ProcessError::TooLong { .. }) if Instant::now() < deadline => {
                    thread::sleep(POLL);
                }
                Err(ProcessError::TooLong { .. }) => return Err(self.too_long("end", limit)),
                Err(other) => return Err(other),
            }
        };
        while let Ok(line) = self.lines.recv_timeout(LAST_WORDS) {
            lines.push(line);
        }
        Ok(Ended {
            status,
            lines,
            stderr: self.last_words(),
        })
    }

    /// Like [`Process::end`], but a nonzero exit status is an error too.
    ///
    /// # Errors
    /// [`ProcessError::TooLong`] and [`ProcessError::Ended`].
    pub fn succeed(self, limit: Duration) -> Result<Vec<String>, ProcessError> {
        let title = self.title.clone();
        let ended = self.end(limit)?;
        if ended.status.success() {
            Ok(ended.lines)
        } else {
            Err(ProcessError::Ended {
                title,
                status: ended.status,
                stderr: one_line(&ended.stderr),
            })
        }
    }

    fn wait(&mut self, awaited: &'static str, limit: Duration) -> Result<ExitStatus, ProcessError> {
        let deadline = Instant::now() + limit;
        loop {
            match self.running.try_wait() {
                Ok(Some(status)) => return Ok(status),
                Ok(None) if Instant::now() >= deadline => {
                    return Err(self.too_long(awaited, limit));
                }
                Ok(None) => thread::sleep(POLL),
                Err(source) => {
                    return Err(ProcessError::Wait {
                        title: self.title.clone(),
                        source,
                    });
                }
            }
        }
    }

    fn last_words(&self) -> String {
        match &self.running {
            Running::Here { stderr, .. } => stderr.last_words(),
            Running::Elsewhere(program) => program.stderr(),
        }
    }

    fn ended(&self, status: ExitStatus) -> ProcessError {
        ProcessError::Ended {
            title: self.title.clone(),
            status,
            stderr: one_line(&self.last_words()),
        }
    }

    fn too_long(&self, awaited: &'static str, limit: Duration) -> ProcessError {
        ProcessError::TooLong {
            title: self.title.clone(),
            awaited,
            limit,
            stderr: one_line(&match &self.running {
                Running::Here { stderr, .. } => stderr.so_far(),
                Running::Elsewhere(program) => program.stderr(),
            }),
        }
    }
}

impl Running {
    fn try_wait(&mut self) -> std::io::Result<Option<ExitStatus>> {
        match self {
            Running::Here { child, .. } => child.try_wait(),
            Running::Elsewhere(program) => program.try_wait(),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Running::Here { child, .. } = self {
            // Both fail only if the program has exited already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Reads a process's CPU-time clock (clock_getcpuclockid(3)), which counts nanoseconds where `/proc` counts ticks.
#[allow(unsafe_code, reason = "rustix knows no clocks of other processes")]
fn cpu_clock(id: u32) -> std::io::Result<Duration> {
    let mut clock = 0;
    // SAFETY: the call writes one clock id, for which `clock` has room.
    match unsafe { libc::clock_getcpuclockid(id as libc::pid_t, &mut clock) } {
        0 => {}
        errno => return Err(std::io::Error::from_raw_os_error(errno)),
    }
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one `struct timespec`, which `time` is.
    if unsafe { libc::clock_gettime(clock, &mut time) } < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

pub(crate) fn one_line(stderr: &str) -> String {
    let lines: Vec<&str> = stderr
        .lines()
        .map(str::trim)
        .filter(|l| !l.is_empty())
        .collect();
    if lines.is_empty() {
        String::new()
    } else {
        format!(": {}", lines.join(" | "))
    }
}

/// Puts the program into its own session, and makes the kernel kill it when the thread that starts it ends (prctl(2),
/// PR_SET_PDEATHSIG), and thus when the lab is killed.
#[allow(
    unsafe_code,
    reason = "a hook between fork and exec is unsafe to install"
)]
pub(crate) fn stand_alone(command: &mut Command) {
    let lab = getpid();
    let hook = move || {
        precedence::set_apart()?;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The lab may have died between fork and the line above; then no signal will come.
        if getppid() == Some(lab) {
            Ok(())
        } else {
            Err(rustix::io::Errno::SRCH.into())
        }
    };
    // SAFETY: between fork and exec only async-signal-safe functions may run; the hook makes
    // three plain system calls and neither allocates nor locks.
    unsafe {
        command.pre_exec(hook);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_shows_as_processor_time() {
        let mut command = Command::new("sh");
        command.args(["-c", "read word; echo $word; while :; do :; done"]);
        let mut process = Process::spawn_fed("it".to_owned(), command, b"secret\n").unwrap();
        let word = process.line("speak", Duration::from_secs(60)).unwrap();
        assert_eq!(word, "secret");
        let begin = process.cpu_time().unwrap();
        while process.cpu_time().unwrap() < begin + Duration::from_millis(5) {
            thread::sleep(POLL);
        }
    }

    #[test]
    fn a_held_program_goes_on_when_it_is_released() {
        let mut command = Command::new("sh");
        command.args(["-c", "read word; echo $word; read word; echo gone on"]);
        let mut process = Process::spawn_held("it".to_owned(), command, b"ready\n").unwrap();
        let ready = process.line("be ready", Duration::from_secs(60)).unwrap();
        assert_eq!(ready, "ready");
        let early = process.line("speak", Duration::from_millis(50));
        assert!(
            matches!(early, Err(ProcessError::TooLong { .. })),
            "{early:?}"
        );
        process.release();
        let word = process.line("speak", Duration::from_secs(60)).unwrap();
        assert_eq!(word, "gone on");
    }

    #[test]
    fn who_waits_for_a_line_hears_that_the_run_is_to_stop() {
        let mut silent = Command::new("sleep");
        silent.arg("1000");
        let mut process = Process::spawn("it".to_owned(), silent).unwrap();
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(STOP_POLL * 2);
                stop.store(true, Ordering::Relaxed);
            });
            let line = process.line_unless(&stop, "speak", Duration::from_secs(3600));
            assert_eq!(line.unwrap(), None);
        });
        let go_on = AtomicBool::new(false);
        let error = process.line_unless(&go_on, "speak", STOP_POLL * 3);
        assert!(
            matches!(error, Err(ProcessError::TooLong { limit, .. }) if limit == STOP_POLL * 3)
        );
    }

    #[test]
    fn the_last_words_of_a_program_are_heard() {
        for _ in 0..30 {
            let mut command = Command::new("sh");
            command.args([
                "-c",
                "head -c 60000 /dev/zero >&2; echo the reason >&2; exit 3",
            ]);
            let mut process = Process::spawn("it".to_owned(), command).unwrap();
            let error = process.line("speak", Duration::from_secs(60)).unwrap_err();
            assert!(error.to_string().ends_with("the reason"), "{error:?}");
        }
    }
}
