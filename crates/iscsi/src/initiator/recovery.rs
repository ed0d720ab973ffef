//! Recovery of connections.
//!
//! A session whose connections are all up has nothing to recover. When one is lost at error recovery level 2, it logs
//! in to the session again, while the others continue. At levels 0 and 1 the session is lost with it (RFC 7143
//! §7.1.4.4, §7.1.5): all are closed, one leads a session that replaces the lost one, and the others join it, in
//! parallel and each at its own pace.

use std::collections::VecDeque;
use std::time::Duration;

use wansan_trace::{Instant, Recorder};

use super::{AdmitError, Backoff, Entry, Handshake, HandshakeError, LoginSettings, Session};

/// Number and duration of recoveries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Recoveries {
    /// Reinstated sessions.
    pub sessions: u64,
    /// Connections recovered within their session.
    pub connections: u64,
    /// Total time without any connection.
    pub lost: Duration,
}

/// Settings of a recovery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecoverySettings {
    /// The session's connections, one at least, each with its index as CID.
    pub connections: u16,
    /// Seeds the jitter of retries.
    pub seed: u64,
    /// Timeout for connecting and login together.
    pub patience: Duration,
    /// How long a session without connections may take to recover.
    pub replacement_timeout: Duration,
}

/// Connections as a driver makes them: `D` is a connection attempt, `L` an established one in its session, and `E` the
/// error of either.
pub trait Dialer<D, L, E> {
    /// The login settings of the next connection.
    ///
    /// # Errors
    /// When the settings are not available.
    fn login(&mut self) -> Result<LoginSettings, E>;
    /// Starts to connect over the route of that CID, to log in with `handshake`, all within `patience`.
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
    /// Does what is possible without blocking. Drops an attempt that fails.
    ///
    /// # Errors
    /// When the attempt has failed.
    fn step(&mut self, cid: u16, dial: D, now: Instant) -> Result<Step<D, L>, E>;
    /// When to step it even without input.
    fn wakes_at(dial: &D) -> Instant;
    /// Drops an attempt.
    fn give_up(&mut self, dial: D);
    /// Resets a connection.
    fn abort(&mut self, line: L);
    /// The error of a login over the route of that CID that could not start.
    fn refused(&self, cid: u16, source: HandshakeError) -> E;
    /// The error of a connection over the route of that CID that the session does not admit.
    fn not_admitted(&self, cid: u16, source: AdmitError) -> E;
    /// Whether the target lacks the session to join ([`HandshakeError::denies_the_session`]).
    fn denies_the_session(error: &E) -> bool;
    /// Where the session is recorded.
    fn trace(&mut self) -> &mut Recorder;
}

/// State of an attempt.
#[derive(Debug)]
pub enum Step<D, L> {
    /// Waiting for the target.
    Waits(D),
    /// The connection has logged in, and can enter its session.
    Ready(L, Entry),
}

/// A failure.
#[derive(Debug)]
pub struct Lost<E> {
    /// The connection at that index, or all of them.
    pub place: Option<usize>,
    /// Whether the session cannot continue without it at any error recovery level.
    pub ends_session: bool,
    /// The error.
    pub error: E,
}

/// A session was not recovered in time.
#[derive(Debug)]
pub struct NotBack<E> {
    /// Why it was lost.
    pub cause: E,
    /// Why the last completed attempt failed.
    pub last_failure: Option<E>,
}

/// A connection that is down.
#[derive(Debug)]
struct Missing<D> {
    /// Its CID, and the index of its route.
    cid: u16,
    backoff: Backoff,
    failures: u32,
    due: Instant,
    attempt: Option<Attempt<D>>,
}

/// A connection attempt in progress.
#[derive(Debug)]
struct Attempt<D> {
    dial: D,
    /// It leads a new session, instead of joining the present one.
    leads: bool,
}

/// A time without any connection.
#[derive(Debug)]
struct Outage<E> {
    since: Instant,
    deadline: Instant,
    cause: E,
    /// Why the last completed attempt failed.
    last_failure: Option<E>,
    /// The session is lost, so that another one replaces it.
    ends_session: bool,
}

