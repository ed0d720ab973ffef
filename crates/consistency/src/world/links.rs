//! Connections: bytes on their way, and what each end makes of them.

use std::collections::VecDeque;

use wansan_iscsi::initiator;
use wansan_iscsi::target::{self, Close};

use super::World;
use crate::observer::{Event, Observer};
use crate::oracle::Rule;
use crate::target::LinkId;

/// A TCP connection.
pub(crate) struct Link {
    /// Its number among all that there were.
    pub(crate) id: LinkId,
    pub(crate) port: usize,
    pub(crate) near: Near,
    pub(crate) far: Far,
    /// Bytes on their way to the target from an initiator's end that is gone.
    stale: VecDeque<u8>,
    /// One turn in so many moves them.
    pace: usize,
    /// Bytes on their way to the initiator from a target's end that is closed.
    rest: VecDeque<u8>,
    /// Turns for which it carries nothing towards the target.
    pub(super) stalls: u8,
    pub(crate) observer: Observer,
}

/// The initiator's end.
pub(crate) enum Near {
    Login {
        handshake: Box<initiator::Handshake>,
        leads: bool,
    },
    /// The connection with that CID of the port's session.
    Session(u16),
    Gone,
}

/// The target's end.
pub(crate) enum Far {
    Login(Option<Box<target::Handshake>>),
    Session {
        serial: u32,
        place: usize,
    },
    /// The target has closed it; what is left is still on its way.
    Closing,
    Gone,
}

