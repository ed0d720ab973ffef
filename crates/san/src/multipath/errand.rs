//! Work on a route that is down, in a thread of its own: login can take long.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;
use std::{io, thread};

use rustix::event::{EventfdFlags, eventfd};
use wansan_trace::{Recorder, clock};

use super::unit::Unit;
use crate::initiator::dial::Destination;
use crate::initiator::login::connect_to;
use crate::initiator::{Initiator, InitiatorError};
use crate::reservation::{Before, hold};

/// The outcome of a login: the session, and its unit.
pub(super) type Joined = Result<(Box<Initiator>, Unit), InitiatorError>;

/// The outcome of an errand for the route at an index.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A login over the route itself.
    Joined(Joined),
    /// The target was made to end the route's session.
    Fenced(Result<(), InitiatorError>),
}

/// The errands in progress.
#[derive(Debug)]
pub(super) struct Errands {
    to: Sender<(usize, Outcome)>,
    from: Receiver<(usize, Outcome)>,
    /// Readable once one has ended.
    bell: Arc<OwnedFd>,
}

impl Errands {
    pub(super) fn new() -> io::Result<Errands> {
        let (to, from) = channel();
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Errands {
            to,
            from,
            bell: Arc::new(bell),
        })
    }

    pub(super) fn bell(&self) -> impl AsFd + '_ {
        self.bell.as_fd()
    }

    /// Logs in over the route at `place` and identifies unit `lun`, all within `patience`. If the unit is `known` and
    /// to be reserved, registers the session with it.
    pub(super) fn join(
        &self,
        place: usize,
        to: &Destination,
        (lun, known): (u16, Option<&Unit>),
        patience: Duration,
    ) -> io::Result<()> {
        let usual = to.config.patience;
        let to = within(to, patience);
        let known = known.cloned();
        self.spawn(place, move || {
            let join = || {
                let deadline = clock::now() + patience;
                let reservation = to.config.reservation.clone();
                let (mut initiator, unit) = log_in(to, lun, patience)?;
                if let Some(known) = known {
                    if !unit.is(&known) {
                        let portal = initiator.destination().portal();
                        return Err(InitiatorError::OtherUnit { lun, portal });
                    }
                    if let Some(reservation) = reservation {
                        let portal = initiator.destination().portal();
                        let _turn = reservation.registering.turn(lun, &portal)?;
                        // A login that hangs must not delay the others for long.
                        let deadline = deadline.min(clock::now() + initiator.attempt());
                        let held = ((reservation.key, place), Before::Held);
                        hold(&mut initiator, lun, held, deadline)?;
                    }
                }
                initiator.be_patient(usual);
                Ok((Box::new(initiator), unit))
            };
            Outcome::Joined(join())
        })
    }

    /// Logs in to `over` with the ISID of the session lost with the route at `place`, so that the target ends that
    /// session (RFC 7143 §6.3.5), and logs out again, all within `patience`. `portal_group_tag` is that of the lost
    /// session, if known: with another group it would be another session.
    pub(super) fn fence(
        &self,
        place: usize,
        (lost, portal_group_tag): (&Destination, Option<u16>),
        (over, lun): (&Destination, u16),
        patience: Duration,
    ) -> io::Result<()> {
        let mut to = within(lost, patience);
        to.routes.clone_from(&over.routes);
        self.spawn(place, move || {
            let portal = to.portal();
            let fenced = log_in(to, lun, patience).and_then(|(initiator, _)| {
                let tag = initiator.session().portal_group_tag();
                let _ = initiator.logout();
                match portal_group_tag.is_none_or(|known| tag == Some(known)) {
                    true => Ok(()),
                    false => Err(InitiatorError::OtherPortalGroup { portal }),
                }
            });
            Outcome::Fenced(fenced)
        })
    }

    fn spawn(
        &self,
        place: usize,
        errand: impl FnOnce() -> Outcome + Send + 'static,
    ) -> io::Result<()> {
        let (to, bell) = (self.to.clone(), Arc::clone(&self.bell));
        let thread = thread::Builder::new().name("log in".to_owned());
        thread.spawn(move || {
            // The receiver is gone once the sessions were left.
            let _ = to.send((place, errand()));
            let _ = rustix::io::write(&*bell, &1_u64.to_ne_bytes());
        })?;
        Ok(())
    }

    /// The next completed errand.
    pub(super) fn poll(&self) -> Option<(usize, Outcome)> {
        // Its result is in the channel.
        let _ = rustix::io::read(&*self.bell, &mut [0; 8]);
        self.from.try_recv().ok()
    }

    /// Waits for the next completed errand.
    pub(super) fn wait(&self) -> Option<(usize, Outcome)> {
        self.from.recv().ok()
    }
}

/// The same destination, with another time limit.
fn within(to: &Destination, patience: Duration) -> Destination {
    let mut to = to.clone();
    to.config.patience = patience;
    to
}

fn log_in(
    to: Destination,
    lun: u16,
    patience: Duration,
) -> Result<(Initiator, Unit), InitiatorError> {
    let deadline = clock::now() + patience;
    let mut initiator = connect_to(to, Recorder::off())?;
    let unit = Unit::ask(&mut initiator, lun, deadline)?;
    Ok((initiator, unit))
}
