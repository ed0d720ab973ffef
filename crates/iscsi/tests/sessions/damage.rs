//! Data damaged on its way to the initiator (RFC 7143 §7.8): what is lost is resent within the connection.

use wansan_iscsi::keys::{DigestKind, Wanted};

use super::pair::{BLOCK_BYTES, Pair, copy};
use super::replay::reports_a_reset;

const BLOCKS: usize = 8;
/// Bytes of a Data-In before its data: the header and no digest.
const HEADER_BYTES: usize = 48;
/// A Data-In with one block, and its digest.
const PDU_BYTES: usize = HEADER_BYTES + BLOCK_BYTES + 4;

/// Delivers all that the target has sent, as changed on its way.
fn deliver(pair: &mut Pair, sent: &[u8]) {
    let now = pair.now();
    let bytes = copy(sent, pair.initiator.connections()[0].space());
    assert_eq!(bytes, sent.len());
    pair.target.connection(0).unwrap().sent(bytes);
    pair.initiator.connections()[0].filled(bytes, now);
    pair.initiator.receive(0, now, &mut pair.trace).unwrap();
}

/// A read of several Data-In PDUs, the last of which has its status, arrives at once, with one or two of them damaged.
#[test]
fn a_read_recovers_whichever_of_its_pdus_are_damaged() {
    for level in 1..3 {
        for first in 0..BLOCKS {
            for second in first..BLOCKS {
                let wanted = Wanted {
                    error_recovery_level: level,
                    data_digest: vec![DigestKind::Crc32c],
                    data_sequence_in_order: false,
                    max_recv_data_bytes: BLOCK_BYTES as u32,
                    ..Wanted::default()
                };
                let mut pair = Pair::new(wanted.clone(), wanted, 16, 7);
                pair.store
                    .iter_mut()
                    .zip(0_u64..)
                    .for_each(|(byte, place)| *byte = (place % 251) as u8);
                let wanted = pair.store[..BLOCKS * BLOCK_BYTES].to_vec();
                pair.read(0, BLOCKS as u32, 1);
                pair.towards_target().unwrap();
                let mut sent = pair.target.connection(0).unwrap().pending().to_vec();
                assert_eq!(sent.len(), BLOCKS * PDU_BYTES);
                for damaged in (first..=second).step_by((second - first).max(1)) {
                    sent[damaged * PDU_BYTES + HEADER_BYTES] ^= 1;
                }
                deliver(&mut pair, &sent);
                // Another command's ExpStatSN must not acknowledge the status yet.
                pair.read(100, 1, 2);
                let done = pair.settle_good();
                assert_eq!(
                    done.len(),
                    2,
                    "{first} and {second} damaged at level {level}"
                );
                let read = done.iter().find(|completion| completion.user == 1).unwrap();
                assert!(
                    matches!(&read.transfer, wansan_iscsi::initiator::Transfer::Read(data) if *data == wanted)
                );
            }
        }
    }
}

/// In a replacement session, the unit reports the loss of the earlier one as the response to the first command. It is
/// damaged, and resent after the responses to others.
#[test]
fn a_lost_session_is_not_reported_to_the_caller_though_later_commands_are_answered_first() {
    for commands in 2..5 {
        let wanted = Wanted {
            error_recovery_level: 1,
            data_digest: vec![DigestKind::Crc32c],
            ..Wanted::default()
        };
        let mut pair = Pair::new(wanted.clone(), wanted, 16, 7);
        for user in 0..commands {
            pair.read(user, 1, user);
        }
        pair.reinstate();
        pair.towards_target().unwrap();
        let mut sent = pair.target.connection(0).unwrap().pending().to_vec();
        sent[HEADER_BYTES] ^= 1;
        deliver(&mut pair, &sent);
        let done = pair.settle_good();
        let mut users: Vec<u64> = done.iter().map(|completion| completion.user).collect();
        assert_eq!(users.last(), Some(&0), "it came last of {users:?}");
        users.sort_unstable();
        assert!(users.into_iter().eq(0..commands));
        reports_a_reset(&mut pair);
    }
}
