//! The receiving end: reads streams, and echoes their marks.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_linger, set_socket_reuseaddr};
use rustix::net::{RecvFlags, SendFlags, bind, getsockname, listen, recv, send};
use wansan_server::{Acceptor, Connection, Mailboxes, Pause, Poller, Ready, Threads, Worker};
use wansan_tcp::buffers::Buffer;
use wansan_tcp::delays;
use wansan_trace::{Instant, clock};
use wansan_workload::stream::{Clock, Nonsense, Receiving};

use crate::error::StreamError;
use crate::settings::ReceiveSettings;
use crate::socket;

/// Connections that may wait to be accepted.
const BACKLOG: i32 = 1024;
/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(10);
/// Reads of one stream per wakeup before others get their turn.
const TURN_READS: usize = 8;
/// How long accepting pauses when the process has no free descriptors.
const REST: Duration = Duration::from_millis(100);

/// Counts of a receiver.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReceiveCounts {
    /// Streams started.
    pub streams: u64,
    /// Streams that ended with a FIN.
    pub finished: u64,
    /// Streams that were reset.
    pub lost: u64,
    /// Connections that sent no valid stream, or exceeded the limit.
    pub refused: u64,
    /// Marks echoed.
    pub marks: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// A running receiver.
#[derive(Debug)]
pub struct Receiver {
    address: SocketAddr,
    /// The only thread, which gets no messages.
    thread: Threads<(), ReceiveCounts>,
}

impl Receiver {
    /// Listens, and accepts streams until it is stopped.
    ///
    /// # Errors
    /// [`StreamError`] when it cannot listen.
    pub fn start(settings: &ReceiveSettings, report: fn(&str)) -> Result<Receiver, StreamError> {
        let address = socket::resolve(&settings.listen)?[0];
        let failed = |source: io::Error| StreamError::Listen {
            listen: settings.listen.clone(),
            source,
        };
        let listener = socket::stream(address)?;
        rustix::io::ioctl_fionbio(&listener, true).map_err(io::Error::from)?;
        set_socket_reuseaddr(&listener, true).map_err(io::Error::from)?;
        if let Some(size) = settings.taking.buffer.receive_buffer {
            Buffer::Receive.set(&listener, size.bytes())?;
        }
        bind(&listener, &address).map_err(|errno| failed(errno.into()))?;
        listen(&listener, BACKLOG).map_err(|errno| failed(errno.into()))?;
        let address = getsockname(&listener).map_err(io::Error::from)?;
        let address = SocketAddr::try_from(address).map_err(io::Error::from)?;
        let poller = Poller::new()?;
        let mut acceptor = Acceptor::default();
        let mut outcome = Ok(());
        acceptor.replace(&poller, vec![listener], |_, error| outcome = Err(error));
        outcome?;
        let reactor = Reactor {
            max_flows: settings.taking.most as usize,
            report,
            here: socket::clock()?,
            acceptor,
            resume: None,
            poller,
            streams: HashMap::new(),
            next_source: 0,
            space: vec![0; settings.taking.read.bytes()],
            counts: ReceiveCounts::default(),
        };
        let mut thread = Threads::new(Arc::new(Mailboxes::new(1)?));
        thread.spawn("receiver".to_owned(), reactor)?;
        Ok(Receiver { address, thread })
    }

    /// The listen address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops the receiver and its streams; returns its counts.
    #[must_use]
    pub fn stop(mut self) -> ReceiveCounts {
        self.thread.stop().pop().unwrap_or_default()
    }
}

/// The thread.
struct Reactor {
    max_flows: usize,
    report: fn(&str),
    here: Clock,
    acceptor: Acceptor<OwnedFd>,
    /// When a paused accept resumes.
    resume: Option<Instant>,
    poller: Poller,
    streams: HashMap<u64, Stream>,
    next_source: u64,
    space: Vec<u8>,
    counts: ReceiveCounts,
}

/// One client.
struct Stream {
    socket: OwnedFd,
    client: SocketAddr,
    receiving: Receiving,
    /// Deadline for its request.
    deadline: Instant,
    /// Read to the end.
    is_read: bool,
    /// Events registered with the poller: reading, writing.
    waits: (bool, bool),
}

/// How a stream ended.
#[derive(Debug, Clone, Copy)]
enum End {
    Finished,
    Lost(Errno),
    Refused(Nonsense),
    Silent,
}

impl Worker for Reactor {
    type Mail = ();
    type Output = ReceiveCounts;

    fn poller(&self) -> &Poller {
        &self.poller
    }

    fn before_wait(&mut self, now: Instant) -> Option<Instant> {
        if self.resume.is_some_and(|resume| resume <= now) {
            self.resume = None;
            self.acceptor.resume(&self.poller);
        }
        self.give_up(now);
        let silent = self.streams.values().filter(|it| !it.receiving.has_begun());
        silent
            .map(|stream| stream.deadline)
            .chain(self.resume)
            .min()
    }

    fn accept(&mut self, now: Instant) {
        let batch = self.acceptor.accept(&self.poller, || Some(()));
        for connection in batch.connections {
            self.admit(connection);
        }
        if let Some(Pause::Failed(error)) = batch.pause {
            (self.report)(&format!("cannot accept a connection: {error}"));
            self.resume = Some(now + REST);
        }
    }

