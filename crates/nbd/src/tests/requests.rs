//! Requests that the client of this crate does not send.

use super::machine::{export, feed, option, take};
use crate::server::{Command, Event, Reply, Request, RequestId, Server, ServerError};
use crate::wire::{
    BASE_ALLOCATION, Choice, ChunkHeader, ChunkType, ClientFlags, CommandCode, CommandFlags, Errno,
    ErrorChunk, MetaQuery, OptionCode, ParseError, Replies, RequestHeader, SimpleReply, Status,
    StatusQuery,
};
use crate::{Export, Extent};

const ALL: [Replies; 3] = [Replies::Simple, Replies::Structured, Replies::Extended];

/// A server whose client has opened an export.
fn opened_export(replies: Replies, export: Export) -> Server {
    let mut server = Server::new([export].into());
    let mut hello = ClientFlags::FIXED_NEWSTYLE.to_wire().to_be_bytes().to_vec();
    let (mut context, mut choice) = (Vec::new(), Vec::new());
    MetaQuery {
        export: "",
        queries: vec![BASE_ALLOCATION],
    }
    .emit(&mut context);
    Choice {
        name: "",
        infos: vec![],
    }
    .emit(&mut choice);
    match replies {
        Replies::Simple => {}
        Replies::Structured => hello.extend(option(OptionCode::StructuredReply, &[])),
        Replies::Extended => hello.extend(option(OptionCode::ExtendedHeaders, &[])),
    }
    hello.extend(option(OptionCode::SetMetaContext, &context));
    hello.extend(option(OptionCode::Go, &choice));
    let events = feed(&mut server, &hello);
    assert_eq!(events, Ok(vec![Event::Opened { export: 0 }]));
    take(&mut server);
    server
}

fn opened(replies: Replies) -> Server {
    opened_export(replies, export("disk"))
}

fn header(command: CommandCode, offset_bytes: u64, length_bytes: u64) -> RequestHeader {
    RequestHeader {
        flags: CommandFlags::NONE,
        command,
        cookie: 0xc00c1e,
        offset_bytes,
        length_bytes,
    }
}

fn flagged(header: RequestHeader, flags: CommandFlags) -> RequestHeader {
    RequestHeader { flags, ..header }
}

fn emitted(replies: Replies, header: &RequestHeader) -> Vec<u8> {
    match replies {
        Replies::Simple | Replies::Structured => header.emit().to_vec(),
        Replies::Extended => header.emit_extended().to_vec(),
    }
}

/// Sends a request, and returns what the server asks its caller.
fn ask(server: &mut Server, replies: Replies, header: &RequestHeader) -> Request {
    let events = feed(server, &emitted(replies, header)).unwrap();
    match <[Event; 1]>::try_from(events) {
        Ok([Event::Request(request)]) => request,
        other => panic!("{other:?}"),
    }
}

/// A reply: its type and payload, or its error.
fn reply(replies: Replies, bytes: &[u8]) -> Result<(ChunkType, Vec<u8>), Errno> {
    let (header, payload) = match replies {
        Replies::Simple => {
            let (header, data) = bytes.split_first_chunk().unwrap();
            let reply = SimpleReply::parse(header).unwrap();
            assert_eq!(reply.cookie, 0xc00c1e);
            return reply.result.map(|()| (ChunkType::None, data.to_vec()));
        }
        Replies::Structured => {
            let (header, payload) = bytes.split_first_chunk().unwrap();
            (ChunkHeader::parse(header).unwrap(), payload)
        }
        Replies::Extended => {
            let (header, payload) = bytes.split_first_chunk().unwrap();
            (ChunkHeader::parse_extended(header).unwrap().0, payload)
        }
    };
    assert!(header.is_last());
    assert_eq!(header.cookie, 0xc00c1e);
    assert_eq!(header.payload_bytes, payload.len() as u64);
    if header.kind.is_error() {
        let error = ErrorChunk::parse(header.kind, payload).unwrap();
        return Err(error.errno);
    }
    Ok((header.kind, payload.to_vec()))
}

/// Sends a request that is refused, with its payload; the next request is understood. Returns the error.
fn refused(server: &mut Server, replies: Replies, header: &RequestHeader, payload: usize) -> Errno {
    let mut bytes = emitted(replies, header);
    bytes.resize(bytes.len() + payload, 0x55);
    assert_eq!(feed(server, &bytes), Ok(vec![]));
    let errno = reply(replies, &take(server)).unwrap_err();
    let read = self::header(CommandCode::Read, 0, 512);
    let request = ask(server, replies, &read);
    server.reply(request.id, Ok(Reply::Data(&[7; 512])));
    let (_, data) = reply(replies, &take(server)).unwrap();
    assert!(data.ends_with(&[7; 512]));
    errno
}

