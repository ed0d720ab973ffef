//! Whether a session that is to take a lost one's place leads to the same unit. What was under way is only resent then:
//! on another disk, writes would destroy what is there.

use std::time::Duration;

use rustix::event::PollFd;
use rustix::net::RecvFlags;
use wansan_iscsi::initiator::{Command, Completion, Session};
use wansan_iscsi::wire::Lun;
use wansan_trace::{Instant, Recorder};

use super::socket::Socket;
use super::{InitiatorError, MOST_READ_BYTES};
use crate::identity::{Inquiry, UnitIdentity};

/// The unit that the commands of a session are for.
#[derive(Debug, Clone)]
pub(super) struct KnownUnit {
    pub(super) number: u16,
    pub(super) at: Lun,
    pub(super) identity: UnitIdentity,
}

/// A session that has logged in, and is asked what unit it leads to.
#[derive(Debug)]
pub(super) struct IdentityCheck {
    known: KnownUnit,
    found: Inquiry,
    /// Commands that have not been answered.
    left: usize,
    session: Session,
    socket: Socket,
    deadline: Instant,
    patience: Duration,
    /// These commands are not recorded: they are no I/Os of the caller.
    trace: Recorder,
}

impl IdentityCheck {
    /// Tasks that the session needs room for.
    pub(super) const TASKS: usize = Inquiry::COMMANDS;

    /// Begins to ask in `session`; it has `patience` until `deadline`.
    pub(super) fn begin(
        known: KnownUnit,
        mut session: Session,
        socket: Socket,
        (deadline, patience): (Instant, Duration),
        now: Instant,
    ) -> IdentityCheck {
        let commands = Inquiry::commands(known.at);
        let left = ask(&mut session, commands, now);
        IdentityCheck {
            known,
            found: Inquiry::default(),
            left,
            session,
            socket,
            deadline,
            patience,
            trace: Recorder::off(),
        }
    }

    /// Does what can be done without waiting; whether the unit has been found to be the one that is known.
    ///
    /// # Errors
    /// It is another one, or the session has failed.
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
                    .receive(connection, MOST_READ_BYTES, flags, &mut self.trace)?;
            let portal = || self.socket.portal.clone();
            match received {
                Some(came) => {
                    let taken = self.session.receive(0, came, &mut self.trace);
                    taken.map_err(|source| InitiatorError::Session {
                        portal: portal(),
                        source,
                    })?;
                }
                None if now < self.deadline => return Ok(false),
                None => {
                    return Err(InitiatorError::Slow {
                        portal: portal(),
                        patience: self.patience,
                    });
                }
            }
        }
    }

    fn take(&mut self, done: Completion, now: Instant) {
        let asked = done.user;
        self.left -= 1;
        if self.found.take(done) {
            let again = Inquiry::commands(self.known.at).filter(|command| command.user == asked);
            self.left += ask(&mut self.session, again, now);
        }
    }

    fn judge(&mut self) -> Result<bool, InitiatorError> {
        let found = std::mem::take(&mut self.found).identity();
        match found.is_some_and(|found| found.is(&self.known.identity)) {
            true => Ok(true),
            false => Err(InitiatorError::OtherUnit {
                lun: self.known.number,
                portal: self.socket.portal.clone(),
            }),
        }
    }

    /// What is waited for.
    pub(super) fn awaited(&self) -> PollFd<'_> {
        self.socket.awaited()
    }

    /// When it wants to be stepped though nothing has come.
    pub(super) fn wakes_at(&self) -> Instant {
        self.deadline
    }

    /// The session and its socket.
    pub(super) fn into_parts(self) -> (Session, Socket) {
        (self.session, self.socket)
    }
}

/// Gives commands to the session, which has room for them; how many.
fn ask(session: &mut Session, commands: impl Iterator<Item = Command>, now: Instant) -> usize {
    let given = commands.map(|command| session.submit(command, now, &mut Recorder::off()));
    given.filter(Result::is_ok).count()
}
