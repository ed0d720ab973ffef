//! Speaking to a `wansan attach` that runs: a Unix socket for each process, which its user alone can open.
//!
//! A client sends one line of JSON, a [`Request`], and gets one back, an [`Answer`].

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

/// How long a process may take to list its disks; one that takes longer is left out.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a client may take to ask, and to take its answer.
const ASKING: Duration = Duration::from_secs(1);

/// How often it is looked whether all answers are given.
const LOOK: Duration = Duration::from_millis(5);

/// What a client asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// How the disks stand.
    List,
    /// Detach the disk with this URL, or served at this place.
    Detach(String),
}

/// What it gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The disks of the process.
    List(Vec<Listed>),
    /// So many disks were detached; 0 when it has none of that name.
    Detached(usize),
    /// What went wrong, in one line.
    Failed(String),
}

/// A disk that is attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// The process.
    pub process: u32,
    /// Which.
    pub url: String,
    /// Where programs find it.
    pub nbd: String,
    /// Its size, in bytes, once it is known.
    pub size_bytes: Option<u64>,
    /// `connected`, `recovering`, `lost`, `preempted`, or `waiting` for a target that could not be reached yet.
    pub standing: String,
    /// Connections to the target that are up; one for each route with multipath.
    pub connections_up: usize,
    /// Configured connections.
    pub connections: usize,
    /// Programs that are connected.
    pub clients: usize,
    /// Bytes acknowledged that may not be on the target's medium yet.
    pub behind_bytes: u64,
    /// Age of the oldest such byte, in ns.
    pub behind_ns: u64,
    /// Memory taken by what is read ahead, in bytes.
    pub ahead_bytes: u64,
    /// How it is known that others use the disk, if they do.
    pub shared: Option<Sharing>,
    /// Whether it has a journal.
    pub journal: bool,
    /// What the last attempt to attach it failed with, if it is not attached yet.
    pub waits_for: Option<String>,
}

/// What a process does once its answer is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Goes on.
    Continue,
    /// Ends: its last disk was detached.
    End,
}

/// A process that attaches disks is spoken to at this socket; it goes when this is dropped, which waits for the answers
/// that are being given.
#[derive(Debug)]
pub struct Control {
    path: PathBuf,
    /// Every conversation has a share of it, and so has the thread that accepts them.
    conversing: Arc<()>,
}

impl Control {
    /// Answers requests by `answer`, each in a thread of its own; `end` follows when an answer was sent that ends the
    /// process.
    ///
    /// # Errors
    /// When the socket cannot be made.
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
        // Under its name it listens: who finds it refused takes it for a crash's.
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
                    // Without a thread the client hears nothing, and asks again.
                    let _ = client.spawn(move || {
                        let (answer, end) = &*work;
                        // A client that does not ask as it should gets nothing.
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
        // Whoever removed it before us did what we want.
        let _ = fs::remove_file(&self.path);
        // One share is ours, one the accepting thread's. A client that asks nothing ends after `ASKING`.
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
    // The request is carried out even if its client has gone.
    let _ = send(stream, &answer);
    Ok(then)
}

fn send(mut stream: &UnixStream, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    stream.write_all(line.as_bytes())
}

/// Asks every `wansan attach` of this user that runs, and returns their answers. Sockets that a crash has left are
/// removed.
///
/// # Errors
/// When the folder with their sockets cannot be read.
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

/// `None` when nobody listens there any more, or ends before it has answered.
fn ask(path: &Path, request: &Request) -> Option<Answer> {
    let stream = match UnixStream::connect(path) {
        Ok(stream) => stream,
        Err(error) => {
            if error.kind() == ErrorKind::ConnectionRefused {
                // Nobody needs it, whether it is there or not.
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
