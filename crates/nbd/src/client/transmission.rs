//! The transmission phase: commands and their replies ("Transmission").

use super::error::{ClientError, SubmitError};
use super::event::{Command, Event, ExportInfo};
use super::open::{Kind, Open};
use super::submit::request;
use crate::MAX_PAYLOAD_BYTES;
use crate::input::Input;
use crate::output::Output;
use crate::rules::Rules;
use crate::table::Table;
use crate::wire::{
    ChunkHeader, ChunkType, CommandCode, CommandFlags, ErrorChunk, Hole, MAX_DESCRIPTORS,
    OFFSET_BYTES, Replies, RequestHeader, SimpleReply, Status, is_simple,
};

/// The longest payload of an error, bytes: more than any that the standard has.
const MAX_ERROR_BYTES: u64 = 16 << 10;

/// Commands to an open export.
#[derive(Debug)]
pub(super) struct Transmission {
    rules: Rules,
    context_id: Option<u32>,
    /// Commands whose replies have not come, by their cookies.
    open: Table<Open>,
    awaited: Awaited,
    /// The caller has said goodbye.
    has_left: bool,
}

/// What comes next from the server.
#[derive(Debug, Clone, Copy)]
enum Awaited {
    /// The header of a simple reply or of a chunk.
    Header,
    /// The offset of a chunk's data.
    Offset(ChunkHeader),
    /// The hole of a chunk.
    Hole(ChunkHeader),
    /// The data of a read, which goes into its buffer.
    Data { cookie: u64, is_last: bool },
    /// A payload.
    Payload(ChunkHeader),
}

impl Transmission {
    pub(super) fn new(info: &ExportInfo, context_id: Option<u32>) -> Self {
        let mut export = info.export.clone();
        export.block.maximum_bytes = export.block.maximum_bytes.min(MAX_PAYLOAD_BYTES);
        Transmission {
            rules: Rules {
                export,
                replies: info.replies,
                has_status: info.block_status,
            },
            context_id,
            open: Table::new(),
            awaited: Awaited::Header,
            has_left: false,
        }
    }

    /// How many commands have no reply yet.
    pub(super) fn open_requests(&self) -> usize {
        self.open.len()
    }

    /// Whether the caller has said goodbye, and all replies have come.
    pub(super) fn is_over(&self) -> bool {
        self.has_left && self.open.len() == 0
    }

    /// Sends a command.
    pub(super) fn submit(
        &mut self,
        command: Command<'_>,
        user: u64,
        output: &mut Output,
    ) -> Result<(), SubmitError> {
        if self.has_left {
            return Err(SubmitError::NotReady);
        }
        let is_extended = self.rules.is_extended();
        let (open, payload) = request(command, user, is_extended);
        let mut header = open.header;
        self.rules
            .check(&header)
            .map_err(|refusal| SubmitError::NotAllowed {
                errno: refusal.errno,
                text: refusal.text,
            })?;
        if !is_extended && header.length_bytes > u64::from(u32::MAX) {
            return Err(SubmitError::TooLong(header.length_bytes));
        }
        header.cookie = self.open.insert(open);
        self.push(&header, output);
        output.push(payload);
        Ok(())
    }

    /// Says goodbye.
    pub(super) fn disconnect(&mut self, output: &mut Output) {
        if self.has_left {
            return;
        }
        self.has_left = true;
        let header = RequestHeader {
            flags: CommandFlags::NONE,
            command: CommandCode::Disc,
            cookie: 0,
            offset_bytes: 0,
            length_bytes: 0,
        };
        self.push(&header, output);
    }

    fn push(&self, header: &RequestHeader, output: &mut Output) {
        if self.rules.is_extended() {
            output.push(&header.emit_extended());
        } else {
            output.push(&header.emit());
        }
    }

