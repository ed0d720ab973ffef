//! The initiator client: one session over real sockets, driven by its caller's thread.

mod login;

use std::io;
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use wansan_iscsi::initiator::{
    Command, Completion, Event, Full, HandshakeError, Session, SessionError,
};
use wansan_iscsi::keys::Wanted;
use wansan_tcp::TcpInfo;
use wansan_tcp::congestion::CongestionError;
use wansan_trace::{Instant, Recorder, TaskTag, clock};

use crate::url::IscsiUrl;

/// How a session is to be set up.
#[derive(Debug, Clone)]
pub struct InitiatorConfig {
    /// This initiator's iSCSI name (RFC 7143 §4.2.7).
    pub name: String,
    /// Its part of the session's name. Two sessions of one initiator with one target need two.
    pub isid: [u8; 6],
    /// What to negotiate for.
    pub wanted: Wanted,
    /// Tasks that may be queued and under way at once.
    pub tasks: usize,
    /// The kernel's congestion control for the connection, or its default.
    pub congestion_control: Option<String>,
    /// How long connecting and login may take together, and how long the target may then stay
    /// silent while it owes an answer.
    pub patience: Duration,
    /// How often TCP_INFO is recorded, if the recorder keeps it.
    pub tcp_interval: Duration,
}

/// A session could not be set up or has failed.
#[derive(Debug, thiserror::Error)]
pub enum InitiatorError {
    /// No TCP connection.
    #[error("cannot connect to {portal}: {source}")]
    Connect {
        /// Host and port.
        portal: String,
        /// Why.
        source: io::Error,
    },
    /// The congestion control cannot be had.
    #[error(transparent)]
    Congestion(#[from] CongestionError),
    /// Login failed.
    #[error("login to {target} at {portal} failed: {source}")]
    Login {
        /// The target's name.
        target: String,
        /// Host and port.
        portal: String,
        /// Why.
        source: Box<HandshakeError>,
    },
    /// The portal is there, but the target is not.
    #[error("{portal} has no target {target}; {}", login::nearest(target, offered))]
    NoSuchTarget {
        /// The target's name.
        target: String,
        /// Host and port.
        portal: String,
        /// The names of the targets that the portal offers.
        offered: Vec<String>,
    },
    /// The socket failed.
    #[error("the connection to {portal} failed: {source}")]
    Socket {
        /// Host and port.
        portal: String,
        /// Why.
        source: io::Error,
    },
    /// The target closed the connection.
    #[error("the target at {portal} closed the connection")]
    Closed {
        /// Host and port.
        portal: String,
    },
    /// The target said nothing for too long.
    #[error("the target at {portal} has been silent for {} s while it owed an answer", patience.as_secs())]
    Silent {
        /// Host and port.
        portal: String,
        /// How long.
        patience: Duration,
    },
    /// A protocol error.
    #[error("session with {portal}: {source}")]
    Session {
        /// Host and port.
        portal: String,
        /// Which.
        source: SessionError,
    },
}

/// A session with a target, in full feature phase, over one connection.
///
/// Its caller's thread does all the work: [`Initiator::submit`] queues commands,
/// [`Initiator::turn`] sends, waits and receives, [`Initiator::poll_completion`] gives what is done.
#[derive(Debug)]
pub struct Initiator {
    stream: TcpStream,
    portal: String,
    session: Session,
    trace: Recorder,
    patience: Duration,
    last_heard: Instant,
    tcp_interval: Duration,
    next_tcp_sample: Instant,
}

/// The longest that one wait in the kernel lasts, so that silence is noticed.
const LONGEST_WAIT: Duration = Duration::from_millis(250);

/// Bounds of what is read at once: system calls that bring less cost more than they gain, and
/// larger ones fill more of the processor's cache than they save.
const LEAST_READ_BYTES: usize = 32 << 10;
const MOST_READ_BYTES: usize = 64 << 10;

/// How long a blocking read waits. Deadlines that are nearer are waited for exactly.
const BLOCKING_WAIT: Duration = Duration::from_millis(20);

impl Initiator {
    /// Connects and logs in to the target that `url` names. Records go to `trace`.
    ///
    /// # Errors
    /// [`InitiatorError`] says what failed.
    pub fn connect(
        url: &IscsiUrl,
        config: &InitiatorConfig,
        trace: Recorder,
    ) -> Result<Initiator, InitiatorError> {
        login::connect(url, config, trace)
    }

    /// The session, for its parameters and its window.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Takes a command onto the session's queue.
    ///
    /// # Errors
    /// [`Full`] gives the command back: take completions first.
    pub fn submit(&mut self, command: Command, now: Instant) -> Result<TaskTag, Full> {
        self.session.submit(command, now, &mut self.trace)
    }

    /// The next completion, if there is one.
    pub fn poll_completion(&mut self, now: Instant) -> Option<Completion> {
        self.session.poll_completion(now, &mut self.trace)
    }

    /// The next event, if there is one.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.session.poll_event()
    }

    /// Sends what may go, waits until something has come or `deadline`, and takes it in.
    ///
    /// # Errors
    /// The session is over; its tasks have completions that say so.
    pub fn turn(&mut self, deadline: Instant) -> Result<(), InitiatorError> {
        let turned = self.try_turn(deadline);
        if turned.is_err() {
            self.session.end(clock::now(), &mut self.trace);
        }
        turned
    }

