//! The layers between programs and a disk: a cache, with or without a journal above it.

use std::collections::{BTreeMap, VecDeque};

use wansan_cache::{Action, Cache, Counters, Done, Journal, Mark, Operation, Outcome};
use wansan_trace::Instant;

use crate::journal_file::{LocalFile, Syncer};

/// Takes requests and emits operations for the disk.
pub(crate) struct Stack {
    cache: Cache,
    journal: Option<(Journal<LocalFile>, Syncer)>,
    /// The cache's marks on requests that the journal passed on, under the program's request numbers.
    marks: VecDeque<Mark>,
    /// The disk operation that answered each of the journal's.
    answered_by: BTreeMap<u64, u64>,
}

impl Stack {
    pub(crate) fn new(cache: Cache, journal: Option<(Journal<LocalFile>, Syncer)>) -> Stack {
        Stack {
            cache,
            journal,
            marks: VecDeque::new(),
            answered_by: BTreeMap::new(),
        }
    }

    pub(crate) fn submit(&mut self, request: u64, action: Action, now: Instant) {
        match &mut self.journal {
            Some((journal, _)) => journal.submit(request, action, now),
            None => self.cache.submit(request, action, now),
        }
    }

    pub(crate) fn completed(&mut self, tag: u64, outcome: Outcome, now: Instant) {
        self.cache.completed(tag, outcome, now);
    }

    pub(crate) fn poll_operation(&mut self, now: Instant) -> Option<Operation> {
        if let Some((journal, syncer)) = &mut self.journal {
            if let Some(result) = syncer.poll() {
                journal.synced(result);
            }
            loop {
                while let Some(Operation { tag, action }) = journal.poll_operation(now) {
                    self.cache.submit(tag, action, now);
                }
                if journal.poll_sync() {
                    syncer.begin();
                }
                while let Some(mark) = self.cache.poll_mark() {
                    let of = |request| Mark { request, ..mark };
                    self.marks.extend(journal.request_of(mark.request).map(of));
                }
                let Some(done) = self.cache.poll_done() else {
                    break;
                };
                if let Some(operation) = done.operation {
                    self.answered_by.insert(done.request, operation);
                }
                journal.completed(done.request, done.outcome, now);
            }
        }
        self.cache.poll_operation(now)
    }

    pub(crate) fn poll_done(&mut self) -> Option<Done> {
        let Some((journal, _)) = &mut self.journal else {
            return self.cache.poll_done();
        };
        let done = journal.poll_done();
        let Some(done) = done else {
            // The remaining ones answered no request.
            self.answered_by.clear();
            return None;
        };
        let operation = done.operation.as_ref();
        Some(Done {
            operation: operation.and_then(|tag| self.answered_by.remove(tag)),
            ..done
        })
    }

    /// The next change in what a program's request waits for.
    pub(crate) fn poll_mark(&mut self) -> Option<Mark> {
        match &mut self.journal {
            Some((journal, _)) => journal.poll_mark().or_else(|| self.marks.pop_front()),
            None => self.cache.poll_mark(),
        }
    }

    pub(crate) fn deadline(&self, now: Instant) -> Instant {
        let journal = self.journal.as_ref();
        let journal = journal.map_or(Instant::FAR_FUTURE, |(journal, _)| journal.deadline());
        journal.min(self.cache.deadline(now))
    }

    /// Others may have changed the disk's data.
    pub(crate) fn invalidate(&mut self) {
        self.cache.invalidate();
    }

    /// Sets whether others may write to the disk.
    pub(crate) fn share(&mut self, is_shared: bool) {
        self.cache.share(is_shared);
    }

    /// The target may have lost unflushed writes.
    pub(crate) fn again(&mut self, now: Instant) {
        match &mut self.journal {
            Some((journal, _)) => journal.again(),
            None => self.cache.again(now),
        }
    }

    /// Sets whether the target's cache is volatile, as it reports now. A cache that already keeps unflushed writes
    /// continues to.
    pub(crate) fn know_volatile(&mut self, is_volatile: bool) {
        // The journal keeps unflushed writes itself.
        if is_volatile && self.journal.is_none() {
            self.cache.assume_volatile();
        }
    }

    /// Why writes can no longer be kept, if so.
    pub(crate) fn broken(&self) -> Option<String> {
        let (journal, syncer) = self.journal.as_ref()?;
        journal
            .is_broken()
            .then(|| format!("the journal {} failed: writes are refused", syncer.name()))
    }

    pub(crate) fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    pub(crate) fn behind_bytes(&self) -> u64 {
        match &self.journal {
            Some((journal, _)) => journal.behind_bytes(),
            None => self.cache.behind_bytes(),
        }
    }

    pub(crate) fn behind_since(&self) -> Option<Instant> {
        match &self.journal {
            Some((journal, _)) => journal.behind_since(),
            None => self.cache.behind_since(),
        }
    }

    pub(crate) fn ahead_bytes(&self) -> u64 {
        self.cache.ahead_bytes()
    }

    pub(crate) fn counters(&self) -> Counters {
        let counters = self.cache.counters();
        match &self.journal {
            Some((journal, _)) => journal.counters(counters),
            None => counters,
        }
    }

    /// Whether no request is open and the disk has all writes.
    pub(crate) fn is_idle(&self) -> bool {
        let journal = self.journal.as_ref();
        journal.is_none_or(|(journal, _)| journal.is_idle()) && self.cache.is_idle()
    }
}
