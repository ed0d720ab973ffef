//! A server and a client joined in memory, whose streams arrive in pieces and whose requests are answered in any order.

use proptest::prelude::*;

use super::disk::{Answer, BAD_FROM, Disk, answer};
use super::machine::{Cuts, export, feed_piece};
use crate::client::{self, Client, Command, Done, ExportInfo, Failure, Listing, Refusal, Wants};
use crate::server::{self, Request, Server};
use crate::wire::{Errno, OptionReplyCode, Replies};

/// Both ends, what is on its way, and a disk.
pub(super) struct Pair {
    pub(super) server: Server,
    pub(super) client: Client,
    pub(super) disk: Disk,
    pub(super) cuts: Cuts,
    waiting: Vec<(Request, Answer)>,
    pub(super) done: Vec<(u64, Result<Done, Failure>)>,
    pub(super) ready: Option<ExportInfo>,
    refused: Option<Refusal>,
    listed: Vec<Listing>,
    pub(super) to_server: Vec<u8>,
    pub(super) to_client: Vec<u8>,
}

impl Pair {
    pub(super) fn new(client: Client, cuts: Cuts) -> Self {
        Pair {
            server: Server::new([export("disk"), export("other")].into()),
            client,
            disk: Disk::new(),
            cuts,
            waiting: Vec::new(),
            done: Vec::new(),
            ready: None,
            refused: None,
            listed: Vec::new(),
            to_server: Vec::new(),
            to_client: Vec::new(),
        }
    }

    /// A pair whose export is open.
    pub(super) fn opened(wants: Wants, cuts: Cuts) -> Self {
        let client = Client::new("disk", wants).unwrap();
        let mut pair = Pair::new(client, cuts);
        pair.run();
        assert!(pair.ready.is_some());
        pair
    }

    /// Moves a piece in each direction, and answers one request. Returns whether anything happened.
    fn step(&mut self) -> bool {
        let mut events = Vec::new();
        let bytes = self.client.pending().to_vec();
        let taken = feed_piece(&mut self.server, &bytes, &mut self.cuts, &mut events).unwrap();
        self.client.sent(taken);
        self.to_server.extend_from_slice(&bytes[..taken]);
        let mut moved = taken;
        for event in events {
            if let server::Event::Request(request) = event {
                let answer = self.disk.carry_out(&request.command);
                self.waiting.push((request, answer));
            }
        }
        let mut events = Vec::new();
        let bytes = self.server.pending().to_vec();
        let taken = feed_piece(&mut self.client, &bytes, &mut self.cuts, &mut events).unwrap();
        self.server.sent(taken);
        self.to_client.extend_from_slice(&bytes[..taken]);
        moved += taken;
        for event in events {
            match event {
                client::Event::Ready(info) => self.ready = Some(info),
                client::Event::Done { user, result } => self.done.push((user, result)),
                client::Event::Refused(refusal) => self.refused = Some(refusal),
                client::Event::Listed(exports) => self.listed = exports,
            }
        }
        // Requests wait for each other while bytes move, so that many are open.
        let answers = moved == 0 || self.cuts.next().is_multiple_of(3);
        if answers && !self.waiting.is_empty() {
            let place = self.cuts.next() % self.waiting.len();
            let (request, given) = self.waiting.swap_remove(place);
            match given {
                // Every other answer with data is written in place.
                Answer::Data(data) if self.cuts.next().is_multiple_of(2) => {
                    self.server.reply_read(request.id, |space| {
                        space.copy_from_slice(&data);
                        Ok(())
                    });
                }
                given => answer(&mut self.server, &request, &given),
            }
            return true;
        }
        moved > 0
    }

    /// Until nothing more happens.
    pub(super) fn run(&mut self) {
        while self.step() {}
    }
}

pub(super) const SIMPLE: Wants = Wants {
    extended_headers: false,
    structured_replies: false,
    block_status: true,
};

