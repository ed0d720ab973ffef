//! The NBD connection of a program that uses a disk.

use std::collections::BTreeMap;
use std::io;

use rustix::io::Errno as SystemErrno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::sync::Arc;
use wansan_cache::{Action, Answer, Failure, Outcome, Range};
use wansan_nbd::server::{Command, Event, Reply, Request, RequestId, Server, ServerError};
use wansan_nbd::wire::Errno;
use wansan_nbd::{Export, Extent};

use crate::listen::Stream;

/// Most open requests of one program, and bytes that they read and write: at these limits its socket is not read.
const MOST_OPEN: usize = 512;
const MOST_OPEN_BYTES: u64 = 64 << 20;

/// Most unsent reply bytes of a program: at this limit its socket is not read.
const MOST_UNSENT_BYTES: usize = 16 << 20;

/// An open request, and its identity in the program's protocol.
#[derive(Debug)]
struct Open {
    id: RequestId,
    bytes: u64,
}

/// A connected program.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: Stream,
    server: Server,
    /// By the disk worker's request number.
    open: BTreeMap<u64, Open>,
    open_bytes: u64,
    /// The socket's send buffer is full.
    is_blocked: bool,
    /// The program has shut down its sending side.
    is_ended: bool,
    /// Unparsed requests may be buffered here.
    is_left: bool,
    /// The program has selected an export.
    has_opened: bool,
}

/// Why a connection ended.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("{0}")]
    Misbehaved(#[from] ServerError),
    #[error("{0}")]
    Socket(#[from] io::Error),
    /// An orderly close.
    #[error("it was closed")]
    Closed,
}

impl Connection {
    pub(crate) fn new(stream: Stream, exports: Arc<[Export]>) -> Connection {
        Connection {
            stream,
            server: Server::new(exports),
            open: BTreeMap::new(),
            open_bytes: 0,
            is_blocked: false,
            is_ended: false,
            is_left: false,
            has_opened: false,
        }
    }

    /// Whether its socket is to be read now.
    pub(crate) fn reads(&self) -> bool {
        !self.is_ended
            && self.open.len() < MOST_OPEN
            && self.open_bytes < MOST_OPEN_BYTES
            && self.server.pending().len() < MOST_UNSENT_BYTES
    }

    /// Whether requests may be buffered that no socket event will announce.
    pub(crate) fn is_left(&self) -> bool {
        self.is_left
    }

    /// Whether replies are waiting to be sent.
    pub(crate) fn has_replies(&self) -> bool {
        !self.server.pending().is_empty()
    }

    /// Whether it waits for room in the socket's send buffer.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Its open requests, and the bytes that they read or write.
    pub(crate) fn open_requests(&self) -> impl Iterator<Item = (u64, u64)> {
        self.open.iter().map(|(number, open)| (*number, open.bytes))
    }

    /// Reads from the socket and calls `ask` with each request; `ask` returns the request's number.
    pub(crate) fn receive(&mut self, mut ask: impl FnMut(Action) -> u64) -> Result<(), Ended> {
        let mut has_more = true;
        self.is_left = true;
        loop {
            while self.reads() {
                match self.server.poll_event()? {
                    None => break,
                    Some(Event::Request(request)) => self.take(request, &mut ask),
                    Some(Event::Opened { .. }) => self.has_opened = true,
                    Some(Event::Disconnect) => self.is_ended = true,
                }
            }
            if !self.reads() {
                return Ok(());
            }
            self.is_left = false;
            if !has_more {
                return Ok(());
            }
            let space = self.server.space();
            let room = space.len();
            match recv(&self.stream, space, RecvFlags::DONTWAIT) {
                Ok((_, 0)) => return Err(Ended::Closed),
                Ok((_, bytes)) => {
                    self.server.received(bytes);
                    // Another event will report the rest.
                    has_more = bytes == room;
                }
                Err(SystemErrno::AGAIN) => return Ok(()),
                Err(SystemErrno::INTR) => {}
                Err(errno) => return Err(self.failed(errno)),
            }
        }
    }

    /// Handles a socket error. A client that has not selected an export was only probing whether a server is there.
    fn failed(&self, errno: SystemErrno) -> Ended {
        match self.has_opened {
            true => io::Error::from(errno).into(),
            false => Ended::Closed,
        }
    }

    fn take(&mut self, request: Request, ask: &mut impl FnMut(Action) -> u64) {
        let Request { id, command } = request;
        let action = action(command);
        let bytes = match &action {
            Action::Read { .. } | Action::Write { .. } => action.range().bytes(),
            _ => 0,
        };
        let number = ask(action);
        self.open_bytes += bytes;
        self.open.insert(number, Open { id, bytes });
    }

    /// Answers a request; does nothing if it is not open.
    pub(crate) fn answer(&mut self, number: u64, outcome: &Outcome) {
        let Some(Open { id, bytes }) = self.open.remove(&number) else {
            return;
        };
        self.open_bytes -= bytes;
        let extents: Vec<Extent>;
        let reply = match outcome {
            Err(failure) => Err(errno(*failure)),
            Ok(Answer::Done) => Ok(Reply::Done),
            Ok(Answer::Data(data)) => Ok(Reply::Data(data)),
            Ok(Answer::Status(parts)) => {
                let parts = parts.iter().map(|part| Extent {
                    length_bytes: part.length_bytes,
                    is_hole: part.is_hole,
                    reads_zero: part.reads_zero,
                });
                extents = parts.collect();
                Ok(Reply::Status(&extents))
            }
        };
        self.server.reply(id, reply);
    }

    /// Sends as much as the socket accepts.
    pub(crate) fn send(&mut self) -> Result<(), Ended> {
        self.is_blocked = false;
        while !self.server.pending().is_empty() {
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&self.stream, self.server.pending(), flags) {
                Ok(bytes) => self.server.sent(bytes),
                Err(SystemErrno::AGAIN) => {
                    self.is_blocked = true;
                    return Ok(());
                }
                Err(SystemErrno::INTR) => {}
                Err(errno) => return Err(self.failed(errno)),
            }
        }
        match self.server.is_finished() {
            true => Err(Ended::Closed),
            false => Ok(()),
        }
    }
}

