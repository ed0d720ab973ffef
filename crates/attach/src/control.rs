//! Controls a running `wansan attach`, through a Unix socket per process that only its user can open.
//!
//! A client sends one line of JSON, a [`Request`], and receives one line, an [`Answer`].

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::listen::{private, remove_stale};
use crate::runtime::{folder, own_folder};
use crate::status::Sharing;

/// Longest message, in bytes.
const MAX_MESSAGE_BYTES: u64 = 1 << 20;

/// Longest time a process may take to list its disks; one that takes longer is left out.
const PATIENCE: Duration = Duration::from_secs(5);

/// Longest time for a client to send its request, and to read the answer.
const ASKING: Duration = Duration::from_secs(1);

/// Poll interval while waiting for answers to be sent.
const LOOK: Duration = Duration::from_millis(5);

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// List the disks and their status.
    List,
    /// Detach the disk with this URL or at this serving place.
    Detach(String),
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The disks of the process.
    List(Vec<Listed>),
    /// Number of disks detached; 0 if none matched.
    Detached(usize),
    /// The error, in one line.
    Failed(String),
}

/// A disk that is attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Process ID.
    pub process: u32,
    /// Its URL.
    pub url: String,
    /// Where it is served.
    pub nbd: String,
    /// Its size, in bytes, once it is known.
    pub size_bytes: Option<u64>,
    /// `connected`, `recovering`, `lost`, `preempted`, or `waiting` for a target that has not been reachable yet.
    pub standing: String,
    /// Target connections that are up; one per route with multipath.
    pub connections_up: usize,
    /// Configured connections.
    pub connections: usize,
    /// Connected programs.
    pub clients: usize,
    /// Bytes acknowledged that may not be on the target's medium yet.
    pub behind_bytes: u64,
    /// Age of the oldest such byte, in ns.
    pub behind_ns: u64,
    /// Memory used by read-ahead data, in bytes.
    pub ahead_bytes: u64,
    /// The evidence that other initiators use the disk, if there is any.
    pub shared: Option<Sharing>,
    /// Whether it has a journal.
    pub journal: bool,
    /// The last attach attempt's error, while the disk is not attached.
    pub waits_for: Option<String>,
}

/// What the process does after it has sent its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Continues.
    Continue,
    /// Exits: its last disk was detached.
    End,
}

/// The control socket of a process that attaches disks. Dropping it waits for answers in progress and removes the
/// socket.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    /// One reference per conversation, and one for the accepting thread.
    conversing: Arc<()>,
}

impl Control {
    /// Answers requests with `answer`, each in its own thread; calls `end` after sending an answer that ends the
    /// process.
    ///
    /// # Errors
    /// The socket cannot be created.
    pub fn serve(
        answer: impl Fn(Request) -> (Answer, Then) + Send + Sync + 'static,
        end: impl Fn() + Send + Sync + 'static,
    ) -> io::Result<Control> {
        let folder = own_folder()?;
        let process = std::process::id();
        let path = folder.join(format!("attach-{process}"));
        let new = folder.join(format!("new-{process}"));
        remove_stale(&new)?;
        let socket = private(&new)?;
        // It listens before it gets its final name: a client whose connection is refused takes the socket for one left
        // by a crash.
        fs::rename(&new, &path)?;
        let work = Arc::new((answer, end));
        let conversing = Arc::new(());
        let share = Arc::clone(&conversing);
        thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || {
                for stream in socket.incoming().flatten() {
                    let work = Arc::clone(&work);
                    let share = Arc::clone(&share);
                    let client = thread::Builder::new().name("control".to_owned());
                    // If no thread can be created, the client gets no answer and retries.
                    let _ = client.spawn(move || {
                        let (answer, end) = &*work;
                        // A malformed request gets no answer.
                        let then = converse(&stream, answer);
                        drop(share);
                        if then.is_ok_and(|then| then == Then::End) {
                            end();
                        }
                    });
                }
            })?;
        Ok(Control { path, conversing })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // It may already have been removed.
        let _ = fs::remove_file(&self.path);
        // One reference is ours, one the accepting thread's. A client that sends nothing is dropped after `ASKING`.
        while Arc::strong_count(&self.conversing) > 2 {
            thread::sleep(LOOK);
        }
    }
}

fn converse(stream: &UnixStream, answer: &impl Fn(Request) -> (Answer, Then)) -> io::Result<Then> {
    stream.set_read_timeout(Some(ASKING))?;
    stream.set_write_timeout(Some(ASKING))?;
    let mut line = String::new();
    BufReader::new(stream.take(MAX_MESSAGE_BYTES)).read_line(&mut line)?;
    let (answer, then) = answer(serde_json::from_str(&line)?);
    // The request takes effect even if its client has disconnected.
    let _ = send(stream, &answer);
    Ok(then)
}

fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    stream.write_all(line.as_bytes())
}

/// Sends a request to every running `wansan attach` of this user and returns the answers. Removes sockets left by
/// crashes.
///
/// # Errors
/// The sockets' folder cannot be read.
pub fn ask_all(request: &Request) -> io::Result<Vec<Answer>> {
    let entries = match fs::read_dir(folder()) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with("attach-"))
    });
    paths.sort();
    Ok(paths.iter().filter_map(|path| ask(path, request)).collect())
}

/// Returns `None` if nothing listens there any more, or if the process exits before answering.
fn ask(path: &Path, request: &Request) -> Option<Answer> {
    let stream = match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error) => {
            if error.kind() == ErrorKind::ConnectionRefused {
                // A stale socket: it may already have been removed.
                let _ = fs::remove_file(path);
            }
            return None;
        }
    };
    if *request == Request::List {
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
    }
    send(&stream, request).ok()?;
    let mut line = String::new();
    let mut answer = BufReader::new((&stream).take(MAX_MESSAGE_BYTES));
    answer.read_line(&mut line).ok()?;
    serde_json::from_str(&line).ok()
}
