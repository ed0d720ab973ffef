//! A target's session: command window, tasks, and store operations.

use std::sync::Arc;

use wansan_trace::{Instant, Recorder, SessionId, TaskTag};

use super::allowance::{Allowance, Period, Taken};
use super::answered::Recovery;
use super::connection::{Connection, Link};
use super::gate::StoreGate;
use super::grants::Grants;
use super::management::Functions;
use super::memory::{Memory, Share};
use super::meter::Meters;
use super::order::CommandOrder;
use super::places::Places;
use super::task::Tasks;
use crate::keys::SessionParameters;
use crate::login::AnnouncedWindow;
use crate::scsi::{InitiatorPort, Nexus, Remains, TargetDevice};
use crate::sequence::Sn;
use crate::text::send_targets::TargetRecord;

/// The settings of a session other than those negotiated at login.
#[derive(Debug, Clone)]
pub struct SessionConfig {
    /// The logical units.
    pub device: Arc<TargetDevice>,
    /// Size of the command window (1 to 65,536).
    pub command_window: u32,
    /// Limit on the bytes of unsolicited data, by default [`UNSOLICITED_BYTES`]; it limits the
    /// command window ([`SessionConfig::window`]).
    pub unsolicited_bytes: u32,
    /// The memory shared by all sessions of the target.
    pub memory: Arc<Memory>,
    /// Whether the status of a read always comes in a SCSI Response (RFC 7143 §11.4), never in the
    /// last Data-In (§11.7.3).
    pub separate_status: bool,
    /// Whether one send call may carry several PDUs.
    pub join_sends: bool,
}

impl SessionConfig {
    /// The command window of a session with these parameters, for its login to announce: the
    /// configured size, limited so that every command in it may carry FirstBurstLength of
    /// unsolicited data.
    #[must_use]
    pub fn window(&self, parameters: &SessionParameters) -> u32 {
        let bound = self.unsolicited_bytes / parameters.first_burst_bytes.max(1);
        self.command_window.min(bound).max(1)
    }
}

/// The default limit on the unsolicited data of one session.
pub const UNSOLICITED_BYTES: u32 = 256 * 1024 * 1024;

/// A session in full feature phase, with one connection or several.
///
/// A connection has an index, a small number that it keeps until it leaves. After each event the driver calls, in this
/// order:
///
/// 1. input from a socket: [`Connection::space`], [`Connection::filled`], then [`Session::receive`];
/// 2. [`Session::poll_work`], which returns store operations until `None`; each is completed, at once or later, with
///    [`Session::complete`], a read also with [`Session::read_space`];
/// 3. output to the socket: [`Connection::pending`], then [`Connection::sent`] with the number of bytes accepted; if
///    not zero, 1 and 2 again: work that waited for room may continue;
/// 4. [`Session::poll_end`], which returns the connections to close, each with [`Session::leave`].
///
/// Input on one connection can create work for others: those for which [`Session::is_busy`] is true need 2 and 3 as
/// well. So can other sessions of the device: when the device [rings its bell](TargetDevice::set_bell), call
/// [`Session::review`] first.
///
/// A thread that serves several sessions periodically takes [stock](Session::take_stock) of those served since the last
/// time, and [adapts](Session::adapt_window) their windows to the use by all of them ([`Period::of`]).
///
/// [`Session::join`] adds another connection, [`Session::leave`] removes one whose socket is dead; the session [`is
/// over`](Session::is_over) when the last one has left. Call [`Session::rest`] and [`Session::expire`] about once a
/// second.
///
/// While store operations of its initiator's ended sessions are outstanding, a session accepts commands but starts no
/// store operation. So end a session with [`Session::end`], and keep the result until the stores have completed.
///
/// Memory is bounded: tasks by the command window, unsolicited data by FirstBurstLength times the
/// window ([`SessionConfig::unsolicited_bytes`] at most), solicited data by 64 MiB or one task,
/// send buffers by 4 MiB and one PDU per connection; and all of these, over all sessions, by
/// [`SessionConfig::memory`].
#[derive(Debug)]
pub struct Session {
    pub(super) core: Core,
    /// By index.
    pub(super) connections: Vec<Option<Connection>>,
}

