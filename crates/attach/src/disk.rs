//! A logical unit as a disk: operations of any length, over a session that is reestablished when lost.

mod facts;
mod open;
mod others;
mod piece;
mod verdict;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wansan_cache::{Action, Extent, Failure, Operation, Outcome, Range};
use wansan_iscsi::initiator::{Completion, Recoveries, Transfer};
use wansan_iscsi::scsi::{Cdb, opcode};
use wansan_iscsi::wire::{Lun, Residual};
use wansan_san::initiator::InitiatorError;
use wansan_san::load::LoadError;
use wansan_san::multipath::RouteEvent;
use wansan_san::url::IscsiUrl;
use wansan_san::{Claim, InitiatorConfig, Registering, Sessions};
use wansan_trace::{Instant, Kinds, Recorder, SessionId, TaskTag, clock};

pub use self::facts::Facts;
use self::open::{Kind, Open};
use self::others::{News, Others, Reply};
use self::piece::{Piece, Pieces, command};
use self::verdict::{Attention, Verdict, verdict};
use crate::status::Sharing;

/// Inconclusive answers to a command, such as unit attentions, before it fails.
const TRIES: u8 = 8;

/// Retries of a command that the disk asks to be sent later, and the delay between them.
const LATER_TRIES: u8 = 60;
const LATER: Duration = Duration::from_millis(500);

/// Most outstanding commands of one operation on a long range.
const MOST_PIECES: usize = 8;

/// Operation number of the commands that query other hosts' reservations.
const OTHERS: u64 = u64::MAX;

/// Delay between logins after a session is lost, and poll interval for their outcome.
const RELOGIN: Duration = Duration::from_secs(2);
const LOOK: Duration = Duration::from_millis(50);

/// A disk could not be attached.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// No session.
    #[error(transparent)]
    Session(#[from] InitiatorError),
    /// The LUN does not exist or does not answer.
    #[error(transparent)]
    Unit(#[from] LoadError),
    /// A different disk is at this URL now.
    #[error(
        "{url} is another disk now, or a smaller one, and is left alone: acknowledged writes are kept until the right one is back"
    )]
    OtherDisk {
        /// The URL.
        url: String,
    },
    /// The kernel has no descriptors left.
    #[error("cannot wait for the session: {0}")]
    Wait(#[from] std::io::Error),
}

/// A disk on a target. [`Disk::submit`] queues operations, [`Disk::turn`] sends, waits and receives, and
/// [`Disk::poll_done`] returns completions. A session lost for good is replaced by a new one, to which every unanswered
/// command is sent again; until then nothing fails.
#[derive(Debug)]
pub struct Disk {
    url: IscsiUrl,
    at: Lun,
    config: InitiatorConfig,
    facts: Facts,
    link: Link,
    waker: OwnedFd,
    operations: BTreeMap<u64, Open>,
    commands: BTreeMap<u64, Sent>,
    next_command: u64,
    /// Commands not yet handed to the session, with their operations' numbers.
    waiting: VecDeque<(u64, Piece)>,
    /// Commands to retry, and when.
    delayed: VecDeque<(Instant, u64, Piece)>,
    /// Whether the disk supports WRITE SAME; assumed until it refuses.
    writes_same: bool,
    others: Others,
    done: VecDeque<Finished>,
    events: VecDeque<DiskEvent>,
    /// Records of lost sessions.
    records: Vec<Recorder>,
}

/// A completed operation.
#[derive(Debug)]
pub struct Finished {
    /// Its number.
    pub tag: u64,
    /// Its result.
    pub outcome: Outcome,
    /// The last command answered, if any.
    pub command: Option<(SessionId, TaskTag)>,
}

/// An event on a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskEvent {
    /// Other initiators may have changed its data.
    Changed,
    /// It was reset and may have lost unflushed writes.
    Reset,
    /// Whether others may write to it at any time has changed; reported only after [`Disk::look_for_others`].
    Shared(Option<Sharing>),
    /// The session is lost, with the reason. The disk waits for a new one.
    Lost(String),
    /// Another login attempt failed, with the reason.
    StillLost(String),
    /// A new session is up.
    Back,
    /// Another host has taken the disk over, and how: no more operations are executed.
    Preempted(String),
    /// One of several routes went down or came up.
    Route(RouteEvent),
    /// An operation failed, with the reason.
    Failed(String),
}