pub(super) const STRUCTURED: Wants = Wants {
    structured_replies: true,
    ..SIMPLE
};

pub(super) const EXTENDED: Wants = Wants {
    extended_headers: true,
    ..STRUCTURED
};

#[derive(Debug, Clone)]
pub(super) enum Op {
    Read,
    Write(u8),
    Zero { may_unmap: bool, fast: bool },
    Trim,
    Cache,
    Flush,
    Status { one: bool },
}

/// Operations on a range of blocks, the first and how many.
pub(super) fn ops() -> impl Strategy<Value = Vec<(Op, u64, u64)>> {
    let op = prop_oneof![
        4 => Just(Op::Read),
        4 => any::<u8>().prop_map(Op::Write),
        2 => any::<(bool, bool)>().prop_map(|(may_unmap, fast)| Op::Zero { may_unmap, fast }),
        1 => Just(Op::Trim),
        1 => Just(Op::Cache),
        1 => Just(Op::Flush),
        2 => any::<bool>().prop_map(|one| Op::Status { one }),
    ];
    let blocks = prop_oneof![3 => 1..9u64, 1 => 100..512u64];
    proptest::collection::vec((op, 0..2048u64, blocks), 1..24)
}

pub(super) fn cuts() -> impl Strategy<Value = Cuts> {
    let length = prop_oneof![1..40usize, 1000..100_000usize];
    proptest::collection::vec(length, 1..7).prop_map(|lengths| Cuts::new(&lengths))
}

/// Sends an operation, and returns what has to come of it by a model of the disk.
pub(super) fn submit(
    client: &mut Client,
    model: &mut Disk,
    (op, first, blocks): &(Op, u64, u64),
    user: u64,
) -> Option<Result<Done, Errno>> {
    let offset_bytes = first * 512;
    let length_bytes = (blocks * 512).min((1 << 20) - offset_bytes);
    let fua = user.is_multiple_of(2);
    let data;
    let (command, asked) = match op {
        Op::Read => (
            Command::Read {
                offset_bytes,
                buffer: vec![0xee; length_bytes as usize],
            },
            server::Command::Read {
                offset_bytes,
                length_bytes: length_bytes as u32,
            },
        ),
        Op::Write(byte) => {
            data = (0..length_bytes)
                .map(|place| byte.wrapping_add((place / 7) as u8))
                .collect::<Vec<u8>>();
            (
                Command::Write {
                    offset_bytes,
                    data: &data,
                    fua,
                },
                server::Command::Write {
                    offset_bytes,
                    data: data.clone(),
                    fua,
                },
            )
        }
        Op::Zero { may_unmap, fast } => (
            Command::WriteZeroes {
                offset_bytes,
                length_bytes,
                fua,
                may_unmap: *may_unmap,
                fast: *fast,
            },
            server::Command::WriteZeroes {
                offset_bytes,
                length_bytes,
                fua,
                may_unmap: *may_unmap,
                fast: *fast,
            },
        ),
        Op::Trim => (
            Command::Trim {
                offset_bytes,
                length_bytes,
                fua,
            },
            server::Command::Trim {
                offset_bytes,
                length_bytes,
                fua,
            },
        ),
        Op::Cache => (
            Command::Cache {
                offset_bytes,
                length_bytes,
            },
            server::Command::Cache {
                offset_bytes,
                length_bytes,
            },
        ),
        Op::Flush => (Command::Flush, server::Command::Flush),
        Op::Status { one } => (
            Command::BlockStatus {
                offset_bytes,
                length_bytes,
                one: *one,
            },
            server::Command::BlockStatus {
                offset_bytes,
                length_bytes,
                one: *one,
            },
        ),
    };
    client.submit(command, user).ok()?;
    Some(match model.carry_out(&asked) {
        Answer::Done => Ok(Done::Plain),
        Answer::Data(data) => Ok(Done::Data(data)),
        Answer::Hole => Ok(Done::Data(vec![0; length_bytes as usize])),
        Answer::Failed(errno) => Err(errno),
        Answer::Status(mut extents) => {
            let mut begins_at = 0;
            extents.retain(|extent| {
                let is_kept = begins_at < length_bytes;
                begins_at += extent.length_bytes;
                is_kept
            });
            if let Op::Status { one: true } = op {
                extents.truncate(1);
                extents[0].length_bytes = extents[0].length_bytes.min(length_bytes);
            }
            Ok(Done::Status(extents))
        }
    })
}

