//! A connection to the agent on a host over `ssh`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, SyncSender, TrySendError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use wansan_trace::clock;

use super::HostsError;
use super::protocol::{Exchange, GREETING, Hello, MAX_MESSAGE_BYTES, Reply, Request, Watched};
use super::ssh;
use crate::lines;
use crate::plan::RealHost;
use crate::world::{Elsewhere, Process, Tail};

/// Timeout for a host's greeting and for its agent's answers.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// How often a waiting caller checks whether the run should stop.
const STOP_POLL: Duration = Duration::from_millis(50);
/// Interval between clock exchanges, which also serve as keep-alives.
const EXCHANGE_EVERY: Duration = Duration::from_millis(100);
/// Most clock exchanges kept per cell.
const MAX_EXCHANGES: usize = 100_000;
/// Time for a dismissed agent to clean up.
const LEAVE_LIMIT: Duration = Duration::from_secs(5);
/// Most queued lines of a program's output.
const MAX_LINES: usize = 1024;
/// Most output of a login shell before the greeting, in bytes.
const MAX_NOISE_BYTES: u64 = 64 << 10;
/// Most bytes of records that a host may send per cell.
const MAX_RECORDED_BYTES: u64 = 64 << 30;
/// Chunk size for copying the program, in bytes.
const PIECE_BYTES: usize = 1 << 18;

/// The connection. Dropping it ends the agent, which kills its programs and removes what it has created.
#[derive(Debug)]
pub(crate) struct Connection {
    host: RealHost,
    ssh: Child,
    stderr: Tail,
    shared: Arc<Shared>,
    events: Receiver<Event>,
    /// The threads that read and that exchange clocks.
    threads: Vec<JoinHandle<()>>,
    next_program: AtomicU64,
}

/// State shared by a connection's threads.
#[derive(Debug)]
struct Shared {
    /// `None` once it should end.
    input: Mutex<Option<ChildStdin>>,
    programs: Mutex<BTreeMap<u64, Arc<Program>>>,
    exchanges: Mutex<Vec<Exchange>>,
    /// The transfer of records in progress.
    collecting: Mutex<Option<Collecting>>,
    is_lost: AtomicBool,
}

/// A transfer of records.
#[derive(Debug)]
struct Collecting {
    /// Destination folder.
    folder: PathBuf,
    /// Bytes that may still arrive.
    left_bytes: u64,
    /// The files received.
    files: Vec<PathBuf>,
}

/// Events that the connection's owner waits for.
#[derive(Debug)]
enum Event {
    /// The host's greeting: its system and architecture.
    Greeted(String, String),
    Hello(Box<Hello>),
    Address(bool),
    /// All records have arrived, or an error.
    Collected(Option<String>),
}

/// A program on the host, and its local state.
#[derive(Debug)]
struct Program {
    /// `None` once it has exited.
    lines: Mutex<Option<SyncSender<String>>>,
    ended: Mutex<Option<(Result<ExitStatus, String>, String)>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    /// Starts connecting. The calling thread has to outlive the connection.
    ///
    /// # Errors
    /// [`HostsError::NoSsh`].
    pub(super) fn open(
        host: &RealHost,
        config: Option<&Path>,
        copied_bytes: Option<u64>,
    ) -> Result<Connection, HostsError> {
        let mut ssh = ssh::command(host, config, copied_bytes)
            .spawn()
            .map_err(HostsError::NoSsh)?;
        let output = ssh.stdout.take().expect("piped");
        let shared = Arc::new(Shared {
            input: Mutex::new(ssh.stdin.take()),
            programs: Mutex::default(),
            exchanges: Mutex::default(),
            collecting: Mutex::default(),
            is_lost: AtomicBool::new(false),
        });
        let (give, events) = mpsc::channel();
        let reads = Arc::clone(&shared);
        let reader = thread::spawn(move || {
            reads.read(output, &give);
            reads.lose();
        });
        Ok(Connection {
            host: host.clone(),
            stderr: Tail::of(ssh.stderr.take().expect("piped")),
            ssh,
            shared,
            events,
            threads: vec![reader],
            next_program: AtomicU64::new(1),
        })
    }

