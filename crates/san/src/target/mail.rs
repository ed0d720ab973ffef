//! Mail between the threads of a target. What goes through it is rare (new connections, resets), never an I/O.

use std::net::TcpStream;
use std::sync::mpsc::SyncSender;

use wansan_trace::SessionId;

use super::seat::Seat;
use super::serve::Peer;
use super::snapshot::Part;

/// What one thread asks another to do.
#[derive(Debug)]
pub(super) enum Mail {
    /// Serve this connection.
    Connection(TcpStream, Seat),
    /// Serve this connection, which wants to join a session of yours, from where its login stands.
    Joining(Box<Peer>),
    /// Sessions must be reviewed, as others have changed something.
    Review,
    /// End this session: its initiator has begun anew (RFC 7143 §6.3.5).
    EndSession(SessionId),
    /// Listen no more, and ask all initiators to leave within so many seconds.
    Drain(u16),
    /// Say what has been done.
    Snapshot(SyncSender<Part>),
}
