//! Writes: acknowledged early, merged, kept in order where they overlap; and what waits for them.

use std::sync::{Arc, OnceLock};

use wansan_trace::Instant;
use wansan_trace::event::RequestWait;

use super::{Cache, What};
use crate::action::{Action, Answer, Failure};
use crate::dirty::{Burst, Due, Ticket};
use crate::range::{Range, fill};

/// A write that the disk was given.
#[derive(Debug)]
pub(super) struct Sent {
    /// Its data, for reads that come before it is done.
    pub(super) data: Vec<u8>,
    /// The number of its oldest write.
    first: u64,
    tickets: Vec<Arc<Ticket>>,
    /// Whether some of it was acknowledged.
    has_early: bool,
    /// Whether it is on the medium when it is answered.
    is_durable: bool,
}

/// A flush that waits for writes, or for nothing but what it follows.
#[derive(Debug)]
pub(super) struct Flush {
    pub(super) request: u64,
    /// All writes up to, not including, that number have to be at the disk before.
    pub(super) before: u64,
    /// What the disk has done for the same request. It is not kept, and done again if the disk may have lost it.
    pub(super) follows: Option<Action>,
}

/// A flush of the disk.
#[derive(Debug)]
pub(super) struct Flushing {
    flushes: Vec<Flush>,
    /// So many of what is kept were answered before it.
    kept: usize,
    /// The losses before it.
    losses: u64,
}

/// A write that the disk has answered and not flushed.
#[derive(Debug)]
pub(super) struct Kept {
    range: Range,
    data: Vec<u8>,
    first: u64,
    /// What is on the medium since replaces these parts.
    replaced: Vec<Range>,
}

/// Acknowledged writes that failed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lost {
    /// The numbers of the oldest and the youngest of them.
    oldest: u64,
    youngest: u64,
    failure: Failure,
}

/// A request that is held until nothing overlaps it.
#[derive(Debug)]
pub(super) struct Held {
    request: u64,
    action: Action,
}

impl Cache {
    pub(super) fn write(&mut self, request: u64, action: Action, now: Instant) {
        self.counters.writes += 1;
        if self.waiting.is_empty() && self.has_room(&action) {
            self.take(request, action, now);
            return;
        }
        self.counters.held_writes += 1;
        self.marks.add(request, RequestWait::WriteBehind, now);
        self.waiting.push_back((request, action));
    }

    fn is_early(&self, fua: bool) -> bool {
        self.config.write_behind_bytes > 0 && !fua && !self.is_shared
    }

    /// Writes that are acknowledged late are bounded by who asks for them. One that is longer than all memory is
    /// taken when nothing else waits.
    fn has_room(&self, action: &Action) -> bool {
        let Action::Write { data, fua, .. } = action else {
            return true;
        };
        let behind = self.behind_bytes();
        !self.is_early(*fua)
            || behind == 0
            || behind + data.len() as u64 <= self.config.write_behind_bytes
    }

    fn take(&mut self, request: u64, action: Action, now: Instant) {
        let Action::Write {
            offset_bytes,
            data,
            fua,
        } = action
        else {
            return;
        };
        let mut tickets = Vec::new();
        if self.is_early(fua) {
            self.counters.early_acks += 1;
            self.finish(request, Ok(Answer::Done));
        } else {
            let failure = OnceLock::new();
            self.marks.add(request, RequestWait::Merge, now);
            tickets.push(Arc::new(Ticket { request, failure }));
        }
        if data.is_empty() {
            self.answer(tickets, None);
            return;
        }
        let burst = Burst {
            offset_bytes,
            data,
            first: self.next_write,
            since: now,
            fua,
            has_early: tickets.is_empty(),
            tickets,
        };
        self.next_write += 1;
        self.forget_clean(&burst.range());
        self.dirty.write(burst);
    }

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

    pub(super) fn hold(&mut self, request: u64, action: Action, now: Instant) {
        self.marks.add(request, RequestWait::Backlog, now);
        if self.has_writes(&action.range()) {
            self.urgent = self.next_write;
        }
        self.held.push_back(Held { request, action });
    }

    /// Whether what it zeroes must be on the medium before: zeros are not kept, and what they replace must not be lost
    /// before they are there.
    fn awaits_flush(&self, held: &Held) -> bool {
        let range = held.action.range();
        matches!(held.action, Action::Zero { .. })
            && self.kept.iter().any(|kept| kept.range.overlaps(&range))
    }

    fn has_writes(&self, range: &Range) -> bool {
        self.dirty.overlapping(range).next().is_some()
            || self
                .in_flight
                .values()
                .any(|in_flight| in_flight.changes(range))
    }

