//! The transmission phase: requests and their replies ("Transmission").

use super::command::{command, queried};
use super::error::ServerError;
use super::event::{Event, Reply, Request, RequestId};
use super::extents;
use super::replier::Replier;
use crate::MAX_PAYLOAD_BYTES;
use crate::input::Input;
use crate::output::Output;
use crate::rules::{Refusal, Rules};
use crate::table::Table;
use crate::wire::{CommandCode, Errno, RequestHeader};

/// Requests of a client that has opened an export.
#[derive(Debug)]
pub(super) struct Transmission {
    rules: Rules,
    /// Requests that wait for their answer.
    open: Table<RequestHeader>,
    /// The request whose payload comes next.
    awaited: Option<Awaited>,
    /// The client sent `NBD_CMD_DISC`.
    has_left: bool,
}

/// What becomes of a payload.
#[derive(Debug, Clone, Copy)]
enum Awaited {
    /// It completes its request.
    Wanted(RequestHeader),
    /// It is dropped, and its request refused.
    Refused(RequestHeader, Refusal),
}

impl Transmission {
    pub(super) fn new(rules: Rules) -> Self {
        Transmission {
            rules,
            open: Table::new(),
            awaited: None,
            has_left: false,
        }
    }

    /// How many requests wait for their answer.
    pub(super) fn open_requests(&self) -> usize {
        self.open.len()
    }

    /// Whether the client has left, and all its requests are answered.
    pub(super) fn is_over(&self) -> bool {
        self.has_left && self.open.len() == 0
    }

    /// The next event, if what was received makes one.
    pub(super) fn poll(
        &mut self,
        input: &mut Input,
        output: &mut Output,
    ) -> Result<Option<Event>, ServerError> {
        loop {
            if self.has_left {
                input.discard();
                return Ok(None);
            }
            let event = match self.awaited {
                None => {
                    let Some(header) = self.header(input)? else {
                        return Ok(None);
                    };
                    self.begin(&header, input)?
                }
                Some(Awaited::Wanted(header)) => {
                    let Some(payload) = input.collected() else {
                        return Ok(None);
                    };
                    self.awaited = None;
                    self.complete(&header, payload, output)
                }
                Some(Awaited::Refused(header, refusal)) => {
                    if !input.skipped() {
                        return Ok(None);
                    }
                    self.awaited = None;
                    self.refuse(&header, refusal, output);
                    None
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// The next request's header, if it is there.
    fn header(&self, input: &mut Input) -> Result<Option<RequestHeader>, ServerError> {
        if self.rules.is_extended() {
            let Some(bytes) = input.header() else {
                return Ok(None);
            };
            let header = RequestHeader::parse_extended(bytes)?;
            input.take(RequestHeader::EXTENDED_BYTES);
            Ok(Some(header))
        } else {
            let Some(bytes) = input.header() else {
                return Ok(None);
            };
            let header = RequestHeader::parse(bytes)?;
            input.take(RequestHeader::BYTES);
            Ok(Some(header))
        }
    }

    /// A request's header has come.
    fn begin(
        &mut self,
        header: &RequestHeader,
        input: &mut Input,
    ) -> Result<Option<Event>, ServerError> {
        if header.command == CommandCode::Disc {
            self.has_left = true;
            return Ok(Some(Event::Disconnect));
        }
        let payload_bytes = header.payload_bytes(self.rules.is_extended());
        // Compact headers have 32 bits for it, which is not too much to skip.
        if self.rules.is_extended() && payload_bytes > u64::from(MAX_PAYLOAD_BYTES) {
            return Err(ServerError::PayloadTooLong {
                command: header.command,
                payload_bytes,
            });
        }
        if let Err(refusal) = self.rules.check(header) {
            input.skip(payload_bytes);
            self.awaited = Some(Awaited::Refused(*header, refusal));
            return Ok(None);
        }
        if payload_bytes > 0 {
            let bytes = payload_bytes as usize;
            input.collect(vec![0; bytes], 0, bytes);
            self.awaited = Some(Awaited::Wanted(*header));
            return Ok(None);
        }
        Ok(Some(self.request(header, Vec::new())))
    }

    /// A request's payload has come.
    fn complete(
        &mut self,
        header: &RequestHeader,
        payload: Vec<u8>,
        output: &mut Output,
    ) -> Option<Event> {
        if header.command == CommandCode::Write {
            return Some(self.request(header, payload));
        }
        let queried =
            queried(header, &payload).and_then(|header| self.rules.check(&header).map(|()| header));
        match queried {
            Ok(header) => Some(self.request(&header, Vec::new())),
            Err(refusal) => {
                self.refuse(header, refusal, output);
                None
            }
        }
    }

    fn request(&mut self, header: &RequestHeader, payload: Vec<u8>) -> Event {
        let id = RequestId(self.open.insert(*header));
        let command = command(header, payload);
        Event::Request(Request { id, command })
    }

    fn refuse(&self, header: &RequestHeader, refusal: Refusal, output: &mut Output) {
        self.replier(header, output)
            .error(refusal.errno, refusal.text);
    }

    /// The caller answers a request.
    pub(super) fn reply(
        &mut self,
        id: RequestId,
        reply: Result<Reply<'_>, Errno>,
        output: &mut Output,
    ) {
        let header = self.close(id);
        let replier = self.replier(&header, output);
        match (header.command, reply) {
            (_, Err(errno)) => replier.error(errno, ""),
            (CommandCode::Read, Ok(Reply::Data(data))) => {
                let wanted_bytes = header.length_bytes;
                let bytes = data.len();
                assert!(
                    bytes as u64 == wanted_bytes,
                    "a read of {wanted_bytes} bytes is answered with {bytes}"
                );
                replier.data(|space| {
                    space.copy_from_slice(data);
                    Ok(())
                });
            }
            (CommandCode::Read, Ok(Reply::Hole)) => replier.hole(),
            (CommandCode::BlockStatus, Ok(Reply::Status(extents))) => {
                replier.status(&extents::fit(extents, &header, &self.rules));
            }
            (
                CommandCode::Write
                | CommandCode::Flush
                | CommandCode::Trim
                | CommandCode::Cache
                | CommandCode::WriteZeroes,
                Ok(Reply::Done),
            ) => replier.done(),
            (command, Ok(_)) => panic!("that is no answer to {command}"),
        }
    }

    /// The caller answers a read with data that it writes in place.
    pub(super) fn reply_read(
        &mut self,
        id: RequestId,
        fill: impl FnOnce(&mut [u8]) -> Result<(), Errno>,
        output: &mut Output,
    ) {
        let header = self.close(id);
        let command = header.command;
        assert!(command == CommandCode::Read, "{command} is no read");
        self.replier(&header, output).data(fill);
    }

    fn close(&mut self, id: RequestId) -> RequestHeader {
        match self.open.remove(id.0) {
            Some(header) => header,
            None => panic!("{id:?} is not open"),
        }
    }

    fn replier<'a>(&self, request: &'a RequestHeader, output: &'a mut Output) -> Replier<'a> {
        Replier {
            output,
            replies: self.rules.replies,
            request,
        }
    }
}
