//! Operations passed to the disk unchanged, including trims and zeroing, ordered with the writes that they overlap.

use wansan_trace::Instant;
use wansan_trace::event::RequestWait;

use super::Cache;
use super::in_flight::{Through, What};
use super::kept::{Flush, Redo};
use crate::action::{Action, Outcome};
use crate::range::Range;

/// Origin of such an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A program's request, to be answered.
    Request(u64),
    /// A repeat of an answered operation that the disk may have lost. It covers changes numbered from the first to the
    /// second.
    Again(u64, u64),
}

/// An operation held until nothing older overlaps it.
#[derive(Debug)]
pub(super) struct Held {
    origin: Origin,
    action: Action,
    /// Number of the first write after it.
    before: u64,
}

impl Held {
    /// Whether the later of two must wait for the earlier.
    fn is_ordered_with(&self, other: &Held) -> bool {
        let overlaps = self.action.range().overlaps(&other.action.range());
        overlaps && (self.action.changes() || other.action.changes())
    }

    /// Range and oldest number of an operation answered before.
    pub(super) fn again(&mut self) -> Option<(Range, &mut u64)> {
        match &mut self.origin {
            Origin::Again(first, _) => Some((self.action.range(), first)),
            Origin::Request(_) => None,
        }
    }
}

impl Cache {
    pub(super) fn hold(&mut self, origin: Origin, action: Action, now: Instant) {
        let range = action.range();
        if self.has_writes_before(&range, self.next_write) {
            self.urgent = self.next_write;
        }
        let held = Held {
            origin,
            action,
            before: self.next_write,
        };
        match origin {
            Origin::Request(request) => {
                self.marks.add(request, RequestWait::Backlog, now);
                self.held.push_back(held);
            }
            // It was answered before any waiting request arrived.
            Origin::Again(..) => {
                self.forget_clean(&range);
                self.held.push_front(held);
            }
        }
    }

    /// Whether there is room for a trim or zeroing request: those answered may have to be repeated, in addition to
    /// those outstanding.
    pub(super) fn has_room_to_hold(&self, action: &Action) -> bool {
        let is_kept = self.config.is_volatile && !self.is_flushed(action);
        let held = self.held.iter().map(|held| &held.action);
        let sent = self.in_flight.through.values();
        let sent = sent.map(|(_, through)| &through.action);
        let changes = held.chain(sent).filter(|action| action.changes()).count();
        !is_kept || self.kept.len() + changes < self.config.unflushed_changes.max(1)
    }

    /// Whether a write must wait for an earlier operation: nothing newer may overlap an unanswered trim or zeroing
    /// request, so that it can be repeated.
    pub(super) fn is_behind_held(&self, range: &Range) -> bool {
        let overlaps = |action: &Action| action.changes() && action.range().overlaps(range);
        let follows = |flush: &Flush| flush.follows.as_ref().is_some_and(overlaps);
        let flushing = self.in_flight.flushing();
        let mut through = self.in_flight.through.values();
        self.held.iter().any(|held| overlaps(&held.action))
            || self.flushes.iter().any(follows)
            || flushing.is_some_and(|flushing| flushing.flushes.iter().any(follows))
            || through.any(|(_, through)| overlaps(&through.action))
    }

    /// Trims and zeroing requests answered and now being repeated, as the disk may have lost them: ranges and oldest
    /// numbers.
    pub(super) fn on_their_way_again(&self) -> impl Iterator<Item = (Range, u64)> {
        let held = self.held.iter().map(|held| (held.origin, &held.action));
        let sent = self.in_flight.through.values();
        let sent = sent.map(|(_, through)| (through.origin, &through.action));
        held.chain(sent)
            .filter_map(|(origin, action)| match origin {
                Origin::Again(first, _) => Some((action.range(), first)),
                Origin::Request(_) => None,
            })
    }

    fn has_writes_before(&self, range: &Range, before: u64) -> bool {
        let mut waiting = self.dirty.overlapping(range);
        waiting.any(|burst| burst.first < before) || self.in_flight.changes_before(range, before)
    }

    /// Issues held operations that nothing older overlaps.
    pub(super) fn release_held(&mut self, now: Instant) {
        for held in std::mem::take(&mut self.held) {
            let range = held.action.range();
            if self.has_writes_before(&range, held.before)
                || self.held.iter().any(|other| held.is_ordered_with(other))
            {
                self.held.push_back(held);
                continue;
            }
            let Held { origin, action, .. } = held;
            if action.changes() {
                self.forget_clean(&range);
            }
            if let Origin::Request(request) = origin {
                self.marks.add(request, RequestWait::Disk, now);
            }
            let sent = action.clone();
            let through = Through { origin, action };
            self.send(range, What::Through(through), sent, now);
        }
    }

    /// Completes an operation passed to the disk unchanged.
    pub(super) fn went_through(&mut self, origin: Origin, action: Action, outcome: Outcome) {
        let changes = outcome.is_ok() && action.changes();
        match (origin, outcome) {
            (Origin::Request(request), _) if changes && self.is_flushed(&action) => {
                // Earlier failures do not concern this request.
                self.flushes.push_front(Flush {
                    request,
                    before: 0,
                    follows: Some(action),
                });
            }
            (Origin::Request(request), outcome) => {
                if changes && self.config.is_volatile {
                    let number = self.next_write;
                    self.next_write += 1;
                    let range = action.range();
                    self.keep(range, Redo::Through(action), (number, number));
                }
                self.finish(request, outcome);
            }
            (Origin::Again(first, last), Ok(_)) => {
                let range = action.range();
                self.keep(range, Redo::Through(action), (first, last));
            }
            (Origin::Again(first, last), Err(failure)) => self.lose((first, last), failure),
        }
    }

    /// Whether a trim or zeroing request is on the medium when answered. Where others use the disk, repeating it after
    /// a loss could undo their writes.
    fn is_flushed(&self, action: &Action) -> bool {
        let fua = matches!(
            action,
            Action::Trim { fua: true, .. } | Action::Zero { fua: true, .. }
        );
        fua || self.is_shared && self.config.is_volatile
    }
}
