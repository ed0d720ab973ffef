//! A session at the target: command window, tasks, and what its stores are to do.

use std::collections::VecDeque;
use std::sync::Arc;

use wansan_trace::{Instant, Recorder, SessionId, TaskTag};

use super::connection::Connection;
use super::error::Close;
use super::hold::HoldQueue;
use super::incoming::Held;
use super::management::Management;
use super::memory::{Memory, Share};
use super::task::Tasks;
use super::window::CommandWindow;
use crate::keys::SessionParameters;
use crate::scsi::{Nexus, TargetDevice, UnitAttention};
use crate::sequence::Sn;
use crate::text::send_targets::TargetRecord;

/// What a session is made of beside what login has settled.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// The logical units.
    pub device: Arc<TargetDevice>,
    /// Commands that may be in hand at once (1 to 65,536).
    pub command_window: u32,
    /// What this session and all others of the target may hold together.
    pub memory: Arc<Memory>,
}

impl SessionConfig {
    /// The command window of a session with these parameters, for its login to announce: what was
    /// asked for, cut so that every command in it may bring FirstBurstLength unsolicited.
    #[must_use]
    pub fn window(&self, parameters: &SessionParameters) -> u32 {
        let bound = UNSOLICITED_BYTES / parameters.first_burst_bytes.max(1);
        self.command_window.min(bound).max(1)
    }
}

/// Something that the driver has to tell others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// The tasks of all other sessions at these units are to be ended with
    /// [`Session::end_tasks`].
    TasksEnded {
        /// The units' places in the device.
        units: Vec<usize>,
        /// What those sessions' initiators are to be told.
        attention: UnitAttention,
    },
}

/// Bound on the bytes of solicited data that one session may have under way or in hand, so that a
/// few large writes cannot take all memory. One task is always let through, however large.
pub(super) const SOLICITED_BYTES: u32 = 64 * 1024 * 1024;

/// Bound on the bytes of unsolicited data: the command window is cut by it
/// ([`SessionConfig::window`]).
pub(super) const UNSOLICITED_BYTES: u32 = 256 * 1024 * 1024;

/// A session in full feature phase.
///
/// Who drives it does, in this order, after anything has happened:
///
/// 1. bytes from a socket go in: [`Connection::space`], [`Connection::filled`], then
///    [`Session::receive`];
/// 2. [`Session::poll_work`] says what the stores are to do, until it says `None`; each piece of
///    work is answered, at once or later, with [`Session::read_with`] or [`Session::read_done`],
///    [`Session::status_done`];
/// 3. [`Connection::pending`] goes to the socket, [`Connection::sent`] says how much was taken, and
///    when it took anything, 1 and 2 follow again: what waited for room may go on;
/// 4. [`Session::poll_notice`] says what other sessions have to know.
///
/// [`Session::rest`] is called about once a second.
///
/// Memory is bounded: tasks by the command window, unsolicited data by FirstBurstLength times the
/// window (256 MiB at most), solicited data by 64 MiB or one task, what waits for a socket by
/// 4 MiB and one PDU; and all of these, over all sessions, by [`SessionConfig::memory`].
#[derive(Debug)]
pub struct Session {
    pub(super) core: Core,
    pub(super) connections: Vec<Connection>,
}

/// The session apart from its connections, so that a PDU in a connection's buffer can be handled
/// while it is borrowed.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) id: SessionId,
    /// The session's target; a discovery session has none.
    pub(super) target: Option<String>,
    /// What SendTargets knows.
    pub(super) targets: Arc<[TargetRecord]>,
    pub(super) parameters: SessionParameters,
    pub(super) config: SessionConfig,
    pub(super) nexus: Nexus,
    pub(super) window: CommandWindow,
    pub(super) share: Share,
    pub(super) held: HoldQueue<Held>,
    /// Bytes of data in `held`.
    pub(super) held_bytes: usize,
    pub(super) tasks: Tasks,
    pub(super) next_transfer_tag: u32,
    pub(super) solicited_bytes: u32,
    /// Bytes of reads that stores have been asked for: they will have to be sent, too.
    pub(super) at_store_bytes: usize,
    /// Writes that wait for room in the bound on solicited data, oldest first.
    pub(super) waiting_for_grant: VecDeque<TaskTag>,
    pub(super) management: Vec<Management>,
    pub(super) notices: VecDeque<Notice>,
}

impl Session {
    /// A session that begins with a connection that has just logged in; `cmd_sn` is the CmdSN of
    /// its first command.
    pub(super) fn new(
        id: SessionId,
        target: Option<String>,
        targets: Arc<[TargetRecord]>,
        parameters: SessionParameters,
        config: SessionConfig,
        cmd_sn: Sn,
        first: Connection,
    ) -> Self {
        let window = config.window(&parameters);
        let nexus = config.device.nexus();
        let share = Share::of(&config.memory);
        Session {
            core: Core {
                id,
                target,
                targets,
                parameters,
                config,
                nexus,
                window: CommandWindow::new(cmd_sn, window),
                share,
                held: HoldQueue::default(),
                held_bytes: 0,
                tasks: Tasks::default(),
                next_transfer_tag: 0,
                solicited_bytes: 0,
                at_store_bytes: 0,
                waiting_for_grant: VecDeque::new(),
                management: Vec::new(),
                notices: VecDeque::new(),
            },
            connections: vec![first],
        }
    }

    /// The session's id in trace records.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.core.id
    }

    /// The session's connections; a connection's place is what other calls take.
    pub fn connections(&mut self) -> &mut [Connection] {
        &mut self.connections
    }

    /// Handles what has come on the connection at `place`, as far as its answers have room.
    ///
    /// # Errors
    /// The connection must be closed once its pending bytes are sent, and the session with it.
    pub fn receive(
        &mut self,
        place: usize,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        loop {
            let Connection { receiver, link } = &mut self.connections[place];
            if !link.hears() {
                return Ok(());
            }
            match receiver.next() {
                Ok(Some(pdu)) => self.core.incoming(place, link, &pdu, now, trace)?,
                Ok(None) => return Ok(()),
                Err(error) => self.core.frame_error(link, error, now, trace)?,
            }
            while let Some(held) = self.core.take_held() {
                let link = &mut self.connections[held.place].link;
                self.core
                    .deliver(held.place, link, &held.bhs, &held.data, now, trace)?;
            }
            // Tasks that were aborted or broke off have given room back.
            self.grant_waiting(now, trace);
            let at_store_bytes = self.core.at_store_bytes;
            let link = &mut self.connections[place].link;
            link.settle(&mut self.core.share, at_store_bytes);
        }
    }

    /// Gives back memory that is not in use now.
    pub fn rest(&mut self) {
        for Connection { link, .. } in &mut self.connections {
            link.transmitter.shrink();
            link.settle(&mut self.core.share, self.core.at_store_bytes);
        }
    }

    /// What other sessions have to know, oldest first.
    pub fn poll_notice(&mut self) -> Option<Notice> {
        self.core.notices.pop_front()
    }

    /// Sends a ping on the connection at `place` unless one is unanswered already; says whether it
    /// did. Any byte from the initiator counts as a sign of life, not only the answer.
    pub fn ping(&mut self, place: usize, now: Instant, trace: &mut Recorder) -> bool {
        let link = &mut self.connections[place].link;
        if link.pinged {
            return false;
        }
        link.pinged = true;
        self.core.send_ping(link, now, trace);
        true
    }
}
