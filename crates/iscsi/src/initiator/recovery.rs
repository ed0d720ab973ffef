//! How connections come back.
//!
//! A session whose connections are all up has nothing here to do. When one dies at error recovery
//! level 2, it logs in to the session again, while the others work on. At levels 0 and 1 the session
//! is lost with it (RFC 7143 §7.1.4.4, §7.1.5): all are closed, one leads a session that takes the
//! place of the lost one, and the others join it, side by side and each at its own pace.

use std::collections::VecDeque;
use std::time::Duration;

use wansan_trace::{Instant, Recorder};

use super::{AdmitError, Backoff, Entry, Handshake, HandshakeError, LoginSettings, Session};

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

/// What bounds a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoverySettings {
    /// The session's connections, one at least, each with the CID of its place.
    pub connections: u16,
    /// Seeds the jitter of what is tried again.
    pub seed: u64,
    /// Timeout for connecting and login together.
    pub patience: Duration,
    /// How long a session without connections may take to recover.
    pub replacement_timeout: Duration,
}

/// Connections as a driver makes them: `D` is one on its way into a session, `L` one that is part of it, and `E` why
/// either fails.
pub trait Dialer<D, L, E> {
    /// What the next connection logs in with.
    ///
    /// # Errors
    /// When nothing can be had to log in with.
    fn login(&mut self) -> Result<LoginSettings, E>;
    /// Begins to connect over the route of that CID, to log in with `handshake`, all within `patience`.
    ///
    /// # Errors
    /// When that fails at once.
    fn begin(
        &mut self,
        cid: u16,
        handshake: Handshake,
        patience: Duration,
        now: Instant,
    ) -> Result<D, E>;
    /// Does what can be done without waiting. An attempt that fails is let go.
    ///
    /// # Errors
    /// When the attempt has failed.
    fn step(&mut self, cid: u16, dial: D, now: Instant) -> Result<Step<D, L>, E>;
    /// When it wants to be stepped though nothing has come.
    fn wakes_at(dial: &D) -> Instant;
    /// Lets an attempt go.
    fn give_up(&mut self, dial: D);
    /// Ends a connection at once.
    fn abort(&mut self, line: L);
    /// A login over the route of that CID that could not begin.
    fn refused(&self, cid: u16, source: HandshakeError) -> E;
    /// A connection over the route of that CID that the session does not take.
    fn not_admitted(&self, cid: u16, source: AdmitError) -> E;
    /// Whether the target has no session as the one to join ([`HandshakeError::denies_the_session`]).
    fn denies_the_session(error: &E) -> bool;
    /// Where records of the session go.
    fn trace(&mut self) -> &mut Recorder;
}

/// How far an attempt has come.
#[derive(Debug)]
pub enum Step<D, L> {
    /// It waits for the target.
    Waits(D),
    /// Its connection is ready for what it enters.
    Ready(L, Entry),
}

/// What has failed.
#[derive(Debug)]
pub struct Lost<E> {
    /// The connection at that place, or all of them.
    pub place: Option<usize>,
    /// Whether the session cannot go on without it whatever its error recovery level is.
    pub ends_session: bool,
    /// How.
    pub error: E,
}

/// A session was not recovered in its time.
#[derive(Debug)]
pub struct NotBack<E> {
    /// Why it was lost.
    pub cause: E,
    /// Why the last attempt that is over failed.
    pub last_failure: Option<E>,
}

/// A connection that is not up.
#[derive(Debug)]
struct Missing<D> {
    /// Its CID, and the place of its route.
    cid: u16,
    backoff: Backoff,
    failures: u32,
    due: Instant,
    attempt: Option<Attempt<D>>,
}

/// A connection attempt under way.
#[derive(Debug)]
struct Attempt<D> {
    dial: D,
    /// It is the leading connection of a new session, and does not join the present one.
    leads: bool,
}

/// A time without any connection.
#[derive(Debug)]
struct Outage<E> {
    since: Instant,
    deadline: Instant,
    cause: E,
    /// Why the last attempt that is over failed.
    last_failure: Option<E>,
    /// The session is gone, so that another one takes its place.
    ends_session: bool,
}

/// The connections that are not up, and the outage if none is.
///
/// [`lose`](Self::lose) takes what fails. While it is not [idle](Self::is_idle), [`advance`](Self::advance) is
/// called when something has come for one of its [dials](Self::dials), and when it [wakes](Self::wakes_at).
#[derive(Debug)]
pub struct Recovery<D, L, E> {
    /// While there is no session, the first one leads.
    missing: VecDeque<Missing<D>>,
    outage: Option<Outage<E>>,
    /// Connections of a session that was lost with another one. Targets end them when they find the
    /// session lost. Ended all at once by us, they would go all at once there, where LIO's kernel
    /// (Linux 6.1) panics: it walks through a session's connections while others of them go.
    left: Vec<L>,
    totals: Recoveries,
}

