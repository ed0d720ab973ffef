//! Receiver against Transmitter: PDUs arrive intact, however the stream is split, and corruption is detected.

use super::round_trip::header_bytes;
use proptest::{collection::vec, prelude::*};
use wansan_iscsi::digest::DIGEST_BYTES;
use wansan_iscsi::fault::Fault;
use wansan_iscsi::wire::{Ahs, BHS_BYTES, Bhs, FrameError, Receiver, Transmitter};

/// A PDU to send.
#[derive(Debug, Clone)]
struct Sent {
    bhs: Bhs,
    extended_cdb: Vec<u8>,
    data: Vec<u8>,
}

/// A received PDU: its offset, header, additional header segments and data.
type Received = (u64, Bhs, Vec<u8>, Vec<u8>);

fn sent() -> impl Strategy<Value = Sent> {
    let data = prop_oneof![vec(any::<u8>(), 0..9), vec(any::<u8>(), 0..12_000)];
    let extended_cdb = prop_oneof![3 => Just(Vec::new()), 1 => vec(any::<u8>(), 1..244)];
    (header_bytes(), extended_cdb, data).prop_map(|(bhs, extended_cdb, data)| Sent {
        bhs,
        extended_cdb,
        data,
    })
}

/// Queues `pdus`; returns the stream, and the PDUs expected from it.
fn transmit(transmitter: &mut Transmitter, pdus: &[Sent]) -> Vec<Received> {
    let mut expected = Vec::new();
    for pdu in pdus {
        let offset = transmitter.queued_end();
        let segment = [Ahs::ExtendedCdb(&pdu.extended_cdb)];
        let ahs = if pdu.extended_cdb.is_empty() {
            &[][..]
        } else {
            &segment[..]
        };
        let fill = |to: &mut [u8]| to.copy_from_slice(&pdu.data);
        let bhs = *transmitter.push_with_ahs(&pdu.bhs, ahs, pdu.data.len(), fill);
        expected.push((offset, bhs, pdu.extended_cdb.clone(), pdu.data.clone()));
    }
    expected
}

/// Passes at most `bytes` of `stream` to the receiver, as a socket would, and removes them.
fn read_some(receiver: &mut Receiver, stream: &mut &[u8], bytes: usize) {
    let space = receiver.space();
    assert!(
        !space.is_empty(),
        "an empty read would look like the end of the stream"
    );
    let bytes = bytes.min(space.len()).min(stream.len());
    let (now, later) = stream.split_at(bytes);
    space[..bytes].copy_from_slice(now);
    *stream = later;
    receiver.filled(bytes);
}

/// All complete PDUs.
fn drain(receiver: &mut Receiver, into: &mut Vec<Received>) -> Result<(), FrameError> {
    while let Some(pdu) = receiver.next()? {
        let cdb = Ahs::parse_all(pdu.ahs)
            .map(|segment| match segment {
                Ok(Ahs::ExtendedCdb(cdb)) => cdb.to_vec(),
                other => panic!("{other:?}"),
            })
            .next()
            .unwrap_or_default();
        into.push((pdu.stream_offset, *pdu.bhs, cdb, pdu.data.to_vec()));
    }
    Ok(())
}

