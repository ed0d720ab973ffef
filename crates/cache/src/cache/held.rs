//! Requests that go to the disk as they are: in order with the writes that they overlap.

use wansan_trace::Instant;
use wansan_trace::event::RequestWait;

use super::{Cache, InFlight, What};
use crate::action::Action;
use crate::range::Range;

/// A request that is held until nothing older overlaps it.
#[derive(Debug)]
pub(super) struct Held {
    request: u64,
    action: Action,
    /// The number of the first write that came after it.
    before: u64,
}

impl Held {
    fn changes(&self) -> bool {
        !matches!(self.action, Action::Status { .. })
    }

    /// Whether the later of two must wait for the earlier.
    fn is_ordered_with(&self, other: &Held) -> bool {
        let overlaps = self.action.range().overlaps(&other.action.range());
        overlaps && (self.changes() || other.changes())
    }
}

impl Cache {
    pub(super) fn hold(&mut self, request: u64, action: Action, now: Instant) {
        self.marks.add(request, RequestWait::Backlog, now);
        if self.has_writes_before(&action.range(), self.next_write) {
            self.urgent = self.next_write;
        }
        self.held.push_back(Held {
            request,
            action,
            before: self.next_write,
        });
    }

    /// Whether a write of a range has to wait for a request that came before it.
    pub(super) fn is_behind_held(&self, range: &Range) -> bool {
        let overlaps = |held: &Held| held.changes() && held.action.range().overlaps(range);
        self.held.iter().any(overlaps) || self.has_unflushed_zeros(range)
    }

    /// Whether a request must wait until what it replaces is on the medium: zeros are not kept, and what they replace
    /// must not be lost before they are there.
    pub(super) fn held_awaits_flush(&self) -> bool {
        self.held.iter().any(|held| self.awaits_flush(held))
    }

    fn awaits_flush(&self, held: &Held) -> bool {
        let range = held.action.range();
        matches!(held.action, Action::Zero { .. })
            && self.kept.iter().any(|kept| kept.overlaps(&range))
    }

    fn has_writes_before(&self, range: &Range, before: u64) -> bool {
        let changes = |in_flight: &InFlight| in_flight.changes_before(range, before);
        let mut waiting = self.dirty.overlapping(range);
        waiting.any(|burst| burst.first < before) || self.in_flight.values().any(changes)
    }

    /// Gives the disk those that nothing older overlaps.
    pub(super) fn release_held(&mut self, now: Instant) {
        for held in std::mem::take(&mut self.held) {
            let range = held.action.range();
            if self.has_writes_before(&range, held.before)
                || self.awaits_flush(&held)
                || self.held.iter().any(|other| held.is_ordered_with(other))
            {
                self.held.push_back(held);
                continue;
            }
            if held.changes() {
                self.forget_clean(&range);
            }
            let Held {
                request, action, ..
            } = held;
            let is_flushed = match action {
                // Zeros are not kept until a flush.
                Action::Zero { fua, .. } => fua || self.config.is_volatile,
                Action::Trim { fua, .. } => fua,
                _ => false,
            };
            self.marks.add(request, RequestWait::Disk, now);
            let again = is_flushed.then(|| action.clone());
            self.send(range, What::Through { request, again }, action, now);
        }
    }
}
