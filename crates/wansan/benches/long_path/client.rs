//! A program that uses an NBD disk with one request in flight.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use wansan_nbd::client::{Client, Command, Done, Event, Wants};

use crate::disk::DISK_BYTES;

/// What the program does.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Use {
    pub(crate) writes: bool,
    pub(crate) random: bool,
    pub(crate) block_bytes: usize,
    /// A flush follows every so many writes.
    pub(crate) flush_every: Option<u64>,
    pub(crate) warmup: Duration,
    pub(crate) time: Duration,
}

/// Its connection.
struct Program {
    stream: UnixStream,
    client: Client,
}

impl Program {
    fn open(socket: &Path) -> Result<Program> {
        let stream = UnixStream::connect(socket).with_context(|| socket.display().to_string())?;
        let client = Client::new("", Wants::default())?;
        let mut program = Program { stream, client };
        match program.event()? {
            Event::Ready(_) => Ok(program),
            event => bail!("{event:?}"),
        }
    }

    fn event(&mut self) -> Result<Event> {
        loop {
            if let Some(event) = self.client.poll_event()? {
                return Ok(event);
            }
            let sent = self.client.pending().len();
            self.stream.write_all(self.client.pending())?;
            self.client.sent(sent);
            if let Some(event) = self.client.poll_event()? {
                return Ok(event);
            }
            let bytes = self.stream.read(self.client.space())?;
            anyhow::ensure!(bytes > 0, "the server closed the connection");
            self.client.received(bytes);
        }
    }

    fn execute(&mut self, command: Command<'_>) -> Result<Done> {
        self.client.submit(command, 0)?;
        match self.event()? {
            Event::Done { result, .. } => Ok(result?),
            event => bail!("{event:?}"),
        }
    }
}

/// Bytes per second of a disk in use, after its warm-up.
pub(crate) fn bytes_per_s(socket: &Path, r#use: Use) -> Result<f64> {
    let Use {
        writes,
        random,
        block_bytes,
        flush_every,
        warmup,
        time,
    } = r#use;
    let mut program = Program::open(socket)?;
    let blocks = (DISK_BYTES / block_bytes) as u64;
    let mut place = 0_u64;
    let mut buffer = vec![0x5a; block_bytes];
    let began = Instant::now();
    let mut measured = None;
    let mut ios = 0_u64;
    loop {
        let block = match random {
            true => (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % blocks,
            false => place % blocks,
        };
        place += 1;
        let offset_bytes = block * block_bytes as u64;
        if writes {
            program.execute(Command::Write {
                offset_bytes,
                data: &buffer,
                fua: false,
            })?;
        } else if let Done::Data(data) = program.execute(Command::Read {
            offset_bytes,
            buffer: std::mem::take(&mut buffer),
        })? {
            buffer = data;
        }
        if flush_every.is_some_and(|every| place.is_multiple_of(every)) {
            program.execute(Command::Flush)?;
        }
        let elapsed = began.elapsed();
        match measured {
            None if elapsed >= warmup => measured = Some(elapsed),
            None => {}
            Some(since) => {
                ios += 1;
                if elapsed >= warmup + time {
                    return Ok((ios * block_bytes as u64) as f64 / (elapsed - since).as_secs_f64());
                }
            }
        }
    }
}
