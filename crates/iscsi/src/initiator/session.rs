//! A session at the initiator: queue, command window, tasks.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use wansan_trace::{ConnectionId, Direction, Instant, Layer, Recorder, SessionId, TaskTag};

use super::allegiance::LostConnections;
use super::connection::{Connection, Link};
use super::dealer::Dealer;
use super::error::{AdmitError, SessionError};
use super::handshake::{Handshake, HandshakeError, LoginSettings};
use super::liveness::Silence;
use super::overlap::Overlaps;
use super::queue::TaskQueue;
use super::requests::{Request, Requests};
use super::schedule::Schedule;
use super::tally::{Carriage, Tally};
use super::task::{Command, Completion, Stage, Task, TaskError, TaskTable, Transfer};
use super::window::CommandWindow;
use crate::keys::{ConnectionParameters, SessionParameters};
use crate::text::exchange::Requester;
use crate::text::send_targets::TargetRecord;
use crate::wire::{Lun, TaskManagementFunction, TaskManagementResult};

/// The minimum interval of pings that measure a connection's own round-trip time.
const PROBE_INTERVAL: Duration = Duration::from_millis(5);
/// The same for connections that are idle while others are not.
const IDLE_PROBE_INTERVAL: Duration = Duration::from_millis(250);

/// An event other than a completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The target answered a task management function. Tasks that it ended have completions with [`TaskError::Aborted`]
    /// before this.
    Managed {
        /// The tag returned by [`Session::manage`].
        request: TaskTag,
        /// The target's answer.
        result: TaskManagementResult,
    },
    /// The target answered the NOP-Out of [`Session::ping`].
    Pong {
        /// The tag returned by [`Session::ping`].
        request: TaskTag,
    },
    /// The answer to [`Session::send_targets`]; also empty if the target rejects the request.
    Targets(Vec<TargetRecord>),
    /// The target answered the logout: close the connection.
    LoggedOut,
}

/// The session's task table is full; the command was not accepted.
#[derive(Debug, thiserror::Error)]
#[error("the session's queue is full; take completions before submitting more")]
pub struct Full(pub Command);

/// A session in full feature phase.
///
/// After each event the driver calls, in this order:
///
/// 1. input from a socket: [`Connection::space`], [`Connection::filled`], then [`Session::receive`];
/// 2. completions and events: [`Session::poll_completion`], [`Session::poll_event`], until both return `None`;
/// 3. new commands: [`Session::submit`];
/// 4. [`Session::pump`] encodes pending PDUs;
/// 5. output to the socket: [`Connection::pending`], then [`Connection::sent`] with the number of bytes accepted; 4 and
///    5 repeat while the socket accepts bytes.
///
/// The session never sends a command beyond MaxCmdSN, and solicited Data-Out goes before new
/// commands.
#[derive(Debug)]
pub struct Session {
    pub(super) core: Core,
    pub(super) connections: Vec<Connection>,
    dealer: Dealer,
}

/// State that login passes to a session.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begun {
    pub(super) id: SessionId,
    pub(super) tsih: u16,
    pub(super) portal_group_tag: Option<u16>,
    pub(super) parameters: SessionParameters,
    pub(super) window: CommandWindow,
}

/// The session without its connections, so that a PDU in a connection's buffer can be handled while it is borrowed.
/// Each owner among its fields keeps its own invariants; effects of an event on several of them are decided here.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) id: SessionId,
    /// TSIH (RFC 7143 §11.12.6).
    pub(super) tsih: u16,
    portal_group_tag: Option<u16>,
    pub(super) parameters: SessionParameters,
    pub(super) window: CommandWindow,
    pub(super) tasks: TaskTable,
    pub(super) queue: TaskQueue,
    /// The outstanding writes, by their blocks.
    pub(super) overlaps: Overlaps,
    pub(super) carriage: Carriage,
    pub(super) lost: LostConnections,
    pub(super) requests: Requests,
    /// The outstanding Text Request.
    pub(super) asking: Option<(TaskTag, Requester)>,
    pub(super) completions: VecDeque<Completion>,
    pub(super) events: VecDeque<Event>,
    /// Since a replacement session took over: the units that have reported it, or executed a command.
    pub(super) announced: Option<BTreeSet<Lun>>,
}