    /// The next event, if what was received makes one.
    pub(super) fn poll(&mut self, input: &mut Input) -> Result<Option<Event>, ClientError> {
        loop {
            let event = match self.awaited {
                Awaited::Header => {
                    let Some(header) = self.header(input)? else {
                        return Ok(None);
                    };
                    match header {
                        Header::Simple(reply) => self.simple(reply, input)?,
                        Header::Chunk(header) => self.chunk(header, input)?,
                    }
                }
                Awaited::Offset(header) => {
                    let Some(bytes) = input.header::<OFFSET_BYTES>() else {
                        return Ok(None);
                    };
                    let offset_bytes = u64::from_be_bytes(*bytes);
                    input.take(OFFSET_BYTES);
                    let length_bytes = header.payload_bytes - OFFSET_BYTES as u64;
                    self.data(header.cookie, offset_bytes, length_bytes, input)?;
                    self.awaited = Awaited::Data {
                        cookie: header.cookie,
                        is_last: header.is_last(),
                    };
                    None
                }
                Awaited::Hole(header) => {
                    let Some(bytes) = input.header() else {
                        return Ok(None);
                    };
                    let hole = Hole::parse(bytes)?;
                    input.take(Hole::BYTES);
                    let length_bytes = u64::from(hole.length_bytes);
                    let open = self.open(header.cookie)?;
                    let (buffer, start, end) = open.content(hole.offset_bytes, length_bytes)?;
                    buffer[start..end].fill(0);
                    self.end(header.cookie, header.is_last())?
                }
                Awaited::Data { cookie, is_last } => {
                    let Some(data) = input.collected() else {
                        return Ok(None);
                    };
                    if let Kind::Read { buffer, .. } = &mut self.open(cookie)?.kind {
                        *buffer = data;
                    }
                    self.end(cookie, is_last)?
                }
                Awaited::Payload(header) => {
                    let Some(payload) = input.collected() else {
                        return Ok(None);
                    };
                    self.payload(&header, &payload)?;
                    self.end(header.cookie, header.is_last())?
                }
            };
            if event.is_some() {
                return Ok(event);
            }
        }
    }

    /// The next header, if it is there.
    fn header(&self, input: &mut Input) -> Result<Option<Header>, ClientError> {
        let takes_simple = match self.rules.replies {
            Replies::Simple => true,
            Replies::Structured => {
                let Some(magic) = input.header() else {
                    return Ok(None);
                };
                is_simple(*magic)
            }
            Replies::Extended => false,
        };
        if takes_simple {
            let Some(bytes) = input.header() else {
                return Ok(None);
            };
            let reply = SimpleReply::parse(bytes)?;
            input.take(SimpleReply::BYTES);
            return Ok(Some(Header::Simple(reply)));
        }
        if !self.rules.is_extended() {
            let Some(bytes) = input.header() else {
                return Ok(None);
            };
            let header = ChunkHeader::parse(bytes)?;
            input.take(ChunkHeader::BYTES);
            return Ok(Some(Header::Chunk((header, None))));
        }
        let Some(bytes) = input.header() else {
            return Ok(None);
        };
        let (header, offset_bytes) = ChunkHeader::parse_extended(bytes)?;
        input.take(ChunkHeader::EXTENDED_BYTES);
        Ok(Some(Header::Chunk((header, Some(offset_bytes)))))
    }

    /// A simple reply has come.
    fn simple(
        &mut self,
        reply: SimpleReply,
        input: &mut Input,
    ) -> Result<Option<Event>, ClientError> {
        let cookie = reply.cookie;
        let has_chunks = self.rules.replies != Replies::Simple;
        let open = self.open(cookie)?;
        let RequestHeader {
            command,
            offset_bytes,
            length_bytes,
            ..
        } = open.header;
        let is_read = command == CommandCode::Read;
        match reply.result {
            Err(_) if is_read && has_chunks => Err(ClientError::SimpleReply(command)),
            Err(errno) => {
                open.fail(ErrorChunk {
                    errno,
                    message: String::new(),
                    offset_bytes: None,
                })?;
                self.end(cookie, true)
            }
            Ok(()) if is_read && !has_chunks => {
                self.data(cookie, offset_bytes, length_bytes, input)?;
                self.awaited = Awaited::Data {
                    cookie,
                    is_last: true,
                };
                Ok(None)
            }
            Ok(()) if is_read || command == CommandCode::BlockStatus => {
                Err(ClientError::SimpleReply(command))
            }
            Ok(()) => self.end(cookie, true),
        }
    }

