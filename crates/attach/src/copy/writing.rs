//! The sink of a copy: writes parts as they arrive and tracks what is durable.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::time::Duration;

use wansan_cache::{Action, Range};
use wansan_trace::{Instant, clock};

use super::end::End;
use super::{CopyError, PIECE_BYTES, Part, words};

/// Shortest run of zeros within data that is sent as a zeroing request, in bytes.
const ZEROS_BYTES: usize = 64 << 10;

/// Most bytes outstanding at the sink.
const MOST_OPEN_BYTES: u64 = 64 << 20;

/// A sink that is being written.
pub(super) struct Writing {
    end: Box<dyn End>,
    name: String,
    /// Zero ranges that wait for room, in order.
    zeros: VecDeque<Range>,
    open: BTreeMap<u64, Range>,
    next_tag: u64,
    open_bytes: u64,
    /// End of the last part submitted.
    given: u64,
    /// Data bytes sent.
    pub(super) data_bytes: u64,
    /// The outstanding flush, and the offset up to which everything had been written when it was issued.
    flush: Option<(u64, u64)>,
    /// Everything below this offset is on the medium.
    pub(super) durable: u64,
    /// The end's losses that have been repaired.
    losses: u64,
}

impl Writing {
    pub(super) fn new(end: Box<dyn End>, name: String, from: u64) -> Writing {
        Writing {
            losses: end.losses(),
            end,
            name,
            zeros: VecDeque::new(),
            open: BTreeMap::new(),
            next_tag: 0,
            open_bytes: 0,
            given: from,
            data_bytes: 0,
            flush: None,
            durable: from,
        }
    }

    /// Whether it accepts another part now.
    pub(super) fn has_room(&self) -> bool {
        self.open_bytes < MOST_OPEN_BYTES && self.zeros.is_empty()
    }

    /// Whether any operation is outstanding.
    pub(super) fn is_busy(&self) -> bool {
        !self.open.is_empty() || !self.zeros.is_empty() || self.flush.is_some()
    }

    /// Everything below this offset is written.
    pub(super) fn written(&self) -> u64 {
        let open = self.open.values().chain(&self.zeros);
        open.map(|range| range.start).min().unwrap_or(self.given)
    }

    /// Submits the next part.
    ///
    /// # Errors
    /// [`CopyError::Longer`] if the part does not fit.
    pub(super) fn give(&mut self, part: Part) -> Result<(), CopyError> {
        let end = part.range().end;
        if let Some(has_bytes) = self.end.room_bytes().filter(|room| *room < end) {
            return Err(CopyError::Longer {
                to: self.name.clone(),
                has_bytes,
            });
        }
        self.given = end;
        match part {
            Part::Zero(range) => self.zeros.push_back(range),
            Part::Data { offset_bytes, data } => {
                let block = usize::try_from(self.end.block_bytes()).unwrap_or(usize::MAX);
                for (is_zero, at) in runs(&data) {
                    let range = Range::new(offset_bytes + at.start as u64, at.len() as u64);
                    let mut data = data[at].to_vec();
                    if is_zero && data.len().is_multiple_of(block) {
                        self.zeros.push_back(range);
                        continue;
                    }
                    // Pad the last block if the disk's blocks are longer than the remaining data.
                    data.resize(data.len().next_multiple_of(block), 0);
                    self.data_bytes += range.bytes();
                    let offset_bytes = range.start;
                    self.submit(
                        range,
                        Action::Write {
                            offset_bytes,
                            data,
                            fua: false,
                        },
                    );
                }
            }
        }
        self.zero();
        Ok(())
    }

    /// Issues waiting zero ranges while there is room.
    fn zero(&mut self) {
        let most = self.end.zero_bytes();
        while self.open_bytes < MOST_OPEN_BYTES
            && let Some(zeros) = self.zeros.front_mut()
        {
            let range = Range::new(zeros.start, zeros.bytes().min(most));
            zeros.start = range.end;
            if zeros.is_empty() {
                self.zeros.pop_front();
            }
            self.submit(
                range,
                Action::Zero {
                    range,
                    fua: false,
                    may_unmap: true,
                    fast: false,
                },
            );
        }
    }

