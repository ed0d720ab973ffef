//! Messages between a relay's threads. They are rare, and never carry a flow's bytes.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use crate::meter::Meter;
use crate::route::{Listener, Route};
use crate::seat::Seat;
use crate::snapshot::Part;

/// A request to a thread.
#[derive(Debug)]
pub(crate) enum Mail {
    /// Carry the flow of this client.
    Client(Client),
    /// Listen on these only.
    Listen(Vec<Listener>),
    /// Return the counters; all earlier messages are done by then.
    Count(SyncSender<Meter>),
    /// Survey all flows and return their backlogs.
    Survey(SyncSender<Part>),
}

/// An accepted connection.
#[derive(Debug)]
pub(crate) struct Client {
    pub(crate) socket: OwnedFd,
    pub(crate) address: SocketAddr,
    pub(crate) route: Arc<Route>,
    pub(crate) seat: Seat,
}