    /// The header of a chunk has come.
    fn chunk(
        &mut self,
        (header, offset_bytes): (ChunkHeader, Option<u64>),
        input: &mut Input,
    ) -> Result<Option<Event>, ClientError> {
        let replies = self.rules.replies;
        let open = self.open(header.cookie)?;
        let RequestHeader {
            command,
            offset_bytes: expected,
            length_bytes,
            ..
        } = open.header;
        if let Some(found) = offset_bytes.filter(|found| *found != expected) {
            return Err(ClientError::WrongOffset {
                command,
                expected,
                found,
            });
        }
        let payload_bytes = header.payload_bytes;
        let most_bytes = |is_extended| Status::payload_bytes(is_extended, MAX_DESCRIPTORS) as u64;
        let least_bytes = OFFSET_BYTES as u64 + 1;
        self.awaited = match (header.kind, command, replies) {
            (ChunkType::None, ..) if payload_bytes == 0 && header.is_last() => {
                return self.end(header.cookie, true);
            }
            (ChunkType::OffsetData, CommandCode::Read, _)
                if (least_bytes..least_bytes + length_bytes).contains(&payload_bytes) =>
            {
                Awaited::Offset(header)
            }
            (ChunkType::OffsetHole, CommandCode::Read, _)
                if payload_bytes == Hole::BYTES as u64 =>
            {
                Awaited::Hole(header)
            }
            (ChunkType::BlockStatus, CommandCode::BlockStatus, Replies::Structured)
                if payload_bytes <= most_bytes(false) =>
            {
                Awaited::Payload(header)
            }
            (ChunkType::BlockStatusExt, CommandCode::BlockStatus, Replies::Extended)
                if payload_bytes <= most_bytes(true) =>
            {
                Awaited::Payload(header)
            }
            (kind, ..) if kind.is_error() && payload_bytes <= MAX_ERROR_BYTES => {
                Awaited::Payload(header)
            }
            (kind, ..) => {
                return Err(ClientError::WrongChunk {
                    command,
                    kind,
                    payload_bytes,
                });
            }
        };
        if let Awaited::Payload(_) = self.awaited {
            let bytes = payload_bytes as usize;
            input.collect(vec![0; bytes], 0, bytes);
        }
        Ok(None)
    }

    /// From now on, data of a read is received into its buffer.
    fn data(
        &mut self,
        cookie: u64,
        offset_bytes: u64,
        length_bytes: u64,
        input: &mut Input,
    ) -> Result<(), ClientError> {
        let open = self.open(cookie)?;
        let (buffer, start, end) = open.content(offset_bytes, length_bytes)?;
        input.collect(std::mem::take(buffer), start, end);
        Ok(())
    }

    /// The payload of a chunk has come.
    fn payload(&mut self, header: &ChunkHeader, payload: &[u8]) -> Result<(), ClientError> {
        let is_extended = self.rules.is_extended();
        let (context_id, size_bytes) = (self.context_id, self.rules.export.size_bytes);
        let open = self.open(header.cookie)?;
        if header.kind.is_error() {
            open.fail(ErrorChunk::parse(header.kind, payload)?)
        } else {
            let status = Status::parse(is_extended, payload)?;
            open.learn(status, context_id, size_bytes)
        }
    }

    /// A simple reply or a chunk is over, and with the last chunk the reply.
    fn end(&mut self, cookie: u64, is_last: bool) -> Result<Option<Event>, ClientError> {
        self.awaited = Awaited::Header;
        if !is_last {
            return Ok(None);
        }
        let open = self.open.remove(cookie);
        let open = open.ok_or(ClientError::UnknownCookie(cookie))?;
        open.finish().map(Some)
    }

    fn open(&mut self, cookie: u64) -> Result<&mut Open, ClientError> {
        let open = self.open.get_mut(cookie);
        open.ok_or(ClientError::UnknownCookie(cookie))
    }
}

/// The header of a simple reply, or that of a chunk with the request's offset if it has one.
#[derive(Debug)]
enum Header {
    Simple(SimpleReply),
    Chunk((ChunkHeader, Option<u64>)),
}