    fn try_turn(&mut self, deadline: Instant) -> Result<(), InitiatorError> {
        let now = clock::now();
        let blocked = self.flush(now)?;
        self.sample_tcp(now);
        let left = deadline.since(clock::now()).min(LONGEST_WAIT);
        if !blocked && left > BLOCKING_WAIT {
            // Nothing but an answer can be next: waiting for it and reading it is one system call.
            return self.receive(RecvFlags::empty());
        }
        wait(&self.stream, true, blocked, left).map_err(|source| self.socket_error(source))?;
        self.receive(RecvFlags::DONTWAIT)
    }

    /// Sends until nothing is left or the socket takes no more; says whether it is the latter.
    fn flush(&mut self, now: Instant) -> Result<bool, InitiatorError> {
        loop {
            self.session.pump(now, &mut self.trace);
            let connection = &mut self.session.connections()[0];
            if connection.pending().is_empty() {
                return Ok(false);
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match send(&self.stream, connection.pending(), flags) {
                Ok(bytes) => connection.sent(bytes, clock::now(), &mut self.trace),
                Err(rustix::io::Errno::AGAIN) => return Ok(true),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(self.socket_error(errno.into())),
            }
        }
    }

    /// Reads what has come; without DONTWAIT it waits for something, [`BLOCKING_WAIT`] at most.
    fn receive(&mut self, flags: RecvFlags) -> Result<(), InitiatorError> {
        let most = self.most_read_bytes();
        let connection = &mut self.session.connections()[0];
        let space = connection.space();
        let most = most.min(space.len());
        match recv(&self.stream, &mut space[..most], flags) {
            Ok((0, _)) => {
                let portal = self.portal.clone();
                Err(InitiatorError::Closed { portal })
            }
            Ok((bytes, _)) => {
                let now = clock::now();
                connection.filled(bytes, now);
                self.last_heard = now;
                let received = self.session.receive(0, now, &mut self.trace);
                let portal = &self.portal;
                received.map_err(|source| InitiatorError::Session {
                    portal: portal.clone(),
                    source,
                })
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => self.check_silence(),
            Err(errno) => Err(self.socket_error(errno.into())),
        }
    }

    /// How much is read at once: a part of what is under way, so that new commands go out while
    /// answers are still to be read. An initiator that reads all there is before it sends
    /// anything takes turns with its target, and one of the two always waits.
    fn most_read_bytes(&self) -> usize {
        let part = usize::try_from(self.session.awaited_bytes() / 4);
        part.unwrap_or(usize::MAX)
            .clamp(LEAST_READ_BYTES, MOST_READ_BYTES)
    }

    fn check_silence(&mut self) -> Result<(), InitiatorError> {
        let now = clock::now();
        if self.session.in_flight() == 0 {
            self.last_heard = now;
        } else if now.since(self.last_heard) > self.patience {
            let (portal, patience) = (self.portal.clone(), self.patience);
            return Err(InitiatorError::Silent { portal, patience });
        }
        Ok(())
    }

    fn sample_tcp(&mut self, now: Instant) {
        if self.trace.keeps_tcp() && now >= self.next_tcp_sample {
            self.next_tcp_sample = now + self.tcp_interval;
            let id = self.session.id();
            let connection = self.session.connections()[0].id();
            if let Ok(info) = TcpInfo::of(&self.stream) {
                self.trace.tcp(info.record(now, id, connection));
            }
        }
    }

    /// Submits one command and waits for its completion. For the few commands before and after a
    /// load; nothing else may be under way.
    ///
    /// # Errors
    /// As [`Initiator::turn`].
    ///
    /// # Panics
    /// When the session's queue is full, which it is not when nothing else is under way.
    pub fn execute(&mut self, command: Command) -> Result<Completion, InitiatorError> {
        self.submit(command, clock::now())
            .expect("an idle session takes a command");
        loop {
            if let Some(completion) = self.poll_completion(clock::now()) {
                return Ok(completion);
            }
            self.turn(Instant::FAR_FUTURE)?;
        }
    }

    /// Logs out, closes the connection and gives the records. A target that does not answer the
    /// logout is left all the same.
    #[must_use]
    pub fn logout(mut self) -> Recorder {
        let deadline = clock::now() + self.patience;
        if self.session.logout(clock::now(), &mut self.trace).is_some() {
            while clock::now() < deadline && self.turn(deadline).is_ok() {
                if std::iter::from_fn(|| self.poll_event()).any(|event| event == Event::LoggedOut) {
                    break;
                }
            }
        }
        let _ = self.stream.shutdown(Shutdown::Both);
        self.trace
    }

    /// The records so far, of a session that has failed.
    #[must_use]
    pub fn into_records(self) -> Recorder {
        self.trace
    }

    fn socket_error(&self, source: io::Error) -> InitiatorError {
        InitiatorError::Socket {
            portal: self.portal.clone(),
            source,
        }
    }
}

/// Waits for the socket at most `left`; says whether it became ready.
fn wait(stream: &TcpStream, read: bool, write: bool, left: Duration) -> io::Result<bool> {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, read);
    flags.set(PollFlags::OUT, write);
    let timeout = Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: i64::from(left.subsec_nanos()),
    };
    match poll(&mut [PollFd::new(stream, flags)], Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}