impl World<'_> {
    /// Opens a connection.
    pub(super) fn open(&mut self, port: usize, handshake: initiator::Handshake, leads: bool) {
        self.next_link += 1;
        let id = self.next_link;
        let cid = handshake.cid();
        self.say(|| format!("port {port} opens connection {id} with CID {cid}"));
        let keys = &self.history.setup.keys;
        let far = target::Handshake::new(super::wanted(keys));
        self.links.push(Link {
            id: self.next_link,
            port,
            near: Near::Login {
                handshake: Box::new(handshake),
                leads,
            },
            far: Far::Login(Some(Box::new(far))),
            stale: VecDeque::new(),
            pace: 1,
            rest: VecDeque::new(),
            stalls: 0,
            observer: Observer::default(),
        });
    }

    /// Bytes move towards the target.
    pub(super) fn forth(&mut self, at: usize) -> bool {
        let link = &self.links[at];
        if matches!((&link.near, &link.far), (Near::Gone, Far::Gone)) {
            self.links.swap_remove(at);
            return true;
        }
        if matches!(link.far, Far::Gone | Far::Closing) {
            return false;
        }
        if link.stalls > 0 {
            self.links[at].stalls -= 1;
            return true;
        }
        let port = link.port;
        let waits = matches!(link.near, Near::Gone) && link.pace > 1;
        if waits && !self.random.one_in(link.pace) {
            return false;
        }
        let pending = match &link.near {
            Near::Gone => link.stale.len(),
            Near::Login { handshake, .. } => handshake.pending().len(),
            Near::Session(cid) => {
                let cid = *cid;
                let connection = self.ports[port].connection(cid);
                connection.map_or(0, |connection| connection.pending().len())
            }
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
        let Some(target) = &mut self.target else {
            return false;
        };
        let link = &mut self.links[at];
        let space = match &mut link.far {
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
        match &mut link.near {
            Near::Gone => {
                for (byte, stale) in into.iter_mut().zip(link.stale.drain(..bytes)) {
                    *byte = stale;
                }
            }
            Near::Login { handshake, .. } => {
                into.copy_from_slice(&handshake.pending()[..bytes]);
                link.observer.forth(into, &mut self.events);
                handshake.sent(bytes);
            }
            Near::Session(cid) => {
                if let Some(connection) = self.ports[port].connection(*cid) {
                    into.copy_from_slice(&connection.pending()[..bytes]);
                    link.observer.forth(into, &mut self.events);
                    connection.sent(bytes, now, &mut self.trace);
                }
            }
        }
        self.note(bytes as u64);
        self.observe(at);
        let link = &mut self.links[at];
        let Some(target) = &mut self.target else {
            return false;
        };
        match &mut link.far {
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
        let Far::Login(handshake) = &mut link.far else {
            return;
        };
        let Some(target) = &mut self.target else {
            return;
        };
        match target.log_in(handshake, id, now, &mut self.trace) {
            Ok(None) => {}
            Ok(Some((seated, accepted))) => {
                let parameters = accepted.connection;
                link.observer.digests = (parameters.header_digest, parameters.data_digest);
                link.observer.recovery = accepted.session.error_recovery_level;
                link.far = Far::Session {
                    serial: seated.serial,
                    place: seated.place,
                };
                if seated.leads {
                    let serial = seated.serial as usize;
                    self.sessions.resize(serial + 1, None);
                    self.exp_cmd_sns.resize(serial + 1, 0);
                    self.predecessors.resize(serial + 1, Vec::new());
                    let port = &self.ports[port];
                    self.predecessors[serial] = self.oracle.gone_sessions(port.host);
                }
                self.hear_target();
                // Commands may have come behind the login.
                self.serve(seated.serial, Some(seated.place));
            }
            Err(_) => {
                // What is pending goes out before the connection closes.
                let link = &mut self.links[at];
                if let Far::Login(Some(handshake)) = &link.far {
                    link.rest.extend(handshake.pending());
                }
                link.far = Far::Closing;
            }
        }
    }

    /// The target finds its end of a connection dead.
    fn target_hangs_up(&mut self, at: usize) {
        let now = self.instant();
        let far = std::mem::replace(&mut self.links[at].far, Far::Gone);
        if let (Far::Session { serial, place }, Some(target)) = (far, &mut self.target) {
            target.hang_up(serial, place, now, &mut self.trace);
            self.serve(serial, None);
        }
        self.hear_target();
    }

    /// The target has closed a connection.
    pub(super) fn closed_by_target(&mut self, id: LinkId, rest: &[u8], why: Option<Close>) {
        let Some(link) = self.links.iter_mut().find(|link| link.id == id) else {
            return;
        };
        link.far = Far::Closing;
        link.rest.extend(rest);
        if let Some(why) = why
            && why != Close::LoggedOut
        {
            let what = format!("the target closed a connection: {why}");
            self.oracle.violate(Rule::Protocol, || what);
        }
    }

    /// Bytes move towards the initiator.
    pub(super) fn back(&mut self, at: usize) -> bool {
        let pending = self.pending_back(at);
        if pending == 0 {
            let link = &mut self.links[at];
            if !matches!(link.far, Far::Closing | Far::Gone) || matches!(link.near, Near::Gone) {
                if let Far::Closing = link.far {
                    link.far = Far::Gone;
                    return true;
                }
                return false;
            }
            link.far = Far::Gone;
            self.near_end_lost(at);
            return true;
        }
        let mut part = match self.random.one_in(4) {
            true => self.random.between(1, pending),
            false => pending,
        };
        let id = self.links[at].id;
        let mut moved = 0;
        // Up to each PDU that says something, so that both ends and the oracle hear of everything in
        // the same order.
        while part > 0 && self.links.get(at).is_some_and(|link| link.id == id) {
            let bytes = self.piece_back(at, part);
            if bytes == 0 {
                break;
            }
            part -= bytes;
            moved += bytes;
        }
        if let Some(Far::Session { serial, place }) = self.links.get(at).map(|link| &link.far) {
            // What waited for room may go on.
            self.serve(*serial, Some(*place));
        }
        moved > 0
    }

    /// Bytes that wait to move towards the initiator.
    fn pending_back(&mut self, at: usize) -> usize {
        match &self.links[at].far {
            Far::Login(Some(handshake)) => handshake.pending().len(),
            Far::Session { serial, place } => {
                let target = self.target.as_mut();
                let connection = target.and_then(|target| target.connection(*serial, *place));
                connection.map_or(0, |connection| connection.pending().len())
            }
            Far::Closing => self.links[at].rest.len(),
            _ => 0,
        }
    }

    /// Moves up to `most` bytes towards the initiator; says how many.
    fn piece_back(&mut self, at: usize, most: usize) -> usize {
        let now = self.instant();
        let link = &mut self.links[at];
        let Some(target) = &mut self.target else {
            return 0;
        };
        let pending = match &mut link.far {
            Far::Login(Some(handshake)) => handshake.pending(),
            Far::Session { serial, place } => match target.connection(*serial, *place) {
                Some(connection) => connection.pending(),
                None => return 0,
            },
            Far::Closing => link.rest.make_contiguous(),
            _ => return 0,
        };
        let port = link.port;
        let mut pending = &pending[..pending.len().min(most)];
        let space = match &mut link.near {
            Near::Login { handshake, .. } => Some(handshake.space()),
            Near::Session(cid) => match self.ports[port].connection(*cid) {
                Some(connection) => Some(connection.space()),
                None => return 0,
            },
            Near::Gone => None,
        };
        let is_gone = space.is_none();
        self.events.clear();
        if let Some(space) = space {
            pending = &pending[..pending.len().min(space.len())];
            let left = link.observer.back(pending, &mut self.events);
            pending = &pending[..pending.len() - left];
            space[..pending.len()].copy_from_slice(pending);
        }
        let bytes = pending.len();
        match &mut link.far {
            Far::Login(Some(handshake)) => handshake.sent(bytes),
            Far::Session { serial, place } => {
                if let Some(connection) = target.connection(*serial, *place) {
                    connection.sent(bytes);
                }
            }
            _ => drop(link.rest.drain(..bytes)),
        }
        self.note(bytes as u64);
        if !is_gone {
            self.observe(at);
            self.near_end_receives(at, bytes, now);
        }
        bytes
    }

    fn near_end_receives(&mut self, at: usize, bytes: usize, now: wansan_trace::Instant) {
        let link = &mut self.links[at];
        let port = link.port;
        match &mut link.near {
            Near::Login { handshake, .. } => {
                handshake.filled(bytes);
                match handshake.receive() {
                    Ok(()) if handshake.is_done() => self.logged_in(at),
                    Ok(()) => {}
                    Err(error) => self.login_failed(at, &error),
                }
            }
            Near::Session(cid) => {
                let cid = *cid;
                if let Some(connection) = self.ports[port].connection(cid) {
                    connection.filled(bytes, now);
                }
                self.session_receives(port, cid);
            }
            Near::Gone => {}
        }
    }

    /// Tells the oracle what was seen on a connection.
    fn observe(&mut self, at: usize) {
        let Link { port, id, .. } = self.links[at];
        let mut events = std::mem::take(&mut self.events);
        for event in events.drain(..) {
            let now = self.tick();
            match event {
                Event::Wrong(what) => {
                    self.oracle
                        .violate(Rule::Numbers, || format!("at {now}: {what}"));
                }
                event => self.observed(port, id, event, now),
            }
        }
        self.events = events;
    }

    /// The initiator's end of a connection is gone; some of what it had to send is on its way.
    pub(super) fn drop_near_end(&mut self, at: usize, pending: &[u8]) {
        let kept = match self.random.one_in(2) {
            true => self.random.below(pending.len() + 1),
            false => 0,
        };
        let pace = self.random.pick(&[1, 1, 16, 64]);
        let link = &mut self.links[at];
        link.near = Near::Gone;
        link.pace = pace;
        if matches!(link.far, Far::Login(_) | Far::Session { .. }) {
            self.events.clear();
            link.observer.forth(&pending[..kept], &mut self.events);
            link.stale.extend(&pending[..kept]);
            self.observe(at);
        }
    }
}
