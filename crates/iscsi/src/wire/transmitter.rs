//! Encoding of PDUs into a TCP stream.

use core::ops::Range;
use std::collections::VecDeque;

use super::ahs::MAX_AHS_BYTES;
use super::bhs::{self, BHS_BYTES, MAX_DATA_BYTES};
use super::{Ahs, Bhs};
use crate::digest::{DIGEST_BYTES, Digest};

/// Length of the buffer once the first PDU is queued.
const FIRST_BYTES: usize = 16 << 10;

/// The parts of a PDU in the stream, counted from its first byte.
#[derive(Debug)]
struct Frame {
    /// End of the header and its additional segments.
    header_end: usize,
    data: Range<usize>,
    /// End of the padded data.
    padded_end: usize,
    end: usize,
}

/// Queues PDUs in one contiguous buffer, so that one write sends many of them.
///
/// In a loop: queue PDUs with [`push`](Self::push) and its variants, write
/// [`pending`](Self::pending) to the socket, report the bytes accepted with [`sent`](Self::sent).
///
/// The buffer grows as needed and keeps its length until [`shrink`](Self::shrink): the caller must
/// limit `pending().len()`.
#[derive(Debug, Default)]
pub struct Transmitter {
    /// Initialised throughout, so that a PDU can be written into it without clearing it first.
    buffer: Vec<u8>,
    /// Start of the unsent bytes in `buffer`.
    head: usize,
    /// Their end.
    tail: usize,
    /// Offset of `buffer`'s first byte in the stream.
    base: u64,
    header_digest: bool,
    data_digest: bool,
    pdus: u64,
    /// Stream offsets at which unsent PDUs end, if they are to be distinguished.
    ends: Option<VecDeque<u64>>,
}

impl Transmitter {
    /// A transmitter for the login phase: no digests.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Enables or disables digests from the next queued PDU on.
    pub fn set_digests(&mut self, header: bool, data: bool) {
        self.header_digest = header;
        self.data_digest = data;
    }

    /// From now on [`next_write`](Self::next_write) returns one PDU at a time; PDUs already queued
    /// count as one.
    pub fn part_pdus(&mut self) {
        let queued = (self.head < self.tail).then(|| self.queued_end());
        self.ends = Some(queued.into_iter().collect());
    }

    /// Queues a PDU and returns its header as sent, with the lengths set.
    ///
    /// # Panics
    /// When `data` is longer than 2^24 − 1 bytes.
    #[inline]
    pub fn push(&mut self, bhs: &Bhs, data: &[u8]) -> &Bhs {
        self.push_with(bhs, data.len(), |to| to.copy_from_slice(data))
    }

