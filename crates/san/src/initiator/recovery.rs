//! How connections come back.
//!
//! A session whose connections are all up has nothing here to do. When one dies at error recovery
//! level 2, it logs in to the session again, while the others work on. At levels 0 and 1 the session
//! is lost with it (RFC 7143 §7.1.4.4, §7.1.5): all are closed, one leads a session that takes the
//! place of the lost one, and the others join it, side by side and each at its own pace.

use std::collections::VecDeque;
use std::time::Duration;

use wansan_iscsi::fault::Fault;
use wansan_iscsi::initiator::{Backoff, HandshakeError, Session, SessionError};
use wansan_iscsi::login::InitiatorLoginError;
use wansan_iscsi::wire::LoginStatus;
use wansan_trace::{Instant, Recorder};

use super::InitiatorError;
use super::dial::{Destination, Dial};
use super::socket::Socket;

/// How often a session was recovered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recoveries {
    /// Sessions that were reinstated.
    pub sessions: u64,
    /// Connections that were recovered within their session.
    pub connections: u64,
    /// Total time without any connection.
    pub lost: Duration,
}

/// A connection that is not up.
#[derive(Debug)]
struct Missing {
    /// Its CID, and the place of its route.
    cid: u16,
    backoff: Backoff,
    failures: u32,
    due: Instant,
    attempt: Option<Attempt>,
}

/// A connection attempt under way.
#[derive(Debug)]
struct Attempt {
    dial: Dial,
    /// It leads a session, and does not join the one that there is.
    leads: bool,
}

/// A time without any connection.
#[derive(Debug)]
struct Outage {
    since: Instant,
    deadline: Instant,
    cause: InitiatorError,
    /// Why the last attempt that is over failed.
    last_failure: Option<InitiatorError>,
    /// The session is gone, so that another one takes its place.
    ends_session: bool,
}

/// The connections that are not up, and the outage if none is.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// While there is no session, the first one leads.
    missing: VecDeque<Missing>,
    outage: Option<Outage>,
    /// Connections of a session that was lost with another one. Targets end them when they find the
    /// session lost. Ended all at once by us, they would go all at once there, where LIO's kernel
    /// (Linux 6.1) panics: it walks through a session's connections while others of them go.
    left: Vec<Socket>,
    pub(super) totals: Recoveries,
}

/// Part of an attempt's time that does not depend on the path, for a target that is starting.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Round trips that an attempt may take: login takes four.
const ATTEMPT_ROUND_TRIPS: u32 = 20;

impl Recovery {
    /// Whether all connections are up.
    pub(super) fn is_idle(&self) -> bool {
        self.missing.is_empty()
    }

    /// Leaves missing what is not being connected.
    pub(super) fn settle(&mut self) {
        self.missing.retain(|missing| missing.attempt.is_some());
    }

    /// The session is lost with `cause`: all its routes are to be tried again after `wait`, and until
    /// then the connections that are `left` stand.
    pub(super) fn lose_all(
        &mut self,
        to: &Destination,
        left: Vec<Socket>,
        cause: InitiatorError,
        wait: Duration,
        now: Instant,
    ) {
        self.missing = (0..to.routes.len() as u16)
            .map(|cid| Missing::new(to, cid, now + wait, now))
            .collect();
        self.left.extend(left);
        // One that is lost again before it was whole goes on with the same outage.
        let outage = self.outage.get_or_insert(Outage {
            since: now,
            deadline: now + to.config.replacement_timeout,
            cause,
            last_failure: None,
            ends_session: true,
        });
        outage.ends_session = true;
    }

    /// The connection with `cid` is lost, and the session waits for it; `is_alone` when it was the
    /// last one.
    pub(super) fn lose_one(
        &mut self,
        to: &Destination,
        cid: u16,
        is_alone: bool,
        cause: InitiatorError,
        now: Instant,
    ) {
        self.missing.push_back(Missing::new(to, cid, now, now));
        if is_alone {
            self.outage.get_or_insert(Outage {
                since: now,
                deadline: now + to.config.replacement_timeout,
                cause,
                last_failure: None,
                ends_session: false,
            });
        }
    }

    /// How long there has been no connection at all.
    pub(super) fn cut_off(&self, now: Instant) -> Duration {
        let outage = self.outage.as_ref();
        outage.map_or(Duration::ZERO, |outage| now.since(outage.since))
    }

