//! The state machine between a program's requests and a disk's operations.

mod held;
mod in_flight;
mod kept;
mod reads;
mod writes;

use std::collections::{BTreeMap, VecDeque};

use wansan_trace::Instant;

use self::held::{Held, Origin};
use self::in_flight::{About, InFlight, Through, What};
use self::kept::{Flush, Kept, Lost};
use self::reads::Read;
use crate::action::{Action, Answer, Outcome};
use crate::ahead::Ahead;
use crate::clean::Clean;
use crate::config::{CacheConfig, Counters};
use crate::dirty::Dirty;
use crate::estimate::Estimate;
use crate::mark::{Mark, Marks};
use crate::range::Range;

/// An operation for the disk.
#[derive(Debug, PartialEq, Eq)]
pub struct Operation {
    /// Identifies it in [`Cache::completed`].
    pub tag: u64,
    /// What to do.
    pub action: Action,
}

/// A completed request of the program.
#[derive(Debug, PartialEq, Eq)]
pub struct Done {
    /// The request number given to [`Cache::submit`].
    pub request: u64,
    /// Its result.
    pub outcome: Outcome,
    /// The operation whose completion answered it, if any.
    pub operation: Option<u64>,
}

/// A cache of one disk. Requests go in by [`Cache::submit`], completions of operations by [`Cache::completed`]; after
/// either, and at [`Cache::deadline`], take operations from [`Cache::poll_operation`] and answers from
/// [`Cache::poll_done`] until each returns `None`.
///
/// Outstanding operations that change data never overlap, so the disk may execute them in any order, and any of them
/// may be repeated after a session is lost.
#[derive(Debug)]
pub struct Cache {
    config: CacheConfig,
    counters: Counters,
    in_flight: InFlight,
    next_tag: u64,
    operations: VecDeque<Operation>,
    done: VecDeque<Done>,
    marks: Marks,
    /// The operation being completed.
    ending: Option<u64>,

    reads: BTreeMap<u64, Read>,
    next_read: u64,
    ahead: Ahead,
    /// Other initiators use the disk.
    is_shared: bool,
    clean: Clean,
    /// Bytes of outstanding read-ahead.
    fetching_bytes: u64,
    estimate: Estimate,

    dirty: Dirty,
    /// Bytes and number of outstanding writes.
    sent_bytes: u64,
    sent_writes: usize,
    /// Number of the next write, from 1: a flush of everything before 0 covers no write.
    next_write: u64,
    /// Writes with numbers below this must go to the disk soon.
    urgent: u64,
    /// Changes that wait for room or for earlier ones, in order.
    waiting: VecDeque<(u64, Action)>,
    flushes: VecDeque<Flush>,
    /// Operations passed to the disk unchanged once nothing older overlaps them.
    held: VecDeque<Held>,
    /// Acknowledged writes that failed, until a flush reports them.
    lost: Option<Lost>,
    /// Changes that the disk has answered but not flushed, in answer order, and their bytes.
    kept: Vec<Kept>,
    kept_bytes: u64,
    /// How many times the disk may have lost those.
    losses: u64,
}

impl Cache {
    /// An empty cache.
    #[must_use]
    pub fn new(config: CacheConfig) -> Cache {
        Cache {
            config,
            counters: Counters::default(),
            in_flight: InFlight::default(),
            next_tag: 0,
            operations: VecDeque::new(),
            done: VecDeque::new(),
            marks: Marks::new(config.marks),
            ending: None,
            reads: BTreeMap::new(),
            next_read: 0,
            ahead: Ahead::default(),
            is_shared: false,
            clean: Clean::default(),
            fetching_bytes: 0,
            estimate: Estimate::default(),
            dirty: Dirty::new(config.burst_bytes),
            sent_bytes: 0,
            sent_writes: 0,
            next_write: 1,
            urgent: 0,
            waiting: VecDeque::new(),
            flushes: VecDeque::new(),
            held: VecDeque::new(),
            lost: None,
            kept: Vec::new(),
            kept_bytes: 0,
            losses: 0,
        }
    }

    /// Submits a request. `request` must be unique among the open ones; the range must be inside the disk.
    pub fn submit(&mut self, request: u64, action: Action, now: Instant) {
        match action {
            Action::Read { range } => self.read(request, range, now),
            Action::Write { .. } | Action::Trim { .. } | Action::Zero { .. } => {
                self.change(request, action, now);
            }
            Action::Flush => self.flush(request, now),
            Action::Prefetch { range } => {
                self.prefetch(range, now);
                self.finish(request, Ok(Answer::Done));
            }
            Action::Status { .. } => self.hold(Origin::Request(request), action, now),
        }
    }