fn action(command: Command) -> Action {
    match command {
        Command::Read {
            offset_bytes,
            length_bytes,
        } => Action::Read {
            range: Range::new(offset_bytes, length_bytes.into()),
        },
        Command::Write {
            offset_bytes,
            data,
            fua,
        } => Action::Write {
            offset_bytes,
            data,
            fua,
        },
        Command::Flush => Action::Flush,
        Command::Trim {
            offset_bytes,
            length_bytes,
            fua,
        } => Action::Trim {
            range: Range::new(offset_bytes, length_bytes),
            fua,
        },
        Command::WriteZeroes {
            offset_bytes,
            length_bytes,
            fua,
            may_unmap,
            fast,
        } => Action::Zero {
            range: Range::new(offset_bytes, length_bytes),
            fua,
            may_unmap,
            fast,
        },
        Command::Cache {
            offset_bytes,
            length_bytes,
        } => Action::Prefetch {
            range: Range::new(offset_bytes, length_bytes),
        },
        Command::BlockStatus {
            offset_bytes,
            length_bytes,
            one,
        } => Action::Status {
            range: Range::new(offset_bytes, length_bytes),
            one,
        },
    }
}

/// Maps failures to the protocol's error numbers.
fn errno(failure: Failure) -> Errno {
    match failure {
        Failure::Io => Errno::Io,
        Failure::NotPermitted => Errno::Perm,
        Failure::NoSpace => Errno::NoSpc,
        Failure::NotSupported => Errno::NotSup,
        Failure::Invalid => Errno::Inval,
        Failure::ShuttingDown => Errno::Shutdown,
    }
}
