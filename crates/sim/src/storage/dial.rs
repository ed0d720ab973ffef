//! Connections of an initiator that connect and log in.

use std::time::Duration;

use wansan_iscsi::initiator::{
    AdmitError, Dialer, Handshake, HandshakeError, LoginSettings, RecoverySettings, Step,
};
use wansan_trace::{Instant, Recorder};

use super::initiator::{InitiatorConfig, InitiatorError};
use super::socket::{Owner, Sockets};

/// Time limits of an initiator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// For connecting and login together, and for logout.
    pub login: Duration,
    /// For a session without connections to recover before its commands fail; zero disables recovery.
    pub replacement: Duration,
}

/// A connection of a session.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) end: u32,
    /// Bytes that the target's TCP had acknowledged at the last look.
    pub(super) acked_bytes: u64,
    pub(super) is_recorded: bool,
}

/// A connection that is being established.
#[derive(Debug)]
pub(super) struct Dial {
    end: u32,
    handshake: Handshake,
    patience: Duration,
    deadline: Instant,
}

impl Dial {
    /// Begins to connect with the connection settings at `place`, to log in with `handshake`, all within `patience`.
    pub(super) fn begin(
        config: &InitiatorConfig,
        owner: Owner,
        place: usize,
        handshake: Handshake,
        patience: Duration,
        sockets: &mut Sockets,
    ) -> Dial {
        Dial {
            end: sockets.connect(&config.connections[place], owner),
            handshake,
            patience,
            deadline: sockets.now() + patience,
        }
    }

    /// Does what can be done now; returns whether the login is complete.
    pub(super) fn step(&mut self, sockets: &mut Sockets) -> Result<bool, InitiatorError> {
        loop {
            let sent = match self.handshake.pending() {
                [] => 0,
                pending => sockets.write(self.end, pending),
            };
            self.handshake.sent(sent);
            if self.handshake.is_done() && self.handshake.pending().is_empty() {
                return Ok(true);
            }
            let bytes = sockets.read(self.end, self.handshake.space());
            if bytes > 0 {
                self.handshake.filled(bytes);
                self.handshake.receive()?;
            } else if sockets.is_lost(self.end) || sockets.has_ended(self.end) {
                return Err(InitiatorError::Closed);
            } else if sockets.now() >= self.deadline {
                return Err(InitiatorError::Slow(self.patience));
            } else if sent == 0 {
                return Ok(false);
            }
        }
    }

    /// When it gives up.
    pub(super) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The connection, and its completed login.
    pub(super) fn into_parts(self) -> (Line, Handshake) {
        let line = Line {
            end: self.end,
            acked_bytes: 0,
            is_recorded: false,
        };
        (line, self.handshake)
    }
}

/// Establishes connections for recovery.
pub(super) struct Dials<'a> {
    pub(super) config: &'a mut InitiatorConfig,
    pub(super) owner: Owner,
    pub(super) sockets: &'a mut Sockets,
}

impl Dialer<Dial, Line, InitiatorError> for Dials<'_> {
    fn login(&mut self) -> Result<LoginSettings, InitiatorError> {
        Ok(self.config.login.clone())
    }

    fn begin(
        &mut self,
        cid: u16,
        handshake: Handshake,
        patience: Duration,
        _now: Instant,
    ) -> Result<Dial, InitiatorError> {
        let (owner, place) = (self.owner, usize::from(cid));
        let dial = Dial::begin(self.config, owner, place, handshake, patience, self.sockets);
        Ok(dial)
    }

    fn step(
        &mut self,
        _cid: u16,
        mut dial: Dial,
        _now: Instant,
    ) -> Result<Step<Dial, Line>, InitiatorError> {
        match dial.step(self.sockets) {
            Ok(true) => {
                let (line, handshake) = dial.into_parts();
                // A replacement session starts without tasks.
                Ok(Step::Ready(line, handshake.into_entry(0)?))
            }
            Ok(false) => Ok(Step::Waits(dial)),
            Err(error) => {
                self.give_up(dial);
                Err(error)
            }
        }
    }

    fn wakes_at(dial: &Dial) -> Instant {
        dial.deadline()
    }

    fn give_up(&mut self, dial: Dial) {
        self.sockets.abort(dial.end);
    }

    fn abort(&mut self, line: Line) {
        self.sockets.abort(line.end);
    }

    fn refused(&self, _cid: u16, source: HandshakeError) -> InitiatorError {
        source.into()
    }

    fn not_admitted(&self, _cid: u16, source: AdmitError) -> InitiatorError {
        source.into()
    }

    fn denies_the_session(error: &InitiatorError) -> bool {
        matches!(error, InitiatorError::Login(source) if source.denies_the_session())
    }

    fn trace(&mut self) -> &mut Recorder {
        &mut self.config.trace
    }
}

impl InitiatorConfig {
    /// The settings of session recovery.
    pub(super) fn recovery(&self) -> RecoverySettings {
        let isid = self.login.isid.map(u64::from);
        RecoverySettings {
            connections: self.connections.len() as u16,
            seed: isid.iter().fold(0, |seed, byte| seed << 8 ^ byte),
            patience: self.patience.login,
            replacement_timeout: self.patience.replacement,
        }
    }
}
