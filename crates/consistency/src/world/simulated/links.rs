//! Connections to the simulated target: bytes in transit, and the target's end.

use std::collections::VecDeque;

use wansan_iscsi::target::{self, Close};

use super::{Simulated, World};
use crate::oracle::Rule;
use crate::target::LinkId;
use crate::world::links::Near;

/// The path from an initiator's end to the target's, and that end.
pub(crate) struct Wire {
    far: Far,
    /// Bytes in transit to the target from an initiator's end that is closed.
    stale: VecDeque<u8>,
    /// They move in one of this many turns.
    pace: usize,
    /// Bytes in transit to the initiator from a target's end that is closed.
    rest: VecDeque<u8>,
}

/// The target's end.
enum Far {
    Login(Option<Box<target::Handshake>>),
    Session {
        serial: u32,
        place: usize,
    },
    /// The target has closed it; the remaining bytes are still in transit.
    Closing,
    Gone,
}

impl Wire {
    /// A path to a target's end that waits for a login.
    pub(super) fn new(far: target::Handshake) -> Wire {
        Wire {
            far: Far::Login(Some(Box::new(far))),
            stale: VecDeque::new(),
            pace: 1,
            rest: VecDeque::new(),
        }
    }

    /// The serial number of the session at the target.
    pub(super) fn serial(&self) -> Option<u32> {
        match self.far {
            Far::Session { serial, .. } => Some(serial),
            _ => None,
        }
    }
}