/// Reads until the end of the stream or an error, and leaves the rest in `stream`.
fn receive(receiver: &mut Receiver, stream: &mut &[u8]) -> (Vec<Received>, Option<FrameError>) {
    let mut received = Vec::new();
    loop {
        if let Err(error) = drain(receiver, &mut received) {
            return (received, Some(error));
        }
        if stream.is_empty() {
            return (received, None);
        }
        read_some(receiver, stream, usize::MAX);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn pdus_survive_any_cutting(
        pdus in vec(sent(), 1..12),
        header_digest: bool,
        data_digest: bool,
        chunks in vec(prop_oneof![1_usize..60, 1_usize..20_000], 1..8),
        writes in vec(1_usize..30_000, 1..8),
    ) {
        let mut transmitter = Transmitter::new();
        let mut receiver = Receiver::new();
        transmitter.set_digests(header_digest, data_digest);
        receiver.set_digests(header_digest, data_digest);
        receiver.set_max_data_bytes(12_000);

        // The socket accepts some pending bytes between PDUs.
        let (mut stream, mut expected) = (Vec::new(), Vec::new());
        let mut writes = writes.iter().cycle();
        for pdu in &pdus {
            expected.extend(transmit(&mut transmitter, core::slice::from_ref(pdu)));
            let taken = transmitter.pending().len().min(*writes.next().expect("cycle"));
            stream.extend_from_slice(&transmitter.pending()[..taken]);
            transmitter.sent(taken);
            prop_assert_eq!(transmitter.sent_end(), stream.len() as u64);
        }
        stream.extend_from_slice(transmitter.pending());
        prop_assert_eq!(transmitter.queued_end(), stream.len() as u64);

        let (mut rest, mut received) = (&stream[..], Vec::new());
        let mut chunks = chunks.iter().cycle();
        while !rest.is_empty() {
            read_some(&mut receiver, &mut rest, *chunks.next().expect("cycle"));
            prop_assert_eq!(drain(&mut receiver, &mut received), Ok(()));
        }
        prop_assert_eq!(received, expected);
    }

    /// With both digests every single bit error is detected, and earlier PDUs are intact.
    #[test]
    fn a_flipped_bit_is_found(
        pdus in vec(sent(), 1..4),
        place in any::<prop::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let mut transmitter = Transmitter::new();
        transmitter.set_digests(true, true);
        let expected = transmit(&mut transmitter, &pdus);
        let mut stream = transmitter.pending().to_vec();
        let at = place.index(stream.len());
        stream[at] ^= 1 << bit;

        let mut receiver = Receiver::new();
        receiver.set_digests(true, true);
        receiver.set_max_data_bytes(12_000);
        let mut rest = &stream[..];
        let (received, error) = receive(&mut receiver, &mut rest);
        let damaged = expected.iter().rposition(|pdu| pdu.0 <= at as u64).expect("first is at 0");
        prop_assert_eq!(&received[..], &expected[..damaged]);
        let (offset, bhs, ..) = &expected[damaged];
        let Some(error) = error else {
            // A corrupted TotalAHSLength may claim more bytes than the stream has.
            prop_assert_eq!(at as u64, offset + 4);
            return Ok(());
        };
        prop_assert_eq!(error.fault(), Fault::EnvironmentLacks);
        let after = receive(&mut receiver, &mut rest);
        match error {
            FrameError::HeaderDigest { stream_offset, .. } => {
                prop_assert_eq!(stream_offset, *offset);
                prop_assert_eq!(after, (vec![], Some(error)), "it stays an error");
            }
            FrameError::DataDigest { stream_offset, bhs: damaged_bhs, .. } => {
                prop_assert_eq!((stream_offset, &damaged_bhs), (*offset, bhs));
                prop_assert_eq!(after, (expected[damaged + 1..].to_vec(), None), "still in step");
            }
            FrameError::DataSegmentTooLong { .. } => prop_assert!(false, "the digest goes first"),
        }
    }
}

#[test]
fn a_cut_stream_gives_no_pdu_and_no_error() {
    let mut transmitter = Transmitter::new();
    transmitter.set_digests(true, true);
    transmitter.push(&[0; 48], b"twelve bytes");
    let stream = transmitter.pending().to_vec();
    for end in 0..stream.len() {
        let mut receiver = Receiver::new();
        receiver.set_digests(true, true);
        assert_eq!(
            receive(&mut receiver, &mut &stream[..end]),
            (vec![], None),
            "{end} bytes"
        );
    }
}

#[test]
fn too_much_data_is_refused_by_the_header_alone() {
    let mut receiver = Receiver::new();
    let mut bhs = [0; 48];
    bhs[5..8].copy_from_slice(&8193_u32.to_be_bytes()[1..]);
    let (pdus, error) = receive(&mut receiver, &mut &bhs[..]);
    assert_eq!(pdus, vec![]);
    let error = error.expect("refused");
    assert_eq!(
        error,
        FrameError::DataSegmentTooLong {
            bhs,
            stream_offset: 0,
            data_bytes: 8193,
            max_data_bytes: 8192
        }
    );
    assert!(error.is_fatal());
    assert_eq!(error.fault(), Fault::PeerMisbehaved);
    assert_eq!(
        receive(&mut receiver, &mut &[][..]).1,
        Some(error),
        "it stays refused"
    );
}

/// Login ends between two PDUs that arrive in one read: the second has digests.
#[test]
fn digests_switch_between_buffered_pdus() {
    let mut transmitter = Transmitter::new();
    transmitter.push(&[0; 48], b"login");
    transmitter.set_digests(true, true);
    transmitter.push(&[1; 48], b"full feature phase");
    let mut receiver = Receiver::new();
    let mut stream = transmitter.pending();
    read_some(&mut receiver, &mut stream, usize::MAX);
    assert_eq!(receiver.next().unwrap().unwrap().data, b"login");
    receiver.set_digests(true, true);
    assert_eq!(
        receiver.next().unwrap().unwrap().data,
        b"full feature phase"
    );
    assert_eq!(receiver.next(), Ok(None));
}

/// Data digest errors are reported one by one, and the PDUs between them are valid.
#[test]
fn a_data_digest_error_costs_one_pdu() {
    let mut transmitter = Transmitter::new();
    transmitter.set_digests(true, true);
    let mut stream = Vec::new();
    for number in 0..4_u8 {
        transmitter.push(&[number; 48], &[number; 5]);
        stream.extend_from_slice(transmitter.pending());
        transmitter.sent(transmitter.pending().len());
        if number % 2 == 0 {
            let last_padding = stream.len() - DIGEST_BYTES - 1;
            stream[last_padding] ^= 1;
        }
    }
    let mut receiver = Receiver::new();
    receiver.set_digests(true, true);
    read_some(&mut receiver, &mut &stream[..], usize::MAX);
    for number in 0..4_u8 {
        if number % 2 == 0 {
            let error = receiver.next().expect_err("damaged padding");
            assert!(matches!(error, FrameError::DataDigest { bhs, .. } if bhs[16] == number));
            assert!(!error.is_fatal());
        } else {
            assert_eq!(receiver.next().unwrap().unwrap().data, [number; 5]);
        }
    }
    assert_eq!(receiver.next(), Ok(None));
}

/// The bytes of RFC 7143 §11.2.3: padding is included in the data digest, which is little-endian.
#[test]
fn padding_is_zero_and_digested() {
    let mut transmitter = Transmitter::new();
    transmitter.set_digests(false, true);
    transmitter.push(&[0; 48], &[0xff; 40]);
    transmitter.sent(transmitter.pending().len());
    // Fills the buffer with old bytes.
    transmitter.push(&[0; 48], &[0; 29]);
    let pdu = transmitter.pending();
    assert_eq!(pdu.len(), 48 + 32 + 4);
    assert_eq!(pdu[4..8], [0, 0, 0, 29]);
    assert_eq!(pdu[48..80], [0; 32]);
    assert_eq!(pdu[80..], [0xaa, 0x36, 0x91, 0x8a]);
}

#[test]
fn pdus_that_are_parted_are_written_one_by_one() {
    let mut transmitter = Transmitter::new();
    let bhs = [0; BHS_BYTES];
    transmitter.push(&bhs, &[1; 8]);
    transmitter.sent(20);
    transmitter.part_pdus();
    transmitter.push(&bhs, &[2; 5]);
    transmitter.push(&bhs, &[]);
    let mut writes = Vec::new();
    while !transmitter.pending().is_empty() {
        let bytes = transmitter.next_write().len();
        writes.push(bytes);
        // The socket may accept less than it is given.
        transmitter.sent(bytes.min(40));
    }
    assert_eq!(writes, [36, 56, 16, 48, 8]);
    assert!(transmitter.next_write().is_empty());
}