/// Outcome of a login: the session, or one per route, and what the disk reports now.
type LoggedIn = Result<(Sessions, Facts), DiskError>;

#[derive(Debug)]
enum Link {
    Up(Sessions),
    Down {
        since: Instant,
        attempt: Option<Receiver<LoggedIn>>,
        next: Instant,
        /// The last reason reported: a repeated reason is not reported again.
        said: String,
    },
    /// Another host has removed this host's registered key.
    Preempted,
}

/// A command that is outstanding or waiting.
#[derive(Debug)]
struct Sent {
    tag: u64,
    range: Range,
    cdb: Cdb,
    /// Unit attentions received for it, and retries that the disk asked for.
    attentions: u8,
    tries: u8,
}

impl Disk {
    /// Logs in and queries the disk. `waker` ends a [`Disk::turn`] when it becomes readable. Records of `kinds` use at
    /// most `record_bytes`.
    ///
    /// # Errors
    /// [`DiskError`].
    pub fn connect(
        url: IscsiUrl,
        config: InitiatorConfig,
        waker: OwnedFd,
        (kinds, record_bytes): (Kinds, usize),
    ) -> Result<Disk, DiskError> {
        let at = wansan_san::load::address(url.lun)?;
        let (sessions, facts) = log_in(&url, at, &config, (kinds, record_bytes))?;
        // The portal that listed the others may be unreachable later.
        let routes = sessions.routes();
        let reservation = sessions.kept();
        let own = reservation
            .as_ref()
            .map(|reservation| reservation.key.host());
        let config = InitiatorConfig {
            routes,
            reservation,
            ..config
        };
        let mut disk = Disk {
            url,
            at,
            config,
            facts,
            link: Link::Up(sessions),
            waker,
            operations: BTreeMap::new(),
            commands: BTreeMap::new(),
            next_command: 0,
            waiting: VecDeque::new(),
            delayed: VecDeque::new(),
            writes_same: true,
            others: Others::new(own),
            done: VecDeque::new(),
            events: VecDeque::new(),
            records: Vec::new(),
        };
        disk.watch_waker()?;
        Ok(disk)
    }

    fn watch_waker(&mut self) -> std::io::Result<()> {
        if let Link::Up(sessions) = &mut self.link {
            sessions.wake_by(self.waker.try_clone()?);
        }
        Ok(())
    }

    /// Starts checking whether other initiators use the disk; reported as [`DiskEvent::Shared`].
    pub fn look_for_others(&mut self) {
        self.others.begin();
    }

    /// Capacity, modes and limits that the disk reported.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// How long no connection to the target has been up; zero while one is.
    #[must_use]
    pub fn cut_off(&self, now: Instant) -> Duration {
        match &self.link {
            Link::Up(sessions) => sessions.cut_off(now),
            Link::Down { since, .. } => now - *since,
            Link::Preempted => Duration::ZERO,
        }
    }

    /// Whether there is no session and its recovery time has expired.
    #[must_use]
    pub fn is_down(&self) -> bool {
        matches!(self.link, Link::Down { .. })
    }

    /// Whether another host has taken it over: no more operations are executed.
    #[must_use]
    pub fn is_preempted(&self) -> bool {
        matches!(self.link, Link::Preempted)
    }

    /// Connections that are up, and connections configured; zero are up while there is no session.
    #[must_use]
    pub fn connections(&self) -> (usize, usize) {
        match &self.link {
            Link::Up(sessions) => sessions.connections(),
            Link::Down { .. } | Link::Preempted => (0, self.config.routes.len()),
        }
    }

    /// Recoveries of the current session.
    #[must_use]
    pub fn recoveries(&self) -> Recoveries {
        match &self.link {
            Link::Up(sessions) => sessions.recoveries(),
            Link::Down { .. } | Link::Preempted => Recoveries::default(),
        }
    }