/// The connections that are down, and the outage if all are.
///
/// [`lose`](Self::lose) takes failures. While it is not [idle](Self::is_idle), call [`advance`](Self::advance) when
/// there is input for one of its [dials](Self::dials), and when it [wakes](Self::wakes_at).
#[derive(Debug)]
pub struct Recovery<D, L, E> {
    /// While there is no session, the first one leads.
    missing: VecDeque<Missing<D>>,
    outage: Option<Outage<E>>,
    /// Remaining connections of a session lost with another one. Targets close them when they detect the loss. If we
    /// reset them all at once, they would end all at once there, where LIO's kernel (Linux 6.1) panics: it walks a
    /// session's connections while others of them end.
    left: Vec<L>,
    totals: Recoveries,
}

/// Path-independent part of an attempt's timeout, for a target that is starting.
const ATTEMPT: Duration = Duration::from_secs(2);
/// Round trips that an attempt may take: login takes four.
const ATTEMPT_ROUND_TRIPS: u32 = 20;

/// Timeout of one recovery attempt on a path with that round-trip time.
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

    /// Recoveries so far.
    #[must_use]
    pub fn totals(&self) -> Recoveries {
        self.totals
    }

    /// While all connections are down, why the last completed attempt failed.
    #[must_use]
    pub fn last_failure(&self) -> Option<&E> {
        self.outage.as_ref()?.last_failure.as_ref()
    }

    /// Stops recovering connections that are not being connected.
    pub fn settle(&mut self) {
        self.missing.retain(|missing| missing.attempt.is_some());
    }

    /// How long all connections have been down.
    #[must_use]
    pub fn cut_off(&self, now: Instant) -> Duration {
        let outage = self.outage.as_ref();
        outage.map_or(Duration::ZERO, |outage| now.since(outage.since))
    }

    /// Handles a loss. The session continues without a connection where error recovery level 2 allows that; otherwise
    /// another session replaces it. `lines` are those of its connections.
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
        // The standard's minimum (RFC 7143 §13.15) is exactly as long as LIO holds a closed connection; LIO then ends
        // the others of the session, which may take a moment.
        let wait = match lines.is_empty() {
            true => time2wait,
            false => time2wait * 3 / 2,
        };
        session.lose_all(now, dialer.trace());
        self.give_up_attempts(dialer);
        self.missing = Missing::all(settings, now + wait, now);
        self.left.append(lines);
        // A session lost again before it was complete continues the same outage.
        let outage = self
            .outage
            .get_or_insert(Outage::new(settings, error, true, now));
        outage.ends_session = true;
    }

    /// Whether the next connection has to lead a session.
    fn leads(&self) -> bool {
        let outage = self.outage.as_ref();
        outage.is_some_and(|outage| outage.ends_session)
    }

    /// When to act next, unless there is input for one of [`Recovery::dials`] first.
    pub fn wakes_at<X: Dialer<D, L, E>>(&self) -> Instant {
        let each = self.in_turn().map(|missing| match &missing.attempt {
            Some(attempt) => X::wakes_at(&attempt.dial),
            None => missing.due,
        });
        let deadline = self.outage.iter().map(|outage| outage.deadline);
        each.chain(deadline).min().unwrap_or(Instant::FAR_FUTURE)
    }

    /// The attempts in progress.
    pub fn dials(&self) -> impl Iterator<Item = &D> {
        let attempts = self
            .in_turn()
            .filter_map(|missing| missing.attempt.as_ref());
        attempts.map(|attempt| &attempt.dial)
    }

    /// Connections that may be tried now: while there is no session, only the one to lead it.
    fn in_turn(&self) -> impl Iterator<Item = &Missing<D>> {
        let many = if self.leads() { 1 } else { usize::MAX };
        self.missing.iter().take(many)
    }

    /// Does what is possible at `now`, on a path with that round-trip time; connections that came up are added to
    /// `session` and `lines`.
    ///
    /// # Errors
    /// [`NotBack`], when the outage has lasted too long.
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
                        // Only one may lead: two sessions with the same ISID would replace each other.
                        place = 0;
                    } else {
                        // The connections that seem to be up have to prove it: if they are, this one is left out until
                        // another session replaces theirs.
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
                        // Another route may work.
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

    /// The session that the missing connections waited for is lost: one of them leads another.
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

    /// A connection is up again, and if it `leads`, the others may join its session at once.
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

/// As the dialer decides.
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

    /// Continues the attempt, or starts one when due; returns the connection once it is part of the session.
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
                // An attempt that started with another session, or with none, is useless now.
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
