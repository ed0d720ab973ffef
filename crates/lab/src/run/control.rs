//! Controls a running lab, through a Unix socket in its run folder that only its user can open.
//!
//! A client sends one line of JSON, a [`Request`], and receives one line, an [`Answer`]. The socket is addressed
//! through the folder's descriptor, since the kernel limits socket paths to 107 bytes.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags, fchmod, open};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, listen, socket_with,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::course::Stage;
use wansan_schema::{PathChange, PathResult};

use crate::plan::Statement;

/// The socket's name in the run folder.
const SOCKET: &str = "control";
/// Backlog of the listening socket.
const BACKLOG: i32 = 8;
/// Longest request, in bytes.
const MAX_REQUEST_BYTES: u64 = 1 << 16;
/// Longest answer, in bytes.
const MAX_ANSWER_BYTES: u64 = 64 << 20;
/// Timeout of either end.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for a client to send its request.
const ASKING: Duration = Duration::from_secs(1);
/// How often to check whether a change has been applied.
const POLL: Duration = Duration::from_millis(1);

/// A client's request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Show the state of the running cell's paths.
    Show,
    /// Apply these changes together.
    Set(Vec<String>),
}

/// The answer to a [`Request`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The state of the paths.
    Show(Shown),
    /// The changes and their times.
    Set(Vec<PathChange>),
    /// The reason for a refusal, in one line.
    Refused(String),
}

/// The paths of a running cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The cell's number.
    pub cell: u64,
    /// Time since its initiators were started.
    pub after_ns: u64,
    /// Each direction of each emulated path.
    pub paths: Vec<PathResult>,
    /// The changes so far.
    pub timeline: Vec<PathChange>,
}

/// Why a running lab cannot be controlled. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No run in the folder is active.
    #[error("no lab is running in {}: start one with `wansan lab run`, or name its run folder with --run", .0.display())]
    NoneRuns(PathBuf),
    /// The run has ended, or the folder is not a run's.
    #[error("{}: no lab is running there", .0.display())]
    NotRunning(PathBuf),
    /// The lab does not answer, or not with the expected protocol.
    #[error("{}: cannot ask the lab: {reason}", folder.display())]
    Unanswered {
        /// The run's folder.
        folder: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The lab refuses.
    #[error("{0}")]
    Refused(String),
}

/// Sends a request to the lab whose run is in `folder`.
///
/// # Errors
/// [`ControlError`], also for a refusal.
pub fn ask(folder: &Path, request: &Request) -> Result<Answer, ControlError> {
    let mut stream = connect(folder)?;
    let unanswered = |error: io::Error| ControlError::Unanswered {
        folder: folder.to_owned(),
        reason: match error.kind() {
            io::ErrorKind::WouldBlock => "it does not answer in time".to_owned(),
            _ => error.to_string(),
        },
    };
    stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| write_message(&mut stream, request))
        .map_err(unanswered)?;
    match read_message(stream, MAX_ANSWER_BYTES).map_err(unanswered)? {
        Answer::Refused(reason) => Err(ControlError::Refused(reason)),
        answer => Ok(answer),
    }
}

/// The folder of the newest active run in `out`.
///
/// # Errors
/// [`ControlError::NoneRuns`].
pub fn running(out: &Path) -> Result<PathBuf, ControlError> {
    let found = all_running(out).next();
    found.ok_or_else(|| ControlError::NoneRuns(out.to_owned()))
}

/// Whether the run in `folder` is active.
#[must_use]
pub fn is_running(folder: &Path) -> bool {
    folder.join(SOCKET).exists() && connect(folder).is_ok()
}

/// The folder of the run identified by `wanted`: a path, or for the newest active run in `out`, its plan's name or a
/// prefix of its own, as for stored runs. A name without a match is treated as a path.
#[must_use]
pub fn find(out: &Path, wanted: &str) -> PathBuf {
    let path = PathBuf::from(wanted);
    if path.join(SOCKET).exists() {
        return path;
    }
    let name = |path: Option<&Path>| {
        let name = path.and_then(Path::file_name);
        name.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    };
    let is_meant = |run: &PathBuf| {
        let (plan, run) = (name(run.parent()), name(Some(run)));
        !wanted.is_empty()
            && (plan == wanted
                || run.starts_with(wanted)
                || format!("{plan}/{run}").starts_with(wanted))
    };
    all_running(out).find(is_meant).unwrap_or(path)
}

/// The folders of the active runs in `out`, newest first.
fn all_running(out: &Path) -> impl Iterator<Item = PathBuf> {
    let subfolders = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path())
    };
    let mut runs: Vec<PathBuf> = subfolders(out)
        .flat_map(|plan| subfolders(&plan).collect::<Vec<_>>())
        .collect();
    // Names start with the time.
    runs.sort_by(|one, other| other.file_name().cmp(&one.file_name()));
    runs.into_iter().filter(|run| is_running(run))
}

