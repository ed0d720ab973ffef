//! Whether a session that is to replace a lost one leads to the same unit. Only then are outstanding commands resent:
//! on another disk, writes would destroy data.

use std::time::Duration;

use rustix::event::PollFd;
use rustix::net::RecvFlags;
use wansan_iscsi::initiator::{Command, Completion, Session};
use wansan_iscsi::wire::Lun;
use wansan_trace::{Instant, Recorder};

use super::InitiatorError;
use super::reading::MOST_PART_BYTES;
use super::socket::Socket;
use crate::identity::{Answers, MOST_ATTENTIONS, UnitIdentity};

/// The unit of a session's commands.
#[derive(Debug, Clone)]
pub(super) struct KnownUnit {
    pub(super) number: u16,
    pub(super) at: Lun,
    pub(super) identity: UnitIdentity,
}

/// A logged-in session whose unit is being identified.
#[derive(Debug)]
pub(super) struct IdentityCheck {
    known: KnownUnit,
    found: Answers,
    /// Unanswered commands.
    left: usize,
    /// Unit attentions so far.
    attentions: usize,
    session: Session,
    socket: Socket,
    deadline: Instant,
    patience: Duration,
    /// These commands are not recorded: they are not I/Os of the caller.
    trace: Recorder,
}

impl IdentityCheck {
    /// Number of tasks that the session needs.
    pub(super) const TASKS: usize = Answers::COMMANDS;

    /// Starts to identify the unit of `session`, with the timeout `patience`.
    pub(super) fn begin(
        known: KnownUnit,
        mut session: Session,
        socket: Socket,
        patience: Duration,
        now: Instant,
    ) -> IdentityCheck {
        // If abandoned, its port must not wait for the target.
        socket.end_at_once(true);
        let commands = Answers::commands(known.at);
        let left = ask(&mut session, commands, now);
        IdentityCheck {
            known,
            found: Answers::default(),
            left,
            attentions: 0,
            session,
            socket,
            deadline: now + patience,
            patience,
            trace: Recorder::off(),
        }
    }

    /// Does what is possible without blocking; returns whether the unit has been confirmed as the known one.
    ///
    /// # Errors
    /// It is another unit, or the session has failed.
    pub(super) fn step(&mut self, now: Instant) -> Result<bool, InitiatorError> {
        loop {
            self.session.pump(now, &mut self.trace);
            let connection = &mut self.session.connections()[0];
            self.socket.send(connection, &mut self.trace)?;
            while let Some(done) = self.session.poll_completion(now, &mut self.trace) {
                self.take(done, now);
            }
            if self.left == 0 {
                return self.judge();
            }
            let connection = &mut self.session.connections()[0];
            let flags = RecvFlags::DONTWAIT;
            let received =
                self.socket
                    .receive(connection, MOST_PART_BYTES, flags, &mut self.trace)?;
            // A target that keeps sending other PDUs must not block the caller.
            if received.unwrap_or(now) >= self.deadline {
                let patience_s = self.patience.as_secs_f64();
                return Err(
                    self.unusable(format!("it did not identify itself within {patience_s} s"))
                );
            }
            let Some(came) = received else {
                return Ok(false);
            };
            let taken = self.session.receive(0, came, &mut self.trace);
            taken.map_err(|source| InitiatorError::Session {
                portal: self.socket.portal.clone(),
                source,
            })?;
        }
    }

    fn take(&mut self, done: Completion, now: Instant) {
        let asked = done.user;
        self.left -= 1;
        if self.found.take(done) && self.attentions < MOST_ATTENTIONS {
            self.attentions += 1;
            let again = Answers::commands(self.known.at).filter(|command| command.user == asked);
            self.left += ask(&mut self.session, again, now);
        }
    }

    fn judge(&mut self) -> Result<bool, InitiatorError> {
        match std::mem::take(&mut self.found).identity() {
            Ok(found) if found.is(&self.known.identity) => Ok(true),
            Ok(_) => Err(InitiatorError::OtherUnit {
                lun: self.known.number,
                portal: self.socket.portal.clone(),
            }),
            Err(problem) => Err(self.unusable(problem)),
        }
    }

    fn unusable(&self, problem: String) -> InitiatorError {
        InitiatorError::Unusable {
            lun: self.known.number,
            portal: self.socket.portal.clone(),
            problem,
        }
    }

    /// What to poll for.
    pub(super) fn awaited(&self) -> PollFd<'_> {
        self.socket.awaited()
    }

    /// When to step it even though there is no input.
    pub(super) fn wakes_at(&self) -> Instant {
        self.deadline
    }

    /// The session and its socket.
    pub(super) fn into_parts(self) -> (Session, Socket) {
        self.socket.end_at_once(false);
        (self.session, self.socket)
    }
}

/// Submits commands to the session, which has room for them; returns their number.
fn ask(session: &mut Session, commands: impl Iterator<Item = Command>, now: Instant) -> usize {
    let given = commands.map(|command| session.submit(command, now, &mut Recorder::off()));
    given.filter(Result::is_ok).count()
}
