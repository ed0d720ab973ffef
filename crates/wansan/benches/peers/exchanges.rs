//! The limit with many connections: what [`echo`](crate::echo) exchanges over one, here over any number of them.
//!
//! Each side waits for its sockets by epoll, reads what has come to one by one call and answers all of it by another, out
//! of one buffer for all. Nobody looks at a byte, only at how many there are. The answering side has a thread for each
//! processor and the asking side one, as the target and the crowd of initiators have.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use wansan_peers::process::{PeerError, Running};
use wansan_server::descriptors;
use wansan_server::poller::{Poller, Ready};
use wansan_trace::{Instant, clock};

use crate::echo::{ANSWER_BYTES, HEADER_BYTES, own_server, system};

/// The argument that makes the benchmark's own program the answering side.
pub(crate) const SERVER_ARGUMENT: &str = "exchange-server";
const NAME: &str = "exchanges";

/// What one call may read or send, in bytes.
const CALL_BYTES: usize = 1 << 20;
/// How long nothing may happen while something is awaited.
const PATIENCE: Duration = Duration::from_secs(30);

/// One end of a connection: what comes is counted in messages of one size, each of which calls for one of another.
struct End {
    stream: TcpStream,
    /// What has come of a message that is not whole yet.
    part_bytes: usize,
    /// What is still to be sent.
    owed_bytes: usize,
    waits_for_room: bool,
}

impl End {
    fn new(stream: TcpStream) -> io::Result<End> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(End {
            stream,
            part_bytes: 0,
            owed_bytes: 0,
            waits_for_room: false,
        })
    }

    /// Reads once; how many messages of `message_bytes` are whole now, or `None` at the end of the stream.
    fn receive(&mut self, buffer: &mut [u8], message_bytes: usize) -> io::Result<Option<usize>> {
        let bytes = match self.stream.read(buffer) {
            Ok(0) => return Ok(None),
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        let come_bytes = self.part_bytes + bytes;
        self.part_bytes = come_bytes % message_bytes;
        Ok(Some(come_bytes / message_bytes))
    }

    /// Sends what is owed, as far as the socket takes it, and waits for room if there is more.
    fn send(&mut self, buffer: &[u8], poller: &Poller, source: u64) -> io::Result<()> {
        while self.owed_bytes > 0 {
            match self
                .stream
                .write(&buffer[..self.owed_bytes.min(buffer.len())])
            {
                Ok(bytes) => self.owed_bytes -= bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let waits = self.owed_bytes > 0;
        if waits != self.waits_for_room {
            self.waits_for_room = waits;
            poller.interest(&self.stream, source, true, waits)?;
        }
        Ok(())
    }
}

/// Answers connections until it is ended. Prints its port first.
///
/// # Errors
/// What a socket says.
pub(crate) fn serve() -> io::Result<()> {
    let _ = descriptors::raise();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("{}", listener.local_addr()?.port());
    let mut threads = Vec::new();
    for _ in 0..thread::available_parallelism()?.get() {
        let (give, take) = channel();
        let poller = Arc::new(Poller::new()?);
        let own = Arc::clone(&poller);
        thread::spawn(move || answer(&own, &take));
        threads.push((poller, give));
    }
    for (number, stream) in listener.incoming().enumerate() {
        let (poller, give) = &threads[number % threads.len()];
        let stream = stream?;
        // Its number there. What is ready before the thread has taken the connection in is reported again.
        poller.add(&stream, (number / threads.len()) as u64)?;
        if give.send(stream).is_err() {
            return Err(io::Error::other("a thread that answers has ended"));
        }
    }
    Ok(())
}

/// Answers the connections that `take` brings.
fn answer(poller: &Poller, take: &Receiver<TcpStream>) -> io::Result<()> {
    let mut buffer = vec![0x5a; CALL_BYTES];
    let mut ends = Vec::new();
    let mut ready = Vec::new();
    loop {
        poller.wait(clock::now(), None, &mut ready)?;
        for stream in take.try_iter() {
            ends.push(Some(End::new(stream)?));
        }
        for event in &ready {
            let Some(place) = ends.get_mut(event.source as usize) else {
                continue;
            };
            let Some(end) = place else { continue };
            match end.receive(&mut buffer, HEADER_BYTES)? {
                Some(requests) => end.owed_bytes += requests * ANSWER_BYTES,
                None => {
                    *place = None;
                    continue;
                }
            }
            end.send(&buffer, poller, event.source)?;
        }
    }
}

/// Connections to an answering side of their own.
pub(crate) struct Exchanges {
    poller: Poller,
    ends: Vec<End>,
    ready: Vec<Ready>,
    buffer: Vec<u8>,
}

/// The answering side: a process that ends when this is dropped.
pub(crate) struct Answering {
    process: Running,
    port: u16,
}

impl Answering {
    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Starts it.
    ///
    /// # Errors
    /// When it does not come up.
    pub(crate) fn start() -> Result<Answering, PeerError> {
        let (process, port) = own_server(SERVER_ARGUMENT, NAME)?;
        Ok(Answering { process, port })
    }
}

impl Exchanges {
    /// Connects so many times.
    ///
    /// # Errors
    /// What a socket says.
    pub(crate) fn connect(to: &Answering, count: usize) -> Result<Exchanges, PeerError> {
        let mut exchanges = Exchanges {
            poller: Poller::new().map_err(failed)?,
            ends: Vec::new(),
            ready: Vec::new(),
            buffer: vec![0; CALL_BYTES],
        };
        for source in 0..count as u64 {
            let connect = || {
                let end = End::new(TcpStream::connect((Ipv4Addr::LOCALHOST, to.port))?)?;
                exchanges.poller.add(&end.stream, source)?;
                Ok(end)
            };
            let end = connect().map_err(failed)?;
            exchanges.ends.push(end);
        }
        Ok(exchanges)
    }

    /// Exchanges over all connections for a quarter more than `time`, as long as [`Crowd::read`](crate::crowd::Crowd::read)
    /// reads, with so many in flight on each; how many there were.
    ///
    /// # Errors
    /// What a socket says.
    pub(crate) fn exchange(&mut self, in_flight: usize, time: Duration) -> Result<u64, PeerError> {
        self.exchange_until(clock::now() + time * 5 / 4, in_flight)
            .map_err(failed)
    }

    fn exchange_until(&mut self, ends: Instant, in_flight: usize) -> io::Result<u64> {
        let mut outstanding = in_flight * self.ends.len();
        for (source, end) in (0..).zip(&mut self.ends) {
            end.owed_bytes = in_flight * HEADER_BYTES;
            end.send(&self.buffer, &self.poller, source)?;
        }
        let mut done = 0;
        while outstanding > 0 {
            let now = clock::now();
            self.poller
                .wait(now, Some(now + PATIENCE), &mut self.ready)?;
            if self.ready.is_empty() {
                return Err(ErrorKind::TimedOut.into());
            }
            let goes_on = clock::now() < ends;
            for event in &self.ready {
                let end = &mut self.ends[event.source as usize];
                let Some(answers) = end.receive(&mut self.buffer, ANSWER_BYTES)? else {
                    return Err(ErrorKind::UnexpectedEof.into());
                };
                done += answers as u64;
                match goes_on {
                    true => end.owed_bytes += answers * HEADER_BYTES,
                    false => outstanding -= answers,
                }
                end.send(&self.buffer, &self.poller, event.source)?;
            }
        }
        Ok(done)
    }
}

fn failed(source: io::Error) -> PeerError {
    system(NAME)(source)
}
