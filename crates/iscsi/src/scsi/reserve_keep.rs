//! A change of persistent reservations on its way to where it outlives a restart (SPC-4 5.13.5).

use std::sync::Arc;

use super::nexus::Common;
use super::reservation::Reservations;

/// What a command has changed of a unit's reservations. It holds at once, but the command is
/// answered, and others may change the reservations further, only when it is over: kept, or taken
/// back because it could not be. So memory and what is kept never say different things.
///
/// One that is dropped before it has come to its end is taken back.
#[derive(Debug)]
pub struct ReservationChange {
    common: Arc<Common>,
    place: usize,
    version: u64,
    text: String,
}

/// What a change that is not over yet has replaced.
#[derive(Debug)]
pub(super) struct Replaced {
    version: u64,
    before: Reservations,
}

impl Replaced {
    /// `before` was there until change number `version`.
    pub(super) const fn new(version: u64, before: Reservations) -> Replaced {
        Replaced { version, before }
    }

    /// The reservations before the change.
    pub(super) const fn before(&self) -> &Reservations {
        &self.before
    }
}

impl ReservationChange {
    /// Change number `version` of the unit at `place`, which says `text` now.
    pub(super) const fn new(
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
        }
    }

    /// What is to be kept; empty when nothing is.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// It is over: it was kept, or it could not be and has not happened. To be called before the
    /// command is answered; only the first call counts.
    pub fn end(&self, kept: bool) {
        self.common.change(|state| {
            let unit = &mut state.units[self.place];
            let replaced = unit.replaced.take_if(|one| one.version == self.version);
            if let Some(Replaced { before, .. }) = replaced.filter(|_| !kept) {
                unit.reservations = before;
            }
        });
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
