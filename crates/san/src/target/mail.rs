//! Messages between the threads of a target. They are rare (new connections, resets), never an I/O.

use std::net::TcpStream;
use std::sync::mpsc::SyncSender;

use wansan_trace::SessionId;

use super::seat::Seat;
use super::serve::Peer;
use super::snapshot::Part;

/// A request from one thread to another.
#[derive(Debug)]
pub(super) enum Mail {
    /// Serve this connection.
    Connection(TcpStream, Seat),
    /// Serve this connection, which joins one of your sessions, from the present state of its login.
    Joining(Box<Peer>),
    /// Review the sessions: others have changed something.
    Review,
    /// End this session: its initiator has reinstated it (RFC 7143 §6.3.5).
    EndSession(SessionId),
    /// Stop listening, and ask all initiators to log out within this many seconds.
    Drain(u16),
    /// Return the counters.
    Snapshot(SyncSender<Part>),
}
