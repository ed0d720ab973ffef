//! How connections join a session and leave it (RFC 7143 §6.3, §7.1.4, §11.14).

use core::ops::Range;
use core::time::Duration;

use wansan_trace::{ConnectionId, Instant, Recorder, TaskTag};

use super::connection::{Connection, Link};
use super::error::Close;
use super::kept::Kept;
use super::management::{Management, ManagementKind};
use super::places::Farewell;
use super::session::{Core, Session};
use super::task::{Stage, Task};
use crate::keys::SessionParameters;
use crate::scsi::Fence;
use crate::sequence::Sn;
use crate::wire::{AsyncEvent, Bhs, LogoutReason, LogoutRequest, LogoutResult};

/// The longest time to keep tasks of a lost connection, whatever Time2Wait the initiator has negotiated: a session
/// without a connection takes the place of another.
const MAX_KEPT: Duration = Duration::from_secs(120);

impl Session {
    /// Adds a logged-in connection, and returns its index. There must be room for it ([`Session::connections`]); a
    /// connection with the same CID must leave at once, after [`Session::reinstated`].
    pub fn join(&mut self, mut connection: Connection) -> usize {
        if !self.core.config.join_sends {
            connection.link.transmitter.part_pdus();
        }
        if self.core.recovery.resends() {
            connection.link.kept = Some(Kept::new(connection.link.stat_sn));
            self.acknowledge_predecessor(connection.id(), connection.link.login_exp_stat_sn);
        }
        let free = self.connections.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.connections.push(None);
            self.connections.len() - 1
        });
        self.core.places.enter(place, connection.id());
        self.connections[place] = Some(connection);
        place
    }

    /// The login of a connection that takes over a CID acknowledges responses of the old one (§11.12.9). The remaining
    /// ones lose their numbers: the new one continues the count.
    fn acknowledge_predecessor(&mut self, cid: ConnectionId, exp_stat_sn: Sn) {
        for Connection { link, .. } in self.connections.iter_mut().flatten() {
            if link.id == cid {
                self.core.recovery.acknowledge(link, exp_stat_sn);
                link.kept = None;
            }
        }
    }

    /// Number of active connections; MaxConnections limits them (§13.2).
    #[must_use]
    pub fn connections(&self) -> usize {
        self.core.places.working()
    }

    /// The index of the active connection with this CID.
    #[must_use]
    pub fn place_of(&self, cid: u16) -> Option<usize> {
        self.core.places.of(ConnectionId(cid))
    }

    /// Whether the last connection has left, and none of its tasks is kept.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.connections.iter().all(Option::is_none)
    }

    /// Notes that another connection takes over the CID of the one at `place`. That is an implicit
    /// logout (§6.3.4), for recovery where that is supported (§11.14).
    pub fn reinstated(&mut self, place: usize) {
        self.core.places.say_farewell(place, Farewell::ForRecovery);
    }

    /// Removes the connection at `place`, which was logged out, violated the protocol or lost its socket, and returns
    /// its pending bytes.
    ///
    /// At error recovery level 2 its tasks are kept for Time2Wait plus Time2Retain (at most 120 s,
    /// and for at most MaxConnections lost connections), unless it was closed by a logout: TASK
    /// REASSIGN moves them to another connection (§7.2.2), and meanwhile the session continues even
    /// without a connection (§6.3.6).
    ///
    /// Otherwise they end without a response. At error recovery levels 0 and 1 the standard
    /// recovers a lost connection by session reinstatement (§7.1.4.4), which is up to the initiator
    /// (§6.3.5); until then the other connections continue. Commands of the lost one held behind a
    /// gap in CmdSN are discarded (§11.14), so that the initiator can close the gaps by retrying
    /// them elsewhere (§7.2.1).
    pub fn leave(&mut self, place: usize, now: Instant, trace: &mut Recorder) -> Vec<u8> {
        let connection = self.connections.get_mut(place).and_then(Option::as_mut);
        let Some(Connection { link, .. }) = connection else {
            return Vec::new();
        };
        let cid = link.id;
        let rest = link.transmitter.pending().to_vec();
        let was_closed = self.core.order.is_closed();
        let farewell = self.core.places.leave(place);
        if !self.core.recovery.keeps_tasks() || farewell == Farewell::Closed {
            self.remove(place, now, trace);
        } else {
            self.core.discard_held(place);
            self.core.places.keep_lost(place, cid);
            let seconds = self.core.parameters.time2wait_s + self.core.parameters.time2retain_s;
            let until = now + Duration::from_secs(u64::from(seconds)).min(MAX_KEPT);
            if let Some(connection) = &mut self.connections[place] {
                connection.lose(until);
            }
            self.bound_lost(now, trace);
        }
        if farewell == Farewell::None {
            self.core.meters.session.lost_connections += 1;
            self.tell_of_loss(cid, now, trace);
        }
        // Functions may have waited for tasks, and writes for memory.
        self.management_done(now, trace);
        self.announce_window(was_closed, now, trace);
        rest
    }

    /// Drops the state of the oldest lost connection when more are lost than may be active at once.
    fn bound_lost(&mut self, now: Instant, trace: &mut Recorder) {
        let lost = self.connections.iter().enumerate();
        let lost = lost
            .filter_map(|(place, connection)| Some((connection.as_ref()?.link.lost_until?, place)));
        let lost: Vec<(Instant, usize)> = lost.collect();
        if lost.len() > usize::from(self.core.parameters.max_connections)
            && let Some(&(_, oldest)) = lost.iter().min()
        {
            self.remove(oldest, now, trace);
        }
    }

    /// Drops the tasks of connections lost for longer than Time2Wait and Time2Retain (§13.15,
    /// §13.16).
    pub fn expire(&mut self, now: Instant, trace: &mut Recorder) {
        for place in 0..self.connections.len() {
            let until = self.connections[place].as_ref();
            let until = until.and_then(|connection| connection.link.lost_until);
            if until.is_some_and(|until| until <= now) {
                self.remove(place, now, trace);
            }
        }
    }

    /// Ends everything of the connection at `place`.
    fn remove(&mut self, place: usize, now: Instant, trace: &mut Recorder) {
        self.core.end_tasks_of(place, now, trace);
        if let Some(Connection { mut link, .. }) = self.connections[place].take() {
            link.discharge(&mut self.core.share);
        }
        self.core.places.vacate(place);
    }

    /// The index of the next connection to close once its pending bytes are sent, and the reason. Where the standard
    /// requires a Reject first, it has been queued.
    pub fn poll_end(&mut self) -> Option<(usize, Close)> {
        while let Some((place, close)) = self.core.places.next_end() {
            match &mut self.connections[place] {
                // Nothing is left to close: its time is over.
                Some(Connection { link, .. }) if link.is_lost() => {
                    link.lost_until = Some(Instant::ZERO);
                }
                Some(_) => return Some((place, close)),
                None => {}
            }
        }
        None
    }

    /// Notifies the initiator, on a remaining connection, that another one is gone (§11.9.1).
    fn tell_of_loss(&mut self, lost: ConnectionId, now: Instant, trace: &mut Recorder) {
        let heard = |connection: &&mut Connection| {
            let Link { ended, .. } = &connection.link;
            !ended && !connection.link.is_lost()
        };
        if let Some(Connection { link, .. }) = self.connections.iter_mut().flatten().find(heard) {
            let event = AsyncEvent::DropConnection;
            let SessionParameters {
                time2wait_s,
                time2retain_s,
                ..
            } = self.core.parameters;
            let parameters = [lost.0, time2wait_s, time2retain_s];
            self.core.send_async(link, event, parameters, now, trace);
        }
    }

    /// Sends an Asynchronous Message on each connection that requests a logout within `seconds`
    /// (§11.9.1, event 1).
    pub fn ask_to_leave(&mut self, seconds: u16, now: Instant, trace: &mut Recorder) {
        for Connection { link, .. } in self.connections.iter_mut().flatten() {
            if !link.ended && !link.is_lost() {
                let event = AsyncEvent::LogoutRequest;
                self.core
                    .send_async(link, event, [0, 0, seconds], now, trace);
            }
        }
    }
}

