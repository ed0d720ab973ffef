//! Invariants of a receiver for any bytes, in any pieces. Run by the property test in this folder and the fuzz target
//! `receiver`.

use wansan_iscsi::wire::{Ahs, BHS_BYTES, Bhs, FrameError, Header, Receiver};

/// How the receiver is set up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) header_digest: bool,
    pub(crate) data_digest: bool,
    pub(crate) max_data_bytes: usize,
}

/// The outcome of a stream: offset, header and data length of each PDU, or its error.
type Outcome = Vec<Result<(u64, Bhs, usize), FrameError>>;

/// Feeds `stream` in pieces of the given lengths (repeated), and in one; panics when the outcomes differ or an
/// invariant is violated.
pub(crate) fn check(settings: Settings, piece_bytes: &[u8], stream: &[u8]) {
    let in_pieces = receive(settings, piece_bytes, stream);
    let at_once = receive(settings, &[], stream);
    assert_eq!(
        in_pieces, at_once,
        "the pieces in which bytes come must not matter"
    );
}

fn receive(settings: Settings, piece_bytes: &[u8], mut stream: &[u8]) -> Outcome {
    let stream_bytes = stream.len();
    let mut receiver = Receiver::new();
    receiver.set_digests(settings.header_digest, settings.data_digest);
    receiver.set_max_data_bytes(settings.max_data_bytes);
    let mut pieces = piece_bytes
        .iter()
        .map(|&bytes| usize::from(bytes).max(1))
        .cycle();
    let mut outcome = Outcome::new();
    let mut end_of_last = 0;
    loop {
        match receiver.next() {
            Ok(Some(pdu)) => {
                assert!(pdu.data.len() <= settings.max_data_bytes);
                assert_eq!(pdu.stream_offset, end_of_last, "PDUs stand end to end");
                end_of_last += wire_bytes(settings, pdu.ahs.len(), pdu.data.len());
                // Neither may panic; the results are irrelevant here.
                let _ = Header::parse(pdu.bhs);
                let _ = Ahs::parse_all(pdu.ahs).count();
                outcome.push(Ok((pdu.stream_offset, *pdu.bhs, pdu.data.len())));
            }
            Err(error) => {
                outcome.push(Err(error));
                let FrameError::DataDigest { bhs, .. } = error else {
                    assert!(error.is_fatal());
                    assert_eq!(receiver.next(), Err(error), "a fatal error stays");
                    return outcome;
                };
                let data_bytes = u32::from_be_bytes([0, bhs[5], bhs[6], bhs[7]]) as usize;
                end_of_last += wire_bytes(settings, usize::from(bhs[4]) * 4, data_bytes);
            }
            Ok(None) if stream.is_empty() => return outcome,
            Ok(None) => {
                let space = receiver.space();
                assert!(
                    !space.is_empty(),
                    "an empty read would look like the end of the stream"
                );
                let received = stream_bytes - stream.len();
                assert!(
                    space.len() <= (16 << 10).max(4 * received),
                    "claims take no memory"
                );
                let piece = pieces
                    .next()
                    .unwrap_or(usize::MAX)
                    .min(space.len())
                    .min(stream.len());
                let (now, later) = stream.split_at(piece);
                space[..piece].copy_from_slice(now);
                receiver.filled(piece);
                stream = later;
            }
        }
    }
}

/// Length of a PDU on the wire.
fn wire_bytes(settings: Settings, ahs_bytes: usize, data_bytes: usize) -> u64 {
    let header_digest = if settings.header_digest { 4 } else { 0 };
    let data_digest = if settings.data_digest && data_bytes > 0 {
        4
    } else {
        0
    };
    (BHS_BYTES + ahs_bytes + header_digest + data_bytes.next_multiple_of(4) + data_digest) as u64
}
