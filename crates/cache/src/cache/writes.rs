//! Writes: acknowledged early, merged, kept in order where they overlap; and what waits for them.

use std::sync::{Arc, OnceLock};

use wansan_trace::Instant;

use super::{Cache, What};
use crate::action::{Action, Answer, Failure};
use crate::dirty::{Burst, Due, Ticket};
use crate::range::Range;

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
}

/// A flush that waits for writes.
#[derive(Debug)]
pub(super) struct Flush {
    request: u64,
    /// All writes up to, not including, that number have to be at the disk before.
    before: u64,
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
        self.waiting.push_back((request, action));
    }

    fn is_early(&self, fua: bool) -> bool {
        self.config.write_behind_bytes > 0 && !fua
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

    pub(super) fn flush(&mut self, request: u64) {
        self.counters.flushes += 1;
        let before = self.next_write;
        self.urgent = before;
        self.flushes.push_back(Flush { request, before });
    }

    pub(super) fn hold(&mut self, request: u64, action: Action) {
        if self.has_writes(&action.range()) {
            self.urgent = self.next_write;
        }
        self.held.push_back(Held { request, action });
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
            all: self.config.write_behind_bytes == 0 || !self.waiting.is_empty(),
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
        let sent = Sent {
            data: burst.data.clone(),
            first: burst.first,
            tickets: burst.tickets,
            has_early: burst.has_early,
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
        if let Some(failure) = failure
            && sent.has_early
        {
            self.counters.lost_writes += 1;
            self.lost.get_or_insert(failure);
        }
        self.answer(sent.tickets, failure);
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

    /// One flush of the disk answers all whose writes are there.
    fn send_flush(&mut self, now: Instant) {
        if self.flushes.is_empty() {
            return;
        }
        let oldest = self.oldest();
        let ready = self
            .flushes
            .iter()
            .take_while(|flush| flush.before <= oldest)
            .count();
        let requests: Vec<u64> = self
            .flushes
            .drain(..ready)
            .map(|flush| flush.request)
            .collect();
        if !requests.is_empty() {
            self.send(Range::new(0, 0), What::Flush(requests), Action::Flush, now);
        }
    }

    /// A flush that follows the loss of a write says so, once.
    pub(super) fn flushed(&mut self, requests: &[u64], failure: Option<Failure>) {
        let failure = failure.or(self.lost.take());
        for request in requests {
            self.finish(*request, failure.map_or(Ok(Answer::Done), Err));
        }
    }

    fn release_held(&mut self, now: Instant) {
        for Held { request, action } in std::mem::take(&mut self.held) {
            let range = action.range();
            if self.has_writes(&range) {
                self.held.push_back(Held { request, action });
                continue;
            }
            let then_flush = matches!(
                action,
                Action::Trim { fua: true, .. } | Action::Zero { fua: true, .. }
            );
            if !matches!(action, Action::Status { .. }) {
                self.forget_clean(&range);
            }
            let what = What::Through {
                request,
                then_flush,
            };
            self.send(range, what, action, now);
        }
    }
}
