//! Write data not yet sent to the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use wansan_trace::Instant;

use crate::action::Failure;
use crate::range::Range;

/// A request that is answered when all bursts with a part of it are done: the last reference answers it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) request: u64,
    /// The first failure among its bursts.
    pub(crate) failure: OnceLock<Failure>,
}

/// A write to the disk, merged from one or more adjacent writes of the program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Burst {
    pub(crate) offset_bytes: u64,
    pub(crate) data: Vec<u8>,
    /// Numbers of its oldest and newest writes.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// When the oldest arrived.
    pub(crate) since: Instant,
    /// Whether any of them has FUA.
    pub(crate) fua: bool,
    /// Whether any of them was acknowledged.
    pub(crate) has_early: bool,
    /// The requests that wait for it.
    pub(crate) tickets: Vec<Arc<Ticket>>,
}

impl Burst {
    pub(crate) fn range(&self) -> Range {
        Range::new(self.offset_bytes, self.data.len() as u64)
    }

    /// Appends an adjacent burst.
    fn append(&mut self, mut next: Burst) {
        let tickets = std::mem::take(&mut next.tickets);
        self.adopt(&next, tickets);
        self.data.extend(next.data);
    }

    /// Also answers for another burst.
    fn adopt(&mut self, other: &Burst, tickets: Vec<Arc<Ticket>>) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.since = self.since.min(other.since);
        self.fua |= other.fua;
        self.has_early |= other.has_early;
        self.tickets.extend(tickets);
    }
}

/// Which bursts are due: a burst is due only if every older one is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Due {
    pub(crate) all: bool,
    /// Bursts whose oldest write has a lower number.
    pub(crate) before: u64,
    /// Bursts whose oldest write arrived by then.
    pub(crate) until: Instant,
}

impl Due {
    fn includes(&self, burst: &Burst) -> bool {
        self.all || burst.first < self.before || burst.since <= self.until
    }
}

/// The waiting bursts.
#[derive(Debug)]
pub(crate) struct Dirty {
    /// Longest merged burst, in bytes.
    burst_bytes: u64,
    /// By first byte, without overlaps.
    bursts: BTreeMap<u64, Burst>,
    /// Numbers of their oldest writes with their offsets, in order of age.
    by_age: BTreeSet<(u64, u64)>,
    /// The bursts that gain nothing by waiting.
    whole: BTreeSet<(u64, u64)>,
    bytes: u64,
}

impl Dirty {
    pub(crate) fn new(burst_bytes: u64) -> Dirty {
        Dirty {
            burst_bytes,
            bursts: BTreeMap::new(),
            by_age: BTreeSet::new(),
            whole: BTreeSet::new(),
            bytes: 0,
        }
    }

    /// Total data, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a write. It replaces older waiting data where they overlap, and merges with an adjacent burst if the result
    /// is not too long.
    pub(crate) fn write(&mut self, new: Burst) {
        let range = new.range();
        let Err(new) = self.extend(new) else {
            return;
        };
        if let Some(around) = self.around(&range) {
            self.overwrite(around, new);
            return;
        }
        let mut new = self.cut(new);
        let burst_bytes = self.burst_bytes;
        let joined = |burst: &Burst, other: &Burst| {
            (burst.data.len() + other.data.len()) as u64 <= burst_bytes
        };
        let before = self.bursts.range(..range.start).next_back();
        if let Some((&place, before)) = before
            && before.range().end == range.start
            && joined(before, &new)
            && let Some(mut before) = self.take(place)
        {
            before.append(new);
            new = before;
        }
        if let Some(next) = self.bursts.get(&range.end)
            && joined(next, &new)
            && let Some(next) = self.take(range.end)
        {
            new.append(next);
        }
        self.put(new);
    }

    /// Makes the bursts that overlap a range stand for older data as well, whose oldest write has number `first`.
    pub(crate) fn stand_for(&mut self, range: &Range, first: u64) {
        let places: Vec<u64> = self
            .overlapping(range)
            .map(|burst| burst.offset_bytes)
            .collect();
        for place in places {
            if let Some(mut burst) = self.take(place) {
                burst.first = burst.first.min(first);
                self.put(burst);
            }
        }
    }

