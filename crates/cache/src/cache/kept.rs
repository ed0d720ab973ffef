//! Changes that the disk has answered but not flushed, and the flushes that put them on the medium.

use wansan_trace::Instant;
use wansan_trace::event::RequestWait;

use super::Cache;
use super::held::{Held, Origin};
use super::in_flight::What;
use crate::action::{Action, Answer, Failure};
use crate::dirty::Burst;
use crate::range::{Range, fill};

/// A flush that waits for writes, or only for the operation that it follows.
#[derive(Debug)]
pub(super) struct Flush {
    pub(super) request: u64,
    /// All writes with lower numbers must be at the disk first.
    pub(super) before: u64,
    /// The operation that the disk executed for the same request: repeated, then flushed, if the disk may have lost it
    /// before the flush.
    pub(super) follows: Option<Action>,
}

/// An outstanding flush of the disk.
#[derive(Debug)]
pub(super) struct Flushing {
    /// The flushes that it answers; without any, it frees memory.
    pub(super) flushes: Vec<Flush>,
    /// Changes with lower numbers were at the disk before it.
    covers: u64,
    /// Number of kept changes answered before it.
    kept: usize,
}

/// How to repeat a change.
#[derive(Debug)]
pub(super) enum Redo {
    Write {
        data: Vec<u8>,
        since: Instant,
    },
    /// A trim or zeroing request.
    Through(Action),
}

/// A change answered by the disk but not flushed.
#[derive(Debug)]
pub(super) struct Kept {
    range: Range,
    redo: Redo,
    /// Numbers of its oldest and newest writes.
    first: u64,
    last: u64,
    /// The parts not replaced on the medium since.
    left: Vec<Range>,
}

impl Kept {
    fn overlaps(&self, range: &Range) -> bool {
        self.left.iter().any(|left| left.overlaps(range))
    }

    /// When its oldest write arrived.
    pub(super) fn since(&self) -> Option<Instant> {
        match self.redo {
            Redo::Write { since, .. } => Some(since),
            Redo::Through(_) => None,
        }
    }

    /// Its memory, in bytes.
    fn bytes(&self) -> u64 {
        match &self.redo {
            Redo::Write { data, .. } => data.len() as u64,
            Redo::Through(_) => 0,
        }
    }
}

/// Acknowledged writes that failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lost {
    /// Numbers of the oldest and newest.
    oldest: u64,
    youngest: u64,
    failure: Failure,
}

impl Cache {
    pub(super) fn flush(&mut self, request: u64, now: Instant) {
        self.counters.flushes += 1;
        self.marks.add(request, RequestWait::Backlog, now);
        let before = self.next_write;
        self.urgent = before;
        self.flushes.push_back(Flush {
            request,
            before,
            follows: None,
        });
    }

    /// Keeps a change that the disk has answered but may lose until a flush.
    pub(super) fn keep(&mut self, range: Range, redo: Redo, (first, last): (u64, u64)) {
        let kept = Kept {
            range,
            redo,
            first,
            last,
            left: vec![range],
        };
        self.kept_bytes += kept.bytes();
        self.kept.push(kept);
    }

    /// Drops kept data in a range where newer data are on the medium: it must not be rewritten.
    pub(super) fn replace_kept(&mut self, range: &Range) {
        for kept in &mut self.kept {
            fill(&mut kept.left, range, |_| {});
        }
    }

    /// Notes that acknowledged writes did not reach the disk, for a flush to report.
    pub(super) fn lose(&mut self, (first, last): (u64, u64), failure: Failure) {
        self.counters.lost_writes += 1;
        let lost = self.lost.get_or_insert(Lost {
            oldest: first,
            youngest: last,
            failure,
        });
        lost.oldest = lost.oldest.min(first);
        lost.youngest = lost.youngest.max(last);
    }

    /// Gives up the oldest `count` kept changes: they may never reach the medium.
    fn lose_kept(&mut self, count: usize, failure: Failure) {
        for kept in self.take_kept(count) {
            self.lose((kept.first, kept.last), failure);
        }
    }

    fn take_kept(&mut self, count: usize) -> Vec<Kept> {
        let taken: Vec<Kept> = self.kept.drain(..count.min(self.kept.len())).collect();
        self.kept_bytes -= taken.iter().map(Kept::bytes).sum::<u64>();
        // The outstanding flush was sent when more was kept.
        if let Some(flushing) = self.in_flight.flushing_mut() {
            flushing.kept = flushing.kept.saturating_sub(count);
        }
        taken
    }

    /// The disk may have lost answered but unflushed changes: repeats them, except where newer changes replace them, as
    /// well as the outstanding operations. Where others use the disk, they may have written there since: a flush then
    /// reports the changes as lost.
    pub fn again(&mut self, now: Instant) {
        self.losses += 1;
        for mut flush in std::mem::take(&mut self.flushes) {
            match flush.follows.take() {
                Some(action) => self.hold(Origin::Request(flush.request), action, now),
                None => self.flushes.push_back(flush),
            }
        }
        if self.is_shared {
            return self.lose_kept(usize::MAX, Failure::Io);
        }
        let kept = self.take_kept(usize::MAX);
        for (about, fetch) in self.in_flight.fetches.values_mut() {
            fetch.is_void |= kept.iter().any(|kept| kept.overlaps(&about.range));
        }
        for kept in kept.into_iter().rev() {
            self.redo(kept, now);
        }
        // Flushes in the meantime did not cover it.
        self.urgent = self.next_write;
    }

