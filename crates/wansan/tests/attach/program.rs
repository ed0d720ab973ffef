//! A program that uses an attached disk and has several requests open.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use wansan_nbd::client::{Client, Command, Done, Event, Wants};
use wansan_peers::trial::{Stop, require};

use crate::stage::LIMIT;

/// The program's end of its connection.
pub(crate) struct Program {
    stream: UnixStream,
    client: Client,
    open: usize,
}

/// An answer: the request's number, and what was read if it was a read.
pub(crate) type Answered = (u64, Option<Vec<u8>>);

fn broken(why: impl std::fmt::Display) -> Stop {
    Stop::Failed(why.to_string())
}

impl Program {
    /// Opens the disk that is served at a socket.
    pub(crate) fn connect(socket: &str) -> Result<Program, Stop> {
        let stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(LIMIT))?;
        stream.set_write_timeout(Some(LIMIT))?;
        let client = Client::new("", Wants::default()).map_err(broken)?;
        let mut program = Program {
            stream,
            client,
            open: 0,
        };
        match program.event()? {
            Event::Ready(_) => Ok(program),
            other => Err(broken(format!("the export is not open: {other:?}"))),
        }
    }

    /// Requests that are not answered.
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    pub(crate) fn submit(&mut self, command: Command<'_>, number: u64) -> Result<(), Stop> {
        self.client.submit(command, number).map_err(broken)?;
        self.open += 1;
        self.send()
    }

    fn send(&mut self) -> Result<(), Stop> {
        while !self.client.pending().is_empty() {
            let sent = self.stream.write(self.client.pending())?;
            self.client.sent(sent);
        }
        Ok(())
    }

    /// Waits for the next answer, which must be no error.
    pub(crate) fn answer(&mut self) -> Result<Answered, Stop> {
        let event = self.event()?;
        self.take(event)
    }

    /// The next answer if it has come.
    pub(crate) fn poll_answer(&mut self) -> Result<Option<Answered>, Stop> {
        self.stream.set_nonblocking(true)?;
        let polled = self.poll();
        self.stream.set_nonblocking(false)?;
        polled?.map(|event| self.take(event)).transpose()
    }

    fn take(&mut self, event: Event) -> Result<Answered, Stop> {
        let Event::Done { user, result } = event else {
            return Err(broken(format!("unexpected event: {event:?}")));
        };
        self.open -= 1;
        match result.map_err(broken)? {
            Done::Data(data) => Ok((user, Some(data))),
            _ => Ok((user, None)),
        }
    }

    /// Reads from the disk while no other request is open.
    pub(crate) fn read(&mut self, offset_bytes: u64, bytes: usize) -> Result<Vec<u8>, Stop> {
        let buffer = vec![0; bytes];
        let read = Command::Read {
            offset_bytes,
            buffer,
        };
        self.submit(read, u64::MAX)?;
        let (number, data) = self.answer()?;
        require(number == u64::MAX, || "another request is open".to_owned())?;
        data.ok_or_else(|| broken("a read without data"))
    }

    fn event(&mut self) -> Result<Event, Stop> {
        let event = self.poll()?;
        event.ok_or_else(|| broken(format!("no answer within {LIMIT:?}")))
    }

    /// An event; `None` if it must wait for more.
    fn poll(&mut self) -> Result<Option<Event>, Stop> {
        loop {
            if let Some(event) = self.client.poll_event().map_err(broken)? {
                return Ok(Some(event));
            }
            self.send()?;
            match self.stream.read(self.client.space()) {
                Ok(0) => return Err(broken("attach closed the connection")),
                Ok(bytes) => self.client.received(bytes),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
