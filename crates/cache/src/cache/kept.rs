//! What the disk has answered and not flushed, and the flushes that put it on the medium.

use wansan_trace::Instant;
use wansan_trace::event::RequestWait;

use super::Cache;
use super::held::{Held, Origin};
use super::in_flight::What;
use crate::action::{Action, Answer, Failure};
use crate::dirty::Burst;
use crate::range::{Range, fill};

/// A flush that waits for writes, or for nothing but what it follows.
#[derive(Debug)]
pub(super) struct Flush {
    pub(super) request: u64,
    /// All writes up to, not including, that number have to be at the disk before.
    pub(super) before: u64,
    /// What the disk has done for the same request: done again, with a flush, if the disk may have lost it before.
    pub(super) follows: Option<Action>,
}

/// A flush of the disk.
#[derive(Debug)]
pub(super) struct Flushing {
    /// Those that it answers; one without any makes room.
    pub(super) flushes: Vec<Flush>,
    /// All changes up to, not including, that number were at the disk before it.
    covers: u64,
    /// So many of what is kept were answered before it.
    kept: usize,
}

/// How a change is done again.
#[derive(Debug)]
pub(super) enum Redo {
    Write {
        data: Vec<u8>,
        since: Instant,
    },
    /// A trim or zeros.
    Through(Action),
}

/// A change that the disk has answered and not flushed.
#[derive(Debug)]
pub(super) struct Kept {
    range: Range,
    redo: Redo,
    /// The numbers of the oldest and the youngest of its writes.
    first: u64,
    last: u64,
    /// The parts that nothing on the medium has replaced since.
    left: Vec<Range>,
}

impl Kept {
    fn overlaps(&self, range: &Range) -> bool {
        self.left.iter().any(|left| left.overlaps(range))
    }

    /// When the oldest of its writes came.
    pub(super) fn since(&self) -> Option<Instant> {
        match self.redo {
            Redo::Write { since, .. } => Some(since),
            Redo::Through(_) => None,
        }
    }

    /// The memory that it takes.
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
    /// The numbers of the oldest and the youngest of them.
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

    /// The disk has answered a change, and may lose it until it is flushed.
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

    /// Something younger is on the medium in a range: what is kept of it must not be written again.
    pub(super) fn replace_kept(&mut self, range: &Range) {
        for kept in &mut self.kept {
            fill(&mut kept.left, range, |_| {});
        }
    }

    /// Writes that were acknowledged are not at the disk: a flush says so.
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

    /// The oldest `count` of what is kept may never get to the medium.
    fn lose_kept(&mut self, count: usize, failure: Failure) {
        for kept in self.take_kept(count) {
            self.lose((kept.first, kept.last), failure);
        }
    }

    fn take_kept(&mut self, count: usize) -> Vec<Kept> {
        let taken: Vec<Kept> = self.kept.drain(..count.min(self.kept.len())).collect();
        self.kept_bytes -= taken.iter().map(Kept::bytes).sum::<u64>();
        // A flush that is under way was sent when more was kept.
        if let Some(flushing) = self.in_flight.flushing_mut() {
            flushing.kept = flushing.kept.saturating_sub(count);
        }
        taken
    }

    /// The disk may have lost what it had answered and not flushed: all of it is done again, but for what younger
    /// changes replace, and so is what is under way. Where others use the disk they may have written there since: then a
    /// flush says that it is lost.
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
        // What was flushed meanwhile was flushed without it.
        self.urgent = self.next_write;
    }

    /// Does a change again, after those that are younger.
    fn redo(&mut self, kept: Kept, now: Instant) {
        let Kept {
            range,
            redo,
            first,
            last,
            left: mut gaps,
        } = kept;
        // What is younger is flushed in its place.
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

    /// The number of the oldest change that is not at the disk.
    fn oldest(&self) -> u64 {
        let sent = self.in_flight.writes.values();
        let sent = sent.map(|(_, sent)| sent.first);
        let waiting = self.dirty.oldest().map(|(first, _)| first);
        let again = self.on_their_way_again().map(|(_, first)| first);
        sent.chain(waiting).chain(again).min().unwrap_or(u64::MAX)
    }

    /// One flush of the disk answers all whose writes are there. Without any, it makes room where much is kept. There is one
    /// at a time: of two, a disk may answer one well although the other has failed and dropped what both covered. Flushes that
    /// come while it is under way are answered by it as well if their writes were there when it was sent.
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

    /// A flush that follows the loss of a write says so, once. One that the disk may have carried out without what it
    /// lost before is carried out again.
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
                    // A later flush says so.
                    self.lose_kept(kept, failure);
                }
                // A disk may drop what it could not flush, and what came while it tried.
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
