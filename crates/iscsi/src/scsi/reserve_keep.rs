//! A change of persistent reservations while it is being saved (SPC-4 5.13.5).

use std::sync::{Arc, Mutex, PoisonError};

use super::fence::Fence;
use super::nexus::Common;
use super::reservation::Reservations;
use super::reserve_effects::Effects;

/// A command's change of a unit's reservations. Access that it removes is gone at once, but the command is answered,
/// others may change the reservations further, and other nexuses lose tasks and report unit attentions only when the
/// change is complete: saved, or rolled back because saving failed. So memory and the saved state are equal whenever no
/// change is pending, provided that the saving function restores the previous state when it fails.
///
/// One that is dropped before completion is rolled back.
#[derive(Debug)]
pub struct ReservationChange {
    common: Arc<Common>,
    place: usize,
    version: u64,
    text: String,
    /// The fence of the response, once the change was saved.
    fence: Mutex<Fence>,
}

/// The state replaced by a pending change.
#[derive(Debug)]
pub(super) struct Replaced {
    version: u64,
    before: Reservations,
    effects: Effects,
}

impl Replaced {
    /// `before` was in force until change number `version`, which has `effects` once it is saved.
    pub(super) const fn new(version: u64, before: Reservations, effects: Effects) -> Replaced {
        Replaced {
            version,
            before,
            effects,
        }
    }

    /// The reservations before the change.
    pub(super) const fn before(&self) -> &Reservations {
        &self.before
    }
}

impl ReservationChange {
    /// Change number `version` of the unit at `place`, with `text` as its new state.
    pub(super) fn new(
        common: Arc<Common>,
        place: usize,
        version: u64,
        text: String,
    ) -> ReservationChange {
        ReservationChange {
            common,
            place,
            version,
            text,
            fence: Mutex::default(),
        }
    }

    /// The text to save; empty if there is nothing.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Completes the change: it was saved, or is rolled back. Call this before the command is
    /// answered; only the first call counts.
    pub fn end(&self, kept: bool) {
        let place = self.place;
        let effects = self.common.change(|state, _| {
            let unit = &mut state.units[place];
            let replaced = unit.replaced.take_if(|one| one.version == self.version)?;
            if !kept {
                unit.reservations = replaced.before;
                return None;
            }
            let fence = replaced.effects.apply(state, place);
            *self.fence.lock().unwrap_or_else(PoisonError::into_inner) = fence;
            Some(replaced.effects)
        });
        if effects.is_some_and(|effects| effects.aborts()) {
            self.common.ring();
        }
    }

    /// The fence of the response, once the change was saved.
    pub(crate) fn take_fence(&self) -> Fence {
        std::mem::take(&mut *self.fence.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for ReservationChange {
    fn drop(&mut self) {
        self.end(false);
    }
}

impl PartialEq for ReservationChange {
    fn eq(&self, other: &ReservationChange) -> bool {
        Arc::ptr_eq(&self.common, &other.common)
            && (self.place, self.version) == (other.place, other.version)
    }
}

impl Eq for ReservationChange {}
