//! What is between programs and a disk: a cache, with a journal above it or without.

use wansan_cache::{Action, Cache, Counters, Done, Journal, Operation, Outcome};
use wansan_trace::Instant;

use crate::journal_file::{LocalFile, Syncer};

/// Requests go in, operations of the disk come out.
pub(crate) struct Stack {
    cache: Cache,
    journal: Option<(Journal<LocalFile>, Syncer)>,
}

impl Stack {
    pub(crate) fn new(cache: Cache, journal: Option<(Journal<LocalFile>, Syncer)>) -> Stack {
        Stack { cache, journal }
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
                let Some(Done { request, outcome }) = self.cache.poll_done() else {
                    break;
                };
                journal.completed(request, outcome, now);
            }
        }
        self.cache.poll_operation(now)
    }

    pub(crate) fn poll_done(&mut self) -> Option<Done> {
        match &mut self.journal {
            Some((journal, _)) => journal.poll_done(),
            None => self.cache.poll_done(),
        }
    }

    pub(crate) fn deadline(&self, now: Instant) -> Instant {
        let journal = self.journal.as_ref();
        let journal = journal.map_or(Instant::FAR_FUTURE, |(journal, _)| journal.deadline());
        journal.min(self.cache.deadline(now))
    }

    /// Others may have changed the disk.
    pub(crate) fn invalidate(&mut self) {
        self.cache.invalidate();
    }

    /// The target may have lost what was not flushed.
    pub(crate) fn again(&mut self, now: Instant) {
        match &mut self.journal {
            Some((journal, _)) => journal.again(),
            None => self.cache.again(now),
        }
    }

    /// Why nothing is kept any more, if so.
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
        self.cache.counters()
    }

    /// Whether no request is open and everything is at the disk.
    pub(crate) fn is_idle(&self) -> bool {
        let journal = self.journal.as_ref();
        journal.is_none_or(|(journal, _)| journal.is_idle()) && self.cache.is_idle()
    }
}