impl Core {
    /// Notes that the connection at `place` must close if handling a PDU requires it.
    pub(super) fn end_after(&mut self, place: usize, link: &mut Link, handled: Result<(), Close>) {
        if let Err(close) = handled
            && !link.ended
        {
            link.ended = true;
            self.places.end(place, close);
        }
    }

    /// Drops undelivered commands from the connection at `place`, and functions that wait to be answered on it.
    fn discard_held(&mut self, place: usize) {
        self.order.discard(place, &mut self.share);
        self.functions.discard(place);
    }

    /// Ends the tasks of the connection at `place` without a response.
    fn end_tasks_of(&mut self, place: usize, now: Instant, trace: &mut Recorder) {
        self.discard_held(place);
        self.recovery.discard(place);
        let tags = self.tasks.tags(|task| task.place() == place);
        let at_store = self.abort(&tags, now, trace);
        self.gate.leave_behind(at_store);
    }

    /// Executes a Logout Request received on the connection at `here`.
    pub(super) fn logout(
        &mut self,
        here: usize,
        link: &mut Link,
        bhs: &Bhs,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        let request = LogoutRequest::parse(bhs)?;
        self.order.release(!request.immediate);
        let named = match request.reason {
            LogoutReason::CloseSession => 0..self.places.len(),
            _ => match self.places.named(ConnectionId(request.cid)) {
                Some(place) => place..place + 1,
                None => 0..0,
            },
        };
        let for_recovery = request.reason == LogoutReason::RemoveForRecovery;
        let result = if for_recovery && !self.recovery.keeps_tasks() {
            LogoutResult::RecoveryNotSupported
        } else if named.is_empty() {
            LogoutResult::CidNotFound
        } else {
            LogoutResult::Closed
        };
        if result != LogoutResult::Closed {
            self.send_logout(link, request.task_tag, result, now, trace);
            return Ok(());
        }
        if request.reason == LogoutReason::CloseSession {
            self.places.close_session();
        }
        let mut waiting = Management {
            request: request.task_tag,
            place: here,
            kind: ManagementKind::Logout {
                own: named.contains(&here),
            },
            tasks: self.landing(named.clone()),
            fence: Fence::default(),
            missing: None,
        };
        // Last, as it discards work waiting on the connections that it names.
        for place in named.clone() {
            self.log_out(place, for_recovery, here, now, trace);
        }
        if !self.is_over(&mut waiting) {
            link.leaving = named.contains(&here);
            self.functions.put(waiting);
            return Ok(());
        }
        self.send_logout(link, request.task_tag, result, now, trace);
        if named.contains(&here) {
            return Err(Close::LoggedOut);
        }
        Ok(())
    }

    /// Tasks on these connections whose writes may still reach the medium.
    fn landing(&self, places: Range<usize>) -> Vec<TaskTag> {
        let lands = |task: &Task| match task.stage {
            Stage::AtStore(_) => !task.reads(),
            Stage::Aborted => true,
            _ => false,
        };
        let wanted = |task: &Task| places.contains(&task.place()) && lands(task);
        self.tasks.tags(wanted)
    }

    /// Logs out the connection at `place`; the one at `own`, which received the request, closes after the response.
    fn log_out(
        &mut self,
        place: usize,
        for_recovery: bool,
        own: usize,
        now: Instant,
        trace: &mut Recorder,
    ) {
        if for_recovery {
            // §11.14: undelivered commands are discarded, the rest is suspended.
            self.discard_held(place);
            self.places.say_farewell(place, Farewell::ForRecovery);
        } else {
            // §11.14: "the target MUST terminate all pending commands … on that connection or
            // session", before it says so.
            self.end_tasks_of(place, now, trace);
            self.places.say_farewell(place, Farewell::Closed);
        }
        if place != own {
            self.places.end_logged_out(place, for_recovery);
        }
    }
}