impl World<'_, Simulated> {
    /// Moves bytes towards the target; returns whether anything moved.
    pub(super) fn forth(&mut self, at: usize) -> bool {
        let link = &self.links[at];
        if matches!((&link.near, &link.wire.far), (Near::Gone, Far::Gone)) {
            self.links.swap_remove(at);
            return true;
        }
        if matches!(link.wire.far, Far::Gone | Far::Closing) {
            return false;
        }
        if link.stalls > 0 {
            self.links[at].stalls -= 1;
            return true;
        }
        let port = link.port;
        let waits = matches!(link.near, Near::Gone) && link.wire.pace > 1;
        if waits && !self.random.one_in(link.wire.pace) {
            return false;
        }
        let pending = match link.near {
            Near::Gone => link.wire.stale.len(),
            _ => link.near.pending(&mut self.ports[port]),
        };
        if pending == 0 {
            if matches!(self.links[at].near, Near::Gone) {
                self.target_hangs_up(at);
                return true;
            }
            return false;
        }
        let part = match self.random.one_in(4) {
            true => self.random.between(1, pending),
            false => pending,
        };
        let now = self.instant();
        let Some(target) = &mut self.side.target else {
            return false;
        };
        let link = &mut self.links[at];
        let space = match &mut link.wire.far {
            Far::Login(Some(handshake)) => handshake.space(),
            Far::Session { serial, place } => match target.connection(*serial, *place) {
                Some(connection) if connection.wants_input() => connection.space(),
                _ => return false,
            },
            _ => return false,
        };
        let bytes = part.min(space.len());
        let into = &mut space[..bytes];
        self.events.clear();
        if let Near::Gone = link.near {
            for (byte, stale) in into.iter_mut().zip(link.wire.stale.drain(..bytes)) {
                *byte = stale;
            }
        } else {
            let time = (now, &mut self.trace);
            let seen = (&mut link.observer, &mut self.events);
            link.near.take(&mut self.ports[port], into, seen, time);
        }
        self.note(bytes as u64);
        self.observe(at);
        let link = &mut self.links[at];
        let Some(target) = &mut self.side.target else {
            return false;
        };
        match &mut link.wire.far {
            Far::Session { serial, place } => {
                let (serial, place) = (*serial, *place);
                if let Some(connection) = target.connection(serial, place) {
                    connection.filled(bytes);
                }
                self.serve(serial, Some(place));
            }
            Far::Login(handshake) => {
                if let Some(handshake) = handshake {
                    handshake.filled(bytes);
                }
                self.target_logs_in(at);
            }
            Far::Closing | Far::Gone => {}
        }
        self.pump(port);
        true
    }

    fn target_logs_in(&mut self, at: usize) {
        let now = self.instant();
        let link = &mut self.links[at];
        let (id, port) = (link.id, link.port);
        let Far::Login(handshake) = &mut link.wire.far else {
            return;
        };
        let Some(target) = &mut self.side.target else {
            return;
        };
        match target.log_in(handshake, id, now, &mut self.trace) {
            Ok(None) => {}
            Ok(Some((seated, accepted))) => {
                let parameters = accepted.connection;
                link.observer.digests = (parameters.header_digest, parameters.data_digest);
                link.observer.recovery = accepted.session.error_recovery_level;
                link.wire.far = Far::Session {
                    serial: seated.serial,
                    place: seated.place,
                };
                if seated.leads {
                    let serial = seated.serial as usize;
                    self.side.sessions.resize(serial + 1, None);
                    self.side.exp_cmd_sns.resize(serial + 1, 0);
                    self.side.predecessors.resize(serial + 1, Vec::new());
                    let port = &self.ports[port];
                    self.side.predecessors[serial] = self.oracle.gone_sessions(port.host);
                }
                self.take_reports();
                // Commands may follow the login at once.
                self.serve(seated.serial, Some(seated.place));
            }
            Err(_) => {
                // Pending bytes are sent before the connection closes.
                let link = &mut self.links[at];
                if let Far::Login(Some(handshake)) = &link.wire.far {
                    link.wire.rest.extend(handshake.pending());
                }
                link.wire.far = Far::Closing;
            }
        }
    }

    /// The target finds a connection closed.
    fn target_hangs_up(&mut self, at: usize) {
        let now = self.instant();
        let far = std::mem::replace(&mut self.links[at].wire.far, Far::Gone);
        if let (Far::Session { serial, place }, Some(target)) = (far, &mut self.side.target) {
            target.hang_up(serial, place, now, &mut self.trace);
            self.serve(serial, None);
        }
        self.take_reports();
    }

    /// The target has closed a connection.
    pub(super) fn closed_by_target(&mut self, id: LinkId, rest: &[u8], why: Option<Close>) {
        let Some(link) = self.links.iter_mut().find(|link| link.id == id) else {
            return;
        };
        link.wire.far = Far::Closing;
        link.wire.rest.extend(rest);
        if let Some(why) = why
            && why != Close::LoggedOut
        {
            let what = format!("the target closed a connection: {why}");
            self.oracle.violate(Rule::Protocol, || what);
        }
    }

    /// Moves bytes towards the initiator; returns whether anything moved.
    pub(super) fn back(&mut self, at: usize) -> bool {
        let pending = self.pending_back(at);
        if pending == 0 {
            let link = &mut self.links[at];
            if !matches!(link.wire.far, Far::Closing | Far::Gone) || matches!(link.near, Near::Gone)
            {
                if let Far::Closing = link.wire.far {
                    link.wire.far = Far::Gone;
                    return true;
                }
                return false;
            }
            link.wire.far = Far::Gone;
            self.near_end_lost(at);
            return true;
        }
        let mut part = match self.random.one_in(4) {
            true => self.random.between(1, pending),
            false => pending,
        };
        let id = self.links[at].id;
        let mut moved = 0;
        // Event by event, so that both ends and the oracle process all events in the same order.
        while part > 0 && self.links.get(at).is_some_and(|link| link.id == id) {
            let bytes = self.piece_back(at, part);
            if bytes == 0 {
                break;
            }
            part -= bytes;
            moved += bytes;
        }
        if let Some(Far::Session { serial, place }) = self.links.get(at).map(|link| &link.wire.far)
        {
            // Work that waited for room may continue.
            self.serve(*serial, Some(*place));
        }
        moved > 0
    }

    /// Number of bytes waiting to move towards the initiator.
    fn pending_back(&mut self, at: usize) -> usize {
        match &self.links[at].wire.far {
            Far::Login(Some(handshake)) => handshake.pending().len(),
            Far::Session { serial, place } => {
                let target = self.side.target.as_mut();
                let connection = target.and_then(|target| target.connection(*serial, *place));
                connection.map_or(0, |connection| connection.pending().len())
            }
            Far::Closing => self.links[at].wire.rest.len(),
            _ => 0,
        }
    }

    /// Moves up to `most` bytes towards the initiator; returns the number moved.
    fn piece_back(&mut self, at: usize, most: usize) -> usize {
        let now = self.instant();
        let link = &mut self.links[at];
        let Some(target) = &mut self.side.target else {
            return 0;
        };
        let pending = match &mut link.wire.far {
            Far::Login(Some(handshake)) => handshake.pending(),
            Far::Session { serial, place } => match target.connection(*serial, *place) {
                Some(connection) => connection.pending(),
                None => return 0,
            },
            Far::Closing => link.wire.rest.make_contiguous(),
            _ => return 0,
        };
        let pending = &pending[..pending.len().min(most)];
        let is_gone = matches!(link.near, Near::Gone);
        self.events.clear();
        let bytes = match is_gone {
            true => pending.len(),
            false => {
                let seen = (&mut link.observer, &mut self.events);
                let port = &mut self.ports[link.port];
                match link.near.give(port, pending, seen) {
                    Some(bytes) => bytes,
                    None => return 0,
                }
            }
        };
        match &mut link.wire.far {
            Far::Login(Some(handshake)) => handshake.sent(bytes),
            Far::Session { serial, place } => {
                if let Some(connection) = target.connection(*serial, *place) {
                    connection.sent(bytes);
                }
            }
            _ => drop(link.wire.rest.drain(..bytes)),
        }
        self.note(bytes as u64);
        if !is_gone {
            self.observe(at);
            self.near_end_receives(at, bytes, now);
        }
        bytes
    }

    /// The initiator's end of a connection is closed; some of its unsent bytes stay in transit.
    pub(super) fn keep_on_its_way(&mut self, at: usize, pending: &[u8]) {
        let kept = match self.random.one_in(2) {
            true => self.random.below(pending.len() + 1),
            false => 0,
        };
        let pace = self.random.pick(&[1, 1, 16, 64]);
        let link = &mut self.links[at];
        link.wire.pace = pace;
        if matches!(link.wire.far, Far::Login(_) | Far::Session { .. }) {
            self.events.clear();
            link.observer.forth(&pending[..kept], &mut self.events);
            link.wire.stale.extend(&pending[..kept]);
            self.observe(at);
        }
    }
}
