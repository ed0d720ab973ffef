//! Puts PDUs into the bytes of a TCP stream.

use std::collections::VecDeque;

use super::ahs::MAX_AHS_BYTES;
use super::bhs::{self, BHS_BYTES, MAX_DATA_BYTES};
use super::{Ahs, Bhs};
use crate::digest::{DIGEST_BYTES, Digest};

/// Length of the buffer once the first PDU is queued.
const FIRST_BYTES: usize = 16 << 10;

/// Queues PDUs as one run of bytes, so that one write sends many of them.
///
/// Calls go round: queue PDUs with [`push`](Self::push) and its variants, write
/// [`pending`](Self::pending) to the socket, say how much it took with [`sent`](Self::sent).
///
/// The buffer grows with what is queued and keeps that length until [`shrink`](Self::shrink):
/// whoever queues has to bound `pending().len()`.
#[derive(Debug, Default)]
pub struct Transmitter {
    /// All of it is initialised, so that a PDU can be written into it without clearing it first.
    buffer: Vec<u8>,
    /// Where the bytes that are not sent begin in `buffer`.
    head: usize,
    /// Where they end.
    tail: usize,
    /// Offset of `buffer`'s first byte in the stream.
    base: u64,
    header_digest: bool,
    data_digest: bool,
    /// Where in the stream the PDUs end that are not sent yet, if they are to be told apart.
    ends: Option<VecDeque<u64>>,
}

impl Transmitter {
    /// A transmitter without digests, as login needs it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Switches digests from the next queued PDU on.
    pub fn set_digests(&mut self, header: bool, data: bool) {
        self.header_digest = header;
        self.data_digest = data;
    }

    /// From now on [`next_write`](Self::next_write) gives one PDU at a time; what is queued already
    /// counts as one.
    pub fn part_pdus(&mut self) {
        let queued = (self.head < self.tail).then(|| self.queued_end());
        self.ends = Some(queued.into_iter().collect());
    }

    /// Queues a PDU and gives its header as sent, with the lengths set.
    ///
    /// # Panics
    /// When `data` is longer than 2^24 − 1 bytes.
    #[inline]
    pub fn push(&mut self, bhs: &Bhs, data: &[u8]) -> &Bhs {
        self.push_with(bhs, data.len(), |to| to.copy_from_slice(data))
    }

