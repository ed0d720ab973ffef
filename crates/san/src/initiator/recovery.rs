//! Recovering connections over sockets.

use std::time::Duration;

use wansan_iscsi::initiator::{
    AdmitError, Dialer, Handshake, HandshakeError, LoginSettings, RecoverySettings, SessionError,
};
use wansan_trace::{Instant, Recorder};

use super::InitiatorError;
use super::dial::{Destination, Dial, ResolvedRoute};
use super::socket::Socket;

/// The connections of a session that are not up.
pub(super) type Recovery = wansan_iscsi::initiator::Recovery<Dial, Socket, InitiatorError>;

/// Dials over sockets.
pub(super) struct Dials<'a> {
    pub(super) to: &'a Destination,
    pub(super) trace: &'a mut Recorder,
}

impl Dials<'_> {
    fn route(&self, cid: u16) -> &ResolvedRoute {
        &self.to.routes[usize::from(cid)]
    }
}

impl Dialer<Dial, Socket, InitiatorError> for Dials<'_> {
    fn login(&mut self) -> Result<LoginSettings, InitiatorError> {
        self.to.login()
    }

    fn begin(
        &mut self,
        cid: u16,
        handshake: Handshake,
        patience: Duration,
        now: Instant,
    ) -> Result<Dial, InitiatorError> {
        Dial::begin(self.route(cid), handshake, self.to, patience, now)
    }

    fn step(&mut self, dial: &mut Dial, now: Instant) -> Result<bool, InitiatorError> {
        dial.step(now)
    }

    fn wakes_at(dial: &Dial) -> Instant {
        dial.wakes_at()
    }

    fn finish(&mut self, cid: u16, dial: Dial) -> Result<(Socket, Handshake), InitiatorError> {
        let (stream, handshake) = dial.into_parts();
        let portal = self.route(cid).route.portal();
        let socket = Socket::new(stream, portal, self.to.config.delayed_ack)?;
        Ok((socket, handshake))
    }

    fn give_up(&mut self, dial: Dial) {
        drop(dial);
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
    /// What bounds the recovery of a session that leads there.
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
    /// Whether the session cannot go on without the connection.
    pub(super) fn ends_session(&self) -> bool {
        self.of_session().is_some_and(SessionError::ends_session)
    }

    /// Whether the way to the target failed, which may come back, and not one of the two ends.
    pub(super) fn is_of_the_path(&self) -> bool {
        match self {
            InitiatorError::Socket { .. }
            | InitiatorError::Closed { .. }
            | InitiatorError::Silent { .. } => true,
            _ => self.of_session().is_some_and(SessionError::is_of_the_path),
        }
    }

    /// Whether the unit may be reached again over the same route.
    pub(crate) fn may_come_back(&self) -> bool {
        let is_of_the_unit = matches!(
            self,
            InitiatorError::Unusable { .. } | InitiatorError::Unregistered { .. }
        );
        self.is_of_the_path() || is_of_the_unit
    }

    /// Whether the unit is not this host's, or cannot be.
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
