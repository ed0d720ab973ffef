//! How connections come back.
//!
//! A session whose connections are all up has nothing here to do. When one dies at error recovery
//! levels 0 and 1, the session is lost with it (RFC 7143 §7.1.4.1, §7.1.5): all are closed, one
//! leads a session that takes the place of the lost one, and the others join it, side by side and
//! each at its own pace.

use std::collections::VecDeque;
use std::time::Duration;

use wansan_iscsi::fault::Fault;
use wansan_iscsi::initiator::{Backoff, Session};
use wansan_trace::{Instant, Recorder};

use super::InitiatorError;
use super::dial::{Destination, Dial};
use super::line::Line;

/// What a session has been through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recoveries {
    /// Sessions that took the place of a lost one.
    pub sessions: u64,
    /// How long there was none, in all.
    pub lost: Duration,
}

/// A connection that is not up.
#[derive(Debug)]
struct Missing {
    /// Its CID, and the place of its way.
    cid: u16,
    backoff: Backoff,
    failures: u32,
    due: Instant,
    dial: Option<Dial>,
}

/// A time without a session.
#[derive(Debug)]
struct Outage {
    since: Instant,
    deadline: Instant,
    cause: InitiatorError,
}

/// The connections that are not up, and the outage if none is.
#[derive(Debug, Default)]
pub(super) struct Recovery {
    /// While there is an outage, the first one leads.
    missing: VecDeque<Missing>,
    outage: Option<Outage>,
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

    /// The session is lost with `cause`: all its ways are to be tried again.
    pub(super) fn begin(
        &mut self,
        to: &Destination,
        cause: InitiatorError,
        time2wait: Duration,
        now: Instant,
    ) {
        let isid = to.config.isid.map(u64::from);
        let seed = isid.iter().fold(now.ns(), |seed, byte| seed << 8 ^ byte);
        self.missing = (0..to.ways.len() as u16)
            .map(|cid| Missing {
                cid,
                backoff: Backoff::new(seed ^ u64::from(cid)),
                failures: 0,
                due: now + time2wait,
                dial: None,
            })
            .collect();
        // One that is lost again before it was whole goes on with the same outage.
        let deadline = now + to.config.replacement_timeout;
        self.outage.get_or_insert(Outage {
            since: now,
            deadline,
            cause,
        });
    }

    /// When the next thing is to be done, unless a socket of [`Recovery::dials`] is ready first.
    pub(super) fn wakes_at(&self) -> Instant {
        let each = self.in_turn().map(|missing| match &missing.dial {
            Some(dial) => dial.wakes_at(),
            None => missing.due,
        });
        let deadline = self.outage.iter().map(|outage| outage.deadline);
        each.chain(deadline).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// The attempts that are under way.
    pub(super) fn dials(&self) -> impl Iterator<Item = &Dial> {
        self.in_turn().filter_map(|missing| missing.dial.as_ref())
    }

    /// Those that may be tried now: while there is no session, only the one that is to lead it.
    fn in_turn(&self) -> impl Iterator<Item = &Missing> {
        let many = match self.outage {
            Some(_) => 1,
            None => usize::MAX,
        };
        self.missing.iter().take(many)
    }

    /// Goes on with what can be done at `now`; connections that came up are added to `session` and
    /// `lines`.
    ///
    /// # Errors
    /// The outage's cause, when it has lasted for too long.
    pub(super) fn advance(
        &mut self,
        to: &Destination,
        session: &mut Session,
        lines: &mut Vec<Line>,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), InitiatorError> {
        if let Some(outage) = self.outage.take_if(|outage| now >= outage.deadline) {
            return Err(outage.cause);
        }
        let mut place = 0;
        while place < self.missing.len() {
            let leads = self.outage.is_some();
            let missing = &mut self.missing[place];
            let up = missing.advance(to, session, leads, now, trace);
            match up {
                Ok(Some(line)) => {
                    self.missing.remove(place);
                    lines.push(line);
                    if leads {
                        self.end_outage(session, now);
                    }
                    continue;
                }
                Ok(None) => {}
                Err(_) => {
                    missing.failed(now);
                    if leads {
                        // Another way may be open.
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

    /// There is a session again, which the other connections may join at once.
    fn end_outage(&mut self, session: &Session, now: Instant) {
        if let Some(outage) = self.outage.take() {
            self.totals.sessions += 1;
            self.totals.lost += now.since(outage.since);
        }
        let granted = usize::from(session.parameters().max_connections);
        self.missing.truncate(granted.saturating_sub(1));
        for missing in &mut self.missing {
            missing.due = now;
        }
    }
}

impl Missing {
    /// Goes on with the attempt, or begins one when it is due; gives the connection's socket when
    /// it is part of the session.
    fn advance(
        &mut self,
        to: &Destination,
        session: &mut Session,
        leads: bool,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<Option<Line>, InitiatorError> {
        let way = &to.ways[usize::from(self.cid)];
        let mut dial = match self.dial.take() {
            Some(dial) => dial,
            None if now < self.due => return Ok(None),
            None => {
                let login = to.login()?;
                let handshake = if leads {
                    session.reinstating(&login, self.cid)
                } else {
                    session.join(&login, self.cid)
                };
                let handshake = handshake.map_err(|source| to.login_error(way, source))?;
                let attempt = ATTEMPT + to.round_trip * ATTEMPT_ROUND_TRIPS;
                let patience = to.config.patience.min(attempt * (self.failures + 1));
                Dial::begin(way, handshake, to, patience, now)?
            }
        };
        if !dial.step(now)? {
            self.dial = Some(dial);
            return Ok(None);
        }
        let (stream, handshake) = dial.into_parts();
        let portal = way.route.portal();
        let line = Line::new(stream, portal.clone())?;
        let taken = if leads {
            session.reinstate(handshake, now, trace)
        } else {
            session.admit(handshake)
        };
        match taken {
            Ok(()) => Ok(Some(line)),
            Err(_) => Err(InitiatorError::Closed { portal }),
        }
    }

    fn failed(&mut self, now: Instant) {
        self.dial = None;
        self.failures = self.failures.saturating_add(1);
        self.due = self.backoff.failed(now);
    }
}

impl InitiatorError {
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