fn both_ends_agree(wants: Wants, replies: Replies, ops: &[(Op, u64, u64)], cuts: Cuts) {
    let mut pair = Pair::opened(wants, cuts);
    let info = pair.ready.clone().unwrap();
    assert_eq!(info.export, export("disk"));
    assert_eq!(info.replies, replies);
    assert_eq!(info.block_status, replies != Replies::Simple);
    let mut model = Disk::new();
    let mut expected = Vec::new();
    for (user, op) in ops.iter().enumerate() {
        let user = user as u64;
        let result = submit(&mut pair.client, &mut model, op, user);
        assert_eq!(
            result.is_none(),
            replies == Replies::Simple && matches!(op.0, Op::Status { .. })
        );
        expected.extend(result.map(|result| (user, result)));
        pair.step();
    }
    assert!(pair.client.open_requests() <= expected.len());
    pair.client.disconnect();
    pair.run();
    assert!(pair.client.is_finished() && pair.server.is_finished());
    assert_eq!(pair.client.open_requests() + pair.server.open_requests(), 0);
    pair.done.sort_by_key(|(user, _)| *user);
    let done: Vec<_> = pair
        .done
        .into_iter()
        .map(|(user, result)| (user, result.map_err(|failure| failure.errno)))
        .collect();
    assert_eq!(done, expected);
    assert!(pair.disk.bytes == model.bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn both_ends_agree_by_simple_replies(ops in ops(), cuts in cuts()) {
        both_ends_agree(SIMPLE, Replies::Simple, &ops, cuts);
    }

    #[test]
    fn both_ends_agree_by_structured_replies(ops in ops(), cuts in cuts()) {
        both_ends_agree(STRUCTURED, Replies::Structured, &ops, cuts);
    }

    #[test]
    fn both_ends_agree_by_extended_headers(ops in ops(), cuts in cuts()) {
        both_ends_agree(EXTENDED, Replies::Extended, &ops, cuts);
    }
}

#[test]
fn a_failed_read_gives_its_buffer_back() {
    for wants in [SIMPLE, STRUCTURED, EXTENDED] {
        let mut pair = Pair::opened(wants, Cuts::new(&[7]));
        let command = Command::Read {
            offset_bytes: BAD_FROM,
            buffer: vec![1; 512],
        };
        pair.client.submit(command, 5).unwrap();
        pair.run();
        let Some((5, Err(failure))) = pair.done.pop() else {
            panic!("the read has not failed");
        };
        assert_eq!(failure.errno, Errno::Io);
        assert_eq!(failure.buffer.len(), 512);
    }
}

#[test]
fn exports_are_listed() {
    let mut pair = Pair::new(Client::list(), Cuts::new(&[10]));
    pair.run();
    assert!(pair.server.is_finished() && pair.client.is_finished());
    let names: Vec<_> = pair.listed.iter().map(|export| &export.name[..]).collect();
    assert_eq!(names, ["disk", "other"]);
    assert_eq!(pair.listed[0].description, "this is disk");
}

#[test]
fn an_unknown_export_is_refused() {
    let client = Client::new("nothing", EXTENDED).unwrap();
    let mut pair = Pair::new(client, Cuts::new(&[1000]));
    pair.run();
    assert!(pair.server.is_finished() && pair.client.is_finished());
    let refused = pair.refused.unwrap();
    assert_eq!(refused.reply, OptionReplyCode::ErrUnknown);
    assert!(refused.to_string().ends_with(": there is no such export"));
}
