//! The places of a session's connections, and which connections are to be closed.

use std::collections::VecDeque;

use wansan_trace::ConnectionId;

use super::error::Close;

/// A place for a connection, whatever becomes of the connection.
#[derive(Debug, Default)]
struct Place {
    /// The connection that works here now.
    cid: Option<ConnectionId>,
    /// The connection that was lost here, whose tasks are kept.
    lost: Option<ConnectionId>,
    farewell: Farewell,
}

/// What the initiator has said of a connection's end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Farewell {
    /// Nothing: the end would come as a surprise.
    #[default]
    None,
    /// It has logged the connection out, with all its tasks.
    Closed,
    /// It will reassign the tasks.
    ForRecovery,
}

/// Who is where in a session: at each place at most one connection works, each CID at one place.
#[derive(Debug, Default)]
pub(super) struct Places {
    places: Vec<Place>,
    /// Connections to be closed, and why.
    ends: VecDeque<(usize, Close)>,
    /// The initiator has logged the session out: connections that join it are closed.
    is_closing: bool,
}

impl Places {
    /// A connection begins to work at `place`, which is free or one behind the last.
    pub(super) fn enter(&mut self, place: usize, cid: ConnectionId) {
        if place == self.places.len() {
            self.places.push(Place::default());
        }
        self.places[place].cid = Some(cid);
        self.places[place].farewell = Farewell::None;
        if self.is_closing {
            // It was logging in when the session was logged out.
            self.places[place].farewell = Farewell::Closed;
            self.end(place, Close::LoggedOut);
        }
    }

    /// The connection at `place` works no more; returns what the initiator had said of that.
    pub(super) fn leave(&mut self, place: usize) -> Farewell {
        self.places[place].cid = None;
        self.places[place].farewell
    }

    /// The tasks of the lost connection `cid` are kept at `place`.
    pub(super) fn keep_lost(&mut self, place: usize, cid: ConnectionId) {
        self.places[place].lost = Some(cid);
    }

    /// Nothing is kept at `place` any more.
    pub(super) fn vacate(&mut self, place: usize) {
        self.places[place].lost = None;
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// How many connections work.
    pub(super) fn working(&self) -> usize {
        let cids = self.places.iter().filter_map(|place| place.cid);
        cids.count()
    }

    /// The place of the active connection with this CID.
    pub(super) fn of(&self, cid: ConnectionId) -> Option<usize> {
        self.places.iter().position(|place| place.cid == Some(cid))
    }

    /// The place that a logout of this CID names: what works under it comes before what is left of
    /// one that did.
    pub(super) fn named(&self, cid: ConnectionId) -> Option<usize> {
        let lost = |place: &Place| place.lost == Some(cid);
        self.of(cid).or_else(|| self.places.iter().position(lost))
    }

    /// Whether tasks of a lost connection are kept at `place`.
    pub(super) fn is_lost(&self, place: usize) -> bool {
        self.places[place].lost.is_some()
    }

    /// Whether the initiator has logged the connection at `place` out, which has not left yet.
    pub(super) fn is_leaving(&self, place: usize) -> bool {
        self.places[place].farewell != Farewell::None
    }

    /// Notes what the initiator says of the end of the connection at `place`, if there is one.
    pub(super) fn say_farewell(&mut self, place: usize, farewell: Farewell) {
        if let Some(place) = self.places.get_mut(place) {
            place.farewell = farewell;
        }
    }

    /// The session is logged out as a whole.
    pub(super) fn close_session(&mut self) {
        self.is_closing = true;
    }

    /// Closes whatever `place` has after a logout that came on another connection.
    pub(super) fn end_logged_out(&mut self, place: usize, for_recovery: bool) {
        let Place { cid, lost, .. } = self.places[place];
        if cid.is_some() || lost.is_some() && !for_recovery {
            self.end(place, Close::LoggedOut);
        }
    }

    /// Has the connection at `place` closed.
    pub(super) fn end(&mut self, place: usize, close: Close) {
        self.ends.push_back((place, close));
    }

    /// The next connection to be closed.
    pub(super) fn next_end(&mut self) -> Option<(usize, Close)> {
        self.ends.pop_front()
    }
}