    fn submit(&mut self, range: Range, action: Action) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.open_bytes += range.bytes().min(PIECE_BYTES);
        self.open.insert(tag, range);
        self.end.submit(tag, action);
    }

    /// Flushes what is written, unless a flush is outstanding.
    pub(super) fn flush(&mut self) {
        if self.flush.is_none() {
            let tag = self.next_tag;
            self.next_tag += 1;
            self.flush = Some((tag, self.written()));
            self.end.submit(tag, Action::Flush);
        }
    }

    /// Works until `deadline` or until an operation completes.
    pub(super) fn turn(&mut self, deadline: Instant) -> Result<(), CopyError> {
        if self.take_done()? {
            return Ok(());
        }
        self.end.turn(deadline)?;
        let losses = self.end.losses();
        if losses != std::mem::replace(&mut self.losses, losses) && self.durable < self.given {
            return Err(CopyError::Unsure {
                place: self.name.clone(),
                durable_bytes: self.durable,
            });
        }
        self.take_done().map(|_| ())
    }

    fn take_done(&mut self) -> Result<bool, CopyError> {
        let mut has_come = false;
        while let Some((tag, outcome)) = self.end.poll_done() {
            has_come = true;
            let range = match self.flush {
                Some((flush, written)) if flush == tag => {
                    self.flush = None;
                    self.durable = written;
                    Range::new(written, 0)
                }
                _ => self.open.remove(&tag).unwrap_or(Range::new(0, 0)),
            };
            self.open_bytes -= range.bytes().min(PIECE_BYTES);
            if let Err(failure) = outcome {
                let reason = self.end.take_reason();
                return Err(CopyError::Write {
                    place: self.name.clone(),
                    offset_bytes: range.start,
                    why: reason.unwrap_or_else(|| words(failure).to_owned()),
                });
            }
        }
        self.zero();
        Ok(has_come)
    }

    /// Waits until everything is on the medium.
    pub(super) fn finish(&mut self) -> Result<(), CopyError> {
        const LOOK: Duration = Duration::from_millis(200);
        while self.durable < self.given || self.is_busy() {
            if self.open.is_empty() {
                self.flush();
            }
            self.turn(clock::now() + LOOK)?;
        }
        Ok(())
    }

    /// Closes the sink, see [`End::close`].
    pub(super) fn close(self) -> Option<File> {
        self.end.close()
    }
}

/// Splits data into runs, each marked as zeros or not.
fn runs(data: &[u8]) -> Vec<(bool, std::ops::Range<usize>)> {
    let mut runs: Vec<(bool, std::ops::Range<usize>)> = Vec::new();
    let mut at = 0;
    for chunk in data.chunks(ZEROS_BYTES) {
        let is_zero = chunk.iter().all(|byte| *byte == 0);
        let end = at + chunk.len();
        match runs.last_mut() {
            Some((same, run)) if *same == is_zero => run.end = end,
            _ => runs.push((is_zero, at..end)),
        }
        at = end;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_found_between_data() {
        let mut data = vec![0; 5 * ZEROS_BYTES + 7];
        data[ZEROS_BYTES] = 1;
        data[4 * ZEROS_BYTES - 1] = 1;
        let expected = [
            (true, 0..ZEROS_BYTES),
            (false, ZEROS_BYTES..2 * ZEROS_BYTES),
            (true, 2 * ZEROS_BYTES..3 * ZEROS_BYTES),
            (false, 3 * ZEROS_BYTES..4 * ZEROS_BYTES),
            (true, 4 * ZEROS_BYTES..data.len()),
        ];
        assert_eq!(runs(&data), expected);
        assert_eq!(runs(&[]), []);
    }
}