    /// Queues a PDU whose `data_bytes` of data are written in place by `fill`, and returns its
    /// header as sent, with the lengths set. `fill` must overwrite all of it: the content is
    /// undefined.
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
        let frame = self.frame(ahs, data_bytes);
        self.make_room(frame.end);
        fill(&mut self.buffer[self.tail..][frame.data.clone()]);
        self.seal(bhs, ahs, &frame)
    }

    /// Space for the data segment of the next PDU, to be written in place before
    /// [`push_filled`](Self::push_filled) queues the PDU. Its content is undefined. Queueing
    /// another PDU first invalidates it.
    ///
    /// # Panics
    /// When `data_bytes` is above 2^24 − 1.
    #[inline]
    pub fn data_space(&mut self, data_bytes: usize) -> &mut [u8] {
        let frame = self.frame(&[], data_bytes);
        self.make_room(frame.end);
        &mut self.buffer[self.tail..][frame.data]
    }

    /// Queues a PDU whose data segment was written into [`data_space`](Self::data_space) of the
    /// same length, and returns its header as sent, with the lengths set.
    ///
    /// # Panics
    /// If there is no such space.
    #[inline]
    pub fn push_filled(&mut self, bhs: &Bhs, data_bytes: usize) -> &Bhs {
        let frame = self.frame(&[], data_bytes);
        self.seal(bhs, &[], &frame)
    }

    /// The parts of the next PDU, from its first byte on.
    #[inline]
    fn frame(&self, ahs: &[Ahs<'_>], data_bytes: usize) -> Frame {
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
        let padded_end = data_start + data_bytes.next_multiple_of(4);
        // Without data there is no data digest (RFC 7143 §11.2.3).
        let has_data_digest = self.data_digest && data_bytes > 0;
        Frame {
            header_end,
            data: data_start..data_start + data_bytes,
            padded_end,
            end: padded_end + if has_data_digest { DIGEST_BYTES } else { 0 },
        }
    }

    /// Completes the PDU whose data is in its frame, and queues it.
    #[inline]
    fn seal(&mut self, bhs: &Bhs, ahs: &[Ahs<'_>], frame: &Frame) -> &Bhs {
        let start = self.tail;
        let pdu = &mut self.buffer[start..start + frame.end];
        let Range {
            start: data_start,
            end: data_end,
        } = frame.data;
        let sent_bhs = pdu
            .first_chunk_mut::<BHS_BYTES>()
            .expect("a frame begins with a header");
        *sent_bhs = *bhs;
        bhs::put_lengths(sent_bhs, frame.header_end - BHS_BYTES, frame.data.len());
        let mut ahs_start = BHS_BYTES;
        for segment in ahs {
            let ahs_end = ahs_start + segment.wire_bytes();
            segment.emit(&mut pdu[ahs_start..ahs_end]);
            ahs_start = ahs_end;
        }
        if self.header_digest {
            let digest = Digest::of(&pdu[..frame.header_end]);
            pdu[frame.header_end..data_start].copy_from_slice(&digest.to_wire());
        }
        pdu[data_end..frame.padded_end].fill(0);
        if frame.end > frame.padded_end {
            let digest = Digest::of(&pdu[data_start..frame.padded_end]);
            pdu[frame.padded_end..].copy_from_slice(&digest.to_wire());
        }
        self.tail += frame.end;
        self.pdus += 1;
        let queued_end = self.queued_end();
        if let Some(ends) = &mut self.ends {
            ends.push_back(queued_end);
        }
        self.buffer[start..]
            .first_chunk()
            .expect("a frame begins with a header")
    }

    /// PDUs queued so far.
    #[must_use]
    pub fn pdus(&self) -> u64 {
        self.pdus
    }

    /// All bytes queued and not sent.
    #[inline]
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.buffer[self.head..self.tail]
    }

    /// The part of [`pending`](Self::pending) for the next write: all of it, or the rest of its
    /// first PDU after [`part_pdus`](Self::part_pdus).
    #[inline]
    #[must_use]
    pub fn next_write(&self) -> &[u8] {
        match self.ends.as_ref().and_then(VecDeque::front) {
            Some(end) => &self.buffer[self.head..(end - self.base) as usize],
            None => self.pending(),
        }
    }

    /// The socket accepted the first `bytes` of [`pending`](Self::pending).
    ///
    /// # Panics
    /// If less than that was pending.
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

    /// Size of the buffer in bytes.
    #[must_use]
    pub fn buffer_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// Frees the buffer if nothing is pending.
    pub fn shrink(&mut self) {
        if self.head == self.tail {
            self.move_to_front();
            self.buffer = Vec::new();
        }
    }

    /// Stream offset after the last queued byte: where the next PDU will begin.
    #[inline]
    #[must_use]
    pub fn queued_end(&self) -> u64 {
        self.base + self.tail as u64
    }

    /// Stream offset after the last sent byte.
    #[inline]
    #[must_use]
    pub fn sent_end(&self) -> u64 {
        self.base + self.head as u64
    }

    /// Makes room for `bytes` after the tail.
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
        // Moving is worth it only when more was sent than has to be moved: so every byte moves once on average.
        if self.head >= self.tail - self.head {
            self.move_to_front();
        }
        let needed = self.tail + bytes;
        if needed > self.buffer.len() {
            self.buffer
                .resize(needed.max(2 * self.buffer.len()).max(FIRST_BYTES), 0);
        }
    }

    /// Drops sent bytes.
    #[inline]
    fn move_to_front(&mut self) {
        self.buffer.copy_within(self.head..self.tail, 0);
        self.base += self.head as u64;
        self.tail -= self.head;
        self.head = 0;
    }
}
