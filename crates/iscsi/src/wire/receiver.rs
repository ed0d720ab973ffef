//! Decoding of PDUs from a TCP stream.

use super::ahs::MAX_AHS_BYTES;
use super::bhs::{self, BHS_BYTES, MAX_DATA_BYTES};
use super::{Bhs, FrameError, Pdu};
use crate::digest::{DIGEST_BYTES, Digest};

/// MaxRecvDataSegmentLength until another is declared (RFC 7143 §13.12).
pub const DEFAULT_MAX_DATA_BYTES: usize = 8192;

/// Initial length of the buffer: room for one PDU of login.
const FIRST_BYTES: usize = 16 << 10;

/// How far the buffer grows only to receive many PDUs at once.
const BATCH_BYTES: usize = 256 << 10;

/// Up to this much of a PDU is moved to the buffer's front before each read: cheaper than reading
/// into memory that has left the processor's cache.
const LITTLE_BYTES: usize = 16 << 10;

/// Splits a TCP stream into PDUs without copying.
///
/// In a loop: read from the socket into [`space`](Self::space), report the bytes read with [`filled`](Self::filled),
/// then take PDUs with [`next`](Self::next) until it returns `None`.
///
/// The buffer holds 16 KiB at first. After [`set_max_data_bytes`](Self::set_max_data_bytes) it
/// doubles when received bytes fill it, up to one PDU of maximum length or 256 KiB, whichever is
/// larger; lengths merely announced in a header allocate nothing. It keeps its length until
/// [`shrink`](Self::shrink).
#[derive(Debug)]
pub struct Receiver {
    /// Initialised throughout, so that it can be lent without clearing it each time.
    buffer: Vec<u8>,
    /// Start of the next PDU in `buffer`.
    head: usize,
    /// End of the received bytes in `buffer`.
    tail: usize,
    /// Offset of `buffer`'s first byte in the stream.
    base: u64,
    /// The last read filled all the space, so more may be queued.
    filled_up: bool,
    /// Upper bound of the buffer's length.
    limit_bytes: usize,
    max_data_bytes: usize,
    header_digest: bool,
    data_digest: bool,
    pdus: u64,
}

impl Default for Receiver {
    fn default() -> Self {
        Self::new()
    }
}

impl Receiver {
    /// A receiver for the login phase: no digests, data segments of up to 8192 bytes.
    #[must_use]
    pub fn new() -> Self {
        Receiver {
            buffer: vec![0; FIRST_BYTES],
            head: 0,
            tail: 0,
            base: 0,
            filled_up: false,
            limit_bytes: FIRST_BYTES,
            max_data_bytes: DEFAULT_MAX_DATA_BYTES,
            header_digest: false,
            data_digest: false,
            pdus: 0,
        }
    }

    /// Enables or disables digests from the next PDU on, even if some of its bytes have been
    /// received.
    pub fn set_digests(&mut self, header: bool, data: bool) {
        self.header_digest = header;
        self.data_digest = data;
    }

    /// Sets the longest data segment accepted from the next PDU on, in bytes: this end's
    /// MaxRecvDataSegmentLength.
    ///
    /// # Panics
    /// Above 2^24 − 1, which DataSegmentLength cannot express.
    pub fn set_max_data_bytes(&mut self, max_data_bytes: usize) {
        assert!(
            max_data_bytes <= MAX_DATA_BYTES,
            "no data segment has {max_data_bytes} bytes"
        );
        self.max_data_bytes = max_data_bytes;
        self.limit_bytes = greatest_pdu_bytes(max_data_bytes).max(BATCH_BYTES);
    }

    /// Space to read into, with undefined content. It is never empty, provided that
    /// [`next`](Self::next) returned `None` before.
    pub fn space(&mut self) -> &mut [u8] {
        let wants_batch = self.filled_up && self.buffer.len() < BATCH_BYTES;
        let is_little = self.tail - self.head <= LITTLE_BYTES;
        if self.head > 0 && (is_little || wants_batch || self.is_short()) {
            self.move_to_front();
        }
        if wants_batch || self.is_short() {
            self.grow();
        }
        &mut self.buffer[self.tail..]
    }

    /// `bytes` were read into [`space`](Self::space).
    ///
    /// # Panics
    /// If that exceeds the space.
    pub fn filled(&mut self, bytes: usize) {
        let space = self.buffer.len() - self.tail;
        assert!(bytes <= space, "{bytes} bytes do not fit into {space}");
        self.tail += bytes;
        self.filled_up = bytes == space;
    }

