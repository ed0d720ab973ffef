//! The outstanding operations of the disk.

use std::collections::BTreeMap;

use wansan_trace::Instant;

use super::held::Origin;
use super::kept::Flushing;
use super::reads::Fetch;
use super::writes::Sent;
use crate::action::Action;
use crate::range::Range;

/// Outstanding operations by kind and tag: a full path has hundreds of writes or fetches outstanding, which a request
/// concerned with another kind should not have to scan.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    pub(super) fetches: BTreeMap<u64, (About, Fetch)>,
    pub(super) writes: BTreeMap<u64, (About, Sent)>,
    pub(super) through: BTreeMap<u64, (About, Through)>,
    /// At most one at a time.
    flush: Option<(u64, About, Flushing)>,
}

/// Common state of an operation of any kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct About {
    pub(super) range: Range,
    pub(super) since: Instant,
    /// Number of losses before it was issued.
    pub(super) losses: u64,
}

/// An operation passed to the disk unchanged, and its origin.
#[derive(Debug)]
pub(super) struct Through {
    pub(super) origin: Origin,
    pub(super) action: Action,
}

/// A completed operation, by kind.
#[derive(Debug)]
pub(super) enum What {
    Fetch(Fetch),
    Write(Sent),
    Through(Through),
    Flush(Flushing),
}

impl InFlight {
    pub(super) fn insert(&mut self, tag: u64, about: About, what: What) {
        match what {
            What::Fetch(fetch) => drop(self.fetches.insert(tag, (about, fetch))),
            What::Write(sent) => drop(self.writes.insert(tag, (about, sent))),
            What::Through(through) => drop(self.through.insert(tag, (about, through))),
            What::Flush(flushing) => self.flush = Some((tag, about, flushing)),
        }
    }

    pub(super) fn remove(&mut self, tag: u64) -> Option<(About, What)> {
        if let Some((about, sent)) = self.writes.remove(&tag) {
            return Some((about, What::Write(sent)));
        }
        if let Some((about, fetch)) = self.fetches.remove(&tag) {
            return Some((about, What::Fetch(fetch)));
        }
        if let Some((about, through)) = self.through.remove(&tag) {
            return Some((about, What::Through(through)));
        }
        let (_, about, flushing) = self.flush.take_if(|(flush, ..)| *flush == tag)?;
        Some((about, What::Flush(flushing)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.fetches.is_empty()
            && self.writes.is_empty()
            && self.through.is_empty()
            && self.flush.is_none()
    }

    /// The outstanding flush.
    pub(super) fn flushing(&self) -> Option<&Flushing> {
        self.flush.as_ref().map(|(.., flushing)| flushing)
    }

    pub(super) fn flushing_mut(&mut self) -> Option<&mut Flushing> {
        self.flush.as_mut().map(|(.., flushing)| flushing)
    }

    /// Whether an outstanding operation changes data of a range.
    pub(super) fn changes(&self, range: &Range) -> bool {
        self.changes_before(range, u64::MAX)
    }

    /// The same, ignoring writes numbered from `before` on.
    pub(super) fn changes_before(&self, range: &Range, before: u64) -> bool {
        let overlaps = |about: &About| about.range.overlaps(range);
        let writes = |(about, sent): &(About, Sent)| sent.first < before && overlaps(about);
        let through = |(about, it): &(About, Through)| it.action.changes() && overlaps(about);
        self.writes.values().any(writes) || self.through.values().any(through)
    }
}