    /// Gives the disk what is due.
    pub(super) fn advance_writes(&mut self, now: Instant) {
        while let Some((_, action)) = self.waiting.front()
            && self.has_room(action)
            && let Some((request, action)) = self.waiting.pop_front()
        {
            self.take(request, action, now);
        }
        self.release_held(now);
        while self.sent_writes < self.writes_in_flight()
            && let Some(burst) = self.next_burst(now)
        {
            self.send_burst(burst, now);
        }
        self.send_flush(now);
    }

    pub(super) fn writes_in_flight(&self) -> usize {
        self.config.writes_in_flight.max(1)
    }

    /// The bursts that have waited for others to merge with for long enough, or that somebody waits for.
    pub(super) fn due(&self, now: Instant) -> Due {
        Due {
            all: self.config.write_behind_bytes == 0 || self.is_shared || !self.waiting.is_empty(),
            before: self.urgent,
            until: now - self.config.merge_time,
        }
    }

    /// The oldest burst that may go to the disk.
    fn next_burst(&mut self, now: Instant) -> Option<Burst> {
        let (due, in_flight) = (self.due(now), &self.in_flight);
        self.dirty.take_due(due, |burst| {
            let range = burst.range();
            !in_flight
                .values()
                .any(|in_flight| in_flight.changes(&range))
        })
    }

    fn send_burst(&mut self, burst: Burst, now: Instant) {
        let range = burst.range();
        self.counters.bursts += 1;
        self.sent_writes += 1;
        self.sent_bytes += range.bytes();
        for ticket in &burst.tickets {
            self.marks.add(ticket.request, RequestWait::Disk, now);
        }
        let sent = Sent {
            data: burst.data.clone(),
            first: burst.first,
            tickets: burst.tickets,
            has_early: burst.has_early,
            is_durable: burst.fua,
        };
        let action = Action::Write {
            offset_bytes: burst.offset_bytes,
            data: burst.data,
            fua: burst.fua,
        };
        self.send(range, What::Write(sent), action, now);
    }

    pub(super) fn written(&mut self, sent: Sent, range: Range, failure: Option<Failure>) {
        self.sent_writes -= 1;
        self.sent_bytes -= range.bytes();
        match failure {
            Some(failure) if sent.has_early => {
                self.counters.lost_writes += 1;
                let lost = self.lost.get_or_insert(Lost {
                    oldest: sent.first,
                    youngest: sent.first,
                    failure,
                });
                lost.oldest = lost.oldest.min(sent.first);
                lost.youngest = lost.youngest.max(sent.first);
            }
            None if self.config.is_volatile && !sent.is_durable => {
                self.kept_bytes += range.bytes();
                self.kept.push(Kept {
                    range,
                    data: sent.data,
                    first: sent.first,
                    replaced: Vec::new(),
                });
            }
            None => self.replace_kept(&range),
            Some(_) => {}
        }
        self.answer(sent.tickets, failure);
    }

    /// The disk may have lost what it had answered and not flushed: all of it is written again, but for what younger
    /// writes replace.
    pub fn again(&mut self, now: Instant) {
        self.losses += 1;
        self.kept_bytes = 0;
        let kept = std::mem::take(&mut self.kept);
        for in_flight in self.in_flight.values_mut() {
            if let What::Fetch(fetch) = &mut in_flight.what {
                fetch.is_void |= kept
                    .iter()
                    .any(|kept| kept.range.overlaps(&in_flight.range));
            }
        }
        for kept in kept.into_iter().rev() {
            let Kept {
                range,
                data,
                first,
                replaced,
            } = kept;
            let mut gaps = vec![range];
            replaced
                .iter()
                .for_each(|known| fill(&mut gaps, known, |_| {}));
            // What is younger is flushed in its place.
            self.dirty.stand_for(&range, first);
            let mut younger: Vec<Range> =
                self.dirty.overlapping(&range).map(Burst::range).collect();
            for in_flight in self.in_flight.values_mut() {
                if let What::Write(sent) = &mut in_flight.what
                    && in_flight.range.overlaps(&range)
                {
                    sent.first = sent.first.min(first);
                    younger.push(in_flight.range);
                }
            }
            younger
                .iter()
                .for_each(|known| fill(&mut gaps, known, |_| {}));
            for gap in gaps {
                self.dirty.write(Burst {
                    offset_bytes: gap.start,
                    data: data[range.places(&gap)].to_vec(),
                    first,
                    since: now,
                    fua: false,
                    has_early: true,
                    tickets: Vec::new(),
                });
            }
        }
        // What was flushed meanwhile was flushed without it.
        self.urgent = self.next_write;
    }

