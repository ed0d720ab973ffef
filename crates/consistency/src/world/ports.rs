//! Initiator ports: the steps of their scripts, completions, and lost connections.

use wansan_iscsi::initiator::{
    Command, Completion, Event as SessionEvent, Handshake, HandshakeError, LoginSettings, Schedule,
    Session, SessionError, TaskError,
};
use wansan_iscsi::wire::{Lun, TaskAttribute, TaskManagementFunction};
use wansan_trace::TaskTag;

use super::links::{Link, Near};
use super::{TargetSide, World};
use crate::block::{BLOCK_BYTES, word_of};
use crate::command::{Effect, Surroundings, build};
use crate::history::{Function, ReserveOut, Script, Scsi, Step};
use crate::initiator_port;
use crate::observer::Answered;
use crate::oracle::Rule;

/// An initiator port with its session, and those that follow it.
pub(crate) struct Port {
    pub(crate) host: u8,
    /// Its number among the initiator ports.
    pub(crate) number: u16,
    login: LoginSettings,
    pub(super) session: Option<Session>,
    pub(super) state: State,
    /// The oracle's number of the session.
    pub(crate) oracle_session: u32,
    /// The oracle's number of the session before it.
    previous: Option<u32>,
    cursor: usize,
    /// Commands submitted but not completed: tag and command.
    pub(super) submitted: Vec<(u32, u32)>,
    /// Commands on the wire: tag, CmdSN and attempt.
    pub(super) sent: Vec<(u32, u32, u32)>,
    /// Responses whose data the session still holds.
    pub(super) with_data: Vec<(u32, u32, usize, Answered)>,
    /// Task management functions without a response: tag, the oracle's number, and the connection.
    pub(super) managing: Vec<(u32, u32, usize)>,
    /// CIDs of connections for which a Logout Request was sent.
    pub(super) removed: Vec<u16>,
    /// Functions that the session has not sent yet: tag, function and unit.
    pub(super) functions: Vec<(u32, Function, u8)>,
    /// Number of ISID changes, modulo [`ISIDS`](initiator_port::ISIDS).
    renewals: u8,
    failures: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// No session, or one to be reinstated.
    Down,
    /// A connection logs in.
    Leading,
    Up,
    /// A Logout Request with that tag has no response yet.
    LoggingOut(u32),
}

/// Maximum number of concurrent tasks of a session.
const TASKS: usize = 40;

impl Port {
    pub(crate) fn new(script: &Script, number: usize, target: &str) -> Port {
        Port {
            host: script.host,
            number: initiator_port::number(number, 0),
            login: LoginSettings {
                initiator: initiator_port::name(script.host),
                isid: initiator_port::isid(number, 0),
                target: Some(target.to_owned()),
                chap: None,
                wanted: super::wanted(&script.keys),
            },
            session: None,
            state: State::Down,
            oracle_session: u32::MAX,
            previous: None,
            cursor: 0,
            submitted: Vec::new(),
            sent: Vec::new(),
            with_data: Vec::new(),
            managing: Vec::new(),
            removed: Vec::new(),
            functions: Vec::new(),
            renewals: 0,
            failures: 0,
        }
    }

    /// The initiator's end of the connection with that CID.
    pub(crate) fn connection(
        &mut self,
        cid: u16,
    ) -> Option<&mut wansan_iscsi::initiator::Connection> {
        let connections = self.session.as_mut()?.connections().iter_mut();
        let mut connections = connections;
        connections.find(|connection| connection.id().0 == cid)
    }

    fn set_schedule(&mut self, least_bytes: bool) {
        if let (Some(session), true) = (&mut self.session, least_bytes) {
            session.set_schedule(Schedule::LeastBytes);
        }
    }

    /// The index of the connection with that CID in the session.
    pub(super) fn place(&mut self, cid: u16) -> Option<usize> {
        let connections = self.session.as_mut()?.connections();
        connections
            .iter()
            .position(|connection| connection.id().0 == cid)
    }