    /// Stream offset after the last byte received.
    #[must_use]
    pub fn received_end(&self) -> u64 {
        self.base + self.tail as u64
    }

    /// PDUs taken so far.
    #[must_use]
    pub fn pdus(&self) -> u64 {
        self.pdus
    }

    /// The next PDU, if it is complete.
    ///
    /// # Errors
    /// [`FrameError::DataDigest`] once for each such PDU, after which decoding continues;
    /// [`FrameError::HeaderDigest`] and [`FrameError::DataSegmentTooLong`] from then on every time.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "a PDU borrows the receiver")]
    pub fn next(&mut self) -> Result<Option<Pdu<'_>>, FrameError> {
        let held = &self.buffer[self.head..self.tail];
        let stream_offset = self.base + self.head as u64;
        let Some(bhs) = held.first_chunk::<BHS_BYTES>() else {
            return Ok(None);
        };
        let header_end = BHS_BYTES + bhs::ahs_bytes(bhs);
        let mut data_start = header_end;
        if self.header_digest {
            let Some(&received) = held.get(header_end..).and_then(<[u8]>::first_chunk) else {
                return Ok(None);
            };
            let (received, computed) =
                (Digest::from_wire(received), Digest::of(&held[..header_end]));
            if received != computed {
                return Err(FrameError::HeaderDigest {
                    stream_offset,
                    received,
                    computed,
                });
            }
            data_start += DIGEST_BYTES;
        }
        let data_bytes = bhs::data_bytes(bhs);
        if data_bytes > self.max_data_bytes {
            let max_data_bytes = self.max_data_bytes;
            return Err(FrameError::DataSegmentTooLong {
                bhs: *bhs,
                stream_offset,
                data_bytes,
                max_data_bytes,
            });
        }
        let padded_end = data_start + data_bytes.next_multiple_of(4);
        // No data digest without data (RFC 7143 §11.2.3).
        let has_data_digest = self.data_digest && data_bytes > 0;
        let end = padded_end + if has_data_digest { DIGEST_BYTES } else { 0 };
        if held.len() < end {
            return Ok(None);
        }
        self.head += end;
        self.pdus += 1;
        if has_data_digest {
            let mut received = [0; DIGEST_BYTES];
            received.copy_from_slice(&held[padded_end..end]);
            let (received, computed) = (
                Digest::from_wire(received),
                Digest::of(&held[data_start..padded_end]),
            );
            if received != computed {
                let bhs = *bhs;
                return Err(FrameError::DataDigest {
                    bhs,
                    stream_offset,
                    received,
                    computed,
                });
            }
        }
        Ok(Some(Pdu {
            bhs,
            ahs: &held[BHS_BYTES..header_end],
            data: &held[data_start..data_start + data_bytes],
            stream_offset,
        }))
    }

    /// Shrinks the buffer to its initial length, if it is empty.
    pub fn shrink(&mut self) {
        if self.head == self.tail && self.buffer.len() > FIRST_BYTES {
            self.move_to_front();
            self.buffer = vec![0; FIRST_BYTES];
            self.filled_up = false;
        }
    }

    /// The next header, unchecked, if it is complete.
    #[must_use]
    pub fn peek(&self) -> Option<&Bhs> {
        self.buffer[self.head..self.tail].first_chunk()
    }

    /// Missing bytes of the next PDU, as far as known: of its header, or of the lengths in it, without padding and
    /// digests.
    #[must_use]
    pub fn missing_bytes(&self) -> usize {
        let whole = self.peek().map_or(BHS_BYTES, |bhs| {
            BHS_BYTES + bhs::ahs_bytes(bhs) + bhs::data_bytes(bhs)
        });
        whole.saturating_sub(self.tail - self.head)
    }

    /// Whether so little space is left that reads would be small.
    fn is_short(&self) -> bool {
        self.buffer.len() - self.tail < self.buffer.len() / 4
    }

    /// Drops consumed bytes. That moves at most the first part of one PDU.
    fn move_to_front(&mut self) {
        self.buffer.copy_within(self.head..self.tail, 0);
        self.base += self.head as u64;
        self.tail -= self.head;
        self.head = 0;
    }

    fn grow(&mut self) {
        let bytes = (2 * self.buffer.len()).min(self.limit_bytes);
        if bytes > self.buffer.len() {
            self.buffer.resize(bytes, 0);
        }
    }
}

