//! Replies that the server of this crate does not send.

use super::machine::{Cuts, feed, take};
use super::pair::{EXTENDED, Pair, SIMPLE, STRUCTURED};
use crate::client::{Client, ClientError, Command, Done, Event, Failure, SubmitError};
use crate::wire::{
    ChunkFlags, ChunkHeader, ChunkType, CommandCode, Descriptor, Errno, ErrorChunk, Hole, Replies,
    RequestHeader, SimpleReply, StateFlags, Status,
};

const LAST: ChunkFlags = ChunkFlags::DONE;
const MORE: ChunkFlags = ChunkFlags::NONE;

/// A client with an open export, to whose requests the test replies.
struct Replier {
    client: Client,
    replies: Replies,
}

impl Replier {
    fn new(replies: Replies) -> Self {
        let wants = match replies {
            Replies::Simple => SIMPLE,
            Replies::Structured => STRUCTURED,
            Replies::Extended => EXTENDED,
        };
        let pair = Pair::opened(wants, Cuts::new(&[100]));
        Replier {
            client: pair.client,
            replies,
        }
    }

    /// Sends a command, and returns its request.
    fn submit(&mut self, command: Command<'_>) -> RequestHeader {
        self.client.submit(command, 1).unwrap();
        let bytes = take(&mut self.client);
        match self.replies {
            Replies::Extended => RequestHeader::parse_extended(bytes.first_chunk().unwrap()),
            _ => RequestHeader::parse(bytes.first_chunk().unwrap()),
        }
        .unwrap()
    }

    fn read(&mut self, offset_bytes: u64, length: usize) -> RequestHeader {
        let buffer = vec![0xee; length];
        self.submit(Command::Read {
            offset_bytes,
            buffer,
        })
    }

    fn status(&mut self, one: bool) -> RequestHeader {
        self.submit(Command::BlockStatus {
            offset_bytes: 512,
            length_bytes: 4096,
            one,
        })
    }

    fn chunk(
        &mut self,
        request: &RequestHeader,
        flags: ChunkFlags,
        kind: ChunkType,
        payload: &[u8],
    ) -> Result<Vec<Event>, ClientError> {
        let header = ChunkHeader {
            flags,
            kind,
            cookie: request.cookie,
            payload_bytes: payload.len() as u64,
        };
        let header = match self.replies {
            Replies::Extended => header.emit_extended(request.offset_bytes).to_vec(),
            _ => header.emit().to_vec(),
        };
        feed(&mut self.client, &[&header, payload].concat())
    }

    fn data(
        &mut self,
        request: &RequestHeader,
        flags: ChunkFlags,
        offset_bytes: u64,
        data: &[u8],
    ) -> Result<Vec<Event>, ClientError> {
        let payload = [&offset_bytes.to_be_bytes(), data].concat();
        self.chunk(request, flags, ChunkType::OffsetData, &payload)
    }

    fn hole(
        &mut self,
        request: &RequestHeader,
        flags: ChunkFlags,
        offset_bytes: u64,
        length_bytes: u32,
    ) -> Result<Vec<Event>, ClientError> {
        let hole = Hole {
            offset_bytes,
            length_bytes,
        };
        self.chunk(request, flags, ChunkType::OffsetHole, &hole.emit())
    }

    fn error(
        &mut self,
        request: &RequestHeader,
        flags: ChunkFlags,
        offset_bytes: Option<u64>,
    ) -> Result<Vec<Event>, ClientError> {
        let error = ErrorChunk {
            errno: Errno::Io,
            message: "worn\tout".into(),
            offset_bytes,
        };
        let mut payload = Vec::new();
        error.emit(&mut payload);
        self.chunk(request, flags, error.kind(), &payload)
    }