/// Part of an attempt's time that does not depend on the path, for a target that is starting.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Round trips that an attempt may take: login takes four.
const ATTEMPT_ROUND_TRIPS: u32 = 20;

/// How long one attempt to come back may take on a path of that round trip.
#[must_use]
pub fn attempt_time(round_trip: Duration) -> Duration {
    ATTEMPT + round_trip * ATTEMPT_ROUND_TRIPS
}

impl<D, L, E> Default for Recovery<D, L, E> {
    fn default() -> Self {
        Recovery {
            missing: VecDeque::new(),
            outage: None,
            left: Vec::new(),
            totals: Recoveries::default(),
        }
    }
}

impl<D, L, E> Recovery<D, L, E> {
    /// Whether all connections are up.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.missing.is_empty()
    }

    /// What has been recovered.
    #[must_use]
    pub fn totals(&self) -> Recoveries {
        self.totals
    }

    /// While there is no connection at all, why the last attempt that is over failed.
    #[must_use]
    pub fn last_failure(&self) -> Option<&E> {
        self.outage.as_ref()?.last_failure.as_ref()
    }

    /// Leaves missing what is not being connected.
    pub fn settle(&mut self) {
        self.missing.retain(|missing| missing.attempt.is_some());
    }

    /// How long there has been no connection at all.
    #[must_use]
    pub fn cut_off(&self, now: Instant) -> Duration {
        let outage = self.outage.as_ref();
        outage.map_or(Duration::ZERO, |outage| now.since(outage.since))
    }

    /// Takes in what is lost. The session goes on without a connection where error recovery level 2 allows that; else
    /// another one takes its place. `lines` are those of its connections.
    pub fn lose(
        &mut self,
        settings: &RecoverySettings,
        session: &mut Session,
        lines: &mut Vec<L>,
        lost: Lost<E>,
        dialer: &mut impl Dialer<D, L, E>,
        now: Instant,
    ) {
        let Lost {
            place,
            ends_session,
            error,
        } = lost;
        let alone = place.filter(|_| !ends_session);
        let cid = alone.map(|place| session.connections()[place].id().0);
        if let (Some(place), Some(cid)) = (alone, cid)
            && session.lose(place, now, dialer.trace())
        {
            dialer.abort(lines.remove(place));
            let is_last = lines.is_empty();
            self.missing
                .push_back(Missing::new(settings, cid, now, now));
            if is_last {
                self.outage
                    .get_or_insert(Outage::new(settings, error, false, now));
            }
            return;
        }
        if let Some(place) = alone {
            dialer.abort(lines.remove(place));
        }
        let time2wait = Duration::from_secs(session.parameters().time2wait_s.into());
        // The least that the standard asks for (RFC 7143 §13.15) is just as long as LIO holds an ended
        // connection; it then ends the others of the session, which may take it a moment.
        let wait = match lines.is_empty() {
            true => time2wait,
            false => time2wait * 3 / 2,
        };
        session.lose_all(now, dialer.trace());
        self.give_up_attempts(dialer);
        self.missing = Missing::all(settings, now + wait, now);
        self.left.append(lines);
        // One that is lost again before it was whole goes on with the same outage.
        let outage = self
            .outage
            .get_or_insert(Outage::new(settings, error, true, now));
        outage.ends_session = true;
    }

    /// Whether the connection that comes next has to lead a session.
    fn leads(&self) -> bool {
        let outage = self.outage.as_ref();
        outage.is_some_and(|outage| outage.ends_session)
    }

    /// When the next thing is to be done, unless something comes for one of [`Recovery::dials`] first.
    pub fn wakes_at<X: Dialer<D, L, E>>(&self) -> Instant {
        let each = self.in_turn().map(|missing| match &missing.attempt {
            Some(attempt) => X::wakes_at(&attempt.dial),
            None => missing.due,
        });
        let deadline = self.outage.iter().map(|outage| outage.deadline);
        each.chain(deadline).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// The attempts that are under way.
    pub fn dials(&self) -> impl Iterator<Item = &D> {
        let attempts = self
            .in_turn()
            .filter_map(|missing| missing.attempt.as_ref());
        attempts.map(|attempt| &attempt.dial)
    }

    /// Those that may be tried now: while there is no session, only the one that is to lead it.
    fn in_turn(&self) -> impl Iterator<Item = &Missing<D>> {
        let many = if self.leads() { 1 } else { usize::MAX };
        self.missing.iter().take(many)
    }

    /// Goes on with what can be done at `now`, on a path of that round trip; connections that came up are added to
    /// `session` and `lines`.
    ///
    /// # Errors
    /// [`NotBack`], when the outage has lasted for too long.
    pub fn advance(
        &mut self,
        settings: &RecoverySettings,
        round_trip: Duration,
        session: &mut Session,
        lines: &mut Vec<L>,
        dialer: &mut impl Dialer<D, L, E>,
        now: Instant,
    ) -> Result<(), NotBack<E>> {
        if let Some(outage) = self.outage.take_if(|outage| now >= outage.deadline) {
            return Err(NotBack {
                cause: outage.cause,
                last_failure: outage.last_failure,
            });
        }
        if self.in_turn().any(|missing| now >= missing.due) {
            for line in self.left.drain(..) {
                dialer.abort(line);
            }
        }
        let mut place = 0;
        while place < self.missing.len() {
            let leads = self.leads();
            let missing = &mut self.missing[place];
            let up = missing.advance(settings, round_trip, session, leads, dialer, now);
            match up {
                Ok(Some(line)) => {
                    self.missing.remove(place);
                    lines.push(line);
                    self.totals.connections += u64::from(!leads);
                    self.end_outage(leads, session, now);
                    continue;
                }
                Ok(None) => {}
                Err(error) if !leads && denies_the_session(dialer, &error) => {
                    if self.outage.is_some() {
                        session.lose_all(now, dialer.trace());
                        self.end_session(settings, dialer, now);
                        // Only one may lead: two sessions of one ISID would push each other out.
                        place = 0;
                    } else {
                        // The connections that seem to be up have to show it: if they are, this one
                        // is left out until another session takes the place of theirs.
                        self.missing.remove(place);
                        session.ping(now, dialer.trace());
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
    fn end_session(
        &mut self,
        settings: &RecoverySettings,
        dialer: &mut impl Dialer<D, L, E>,
        now: Instant,
    ) {
        self.give_up_attempts(dialer);
        self.missing = Missing::all(settings, now, now);
        if let Some(outage) = &mut self.outage {
            outage.ends_session = true;
        }
    }

    fn give_up_attempts(&mut self, dialer: &mut impl Dialer<D, L, E>) {
        for missing in self.missing.drain(..) {
            if let Some(attempt) = missing.attempt {
                dialer.give_up(attempt.dial);
            }
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

/// As the dialer says it.
fn denies_the_session<D, L, E, X: Dialer<D, L, E>>(_: &X, error: &E) -> bool {
    X::denies_the_session(error)
}

impl<E> Outage<E> {
    fn new(settings: &RecoverySettings, cause: E, ends_session: bool, now: Instant) -> Outage<E> {
        Outage {
            since: now,
            deadline: now + settings.replacement_timeout,
            cause,
            last_failure: None,
            ends_session,
        }
    }
}

impl<D> Missing<D> {
    /// All connections of a session.
    fn all(settings: &RecoverySettings, due: Instant, now: Instant) -> VecDeque<Missing<D>> {
        let each = (0..settings.connections).map(|cid| Missing::new(settings, cid, due, now));
        each.collect()
    }

    fn new(settings: &RecoverySettings, cid: u16, due: Instant, now: Instant) -> Missing<D> {
        let seed = settings.seed ^ now.ns().rotate_left(48);
        Missing {
            cid,
            backoff: Backoff::new(seed ^ u64::from(cid)),
            failures: 0,
            due,
            attempt: None,
        }
    }

    /// Goes on with the attempt, or begins one when it is due; gives the connection when it is part of the session.
    fn advance<L, E>(
        &mut self,
        settings: &RecoverySettings,
        round_trip: Duration,
        session: &mut Session,
        leads: bool,
        dialer: &mut impl Dialer<D, L, E>,
        now: Instant,
    ) -> Result<Option<L>, E> {
        let cid = self.cid;
        let dial = match self.attempt.take() {
            Some(begun) if begun.leads == leads => begun.dial,
            begun => {
                // One that began when there was another session, or none, is of no use any more.
                if let Some(begun) = begun {
                    dialer.give_up(begun.dial);
                }
                if now < self.due || (!leads && !session.may_join(cid)) {
                    return Ok(None);
                }
                let login = dialer.login()?;
                let handshake = match leads {
                    true => session.reinstating(&login, cid),
                    false => session.join(&login, cid),
                };
                let handshake = handshake.map_err(|source| dialer.refused(cid, source))?;
                let attempt = attempt_time(round_trip);
                let patience = settings.patience.min(attempt * (self.failures + 1));
                dialer.begin(cid, handshake, patience, now)?
            }
        };
        let (line, entry) = match dialer.step(cid, dial, now)? {
            Step::Waits(dial) => {
                self.attempt = Some(Attempt { dial, leads });
                return Ok(None);
            }
            Step::Ready(line, entry) => (line, entry),
        };
        let taken = match entry {
            Entry::Leads(lead) => session.reinstate(*lead, now, dialer.trace()),
            Entry::Joins(handshake) => session.admit(*handshake),
        };
        match taken {
            Ok(()) => Ok(Some(line)),
            Err(source) => {
                dialer.abort(line);
                Err(dialer.not_admitted(cid, source))
            }
        }
    }

    fn failed(&mut self, now: Instant) {
        self.attempt = None;
        self.failures = self.failures.saturating_add(1);
        self.due = self.backoff.failed(now);
    }
}
