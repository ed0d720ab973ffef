//! How connections come into a session and leave it (RFC 7143 §6.3, §7.1.4, §11.14).

use core::ops::Range;
use core::time::Duration;

use wansan_trace::{ConnectionId, Instant, Recorder, TaskTag};

use super::connection::{Connection, Link};
use super::error::Close;
use super::kept::Kept;
use super::management::{Management, ManagementKind};
use super::session::{Core, Session};
use super::task::{Stage, Task};
use crate::keys::SessionParameters;
use crate::scsi::Fence;
use crate::sequence::Sn;
use crate::wire::{AsyncEvent, Bhs, LogoutReason, LogoutRequest, LogoutResult};

/// The longest time for which tasks of a lost connection are kept, whatever Time2Wait the initiator
/// has asked for: a session without a connection is one that others cannot have.
const MAX_KEPT: Duration = Duration::from_secs(120);

/// A place for a connection, whatever becomes of the connection.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The connection that works here now.
    pub(super) cid: Option<ConnectionId>,
    /// The connection that was lost here, whose tasks are kept.
    pub(super) lost: Option<ConnectionId>,
    farewell: Farewell,
    /// Bytes of reads that stores have been asked for: they will have to be sent here, too.
    pub(super) at_store_bytes: usize,
}

impl Place {
    /// Whether the initiator has logged its connection out, which has not left yet.
    pub(super) fn is_leaving(&self) -> bool {
        self.farewell != Farewell::None
    }
}

/// What the initiator has said of a connection's end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Farewell {
    /// Nothing: the end would come as a surprise.
    #[default]
    None,
    /// It has logged the connection out, with all its tasks.
    Closed,
    /// It will reassign the tasks.
    ForRecovery,
}