    fn mail(&mut self, (): (), _now: Instant) {}

    fn ready(&mut self, event: Ready, _now: Instant) {
        self.serve(event.source, event);
    }

    fn finish(self, failure: Option<io::Error>) -> ReceiveCounts {
        if let Some(error) = failure {
            (self.report)(&format!("cannot poll for streams: {error}"));
        }
        self.counts
    }
}

impl Reactor {
    fn admit(&mut self, connection: Connection) {
        let Connection { socket, client, .. } = connection;
        // Only streams that end well close with FIN.
        let set = set_socket_linger(&socket, Some(Duration::ZERO));
        if self.streams.len() >= self.max_flows || set.is_err() {
            self.counts.refused += 1;
            (self.report)(&format!(
                "{client} is refused: there are {} streams already",
                self.streams.len()
            ));
            return;
        }
        // With Nagle's algorithm echoes wait for each other.
        let _ = delays::set_nagle(&socket, false);
        let source = self.next_source;
        if let Err(error) = self.poller.add(&socket, source) {
            (self.report)(&format!("cannot poll {client}: {error}"));
            return;
        }
        self.next_source += 1;
        let stream = Stream {
            socket,
            client,
            receiving: Receiving::new(self.here),
            deadline: clock::now() + PATIENCE,
            is_read: false,
            waits: (true, false),
        };
        self.streams.insert(source, stream);
    }

    fn serve(&mut self, source: u64, event: Ready) {
        let Some(stream) = self.streams.get_mut(&source) else {
            return;
        };
        let had_begun = stream.receiving.has_begun();
        let marks = stream.receiving.marks();
        let end = stream.advance(event, &mut self.space, &mut self.counts.bytes);
        self.counts.streams += u64::from(!had_begun && stream.receiving.has_begun());
        self.counts.marks += stream.receiving.marks() - marks;
        if let Some(end) = end {
            self.close(source, end);
        } else if let Err(error) = stream.wait(&self.poller, source) {
            (self.report)(&format!("cannot poll {}: {error}", stream.client));
            self.streams.remove(&source);
        }
    }

    /// Ends clients that sent no request in time.
    fn give_up(&mut self, now: Instant) {
        let is_late = |(source, stream): (&u64, &Stream)| {
            (!stream.receiving.has_begun() && stream.deadline <= now).then_some(*source)
        };
        let late: Vec<u64> = self.streams.iter().filter_map(is_late).collect();
        for source in late {
            self.close(source, End::Silent);
        }
    }

    fn close(&mut self, source: u64, end: End) {
        let Some(stream) = self.streams.remove(&source) else {
            return;
        };
        let client = stream.client;
        let begun = stream.receiving.has_begun();
        match end {
            End::Finished if begun => {
                self.counts.finished += 1;
                // A connection that is gone needs no FIN.
                let _ = set_socket_linger(&stream.socket, None);
            }
            End::Lost(errno) if begun => {
                self.counts.lost += 1;
                (self.report)(&format!("the stream of {client} was lost: {errno}"));
            }
            End::Finished | End::Lost(_) => self.counts.refused += 1,
            End::Refused(nonsense) => {
                self.counts.refused += 1;
                (self.report)(&format!("{client} is refused: {nonsense}"));
            }
            End::Silent => {
                self.counts.refused += 1;
                let waited = PATIENCE.as_secs();
                (self.report)(&format!(
                    "{client} is refused: no request within {waited} s"
                ));
            }
        }
    }
}

impl Stream {
    /// Reads and echoes; returns how the stream ended, if it has.
    fn advance(&mut self, event: Ready, space: &mut [u8], bytes: &mut u64) -> Option<End> {
        if event.read {
            for _ in 0..TURN_READS {
                if self.is_read || !self.receiving.wants_input() {
                    break;
                }
                let read = match recv(&self.socket, &mut *space, RecvFlags::DONTWAIT) {
                    Ok((_, 0)) => {
                        self.is_read = true;
                        break;
                    }
                    Ok((_, read)) => read,
                    Err(Errno::AGAIN) => break,
                    Err(errno) => return Some(End::Lost(errno)),
                };
                *bytes += read as u64;
                if let Err(nonsense) = self.receiving.take(&space[..read], clock::now()) {
                    return Some(End::Refused(nonsense));
                }
            }
        }
        while !self.receiving.pending().is_empty() {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(&self.socket, self.receiving.pending(), flags) {
                Ok(written) => self.receiving.sent(written),
                Err(Errno::AGAIN) => break,
                Err(errno) => return Some(End::Lost(errno)),
            }
        }
        (self.is_read && self.receiving.pending().is_empty()).then_some(End::Finished)
    }

    /// Registers for the next events needed.
    fn wait(&mut self, poller: &Poller, source: u64) -> io::Result<()> {
        let reads = !self.is_read && self.receiving.wants_input();
        let wanted = (reads, !self.receiving.pending().is_empty());
        if self.waits != wanted {
            self.waits = wanted;
            poller.interest(&self.socket, source, wanted.0, wanted.1)?;
        }
        Ok(())
    }
}