#[test]
fn unknown_commands_are_refused() {
    for replies in ALL {
        let mut server = opened(replies);
        let unknown = header(CommandCode::Other(8), 0, 1 << 20);
        assert_eq!(refused(&mut server, replies, &unknown, 0), Errno::Inval);
    }
}

#[test]
fn payloads_of_refused_writes_are_dropped() {
    for replies in ALL {
        let long = 20 << 20;
        let flags =
            CommandFlags::NONE.with_if(replies == Replies::Extended, CommandFlags::PAYLOAD_LEN);
        let write = |offset, length| flagged(header(CommandCode::Write, offset, length), flags);
        let mut server = opened(replies);
        for (header, errno) in [
            (write(0, 513), Errno::Inval),
            (write(0, 0), Errno::Inval),
            (write(0, long), Errno::NoSpc),
            (write(0, 512 << 10), Errno::Inval),
            (write(u64::MAX - 511, 1024), Errno::NoSpc),
            (
                flagged(write(0, 1 << 20), flags.with(CommandFlags::DF)),
                Errno::Inval,
            ),
        ] {
            let payload = header.length_bytes as usize;
            assert_eq!(refused(&mut server, replies, &header, payload), errno);
            assert!(server.memory_bytes() < 100 << 10);
        }
        let mut read_only = export("disk");
        read_only.abilities.read_only = true;
        let mut server = opened_export(replies, read_only);
        assert_eq!(
            refused(&mut server, replies, &write(0, 512), 512),
            Errno::Perm
        );
    }
}

#[test]
fn payloads_are_where_the_headers_have_them() {
    // A compact header has no payload unless it is a write.
    let payload = CommandFlags::PAYLOAD_LEN;
    for replies in [Replies::Simple, Replies::Structured] {
        let mut server = opened(replies);
        let read = flagged(header(CommandCode::Read, 0, 512), payload);
        assert_eq!(refused(&mut server, replies, &read, 0), Errno::Inval);
        let write = flagged(header(CommandCode::Write, 0, 512), payload);
        assert_eq!(refused(&mut server, replies, &write, 512), Errno::Inval);
    }
    // An extended header has one if it says so.
    let replies = Replies::Extended;
    let mut server = opened(replies);
    let read = flagged(header(CommandCode::Read, 0, 512), payload);
    assert_eq!(refused(&mut server, replies, &read, 512), Errno::Inval);
    let write = header(CommandCode::Write, 0, 512);
    assert_eq!(refused(&mut server, replies, &write, 0), Errno::Inval);
    let flush = flagged(header(CommandCode::Flush, 0, 9), payload);
    assert_eq!(refused(&mut server, replies, &flush, 9), Errno::Inval);
    let long = flagged(header(CommandCode::Read, 0, (32 << 20) + 1), payload);
    let error = feed(&mut server, &long.emit_extended()).unwrap_err();
    assert_eq!(
        error,
        ServerError::PayloadTooLong {
            command: CommandCode::Read,
            payload_bytes: (32 << 20) + 1
        }
    );
}

#[test]
fn queries_may_name_their_context() {
    let replies = Replies::Extended;
    let status = |length| {
        let header = header(CommandCode::BlockStatus, 512, length);
        flagged(
            header,
            CommandFlags::PAYLOAD_LEN.with(CommandFlags::REQ_ONE),
        )
    };
    let query = |length_bytes, context_id| StatusQuery {
        length_bytes,
        context_id,
    };
    let mut server = opened(replies);
    let asked = [&status(12).emit_extended()[..], &query(1024, 1).emit()].concat();
    let events = feed(&mut server, &asked).unwrap();
    let [Event::Request(request)] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(
        request.command,
        Command::BlockStatus {
            offset_bytes: 512,
            length_bytes: 1024,
            one: true
        }
    );
    let extent = Extent {
        length_bytes: 4096,
        is_hole: true,
        reads_zero: true,
    };
    server.reply(request.id, Ok(Reply::Status(&[extent])));
    let (kind, payload) = reply(replies, &take(&mut server)).unwrap();
    assert_eq!(kind, ChunkType::BlockStatusExt);
    let answer = Status::parse(true, &payload).unwrap();
    assert_eq!(answer.descriptors[0].length_bytes, 1024);
    assert_eq!(answer.descriptors[0].state.to_wire(), 3);
    // Another context, a range beyond the end, an empty one, two contexts, none.
    for query in [query(1024, 2), query(1 << 20, 1), query(0, 1)] {
        let asked = [&status(12).emit_extended()[..], &query.emit()].concat();
        assert_eq!(feed(&mut server, &asked), Ok(vec![]));
        let errno = reply(replies, &take(&mut server)).unwrap_err();
        assert_eq!(errno, Errno::Inval);
    }
    for bytes in [16, 8, 3] {
        let errno = refused(&mut server, replies, &status(bytes), bytes as usize);
        assert_eq!(errno, Errno::Inval);
    }
}

