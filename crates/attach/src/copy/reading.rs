//! The source of a copy: reads its data in order, skips holes, and keeps enough reads outstanding to fill the path.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use wansan_cache::{Action, Answer, Estimate, Extent, Failure, Range};
use wansan_trace::{Instant, clock};

use super::end::End;
use super::{CopyError, PIECE_BYTES, Part, words};

/// Range of one block status query, in bytes.
const STATUS_BYTES: u64 = 1 << 30;

/// Read window in bytes, outstanding or waiting for earlier parts: minimum and maximum.
const LEAST_WINDOW_BYTES: u64 = 8 << 20;
const MOST_WINDOW_BYTES: u64 = 128 << 20;

/// Read window, in bandwidth-delay products.
const PRODUCTS: u64 = 2;

/// Longest wait in one turn.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// The kind of an outstanding operation.
#[derive(Debug)]
enum Asked {
    Status(Range),
    Read(Range, Instant),
}

/// A source that is being read.
pub(super) struct Reading {
    end: Box<dyn End>,
    name: String,
    block_bytes: u64,
    piece_bytes: u64,
    /// End of the data; for a stream, known once it has ended.
    size_bytes: Option<u64>,
    /// Data ranges to be read, in order.
    extents: VecDeque<Extent>,
    /// Start of `extents`; for block status, the end of the known range.
    next: u64,
    known: u64,
    asks_status: bool,
    asked: BTreeMap<u64, Asked>,
    next_tag: u64,
    /// Parts received ahead of earlier ones, by offset.
    come: BTreeMap<u64, Part>,
    /// Offset of the next part to hand out.
    ready: u64,
    /// Bytes outstanding or waiting in `come`.
    open_bytes: u64,
    estimate: Estimate,
    /// Most bytes per second, and when the next read may be issued.
    bandwidth: Option<u64>,
    resumes_at: Instant,
}

impl Reading {
    /// Reads `end` from the offset `from`. Parts are cut at multiples of `block_bytes` and hold at most `most_bytes` of
    /// data.
    pub(super) fn new(
        end: Box<dyn End>,
        name: String,
        from: u64,
        size_bytes: Option<u64>,
        (block_bytes, most_bytes): (u64, u64),
        bandwidth: Option<u64>,
    ) -> Reading {
        let block_bytes = block_bytes.max(end.block_bytes());
        let most_bytes = most_bytes.min(end.most_bytes()).min(PIECE_BYTES);
        Reading {
            end,
            name,
            block_bytes,
            piece_bytes: (most_bytes / block_bytes).max(1) * block_bytes,
            size_bytes,
            extents: VecDeque::new(),
            next: from,
            known: from,
            asks_status: false,
            asked: BTreeMap::new(),
            next_tag: 0,
            come: BTreeMap::new(),
            ready: from,
            open_bytes: 0,
            estimate: Estimate::default(),
            bandwidth,
            resumes_at: Instant::ZERO,
        }
    }

    /// The next part, in order; `None` after the last.
    pub(super) fn next_part(&mut self) -> Result<Option<Part>, CopyError> {
        loop {
            if let Some(part) = self.come.remove(&self.ready) {
                self.ready = part.range().end;
                if let Part::Data { data, .. } = &part {
                    self.open_bytes -= data.len() as u64;
                }
                return Ok(Some(part));
            }
            if self.size_bytes.is_some_and(|size| self.ready >= size) {
                return Ok(None);
            }
            self.ask();
            // A file has answered already.
            if !self.take_done()? {
                self.wait()?;
            }
        }
    }

    /// Waits for an answer, or until the rate limit permits another read.
    fn wait(&mut self) -> Result<(), CopyError> {
        let now = clock::now();
        let mut deadline = now + LONGEST_WAIT;
        if self.resumes_at > now {
            deadline = deadline.min(self.resumes_at);
            if self.asked.is_empty() {
                std::thread::sleep(deadline - now);
                return Ok(());
            }
        }
        self.end.turn(deadline)?;
        self.take_done().map(|_| ())
    }

    /// Offset of the next part.
    pub(super) fn position(&self) -> u64 {
        self.ready
    }

    pub(super) fn close(self) {
        drop(self.end.close());
    }

