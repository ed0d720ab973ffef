//! Peers that send anything: nothing panics, and nothing takes more memory than the machines say.

use proptest::prelude::*;

use super::disk::{Disk, answer};
use super::machine::{Cuts, feed_piece, take};
use super::pair::{EXTENDED, Op, Pair, SIMPLE, STRUCTURED, ops, submit};
use crate::client::{self, Client, Wants};
use crate::server::{self, Server};

/// What a machine holds of what it receives: its buffer, and one option, or one payload of the exports that are used
/// here; a payload about what is allocated is up to 2^20 descriptors.
const INPUT_BYTES: usize = (64 << 10) + (256 << 10);
const STATUS_BYTES: usize = 8 + (16 << 20);

const WANTS: [Wants; 3] = [SIMPLE, STRUCTURED, EXTENDED];

/// Serves whatever comes until the server has enough of it. What it has to send is taken after each piece.
fn serve(stream: &[u8], mut cuts: Cuts) {
    let pair = Pair::new(Client::list(), Cuts::new(&[1]));
    let (mut server, mut disk) = (pair.server, Disk::new());
    let mut fed = 0;
    let mut longest_output = 0;
    while fed < stream.len() {
        let mut events = Vec::new();
        let piece = feed_piece(&mut server, &stream[fed..], &mut cuts, &mut events);
        assert!(server.memory_bytes() <= INPUT_BYTES + 2 * longest_output.max(1 << 20));
        for event in events {
            if let server::Event::Request(request) = event {
                let given = disk.carry_out(&request.command);
                answer(&mut server, &request, &given);
            }
        }
        longest_output = longest_output.max(take(&mut server).len());
        match piece {
            Ok(piece) => fed += piece,
            Err(error) => {
                assert!(!error.to_string().contains('\n'));
                return;
            }
        }
    }
}

/// Gives whatever comes to a client, which sends `ops` once it is ready.
fn ask(wants: Wants, ops: &[(Op, u64, u64)], stream: &[u8], mut cuts: Cuts) {
    let mut client = Client::new("disk", wants).unwrap();
    let mut fed = 0;
    while fed < stream.len() {
        let mut events = Vec::new();
        let piece = feed_piece(&mut client, &stream[fed..], &mut cuts, &mut events);
        assert!(client.memory_bytes() <= INPUT_BYTES + STATUS_BYTES + (16 << 20));
        for event in events {
            if let client::Event::Ready(_) = event {
                for (user, op) in ops.iter().enumerate() {
                    submit(&mut client, &mut Disk::new(), op, user as u64);
                }
            }
        }
        match piece {
            Ok(piece) => fed += piece,
            Err(error) => {
                assert!(!error.to_string().contains('\n'));
                return;
            }
        }
        take(&mut client);
    }
}

/// What both ends sent in a session of `ops`.
fn recorded(wants: Wants, ops: &[(Op, u64, u64)]) -> (Vec<u8>, Vec<u8>) {
    let mut pair = Pair::opened(wants, Cuts::new(&[usize::MAX]));
    let mut model = Disk::new();
    for (user, op) in ops.iter().enumerate() {
        submit(&mut pair.client, &mut model, op, user as u64);
    }
    pair.client.disconnect();
    pair.run();
    (pair.to_server, pair.to_client)
}

/// A change of a stream: where, by what, and how many bytes it inserts or drops.
type Change = (proptest::sample::Index, u8, i8);

fn changed(mut stream: Vec<u8>, changes: &[Change]) -> Vec<u8> {
    for (place, value, growth) in changes {
        if stream.is_empty() {
            break;
        }
        // Most of a stream is data, of which nobody looks at a byte: changes are drawn to its beginning.
        let place = place.index(stream.len().min(2000 + usize::from(*value) * 64));
        match growth {
            1..=20 => {
                let inserted = vec![*value; *growth as usize];
                stream.splice(place..place, inserted);
            }
            -20..=-1 => {
                let end = (place + growth.unsigned_abs() as usize).min(stream.len());
                stream.drain(place..end);
            }
            _ => stream[place] ^= *value,
        }
    }
    stream
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    proptest::collection::vec(any::<Change>(), 1..5)
}

fn cuts() -> impl Strategy<Value = Cuts> {
    proptest::collection::vec(1..5000usize, 1..5).prop_map(|lengths| Cuts::new(&lengths))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_server_takes_anything_after_the_beginning(
        wants in 0..3usize,
        beginning: proptest::sample::Index,
        garbage in proptest::collection::vec(any::<u8>(), 0..2000),
        cuts in cuts(),
    ) {
        let (mut stream, _) = recorded(WANTS[wants], &[(Op::Write(1), 0, 8), (Op::Read, 0, 8)]);
        stream.truncate(beginning.index(stream.len()));
        stream.extend(garbage);
        serve(&stream, cuts);
    }

    #[test]
    fn a_client_takes_anything_after_the_beginning(
        wants in 0..3usize,
        beginning: proptest::sample::Index,
        garbage in proptest::collection::vec(any::<u8>(), 0..2000),
        cuts in cuts(),
    ) {
        let ops = [(Op::Read, 0, 8), (Op::Status { one: false }, 0, 8)];
        let (_, mut stream) = recorded(WANTS[wants], &ops);
        stream.truncate(beginning.index(stream.len()));
        stream.extend(garbage);
        ask(WANTS[wants], &ops, &stream, cuts);
    }

    #[test]
    fn a_server_takes_changed_streams(
        wants in 0..3usize,
        ops in ops(),
        changes in changes(),
        cuts in cuts(),
    ) {
        let (stream, _) = recorded(WANTS[wants], &ops);
        serve(&changed(stream, &changes), cuts);
    }

    #[test]
    fn a_client_takes_changed_streams(
        wants in 0..3usize,
        ops in ops(),
        changes in changes(),
        cuts in cuts(),
    ) {
        let (_, stream) = recorded(WANTS[wants], &ops);
        ask(WANTS[wants], &ops, &changed(stream, &changes), cuts);
    }
}

/// A client that announces the longest payload makes the server hold that, and nothing else.
#[test]
fn a_claim_is_held_once() {
    let server = Server::new([super::machine::export("disk")].into());
    assert!(server.memory_bytes() < 70 << 10);
    let (stream, _) = recorded(EXTENDED, &[(Op::Write(1), 0, 512)]);
    let mut server = Pair::new(Client::list(), Cuts::new(&[1])).server;
    // Without its last bytes, the write is still awaited.
    let cut = stream.len() - 32 - 100;
    let events = super::machine::feed(&mut server, &stream[..cut]).unwrap();
    assert_eq!(events.len(), 1);
    take(&mut server);
    assert!(server.memory_bytes() <= INPUT_BYTES + 8192);
}