impl Session {
    /// A session that begins with a connection that has just logged in. It holds at most `tasks` tasks, queued and
    /// outstanding.
    pub(super) fn new(begun: Begun, first: Connection, tasks: usize) -> Self {
        let mut core = Core {
            id: begun.id,
            tsih: begun.tsih,
            portal_group_tag: begun.portal_group_tag,
            parameters: begun.parameters,
            window: begun.window,
            tasks: TaskTable::new(tasks),
            queue: TaskQueue::default(),
            overlaps: Overlaps::default(),
            carriage: Carriage::default(),
            lost: LostConnections::default(),
            requests: Requests::default(),
            asking: None,
            completions: VecDeque::new(),
            events: VecDeque::new(),
            announced: None,
        };
        core.carriage.admit(first.link.id);
        Session {
            core,
            connections: vec![first],
            dealer: Dealer::default(),
        }
    }

    /// The session's id in trace records.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.core.id
    }

    /// The session's portal group, if the target declared it: with the same ISID, a session with another group is
    /// another session (RFC 7143 §4.4.3, §13.9).
    #[must_use]
    pub fn portal_group_tag(&self) -> Option<u16> {
        self.core.portal_group_tag
    }

    /// The session's negotiated parameters.
    #[must_use]
    pub fn parameters(&self) -> &SessionParameters {
        &self.core.parameters
    }

    /// Sets the schedule. Call it before further connections are admitted.
    pub fn set_schedule(&mut self, schedule: Schedule) {
        self.dealer.set_policy(schedule);
        self.core.carriage.learn_for(schedule);
    }

    /// Whether the schedule needs a call of [`Session::acknowledged`] for each connection before each
    /// [`Session::pump`].
    #[must_use]
    pub fn needs_acknowledged(&self) -> bool {
        self.core.carriage.is_learning()
    }

    /// The target's TCP has acknowledged `bytes` bytes of the connection at `place` since the TCP connection began,
    /// login included.
    pub fn acknowledged(&mut self, place: usize, bytes: u64, now: Instant) {
        if let Some(connection) = self.connections.get(place) {
            let id = connection.link.id;
            self.core.carriage.acknowledged(id, bytes, now);
        }
    }

    /// Begins the login of another connection, with a unique `cid`.
    ///
    /// # Errors
    /// If a setting violates the standard.
    pub fn join(&self, login: &LoginSettings, cid: u16) -> Result<Handshake, HandshakeError> {
        Handshake::join(login, cid, &self.core)
    }

    /// Adds a logged-in connection of [`Session::join`], at the last index.
    ///
    /// # Errors
    /// [`AdmitError`], if it has not logged in, belongs to another session, or its CID is in use.
    pub fn admit(&mut self, handshake: Handshake) -> Result<(), AdmitError> {
        let cid = ConnectionId(handshake.cid());
        let taken = |connection: &Connection| connection.id() == cid;
        if self.connections.iter().any(taken) {
            return Err(AdmitError::Taken);
        }
        let connection = handshake.into_connection(&mut self.core)?;
        self.connections.push(connection);
        self.core.carriage.admit(cid);
        Ok(())
    }

    /// The command window as last announced: MaxCmdSN − ExpCmdSN + 1, 0 if closed (RFC 7143
    /// §4.2.2.1).
    #[must_use]
    pub fn window(&self) -> u32 {
        self.core.window.size()
    }

    /// The negotiated parameters of the connection at `place`, if there is one.
    #[must_use]
    pub fn connection_parameters(&self, place: usize) -> Option<&ConnectionParameters> {
        self.connections.get(place).map(Connection::parameters)
    }

    /// The session's connections; other calls take their index as `place`. Empty after [`Session::lose_all`].
    pub fn connections(&mut self) -> &mut [Connection] {
        &mut self.connections
    }

    /// Tasks that are queued or outstanding.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.core.tasks.len()
    }

    /// Data of outstanding reads, received or not, in bytes.
    #[must_use]
    pub fn awaited_bytes(&self) -> u64 {
        self.core.carriage.awaited_bytes()
    }

    /// Queues a command and returns its task tag.
    ///
    /// # Errors
    /// [`Full`] returns the command.
    pub fn submit(
        &mut self,
        command: Command,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<TaskTag, Full> {
        if !self.core.tasks.has_room() {
            return Err(Full(command));
        }
        let Command {
            lun, cdb, transfer, ..
        } = &command;
        let extent = self.core.overlaps.enter(*lun, cdb, transfer);
        let task = self.core.tasks.insert(|tag| Task {
            extent,
            ..Task::new(tag, command)
        });
        for layer in [Layer::App, Layer::Scsi, Layer::Queue] {
            trace.crossing(
                now,
                self.core.id,
                ConnectionId(0),
                task,
                layer,
                Direction::Enter,
            );
        }
        self.core.queue.push(task);
        Ok(task)
    }

    /// Handles all bytes received on the connection at `place`.
    ///
    /// # Errors
    /// The session is over: close its connections and call [`Session::end`].
    pub fn receive(
        &mut self,
        place: usize,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), SessionError> {
        let Connection {
            receiver,
            arrivals,
            link,
        } = &mut self.connections[place];
        loop {
            let pdu = match receiver.next() {
                Ok(Some(pdu)) => pdu,
                Ok(None) => return Ok(()),
                Err(error) => {
                    self.core.mend(link, error)?;
                    continue;
                }
            };
            let first_byte = arrivals.of(pdu.stream_offset);
            self.core.incoming(link, &pdu, first_byte, now, trace)?;
        }
    }

    /// Encodes pending PDUs: Data-Out first, then commands inside the window, as far as the connections' bounded send
    /// buffers have room.
    pub fn pump(&mut self, now: Instant, trace: &mut Recorder) {
        if !self.core.lost.is_empty() {
            self.pass_on(now, trace);
        }
        self.core.queue.wake(now);
        // The target has reserved buffers for the data that it requested, and window slots are freed only when those
        // tasks complete: Data-Out goes before new commands.
        for connection in &mut self.connections {
            self.core.send_owed(&mut connection.link, now, trace);
            self.core.leave(&mut connection.link, now, trace);
        }
        if self.needs_acknowledged() && self.connections.len() > 1 && self.core.tasks.len() > 0 {
            for connection in &mut self.connections {
                self.core.probe(&mut connection.link, now, trace);
            }
        }
        while self.core.may_send_command() {
            let next = self.core.queue.peek();
            let next = next.and_then(|tag| self.core.tasks.get(tag));
            let transfer = next.map_or(&Transfer::None, |task| &task.transfer);
            let (carriage, waiting) = (&mut self.core.carriage, self.core.queue.len());
            let Some(place) =
                self.dealer
                    .choose(&self.connections, carriage, transfer, waiting, now)
            else {
                return;
            };
            let link = &mut self.connections[place].link;
            self.core.send_command(link, now, trace);
            self.core.send_owed(link, now, trace);
        }
    }

    /// Counters of the connections with `cid`, up to `now`.
    ///
    /// # Panics
    /// If there was never one.
    #[must_use]
    pub fn tally(&self, cid: u16, now: Instant) -> Tally {
        let carried = self.core.carriage.of(ConnectionId(cid));
        let mut same = self.connections.iter();
        let connection = same.find(|connection| connection.link.id.0 == cid);
        let waiting_ns =
            connection.map_or(0, |connection| connection.link.waiting.integral_ns(now));
        Tally {
            commands: carried.commands,
            bytes: carried.bytes,
            in_flight_ns: carried.in_flight.integral_ns(now),
            waiting_ns: carried.waited_ns + waiting_ns,
            at: now,
        }
    }

    /// Checks for silent connections: pings those that owe an answer and have been silent for some round trips. Returns
    /// when to call it again.
    ///
    /// # Errors
    /// The index of a connection that has been silent for too long and is lost.
    pub fn keep_alive(&mut self, now: Instant, trace: &mut Recorder) -> Result<Instant, usize> {
        let mut next = Instant::FAR_FUTURE;
        for (place, connection) in self.connections.iter_mut().enumerate() {
            let link = &mut connection.link;
            let carried = self.core.carriage.of(link.id);
            if carried.in_flight.count() == 0 && self.core.requests.is_empty() {
                link.liveness.heard(now);
            }
            match link.liveness.judge(now) {
                Silence::Wait(until) => next = next.min(until),
                Silence::Lost => return Err(place),
                Silence::Ask => self.core.ask(link, now, trace),
            }
        }
        Ok(next)
    }

    /// Sends a NOP-Out on each connection. Once [`Session::is_asking`] is false, the target has received everything
    /// sent before, because each connection keeps its PDUs in order.
    pub fn ask_each(&mut self, now: Instant, trace: &mut Recorder) {
        for connection in &mut self.connections {
            self.core.ask(&mut connection.link, now, trace);
        }
    }

    /// Whether a NOP-Out is unanswered.
    #[must_use]
    pub fn is_asking(&self) -> bool {
        let mut links = self.connections.iter().map(|connection| &connection.link);
        links.any(|link| link.liveness.is_asked())
    }

    /// The next completion, oldest first.
    pub fn poll_completion(&mut self, now: Instant, trace: &mut Recorder) -> Option<Completion> {
        let completion = self.core.completions.pop_front()?;
        let (session, task) = (self.core.id, completion.task);
        trace.crossing(
            now,
            session,
            ConnectionId(0),
            task,
            Layer::App,
            Direction::Leave,
        );
        Some(completion)
    }

    /// The next event, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.core.events.pop_front()
    }

    /// Sends a task management function at once (as an immediate command, RFC 7143 §11.5).
    /// `referenced` is the task for ABORT TASK. `None` if too many requests are outstanding, or if
    /// the task to abort has not been sent: that one is removed from the queue at once.
    pub fn manage(
        &mut self,
        function: TaskManagementFunction,
        lun: Lun,
        referenced: Option<TaskTag>,
        now: Instant,
        trace: &mut Recorder,
    ) -> Option<TaskTag> {
        if let Some(tag) = referenced
            && self
                .core
                .tasks
                .get_mut(tag)
                .is_some_and(|task| task.stage == Stage::Queued)
        {
            self.core.finish(tag, Err(TaskError::Aborted), now, trace);
            return None;
        }
        let referenced = referenced.unwrap_or(crate::wire::RESERVED_TASK_TAG);
        let before = self.core.window.cmd_sn();
        let request = Request::Manage {
            function,
            lun,
            referenced,
            before,
        };
        self.request(request, now, trace)
    }

    /// Sends a NOP-Out that asks for an answer (RFC 7143 §11.18). `None` if too many requests are
    /// outstanding.
    pub fn ping(&mut self, now: Instant, trace: &mut Recorder) -> Option<TaskTag> {
        self.request(Request::Ping, now, trace)
    }

    /// Sends a Logout Request for the session (RFC 7143 §11.14). `None` if too many requests are
    /// outstanding.
    pub fn logout(&mut self, now: Instant, trace: &mut Recorder) -> Option<TaskTag> {
        self.request(Request::Logout, now, trace)
    }

    fn request(&mut self, request: Request, now: Instant, trace: &mut Recorder) -> Option<TaskTag> {
        if !self.core.requests.has_room() {
            return None;
        }
        let tag = self.core.tasks.spare_tag();
        let id = self.core.connection_of(request);
        let mut places = self.connections.iter();
        let place = places.position(|connection| id.is_none_or(|id| id == connection.id()));
        let connection = self.connections.get_mut(place?)?;
        self.core.requests.push(tag, request);
        self.core
            .send_request(&mut connection.link, tag, request, now, trace);
        Some(tag)
    }

    /// Ends the session: every task completes with [`TaskError::SessionEnded`].
    pub fn end(&mut self, now: Instant, trace: &mut Recorder) {
        for tag in self.core.tasks.tags() {
            self.core
                .finish(tag, Err(TaskError::SessionEnded), now, trace);
        }
    }
}