    /// Queues a PDU whose `data_bytes` of data are written in place by `fill`, and gives its header
    /// as sent, with the lengths set. `fill` must write all it is given: bytes of earlier PDUs stand
    /// there.
    ///
    /// # Panics
    /// When `data_bytes` is above 2^24 − 1.
    #[inline]
    pub fn push_with(
        &mut self,
        bhs: &Bhs,
        data_bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> &Bhs {
        self.push_with_ahs(bhs, &[], data_bytes, fill)
    }

    /// Queues a PDU with additional header segments; otherwise as [`push_with`](Self::push_with).
    ///
    /// # Panics
    /// When `data_bytes` is above 2^24 − 1, or the segments take more than 1020 bytes.
    #[inline]
    pub fn push_with_ahs(
        &mut self,
        bhs: &Bhs,
        ahs: &[Ahs<'_>],
        data_bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> &Bhs {
        let all = |space: &mut [u8]| {
            fill(space);
            true
        };
        self.write(bhs, ahs, data_bytes, all)
            .expect("a fill that cannot fail has queued its PDU")
    }

    /// Queues a PDU whose data `fill` may fail to write: when it says `false`, nothing was queued,
    /// and there is no header to give. Otherwise as [`push_with`](Self::push_with).
    ///
    /// # Panics
    /// When `data_bytes` is above 2^24 − 1.
    #[inline]
    pub fn push_if(
        &mut self,
        bhs: &Bhs,
        data_bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> bool,
    ) -> Option<&Bhs> {
        self.write(bhs, &[], data_bytes, fill)
    }

    #[inline]
    fn write(
        &mut self,
        bhs: &Bhs,
        ahs: &[Ahs<'_>],
        data_bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> bool,
    ) -> Option<&Bhs> {
        let ahs_bytes: usize = ahs.iter().map(Ahs::wire_bytes).sum();
        assert!(
            ahs_bytes <= MAX_AHS_BYTES,
            "TotalAHSLength cannot express {ahs_bytes} bytes"
        );
        assert!(
            data_bytes <= MAX_DATA_BYTES,
            "no data segment has {data_bytes} bytes"
        );

        let header_end = BHS_BYTES + ahs_bytes;
        let data_start = header_end + if self.header_digest { DIGEST_BYTES } else { 0 };
        let data_end = data_start + data_bytes;
        let padded_end = data_start + data_bytes.next_multiple_of(4);
        // No data, no digest of it (RFC 7143 §11.2.3).
        let has_data_digest = self.data_digest && data_bytes > 0;
        let end = padded_end + if has_data_digest { DIGEST_BYTES } else { 0 };

        self.make_room(end);
        let start = self.tail;
        let pdu = &mut self.buffer[start..start + end];
        let mut sent_bhs = *bhs;
        bhs::put_lengths(&mut sent_bhs, ahs_bytes, data_bytes);
        pdu[..BHS_BYTES].copy_from_slice(&sent_bhs);
        let mut ahs_start = BHS_BYTES;
        for segment in ahs {
            let ahs_end = ahs_start + segment.wire_bytes();
            segment.emit(&mut pdu[ahs_start..ahs_end]);
            ahs_start = ahs_end;
        }
        if self.header_digest {
            let digest = Digest::of(&pdu[..header_end]);
            pdu[header_end..data_start].copy_from_slice(&digest.to_wire());
        }
        if !fill(&mut pdu[data_start..data_end]) {
            return None;
        }
        pdu[data_end..padded_end].fill(0);
        if has_data_digest {
            let digest = Digest::of(&pdu[data_start..padded_end]);
            pdu[padded_end..].copy_from_slice(&digest.to_wire());
        }
        self.tail += end;
        let queued_end = self.queued_end();
        if let Some(ends) = &mut self.ends {
            ends.push_back(queued_end);
        }
        self.buffer[start..].first_chunk()
    }

    /// All that is queued and not sent.
    #[inline]
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.buffer[self.head..self.tail]
    }

    /// What the next write to the socket is to have of [`pending`](Self::pending): all of it, or what
    /// is left of its first PDU after [`part_pdus`](Self::part_pdus).
    #[inline]
    #[must_use]
    pub fn next_write(&self) -> &[u8] {
        match self.ends.as_ref().and_then(VecDeque::front) {
            Some(end) => &self.buffer[self.head..(end - self.base) as usize],
            None => self.pending(),
        }
    }

    /// The socket took the first `bytes` of [`pending`](Self::pending).
    ///
    /// # Panics
    /// When less than that was pending.
    #[inline]
    pub fn sent(&mut self, bytes: usize) {
        let pending = self.tail - self.head;
        assert!(bytes <= pending, "{bytes} bytes were sent of {pending}");
        self.head += bytes;
        let sent_end = self.sent_end();
        if let Some(ends) = &mut self.ends {
            while ends.front().is_some_and(|end| *end <= sent_end) {
                ends.pop_front();
            }
        }
    }

    /// Bytes of memory that the buffer takes.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Gives back the buffer's memory if nothing is pending.
    pub fn shrink(&mut self) {
        if self.head == self.tail {
            self.move_to_front();
            self.buffer = Vec::new();
        }
    }

    /// Stream offset behind the last queued byte: where the next PDU will begin.
    #[inline]
    #[must_use]
    pub fn queued_end(&self) -> u64 {
        self.base + self.tail as u64
    }

    /// Stream offset behind the last sent byte.
    #[inline]
    #[must_use]
    pub fn sent_end(&self) -> u64 {
        self.base + self.head as u64
    }

    /// Makes room for `bytes` behind the tail.
    #[inline]
    fn make_room(&mut self, bytes: usize) {
        if self.head == self.tail {
            self.move_to_front();
        }
        if self.buffer.len() - self.tail < bytes {
            self.make_more_room(bytes);
        }
    }

    #[cold]
    fn make_more_room(&mut self, bytes: usize) {
        // Moving is worth it only when more was sent than has to be moved: so every byte moves
        // once on average.
        if self.head >= self.tail - self.head {
            self.move_to_front();
        }
        let needed = self.tail + bytes;
        if needed > self.buffer.len() {
            self.buffer
                .resize(needed.max(2 * self.buffer.len()).max(FIRST_BYTES), 0);
        }
    }

    /// Drops what was sent.
    #[inline]
    fn move_to_front(&mut self) {
        self.buffer.copy_within(self.head..self.tail, 0);
        self.base += self.head as u64;
        self.tail -= self.head;
        self.head = 0;
    }
}