    fn extents(
        &mut self,
        request: &RequestHeader,
        flags: ChunkFlags,
        context_id: u32,
        lengths: &[u64],
    ) -> Result<Vec<Event>, ClientError> {
        let is_extended = self.replies == Replies::Extended;
        let descriptors = lengths
            .iter()
            .map(|length_bytes| Descriptor {
                length_bytes: *length_bytes,
                state: StateFlags::HOLE,
            })
            .collect();
        let status = Status {
            context_id,
            descriptors,
        };
        let mut payload = Vec::new();
        status.emit(is_extended, &mut payload);
        let kind = if is_extended {
            ChunkType::BlockStatusExt
        } else {
            ChunkType::BlockStatus
        };
        self.chunk(request, flags, kind, &payload)
    }
}

const CHUNKS: [Replies; 2] = [Replies::Structured, Replies::Extended];

fn failure(events: &[Event]) -> &Failure {
    match events {
        [
            Event::Done {
                result: Err(failure),
                ..
            },
        ] => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn chunks_come_in_any_order_and_between_others() {
    for replies in CHUNKS {
        let mut replier = Replier::new(replies);
        let first = replier.read(0, 40 << 10);
        let second = replier.read(1024, 1024);
        let none = Ok(vec![]);
        assert_eq!(replier.data(&first, MORE, 20 << 10, &[2; 20 << 10]), none);
        assert_eq!(replier.hole(&second, MORE, 1536, 512), none);
        assert_eq!(replier.hole(&first, MORE, 0, 10 << 10), none);
        let events = replier.data(&second, LAST, 1024, &[3; 512]).unwrap();
        let expected = [[3; 512], [0; 512]].concat();
        let result = Ok(Done::Data(expected));
        assert_eq!(events, [Event::Done { user: 1, result }]);
        assert_eq!(replier.data(&first, MORE, 10 << 10, &[1; 10 << 10]), none);
        let events = replier.chunk(&first, LAST, ChunkType::None, &[]).unwrap();
        let expected = [vec![0; 10 << 10], vec![1; 10 << 10], vec![2; 20 << 10]].concat();
        let result = Ok(Done::Data(expected));
        assert_eq!(events, [Event::Done { user: 1, result }]);
    }
}

#[test]
fn errors_come_with_offsets_and_words() {
    for replies in CHUNKS {
        let mut replier = Replier::new(replies);
        let read = replier.read(512, 1024);
        replier.data(&read, MORE, 512, &[0; 512]).unwrap();
        replier.error(&read, MORE, Some(1024)).unwrap();
        // Content may follow on an error, and further errors.
        replier.hole(&read, MORE, 1024, 512).unwrap();
        let events = replier.error(&read, LAST, None).unwrap();
        let failure = failure(&events);
        assert_eq!(
            (failure.errno, failure.offset_bytes),
            (Errno::Io, Some(1024))
        );
        assert_eq!(failure.buffer.len(), 1024);
        let words = "the server failed the command with NBD_EIO (input/output error): worn\\tout";
        assert_eq!(failure.to_string(), words);
        // An error of a kind that is not known is one nevertheless.
        let flush = replier.submit(Command::Flush);
        let kind = ChunkType::from_wire(0x8123);
        let payload = [0, 0, 0, 28, 0, 1, b'!', 1, 2, 3];
        let events = replier.chunk(&flush, LAST, kind, &payload).unwrap();
        assert_eq!(self::failure(&events).errno, Errno::NoSpc);
        for offset in [511, 1536, u64::MAX] {
            let mut replier = Replier::new(replies);
            let read = replier.read(512, 1024);
            let error = replier.error(&read, LAST, Some(offset)).unwrap_err();
            assert!(matches!(error, ClientError::OutOfRange { .. }), "{error}");
        }
    }
}

#[test]
fn structured_replies_may_be_simple_where_nothing_is_brought() {
    let simple = |command: Command<'_>, result| {
        let mut replier = Replier::new(Replies::Structured);
        let cookie = replier.submit(command).cookie;
        feed(&mut replier.client, &SimpleReply { result, cookie }.emit())
    };
    let done = vec![Event::Done {
        user: 1,
        result: Ok(Done::Plain),
    }];
    assert_eq!(simple(Command::Flush, Ok(())), Ok(done));
    let events = simple(Command::Flush, Err(Errno::NoMem)).unwrap();
    assert_eq!(failure(&events).errno, Errno::NoMem);
    let read = || Command::Read {
        offset_bytes: 0,
        buffer: vec![0; 512],
    };
    let status = Command::BlockStatus {
        offset_bytes: 0,
        length_bytes: 512,
        one: false,
    };
    for result in [Ok(()), Err(Errno::Io)] {
        let error = ClientError::SimpleReply(CommandCode::Read);
        assert_eq!(simple(read(), result), Err(error));
    }
    let error = ClientError::SimpleReply(CommandCode::BlockStatus);
    assert_eq!(simple(status, Ok(())), Err(error));
}

#[test]
fn replies_belong_to_requests() {
    for replies in [Replies::Simple, Replies::Structured, Replies::Extended] {
        let mut replier = Replier::new(replies);
        let flush = replier.submit(Command::Flush);
        let other = RequestHeader {
            cookie: 99,
            ..flush
        };
        let error = if replies == Replies::Simple {
            let reply = SimpleReply {
                result: Ok(()),
                cookie: 99,
            };
            feed(&mut replier.client, &reply.emit()).unwrap_err()
        } else {
            let result = replier.chunk(&other, LAST, ChunkType::None, &[]);
            result.unwrap_err()
        };
        assert_eq!(error, ClientError::UnknownCookie(99));
        // And so it stays.
        assert_eq!(feed(&mut replier.client, &[1]), Err(error));
        let late = replier.client.submit(Command::Flush, 2);
        assert_eq!(late, Err(SubmitError::NotReady));
    }
    let mut replier = Replier::new(Replies::Extended);
    let flush = replier.submit(Command::Flush);
    let moved = RequestHeader {
        offset_bytes: 512,
        ..flush
    };
    let error = replier.chunk(&moved, LAST, ChunkType::None, &[]);
    assert!(matches!(error, Err(ClientError::WrongOffset { .. })));
}

/// What a read of 1024 bytes at 512 comes to, by what is replied.
fn read_error(
    replies: Replies,
    reply: impl FnOnce(&mut Replier, &RequestHeader) -> Result<Vec<Event>, ClientError>,
) -> ClientError {
    let mut replier = Replier::new(replies);
    let read = replier.read(512, 1024);
    reply(&mut replier, &read).unwrap_err()
}

#[test]
fn content_is_that_of_the_read_and_comes_once() {
    for replies in CHUNKS {
        for (offset, length) in [
            (0, 512),
            (511, 512),
            (1536, 512),
            (1024, 513),
            (u64::MAX, 2),
        ] {
            for is_hole in [false, true] {
                let error = read_error(replies, |replier, read| {
                    if is_hole {
                        replier.hole(read, LAST, offset, length)
                    } else {
                        replier.data(read, LAST, offset, &vec![0; length as usize])
                    }
                });
                assert!(matches!(error, ClientError::OutOfRange { .. }), "{error}");
            }
        }
        let error = read_error(replies, |replier, read| {
            replier.hole(read, MORE, 512, 512)?;
            replier.data(read, MORE, 1023, &[1])
        });
        assert_eq!(error, ClientError::Overlap { offset_bytes: 1023 });
        let error = read_error(replies, |replier, read| {
            replier.data(read, LAST, 512, &[1; 1023])
        });
        assert_eq!(error, ClientError::Incomplete);
        let error = read_error(replies, |replier, read| {
            replier.chunk(read, LAST, ChunkType::None, &[])
        });
        assert_eq!(error, ClientError::Incomplete);
    }
}

#[test]
fn chunks_suit_their_requests() {
    for replies in CHUNKS {
        for (flags, kind, bytes) in [
            (MORE, ChunkType::None, 0),
            (LAST, ChunkType::None, 1),
            (LAST, ChunkType::OffsetData, 8),
            (LAST, ChunkType::OffsetData, 8 + 1025),
            (LAST, ChunkType::OffsetHole, 13),
            (LAST, ChunkType::BlockStatus, 12),
            (LAST, ChunkType::BlockStatusExt, 24),
            (LAST, ChunkType::Error, 70_000),
            (LAST, ChunkType::Other(77), 0),
        ] {
            let error = read_error(replies, |replier, read| {
                replier.chunk(read, flags, kind, &vec![0; bytes])
            });
            assert!(matches!(error, ClientError::WrongChunk { .. }), "{error}");
        }
        let error = read_error(replies, |replier, read| {
            replier.chunk(read, LAST, ChunkType::Error, &[0; 6])
        });
        assert!(matches!(error, ClientError::Message(_)), "{error}");
        let mut replier = Replier::new(replies);
        let flush = replier.submit(Command::Flush);
        let error = replier.data(&flush, LAST, 0, &[1]).unwrap_err();
        assert!(matches!(error, ClientError::WrongChunk { .. }), "{error}");
    }
}

#[test]
fn extents_may_go_beyond_the_range_but_no_further() {
    for replies in CHUNKS {
        let lengths = |one, lengths: &[u64]| {
            let mut replier = Replier::new(replies);
            let status = replier.status(one);
            let events = replier.extents(&status, LAST, 1, lengths)?;
            match <[Event; 1]>::try_from(events) {
                Ok(
                    [
                        Event::Done {
                            result: Ok(Done::Status(extents)),
                            ..
                        },
                    ],
                ) => Ok(extents
                    .iter()
                    .map(|one| one.length_bytes)
                    .collect::<Vec<_>>()),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(lengths(false, &[512]), Ok(vec![512]));
        assert_eq!(lengths(false, &[4095, 9000]), Ok(vec![4095, 9000]));
        assert_eq!(lengths(true, &[4096]), Ok(vec![4096]));
        // What lies behind the export's end is left out.
        assert_eq!(lengths(false, &[1 << 30]), Ok(vec![(1 << 20) - 512]));
        for (one, wrong) in [
            (false, &[4096, 512][..]),
            (true, &[512, 512]),
            (true, &[4097]),
        ] {
            let error = lengths(one, wrong).unwrap_err();
            assert!(matches!(error, ClientError::WrongStatus(_)), "{error}");
        }
    }
}

#[test]
fn what_is_allocated_comes_once_for_the_context() {
    for replies in CHUNKS {
        let mut replier = Replier::new(replies);
        let status = replier.status(false);
        replier.extents(&status, MORE, 1, &[512]).unwrap();
        let error = replier.extents(&status, LAST, 1, &[512]).unwrap_err();
        assert!(matches!(error, ClientError::WrongStatus(_)), "{error}");
        let mut replier = Replier::new(replies);
        let status = replier.status(false);
        let error = replier.extents(&status, LAST, 2, &[512]).unwrap_err();
        assert!(matches!(error, ClientError::WrongStatus(_)), "{error}");
        let mut replier = Replier::new(replies);
        let status = replier.status(false);
        let error = replier.chunk(&status, LAST, ChunkType::None, &[]);
        assert!(matches!(error, Err(ClientError::WrongStatus(_))));
    }
}

#[test]
fn commands_that_would_fail_are_not_sent() {
    let trim = |length_bytes| Command::Trim {
        offset_bytes: 0,
        length_bytes,
        fua: false,
    };
    let mut replier = Replier::new(Replies::Simple);
    for (command, expected) in [
        (trim(0), Errno::Inval),
        (trim(513), Errno::Inval),
        (trim(2 << 20), Errno::Inval),
        (
            Command::Write {
                offset_bytes: 1 << 20,
                data: &[0; 512],
                fua: true,
            },
            Errno::NoSpc,
        ),
        (
            Command::BlockStatus {
                offset_bytes: 0,
                length_bytes: 512,
                one: false,
            },
            Errno::Inval,
        ),
    ] {
        let error = replier.client.submit(command, 1).unwrap_err();
        let SubmitError::NotAllowed { errno, .. } = error else {
            panic!("{error}");
        };
        assert_eq!(errno, expected);
    }
    assert!(replier.client.pending().is_empty());
    assert_eq!(replier.client.open_requests(), 0);
    replier.client.disconnect();
    let late = replier.client.submit(trim(512), 1);
    assert_eq!(late, Err(SubmitError::NotReady));
}