impl Core {
    /// Sends a ping on the connection, and expects its answer there.
    fn ask(&mut self, link: &mut Link, now: Instant, trace: &mut Recorder) {
        let tag = self.tasks.spare_tag();
        link.liveness.asked(tag, now);
        self.send_request(link, tag, Request::Ping, now, trace);
    }

    /// Pings a connection at intervals, to measure its own round-trip time; an idle one less often.
    fn probe(&mut self, link: &mut Link, now: Instant, trace: &mut Recorder) {
        let is_idle = self.carriage.of(link.id).in_flight.count() == 0;
        let interval = match is_idle {
            true => IDLE_PROBE_INTERVAL,
            false => PROBE_INTERVAL,
        };
        let is_due = link.probed_at.is_none_or(|before| now >= before + interval);
        if is_due && link.liveness.may_be_asked(is_idle) {
            link.probed_at = Some(now);
            self.ask(link, now, trace);
        }
    }

    /// Continues as the session that `lead` has begun.
    pub(super) fn take_place_of(&mut self, lead: &Core) {
        self.id = lead.id;
        self.tsih = lead.tsih;
        self.portal_group_tag = lead.portal_group_tag;
        self.parameters = lead.parameters;
        self.window = lead.window;
    }

    /// The connection that a request must use, if it matters: ABORT TASK follows its task (RFC 7143 §11.5.1).
    fn connection_of(&mut self, request: Request) -> Option<ConnectionId> {
        let Request::Manage { referenced, .. } = request else {
            return None;
        };
        match self.tasks.get_mut(referenced)?.stage {
            Stage::Sent(id) => Some(id),
            Stage::Queued | Stage::Withheld => None,
        }
    }
}