    /// Queues an operation.
    pub fn submit(&mut self, operation: Operation) {
        let Operation { tag, action } = operation;
        let range = action.range();
        let kind = match &action {
            Action::Read { .. } => Kind::Read,
            Action::Status { one, .. } => Kind::Status { one: *one },
            Action::Zero { fast, .. } => Kind::Zero { fast: *fast },
            _ => Kind::Other,
        };
        let made = Pieces::of(action, &self.facts, self.writes_same);
        let Pieces {
            pieces,
            rest,
            then_flush,
        } = match made {
            Ok(pieces) => pieces,
            Err(failure) => {
                return self.done.push_back(Finished {
                    tag,
                    outcome: Err(failure),
                    command: None,
                });
            }
        };
        let has_parts = kind == Kind::Read && pieces.len() != 1;
        let open = Open {
            kind,
            range,
            left: pieces.len(),
            rest: rest.into_iter().collect(),
            then_flush,
            data: vec![0; if has_parts { range.bytes() as usize } else { 0 }],
            extents: Vec::new(),
            failure: None,
            command: None,
        };
        self.operations.insert(tag, open);
        self.enqueue(tag, pieces);
        self.go_on(tag);
    }

    /// Queues the next commands of an operation, up to its limit, or completes it.
    fn go_on(&mut self, tag: u64) {
        let Some(open) = self.operations.get_mut(&tag) else {
            return;
        };
        let mut pieces = Vec::new();
        while open.left + pieces.len() < MOST_PIECES
            && open.failure.is_none()
            && let Some(rest) = open.rest.front_mut()
        {
            match rest.next(&self.facts) {
                Some(piece) => pieces.push(piece),
                None => drop(open.rest.pop_front()),
            }
        }
        open.left += pieces.len();
        self.enqueue(tag, pieces);
        self.settle(tag);
    }

    fn enqueue(&mut self, tag: u64, pieces: Vec<Piece>) {
        for piece in pieces {
            let number = self.next_command;
            self.next_command += 1;
            let sent = Sent {
                tag,
                range: piece.range,
                cdb: piece.cdb,
                attentions: 0,
                tries: 0,
            };
            self.commands.insert(number, sent);
            self.waiting.push_back((number, piece));
        }
    }

    /// The next completed operation.
    pub fn poll_done(&mut self) -> Option<Finished> {
        self.done.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<DiskEvent> {
        self.events.pop_front()
    }

    /// Whether nothing is outstanding.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.operations.is_empty() && self.done.is_empty()
    }

    /// Sends what it can, waits until `deadline` for an answer or for the waker, and processes what arrived.
    ///
    /// # Errors
    /// The kernel's error from waiting.
    pub fn turn(&mut self, deadline: Instant) -> Result<(), DiskError> {
        let now = clock::now();
        while let Some((at, ..)) = self.delayed.front()
            && *at <= now
            && let Some((_, number, piece)) = self.delayed.pop_front()
        {
            self.waiting.push_back((number, piece));
        }
        let later = self
            .delayed
            .front()
            .map_or(Instant::FAR_FUTURE, |(at, ..)| *at);
        let deadline = deadline.min(later);
        if let Link::Up(sessions) = &self.link
            && now >= self.others.next()
            && sessions.cut_off(now).is_zero()
        {
            let ask = self.others.ask(now);
            self.enqueue(OTHERS, vec![ask]);
        }
        self.hand_over();
        if let Link::Up(sessions) = &mut self.link {
            if let Err(error) = sessions.turn(deadline) {
                self.take_completions();
                self.lose(&error);
                return Ok(());
            }
            self.take_completions();
            return Ok(());
        }
        self.await_session(deadline)
    }

    /// The next command to send: while this host's key may have been removed, only the query for keys.
    fn next_piece(&mut self) -> Option<(u64, Piece)> {
        if !self.others.is_doubtful() {
            return self.waiting.pop_front();
        }
        let asks = |(number, _): &(u64, Piece)| {
            let sent = self.commands.get(number);
            sent.is_some_and(|sent| sent.tag == OTHERS)
        };
        let place = self.waiting.iter().position(asks)?;
        self.waiting.remove(place)
    }

