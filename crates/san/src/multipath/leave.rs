//! Leaving sessions: outstanding commands complete first, then sessions are unregistered, then logged out.

use std::thread;

use wansan_trace::{Instant, Recorder, clock};

use super::MultipathSession;
use super::path::{Path, State};
use crate::initiator::{Initiator, InitiatorError};
use crate::reservation::{ReservationKey, SessionKey, release, release_others};

impl MultipathSession {
    /// Unregisters all sessions from the unit, including lost ones, after their outstanding commands. No other command
    /// may follow. Returns why this host's key may still be registered, in one line, if so.
    pub fn release(&mut self) -> Option<String> {
        let reservation = self.config.reservation.take()?;
        // No wake-ups from here on.
        self.waker = None;
        // Sessions that registered until then are included.
        let _ = reservation.registering.end();
        self.end_errands();
        self.finish(clock::now() + self.config.patience);
        let deadline = clock::now() + self.config.patience;
        let why = self.unregister(reservation.key, deadline).err()?;
        let unit = format!("LUN {} of {}", self.lun, self.target);
        Some(reservation.stays(&unit, &why))
    }

    /// Completes outstanding commands, and makes the target end lost sessions that may still execute writes. Commands
    /// that take longer are abandoned with their session.
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
        let each = self.paths.iter_mut().enumerate();
        let mut each: Vec<Registered<'_>> = each
            .filter_map(|(place, path)| Some((path.up_mut()?, (key, place))))
            .collect();
        if each.is_empty() {
            return Err("no route is up".to_owned());
        }
        let said = |error: InitiatorError| error.to_string();
        if up == all && release_each(&mut each, lun, deadline).is_ok() {
            return Ok(());
        }
        // Where one is lost or does not respond, another removes its registration.
        match release_lost(&mut each, lun, deadline) {
            Ok(by) => {
                let (initiator, key) = &mut each[by];
                release(initiator, lun, *key, deadline).map_err(said)
            }
            Err(error) => {
                let _ = release_each(&mut each, lun, deadline);
                Err(said(error))
            }
        }
    }

    /// Logs out of all sessions at once and returns the records, even if the target does not respond. Registered
    /// sessions are [released](MultipathSession::release) before.
    #[must_use]
    pub fn logout(mut self) -> Vec<Recorder> {
        self.waker = None;
        // Callers interested in the result have released them.
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

/// A session, with its key.
type Registered<'a> = (&'a mut Initiator, SessionKey);

/// Unregisters sessions in parallel.
fn release_each(
    each: &mut [Registered<'_>],
    lun: u16,
    deadline: Instant,
) -> Result<(), InitiatorError> {
    let release = |(initiator, key): &mut Registered<'_>| {
        let deadline = within_attempt(initiator, deadline);
        release(initiator, lun, *key, deadline)
    };
    thread::scope(|scope| {
        let each = each.iter_mut();
        let each: Vec<_> = each.map(|one| scope.spawn(|| release(one))).collect();
        let mut ends = each.into_iter().filter_map(|one| one.join().ok());
        // All are joined at the end of the scope.
        ends.try_for_each(|end| end)
    })
}

/// Makes one session after another unregister all others until one succeeds, and returns its index.
fn release_lost(
    each: &mut [Registered<'_>],
    lun: u16,
    deadline: Instant,
) -> Result<usize, InitiatorError> {
    let mut why = None;
    for (place, (initiator, key)) in each.iter_mut().enumerate() {
        let deadline = within_attempt(initiator, deadline);
        match release_others(initiator, lun, *key, deadline) {
            Ok(()) => return Ok(place),
            Err(error) => why = Some(error),
        }
    }
    Err(why.expect("there is a session"))
}

/// One that hangs leaves time to the others.
fn within_attempt(initiator: &Initiator, deadline: Instant) -> Instant {
    deadline.min(clock::now() + initiator.attempt())
}
