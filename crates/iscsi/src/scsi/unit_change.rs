//! A change of a unit's state that completes when its cache has been flushed: write protection, a cleared WCE (MODE
//! SELECT), and a stop (START STOP UNIT).

use std::sync::Arc;

use super::UnitAttention;
use super::command::Refused;
use super::nexus::{Common, ModeParameters, NexusId, State};

/// A pending change. It takes effect at once, so that nothing more is written meanwhile, but the command is answered,
/// and others may change the unit further, only when it completes. If flushing the cache fails, the command fails, and
/// nothing has changed (SPC-4 6.11).
///
/// One that is dropped before completion is rolled back.
#[derive(Debug)]
pub struct UnitChange {
    common: Arc<Common>,
    place: usize,
    number: u64,
}

/// The state replaced by a pending change.
#[derive(Debug)]
pub(super) struct Changing {
    number: u64,
    by: NexusId,
    mode: ModeParameters,
    stopped: bool,
}

impl State {
    /// While a change of the unit at `place` is pending, which may still be rolled back, no other one may begin.
    pub(super) fn check_unchanging(&self, place: usize) -> Result<(), Refused> {
        match self.units[place].changing {
            None => Ok(()),
            Some(_) => Err(Refused::Busy),
        }
    }

    /// Notes that `by` changes the unit at `place`. Call before changing the state.
    pub(super) fn begin_change(&mut self, place: usize, by: NexusId) -> u64 {
        let unit = &mut self.units[place];
        unit.changes += 1;
        unit.changing = Some(Changing {
            number: unit.changes,
            by,
            mode: unit.mode,
            stopped: unit.stopped,
        });
        unit.changes
    }
}

impl UnitChange {
    /// Change `number` of the unit at `place`, as counted by [`State::begin_change`].
    pub(super) const fn new(common: Arc<Common>, place: usize, number: u64) -> UnitChange {
        UnitChange {
            common,
            place,
            number,
        }
    }

    /// Completes the change: the cache was flushed, or the change is rolled back. Call this before the command is
    /// answered; only the first call counts.
    pub fn end(&self, written: bool) {
        self.common.change(|state, _| {
            let unit = &mut state.units[self.place];
            let changing = unit.changing.take_if(|one| one.number == self.number);
            let Some(Changing {
                by, mode, stopped, ..
            }) = changing
            else {
                return;
            };
            if !written {
                (unit.mode, unit.stopped) = (mode, stopped);
            } else if unit.mode != mode {
                let attention = UnitAttention::ModeParametersChanged;
                state.establish(self.place, attention, |nexus| nexus.id != by);
            }
        });
    }
}

impl Drop for UnitChange {
    fn drop(&mut self) {
        self.end(false);
    }
}

impl PartialEq for UnitChange {
    fn eq(&self, other: &UnitChange) -> bool {
        Arc::ptr_eq(&self.common, &other.common)
            && (self.place, self.number) == (other.place, other.number)
    }
}

impl Eq for UnitChange {}