fn connect(folder: &Path) -> Result<UnixStream, ControlError> {
    let connected = by_descriptor(folder).and_then(|(_folder, path)| UnixStream::connect(path));
    connected.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound
        | io::ErrorKind::NotADirectory
        | io::ErrorKind::ConnectionRefused => ControlError::NotRunning(folder.to_owned()),
        _ => ControlError::Unanswered {
            folder: folder.to_owned(),
            reason: error.to_string(),
        },
    })
}

/// A short path of the socket in a folder, valid while the descriptor is open.
fn by_descriptor(folder: &Path) -> io::Result<(OwnedFd, String)> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = open(folder, flags, Mode::empty())?;
    let path = format!("/proc/self/fd/{}/{SOCKET}", folder.as_raw_fd());
    Ok((folder, path))
}

fn write_message(stream: &mut UnixStream, said: &impl Serialize) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut line = serde_json::to_string(said)?;
    line.push('\n');
    stream.write_all(line.as_bytes())
}

fn read_message<T: DeserializeOwned>(stream: impl Read, most_bytes: u64) -> io::Result<T> {
    let mut line = String::new();
    BufReader::new(stream.take(most_bytes)).read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// Answers requests for a run in its own thread, until dropped.
#[derive(Debug)]
pub(super) struct Server {
    socket: PathBuf,
    /// Shutting this down ends the thread.
    hang_up: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts listening in the run's folder.
    pub(super) fn start(folder: &Path, stage: Arc<Stage>) -> io::Result<Server> {
        let (_folder, path) = by_descriptor(folder)?;
        let socket = socket_with(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        )?;
        // The file inherits the socket's mode, so that nobody else can ever open it.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        listen(&socket, BACKLOG)?;
        let (hang_up, hung_up) = UnixStream::pair()?;
        let listener = UnixListener::from(socket);
        let thread = thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || serve(&listener, &hung_up, &stage))?;
        Ok(Server {
            socket: folder.join(SOCKET),
            hang_up: Some(hang_up),
            thread: Some(thread),
        })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.hang_up = None;
        if let Some(thread) = self.thread.take() {
            thread.join().expect("answering does not panic");
        }
        // The folder may already be removed.
        let _ = fs::remove_file(&self.socket);
    }
}

fn serve(listener: &UnixListener, hung_up: &UnixStream, stage: &Stage) {
    loop {
        let mut ready = [
            PollFd::new(listener, PollFlags::IN),
            PollFd::new(hung_up, PollFlags::IN),
        ];
        if poll(&mut ready, None).is_err() {
            continue;
        }
        if !ready[1].revents().is_empty() {
            return;
        }
        // A client that disconnects early is not an error.
        if let Ok((stream, _)) = listener.accept() {
            let _ = attend(stream, stage);
        }
    }
}

fn attend(mut stream: UnixStream, stage: &Stage) -> io::Result<()> {
    stream.set_read_timeout(Some(ASKING))?;
    let answer = match read_message(&stream, MAX_REQUEST_BYTES) {
        Ok(request) => answer(request, stage),
        Err(error) => Answer::Refused(format!("not a valid request: {error}")),
    };
    write_message(&mut stream, &answer)
}

fn answer(request: Request, stage: &Stage) -> Answer {
    let nobody =
        || Answer::Refused("no cell of the run is under load just now: try again".to_owned());
    let lines = match request {
        Request::Show => {
            let shown = stage.with(|course| course.shown());
            return shown.map_or_else(nobody, Answer::Show);
        }
        Request::Set(lines) => lines,
    };
    let statements: Result<Vec<Statement>, _> =
        lines.iter().map(|line| Statement::parse(line)).collect();
    let statements = match statements {
        Ok(statements) => statements,
        Err(mistake) => return Answer::Refused(mistake.to_string()),
    };
    let places = match stage.with(|course| course.set(&statements)) {
        None => return nobody(),
        Some(Err(refused)) => return Answer::Refused(refused),
        Some(Ok(places)) => places,
    };
    let until = Instant::now() + PATIENCE / 2;
    loop {
        let Some((changes, settled)) = stage.with(|course| course.outcome(places.clone())) else {
            return nobody();
        };
        if let Some(refused) = changes.iter().find_map(|change| change.refused.clone()) {
            return Answer::Refused(refused);
        }
        if settled || Instant::now() > until {
            return Answer::Set(changes);
        }
        thread::sleep(POLL);
    }
}