    /// Hands commands to the session while it accepts them.
    fn hand_over(&mut self) {
        if !matches!(self.link, Link::Up(_)) {
            return;
        }
        let now = clock::now();
        while let Some((number, piece)) = self.next_piece()
            && let Link::Up(sessions) = &mut self.link
        {
            let Piece {
                range,
                cdb,
                transfer,
            } = piece;
            let command = command(self.at, cdb, transfer, number);
            if let Err(full) = sessions.submit(command, now) {
                let transfer = full.0.transfer;
                let piece = Piece {
                    range,
                    cdb,
                    transfer,
                };
                self.waiting.push_front((number, piece));
                return;
            }
        }
    }

    fn take_completions(&mut self) {
        while let Link::Up(sessions) = &mut self.link
            && let Some((session, done)) = sessions.poll_completion(clock::now())
        {
            self.complete(done, session);
        }
        while let Link::Up(sessions) = &mut self.link
            && let Some(event) = sessions.poll_event()
        {
            match event {
                RouteEvent::Attention { additional, .. } => self.heed(Attention::of(additional)),
                event => self.events.push_back(DiskEvent::Route(event)),
            }
        }
    }

    fn complete(&mut self, done: Completion, session: SessionId) {
        let number = done.user;
        let Some(Sent { tag, range, .. }) = self.commands.get(&number) else {
            return;
        };
        let (tag, range) = (*tag, *range);
        let verdict = verdict(&done.outcome);
        if let Verdict::Failed(Failure::NotPermitted, _) = verdict {
            self.others.hurry();
        }
        let attention = match verdict {
            Verdict::Again(attention) => Some(attention),
            _ => None,
        };
        if let Some(attention) = attention {
            self.heed(attention);
        }
        let Some(sent) = self.commands.get_mut(&number) else {
            return;
        };
        if verdict == Verdict::Lost || attention.is_some() && sent.attentions < TRIES {
            sent.attentions += u8::from(attention.is_some());
            let piece = Piece {
                range,
                cdb: sent.cdb,
                transfer: done.transfer,
            };
            self.waiting.push_back((number, piece));
            return;
        }
        if let Verdict::Later(_) = verdict
            && sent.tries < LATER_TRIES
        {
            sent.tries += 1;
            let piece = Piece {
                range,
                cdb: sent.cdb,
                transfer: done.transfer,
            };
            self.delayed
                .push_back((clock::now() + LATER, number, piece));
            return;
        }
        let cdb = sent.cdb;
        self.commands.remove(&number);
        if tag == OTHERS {
            return self.take_others(&verdict, &done.transfer);
        }
        let Some(open) = self.operations.get_mut(&tag) else {
            return;
        };
        open.left -= 1;
        open.command = Some((session, done.task));
        match verdict {
            Verdict::Good => {
                let is_short = done
                    .outcome
                    .is_ok_and(|answer| answer.residual != Residual::None);
                let taken = match open.kind == Kind::Read && is_short {
                    true => Err(Failure::Io),
                    false => open.take(range, done.transfer, &self.facts),
                };
                if let Err(failure) = taken {
                    open.failure.get_or_insert(failure);
                }
            }
            // GET LBA STATUS is not supported: treat everything as data.
            Verdict::Failed(Failure::NotSupported | Failure::Invalid, _)
                if cdb[0] == opcode::SERVICE_ACTION_IN_16 =>
            {
                open.extents.push(Extent::data(range.bytes()));
            }
            Verdict::Failed(Failure::NotSupported | Failure::Invalid, _)
                if cdb[0] == opcode::WRITE_SAME_16 && matches!(open.kind, Kind::Zero { .. }) =>
            {
                self.writes_same = false;
                open.write_zeros(range);
            }
            // A disk without a cache need not support the flush command.
            Verdict::Failed(Failure::NotSupported, _)
                if [opcode::SYNCHRONIZE_CACHE_10, opcode::SYNCHRONIZE_CACHE_16]
                    .contains(&cdb[0]) => {}
            Verdict::Failed(failure, why) => {
                open.failure.get_or_insert(failure);
                self.events.push_back(DiskEvent::Failed(why));
            }
            // A lost command was requeued above.
            Verdict::Again(_) | Verdict::Lost => {
                open.failure.get_or_insert(Failure::Io);
                let why = "the target answers each try with UNIT ATTENTION".to_owned();
                self.events.push_back(DiskEvent::Failed(why));
            }
            Verdict::Later(why) => {
                open.failure.get_or_insert(Failure::Io);
                self.events.push_back(DiskEvent::Failed(why));
            }
        }
        self.go_on(tag);
    }