    /// Switches to the next ISID.
    fn renew(&mut self, number: usize) {
        self.renewals = (self.renewals + 1) % initiator_port::ISIDS;
        self.number = initiator_port::number(number, self.renewals);
        self.login.isid = initiator_port::isid(number, self.renewals);
        self.previous = None;
    }
}

fn lun(unit: u8) -> Lun {
    Lun::single_level(u16::from(unit)).unwrap_or_default()
}

impl<T: TargetSide> World<'_, T> {
    /// Takes the next step of a port's script if it can; returns whether it did.
    pub(super) fn advance(&mut self, port: usize) -> bool {
        let script = &self.history.sessions[port];
        let done = self.ports[port].cursor >= script.steps.len();
        match self.ports[port].state {
            State::Down => !done && self.lead(port),
            State::Leading | State::LoggingOut(_) => false,
            State::Up => self.join(port) || !done && self.step(port),
        }
    }

    /// Opens the leading connection of a session, which reinstates the lost one if there is one.
    fn lead(&mut self, port: usize) -> bool {
        let this = &mut self.ports[port];
        if this.failures > 60 {
            return false;
        }
        let handshake = match &this.session {
            Some(session) => session.reinstating(&this.login, 0),
            None => Handshake::lead(&this.login),
        };
        match handshake {
            Ok(handshake) => {
                this.state = State::Leading;
                self.open(port, handshake, true);
                true
            }
            Err(error) => {
                self.oracle
                    .violate(Rule::Protocol, || format!("no login: {error}"));
                false
            }
        }
    }

    /// Opens another connection of the session, if it has fewer than it wants.
    fn join(&mut self, port: usize) -> bool {
        let wanted = self.history.sessions[port].keys.connections;
        let this = &mut self.ports[port];
        let Some(session) = &mut this.session else {
            return false;
        };
        let most = wanted.min(session.parameters().max_connections);
        if this.failures > 60 {
            return false;
        }
        for cid in 0..most {
            let up = session.connections().iter();
            let mut up = up.map(|connection| connection.id().0);
            let logs_in = |link: &Link<T::Wire>| {
                link.port == port
                    && matches!(&link.near, Near::Login { handshake, .. } if handshake.cid() == cid)
            };
            if up.any(|one| one == cid) || self.links.iter().any(logs_in) || !session.may_join(cid)
            {
                continue;
            }
            match session.join(&this.login, cid) {
                Ok(handshake) => {
                    self.open(port, handshake, false);
                    return true;
                }
                Err(error) => {
                    self.oracle
                        .violate(Rule::Protocol, || format!("no login: {error}"));
                    return false;
                }
            }
        }
        false
    }

    /// Takes the next step of a session that is up.
    fn step(&mut self, port: usize) -> bool {
        let script = &self.history.sessions[port];
        let this = &mut self.ports[port];
        let Some(session) = &mut this.session else {
            return false;
        };
        if session.connections().is_empty() {
            return false;
        }
        let step = &script.steps[this.cursor];
        match step {
            Step::Do(unit, scsi) => {
                if session.in_flight() >= usize::from(script.depth).min(TASKS) {
                    return false;
                }
                let changes = matches!(
                    scsi,
                    Scsi::Reserve6
                        | Scsi::Release6
                        | Scsi::ModeSelect { .. }
                        | Scsi::StartStop { .. }
                        | Scsi::ReserveOut(_)
                );
                if changes && !self.oracle.may_change(*unit) {
                    return false;
                }
                self.submit(port, *unit, scsi);
            }
            Step::Await => {
                if session.in_flight() > 0 {
                    return false;
                }
            }
            Step::Manage(unit, function) => {
                if this.functions.len() + this.managing.len() > 2 {
                    return false;
                }
                self.manage(port, *unit, *function);
            }
            Step::Stall(cid, turns) => self.stall(port, *cid, *turns),
            Step::Cut(cid) => {
                let cid = *cid;
                self.say(|| format!("port {port} loses connection {cid}"));
                self.cut(port, cid);
            }
            Step::Reinstate => {
                self.say(|| {
                    format!("port {port} loses all connections and reinstates its session")
                });
                self.lose_session(port, false);
            }
            Step::Renew => {
                self.say(|| {
                    format!("port {port} loses all connections and logs in with another ISID")
                });
                self.lose_session(port, true);
                self.ports[port].renew(port);
            }
            Step::Logout => {
                if session.in_flight() > 0 && self.random.one_in(2) {
                    return false;
                }
                let now = self.instant();
                let this = &mut self.ports[port];
                let session = this.session.as_mut();
                let asked = session.and_then(|session| session.logout(now, &mut self.trace));
                if let Some(tag) = asked {
                    this.state = State::LoggingOut(tag.0);
                    let session = this.oracle_session;
                    T::logs_out(self, session);
                    self.say(|| format!("port {port} logs out"));
                }
            }
            Step::Sleep(seconds) => {
                T::pass(self, u64::from(*seconds) * 1_000_000_000);
            }
        }
        self.ports[port].cursor += 1;
        self.steps += 1;
        self.progress += 1;
        self.pump(port);
        self.incidents();
        true
    }

    fn submit(&mut self, port: usize, unit: u8, scsi: &Scsi) {
        let at = usize::from(unit);
        let number = self.oracle.commands.commands.len() as u32;
        let port_names: Vec<(String, [u8; 6])> = match scsi {
            Scsi::ReserveOut(ReserveOut { action: 7, .. }) => self
                .ports
                .iter()
                .map(|port| (port.login.initiator.clone(), port.login.isid))
                .collect(),
            _ => Vec::new(),
        };
        let built = build(
            scsi,
            &Surroundings {
                setup: &self.history.setup,
                identities: &self.identities,
                unit,
                number,
                bit: self.bits[at],
                seen: &self.seen[at],
                ports: &port_names,
            },
        );
        if let Effect::Or { .. } = built.effect {
            self.bits[at] += 1;
        }
        let moved_to = match scsi {
            Scsi::ReserveOut(out) => {
                let to = usize::from(out.action_key.saturating_sub(1));
                self.ports[to.min(self.ports.len() - 1)].number
            }
            _ => 0,
        };
        self.oracle
            .commands
            .enter(unit, scsi.clone(), built.effect, moved_to);
        let now = self.instant();
        let command = Command {
            lun: lun(unit),
            cdb: built.cdb,
            attribute: TaskAttribute::Simple,
            transfer: built.transfer,
            user: u64::from(number),
        };
        let this = &mut self.ports[port];
        if let Some(session) = &mut this.session
            && let Ok(tag) = session.submit(command, now, &mut self.trace)
        {
            this.submitted.push((tag.0, number));
            self.commands += 1;
        }
    }

    fn manage(&mut self, port: usize, unit: u8, function: Function) {
        let now = self.instant();
        let this = &mut self.ports[port];
        let Some(session) = &mut this.session else {
            return;
        };
        let mut unit = unit;
        let mut task = None;
        let wire = match function {
            Function::AbortTask => {
                let Some((tag, _, attempt)) = this.sent.first() else {
                    return;
                };
                task = Some(TaskTag(*tag));
                unit = self.oracle.commands.attempts[*attempt as usize].unit;
                TaskManagementFunction::AbortTask
            }
            Function::AbortTaskSet => TaskManagementFunction::AbortTaskSet,
            Function::ClearTaskSet => TaskManagementFunction::ClearTaskSet,
            Function::UnitReset => TaskManagementFunction::LogicalUnitReset,
            Function::TargetReset => TaskManagementFunction::TargetWarmReset,
        };
        let tag = session.manage(wire, lun(unit), task, now, &mut self.trace);
        if let Some(tag) = tag {
            this.functions.push((tag.0, function, unit));
            self.commands += 1;
        }
        self.complete(port);
    }

    /// Encodes the PDUs that a session may send.
    pub(super) fn pump(&mut self, port: usize) {
        let now = self.instant();
        if let Some(session) = &mut self.ports[port].session {
            session.pump(now, &mut self.trace);
        }
    }

    /// A connection has logged in at the initiator's end.
    pub(super) fn logged_in(&mut self, at: usize) {
        let now = self.instant();
        let link = &mut self.links[at];
        let port = link.port;
        let Near::Login { handshake, leads } = std::mem::replace(&mut link.near, Near::Gone) else {
            return;
        };
        let cid = handshake.cid();
        link.near = Near::Session(cid);
        let script = &self.history.sessions[port];
        let this = &mut self.ports[port];
        let taken = match (&mut this.session, leads) {
            (Some(session), true) => handshake
                .into_session(TASKS)
                .and_then(|lead| session.reinstate(lead, now, &mut self.trace)),
            (Some(session), false) => session.admit(*handshake),
            (None, true) => handshake.into_session(TASKS).map(|session| {
                this.session = Some(session);
                this.set_schedule(script.least_bytes);
            }),
            (None, false) => {
                self.links[at].near = Near::Gone;
                return;
            }
        };
        if taken.is_err() {
            // Its session has ended.
            self.drop_near_end(at, &[]);
            return;
        }
        let mut begun = None;
        if leads {
            this.state = State::Up;
            let time = self.now;
            let (host, number, previous) = (this.host, this.number, this.previous);
            let session = this.session.as_ref();
            let recovery = session.map_or(0, |one| one.parameters().error_recovery_level);
            let mut over = T::sessions_over(self, at);
            over.extend(previous.filter(|previous| !over.contains(previous)));
            let session = self
                .oracle
                .session_began(host, number, recovery, over, time);
            self.ports[port].oracle_session = session;
            self.ports[port].previous = Some(session);
            begun = Some(session);
            self.say(|| format!("port {port} begins session {session}"));
        }
        T::logged_in(self, at, begun);
        self.session_receives(port, cid);
        self.pump(port);
    }

    pub(super) fn login_failed(&mut self, at: usize, error: &HandshakeError) {
        let port = self.links[at].port;
        self.say(|| format!("port {port} cannot log in: {error}"));
        self.ports[port].failures += 1;
        let Near::Login { leads, .. } = self.links[at].near else {
            return;
        };
        self.drop_near_end(at, &[]);
        self.attempt_over(port, leads);
    }

    /// A login has failed.
    fn attempt_over(&mut self, port: usize, leads: bool) {
        if leads {
            self.ports[port].state = State::Down;
            return;
        }
        // With no connection left, the session that it was to join may be gone.
        let this = &mut self.ports[port];
        let alone = this
            .session
            .as_mut()
            .is_some_and(|session| session.connections().is_empty());
        if alone {
            self.port_lost(port);
        }
    }

    /// The initiator finds a connection closed.
    pub(super) fn near_end_lost(&mut self, at: usize) {
        let port = self.links[at].port;
        self.say(|| format!("port {port} finds a connection closed"));
        match self.links[at].near {
            Near::Gone => {}
            Near::Login { leads, .. } => {
                self.ports[port].failures += 1;
                self.links[at].near = Near::Gone;
                self.attempt_over(port, leads);
            }
            Near::Session(cid) => {
                self.links[at].near = Near::Gone;
                if matches!(self.ports[port].state, State::LoggingOut(_)) {
                    self.port_lost(port);
                } else {
                    self.lose_connection(port, cid);
                }
            }
        }
    }

    /// The index of an open connection among the links.
    fn link_of(&self, port: usize, cid: u16) -> Option<usize> {
        let of = |link: &Link<T::Wire>| {
            link.port == port && matches!(link.near, Near::Session(one) if one == cid)
        };
        self.links.iter().position(of)
    }

    /// Stalls the connection with that CID, if there is one.
    fn stall(&mut self, port: usize, cid: u16, turns: u8) {
        if let Some(at) = self.link_of(port, cid) {
            self.say(|| format!("port {port}'s connection {cid} stalls for {turns} turns"));
            self.links[at].stalls = turns;
        }
    }

    /// Cuts the connection with that CID, if there is one.
    fn cut(&mut self, port: usize, cid: u16) {
        if let Some(at) = self.link_of(port, cid) {
            self.cut_link(at);
            self.lose_connection(port, cid);
        }
    }

    /// Cuts a connection at the initiator's end.
    fn cut_link(&mut self, at: usize) {
        let port = self.links[at].port;
        let pending = match &self.links[at].near {
            Near::Session(cid) => {
                let cid = *cid;
                let connection = self.ports[port].connection(cid);
                connection.map_or(Vec::new(), |connection| connection.pending().to_vec())
            }
            _ => Vec::new(),
        };
        self.drop_near_end(at, &pending);
    }

    /// A connection of the session is lost: at error recovery level 2 the session continues without it, otherwise the
    /// session is lost too.
    fn lose_connection(&mut self, port: usize, cid: u16) {
        let now = self.instant();
        let Some(place) = self.ports[port].place(cid) else {
            return;
        };
        let this = &mut self.ports[port];
        let Some(session) = &mut this.session else {
            return;
        };
        if !session.lose(place, now, &mut self.trace) {
            self.lose_session(port, false);
        }
    }

    /// Cuts all connections of the port.
    fn lose_session(&mut self, port: usize, for_good: bool) {
        for at in 0..self.links.len() {
            if self.links[at].port == port && !matches!(self.links[at].near, Near::Gone) {
                self.cut_link(at);
            }
        }
        if for_good {
            self.ports[port].session = None;
        }
        self.port_lost(port);
    }

    /// The session of the port is lost.
    pub(super) fn port_lost(&mut self, port: usize) {
        let now = self.instant();
        for at in 0..self.links.len() {
            if self.links[at].port == port && !matches!(self.links[at].near, Near::Gone) {
                self.cut_link(at);
            }
        }
        let replays = self.history.sessions[port].replays;
        let this = &mut self.ports[port];
        let was_up = matches!(this.state, State::Up | State::LoggingOut(_));
        let logged_out = matches!(this.state, State::LoggingOut(_));
        this.state = State::Down;
        if let Some(session) = &mut this.session {
            session.lose_all(now, &mut self.trace);
            if !replays || logged_out {
                session.end(now, &mut self.trace);
            }
            while session.poll_event().is_some() {}
            while let Some(completion) = session.poll_completion(now, &mut self.trace) {
                this.submitted.retain(|(tag, _)| *tag != completion.task.0);
            }
            if !replays || logged_out {
                this.session = None;
            }
        }
        if this.session.is_none() {
            this.submitted.clear();
        }
        this.sent.clear();
        this.with_data.clear();
        this.functions.clear();
        this.removed.clear();
        let managing = std::mem::take(&mut this.managing);
        let session = this.oracle_session;
        if was_up && session != u32::MAX {
            let time = self.now;
            for (_, number, _) in managing {
                self.oracle.managed_lost(number, time);
            }
            self.oracle.session_lost(session, time);
        }
    }

    /// Processes the data that a connection of the port's session has received.
    pub(super) fn session_receives(&mut self, port: usize, cid: u16) {
        let now = self.instant();
        let Some(place) = self.ports[port].place(cid) else {
            return;
        };
        let Some(session) = &mut self.ports[port].session else {
            return;
        };
        let received = session.receive(place, now, &mut self.trace);
        self.complete(port);
        match received {
            Ok(()) => {}
            Err(SessionError::TargetLeft { .. } | SessionError::NotRecovered { .. }) => {
                self.lose_session(port, false);
                return;
            }
            Err(error) => {
                self.oracle
                    .violate(Rule::Protocol, || format!("port {port}: {error}"));
                return;
            }
        }
        let Some(session) = &mut self.ports[port].session else {
            return;
        };
        let mut logged_out = false;
        while let Some(event) = session.poll_event() {
            logged_out |= event == SessionEvent::LoggedOut;
        }
        if logged_out {
            self.lose_session(port, false);
            return;
        }
        self.pump(port);
    }

    /// Handles the commands that the session has completed.
    fn complete(&mut self, port: usize) {
        let now = self.instant();
        loop {
            let this = &mut self.ports[port];
            let Some(session) = &mut this.session else {
                return;
            };
            let Some(completion) = session.poll_completion(now, &mut self.trace) else {
                return;
            };
            let tag = completion.task.0;
            this.submitted.retain(|(one, _)| *one != tag);
            let waiting = this.with_data.iter().position(|(one, ..)| *one == tag);
            if let Some(place) = waiting {
                let (_, attempt, link, answered) = this.with_data.swap_remove(place);
                self.answered_with_data((attempt, link), &answered, completion);
            } else if completion.outcome == Err(TaskError::Unsure) {
                // The target has dropped the task, and the command must not be sent twice.
                let sent = this.sent.iter().position(|(one, ..)| *one == tag);
                if let Some(place) = sent {
                    let (_, _, attempt) = this.sent.remove(place);
                    self.oracle.unsure(attempt);
                }
            }
        }
    }

    fn answered_with_data(
        &mut self,
        (attempt, link): (u32, usize),
        answered: &Answered,
        completion: Completion,
    ) {
        if let Err(error) = &completion.outcome {
            let what = format!("the initiator says of an answer with GOOD: {error}");
            self.oracle.violate(Rule::Protocol, || what);
            return;
        }
        let data = completion.transfer.into_buffer();
        let found = self.oracle.commands.attempts[attempt as usize];
        let command = self.oracle.commands.get(found.command);
        if let Effect::Read(blocks) = command.effect {
            let unit = usize::from(command.unit);
            for (lba, block) in blocks.lbas().zip(data.chunks(BLOCK_BYTES)) {
                self.seen[unit][lba as usize] = word_of(block);
            }
        }
        let now = self.now;
        self.oracle
            .answered(attempt, answered, Some(&data), link, now);
    }

    /// At rest, gives up a session that waits for tasks that may have been aborted, after the oracle has checked the
    /// answers owed to it. Returns whether it gave up anything.
    pub(super) fn give_up(&mut self, port: usize) -> bool {
        self.requests_at_rest(port);
        let this = &mut self.ports[port];
        let session = this.oracle_session;
        match this.state {
            State::Up => {
                let in_flight = this.session.as_ref().map_or(0, Session::in_flight);
                self.oracle.at_rest(session);
                let done = this.cursor >= self.history.sessions[port].steps.len();
                if done && in_flight == 0 || self.oracle.violation.is_some() {
                    return false;
                }
                self.say(|| format!("port {port} gives up its session"));
                if done {
                    self.ports[port].session = None;
                } else if in_flight == 0 {
                    // The step cannot be taken, as other sessions' changes are pending.
                    self.ports[port].cursor += 1;
                    return true;
                }
                self.lose_session(port, false);
                true
            }
            State::Leading | State::LoggingOut(_) => {
                self.lose_session(port, false);
                true
            }
            State::Down => false,
        }
    }
}

impl<T: TargetSide> World<'_, T> {
    /// Checks at rest that every login, logout and function of the port has its response (RFC 7143 §6.3,
    /// §11.6, §11.15), unless its connection is lost.
    fn requests_at_rest(&mut self, port: usize) {
        for link in self.links.iter().filter(|link| link.port == port) {
            let this = &self.ports[port];
            match &link.near {
                Near::Login { handshake, .. } => {
                    let (id, cid) = (link.id, handshake.cid());
                    self.oracle.violate(Rule::Answer, || {
                        format!(
                            "the login of port {port} with CID {cid} on {id} was never answered"
                        )
                    });
                }
                Near::Session(_) => {
                    for (_, number, on) in &this.managing {
                        if *on == link.id {
                            self.oracle.function_at_rest(*number);
                        }
                    }
                    if let State::LoggingOut(_) = this.state {
                        self.oracle.violate(Rule::Answer, || {
                            format!("the logout of port {port} was never answered")
                        });
                    }
                }
                Near::Gone => {}
            }
        }
    }
}