    /// Appends a write to the burst that ends where it begins, the usual case of a sequential writer.
    fn extend(&mut self, mut new: Burst) -> Result<(), Burst> {
        let range = new.range();
        let is_alone =
            !self.bursts.contains_key(&range.end) && self.overlapping(&range).next().is_none();
        let before = self.bursts.range_mut(..range.start).next_back();
        let Some((place, before)) = before.filter(|(_, before)| {
            let is_short = before.data.len() as u64 + range.bytes() <= self.burst_bytes;
            is_alone && is_short && before.range().end == range.start && before.first <= new.first
        }) else {
            return Err(new);
        };
        let key = (before.first, *place);
        let tickets = std::mem::take(&mut new.tickets);
        before.adopt(&new, tickets);
        before.data.extend_from_slice(&new.data);
        let is_whole = before.fua || before.data.len() as u64 >= self.burst_bytes;
        self.bytes += range.bytes();
        if is_whole {
            self.whole.insert(key);
        }
        Ok(())
    }

    /// Offset of the burst that covers all of a range.
    fn around(&self, range: &Range) -> Option<u64> {
        let (&place, burst) = self.bursts.range(..=range.start).next_back()?;
        (burst.range().end >= range.end).then_some(place)
    }

    fn overwrite(&mut self, place: u64, mut new: Burst) {
        let Some(mut burst) = self.take(place) else {
            return;
        };
        let at = burst.range().places(&new.range());
        burst.data[at].copy_from_slice(&new.data);
        let tickets = std::mem::take(&mut new.tickets);
        burst.adopt(&new, tickets);
        self.put(burst);
    }

    /// Removes waiting data that a new burst overwrites. Requests waiting for the old data wait for the new burst,
    /// which takes over their age.
    fn cut(&mut self, mut new: Burst) -> Burst {
        let range = new.range();
        let places: Vec<u64> = self
            .overlapping(&range)
            .map(|old| old.offset_bytes)
            .collect();
        for mut old in places
            .into_iter()
            .filter_map(|place| self.take(place))
            .collect::<Vec<_>>()
        {
            let (offset_bytes, end) = (old.offset_bytes, old.range().end);
            if end > range.end {
                let data = old.data.split_off((range.end - offset_bytes) as usize);
                self.put(Burst {
                    offset_bytes: range.end,
                    data,
                    tickets: old.tickets.clone(),
                    ..old
                });
            }
            let tickets = match offset_bytes < range.start {
                true => old.tickets.clone(),
                false => std::mem::take(&mut old.tickets),
            };
            new.adopt(&old, tickets);
            if offset_bytes < range.start {
                old.data.truncate((range.start - offset_bytes) as usize);
                self.put(old);
            }
        }
        new
    }

    /// The oldest burst for which `may_go` holds that is due or gains nothing by waiting.
    pub(crate) fn take_due(&mut self, due: Due, may_go: impl Fn(&Burst) -> bool) -> Option<Burst> {
        let burst = |(_, place): &(u64, u64)| self.bursts.get(place);
        let by_age = self.by_age.iter().filter_map(burst);
        let is_due = by_age.take_while(|burst| due.includes(burst));
        let whole = self.whole.iter().filter_map(burst);
        let place = is_due
            .chain(whole)
            .find(|burst| may_go(burst))?
            .offset_bytes;
        self.take(place)
    }

    /// When the oldest burst that is not due arrived.
    pub(crate) fn next_due(&self, due: Due) -> Option<Instant> {
        let mut by_age = self
            .by_age
            .iter()
            .filter_map(|(_, place)| self.bursts.get(place));
        Some(by_age.find(|burst| !due.includes(burst))?.since)
    }

    /// Arrival and number of the oldest write.
    pub(crate) fn oldest(&self) -> Option<(u64, Instant)> {
        let (first, place) = self.by_age.first()?;
        Some((*first, self.bursts.get(place)?.since))
    }

    /// The bursts that overlap a range.
    pub(crate) fn overlapping(&self, range: &Range) -> impl Iterator<Item = &Burst> {
        let before = self.bursts.range(..range.start).next_back();
        let first = before.map_or(range.start, |(place, _)| *place);
        let range = *range;
        self.bursts
            .range(first..range.end.max(first))
            .map(|(_, burst)| burst)
            .filter(move |burst| burst.range().overlaps(&range))
    }

