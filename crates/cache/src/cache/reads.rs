//! Reads: cached data, outstanding fetches, and what to request from the disk.

use std::time::Duration;

use wansan_trace::Instant;
use wansan_trace::event::RequestWait;

use super::Cache;
use super::in_flight::{About, What};
use crate::action::{Action, Answer, Failure, Outcome};
use crate::range::{Range, fill};

/// Largest read-ahead of one stream, cached or outstanding, in bandwidth-delay products: one outstanding, and one for
/// comparison.
const PRODUCTS: u64 = 2;

/// Read-ahead always allowed to a stream, in bytes: for when the product is unknown or small.
const LEAST_WINDOW_BYTES: u64 = 1 << 20;

/// A read of the program with missing data.
#[derive(Debug)]
pub(super) struct Read {
    request: u64,
    range: Range,
    data: Vec<u8>,
    /// Parts not yet received.
    missing: usize,
}

/// A read from the disk.
#[derive(Debug)]
pub(super) struct Fetch {
    /// The program's reads that wait for parts of it.
    waiting: Vec<(u64, Range)>,
    /// Whether to cache the data for later reads.
    keeps: bool,
    /// Whether any of the data are still needed: false if the program has changed all of them since it was issued.
    is_current: bool,
    /// The disk may have lost some of the data before it answered: they are being rewritten.
    pub(super) is_void: bool,
}

impl Cache {
    pub(super) fn read(&mut self, request: u64, range: Range, now: Instant) {
        let mut data = vec![0; range.bytes() as usize];
        let mut gaps = vec![range];
        self.fill_from_writes(&range, &mut gaps, &mut data);
        for piece in self.clean.overlapping(&range) {
            fill(&mut gaps, &piece, |part| {
                let at = range.places(&part);
                self.clean.read(piece.start, &part, &mut data[at]);
            });
        }
        if gaps.is_empty() {
            self.counters.read_hits += 1;
            self.finish(request, Ok(Answer::Data(data)));
            self.read_ahead(range, false, now);
            return;
        }
        let key = self.next_read;
        self.next_read += 1;
        let mut missing = 0;
        for (about, fetch) in self.in_flight.fetches.values_mut() {
            if fetch.keeps && fetch.is_current {
                fill(&mut gaps, &about.range, |part| {
                    fetch.waiting.push((key, part));
                    missing += 1;
                });
            }
        }
        if let (Some(first), Some(last)) = (gaps.first(), gaps.last()) {
            self.counters.read_misses += 1;
            missing += gaps.len();
            let whole = Range {
                start: first.start,
                end: last.end,
            };
            let fetch = Fetch {
                waiting: gaps.iter().map(|gap| (key, *gap)).collect(),
                keeps: false,
                is_current: true,
                is_void: false,
            };
            self.marks.add(request, RequestWait::Disk, now);
            self.fetch(whole, fetch, now);
        } else {
            self.marks.add(request, RequestWait::ReadAhead, now);
            self.counters.read_waits += 1;
        }
        let read = Read {
            request,
            range,
            data,
            missing,
        };
        self.reads.insert(key, read);
        self.read_ahead(range, true, now);
    }

    /// Fills from the newest data first: waiting writes, then outstanding ones.
    fn fill_from_writes(&self, range: &Range, gaps: &mut Vec<Range>, data: &mut [u8]) {
        let waiting = self
            .dirty
            .overlapping(range)
            .map(|burst| (burst.range(), &burst.data));
        let sent = self.in_flight.writes.values();
        let sent = sent.map(|(about, sent)| (about.range, &sent.data));
        for (written, from) in waiting.chain(sent) {
            fill(gaps, &written, |part| {
                data[range.places(&part)].copy_from_slice(&from[written.places(&part)]);
            });
        }
        for (zeros, _) in self.on_their_way_again() {
            fill(gaps, &zeros, |part| data[range.places(&part)].fill(0));
        }
    }

    fn fetch(&mut self, range: Range, fetch: Fetch, now: Instant) {
        self.send(range, What::Fetch(fetch), Action::Read { range }, now);
    }

    fn read_ahead(&mut self, range: Range, waits: bool, now: Instant) {
        let bound = self.config.read_ahead_bytes;
        if bound == 0 || self.is_shared {
            return;
        }
        let product = PRODUCTS * self.estimate.product_bytes();
        let most = product.max(LEAST_WINDOW_BYTES).min(bound);
        for piece in self.ahead.read(range, waits, most, self.config.size_bytes) {
            self.fetch_ahead(piece, now);
        }
    }

    /// Reads as much of a range as memory permits.
    pub(super) fn prefetch(&mut self, range: Range, now: Instant) {
        let mut start = range.start;
        while start < range.end && self.ahead_bytes() < self.config.read_ahead_bytes {
            let piece = Range::new(start, LEAST_WINDOW_BYTES.min(range.end - start));
            self.fetch_ahead(piece, now);
            start = piece.end;
        }
    }

