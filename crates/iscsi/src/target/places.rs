//! Indices of a session's connections, and which connections must close.

use std::collections::VecDeque;

use wansan_trace::ConnectionId;

use super::error::Close;

/// The slot of an index, which outlives its connection.
#[derive(Debug, Default)]
struct Place {
    /// The active connection.
    cid: Option<ConnectionId>,
    /// The lost connection whose tasks are kept.
    lost: Option<ConnectionId>,
    farewell: Farewell,
}

/// What the initiator has announced about a connection's end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Farewell {
    /// Nothing: the connection is not expected to end.
    #[default]
    None,
    /// It has logged the connection out, with all its tasks.
    Closed,
    /// It will reassign the tasks.
    ForRecovery,
}

/// The connections of a session by index: each index has at most one active connection, each CID one index.
#[derive(Debug, Default)]
pub(super) struct Places {
    places: Vec<Place>,
    /// Connections to close, and the reasons.
    ends: VecDeque<(usize, Close)>,
    /// The initiator has logged the session out: connections that join it are closed.
    is_closing: bool,
}

impl Places {
    /// A connection becomes active at `place`, which is free or one after the last.
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

    /// The connection at `place` is no longer active; returns what the initiator had announced.
    pub(super) fn leave(&mut self, place: usize) -> Farewell {
        self.places[place].cid = None;
        self.places[place].farewell
    }

    /// The tasks of the lost connection `cid` are kept at `place`.
    pub(super) fn keep_lost(&mut self, place: usize, cid: ConnectionId) {
        self.places[place].lost = Some(cid);
    }

    /// Drops what is kept at `place`.
    pub(super) fn vacate(&mut self, place: usize) {
        self.places[place].lost = None;
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Number of active connections.
    pub(super) fn working(&self) -> usize {
        let cids = self.places.iter().filter_map(|place| place.cid);
        cids.count()
    }

    /// The index of the active connection with this CID.
    pub(super) fn of(&self, cid: ConnectionId) -> Option<usize> {
        self.places.iter().position(|place| place.cid == Some(cid))
    }

    /// The index that a logout of this CID refers to: the active connection takes precedence over the remains of a lost
    /// one.
    pub(super) fn named(&self, cid: ConnectionId) -> Option<usize> {
        let lost = |place: &Place| place.lost == Some(cid);
        self.of(cid).or_else(|| self.places.iter().position(lost))
    }

    /// Whether tasks of a lost connection are kept at `place`.
    pub(super) fn is_lost(&self, place: usize) -> bool {
        self.places[place].lost.is_some()
    }

    /// Whether the initiator has logged out the connection at `place`, which has not left yet.
    pub(super) fn is_leaving(&self, place: usize) -> bool {
        self.places[place].farewell != Farewell::None
    }

    /// Notes the initiator's announcement about the end of the connection at `place`, if there is one.
    pub(super) fn say_farewell(&mut self, place: usize, farewell: Farewell) {
        if let Some(place) = self.places.get_mut(place) {
            place.farewell = farewell;
        }
    }

    /// The whole session is logged out.
    pub(super) fn close_session(&mut self) {
        self.is_closing = true;
    }

    /// Closes the connection or the remains at `place` after a logout received on another connection.
    pub(super) fn end_logged_out(&mut self, place: usize, for_recovery: bool) {
        let Place { cid, lost, .. } = self.places[place];
        if cid.is_some() || lost.is_some() && !for_recovery {
            self.end(place, Close::LoggedOut);
        }
    }

    /// Requests that the connection at `place` is closed.
    pub(super) fn end(&mut self, place: usize, close: Close) {
        self.ends.push_back((place, close));
    }

    /// The next connection to close.
    pub(super) fn next_end(&mut self) -> Option<(usize, Close)> {
        self.ends.pop_front()
    }
}