    /// Handles a unit attention.
    fn heed(&mut self, attention: Attention) {
        self.others.hurry();
        self.events.push_back(match attention {
            Attention::Reset => DiskEvent::Reset,
            Attention::ModesChanged | Attention::Other => DiskEvent::Changed,
        });
        if attention == Attention::ModesChanged {
            self.assume_write_cache();
        }
    }

    /// Its modes may have changed: assume a volatile cache until the next login queries them.
    pub(crate) fn assume_write_cache(&mut self) {
        self.facts.modes.has_write_cache = true;
    }

    fn take_others(&mut self, verdict: &Verdict, transfer: &Transfer) {
        let reply = match (verdict, transfer) {
            (Verdict::Good, Transfer::Read(data)) => Reply::Keys(data),
            (Verdict::Failed(Failure::NotPermitted, _), _) => Reply::Reserved,
            // Any other failure may be transient.
            (Verdict::Failed(Failure::NotSupported, _), _) => Reply::Unsupported,
            _ => Reply::Failed,
        };
        match self.others.answered(reply, clock::now()) {
            Some(News::Sharing(sharing)) => self.events.push_back(DiskEvent::Shared(sharing)),
            Some(News::Changed) => self.events.push_back(DiskEvent::Changed),
            Some(News::Preempted(others)) => {
                if let Some(reservation) = &self.config.reservation {
                    self.give_up(&InitiatorError::Preempted {
                        lun: self.url.lun,
                        key: reservation.key.host().get(),
                        others,
                    });
                }
            }
            None => {}
        }
    }

    /// Another host has the disk. Starts no more sessions: they would undo the other host's takeover.
    fn give_up(&mut self, preempted: &InitiatorError) {
        self.events
            .push_back(DiskEvent::Preempted(preempted.to_string()));
        if let Link::Up(sessions) = std::mem::replace(&mut self.link, Link::Preempted) {
            self.records.extend(sessions.into_records());
        }
    }

    /// Completes an operation all of whose commands are answered.
    fn settle(&mut self, tag: u64) {
        let Some(open) = self.operations.get_mut(&tag) else {
            return;
        };
        if open.left > 0 || open.failure.is_none() && !open.rest.is_empty() {
            return;
        }
        if std::mem::take(&mut open.then_flush) && open.failure.is_none() {
            open.left = 1;
            return self.enqueue(tag, vec![Piece::flush()]);
        }
        if let Some(open) = self.operations.remove(&tag) {
            let command = open.command;
            let outcome = open.outcome();
            self.done.push_back(Finished {
                tag,
                outcome,
                command,
            });
        }
    }

    fn lose(&mut self, why: &InitiatorError) {
        if let InitiatorError::Preempted { .. } = why {
            return self.give_up(why);
        }
        let now = clock::now();
        self.events.push_back(DiskEvent::Lost(why.to_string()));
        let down = Link::Down {
            since: now,
            attempt: None,
            next: now,
            said: String::new(),
        };
        if let Link::Up(sessions) = std::mem::replace(&mut self.link, down) {
            self.records.extend(sessions.into_records());
        }
    }

