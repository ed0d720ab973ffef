//! Requests as their caller sees them.

use super::event::Command;
use crate::rules::Refusal;
use crate::wire::{CommandCode, CommandFlags, RequestHeader, StatusQuery};

/// The metadata context `base:allocation`, the only one.
pub(super) const CONTEXT_ID: u32 = 1;

/// What a request asks for that the rules allow. Only writes have a payload here.
pub(super) fn command(header: &RequestHeader, payload: Vec<u8>) -> Command {
    let RequestHeader {
        flags,
        offset_bytes,
        length_bytes,
        ..
    } = *header;
    let fua = flags.has(CommandFlags::FUA);
    match header.command {
        CommandCode::Read => Command::Read {
            offset_bytes,
            // The maximum payload has 32 bits.
            length_bytes: length_bytes as u32,
        },
        CommandCode::Write => Command::Write {
            offset_bytes,
            data: payload,
            fua,
        },
        CommandCode::Flush => Command::Flush,
        CommandCode::Trim => Command::Trim {
            offset_bytes,
            length_bytes,
            fua,
        },
        CommandCode::WriteZeroes => Command::WriteZeroes {
            offset_bytes,
            length_bytes,
            fua,
            may_unmap: !flags.has(CommandFlags::NO_HOLE),
            fast: flags.has(CommandFlags::FAST_ZERO),
        },
        CommandCode::Cache => Command::Cache {
            offset_bytes,
            length_bytes,
        },
        CommandCode::BlockStatus => Command::BlockStatus {
            offset_bytes,
            length_bytes,
            one: flags.has(CommandFlags::REQ_ONE),
        },
        CommandCode::Disc | CommandCode::Other(_) => unreachable!("the rules refuse it"),
    }
}

/// The header that a query of what is allocated stands for, whose payload names its range and its context.
pub(super) fn queried(header: &RequestHeader, payload: &[u8]) -> Result<RequestHeader, Refusal> {
    match StatusQuery::parse(payload) {
        Some(query) if query.context_id == CONTEXT_ID => Ok(RequestHeader {
            flags: header.flags.without(CommandFlags::PAYLOAD_LEN),
            length_bytes: query.length_bytes,
            ..*header
        }),
        _ => Err(Refusal::invalid("the payload names an unknown context")),
    }
}