/// The session without its connections, so that a PDU in a connection's buffer can be handled while it is borrowed.
/// Each owner among its fields keeps its own invariants; effects of an event on several of them are decided here.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) id: SessionId,
    /// The session's target; a discovery session has none.
    pub(super) target: Option<String>,
    /// The targets that SendTargets lists.
    pub(super) targets: Arc<[TargetRecord]>,
    pub(super) parameters: SessionParameters,
    pub(super) config: SessionConfig,
    pub(super) nexus: Nexus,
    pub(super) share: Share,
    pub(super) order: CommandOrder,
    pub(super) allowance: Allowance,
    pub(super) tasks: Tasks,
    pub(super) grants: Grants,
    pub(super) gate: StoreGate,
    /// Tasks that wait for a fence.
    pub(super) fenced: Vec<TaskTag>,
    pub(super) functions: Functions,
    pub(super) recovery: Recovery,
    pub(super) places: Places,
    pub(super) meters: Meters,
}

impl Session {
    /// A session that begins with a connection that has just logged in; `cmd_sn` is the CmdSN of
    /// its first command.
    #[expect(clippy::too_many_arguments, reason = "a session begins with this much")]
    pub(super) fn new(
        id: SessionId,
        initiator: InitiatorPort,
        target: Option<String>,
        targets: Arc<[TargetRecord]>,
        parameters: SessionParameters,
        config: SessionConfig,
        cmd_sn: Sn,
        first: Connection,
    ) -> Self {
        let window = config.window(&parameters);
        let mut nexus = config.device.nexus(initiator);
        let gate = StoreGate::behind(nexus.take_fence());
        let share = Share::of(&config.memory);
        let order = CommandOrder::new(cmd_sn, window, config.unsolicited_bytes, &parameters);
        let meters = Meters::of(config.device.units().len());
        let mut session = Session {
            core: Core {
                id,
                target,
                targets,
                parameters,
                config,
                nexus,
                share,
                order,
                allowance: Allowance::full(window),
                tasks: Tasks::default(),
                grants: Grants::default(),
                gate,
                fenced: Vec::new(),
                functions: Functions::default(),
                recovery: Recovery::new(parameters.error_recovery_level),
                places: Places::default(),
                meters,
            },
            connections: Vec::new(),
        };
        session.join(first);
        session
    }

