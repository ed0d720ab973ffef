//! The machine between a program's requests and a disk's operations.

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

/// What the disk is to do now.
#[derive(Debug, PartialEq, Eq)]
pub struct Operation {
    /// For [`Cache::completed`].
    pub tag: u64,
    /// What.
    pub action: Action,
}

/// A request of the program that is done.
#[derive(Debug, PartialEq, Eq)]
pub struct Done {
    /// The caller's number of [`Cache::submit`].
    pub request: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// The operation whose end answered it, if one did.
    pub operation: Option<u64>,
}

/// A cache of one disk. Into it go requests ([`Cache::submit`]) and completions of operations
/// ([`Cache::completed`]); after either, and at [`Cache::deadline`], operations
/// ([`Cache::poll_operation`]) and answers ([`Cache::poll_done`]) come out, each until `None`.
///
/// Operations that are out at the same time and change data never overlap, so the disk may carry them out in any
/// order, and any of them may be repeated after a session was lost.
#[derive(Debug)]
pub struct Cache {
    config: CacheConfig,
    counters: Counters,
    in_flight: InFlight,
    next_tag: u64,
    operations: VecDeque<Operation>,
    done: VecDeque<Done>,
    marks: Marks,
    /// The operation that has just ended.
    ending: Option<u64>,

    reads: BTreeMap<u64, Read>,
    next_read: u64,
    ahead: Ahead,
    /// Others use the disk.
    is_shared: bool,
    clean: Clean,
    /// Bytes that are being read ahead.
    fetching_bytes: u64,
    estimate: Estimate,

    dirty: Dirty,
    /// Bytes of the writes that the disk was given, and how many there are.
    sent_bytes: u64,
    sent_writes: usize,
    /// The next write's number, from 1 on: a flush of what came before 0 is of none.
    next_write: u64,
    /// All writes up to, not including, that number are to be at the disk soon.
    urgent: u64,
    /// Changes that wait for room, or for what came before them, in order.
    waiting: VecDeque<(u64, Action)>,
    flushes: VecDeque<Flush>,
    /// What waits until nothing older overlaps it, and goes to the disk as it is.
    held: VecDeque<Held>,
    /// Writes that had been acknowledged and failed, until a flush says so.
    lost: Option<Lost>,
    /// What the disk has answered and not flushed, in the order of the answers, and its bytes.
    kept: Vec<Kept>,
    kept_bytes: u64,
    /// How often the disk may have lost that.
    losses: u64,
}

impl Cache {
    /// An empty one.
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

    /// A request, with a number of the caller's that no other open one has. It must be inside the disk.
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

    /// An operation has ended.
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
        // Some of it may have been done before the disk lost what it had not flushed.
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

    /// What the disk is to do now, if there is anything.
    pub fn poll_operation(&mut self, now: Instant) -> Option<Operation> {
        if self.operations.is_empty() {
            self.advance_writes(now);
        }
        self.operations.pop_front()
    }

    /// The next request that is done, if there is one.
    pub fn poll_done(&mut self) -> Option<Done> {
        self.done.pop_front()
    }

    /// The next change of what a request waits for, if [`CacheConfig::marks`] is set. A request that was answered
    /// without any has waited for nothing. Those of a request come before it does in [`Cache::poll_done`].
    pub fn poll_mark(&mut self) -> Option<Mark> {
        self.marks.poll()
    }

    /// When [`Cache::poll_operation`], which has returned `None` at `now`, may have something although nothing has
    /// come in.
    #[must_use]
    pub fn deadline(&self, now: Instant) -> Instant {
        if self.sent_writes >= self.writes_in_flight() {
            return Instant::FAR_FUTURE;
        }
        let next = self.dirty.next_due(self.due(now));
        next.map_or(Instant::FAR_FUTURE, |since| since + self.config.merge_time)
    }

    /// Others have changed the disk: what was read ahead of them is thrown away.
    pub fn invalidate(&mut self) {
        let all = Range {
            start: 0,
            end: u64::MAX,
        };
        self.forget_clean(&all);
        self.ahead.forget();
    }

    /// Whether others may read and write the disk at any time: then nothing is read ahead, as it might be old when it is
    /// read, and no write is acknowledged before the disk has it, as others would not see it. It is on the medium then,
    /// too: to write it again after a loss could undo what others have written since.
    pub fn share(&mut self, is_shared: bool) {
        self.is_shared = is_shared;
        self.urgent = self.next_write;
        self.invalidate();
    }

    /// The disk may lose what it has answered and not flushed, from now on.
    pub fn assume_volatile(&mut self) {
        self.config.is_volatile = true;
    }

    /// Bytes that were acknowledged and are not at the disk yet, or not on its medium where that is volatile.
    #[must_use]
    pub fn behind_bytes(&self) -> u64 {
        self.dirty.bytes() + self.sent_bytes + self.kept_bytes
    }

    /// When the oldest of them came.
    #[must_use]
    pub fn behind_since(&self) -> Option<Instant> {
        let waiting = self.dirty.oldest().map(|(_, since)| since);
        let sent = self.in_flight.writes.values().map(|(_, sent)| sent.since);
        let kept = self.kept.iter().filter_map(Kept::since);
        waiting.into_iter().chain(sent).chain(kept).min()
    }

    /// Memory for what was read ahead or is being so, in bytes.
    #[must_use]
    pub fn ahead_bytes(&self) -> u64 {
        self.clean.bytes() + self.fetching_bytes
    }

    /// Whether no request is open and everything is at the disk.
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

    /// What it has done.
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