#[test]
fn a_reply_is_one_chunk() {
    for replies in [Replies::Structured, Replies::Extended] {
        let mut server = opened(replies);
        let read = flagged(header(CommandCode::Read, 512, 65536), CommandFlags::DF);
        let request = ask(&mut server, replies, &read);
        server.reply(request.id, Ok(Reply::Data(&[9; 65536])));
        let (kind, payload) = reply(replies, &take(&mut server)).unwrap();
        assert_eq!((kind, payload.len()), (ChunkType::OffsetData, 8 + 65536));
        assert_eq!(payload[..8], 512u64.to_be_bytes());
        let request = ask(&mut server, replies, &read);
        server.reply(request.id, Ok(Reply::Hole));
        let (kind, payload) = reply(replies, &take(&mut server)).unwrap();
        assert_eq!((kind, payload.len()), (ChunkType::OffsetHole, 12));
        let long = flagged(header(CommandCode::Read, 0, 512 << 10), CommandFlags::DF);
        assert_eq!(refused(&mut server, replies, &long, 0), Errno::Overflow);
    }
    let mut server = opened(Replies::Simple);
    let request = ask(
        &mut server,
        Replies::Simple,
        &header(CommandCode::Read, 0, 512),
    );
    server.reply(request.id, Ok(Reply::Hole));
    let (_, data) = reply(Replies::Simple, &take(&mut server)).unwrap();
    assert_eq!(data, [0; 512]);
}

#[test]
fn a_read_that_fails_while_it_is_written_leaves_nothing() {
    for replies in ALL {
        let mut server = opened(replies);
        let request = ask(&mut server, replies, &header(CommandCode::Read, 0, 4096));
        server.reply_read(request.id, |space| {
            space[..100].fill(1);
            Err(Errno::Io)
        });
        assert_eq!(reply(replies, &take(&mut server)), Err(Errno::Io));
    }
}

#[test]
fn open_requests_are_answered_after_a_goodbye() {
    for replies in ALL {
        let mut server = opened(replies);
        let read = header(CommandCode::Read, 0, 512);
        let request = ask(&mut server, replies, &read);
        let mut bytes = emitted(replies, &header(CommandCode::Disc, 1, 1));
        bytes.extend(b"what nobody may send");
        assert_eq!(feed(&mut server, &bytes), Ok(vec![Event::Disconnect]));
        assert_eq!(feed(&mut server, &bytes), Ok(vec![]));
        assert!(!server.is_finished());
        server.reply(request.id, Ok(Reply::Hole));
        assert_eq!(server.open_requests(), 0);
        assert!(!server.is_finished());
        reply(replies, &take(&mut server)).unwrap();
        assert!(server.is_finished());
    }
}

#[test]
fn a_cookie_may_be_used_twice() {
    let mut server = opened(Replies::Simple);
    let flush = header(CommandCode::Flush, 0, 0);
    let first = ask(&mut server, Replies::Simple, &flush);
    let second = ask(&mut server, Replies::Simple, &flush);
    assert_ne!(first.id, second.id);
    server.reply(second.id, Ok(Reply::Done));
    server.reply(first.id, Err(Errno::Shutdown));
    let bytes = take(&mut server);
    assert!(reply(Replies::Simple, &bytes[..16]).is_ok());
    assert_eq!(reply(Replies::Simple, &bytes[16..]), Err(Errno::Shutdown));
}

#[test]
fn what_is_no_request_ends_the_connection() {
    for replies in ALL {
        let mut server = opened(replies);
        let request = ask(&mut server, replies, &header(CommandCode::Flush, 0, 0));
        let error = feed(&mut server, &[0x25; 32]).unwrap_err();
        let ServerError::Header(ParseError::Magic { found, .. }) = error else {
            panic!("{error}");
        };
        assert_eq!(found, 0x2525_2525);
        assert!(feed(&mut server, &[1]).is_err());
        // What was under way may still be answered.
        server.reply(request.id, Ok(Reply::Done));
        assert!(!server.is_finished());
    }
}

/// A server with an open read.
fn reading() -> (Server, RequestId) {
    let mut server = opened(Replies::Simple);
    let request = ask(
        &mut server,
        Replies::Simple,
        &header(CommandCode::Read, 0, 512),
    );
    (server, request.id)
}

#[test]
#[should_panic(expected = "is not open")]
fn a_request_is_answered_once() {
    let (mut server, id) = reading();
    server.reply(id, Ok(Reply::Hole));
    server.reply(id, Ok(Reply::Hole));
}

#[test]
#[should_panic(expected = "a read of 512 bytes is answered with 511")]
fn data_has_the_length_that_was_asked_for() {
    let (mut server, id) = reading();
    server.reply(id, Ok(Reply::Data(&[0; 511])));
}

#[test]
#[should_panic(expected = "that is no answer to NBD_CMD_READ")]
fn an_answer_suits_its_request() {
    let (mut server, id) = reading();
    server.reply(id, Ok(Reply::Done));
}