    /// The session's id in trace records.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.core.id
    }

    /// The connection at `place`.
    pub fn connection(&mut self, place: usize) -> Option<&mut Connection> {
        self.connections.get_mut(place)?.as_mut()
    }

    /// Whether the connection at `place` has work to do without further input: unsent bytes, or tasks queued for a
    /// store.
    #[must_use]
    pub fn is_busy(&self, place: usize) -> bool {
        let connection = self.connections.get(place).and_then(Option::as_ref);
        connection.is_some_and(|connection| {
            let ready = !connection.link.ready.is_empty() && !connection.link.is_lost();
            !connection.pending().is_empty() || ready && self.core.asks_stores(place)
        })
    }

    /// Applies changes made by other sessions of the device: ends the tasks that they have aborted, and resumes those
    /// that waited for their operations. Then serve connections for which [`Session::is_busy`] is true.
    pub fn review(&mut self, now: Instant, trace: &mut Recorder) {
        self.refresh(now, trace);
        self.core.gate.review();
        self.pass_fences(now, trace);
        self.management_done(now, trace);
    }

    /// Ends the session, all of whose connections have left or are abandoned. Keep the result until the stores have
    /// completed all operations of the session.
    pub fn end(self) -> Remains {
        self.core.nexus.end()
    }

    /// The session's negotiated parameters.
    #[must_use]
    pub fn parameters(&self) -> &SessionParameters {
        &self.core.parameters
    }

    /// The present ExpCmdSN and MaxCmdSN, for the login of another connection to announce.
    #[must_use]
    pub fn window(&self) -> AnnouncedWindow {
        self.core.order.announced()
    }

    /// The session's use of its thread since the last call, in `turns` turns.
    pub fn take_stock(&mut self, turns: u64) -> Taken {
        let meters = self.connections.iter().flatten().map(Connection::meter);
        let bytes = meters.map(|meter| meter.received_bytes + meter.sent_bytes);
        let commands = self.core.meters.session.commands;
        self.core.allowance.take_stock(turns, commands, bytes.sum())
    }

    /// Adapts the command window to the session's use of its thread in a period: it shrinks while the session uses more
    /// than other backlogged ones, and grows again, up to its size at login, once they have their share.
    pub fn adapt_window(&mut self, period: Period, taken: Taken) {
        let size = self.core.allowance.after(period, taken);
        self.core.order.resize_window(size);
    }

    /// Handles the bytes received on the connection at `place`, as far as its send buffer has room for the responses.
    /// [`Session::poll_end`] then returns the connections to close.
    pub fn receive(&mut self, place: usize, now: Instant, trace: &mut Recorder) {
        self.refresh(now, trace);
        loop {
            let connection = self.connections.get_mut(place).and_then(Option::as_mut);
            let Some(Connection { receiver, link }) = connection else {
                return;
            };
            if !link.hears() {
                return;
            }
            let handled = match receiver.next() {
                Ok(Some(pdu)) => self.core.incoming(place, link, &pdu, now, trace),
                Ok(None) => return,
                Err(error) => self.core.frame_error(place, link, error, now, trace),
            };
            self.core.end_after(place, link, handled);
            self.deliver_held(now, trace);
            if !self.core.functions.is_empty() {
                self.management_done(now, trace);
            }
            // Aborted or failed tasks have freed room.
            self.grant_waiting(now, trace);
            if let Some(link) = link_at(&mut self.connections, place) {
                let at_store_bytes = self.core.tasks.at_store_bytes(place);
                link.settle(&mut self.core.share, at_store_bytes);
            }
        }
    }

    /// Delivers held commands whose turn has come, each on the connection that received it.
    fn deliver_held(&mut self, now: Instant, trace: &mut Recorder) {
        while let Some(held) = self.core.take_held() {
            let Some(link) = link_at(&mut self.connections, held.place) else {
                self.core.order.release(true);
                continue;
            };
            let handled = self.core.deliver_with_data(link, &held, now, trace);
            self.core.end_after(held.place, link, handled);
        }
    }

    /// Releases memory that is not in use.
    pub fn rest(&mut self) {
        for (place, connection) in self.connections.iter_mut().enumerate() {
            if let Some(Connection { receiver, link }) = connection {
                receiver.shrink();
                link.transmitter.shrink();
                let at_store_bytes = self.core.tasks.at_store_bytes(place);
                link.settle(&mut self.core.share, at_store_bytes);
            }
        }
    }

    /// Sends a NOP-In on the connection at `place` unless one is unanswered; returns whether it
    /// did. Any byte from the initiator shows that it is alive, not only the answer.
    pub fn ping(&mut self, place: usize, now: Instant, trace: &mut Recorder) -> bool {
        let Some(link) = link_at(&mut self.connections, place) else {
            return false;
        };
        if link.pinged {
            return false;
        }
        link.pinged = true;
        self.core.send_ping(link, now, trace);
        true
    }
}

impl Core {
    /// Whether tasks of the connection at `place` may start store operations: not once it is logged out, because its
    /// tasks are suspended then (RFC 7143 §11.14).
    pub(super) fn asks_stores(&self, place: usize) -> bool {
        let is_free = self.gate.is_open() && !self.nexus.is_replaced();
        is_free && !self.places.is_leaving(place)
    }
}

/// The sending half of the connection at `place`.
pub(super) fn link_at(connections: &mut [Option<Connection>], place: usize) -> Option<&mut Link> {
    Some(&mut connections.get_mut(place)?.as_mut()?.link)
}
