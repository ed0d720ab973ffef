//! Writes: early acknowledgement, merging, and ordering of overlapping ones.

use std::sync::{Arc, OnceLock};

use wansan_trace::Instant;
use wansan_trace::event::RequestWait;

use super::Cache;
use super::held::Origin;
use super::in_flight::What;
use super::kept::Redo;
use crate::action::{Action, Answer, Failure};
use crate::dirty::{Burst, Due, Ticket};
use crate::range::Range;

/// An outstanding write.
#[derive(Debug)]
pub(super) struct Sent {
    /// Its data, for reads until it completes.
    pub(super) data: Vec<u8>,
    /// Numbers of its oldest and newest writes.
    pub(super) first: u64,
    last: u64,
    /// When the oldest arrived.
    pub(super) since: Instant,
    tickets: Vec<Arc<Ticket>>,
    /// Whether any of it was acknowledged.
    has_early: bool,
    fua: bool,
    /// Whether it is on the medium when answered.
    is_durable: bool,
}

impl Cache {
    /// Processes a write, trim or zeroing request.
    pub(super) fn change(&mut self, request: u64, action: Action, now: Instant) {
        let writes = u64::from(matches!(action, Action::Write { .. }));
        self.counters.writes += writes;
        if self.waiting.is_empty() && self.may_take(&action) {
            self.take(request, action, now);
            return;
        }
        self.counters.held_writes += writes;
        self.marks.add(request, RequestWait::WriteBehind, now);
        self.waiting.push_back((request, action));
    }

    /// Whether a change may be accepted now: there is room, and nothing earlier must precede it. Trims and zeroing
    /// requests are held until then.
    fn may_take(&self, action: &Action) -> bool {
        let is_held = !matches!(action, Action::Write { .. });
        self.has_room(action) && (is_held || !self.is_behind_held(&action.range()))
    }

    fn is_early(&self, fua: bool) -> bool {
        self.config.writes_behind && !fua && !self.is_shared
    }

    /// Whether there is room for a change. Writes that are not kept after their answer are bounded by the submitter. A
    /// write longer than all the memory is accepted when nothing else waits.
    pub(super) fn has_room(&self, action: &Action) -> bool {
        let Action::Write { data, fua, .. } = action else {
            return self.has_room_to_hold(action);
        };
        let behind = self.behind_bytes();
        let is_kept = self.is_early(*fua) || self.config.is_volatile && !fua && !self.is_shared;
        !is_kept || behind == 0 || behind + data.len() as u64 <= self.config.write_bytes
    }

    fn take(&mut self, request: u64, action: Action, now: Instant) {
        let Action::Write {
            offset_bytes,
            data,
            fua,
        } = action
        else {
            return self.hold(Origin::Request(request), action, now);
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
            last: self.next_write,
            since: now,
            fua,
            has_early: tickets.is_empty(),
            tickets,
        };
        self.next_write += 1;
        self.forget_clean(&burst.range());
        self.dirty.write(burst);
    }

    /// Issues the writes that are due.
    pub(super) fn advance_writes(&mut self, now: Instant) {
        while let Some((_, action)) = self.waiting.front()
            && self.may_take(action)
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

    /// The bursts that have waited long enough to merge, or that a request waits for.
    pub(super) fn due(&self, now: Instant) -> Due {
        Due {
            all: !self.config.writes_behind || self.is_shared || !self.waiting.is_empty(),
            before: self.urgent,
            until: now - self.config.merge_time,
        }
    }

    /// The oldest burst that may go to the disk.
    fn next_burst(&mut self, now: Instant) -> Option<Burst> {
        let (due, in_flight) = (self.due(now), &self.in_flight);
        self.dirty
            .take_due(due, |burst| !in_flight.changes(&burst.range()))
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
            data: burst.data,
            first: burst.first,
            last: burst.last,
            since: burst.since,
            tickets: burst.tickets,
            has_early: burst.has_early,
            fua: burst.fua,
            is_durable: false,
        };
        self.send_write(sent, range, now);
    }

    pub(super) fn send_write(&mut self, mut sent: Sent, range: Range, now: Instant) {
        // Data that others may overwrite are never rewritten, so they must not be lost.
        sent.is_durable = sent.fua || self.is_shared && self.config.is_volatile;
        let action = Action::Write {
            offset_bytes: range.start,
            data: sent.data.clone(),
            fua: sent.is_durable,
        };
        self.send(range, What::Write(sent), action, now);
    }

    pub(super) fn written(&mut self, sent: Sent, range: Range, failure: Option<Failure>) {
        self.sent_writes -= 1;
        self.sent_bytes -= range.bytes();
        match failure {
            Some(failure) if sent.has_early => self.lose((sent.first, sent.last), failure),
            None if self.config.is_volatile && !sent.is_durable => {
                let (data, since) = (sent.data, sent.since);
                let redo = Redo::Write { data, since };
                self.keep(range, redo, (sent.first, sent.last));
            }
            None => self.replace_kept(&range),
            Some(_) => {}
        }
        self.answer(sent.tickets, failure);
    }

    /// Answers the requests whose last part this was.
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
}
