//! Recovering connections over sockets.

use std::time::Duration;

use rustix::event::PollFd;
use wansan_iscsi::initiator::{
    AdmitError, Dialer, Entry, Handshake, HandshakeError, LoginSettings, RecoverySettings,
    SessionError, Step,
};
use wansan_trace::{Instant, Recorder};

use super::InitiatorError;
use super::dial::{Destination, Dial, ResolvedRoute};
use super::identity_check::{IdentityCheck, KnownUnit};
use super::socket::Socket;

/// The session's connections that are down.
pub(super) type Recovery = wansan_iscsi::initiator::Recovery<Attempt, Socket, InitiatorError>;

/// A connection attempt.
#[derive(Debug)]
pub(super) enum Attempt {
    /// Connects and logs in.
    Login(Box<Dial>),
    /// Identifies the unit of a replacement session.
    Check(Box<IdentityCheck>),
}

impl Attempt {
    /// What to poll for.
    pub(super) fn awaited(&self) -> PollFd<'_> {
        match self {
            Attempt::Login(dial) => dial.awaited(),
            Attempt::Check(check) => check.awaited(),
        }
    }
}

/// Dials over sockets.
pub(super) struct Dials<'a> {
    pub(super) to: &'a Destination,
    /// The unit that a replacement session must lead to, if known.
    pub(super) unit: Option<&'a KnownUnit>,
    pub(super) trace: &'a mut Recorder,
}

impl Dials<'_> {
    fn route(&self, cid: u16) -> &ResolvedRoute {
        &self.to.routes[usize::from(cid)]
    }

    /// The line of a logged-in connection, and the session that it enters.
    fn enter(&self, cid: u16, dial: Dial) -> Result<(Socket, Entry), InitiatorError> {
        let (stream, handshake) = dial.into_parts();
        let portal = self.route(cid).route.portal();
        let socket = Socket::new(stream, portal, self.to.config.delayed_ack)?;
        let entry = handshake.into_entry(IdentityCheck::TASKS);
        Ok((
            socket,
            entry.map_err(|source| self.not_admitted(cid, source))?,
        ))
    }
}

impl Dialer<Attempt, Socket, InitiatorError> for Dials<'_> {
    fn login(&mut self) -> Result<LoginSettings, InitiatorError> {
        self.to.login()
    }

    fn begin(
        &mut self,
        cid: u16,
        handshake: Handshake,
        patience: Duration,
        now: Instant,
    ) -> Result<Attempt, InitiatorError> {
        let dial = Dial::begin(self.route(cid), handshake, self.to, patience, now)?;
        Ok(Attempt::Login(Box::new(dial)))
    }

    fn step(
        &mut self,
        cid: u16,
        attempt: Attempt,
        now: Instant,
    ) -> Result<Step<Attempt, Socket>, InitiatorError> {
        let mut check = match attempt {
            Attempt::Login(mut dial) => {
                if !dial.step(now)? {
                    return Ok(Step::Waits(Attempt::Login(dial)));
                }
                match (self.enter(cid, *dial)?, self.unit) {
                    ((socket, Entry::Leads(session)), Some(unit)) => {
                        let patience = self.to.config.patience;
                        let unit = unit.clone();
                        let check = IdentityCheck::begin(unit, *session, socket, patience, now);
                        Box::new(check)
                    }
                    ((socket, entry), _) => return Ok(Step::Ready(socket, entry)),
                }
            }
            Attempt::Check(check) => check,
        };
        if !check.step(now)? {
            return Ok(Step::Waits(Attempt::Check(check)));
        }
        let (session, socket) = check.into_parts();
        Ok(Step::Ready(socket, Entry::Leads(Box::new(session))))
    }

    fn wakes_at(attempt: &Attempt) -> Instant {
        match attempt {
            Attempt::Login(dial) => dial.wakes_at(),
            Attempt::Check(check) => check.wakes_at(),
        }
    }

    fn give_up(&mut self, attempt: Attempt) {
        drop(attempt);
    }

    fn abort(&mut self, line: Socket) {
        line.abort(self.trace);
    }

    fn refused(&self, cid: u16, source: HandshakeError) -> InitiatorError {
        self.to.login_error(self.route(cid), source)
    }

    fn not_admitted(&self, cid: u16, source: AdmitError) -> InitiatorError {
        let portal = self.route(cid).route.portal();
        InitiatorError::NotAdmitted { portal, source }
    }

    fn denies_the_session(error: &InitiatorError) -> bool {
        let InitiatorError::Login { source, .. } = error else {
            return false;
        };
        source.denies_the_session()
    }

    fn trace(&mut self) -> &mut Recorder {
        self.trace
    }
}

impl Destination {
    /// The limits on recovering a session with that destination.
    pub(super) fn recovery(&self) -> RecoverySettings {
        let isid = self.config.isid.map(u64::from);
        RecoverySettings {
            connections: self.routes.len() as u16,
            seed: isid.iter().fold(0, |seed, byte| seed << 8 ^ byte),
            patience: self.config.patience,
            replacement_timeout: self.config.replacement_timeout,
        }
    }
}

impl InitiatorError {
    /// Whether the session cannot continue without the connection.
    pub(super) fn ends_session(&self) -> bool {
        self.of_session().is_some_and(SessionError::ends_session)
    }

    /// Whether the path to the target failed, which may recover, and not one of its ends.
    pub(super) fn is_of_the_path(&self) -> bool {
        match self {
            InitiatorError::Socket { .. }
            | InitiatorError::Closed { .. }
            | InitiatorError::Silent { .. } => true,
            _ => self.of_session().is_some_and(SessionError::is_of_the_path),
        }
    }

    /// Whether the unit may become reachable again over the same route.
    pub(crate) fn may_come_back(&self) -> bool {
        let is_of_the_unit = matches!(
            self,
            InitiatorError::Unusable { .. } | InitiatorError::Unregistered { .. }
        );
        self.is_of_the_path() || is_of_the_unit
    }

    /// Whether another host holds the unit, or it cannot be reserved.
    pub(crate) fn is_of_the_reservation(&self) -> bool {
        matches!(
            self,
            InitiatorError::Reserved { .. }
                | InitiatorError::SameKey { .. }
                | InitiatorError::Preempted { .. }
                | InitiatorError::Unreservable { .. }
        )
    }

    fn of_session(&self) -> Option<&SessionError> {
        match self {
            InitiatorError::Session { source, .. } => Some(source),
            _ => None,
        }
    }
}
