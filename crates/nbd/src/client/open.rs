//! A command whose reply has not come yet.

use super::coverage::{Coverage, Problem};
use super::error::ClientError;
use super::event::{Done, Event, Failure};
use crate::Extent;
use crate::wire::{CommandFlags, ErrorChunk, RequestHeader, Status};

/// A command whose reply has not come yet.
#[derive(Debug)]
pub(super) struct Open {
    user: u64,
    /// Its request, but for the cookie.
    pub(super) header: RequestHeader,
    pub(super) kind: Kind,
    /// The first error of the reply.
    error: Option<ErrorChunk>,
}

/// What its reply has brought.
#[derive(Debug)]
pub(super) enum Kind {
    /// Nothing is to be brought.
    Plain,
    /// What was read.
    Read { buffer: Vec<u8>, coverage: Coverage },
    /// What is allocated; empty until it is there.
    Status(Vec<Extent>),
}

impl Open {
    pub(super) fn new(user: u64, header: RequestHeader, kind: Kind) -> Self {
        Open {
            user,
            header,
            kind,
            error: None,
        }
    }

    /// Content for `length` bytes from an offset of the export comes: returns the buffer, and where in it.
    ///
    /// # Errors
    /// When that is not within the read, or has come before.
    pub(super) fn content(
        &mut self,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Result<(&mut Vec<u8>, usize, usize), ClientError> {
        let header = self.header;
        let start = self.within(offset_bytes)?;
        let end = start.saturating_add(length_bytes);
        if end > header.length_bytes {
            return Err(self.out_of_range(offset_bytes.saturating_add(length_bytes)));
        }
        let wrong = self.out_of_range(offset_bytes);
        let Kind::Read { buffer, coverage } = &mut self.kind else {
            return Err(wrong);
        };
        coverage.add(start, end).map_err(|problem| match problem {
            Problem::Overlap => ClientError::Overlap { offset_bytes },
            Problem::TooMany => ClientError::TooManyPieces,
        })?;
        Ok((buffer, start as usize, end as usize))
    }

    /// An error comes.
    ///
    /// # Errors
    /// When it is about other bytes than those of the request.
    pub(super) fn fail(&mut self, error: ErrorChunk) -> Result<(), ClientError> {
        if let Some(offset_bytes) = error.offset_bytes {
            self.within(offset_bytes)?;
        }
        self.error.get_or_insert(error);
        Ok(())
    }

    /// How far an offset of the export lies behind the request's, which is less than its length.
    fn within(&self, offset_bytes: u64) -> Result<u64, ClientError> {
        let start = offset_bytes.checked_sub(self.header.offset_bytes);
        start
            .filter(|start| *start < self.header.length_bytes)
            .ok_or_else(|| self.out_of_range(offset_bytes))
    }

    fn out_of_range(&self, offset_bytes: u64) -> ClientError {
        ClientError::OutOfRange {
            command: self.header.command,
            start_bytes: self.header.offset_bytes,
            length_bytes: self.header.length_bytes,
            offset_bytes,
        }
    }

    /// What is allocated comes, for an export of that size and the context of that number.
    ///
    /// # Errors
    /// [`ClientError::WrongStatus`].
    pub(super) fn learn(
        &mut self,
        status: Status,
        context_id: Option<u32>,
        size_bytes: u64,
    ) -> Result<(), ClientError> {
        let wrong = |what| Err(ClientError::WrongStatus(what));
        if Some(status.context_id) != context_id {
            return wrong("a metadata context that was not chosen");
        }
        let Kind::Status(extents) = &mut self.kind else {
            return wrong("what was not asked for");
        };
        if !extents.is_empty() {
            return wrong("two chunks for one metadata context");
        }
        let wanted_bytes = self.header.length_bytes;
        let is_one = self.header.flags.has(CommandFlags::REQ_ONE);
        let mut left_bytes = size_bytes.saturating_sub(self.header.offset_bytes);
        let mut covered_bytes = 0u64;
        for (place, descriptor) in status.descriptors.into_iter().enumerate() {
            if place > 0 && (is_one || covered_bytes >= wanted_bytes) {
                return wrong("extents behind those that were asked for");
            }
            if is_one && descriptor.length_bytes > wanted_bytes {
                return wrong("an extent that is longer than what was asked for");
            }
            covered_bytes = covered_bytes.saturating_add(descriptor.length_bytes);
            let length_bytes = descriptor.length_bytes.min(left_bytes);
            if length_bytes > 0 {
                left_bytes -= length_bytes;
                extents.push(Extent {
                    length_bytes,
                    ..Extent::from(descriptor)
                });
            }
        }
        Ok(())
    }

    /// The reply is over.
    ///
    /// # Errors
    /// When it succeeded without what it has to bring.
    pub(super) fn finish(self) -> Result<Event, ClientError> {
        let user = self.user;
        let result = match (self.error, self.kind) {
            (Some(error), kind) => Err(Failure {
                errno: error.errno,
                message: error.message,
                offset_bytes: error.offset_bytes,
                buffer: match kind {
                    Kind::Read { buffer, .. } => buffer,
                    Kind::Plain | Kind::Status(_) => Vec::new(),
                },
            }),
            (None, Kind::Plain) => Ok(Done::Plain),
            (None, Kind::Read { buffer, coverage }) => {
                if !coverage.is_full(buffer.len() as u64) {
                    return Err(ClientError::Incomplete);
                }
                Ok(Done::Data(buffer))
            }
            (None, Kind::Status(extents)) => {
                if extents.is_empty() {
                    return Err(ClientError::WrongStatus("no extents"));
                }
                Ok(Done::Status(extents))
            }
        };
        Ok(Event::Done { user, result })
    }
}
