//! Commands as requests.

use super::coverage::Coverage;
use super::event::Command;
use super::open::{Kind, Open};
use crate::wire::{CommandCode, CommandFlags, RequestHeader};

/// The request of a command: its header, whose cookie is not known yet, and what is kept until its reply.
pub(super) fn request(command: Command<'_>, user: u64, is_extended: bool) -> (Open, &[u8]) {
    let fua = |fua| CommandFlags::NONE.with_if(fua, CommandFlags::FUA);
    let mut kind = Kind::Plain;
    let mut payload: &[u8] = &[];
    let (code, offset_bytes, length_bytes, flags) = match command {
        Command::Read {
            offset_bytes,
            buffer,
        } => {
            let length_bytes = buffer.len() as u64;
            kind = Kind::Read {
                buffer,
                coverage: Coverage::default(),
            };
            let flags = CommandFlags::NONE;
            (CommandCode::Read, offset_bytes, length_bytes, flags)
        }
        Command::Write {
            offset_bytes,
            data,
            fua: is_fua,
        } => {
            payload = data;
            let flags = fua(is_fua).with_if(is_extended, CommandFlags::PAYLOAD_LEN);
            (CommandCode::Write, offset_bytes, data.len() as u64, flags)
        }
        Command::Flush => (CommandCode::Flush, 0, 0, CommandFlags::NONE),
        Command::Trim {
            offset_bytes,
            length_bytes,
            fua: is_fua,
        } => (CommandCode::Trim, offset_bytes, length_bytes, fua(is_fua)),
        Command::WriteZeroes {
            offset_bytes,
            length_bytes,
            fua: is_fua,
            may_unmap,
            fast,
        } => {
            let flags = fua(is_fua)
                .with_if(!may_unmap, CommandFlags::NO_HOLE)
                .with_if(fast, CommandFlags::FAST_ZERO);
            (CommandCode::WriteZeroes, offset_bytes, length_bytes, flags)
        }
        Command::Cache {
            offset_bytes,
            length_bytes,
        } => {
            let flags = CommandFlags::NONE;
            (CommandCode::Cache, offset_bytes, length_bytes, flags)
        }
        Command::BlockStatus {
            offset_bytes,
            length_bytes,
            one,
        } => {
            kind = Kind::Status(Vec::new());
            let flags = CommandFlags::NONE.with_if(one, CommandFlags::REQ_ONE);
            (CommandCode::BlockStatus, offset_bytes, length_bytes, flags)
        }
    };
    let header = RequestHeader {
        flags,
        command: code,
        cookie: 0,
        offset_bytes,
        length_bytes,
    };
    (Open::new(user, header, kind), payload)
}
