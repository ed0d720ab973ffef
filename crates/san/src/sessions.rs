//! Access to a logical unit: one session, or one over each of several routes.

use std::os::fd::OwnedFd;
use std::time::Duration;

use wansan_iscsi::initiator::{Command, Completion, Full, Tally};
use wansan_iscsi::wire::Lun;
use wansan_trace::{Instant, Kinds, Recorder, SessionId};

use crate::identity::UnitIdentity;
use crate::initiator::{Initiator, InitiatorConfig, InitiatorError, Recoveries, Route};
use crate::multipath::{MultipathSession, RouteEvent};
use crate::reservation::Reservation;
use crate::url::IscsiUrl;

/// Executes single commands.
pub trait Execute {
    /// Submits one command and waits for its completion. For the few commands before and after a
    /// load; no other command may be outstanding.
    ///
    /// # Errors
    /// The session has ended.
    fn execute(&mut self, command: Command) -> Result<Completion, InitiatorError>;
}

impl Execute for Initiator {
    fn execute(&mut self, command: Command) -> Result<Completion, InitiatorError> {
        Initiator::execute(self, command)
    }
}

/// One session, or one over each route ([`InitiatorConfig::multipath`], [`InitiatorConfig::reservation`]).
#[derive(Debug)]
pub enum Sessions {
    /// One session, over one connection or several (MC/S).
    One(Box<Initiator>),
    /// Multipath.
    Several(Box<MultipathSession>),
}

impl Sessions {
    /// Connects and logs in to the target that `url` names. Records of `kinds` are kept in at most
    /// `budget_bytes` of memory.
    ///
    /// # Errors
    /// [`InitiatorError`], by what failed.
    pub fn connect(
        url: &IscsiUrl,
        config: &InitiatorConfig,
        kinds: Kinds,
        budget_bytes: usize,
    ) -> Result<Sessions, InitiatorError> {
        Ok(match config.multipath || config.reservation.is_some() {
            true => {
                let several = MultipathSession::connect(url, config, kinds, budget_bytes)?;
                Sessions::Several(Box::new(several))
            }
            false => {
                let trace = Recorder::new(kinds, budget_bytes);
                Sessions::One(Box::new(Initiator::connect(url, config, trace)?))
            }
        })
    }

    /// Queues a command.
    ///
    /// # Errors
    /// [`Full`] returns the command: take completions first.
    pub fn submit(&mut self, command: Command, now: Instant) -> Result<(), Full> {
        match self {
            Sessions::One(session) => session.submit(command, now),
            Sessions::Several(sessions) => sessions.submit(command, now),
        }
    }

    /// Sends pending PDUs, waits for input until `deadline`, and handles it.
    ///
    /// # Errors
    /// No session is left, or was recovered in time; all commands complete with an error.
    pub fn turn(&mut self, deadline: Instant) -> Result<(), InitiatorError> {
        match self {
            Sessions::One(session) => session.turn(deadline),
            Sessions::Several(sessions) => sessions.turn(deadline),
        }
    }

    /// The next completion, and its session.
    pub fn poll_completion(&mut self, now: Instant) -> Option<(SessionId, Completion)> {
        match self {
            Sessions::One(session) => {
                let done = session.poll_completion(now)?;
                Some((session.session().id(), done))
            }
            Sessions::Several(sessions) => sessions.poll_completion(),
        }
    }

    /// The next event of a route; for a single session only that its unit is another one.
    pub fn poll_event(&mut self) -> Option<RouteEvent> {
        match self {
            Sessions::One(session) => {
                while session.poll_event().is_some() {}
                session.poll_other_unit()
            }
            Sessions::Several(sessions) => sessions.poll_event(),
        }
    }

    /// From now on [`Sessions::turn`] also returns when `waker` is readable.
    pub fn wake_by(&mut self, waker: OwnedFd) {
        match self {
            Sessions::One(session) => session.wake_by(waker),
            Sessions::Several(sessions) => sessions.wake_by(waker),
        }
    }

    /// From now on, a replacement session must lead to LUN `number` with this identity. Several sessions know their
    /// unit from the beginning.
    pub fn expect_unit(&mut self, number: u16, at: Lun, identity: &UnitIdentity) {
        if let Sessions::One(session) = self {
            session.expect_unit(number, at, identity.clone());
        }
    }

    /// How long there has been no connection; zero while there is one.
    #[must_use]
    pub fn cut_off(&self, now: Instant) -> Duration {
        match self {
            Sessions::One(session) => session.cut_off(now),
            Sessions::Several(sessions) => sessions.cut_off(now),
        }
    }

    /// Recoveries so far. With several sessions, each loss counts: another session completed its unanswered commands.
    #[must_use]
    pub fn recoveries(&self) -> Recoveries {
        match self {
            Sessions::One(session) => session.recoveries(),
            Sessions::Several(sessions) => sessions.recoveries(),
        }
    }

    /// Timeout of one recovery attempt; grows with the round-trip time.
    #[must_use]
    pub fn attempt(&self) -> Duration {
        match self {
            Sessions::One(session) => session.attempt(),
            Sessions::Several(sessions) => sessions.attempt(),
        }
    }

    /// The route of each connection, or each session, including those that the target has listed.
    #[must_use]
    pub fn routes(&self) -> Vec<Route> {
        match self {
            Sessions::One(session) => session.routes(),
            Sessions::Several(sessions) => sessions.routes(),
        }
    }

    /// Number of connections that are up, and in total.
    #[must_use]
    pub fn connections(&self) -> (usize, usize) {
        match self {
            Sessions::One(session) => session.connections(),
            Sessions::Several(sessions) => sessions.connections(),
        }
    }

    /// Counters of each connection up to `now`, with its portal.
    #[must_use]
    pub fn tallies(&self, now: Instant) -> Vec<(String, Tally)> {
        match self {
            Sessions::One(session) => session.tallies(now),
            Sessions::Several(sessions) => sessions.tallies(now),
        }
    }

    /// How replacement sessions reserve the unit, if these have.
    #[must_use]
    pub fn kept(&self) -> Option<Reservation> {
        match self {
            Sessions::One(_) => None,
            Sessions::Several(sessions) => sessions.kept(),
        }
    }

    /// Unregisters from the unit, if reserved; only a logout may follow. Returns why this host's key may still be
    /// registered, in one line, if so.
    pub fn release(&mut self) -> Option<String> {
        match self {
            Sessions::One(_) => None,
            Sessions::Several(sessions) => sessions.release(),
        }
    }

    /// Logs out and returns the records, even if the target does not respond.
    #[must_use]
    pub fn logout(self) -> Vec<Recorder> {
        match self {
            Sessions::One(session) => vec![session.logout()],
            Sessions::Several(sessions) => sessions.logout(),
        }
    }

    /// The records of failed sessions.
    #[must_use]
    pub fn into_records(self) -> Vec<Recorder> {
        match self {
            Sessions::One(session) => vec![session.into_records()],
            Sessions::Several(sessions) => sessions.into_records(),
        }
    }
}

impl Execute for Sessions {
    fn execute(&mut self, command: Command) -> Result<Completion, InitiatorError> {
        match self {
            Sessions::One(session) => session.execute(command),
            Sessions::Several(sessions) => sessions.execute(command),
        }
    }
}
