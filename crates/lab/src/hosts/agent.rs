//! `wansan lab attend`: the lab's agent on a host, on the remote side of an `ssh` connection.
//!
//! Programs are its children and die with it; it exits when its standard input closes or is silent for too long. So
//! nothing keeps running after the lab has ended in any way, or the connection is lost. Its folder contains the
//! programs' records, and the copy of `wansan` that it runs from, if copied.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use wansan_trace::{clock, file};

use super::protocol::{Hello, MAX_MESSAGE_BYTES, Reply, Request, SILENCE_S, Watched};
use crate::lines;
use crate::plan::RecordKind;
use crate::processors::Processors;
use crate::record::{machine, recorded_as};
use crate::world::{Process, in_force};

/// Interval for sampling programs' threads, and for checking whether a program that has closed its output has exited.
const POLL: Duration = Duration::from_millis(50);
/// Timeout for the last output of an exited program.
const LAST_LIMIT: Duration = Duration::from_secs(1);
/// Suffix of the host's name, for records of programs' threads.
const LAB: &str = "lab";

/// Serves the lab on standard input and output until it ends. `folder` must be used by nobody else; it is removed if
/// nothing else is in it.
///
/// # Errors
/// The folder or the standard streams cannot be used.
pub fn attend(folder: &Path) -> io::Result<()> {
    let mut agent = Agent::begin(folder)?;
    let heard = listen(agent.out.clone())?;
    agent.greet()?;
    agent.serve(&heard);
    Ok(())
}

/// Output for replies, one whole message at a time.
type Out = Arc<Mutex<File>>;

fn say(out: &Out, reply: &Reply) -> io::Result<()> {
    let mut out = out.lock().unwrap_or_else(PoisonError::into_inner);
    lines::write(&mut *out, reply)
}

/// Input from the lab.
enum Heard {
    Asked(Request),
    /// A keep-alive.
    Alive,
}

/// Reads requests in its own thread, which answers clock requests immediately.
fn listen(out: Out) -> io::Result<Receiver<Heard>> {
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (give, heard) = mpsc::sync_channel(64);
    thread::Builder::new()
        .name("listen".to_owned())
        .spawn(move || {
            let mut input = BufReader::new(input);
            while let Ok(Some(request)) = lines::read(&mut input, MAX_MESSAGE_BYTES) {
                let heard = match request {
                    Request::Clock { sent_ns } => {
                        let read_ns = clock::now().ns();
                        if say(&out, &Reply::Clock { sent_ns, read_ns }).is_err() {
                            return;
                        }
                        Heard::Alive
                    }
                    other => Heard::Asked(other),
                };
                if give.send(heard).is_err() {
                    return;
                }
            }
        })?;
    Ok(heard)
}

struct Agent {
    out: Out,
    folder: PathBuf,
    records: PathBuf,
    program: PathBuf,
    host: String,
    processors: Processors,
    programs: BTreeMap<u64, Program>,
}

/// A program, until it has exited.
type Program = Arc<Mutex<Option<Process>>>;

impl Agent {
    fn begin(folder: &Path) -> io::Result<Agent> {
        let records = folder.join("records");
        fs::create_dir(&records)?;
        Ok(Agent {
            out: Arc::new(Mutex::new(File::from(
                io::stdout().as_fd().try_clone_to_owned()?,
            ))),
            folder: folder.to_owned(),
            records,
            program: std::env::current_exe()?,
            host: String::new(),
            processors: Processors::new(&[], 0),
            programs: BTreeMap::new(),
        })
    }

    fn greet(&self) -> io::Result<()> {
        let hello = Hello {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("WANSAN_COMMIT").to_owned(),
            sha256: sha256_of(&self.program)?,
            records: self.records.clone(),
            uid: rustix::process::getuid().as_raw(),
            machine: machine(),
            settings: in_force(),
        };
        say(&self.out, &Reply::Hello(Box::new(hello)))
    }

