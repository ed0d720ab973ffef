//! Replies to a request, with the headers that both ends agreed on.

use crate::output::Output;
use crate::wire::{
    ChunkFlags, ChunkHeader, ChunkType, Errno, ErrorChunk, Hole, OFFSET_BYTES, Replies,
    RequestHeader, SimpleReply, Status,
};

/// Sends the reply to one request: a simple one, or one chunk.
#[derive(Debug)]
pub(super) struct Replier<'a> {
    pub(super) output: &'a mut Output,
    pub(super) replies: Replies,
    pub(super) request: &'a RequestHeader,
}

impl Replier<'_> {
    /// It is done.
    pub(super) fn done(mut self) {
        match self.replies {
            Replies::Simple => self.simple(Ok(())),
            Replies::Structured | Replies::Extended => self.chunk(ChunkType::None, 0),
        }
    }

    /// It failed.
    pub(super) fn error(mut self, errno: Errno, text: &str) {
        match self.replies {
            Replies::Simple => self.simple(Err(errno)),
            Replies::Structured | Replies::Extended => {
                let chunk = ErrorChunk {
                    errno,
                    message: text.to_owned(),
                    offset_bytes: None,
                };
                let mut payload = Vec::new();
                chunk.emit(&mut payload);
                self.chunk(chunk.kind(), payload.len());
                self.output.push(&payload);
            }
        }
    }

    /// What it read, which `fill` writes into the output, unless that fails.
    pub(super) fn data(mut self, fill: impl FnOnce(&mut [u8]) -> Result<(), Errno>) {
        let before = self.output.len();
        let bytes = self.read_bytes();
        match self.replies {
            Replies::Simple => self.simple(Ok(())),
            Replies::Structured | Replies::Extended => {
                self.chunk(ChunkType::OffsetData, OFFSET_BYTES + bytes);
                self.output.push(&self.request.offset_bytes.to_be_bytes());
            }
        }
        if let Err(errno) = fill(self.output.extend(bytes)) {
            self.output.truncate(before);
            self.error(errno, "");
        }
    }

    /// It read zeros.
    pub(super) fn hole(mut self) {
        let bytes = self.read_bytes();
        match self.replies {
            Replies::Simple => {
                self.simple(Ok(()));
                self.output.extend(bytes).fill(0);
            }
            Replies::Structured | Replies::Extended => {
                let hole = Hole {
                    offset_bytes: self.request.offset_bytes,
                    length_bytes: bytes as u32,
                };
                self.chunk(ChunkType::OffsetHole, Hole::BYTES);
                self.output.push(&hole.emit());
            }
        }
    }

    /// What is allocated; only with structured or extended replies.
    pub(super) fn status(mut self, status: &Status) {
        let is_extended = self.replies == Replies::Extended;
        let mut payload = Vec::new();
        status.emit(is_extended, &mut payload);
        let kind = if is_extended {
            ChunkType::BlockStatusExt
        } else {
            ChunkType::BlockStatus
        };
        self.chunk(kind, payload.len());
        self.output.push(&payload);
    }

    /// How much the request reads: at most the maximum payload, or it would not be open.
    fn read_bytes(&self) -> usize {
        self.request.length_bytes as usize
    }

    fn simple(&mut self, result: Result<(), Errno>) {
        let cookie = self.request.cookie;
        self.output.push(&SimpleReply { result, cookie }.emit());
    }

    /// The header of the only chunk.
    fn chunk(&mut self, kind: ChunkType, payload_bytes: usize) {
        let header = ChunkHeader {
            flags: ChunkFlags::DONE,
            kind,
            cookie: self.request.cookie,
            payload_bytes: payload_bytes as u64,
        };
        if self.replies == Replies::Extended {
            self.output
                .push(&header.emit_extended(self.request.offset_bytes));
        } else {
            self.output.push(&header.emit());
        }
    }
}