/// Length of the longest PDU with that much data.
const fn greatest_pdu_bytes(max_data_bytes: usize) -> usize {
    BHS_BYTES + MAX_AHS_BYTES + DIGEST_BYTES + max_data_bytes.next_multiple_of(4) + DIGEST_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The start of a header with the maximum data segment length.
    const CLAIM: [u8; 8] = [0, 0, 0, 0, 0, 0xff, 0xff, 0xff];

    fn feed(receiver: &mut Receiver, bytes: &[u8]) -> usize {
        let space = receiver.space();
        let taken = bytes.len().min(space.len());
        space[..taken].copy_from_slice(&bytes[..taken]);
        receiver.filled(taken);
        taken
    }

    #[test]
    fn a_claim_takes_no_memory_and_data_takes_what_it_needs() {
        let mut receiver = Receiver::new();
        receiver.set_max_data_bytes(MAX_DATA_BYTES);
        let mut pdu = vec![0; greatest_pdu_bytes(MAX_DATA_BYTES)];
        pdu[..8].copy_from_slice(&CLAIM);
        pdu.truncate(BHS_BYTES + MAX_DATA_BYTES + 1);
        let mut taken = feed(&mut receiver, &pdu[..BHS_BYTES]);
        for _ in 0..3 {
            assert_eq!(receiver.next(), Ok(None));
            assert_eq!(receiver.space().len(), FIRST_BYTES - BHS_BYTES);
        }
        while taken < pdu.len() {
            assert_eq!(receiver.next(), Ok(None));
            taken += feed(&mut receiver, &pdu[taken..]);
            assert!(receiver.buffer.len() <= 4 * taken);
        }
        let received = receiver.next().map(|pdu| pdu.map(|pdu| pdu.data.len()));
        assert_eq!(received, Ok(Some(MAX_DATA_BYTES)));
        assert!(receiver.buffer.len() <= greatest_pdu_bytes(MAX_DATA_BYTES));
    }

    #[test]
    fn a_pdu_lacks_its_header_and_then_what_that_announces() {
        let mut receiver = Receiver::new();
        receiver.set_max_data_bytes(MAX_DATA_BYTES);
        assert_eq!(receiver.missing_bytes(), BHS_BYTES);
        feed(&mut receiver, &CLAIM);
        assert_eq!(receiver.missing_bytes(), BHS_BYTES - CLAIM.len());
        feed(&mut receiver, &[0; BHS_BYTES - CLAIM.len()]);
        assert_eq!(receiver.missing_bytes(), MAX_DATA_BYTES);
        feed(&mut receiver, &[0; 1000]);
        assert_eq!(receiver.missing_bytes(), MAX_DATA_BYTES - 1000);
    }

    #[test]
    fn what_has_grown_shrinks_when_it_is_idle_and_goes_on_where_it_was() {
        let mut receiver = Receiver::new();
        receiver.set_max_data_bytes(DEFAULT_MAX_DATA_BYTES);
        let many = vec![0; 10 * BATCH_BYTES];
        for _ in 0..20 {
            feed(&mut receiver, &many);
            while let Ok(Some(_)) = receiver.next() {}
        }
        // A complete PDU is queued.
        let before = receiver.received_end() as usize % BHS_BYTES;
        feed(&mut receiver, &many[..2 * BHS_BYTES - before]);
        receiver.shrink();
        assert_eq!(receiver.buffer.len(), BATCH_BYTES);
        while let Ok(Some(_)) = receiver.next() {}
        let end = receiver.received_end();
        receiver.shrink();
        assert_eq!(receiver.buffer.len(), FIRST_BYTES);
        assert_eq!(receiver.received_end(), end);
        feed(&mut receiver, &many[..BHS_BYTES]);
        let offset = receiver.next().map(|pdu| pdu.map(|pdu| pdu.stream_offset));
        assert_eq!(offset, Ok(Some(end)));
    }

    #[test]
    fn reading_in_batches_stops_growing() {
        let mut receiver = Receiver::new();
        receiver.set_max_data_bytes(DEFAULT_MAX_DATA_BYTES);
        let many = vec![0; 10 * BATCH_BYTES];
        for _ in 0..20 {
            feed(&mut receiver, &many);
            while let Ok(Some(_)) = receiver.next() {}
        }
        assert_eq!(receiver.buffer.len(), BATCH_BYTES);
    }
}
