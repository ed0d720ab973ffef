//! The initiators' ends of connections.

use wansan_iscsi::initiator;
use wansan_trace::{Instant, Recorder};

use super::ports::Port;
use super::{TargetSide, World};
use crate::observer::{Event, Observer};
use crate::oracle::Rule;
use crate::target::LinkId;

/// A TCP connection.
pub(crate) struct Link<W> {
    /// Its number among all connections of the run.
    pub(crate) id: LinkId,
    pub(crate) port: usize,
    pub(crate) near: Near,
    /// Remaining turns for which it carries no bytes towards the target.
    pub(super) stalls: u8,
    /// The path to the target.
    pub(crate) wire: W,
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

impl Near {
    /// Number of bytes that the initiator's end has to send.
    pub(super) fn pending(&self, port: &mut Port) -> usize {
        match self {
            Near::Gone => 0,
            Near::Login { handshake, .. } => handshake.pending().len(),
            Near::Session(cid) => {
                let connection = port.connection(*cid);
                connection.map_or(0, |connection| connection.pending().len())
            }
        }
    }

    /// Takes bytes from the initiator's end, as many as `into` holds.
    pub(super) fn take(
        &mut self,
        port: &mut Port,
        into: &mut [u8],
        (observer, events): (&mut Observer, &mut Vec<Event>),
        (now, trace): (Instant, &mut Recorder),
    ) {
        let bytes = into.len();
        match self {
            Near::Gone => {}
            Near::Login { handshake, .. } => {
                into.copy_from_slice(&handshake.pending()[..bytes]);
                observer.forth(into, events);
                handshake.sent(bytes);
            }
            Near::Session(cid) => {
                if let Some(connection) = port.connection(*cid) {
                    into.copy_from_slice(&connection.pending()[..bytes]);
                    observer.forth(into, events);
                    connection.sent(bytes, now, trace);
                }
            }
        }
    }

    /// Passes `bytes` to the initiator's end while it has room, up to the end of the first PDU that signals an event.
    /// Returns the number of bytes passed; `None` if that end is closed.
    pub(super) fn give(
        &mut self,
        port: &mut Port,
        bytes: &[u8],
        (observer, events): (&mut Observer, &mut Vec<Event>),
    ) -> Option<usize> {
        let space = match self {
            Near::Login { handshake, .. } => handshake.space(),
            Near::Session(cid) => port.connection(*cid)?.space(),
            Near::Gone => return None,
        };
        let bytes = &bytes[..bytes.len().min(space.len())];
        let left = observer.back(bytes, events);
        let bytes = &bytes[..bytes.len() - left];
        space[..bytes.len()].copy_from_slice(bytes);
        Some(bytes.len())
    }
}

impl<T: TargetSide> World<'_, T> {
    /// Opens a connection.
    pub(super) fn open(&mut self, port: usize, handshake: initiator::Handshake, leads: bool) {
        let wire = match T::connect(self) {
            Ok(wire) => wire,
            Err(why) => {
                self.oracle
                    .violate(Rule::Protocol, || format!("no connection: {why}"));
                return;
            }
        };
        self.next_link += 1;
        let id = self.next_link;
        let cid = handshake.cid();
        self.say(|| format!("port {port} opens connection {id} with CID {cid}"));
        self.links.push(Link {
            id,
            port,
            near: Near::Login {
                handshake: Box::new(handshake),
                leads,
            },
            wire,
            stalls: 0,
            observer: Observer::default(),
        });
    }

    /// The initiator's end of a connection has received `bytes` more.
    pub(super) fn near_end_receives(
        &mut self,
        at: usize,
        bytes: usize,
        now: wansan_trace::Instant,
    ) {
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

    /// Reports the events of a connection to the oracle.
    pub(super) fn observe(&mut self, at: usize) {
        let (port, id) = (self.links[at].port, self.links[at].id);
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

    /// Closes the initiator's end of a connection, with `pending` unsent.
    pub(super) fn drop_near_end(&mut self, at: usize, pending: &[u8]) {
        self.links[at].near = Near::Gone;
        T::near_end_dropped(self, at, pending);
    }
}