impl Session {
    /// Takes in a connection that has logged in, and gives its place. There must be room for it
    /// ([`Session::connections`]); one that has the same CID must leave at once, after
    /// [`Session::reinstated`].
    pub fn join(&mut self, mut connection: Connection) -> usize {
        if !self.core.config.join_sends {
            connection.link.transmitter.part_pdus();
        }
        if self.core.recovers() {
            connection.link.kept = Some(Kept::new(connection.link.stat_sn));
            self.acknowledge_predecessor(connection.id(), connection.link.login_exp_stat_sn);
        }
        let free = self.connections.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.connections.push(None);
            self.core.places.push(Place::default());
            self.connections.len() - 1
        });
        self.core.places[place].cid = Some(connection.id());
        self.core.places[place].farewell = Farewell::None;
        if self.core.is_closing {
            // It was logging in when the session was logged out.
            self.core.places[place].farewell = Farewell::Closed;
            self.core.ends.push_back((place, Close::LoggedOut));
        }
        self.connections[place] = Some(connection);
        place
    }

    /// The login of a connection that takes over a CID says which answers have come on the old one
    /// (§11.12.9). What is left there is not numbered any more: the new one counts on.
    fn acknowledge_predecessor(&mut self, cid: ConnectionId, exp_stat_sn: Sn) {
        for Connection { link, .. } in self.connections.iter_mut().flatten() {
            if link.id == cid {
                self.core.acknowledge(link, exp_stat_sn);
                link.kept = None;
            }
        }
    }

    /// How many connections work; MaxConnections bounds them (§13.2).
    #[must_use]
    pub fn connections(&self) -> usize {
        let cids = self.core.places.iter().filter_map(|place| place.cid);
        cids.count()
    }

    /// The place of the connection that works under this CID.
    #[must_use]
    pub fn place_of(&self, cid: u16) -> Option<usize> {
        self.core.place_of(ConnectionId(cid))
    }

    /// Whether the last connection has left, and nothing of it is kept any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.connections.iter().all(Option::is_none)
    }

    /// Notes that the end of the connection at `place` is no news to the initiator, as another one
    /// takes its CID over. It is an implicit logout (§6.3.4), for recovery where there is such a
    /// thing (§11.14).
    pub fn reinstated(&mut self, place: usize) {
        if let Some(place) = self.core.places.get_mut(place) {
            place.farewell = Farewell::ForRecovery;
        }
    }

    /// Takes out the connection at `place`, which was logged out, has broken the protocol or whose
    /// socket is dead, and gives the bytes that it still had to send.
    ///
    /// At error recovery level 2 its tasks are kept for Time2Wait and Time2Retain (for 120 s at
    /// most, and of as many connections as may work at once), unless it was closed by a logout:
    /// TASK REASSIGN moves them to another connection (§7.2.2), and while they are kept the session
    /// goes on even without a connection (§6.3.6).
    ///
    /// Else they end without an answer. The standard's remedy for a lost connection at error
    /// recovery levels 0 and 1 is to begin the session anew (§7.1.4.4), and that is the
    /// initiator's to do (§6.3.5); until then the other connections work on. What the lost one had
    /// brought ahead of a gap in CmdSN is as if it had never come (§11.14), so that the
    /// initiator can close the gaps by sending it again elsewhere (§7.2.1).
    pub fn leave(&mut self, place: usize, now: Instant, trace: &mut Recorder) -> Vec<u8> {
        let connection = self.connections.get_mut(place).and_then(Option::as_mut);
        let Some(Connection { link, .. }) = connection else {
            return Vec::new();
        };
        let cid = link.id;
        let rest = link.transmitter.pending().to_vec();
        let was_closed = self.core.window.is_closed();
        self.core.places[place].cid = None;
        let farewell = self.core.places[place].farewell;
        if self.core.parameters.error_recovery_level < 2 || farewell == Farewell::Closed {
            self.remove(place, now, trace);
        } else {
            self.core.discard_held(place);
            self.core.places[place].lost = Some(cid);
            let seconds = self.core.parameters.time2wait_s + self.core.parameters.time2retain_s;
            let until = now + Duration::from_secs(u64::from(seconds)).min(MAX_KEPT);
            if let Some(connection) = &mut self.connections[place] {
                connection.lose(until);
            }
            self.bound_lost(now, trace);
        }
        if farewell == Farewell::None {
            self.core.meter.lost_connections += 1;
            self.tell_of_loss(cid, now, trace);
        }
        // Functions may have waited for tasks, and writes for memory.
        self.management_done(now, trace);
        self.announce_window(was_closed, now, trace);
        rest
    }

    /// Lets go what is kept of the oldest lost connection when more are lost than may work at once.
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

    /// Lets go what was kept of lost connections for longer than Time2Wait and Time2Retain
    /// (§13.15, §13.16).
    pub fn expire(&mut self, now: Instant, trace: &mut Recorder) {
        for place in 0..self.connections.len() {
            let until = self.connections[place].as_ref();
            let until = until.and_then(|connection| connection.link.lost_until);
            if until.is_some_and(|until| until <= now) {
                self.remove(place, now, trace);
            }
        }
    }

    /// Ends all that there is of the connection at `place`.
    fn remove(&mut self, place: usize, now: Instant, trace: &mut Recorder) {
        self.core.end_tasks_of(place, now, trace);
        if let Some(Connection { mut link, .. }) = self.connections[place].take() {
            link.discharge(&mut self.core.share);
        }
        self.core.places[place].lost = None;
    }

    /// The next connection, by its place, that is to be closed once its pending bytes are sent,
    /// and why. Where the standard wants a Reject first, it has been queued.
    pub fn poll_end(&mut self) -> Option<(usize, Close)> {
        while let Some((place, close)) = self.core.ends.pop_front() {
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

    /// Tells the initiator, on a connection that is left, that another one is gone (§11.9.1).
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

    /// Asks the initiator, on each connection, to log out within `seconds` (§11.9.1, event 1).
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
    fn place_of(&self, cid: ConnectionId) -> Option<usize> {
        self.places.iter().position(|place| place.cid == Some(cid))
    }

    /// Notes that the connection at `place` is to be closed if handling a PDU has come to that.
    pub(super) fn end_after(&mut self, place: usize, link: &mut Link, handled: Result<(), Close>) {
        if let Err(close) = handled
            && !link.ended
        {
            link.ended = true;
            self.ends.push_back((place, close));
        }
    }

    /// Forgets what the connection at `place` has brought that was not its turn yet, and functions
    /// that wait to be answered on it.
    fn discard_held(&mut self, place: usize) {
        for held in self.held.discard(|held| held.place == place) {
            self.let_go(&held);
        }
        self.management.retain(|waiting| waiting.place != place);
    }

    /// Ends the tasks of the connection at `place` without an answer.
    fn end_tasks_of(&mut self, place: usize, now: Instant, trace: &mut Recorder) {
        self.discard_held(place);
        self.answered
            .retain(|_, answered| answered.task.place != place);
        let tasks = self.tasks.iter().filter(|(_, task)| task.place == place);
        let tags: Vec<TaskTag> = tasks.map(|(tag, _)| *tag).collect();
        for tag in self.abort(&tags, now, trace) {
            if !self.left_behind.contains(&tag) {
                self.left_behind.push(tag);
            }
        }
    }

    /// Carries out a Logout Request that has come on the connection at `here`.
    pub(super) fn logout(
        &mut self,
        here: usize,
        link: &mut Link,
        bhs: &Bhs,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        let request = LogoutRequest::parse(bhs)?;
        self.release(!request.immediate);
        let cid = Some(ConnectionId(request.cid));
        let is_named = |place: &Place| place.cid == cid || place.lost == cid;
        let named = match request.reason {
            LogoutReason::CloseSession => 0..self.places.len(),
            // What works under the CID comes before what is left of one that did.
            _ => match (
                self.place_of(ConnectionId(request.cid)),
                self.places.iter().position(is_named),
            ) {
                (Some(place), _) | (None, Some(place)) => place..place + 1,
                (None, None) => 0..0,
            },
        };
        let for_recovery = request.reason == LogoutReason::RemoveForRecovery;
        let result = if for_recovery && self.parameters.error_recovery_level < 2 {
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
        self.is_closing |= request.reason == LogoutReason::CloseSession;
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
        // Last, as it discards what waits on the connections that it names.
        for place in named.clone() {
            self.log_out(place, for_recovery, here, now, trace);
        }
        if !self.is_over(&mut waiting) {
            link.leaving = named.contains(&here);
            self.management.push(waiting);
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
        let tasks = self.tasks.iter();
        let tasks = tasks.filter(|(_, task)| places.contains(&task.place) && lands(task));
        tasks.map(|(tag, _)| *tag).collect()
    }

    /// Logs out the connection at `place`; the one at `own`, which the request came on, is closed
    /// after the answer.
    fn log_out(
        &mut self,
        place: usize,
        for_recovery: bool,
        own: usize,
        now: Instant,
        trace: &mut Recorder,
    ) {
        let Place { cid, lost, .. } = self.places[place];
        if for_recovery {
            // §11.14: what was not its turn yet is discarded, the rest is suspended.
            self.discard_held(place);
            self.places[place].farewell = Farewell::ForRecovery;
        } else {
            // §11.14: "the target MUST terminate all pending commands … on that connection or
            // session", before it says so.
            self.end_tasks_of(place, now, trace);
            self.places[place].farewell = Farewell::Closed;
        }
        if place != own && (cid.is_some() || lost.is_some() && !for_recovery) {
            self.ends.push_back((place, Close::LoggedOut));
        }
    }
}