    /// Completes an operation.
    pub fn completed(&mut self, tag: u64, outcome: Outcome, now: Instant) {
        let Some((about, what)) = self.in_flight.remove(tag) else {
            return;
        };
        let About {
            range,
            since,
            losses,
        } = about;
        self.ending = Some(tag);
        // Part of it may have been done before the disk lost its unflushed writes.
        let is_doubtful = losses != self.losses && outcome.is_ok();
        match what {
            What::Fetch(fetch) => self.fetched(&fetch, range, outcome, now - since, now),
            What::Write(sent) if is_doubtful => self.send_write(sent, range, now),
            What::Write(sent) => self.written(sent, range, outcome.err()),
            What::Flush(flushing) => {
                let failure = outcome.err();
                self.flushed(flushing, failure, is_doubtful, now);
            }
            What::Through(Through { origin, action }) => match is_doubtful {
                true => self.hold(origin, action, now),
                false => self.went_through(origin, action, outcome),
            },
        }
        self.ending = None;
    }

    /// The next operation for the disk.
    pub fn poll_operation(&mut self, now: Instant) -> Option<Operation> {
        if self.operations.is_empty() {
            self.advance_writes(now);
        }
        self.operations.pop_front()
    }

    /// The next completed request.
    pub fn poll_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// The next change in what a request waits for, if [`CacheConfig::marks`] is set. A request answered without any
    /// mark did not wait. A request's marks come before it does in [`Cache::poll_done`].
    pub fn poll_mark(&mut self) -> Option<Mark> {
        self.marks.poll()
    }

    /// When [`Cache::poll_operation`], having returned `None` at `now`, may return an operation without further input.
    #[must_use]
    pub fn deadline(&self, now: Instant) -> Instant {
        if self.sent_writes >= self.writes_in_flight() {
            return Instant::FAR_FUTURE;
        }
        let next = self.dirty.next_due(self.due(now));
        next.map_or(Instant::FAR_FUTURE, |since| since + self.config.merge_time)
    }

    /// Other initiators have changed the disk: drops read-ahead data.
    pub fn invalidate(&mut self) {
        let all = Range {
            start: 0,
            end: u64::MAX,
        };
        self.forget_clean(&all);
        self.ahead.forget();
    }

    /// Sets whether others may read and write the disk at any time. If so, nothing is read ahead, as it might be stale
    /// when used, and no write is acknowledged before the disk has it, as others would not see it. It is on the medium
    /// then, too: rewriting it after a loss could undo later writes of others.
    pub fn share(&mut self, is_shared: bool) {
        self.is_shared = is_shared;
        self.urgent = self.next_write;
        self.invalidate();
    }

    /// Assumes from now on that the disk may lose answered but unflushed writes.
    pub fn assume_volatile(&mut self) {
        self.config.is_volatile = true;
    }

    /// Acknowledged bytes that are not at the disk yet, or not on its medium if its cache is volatile.
    #[must_use]
    pub fn behind_bytes(&self) -> u64 {
        self.dirty.bytes() + self.sent_bytes + self.kept_bytes
    }

    /// When the oldest of them arrived.
    #[must_use]
    pub fn behind_since(&self) -> Option<Instant> {
        let waiting = self.dirty.oldest().map(|(_, since)| since);
        let sent = self.in_flight.writes.values().map(|(_, sent)| sent.since);
        let kept = self.kept.iter().filter_map(Kept::since);
        waiting.into_iter().chain(sent).chain(kept).min()
    }

    /// Memory of read-ahead data, cached or outstanding, in bytes.
    #[must_use]
    pub fn ahead_bytes(&self) -> u64 {
        self.clean.bytes() + self.fetching_bytes
    }

    /// Whether no request is open and the disk has all writes.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
            && self.operations.is_empty()
            && self.done.is_empty()
            && self.dirty.bytes() == 0
            && self.waiting.is_empty()
            && self.flushes.is_empty()
            && self.held.is_empty()
    }

    /// Its counters.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    fn finish(&mut self, request: u64, outcome: Outcome) {
        self.done.push_back(Done {
            request,
            outcome,
            operation: self.ending,
        });
    }

    fn send(&mut self, range: Range, what: What, action: Action, now: Instant) {
        let tag = self.next_tag;
        self.next_tag += 1;
        let about = About {
            range,
            since: now,
            losses: self.losses,
        };
        self.in_flight.insert(tag, about, what);
        self.operations.push_back(Operation { tag, action });
    }
}