    /// Repeats a change, behind newer ones.
    fn redo(&mut self, kept: Kept, now: Instant) {
        let Kept {
            range,
            redo,
            first,
            last,
            left: mut gaps,
        } = kept;
        // Newer data are flushed in its place.
        self.dirty.stand_for(&range, first);
        let mut younger: Vec<Range> = self.dirty.overlapping(&range).map(Burst::range).collect();
        for (about, sent) in self.in_flight.writes.values_mut() {
            if about.range.overlaps(&range) {
                sent.first = sent.first.min(first);
                younger.push(about.range);
            }
        }
        for (held, oldest) in self.held.iter_mut().filter_map(Held::again) {
            if held.overlaps(&range) {
                *oldest = first.min(*oldest);
                younger.push(held);
            }
        }
        for known in younger {
            fill(&mut gaps, &known, |_| {});
        }
        for gap in gaps {
            match &redo {
                Redo::Write { data, since } => self.dirty.write(Burst {
                    offset_bytes: gap.start,
                    data: data[range.places(&gap)].to_vec(),
                    first,
                    last,
                    since: *since,
                    fua: false,
                    has_early: true,
                    tickets: Vec::new(),
                }),
                Redo::Through(action) => {
                    self.hold(Origin::Again(first, last), action.part(gap), now);
                }
            }
        }
    }

    /// Number of the oldest change that is not at the disk.
    fn oldest(&self) -> u64 {
        let sent = self.in_flight.writes.values();
        let sent = sent.map(|(_, sent)| sent.first);
        let waiting = self.dirty.oldest().map(|(first, _)| first);
        let again = self.on_their_way_again().map(|(_, first)| first);
        sent.chain(waiting).chain(again).min().unwrap_or(u64::MAX)
    }

    /// Flushes the disk; one flush answers all requests whose writes are there. Without requests, it frees memory once
    /// much is kept. At most one is outstanding: of two, a disk may complete one although the other failed and dropped
    /// what both covered. Flush requests that arrive while one is outstanding share its answer if their writes were at
    /// the disk when it was sent.
    pub(super) fn send_flush(&mut self, now: Instant) {
        if let Some(flushing) = self.in_flight.flushing_mut() {
            let is_covered =
                |flush: &&Flush| flush.follows.is_none() && flush.before <= flushing.covers;
            let covered = self.flushes.iter().take_while(is_covered).count();
            for flush in self.flushes.drain(..covered) {
                self.marks.add(flush.request, RequestWait::Disk, now);
                flushing.flushes.push(flush);
            }
            return;
        }
        let is_all = self.dirty.bytes() + self.sent_bytes == 0;
        let lacks_room = |(_, action): &(u64, Action)| !self.has_room(action);
        let is_full = self.kept_bytes > self.config.write_bytes / 2
            || self.kept.len() > self.config.unflushed_changes / 2
            || self.is_shared && !self.kept.is_empty()
            || is_all && self.kept_bytes > 0 && self.waiting.front().is_some_and(lacks_room);
        if self.flushes.is_empty() && !is_full {
            return;
        }
        let oldest = self.oldest();
        let ready = self
            .flushes
            .iter()
            .take_while(|flush| flush.before <= oldest)
            .count();
        if ready == 0 && !is_full {
            return;
        }
        let flushes: Vec<Flush> = self.flushes.drain(..ready).collect();
        for flush in &flushes {
            self.marks.add(flush.request, RequestWait::Disk, now);
        }
        let kept = self.kept.len();
        let covers = self.next_write.min(oldest);
        let what = What::Flush(Flushing {
            flushes,
            covers,
            kept,
        });
        self.send(Range::new(0, 0), what, Action::Flush, now);
    }

    /// Completes a flush. A flush after a lost write reports the loss, once. A flush that may not have covered what the
    /// disk lost before is repeated.
    pub(super) fn flushed(
        &mut self,
        flushing: Flushing,
        failure: Option<Failure>,
        is_doubtful: bool,
        now: Instant,
    ) {
        let Flushing { flushes, kept, .. } = flushing;
        if is_doubtful {
            for mut flush in flushes.into_iter().rev() {
                match flush.follows.take() {
                    Some(action) => self.hold(Origin::Request(flush.request), action, now),
                    None => {
                        self.marks.add(flush.request, RequestWait::Backlog, now);
                        self.flushes.push_front(flush);
                    }
                }
            }
            return;
        }
        match failure {
            None => drop(self.take_kept(kept)),
            Some(failure) => {
                if flushes.is_empty() {
                    // A later flush reports it.
                    self.lose_kept(kept, failure);
                }
                // A disk may drop what it failed to flush, and what arrived during the attempt.
                self.again(now);
            }
        }
        let lost = self.lost;
        for Flush {
            request, before, ..
        } in flushes
        {
            let missed = lost.filter(|lost| lost.oldest < before);
            if let (Some(missed), Some(lost)) = (missed, &mut self.lost) {
                lost.oldest = lost.oldest.max(before);
                if lost.oldest > missed.youngest {
                    self.lost = None;
                }
            }
            let failure = failure.or(missed.map(|missed| missed.failure));
            self.finish(request, failure.map_or(Ok(Answer::Done), Err));
        }
    }
}