    /// Something younger is on the medium in a range: what is kept of it must not be written again.
    fn replace_kept(&mut self, range: &Range) {
        for kept in &mut self.kept {
            if kept.range.overlaps(range) {
                kept.replaced.push(*range);
            }
        }
    }

    /// Answers the requests of which this was the last part.
    fn answer(&mut self, tickets: Vec<Arc<Ticket>>, failure: Option<Failure>) {
        for ticket in tickets {
            if let Some(failure) = failure {
                // Another part may have failed before.
                let _ = ticket.failure.set(failure);
            }
            if let Some(Ticket { request, failure }) = Arc::into_inner(ticket) {
                let outcome = failure.into_inner().map_or(Ok(Answer::Done), Err);
                self.finish(request, outcome);
            }
        }
    }

    /// The number of the oldest write that is not at the disk.
    fn oldest(&self) -> u64 {
        let sent = self
            .in_flight
            .values()
            .filter_map(|in_flight| match &in_flight.what {
                What::Write(sent) => Some(sent.first),
                _ => None,
            });
        let waiting = self.dirty.oldest().map(|(first, _)| first);
        sent.chain(waiting).min().unwrap_or(u64::MAX)
    }

    /// One flush of the disk answers all whose writes are there. Without any, it makes room where much is kept.
    fn send_flush(&mut self, now: Instant) {
        let is_all = self.dirty.bytes() + self.sent_bytes == 0;
        let is_full = self.kept_bytes > self.config.write_behind_bytes / 2
            || !self.waiting.is_empty() && self.kept_bytes > 0 && is_all
            || self.held.iter().any(|held| self.awaits_flush(held));
        if self.flushes.is_empty() && !is_full {
            return;
        }
        let oldest = self.oldest();
        let ready = self
            .flushes
            .iter()
            .take_while(|flush| flush.before <= oldest)
            .count();
        let flushes: Vec<Flush> = self.flushes.drain(..ready).collect();
        let is_under_way = self
            .in_flight
            .values()
            .any(|in_flight| matches!(in_flight.what, What::Flush(_)));
        if !flushes.is_empty() || is_full && !is_under_way {
            self.send_flush_of(flushes, now);
        }
    }

    pub(super) fn send_flush_of(&mut self, flushes: Vec<Flush>, now: Instant) {
        for flush in &flushes {
            self.marks.add(flush.request, RequestWait::Disk, now);
        }
        let flushing = Flushing {
            flushes,
            kept: self.kept.len(),
            losses: self.losses,
        };
        self.send(Range::new(0, 0), What::Flush(flushing), Action::Flush, now);
    }

    /// A flush that follows the loss of a write says so, once. One that the disk may have carried out without what it
    /// lost before is carried out again.
    pub(super) fn flushed(&mut self, flushing: Flushing, failure: Option<Failure>, now: Instant) {
        let Flushing {
            flushes,
            kept,
            losses,
        } = flushing;
        if losses != self.losses && failure.is_none() {
            for mut flush in flushes.into_iter().rev() {
                match flush.follows.take() {
                    Some(action) => self.hold(flush.request, action, now),
                    None => {
                        self.marks.add(flush.request, RequestWait::Backlog, now);
                        self.flushes.push_front(flush);
                    }
                }
            }
            return;
        }
        if failure.is_none() {
            let flushed = self.kept.drain(..kept.min(self.kept.len()));
            self.kept_bytes -= flushed.map(|kept| kept.range.bytes()).sum::<u64>();
            // Others that are under way were sent when more was kept.
            self.forget_flushed(kept);
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

    fn forget_flushed(&mut self, count: usize) {
        for in_flight in self.in_flight.values_mut() {
            if let What::Flush(flushing) = &mut in_flight.what {
                flushing.kept = flushing.kept.saturating_sub(count);
            }
        }
    }

    fn release_held(&mut self, now: Instant) {
        for Held { request, action } in std::mem::take(&mut self.held) {
            let range = action.range();
            let held = Held { request, action };
            if self.has_writes(&range) || self.awaits_flush(&held) {
                self.held.push_back(held);
                continue;
            }
            let Held { request, action } = held;
            let is_flushed = match action {
                // Zeros are not kept until a flush.
                Action::Zero { fua, .. } => fua || self.config.is_volatile,
                Action::Trim { fua, .. } => fua,
                _ => false,
            };
            if !matches!(action, Action::Status { .. }) {
                self.forget_clean(&range);
            }
            self.marks.add(request, RequestWait::Disk, now);
            let again = is_flushed.then(|| action.clone());
            self.send(range, What::Through { request, again }, action, now);
        }
    }
}
