//! Mail between a relay's threads. What goes through it is rare, never a flow's bytes.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use crate::meter::Meter;
use crate::route::{Listener, Route};
use crate::seat::Seat;
use crate::snapshot::Part;

/// What a thread is asked to do.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Carry the flow of this client.
    Client(Client),
    /// Listen at these, and nowhere else.
    Listen(Vec<Listener>),
    /// Say what has been done; all mail before this is done then, too.
    Count(SyncSender<Meter>),
    /// Look at all flows and say what waits in them.
    Survey(SyncSender<Part>),
}

/// A connection that was accepted.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: OwnedFd,
    pub(crate) address: SocketAddr,
    pub(crate) route: Arc<Route>,
    pub(crate) seat: Seat,
}
