//! How sessions are left: what they have under way is over first, then they are unregistered, and then they are logged
//! out of.

use std::thread;

use wansan_trace::{Instant, Recorder, clock};

use super::MultipathSession;
use super::path::{Path, State};
use crate::initiator::{Initiator, InitiatorError};
use crate::reservation::{ReservationKey, release, release_others};

impl MultipathSession {
    /// Unregisters all sessions from the unit, also those that are lost, once what they have under way is over. No other
    /// command may follow. Returns why this host's key may still be there, in one line, if it may.
    pub fn release(&mut self) -> Option<String> {
        let reservation = self.config.reservation.take()?;
        // Nobody is to be woken any more.
        self.waker = None;
        // Those that have registered until then are there.
        let _ = reservation.registering.end();
        self.end_errands();
        self.finish(clock::now() + self.config.patience);
        let deadline = clock::now() + self.config.patience;
        let why = self.unregister(reservation.key, deadline).err()?;
        let unit = format!("LUN {} of {}", self.lun, self.target);
        Some(reservation.stays(&unit, &why))
    }

    /// Carries out what is under way, and has the target end lost sessions that may still carry out writes. What takes longer
    /// is left behind with its session.
    fn finish(&mut self, deadline: Instant) {
        while !self.requests.is_empty() && self.connections().0 > 0 && clock::now() < deadline {
            if self.turn(deadline).is_err() {
                return;
            }
            while self.poll_completion().is_some() {}
        }
        self.fence_lost(deadline);
        for place in 0..self.paths.len() {
            let is_busy = |initiator: &Initiator| initiator.session().in_flight() > 0;
            if self.paths[place].up().is_some_and(is_busy) {
                self.retire(place, false);
            }
        }
    }

    fn unregister(&mut self, key: ReservationKey, deadline: Instant) -> Result<(), String> {
        let (up, all) = self.connections();
        let lun = self.lun;
        let each = self.paths.iter_mut().filter_map(Path::up_mut);
        let mut each: Vec<&mut Initiator> = each.collect();
        let Some(first) = each.first_mut() else {
            return Err("no route is up".to_owned());
        };
        let said = |error: InitiatorError| error.to_string();
        if up < all {
            release_others(first, lun, key, deadline).map_err(said)?;
            return release(first, lun, key, deadline).map_err(said);
        }
        let ends = thread::scope(|scope| {
            let all = each.into_iter();
            let all: Vec<_> = all
                .map(|initiator| scope.spawn(move || release(initiator, lun, key, deadline)))
                .collect();
            all.into_iter()
                .filter_map(|one| one.join().ok())
                .collect::<Vec<_>>()
        });
        ends.into_iter().try_for_each(|end| end.map_err(said))
    }

    /// Logs out of all sessions at once and returns the records, even if the target does not answer. Sessions that are
    /// registered are [released](MultipathSession::release) before.
    #[must_use]
    pub fn logout(mut self) -> Vec<Recorder> {
        self.waker = None;
        // Who wants to know has released them.
        let _ = self.release();
        self.fence_lost(clock::now() + self.config.patience);
        let leave = |path: Path| match path.state {
            State::Up(initiator) => initiator.logout(),
            State::Down(down) => down.records,
        };
        thread::scope(|scope| {
            let all: Vec<_> = self
                .paths
                .into_iter()
                .map(|path| scope.spawn(move || leave(path)))
                .collect();
            all.into_iter()
                .filter_map(|left| left.join().ok())
                .collect()
        })
    }
}
