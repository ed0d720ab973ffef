//! The source of a copy: its data in order, its holes found, as many reads on their way as the path needs.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use wansan_cache::{Action, Answer, Estimate, Extent, Range};
use wansan_trace::{Instant, clock};

use super::end::End;
use super::{CopyError, PIECE_BYTES, Part};

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
    /// Bytes that are asked for or wait in `come`.
    open_bytes: u64,
    estimate: Estimate,
    /// Bytes per second, at most; and when the next may be asked for.
    bandwidth: Option<u64>,
    resumes_at: Instant,
}

impl Reading {
    pub(super) fn new(
        end: Box<dyn End>,
        name: String,
        from: u64,
        size_bytes: Option<u64>,
        bandwidth: Option<u64>,
    ) -> Reading {
        Reading {
            end,
            name,
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

    /// Waits for an answer, or until more may be asked for.
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

    pub(super) fn close(self) -> Result<(), CopyError> {
        self.end.close()
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
            if extent.is_hole && extent.reads_zero {
                let range = Range::new(self.next, extent.length_bytes);
                self.extents.pop_front();
                self.next = range.end;
                self.come.insert(range.start, Part::Zero(range));
                continue;
            }
            let range = Range::new(self.next, extent.length_bytes.min(PIECE_BYTES));
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
                    // The end says why, if it knows more.
                    self.end.turn(clock::now())?;
                    return Err(CopyError::Read {
                        place: self.name.clone(),
                        offset_bytes: range.start,
                        failure: outcome.err(),
                    });
                }
                (None, _) => {}
            }
        }
        Ok(has_come)
    }

    fn learn(&mut self, range: Range, extents: Vec<Extent>) {
        let mut left = range.bytes();
        for mut extent in extents {
            extent.length_bytes = extent.length_bytes.min(left);
            left -= extent.length_bytes;
            if extent.length_bytes > 0 {
                self.extents.push_back(extent);
            }
        }
        self.known = range.end - left;
        if left == range.bytes() {
            // An answer of no use.
            self.extents.push_back(Extent::data(left));
            self.known = range.end;
        }
    }

    fn keep(&mut self, range: Range, mut data: Vec<u8>) -> Result<(), CopyError> {
        if self.size_bytes.is_some_and(|size| range.start >= size) {
            // It was asked for before a stream was known to have ended.
            self.open_bytes -= range.bytes();
            return Ok(());
        }
        let missing = range.bytes().saturating_sub(data.len() as u64);
        if missing > 0 {
            if self.size_bytes.is_some() {
                return Err(CopyError::Read {
                    place: self.name.clone(),
                    offset_bytes: range.end - missing,
                    failure: None,
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