    /// How long one attempt to come back may take.
    pub(super) fn attempt(to: &Destination) -> Duration {
        ATTEMPT + to.round_trip * ATTEMPT_ROUND_TRIPS
    }

    /// Whether the connection that comes next has to lead a session.
    fn leads(&self) -> bool {
        self.outage
            .as_ref()
            .is_some_and(|outage| outage.ends_session)
    }

    /// When the next thing is to be done, unless a socket of [`Recovery::dials`] is ready first.
    pub(super) fn wakes_at(&self) -> Instant {
        let each = self.in_turn().map(|missing| match &missing.attempt {
            Some(attempt) => attempt.dial.wakes_at(),
            None => missing.due,
        });
        let deadline = self.outage.iter().map(|outage| outage.deadline);
        each.chain(deadline).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// The attempts that are under way.
    pub(super) fn dials(&self) -> impl Iterator<Item = &Dial> {
        let attempts = self
            .in_turn()
            .filter_map(|missing| missing.attempt.as_ref());
        attempts.map(|attempt| &attempt.dial)
    }

    /// Those that may be tried now: while there is no session, only the one that is to lead it.
    fn in_turn(&self) -> impl Iterator<Item = &Missing> {
        let many = if self.leads() { 1 } else { usize::MAX };
        self.missing.iter().take(many)
    }

    /// Goes on with what can be done at `now`; connections that came up are added to `session` and
    /// `sockets`.
    ///
    /// # Errors
    /// [`InitiatorError::NotBack`], when the outage has lasted for too long.
    pub(super) fn advance(
        &mut self,
        to: &Destination,
        session: &mut Session,
        sockets: &mut Vec<Socket>,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), InitiatorError> {
        if let Some(outage) = self.outage.take_if(|outage| now >= outage.deadline) {
            return Err(InitiatorError::NotBack {
                target: to.in_words().to_owned(),
                cause: Box::new(outage.cause),
                timeout: to.config.replacement_timeout,
                last_failure: outage.last_failure.map(Box::new),
            });
        }
        if self.in_turn().any(|missing| now >= missing.due) {
            for socket in self.left.drain(..) {
                socket.abort(trace);
            }
        }
        let mut place = 0;
        while place < self.missing.len() {
            let leads = self.leads();
            let missing = &mut self.missing[place];
            let up = missing.advance(to, session, leads, now, trace);
            match up {
                Ok(Some(socket)) => {
                    self.missing.remove(place);
                    sockets.push(socket);
                    self.totals.connections += u64::from(!leads);
                    self.end_outage(leads, session, now);
                    continue;
                }
                Ok(None) => {}
                Err(error) if !leads && error.denies_the_session() => {
                    if self.outage.is_some() {
                        session.lose_all(now, trace);
                        self.end_session(to, now);
                        // Only one may lead: two sessions of one ISID would push each other out.
                        place = 0;
                    } else {
                        // The connections that seem to be up have to show it: if they are, this one
                        // is left out until another session takes the place of theirs.
                        self.missing.remove(place);
                        session.ping(now, trace);
                    }
                    continue;
                }
                Err(error) => {
                    missing.failed(now);
                    if let Some(outage) = &mut self.outage {
                        outage.last_failure = Some(error);
                    }
                    if leads {
                        // Another route may be open.
                        let due = missing.due;
                        self.missing.rotate_left(1);
                        self.missing[0].due = due;
                    }
                }
            }
            if leads {
                break;
            }
            place += 1;
        }
        Ok(())
    }

    /// The session that the missing connections waited for is no more: one leads another.
    fn end_session(&mut self, to: &Destination, now: Instant) {
        self.missing = (0..to.routes.len() as u16)
            .map(|cid| Missing::new(to, cid, now, now))
            .collect();
        if let Some(outage) = &mut self.outage {
            outage.ends_session = true;
        }
    }

    /// There is a connection again, and if it `leads`, the others may join its session at once.
    fn end_outage(&mut self, leads: bool, session: &Session, now: Instant) {
        if let Some(outage) = self.outage.take() {
            self.totals.lost += now.since(outage.since);
        }
        if leads {
            self.totals.sessions += 1;
            let granted = usize::from(session.parameters().max_connections);
            self.missing.truncate(granted.saturating_sub(1));
            for missing in &mut self.missing {
                missing.due = now;
            }
        }
    }
}

impl Missing {
    fn new(to: &Destination, cid: u16, due: Instant, now: Instant) -> Missing {
        let isid = to.config.isid.map(u64::from);
        let seed = isid.iter().fold(now.ns(), |seed, byte| seed << 8 ^ byte);
        Missing {
            cid,
            backoff: Backoff::new(seed ^ u64::from(cid)),
            failures: 0,
            due,
            attempt: None,
        }
    }

