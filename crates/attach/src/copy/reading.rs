//! The source of a copy: its data in order, its holes found, as many reads on their way as the path needs.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use wansan_cache::{Action, Answer, Estimate, Extent, Failure, Range};
use wansan_trace::{Instant, clock};

use super::end::End;
use super::{CopyError, PIECE_BYTES, Part, words};

/// What one question about holes is about, in bytes.
const STATUS_BYTES: u64 = 1 << 30;

/// Bytes on their way, and waiting for others before them: at least, and at most.
const LEAST_WINDOW_BYTES: u64 = 8 << 20;
const MOST_WINDOW_BYTES: u64 = 128 << 20;

/// Bandwidth-delay products on their way.
const PRODUCTS: u64 = 2;

/// The longest wait of one turn.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// What an operation was about.
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
    /// Where the data end; of a stream, once they have.
    size_bytes: Option<u64>,
    /// Parts to be read, in order.
    extents: VecDeque<Extent>,
    /// Where `extents` begin, and where what is known of holes ends.
    next: u64,
    known: u64,
    asks_status: bool,
    asked: BTreeMap<u64, Asked>,
    next_tag: u64,
    /// Parts that have come before others that go first, by their places.
    come: BTreeMap<u64, Part>,
    /// The place of the next part to hand out.
    ready: u64,
    /// Bytes requested, or waiting in `come`.
    open_bytes: u64,
    estimate: Estimate,
    /// Bytes per second, at most; and when the next read may be issued.
    bandwidth: Option<u64>,
    resumes_at: Instant,
}

impl Reading {
    /// Reads `end` from `from` on. Parts are cut at multiples of `block_bytes` and have `most_bytes` of data at most.
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

    /// The next part, in order; `None` behind the last one.
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

    /// Waits for an answer, or until another read may be issued.
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

    /// Where the next part begins.
    pub(super) fn position(&self) -> u64 {
        self.ready
    }

    pub(super) fn close(self) {
        drop(self.end.close());
    }

    /// Asks for as much as the path needs.
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

    /// Puts the next read off by the time that this one takes at the bandwidth that is allowed.
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

    /// Takes what has come; whether anything has.
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
                    // It does not tell: all of it may be data.
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

    /// Holes keep their whole blocks only: what is around these is data.
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
        // An answer may end before the question does, but on a block: the rest is requested again.
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
            // It was issued before the stream was known to have ended.
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