    /// Issues reads until the window is full.
    fn ask(&mut self) {
        let window = PRODUCTS * self.estimate.product_bytes();
        let window = window.clamp(LEAST_WINDOW_BYTES, MOST_WINDOW_BYTES);
        let end = self.size_bytes.unwrap_or(u64::MAX);
        if !self.asks_status && self.known < end && self.known - self.next < STATUS_BYTES {
            let range = Range::new(self.known, STATUS_BYTES.min(end - self.known));
            self.asks_status = true;
            self.submit(Asked::Status(range), Action::Status { range, one: false });
        }
        while self.open_bytes < window && clock::now() >= self.resumes_at {
            let Some(extent) = self.extents.front_mut() else {
                return;
            };
            if extent.reads_zero {
                let range = Range::new(self.next, extent.length_bytes);
                self.extents.pop_front();
                self.next = range.end;
                self.come.insert(range.start, Part::Zero(range));
                continue;
            }
            let range = Range::new(self.next, extent.length_bytes.min(self.piece_bytes));
            extent.length_bytes -= range.bytes();
            if extent.length_bytes == 0 {
                self.extents.pop_front();
            }
            self.next = range.end;
            self.open_bytes += range.bytes();
            self.spend(range.bytes());
            self.submit(Asked::Read(range, clock::now()), Action::Read { range });
        }
    }

    /// Delays the next read by this read's length at the permitted bandwidth.
    fn spend(&mut self, bytes: u64) {
        if let Some(bandwidth) = self.bandwidth {
            let time = Duration::from_secs_f64(bytes as f64 / bandwidth as f64);
            self.resumes_at = self.resumes_at.max(clock::now()) + time;
        }
    }

    fn submit(&mut self, asked: Asked, action: Action) {
        let tag = self.next_tag;
        self.next_tag += 1;
        self.asked.insert(tag, asked);
        self.end.submit(tag, action);
    }

    /// Collects completions; returns whether there were any.
    fn take_done(&mut self) -> Result<bool, CopyError> {
        let mut has_come = false;
        while let Some((tag, outcome)) = self.end.poll_done() {
            has_come = true;
            match (self.asked.remove(&tag), outcome) {
                (Some(Asked::Status(range)), Ok(Answer::Status(extents))) => {
                    self.asks_status = false;
                    self.learn(range, extents);
                }
                (Some(Asked::Status(range)), _) => {
                    // Block status is not supported: treat everything as data.
                    self.asks_status = false;
                    self.learn(range, vec![Extent::data(range.bytes())]);
                }
                (Some(Asked::Read(range, since)), Ok(Answer::Data(data))) => {
                    let now = clock::now();
                    self.estimate.came(data.len() as u64, now - since, now);
                    self.keep(range, data)?;
                }
                (Some(Asked::Read(range, _)), outcome) => {
                    let failure = outcome.err().unwrap_or(Failure::Io);
                    let reason = self.end.take_reason();
                    return Err(CopyError::Read {
                        place: self.name.clone(),
                        offset_bytes: range.start,
                        why: reason.unwrap_or_else(|| words(failure).to_owned()),
                    });
                }
                (None, _) => {}
            }
        }
        Ok(has_come)
    }

    /// Keep only the whole blocks of each hole: the rest is data.
    fn learn(&mut self, range: Range, extents: Vec<Extent>) {
        let block = self.block_bytes;
        let mut at = range.start;
        for extent in extents {
            let end = (at + extent.length_bytes).min(range.end);
            let (first, last) = (at.next_multiple_of(block), end / block * block);
            match extent.reads_zero && first < last {
                true => {
                    self.push(first - at, false);
                    self.push(last - first, true);
                    self.push(end - last, false);
                }
                false => self.push(end - at, false),
            }
            at = end;
        }
        // An answer may cover less than the query, but must end at a block; the rest is queried again.
        let is_of_use = at > range.start && (at == range.end || at.is_multiple_of(block));
        if !is_of_use {
            self.push(range.end - at, false);
            at = range.end;
        }
        self.known = at;
    }

    fn push(&mut self, length_bytes: u64, reads_zero: bool) {
        if length_bytes == 0 {
            return;
        }
        match self.extents.back_mut() {
            Some(last) if last.reads_zero == reads_zero => last.length_bytes += length_bytes,
            _ => self.extents.push_back(Extent {
                length_bytes,
                is_hole: reads_zero,
                reads_zero,
            }),
        }
    }

    fn keep(&mut self, range: Range, mut data: Vec<u8>) -> Result<(), CopyError> {
        if self.size_bytes.is_some_and(|size| range.start >= size) {
            // It was issued before the stream's end was known.
            self.open_bytes -= range.bytes();
            return Ok(());
        }
        let missing = range.bytes().saturating_sub(data.len() as u64);
        if missing > 0 {
            if self.size_bytes.is_some() {
                return Err(CopyError::Ended {
                    place: self.name.clone(),
                    offset_bytes: range.end - missing,
                });
            }
            self.size_bytes = Some(range.end - missing);
            self.open_bytes -= missing;
            self.extents.clear();
            self.known = u64::MAX;
        }
        data.shrink_to_fit();
        self.come.insert(
            range.start,
            Part::Data {
                offset_bytes: range.start,
                data,
            },
        );
        Ok(())
    }
}