    /// Waits for the waker while another thread logs in.
    fn await_session(&mut self, deadline: Instant) -> Result<(), DiskError> {
        let now = clock::now();
        let Link::Down {
            attempt,
            next,
            said,
            ..
        } = &mut self.link
        else {
            return self.wait(deadline - now);
        };
        match attempt.as_ref().map(Receiver::try_recv) {
            None if now >= *next => {
                let (to, from) = channel();
                if let Some(reservation) = &mut self.config.reservation {
                    reservation.registering = Registering::default();
                }
                let (url, at, config) = (self.url.clone(), self.at, self.config.clone());
                let known = self.facts.clone();
                let login = thread::Builder::new().name("log in".to_owned());
                let spawned = login.spawn(move || {
                    let found = log_in(&url, at, &config, (Kinds::NONE, 0));
                    let found = found.and_then(|(sessions, facts)| {
                        if facts.identity.is(&known.identity) {
                            return Ok((sessions, facts));
                        }
                        // Do not leave a different disk reserved.
                        drop(sessions.logout());
                        Err(DiskError::OtherDisk {
                            url: url.to_string(),
                        })
                    });
                    // Nobody receives this once the disk is detached, unless it has registered.
                    let _ = to.send(found);
                });
                match spawned {
                    Ok(_) => *attempt = Some(from),
                    Err(error) => {
                        *next = now + RELOGIN;
                        self.events
                            .push_back(DiskEvent::StillLost(error.to_string()));
                    }
                }
            }
            None | Some(Err(TryRecvError::Empty)) => {}
            Some(Ok(Ok((sessions, facts)))) => {
                self.facts = facts;
                self.link = Link::Up(sessions);
                self.watch_waker()?;
                // Another host may have written to it meanwhile.
                self.events.push_back(DiskEvent::Changed);
                self.others.hurry();
                self.events.push_back(DiskEvent::Back);
                return Ok(());
            }
            Some(Ok(Err(DiskError::Session(error @ InitiatorError::Preempted { .. })))) => {
                self.give_up(&error);
                return Ok(());
            }
            Some(failed) => {
                let why = match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => "the login has panicked".to_owned(),
                };
                (*attempt, *next) = (None, now + RELOGIN);
                if *said != why {
                    said.clone_from(&why);
                    self.events.push_back(DiskEvent::StillLost(why));
                }
            }
        }
        self.wait((deadline - now).min(LOOK))
    }

    /// Waits for the waker.
    fn wait(&self, left: Duration) -> Result<(), DiskError> {
        let mut fds = [PollFd::new(&self.waker, PollFlags::IN)];
        let timeout = Timespec::try_from(left).ok();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(errno) => Err(std::io::Error::from(errno).into()),
        }
    }

    /// Logs out and abandons outstanding commands. Returns the records, up to the loss of the first session, and, if
    /// this host's key may still be registered, the reason in one line.
    #[must_use]
    pub fn detach(mut self) -> (Vec<Recorder>, Option<String>) {
        let reservation = self.config.reservation.as_ref();
        let mut left = None;
        match self.link {
            Link::Up(mut sessions) => {
                left = sessions.release();
                self.records.extend(sessions.logout());
            }
            Link::Down { attempt, .. } => {
                // A login that has not registered yet will not do so now; wait for one that has.
                let is_registered = reservation.is_some_and(|it| it.registering.end());
                let attempt = attempt.filter(|_| is_registered);
                let patience = self.config.patience;
                left = match attempt.and_then(|attempt| attempt.recv_timeout(patience).ok()) {
                    Some(Ok((mut sessions, _))) => sessions.release(),
                    _ => {
                        reservation.map(|it| it.stays(&self.url.to_string(), "there is no session"))
                    }
                };
            }
            Link::Preempted => {}
        }
        (self.records, left)
    }
}

fn log_in(
    url: &IscsiUrl,
    at: Lun,
    config: &InitiatorConfig,
    (kinds, record_bytes): (Kinds, usize),
) -> LoggedIn {
    let mut sessions = Sessions::connect(url, config, kinds, record_bytes)?;
    match Facts::ask(&mut sessions, url.lun, at) {
        Ok(facts) => {
            sessions.expect_unit(url.lun, at, &facts.identity);
            Ok((sessions, facts))
        }
        Err(error) => {
            // Release the reservation, unless the disk was reserved before.
            let claim = config
                .reservation
                .as_ref()
                .map(|reservation| &reservation.claim);
            if !matches!(claim, Some(Claim::Keep(_))) {
                drop(sessions.logout());
            }
            Err(error.into())
        }
    }
}