    /// The host.
    pub(crate) fn host(&self) -> &RealHost {
        &self.host
    }

    /// Waits for the greeting; returns the host's system and architecture.
    pub(super) fn greeting(&self, stop: &AtomicBool) -> Result<(String, String), HostsError> {
        match self.event(stop)? {
            Event::Greeted(system, machine) => Ok((system, machine)),
            other => Err(self.nonsense(&other)),
        }
    }

    /// Sends the program.
    pub(super) fn copy(&self, program: &Path, stop: &AtomicBool) -> Result<(), HostsError> {
        let unread = |source| HostsError::OwnProgram {
            path: program.to_owned(),
            source,
        };
        let mut file = File::open(program).map_err(unread)?;
        let mut piece = vec![0; PIECE_BYTES];
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(HostsError::Interrupted);
            }
            let read = file.read(&mut piece).map_err(unread)?;
            if read == 0 {
                return Ok(());
            }
            let mut input = locked(&self.shared.input);
            let sent = input.as_mut().map(|input| input.write_all(&piece[..read]));
            if !matches!(sent, Some(Ok(()))) {
                drop(input);
                return Err(self.lost());
            }
        }
    }

    /// Waits for the agent, and starts exchanging clocks with it.
    pub(super) fn hello(&mut self, stop: &AtomicBool) -> Result<Box<Hello>, HostsError> {
        let hello = match self.event(stop)? {
            Event::Hello(hello) => hello,
            other => return Err(self.nonsense(&other)),
        };
        let shared = Arc::clone(&self.shared);
        self.threads.push(thread::spawn(move || {
            let ask = || {
                let sent_ns = clock::now().ns();
                shared.say(&Request::Clock { sent_ns })
            };
            while ask().is_ok() {
                thread::sleep(EXCHANGE_EVERY);
            }
        }));
        Ok(hello)
    }

    /// Whether the host has the address that the plan gives it.
    pub(super) fn has_its_address(&self, stop: &AtomicBool) -> Result<bool, HostsError> {
        let address = self.host.address;
        self.ask(&Request::Address { address })?;
        match self.event(stop)? {
            Event::Address(is_own) => Ok(is_own),
            other => Err(self.nonsense(&other)),
        }
    }

    /// Prepares the agent for a cell.
    pub(super) fn begin(&self, thread_memory_bytes: Option<u64>) -> Result<(), HostsError> {
        locked(&self.shared.programs).clear();
        locked(&self.shared.exchanges).clear();
        self.ask(&Request::Begin {
            host: self.host.name.clone(),
            thread_memory_bytes,
        })
    }

    /// Starts `wansan` with these arguments and with `settings` on its standard input, which stays open.
    pub(crate) fn start(
        &self,
        title: &str,
        arguments: Vec<String>,
        settings: String,
        watched: Option<Watched>,
    ) -> Result<Process, HostsError> {
        let number = self.next_program.fetch_add(1, Ordering::Relaxed);
        let (give, lines) = mpsc::sync_channel(MAX_LINES);
        let program = Arc::new(Program {
            lines: Mutex::new(Some(give)),
            ended: Mutex::new(None),
        });
        locked(&self.shared.programs).insert(number, Arc::clone(&program));
        let remote = Remote {
            host: self.host.name.clone(),
            number,
            program,
            shared: Arc::clone(&self.shared),
        };
        self.ask(&Request::Start {
            program: number,
            arguments,
            settings,
            watched,
        })?;
        Ok(Process::elsewhere(
            title.to_owned(),
            Box::new(remote),
            lines,
        ))
    }

    /// Fetches all records into `folder`; returns the files.
    pub(super) fn collect(
        &self,
        folder: &Path,
        stop: &AtomicBool,
    ) -> Result<Vec<PathBuf>, HostsError> {
        *locked(&self.shared.collecting) = Some(Collecting {
            folder: folder.to_owned(),
            left_bytes: MAX_RECORDED_BYTES,
            files: Vec::new(),
        });
        // Ensures at least one clock exchange, however short the cell was.
        let sent_ns = clock::now().ns();
        self.ask(&Request::Clock { sent_ns })?;
        self.ask(&Request::Collect)?;
        let problem = match self.patient_event(stop)? {
            Event::Collected(problem) => problem,
            other => return Err(self.nonsense(&other)),
        };
        let collected = locked(&self.shared.collecting).take();
        match problem {
            None => Ok(collected.map_or_else(Vec::new, |collected| collected.files)),
            Some(reason) => Err(HostsError::Records {
                host: self.host.name.clone(),
                reason,
            }),
        }
    }

    /// The clock exchanges since the cell began.
    pub(super) fn exchanges(&self) -> Vec<Exchange> {
        locked(&self.shared.exchanges).clone()
    }

    fn ask(&self, request: &Request) -> Result<(), HostsError> {
        self.shared.say(request).map_err(|_| self.lost())
    }

    /// The next event, within the answer timeout.
    fn event(&self, stop: &AtomicBool) -> Result<Event, HostsError> {
        let deadline = Instant::now() + ANSWER_LIMIT;
        self.next(stop, || Instant::now() < deadline)
    }

    /// The next event, as long as the host is alive.
    fn patient_event(&self, stop: &AtomicBool) -> Result<Event, HostsError> {
        self.next(stop, || true)
    }

    fn next(&self, stop: &AtomicBool, goes_on: impl Fn() -> bool) -> Result<Event, HostsError> {
        loop {
            match self.events.recv_timeout(STOP_POLL) {
                Ok(event) => return Ok(event),
                Err(RecvTimeoutError::Disconnected) => return Err(self.lost()),
                Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => {
                    return Err(HostsError::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) if goes_on() => {}
                Err(RecvTimeoutError::Timeout) => {
                    return Err(HostsError::Silent {
                        host: self.host.name.clone(),
                        limit: ANSWER_LIMIT,
                    });
                }
            }
        }
    }

    /// The error for a lost connection, with ssh's last output.
    pub(super) fn lost(&self) -> HostsError {
        let said = self.stderr.last_words();
        let said = said.lines().map(str::trim).rfind(|line| !line.is_empty());
        let said = said.unwrap_or("the connection was closed");
        HostsError::Lost {
            host: self.host.name.clone(),
            ssh: self.host.ssh.clone(),
            said: said.chars().take(300).collect(),
            remedy: ssh::remedy(said),
        }
    }

    fn nonsense(&self, event: &Event) -> HostsError {
        HostsError::Nonsense {
            host: self.host.name.clone(),
            said: format!("{event:?}").chars().take(200).collect(),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // The agent sees end of file, and exits.
        *locked(&self.shared.input) = None;
        let deadline = Instant::now() + LEAVE_LIMIT;
        while matches!(self.ssh.try_wait(), Ok(None)) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        // Both fail only if it has exited already.
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
        for thread in self.threads.drain(..) {
            // A panic has been reported by its hook.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn say(&self, request: &Request) -> io::Result<()> {
        match locked(&self.input).as_mut() {
            Some(input) if !self.is_lost.load(Ordering::Relaxed) => lines::write(input, request),
            _ => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    /// Reads until the end of the stream or a protocol error.
    fn read(&self, output: ChildStdout, events: &Sender<Event>) {
        let mut output = BufReader::new(output);
        let Some(greeted) = greeting(&mut output) else {
            return;
        };
        if events.send(greeted).is_err() {
            return;
        }
        while let Ok(Some(reply)) = lines::read(&mut output, MAX_MESSAGE_BYTES) {
            let received = clock::now();
            let event = match reply {
                Reply::Clock { sent_ns, read_ns } => {
                    let moment = wansan_trace::Instant::from_ns;
                    let mut exchanges = locked(&self.exchanges);
                    if exchanges.len() < MAX_EXCHANGES {
                        exchanges.push(Exchange {
                            sent: moment(sent_ns),
                            read: moment(read_ns),
                            received,
                        });
                    }
                    continue;
                }
                Reply::Line { program, text } => match self.line(program, text) {
                    Ok(()) => continue,
                    Err(()) => return,
                },
                Reply::Ended {
                    program,
                    status,
                    stderr,
                } => {
                    if let Some(program) = locked(&self.programs).get(&program) {
                        *locked(&program.ended) = Some((status.map(ExitStatus::from_raw), stderr));
                        *locked(&program.lines) = None;
                    }
                    continue;
                }
                Reply::File { name, bytes } => match self.take(&name, bytes, &mut output) {
                    Ok(()) => continue,
                    Err(error) => {
                        // The bytes that follow would be parsed as messages.
                        let problem = Some(format!("{name}: {error}"));
                        let _ = events.send(Event::Collected(problem));
                        return;
                    }
                },
                Reply::Hello(hello) => Event::Hello(hello),
                Reply::Address { is_own } => Event::Address(is_own),
                Reply::Collected { problem } => Event::Collected(problem),
            };
            if events.send(event).is_err() {
                return;
            }
        }
    }

    /// Forwards a line; fails if its reader is too far behind.
    fn line(&self, program: u64, text: String) -> Result<(), ()> {
        let program = locked(&self.programs).get(&program).map(Arc::clone);
        let lines = program.as_ref().map(|program| locked(&program.lines));
        match lines.as_ref().and_then(|lines| lines.as_ref()) {
            Some(lines) => match lines.try_send(text) {
                Err(TrySendError::Full(_)) => Err(()),
                _ => Ok(()),
            },
            None => Ok(()),
        }
    }

    /// Receives a record file.
    fn take(&self, name: &str, bytes: u64, output: &mut impl BufRead) -> io::Result<()> {
        let mut collecting = locked(&self.collecting);
        let Some(collecting) = collecting.as_mut() else {
            return Err(io::Error::other("nobody has asked for it"));
        };
        let is_part = |name: &str| {
            let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            name.ends_with(".part.parquet") && !name.starts_with('.') && name.chars().all(fits)
        };
        if !is_part(name) {
            return Err(io::Error::other("this is no file of records"));
        }
        collecting.left_bytes = collecting
            .left_bytes
            .checked_sub(bytes)
            .ok_or_else(|| io::Error::other("these are more records than a cell can have"))?;
        let path = collecting.folder.join(name);
        let mut file = File::create_new(&path)?;
        collecting.files.push(path);
        match io::copy(&mut output.take(bytes), &mut file)? {
            copied if copied < bytes => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Marks the connection as lost, and wakes all waiters.
    fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
        for program in locked(&self.programs).values() {
            *locked(&program.lines) = None;
        }
    }
}

/// Reads up to the greeting, skipping a login shell's output.
fn greeting(output: &mut impl BufRead) -> Option<Event> {
    let mut noise = output.take(MAX_NOISE_BYTES);
    loop {
        let mut line = Vec::new();
        if noise.read_until(b'\n', &mut line).ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&line);
        let mut words = line.split_whitespace();
        if let (Some(GREETING), Some(system), Some(machine)) =
            (words.next(), words.next(), words.next())
        {
            return Some(Event::Greeted(system.to_owned(), machine.to_owned()));
        }
    }
}

/// A program on a host, as seen by its waiter.
#[derive(Debug)]
struct Remote {
    host: String,
    number: u64,
    program: Arc<Program>,
    shared: Arc<Shared>,
}

impl Elsewhere for Remote {
    fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match &*locked(&self.program.ended) {
            Some((Ok(status), _)) => Ok(Some(*status)),
            Some((Err(reason), _)) => Err(io::Error::other(reason.clone())),
            None if self.shared.is_lost.load(Ordering::Relaxed) => {
                let host = &self.host;
                Err(io::Error::other(format!(
                    "the connection to host `{host}` is lost"
                )))
            }
            None => Ok(None),
        }
    }

    fn release(&mut self) {
        // If the connection is lost, the waiter learns it elsewhere.
        let _ = self.shared.say(&Request::Release {
            program: self.number,
        });
    }

    fn terminate(&self) {
        let _ = self.shared.say(&Request::Terminate {
            program: self.number,
        });
    }

    fn stderr(&self) -> String {
        let ended = locked(&self.program.ended);
        let said = ended.as_ref().map(|(_, stderr)| stderr.clone());
        said.unwrap_or_default()
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        if locked(&self.program.ended).is_none() {
            let _ = self.shared.say(&Request::Kill {
                program: self.number,
            });
        }
    }
}