    /// Serves requests until the input ends.
    fn serve(&mut self, heard: &Receiver<Heard>) {
        let mut last = Instant::now();
        loop {
            let served = match heard.recv_timeout(POLL) {
                Ok(what) => {
                    last = Instant::now();
                    match what {
                        Heard::Asked(request) => self.answer(request),
                        Heard::Alive => Ok(()),
                    }
                }
                Err(RecvTimeoutError::Timeout) => Ok(()),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if served.is_err() || last.elapsed() > Duration::from_secs(SILENCE_S) {
                return;
            }
            self.processors.sample();
        }
    }

    /// Fails only if the connection is lost.
    fn answer(&mut self, request: Request) -> io::Result<()> {
        match request {
            Request::Clock { .. } => {}
            Request::Address { address } => {
                let is_own = is_own(address);
                say(&self.out, &Reply::Address { is_own })?;
            }
            Request::Begin {
                host,
                thread_memory_bytes,
            } => {
                let kinds = [RecordKind::Thread];
                let kinds = &kinds[..usize::from(thread_memory_bytes.is_some())];
                self.processors = Processors::new(kinds, thread_memory_bytes.unwrap_or(0));
                self.host = host;
            }
            Request::Start {
                program,
                arguments,
                settings,
                watched,
            } => self.start(program, &arguments, &settings, watched.as_ref())?,
            Request::Release { program } => self.with(program, Process::release),
            Request::Terminate { program } => self.with(program, |process| process.terminate()),
            Request::Kill { program } => {
                if let Some(process) = self.programs.remove(&program) {
                    process
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .take();
                }
            }
            Request::Collect => {
                let problem = self.collect()?.err();
                self.programs.clear();
                say(&self.out, &Reply::Collected { problem })?;
            }
        }
        Ok(())
    }

    fn with(&self, program: u64, act: impl FnOnce(&mut Process)) {
        if let Some(process) = self.programs.get(&program) {
            let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
            process.as_mut().map(act);
        }
    }

    fn start(
        &mut self,
        program: u64,
        arguments: &[String],
        settings: &str,
        watched: Option<&Watched>,
    ) -> io::Result<()> {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        // The title is for errors, which the lab words itself.
        let started = Process::spawn_held("it".to_owned(), command, settings.as_bytes());
        let mut process = match started {
            Ok(process) => process,
            Err(error) => {
                return say(
                    &self.out,
                    &Reply::Ended {
                        program,
                        status: Err(error.to_string()),
                        stderr: String::new(),
                    },
                );
            }
        };
        if let Some((what, role)) = watched.and_then(|it| Some((&it.what, it.role()?))) {
            self.processors.watch(&self.host, what, role, process.id());
        }
        let lines = process.take_lines();
        let process = Arc::new(Mutex::new(Some(process)));
        self.programs.insert(program, Arc::clone(&process));
        let out = self.out.clone();
        thread::Builder::new()
            .name("program".to_owned())
            .spawn(move || follow(program, &lines, &process, &out))
            .map(drop)
    }

    /// Sends every record file and removes it. The inner error describes a failure; the outer means that the connection
    /// is lost.
    fn collect(&mut self) -> io::Result<Result<(), String>> {
        let none = Processors::new(&[], 0);
        let threads = std::mem::replace(&mut self.processors, none).end();
        let written = file::write_part(&self.records, &recorded_as(&self.host, LAB), &[threads]);
        if let Err(error) = written {
            return Ok(Err(error.to_string()));
        }
        let paths = match files_in(&self.records) {
            Ok(paths) => paths,
            Err(error) => return Ok(Err(error.to_string())),
        };
        for path in paths {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
            let (bytes, file) = match opened {
                Ok(opened) => opened,
                Err(error) => return Ok(Err(format!("{name}: {error}"))),
            };
            let mut out = self.out.lock().unwrap_or_else(PoisonError::into_inner);
            let reply = Reply::File {
                name: name.into_owned(),
                bytes,
            };
            lines::write(&mut *out, &reply)?;
            if io::copy(&mut file.take(bytes), &mut *out)? < bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            drop(out);
            fs::remove_file(&path)?;
        }
        Ok(Ok(()))
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        for process in self.programs.values() {
            process
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
        }
        // Remove only what it has created, or what was created for it, and only if still there.
        let _ = fs::remove_dir_all(&self.records);
        if self.program.parent() == Some(&self.folder) {
            let _ = fs::remove_file(&self.program);
        }
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Forwards a program's output until it exits.
fn follow(program: u64, lines: &Receiver<String>, process: &Program, out: &Out) {
    for text in lines {
        if say(out, &Reply::Line { program, text }).is_err() {
            return;
        }
    }
    loop {
        let mut process = process.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = process.as_mut() else {
            // It was killed.
            return;
        };
        if matches!(running.is_running(), Ok(true)) {
            drop(process);
            thread::sleep(POLL / 10);
            continue;
        }
        let ended = process.take().map(|process| process.end(LAST_LIMIT));
        let (status, stderr) = match ended {
            Some(Ok(ended)) => (Ok(ended.status.into_raw()), ended.stderr),
            Some(Err(error)) => (Err(error.to_string()), String::new()),
            None => return,
        };
        // Fails only if the agent is about to end, too.
        let _ = say(
            out,
            &Reply::Ended {
                program,
                status,
                stderr,
            },
        );
        return;
    }
}

/// Whether this is an address of this computer.
fn is_own(address: Ipv4Addr) -> bool {
    TcpListener::bind((address, 0)).is_ok()
}

fn files_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths: Vec<PathBuf> = entries.collect::<io::Result<_>>()?;
    paths.sort();
    Ok(paths)
}

/// The SHA-256 of a file, in hexadecimal.
pub(crate) fn sha256_of(path: &Path) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut file = File::open(path)?;
    let mut chunk = vec![0; 1 << 18];
    loop {
        match file.read(&mut chunk)? {
            0 => break,
            read => hash.update(&chunk[..read]),
        }
    }
    let digest = hash.finalize();
    Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
}
