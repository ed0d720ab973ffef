//! Overlapping outstanding writes.
//!
//! A target may execute and answer two such writes in either order, but once the later one is acknowledged to the
//! caller, the earlier one must not be resent: that would undo the later one. So the completion of the later one is
//! withheld until the earlier one completes; if the session is lost in between, both are resent in order.

use core::ops::Range;
use std::collections::BTreeMap;

use wansan_trace::{Instant, Recorder, TaskTag};

use super::session::Core;
use super::task::{Answer, Stage, Transfer};
use crate::scsi::{self, Effect};
use crate::wire::Lun;

/// The blocks of outstanding writes.
#[derive(Debug, Default)]
pub(super) struct Overlaps {
    /// Key: first block and age; value: the end, and the unit. Few units are written at the same blocks at once, so the
    /// unit need not be looked up first.
    extents: BTreeMap<(u64, u64), (u64, Lun)>,
    /// An upper bound of the longest range, in blocks.
    longest: u64,
    /// Writes so far, the age of the next.
    writes: u64,
    /// Completed writes whose completion is withheld.
    pub(super) withheld: Vec<TaskTag>,
}

/// A write's range among the others.
#[derive(Debug, Clone)]
pub(super) struct Extent {
    lun: Lun,
    blocks: Range<u64>,
    age: u64,
    /// Another write of the same blocks was outstanding when it was submitted.
    is_second: bool,
}

impl Overlaps {
    /// Adds the blocks that a command with `cdb` writes; `None` when its CDB names none.
    pub(super) fn enter(
        &mut self,
        lun: Lun,
        cdb: &[u8; 16],
        transfer: &Transfer,
    ) -> Option<Extent> {
        let Transfer::Write(data) = transfer else {
            return None;
        };
        let (Effect::Write, blocks) = scsi::extent(cdb, data) else {
            return None;
        };
        let mut extent = Extent {
            lun,
            blocks,
            age: self.writes,
            is_second: false,
        };
        extent.is_second = self.has_older(&extent);
        if self.extents.is_empty() {
            self.longest = 0;
        }
        let Range { start, end } = extent.blocks;
        self.longest = self.longest.max(end - start);
        self.extents.insert((start, extent.age), (end, lun));
        self.writes += 1;
        Some(extent)
    }

    fn leave(&mut self, extent: &Extent) {
        self.extents.remove(&(extent.blocks.start, extent.age));
    }

    /// Whether an older overlapping write is outstanding.
    fn has_older(&self, extent: &Extent) -> bool {
        let Extent {
            lun, blocks, age, ..
        } = extent;
        let from = blocks.start.saturating_sub(self.longest);
        let mut near = self.extents.range((from, 0)..(blocks.end, 0));
        near.any(|((_, other), (end, unit))| other < age && *end > blocks.start && unit == lun)
    }
}

impl Core {
    /// Whether the completion of a write must wait for an older overlapping one.
    pub(super) fn withholds(&mut self, tag: TaskTag) -> bool {
        let task = self.tasks.get_mut(tag);
        let extent = task.and_then(|task| task.extent.as_ref());
        extent.is_some_and(|extent| extent.is_second && self.overlaps.has_older(extent))
    }

    /// A write has left the session: releases completions that waited for it.
    pub(super) fn write_left(&mut self, extent: &Extent, now: Instant, trace: &mut Recorder) {
        self.overlaps.leave(extent);
        let mut place = 0;
        while let Some(&tag) = self.overlaps.withheld.get(place) {
            let waits = match self.tasks.get_mut(tag) {
                Some(task) if task.stage == Stage::Withheld => {
                    let extent = task.extent.clone();
                    extent.is_some_and(|extent| self.overlaps.has_older(&extent))
                }
                // It must be repeated.
                _ => {
                    self.overlaps.withheld.remove(place);
                    continue;
                }
            };
            if waits {
                place += 1;
                continue;
            }
            self.overlaps.withheld.remove(place);
            let answer = self.tasks.get_mut(tag).and_then(|task| task.answer.take());
            if let Some(answer) = answer {
                self.finish(tag, Ok(answer), now, trace);
                place = 0; // Others may have waited for that one.
            }
        }
    }

    /// Keeps the answer of a completed write until it may be reported.
    pub(super) fn withhold(&mut self, tag: TaskTag, answer: Answer) {
        if let Some(task) = self.tasks.get_mut(tag) {
            task.stage = Stage::Withheld;
            task.answer = Some(answer);
            self.overlaps.withheld.push(tag);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scsi::cdb;

    fn enter(overlaps: &mut Overlaps, lba: u64, blocks: u32) -> Extent {
        let cdb = cdb::write(lba, blocks, false);
        let lun = Lun::default();
        let entered = overlaps.enter(lun, &cdb, &Transfer::Write(Vec::new()));
        entered.unwrap()
    }

    #[test]
    fn only_older_writes_of_the_same_blocks_count() {
        let mut overlaps = Overlaps::default();
        let long = enter(&mut overlaps, 100, 100);
        let apart = enter(&mut overlaps, 200, 8);
        let inside = enter(&mut overlaps, 150, 1);
        let across = enter(&mut overlaps, 199, 2);
        assert!(!long.is_second && !apart.is_second);
        assert!(inside.is_second && across.is_second);
        overlaps.leave(&long);
        assert!(!overlaps.has_older(&inside));
        assert!(overlaps.has_older(&across), "{apart:?} is older too");
        overlaps.leave(&apart);
        assert!(!overlaps.has_older(&across) && !overlaps.has_older(&inside));
        let other_unit = Lun::single_level(1).unwrap();
        let cdb = cdb::write(150, 1, false);
        let apart = overlaps.enter(other_unit, &cdb, &Transfer::Write(Vec::new()));
        assert!(!apart.unwrap().is_second);
    }
}