    /// Reads a range ahead, if memory permits and none of it is cached, outstanding or about to change.
    fn fetch_ahead(&mut self, range: Range, now: Instant) {
        let bytes = range.bytes();
        let bound = self.config.read_ahead_bytes;
        let is_coming =
            |(about, fetch): &(About, Fetch)| fetch.keeps && about.range.overlaps(&range);
        let is_known = self.dirty.overlapping(&range).next().is_some()
            || !self.clean.overlapping(&range).is_empty()
            || self.in_flight.changes(&range)
            || self.in_flight.fetches.values().any(is_coming);
        if range.is_empty() || is_known || self.is_shared || self.fetching_bytes + bytes > bound {
            return;
        }
        while self.ahead_bytes() + bytes > bound {
            let Some(wasted) = self.clean.drop_oldest() else {
                return;
            };
            self.counters.wasted_bytes += wasted;
        }
        self.counters.ahead_bytes += bytes;
        self.fetching_bytes += bytes;
        let fetch = Fetch {
            waiting: Vec::new(),
            keeps: true,
            is_current: true,
            is_void: false,
        };
        self.fetch(range, fetch, now);
    }

    pub(super) fn fetched(
        &mut self,
        fetch: &Fetch,
        range: Range,
        outcome: Outcome,
        took: Duration,
        now: Instant,
    ) {
        if fetch.keeps {
            self.fetching_bytes -= range.bytes();
        }
        if fetch.is_void {
            self.ask_again(&fetch.waiting, now);
            return;
        }
        let data = match outcome {
            Ok(Answer::Data(data)) if data.len() as u64 == range.bytes() => Ok(data),
            Ok(_) => Err(Failure::Io),
            Err(failure) => Err(failure),
        };
        if data.is_ok() {
            self.estimate.came(range.bytes(), took, now);
        }
        let mut read_bytes = 0;
        for (key, part) in &fetch.waiting {
            let Some(read) = self.reads.get_mut(key) else {
                continue;
            };
            match &data {
                Ok(data) => {
                    read_bytes += part.bytes();
                    let at = read.range.places(part);
                    read.data[at].copy_from_slice(&data[range.places(part)]);
                    read.missing -= 1;
                    if read.missing > 0 {
                        continue;
                    }
                    let read = self.reads.remove(key);
                    let done = read.map(|read| (read.request, Ok(Answer::Data(read.data))));
                    done.into_iter()
                        .for_each(|(request, outcome)| self.finish(request, outcome));
                }
                // The failure may concern another part of the read-ahead range.
                Err(_) if fetch.keeps => {
                    let request = read.request;
                    self.marks.add(request, RequestWait::Disk, now);
                    let alone = Fetch {
                        waiting: vec![(*key, *part)],
                        keeps: false,
                        is_current: true,
                        is_void: false,
                    };
                    self.fetch(*part, alone, now);
                }
                Err(failure) => {
                    let request = read.request;
                    self.reads.remove(key);
                    self.finish(request, Err(*failure));
                }
            }
        }
        if fetch.keeps
            && let Ok(data) = data
        {
            match fetch.is_current {
                true => {
                    self.clean.keep(range.start, data);
                    self.clean.was_read(range.start, read_bytes);
                }
                false => self.counters.wasted_bytes += range.bytes().saturating_sub(read_bytes),
            }
        }
    }

    /// Rereads parts whose data the disk may have answered before lost writes were rewritten.
    fn ask_again(&mut self, waiting: &[(u64, Range)], now: Instant) {
        for (key, part) in waiting {
            let Some(mut read) = self.reads.remove(key) else {
                continue;
            };
            let mut gaps = vec![*part];
            let at = read.range.places(part);
            self.fill_from_writes(part, &mut gaps, &mut read.data[at]);
            read.missing = read.missing - 1 + gaps.len();
            if read.missing == 0 {
                self.finish(read.request, Ok(Answer::Data(read.data)));
                continue;
            }
            self.marks.add(read.request, RequestWait::Disk, now);
            self.reads.insert(*key, read);
            for gap in gaps {
                let fetch = Fetch {
                    waiting: vec![(*key, gap)],
                    keeps: false,
                    is_current: true,
                    is_void: false,
                };
                self.fetch(gap, fetch, now);
            }
        }
    }

    /// Drops cached data of a range that has changed or may have.
    pub(super) fn forget_clean(&mut self, range: &Range) {
        self.counters.wasted_bytes += self.clean.invalidate(range);
        for (about, fetch) in self.in_flight.fetches.values_mut() {
            fetch.is_current &= !about.range.overlaps(range);
        }
    }
}