    /// Goes on with the attempt, or begins one when it is due; gives the connection's socket when
    /// it is part of the session.
    fn advance(
        &mut self,
        to: &Destination,
        session: &mut Session,
        leads: bool,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<Option<Socket>, InitiatorError> {
        let route = &to.routes[usize::from(self.cid)];
        // One that began when there was another session, or none, is of no use any more.
        let begun = self.attempt.take().filter(|begun| begun.leads == leads);
        let mut dial = match begun {
            Some(begun) => begun.dial,
            None if now < self.due || (!leads && !session.may_join(self.cid)) => {
                return Ok(None);
            }
            None => {
                let login = to.login()?;
                let handshake = if leads {
                    session.reinstating(&login, self.cid)
                } else {
                    session.join(&login, self.cid)
                };
                let handshake = handshake.map_err(|source| to.login_error(route, source))?;
                let attempt = Recovery::attempt(to);
                let patience = to.config.patience.min(attempt * (self.failures + 1));
                Dial::begin(route, handshake, to, patience, now)?
            }
        };
        if !dial.step(now)? {
            self.attempt = Some(Attempt { dial, leads });
            return Ok(None);
        }
        let (stream, handshake) = dial.into_parts();
        let portal = route.route.portal();
        let socket = Socket::new(stream, portal.clone(), to.config.delayed_ack)?;
        let taken = if leads {
            session.reinstate(handshake, now, trace)
        } else {
            session.admit(handshake)
        };
        match taken {
            Ok(()) => Ok(Some(socket)),
            Err(source) => Err(InitiatorError::NotAdmitted { portal, source }),
        }
    }

    fn failed(&mut self, now: Instant) {
        self.attempt = None;
        self.failures = self.failures.saturating_add(1);
        self.due = self.backoff.failed(now);
    }
}

impl InitiatorError {
    /// Whether the session cannot go on without the connection.
    pub(super) fn ends_session(&self) -> bool {
        matches!(
            self,
            InitiatorError::Session {
                source: SessionError::NotRecovered { .. },
                ..
            }
        )
    }

    /// Whether a login was refused because the target has no session as the one to join. What else
    /// it refuses (for want of resources, say, or while it starts) it may grant later.
    fn denies_the_session(&self) -> bool {
        let InitiatorError::Login { source, .. } = self else {
            return false;
        };
        matches!(
            **source,
            HandshakeError::Login(
                InitiatorLoginError::WrongSession { .. }
                    | InitiatorLoginError::Refused {
                        status: LoginStatus::SessionDoesNotExist
                            | LoginStatus::CannotIncludeInSession
                    }
            )
        )
    }

    /// Whether the way to the target failed, which may come back, and not one of the two ends.
    pub(super) fn is_of_the_path(&self) -> bool {
        match self {
            InitiatorError::Socket { .. }
            | InitiatorError::Closed { .. }
            | InitiatorError::Silent { .. } => true,
            InitiatorError::Session { source, .. } => source.fault() == Fault::EnvironmentLacks,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_session_that_the_target_does_not_have_is_given_up() {
        let denies = |status| {
            let refused = InitiatorLoginError::Refused { status };
            let error = InitiatorError::Login {
                target: String::new(),
                portal: String::new(),
                source: Box::new(refused.into()),
            };
            error.denies_the_session()
        };
        assert!(denies(LoginStatus::SessionDoesNotExist));
        for passing in [
            LoginStatus::AuthenticationFailure,
            LoginStatus::NotFound,
            LoginStatus::OutOfResources,
            LoginStatus::ServiceUnavailable,
        ] {
            assert!(!denies(passing));
        }
    }
}