    fn put(&mut self, burst: Burst) {
        self.bytes += burst.data.len() as u64;
        let key = (burst.first, burst.offset_bytes);
        self.by_age.insert(key);
        if burst.fua || burst.data.len() as u64 >= self.burst_bytes {
            self.whole.insert(key);
        }
        self.bursts.insert(burst.offset_bytes, burst);
    }

    fn take(&mut self, place: u64) -> Option<Burst> {
        let burst = self.bursts.remove(&place)?;
        self.bytes -= burst.data.len() as u64;
        let key = (burst.first, place);
        self.by_age.remove(&key);
        self.whole.remove(&key);
        Some(burst)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn burst(offset_bytes: u64, data: &[u8], number: u64) -> Burst {
        Burst {
            offset_bytes,
            data: data.to_vec(),
            first: number,
            last: number,
            since: Instant::from_ns(number),
            fua: false,
            has_early: true,
            tickets: Vec::new(),
        }
    }

    fn take(dirty: &mut Dirty) -> Option<Burst> {
        let due = Due {
            all: true,
            before: 0,
            until: Instant::ZERO,
        };
        dirty.take_due(due, |_| true)
    }

    #[test]
    fn writes_that_adjoin_become_one() {
        let mut dirty = Dirty::new(12);
        for (number, offset) in [8, 0, 4].into_iter().enumerate() {
            dirty.write(burst(offset, &[offset as u8; 4], number as u64));
        }
        let one = take(&mut dirty).expect("a burst");
        assert_eq!(one.data, [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8]);
        assert_eq!((one.first, dirty.bytes()), (0, 0));
    }

    #[test]
    fn a_burst_has_a_limit() {
        let mut dirty = Dirty::new(6);
        dirty.write(burst(0, &[1; 4], 0));
        dirty.write(burst(4, &[2; 4], 1));
        assert_eq!(dirty.overlapping(&Range::new(0, 8)).count(), 2);
    }

    /// The requests that each burst answers, in sending order.
    fn answered(asked: Burst, other: Burst) -> Vec<Vec<u64>> {
        let mut dirty = Dirty::new(12);
        let failure = OnceLock::new();
        let ticket = Ticket {
            request: 7,
            failure,
        };
        dirty.write(Burst {
            tickets: vec![Arc::new(ticket)],
            ..asked
        });
        dirty.write(other);
        let bursts = std::iter::from_fn(|| take(&mut dirty));
        let requests = bursts.map(|burst| {
            let last = burst.tickets.into_iter().filter_map(Arc::into_inner);
            last.map(|ticket| ticket.request).collect()
        });
        requests.collect()
    }

    #[test]
    fn the_last_part_of_a_request_answers_it() {
        // Overwritten in place, at its end, and in full.
        let asked = || burst(0, &[1; 12], 0);
        assert_eq!(answered(asked(), burst(2, &[9; 4], 1)), [[7]]);
        let parts = answered(asked(), burst(8, &[9; 8], 1));
        assert_eq!(parts, [vec![], vec![7]]);
        assert_eq!(answered(burst(4, &[1; 4], 0), burst(0, &[9; 12], 1)), [[7]]);
    }

    proptest! {
        /// After any writes, each byte waiting is the last one written, and the oldest burst goes first.
        #[test]
        fn the_latest_data_wait(writes in prop::collection::vec((0_u64..40, 1_usize..20), 1..40)) {
            let mut dirty = Dirty::new(16);
            let mut model = BTreeMap::new();
            for (number, (offset, len)) in writes.into_iter().enumerate() {
                dirty.write(burst(offset, &vec![number as u8; len], number as u64));
                model.extend((offset..offset + len as u64).map(|at| (at, number as u8)));
                prop_assert_eq!(dirty.bytes(), model.len() as u64);
            }
            let mut found = BTreeMap::new();
            let mut last = 0;
            while let Some(part) = take(&mut dirty) {
                prop_assert!(part.first >= last);
                last = part.first;
                let places = part.offset_bytes..;
                for (at, byte) in places.zip(part.data) {
                    prop_assert_eq!(found.insert(at, byte), None);
                }
            }
            prop_assert_eq!(found, model);
        }
    }
}
