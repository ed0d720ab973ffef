//! A load over NBD: one connection of our client's machine, which asks again as soon as it is answered.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wansan_nbd::client::{Client, Command, Done, Event, Wants};
use wansan_peers::perf::{Load, Pattern};
use wansan_peers::process::PeerError;
use wansan_peers::qemu::Operation;

/// Bytes that wait for the socket before no more is asked: enough to keep it busy.
const MOST_PENDING_BYTES: usize = 1 << 20;

/// I/Os per second on the default export at `address` with `load`, which has no warm-up.
///
/// # Errors
/// When the server does not serve it.
pub(crate) fn iops(
    address: SocketAddr,
    operation: Operation,
    load: Load,
) -> Result<f64, PeerError> {
    let run = || -> io::Result<f64> {
        let mut connection = Connection::open(address)?;
        let began = Instant::now();
        connection.ask(operation, load)?;
        Ok(connection.done as f64 / began.elapsed().as_secs_f64())
    };
    run().map_err(|source| PeerError::System {
        program: "client of NBD".to_owned(),
        source,
    })
}

struct Connection {
    stream: TcpStream,
    client: Client,
    size_bytes: u64,
    done: u64,
}

impl Connection {
    /// Connects, and opens the default export.
    fn open(address: SocketAddr) -> io::Result<Connection> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        // Its replies have the shortest headers, and each read comes in one piece.
        let wants = Wants {
            extended_headers: false,
            structured_replies: false,
            block_status: false,
        };
        let mut connection = Connection {
            stream,
            client: Client::new("", wants).map_err(io::Error::other)?,
            size_bytes: 0,
            done: 0,
        };
        loop {
            match connection.event()? {
                Some(Event::Ready(info)) => {
                    connection.size_bytes = info.export.size_bytes;
                    return Ok(connection);
                }
                Some(other) => return Err(io::Error::other(format!("unexpected: {other:?}"))),
                None => connection.exchange()?,
            }
        }
    }

    /// Keeps as many I/Os in flight as `load` says until its time is over, and waits for the last ones.
    fn ask(&mut self, operation: Operation, load: Load) -> io::Result<()> {
        let until = Instant::now() + Duration::from_secs(load.time_s);
        let blocks = self.size_bytes / load.block_bytes;
        let data = vec![0x5a; load.block_bytes as usize];
        let mut spare = vec![data.clone(); load.parallel as usize];
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut next = 0;
        loop {
            let is_over = Instant::now() >= until;
            while !is_over
                && self.client.pending().len() < MOST_PENDING_BYTES
                && let Some(buffer) = spare.pop()
            {
                let block = match load.pattern {
                    Pattern::Sequential => next % blocks,
                    Pattern::Random => random.next_u64() % blocks,
                };
                next += 1;
                let offset_bytes = block * load.block_bytes;
                let command = match operation {
                    Operation::Read => Command::Read {
                        offset_bytes,
                        buffer,
                    },
                    Operation::Write => {
                        let fua = false;
                        Command::Write {
                            offset_bytes,
                            data: &data,
                            fua,
                        }
                    }
                };
                self.client.submit(command, 0).map_err(io::Error::other)?;
            }
            if is_over && self.client.open_requests() == 0 {
                return Ok(());
            }
            self.exchange()?;
            while let Some(event) = self.event()? {
                let Event::Done { result, .. } = event else {
                    return Err(io::Error::other(format!("unexpected: {event:?}")));
                };
                spare.push(match result.map_err(io::Error::other)? {
                    Done::Data(buffer) => buffer,
                    Done::Plain | Done::Status(_) => Vec::new(),
                });
                self.done += 1;
            }
        }
    }

    /// Sends what is pending, and reads what has come, or waits for it.
    fn exchange(&mut self) -> io::Result<()> {
        while !self.client.pending().is_empty() {
            let bytes = self.stream.write(self.client.pending())?;
            self.client.sent(bytes);
        }
        match self.stream.read(self.client.space())? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => {
                self.client.received(bytes);
                Ok(())
            }
        }
    }

    fn event(&mut self) -> io::Result<Option<Event>> {
        self.client.poll_event().map_err(io::Error::other)
    }
}
