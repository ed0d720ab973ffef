//! How connections come into a session and leave it (RFC 7143 §6.3, §11.14).

use wansan_trace::{ConnectionId, Instant, Recorder, TaskTag};

use super::connection::{Connection, Link};
use super::error::Close;
use super::session::{Core, Session};
use crate::wire::{AsyncEvent, Bhs, LogoutReason, LogoutRequest, LogoutResult};

/// A place for a connection, whatever becomes of the connection.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// The connection that is here now.
    pub(super) cid: Option<ConnectionId>,
    /// It has been logged out: its end is no news to the initiator.
    logged_out: bool,
    /// Bytes of reads that stores have been asked for: they will have to be sent here, too.
    pub(super) at_store_bytes: usize,
}

impl Session {
    /// Takes in a connection that has logged in, and gives its place. There must be room for it
    /// ([`Session::connections`]); one that has the same CID must leave at once.
    pub fn join(&mut self, connection: Connection) -> usize {
        let free = self.connections.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.connections.push(None);
            self.core.places.push(Place::default());
            self.connections.len() - 1
        });
        let cid = Some(connection.id());
        self.core.places[place].cid = cid;
        self.core.places[place].logged_out = false;
        self.connections[place] = Some(connection);
        place
    }

    /// How many connections there are; MaxConnections bounds them (§13.2).
    #[must_use]
    pub fn connections(&self) -> usize {
        self.connections.iter().flatten().count()
    }

    /// The place of the connection with this CID.
    #[must_use]
    pub fn place_of(&self, cid: u16) -> Option<usize> {
        self.core.place_of(ConnectionId(cid))
    }

    /// Whether the last connection has left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.connections() == 0
    }

    /// Notes that the end of the connection at `place` is no news to the initiator, as another one
    /// takes its CID over (§6.3.4).
    pub fn logged_out(&mut self, place: usize) {
        if let Some(place) = self.core.places.get_mut(place) {
            place.logged_out = true;
        }
    }

    /// Takes out the connection at `place`, which was logged out, has broken the protocol or whose
    /// socket is dead, and gives the bytes that it still had to send.
    ///
    /// Its tasks end without an answer. The standard's remedy for a lost connection at error
    /// recovery levels 0 and 1 is to begin the session anew (§7.1.4.1), and that is the
    /// initiator's to do (§6.3.5); until then the other connections work on. What the lost one had
    /// brought ahead of a gap in CmdSN is as if it had never come (§11.14), so that the
    /// initiator can close the gaps by sending it again elsewhere (§7.2.1).
    pub fn leave(&mut self, place: usize, now: Instant, trace: &mut Recorder) -> Vec<u8> {
        let Some(Connection { mut link, .. }) =
            self.connections.get_mut(place).and_then(Option::take)
        else {
            return Vec::new();
        };
        self.core.end_tasks_of(place, now, trace);
        link.discharge(&mut self.core.share);
        self.core.places[place].cid = None;
        if !self.core.places[place].logged_out {
            self.tell_of_loss(link.id, now, trace);
        }
        // Functions may have waited for tasks, and writes for memory.
        self.management_done(now, trace);
        link.transmitter.pending().to_vec()
    }

    /// Tells the initiator, on a connection that is left, that another one is gone (§11.9.1).
    fn tell_of_loss(&mut self, lost: ConnectionId, now: Instant, trace: &mut Recorder) {
        let heard = |connection: &&mut Connection| !connection.link.ended;
        if let Some(Connection { link, .. }) = self.connections.iter_mut().flatten().find(heard) {
            let event = AsyncEvent::DropConnection;
            self.core.send_async(link, event, lost.0, now, trace);
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

    /// Ends the tasks of the connection at `place` without an answer, and forgets what it has
    /// brought ahead of a gap in CmdSN.
    fn end_tasks_of(&mut self, place: usize, now: Instant, trace: &mut Recorder) {
        for held in self.held.discard(|held| held.place == place) {
            self.let_go(&held);
        }
        self.management.retain(|waiting| waiting.place != place);
        let tasks = self.tasks.iter().filter(|(_, task)| task.place == place);
        let tags: Vec<TaskTag> = tasks.map(|(tag, _)| *tag).collect();
        for tag in self.abort(&tags, now, trace) {
            if !self.left_behind.contains(&tag) {
                self.left_behind.push(tag);
            }
        }
    }

    /// Carries out a Logout Request.
    pub(super) fn logout(
        &mut self,
        link: &mut Link,
        bhs: &Bhs,
        now: Instant,
        trace: &mut Recorder,
    ) -> Result<(), Close> {
        let request = LogoutRequest::parse(bhs)?;
        self.release(!request.immediate);
        let named = self.place_of(ConnectionId(request.cid));
        let (closed, result) = match (request.reason, named) {
            (LogoutReason::CloseSession, _) => (0..self.places.len(), LogoutResult::Closed),
            (LogoutReason::CloseConnection, Some(place)) => {
                (place..place + 1, LogoutResult::Closed)
            }
            (LogoutReason::CloseConnection, None) => (0..0, LogoutResult::CidNotFound),
            (LogoutReason::RemoveForRecovery, _) => (0..0, LogoutResult::RecoveryNotSupported),
        };
        let mut own = Ok(());
        for place in closed {
            let Some(cid) = self.places[place].cid else {
                continue;
            };
            // §11.14: "the target MUST terminate all pending commands … on that connection or
            // session", before it says so.
            self.end_tasks_of(place, now, trace);
            self.places[place].logged_out = true;
            if cid == link.id {
                own = Err(Close::LoggedOut);
            } else {
                self.ends.push_back((place, Close::LoggedOut));
            }
        }
        self.send_logout(link, request.task_tag, result, now, trace);
        own
    }
}
