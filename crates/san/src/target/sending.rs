//! How a target hands its answers to TCP.

use std::io;
use std::net::TcpStream;

use wansan_tcp::DelayedAck;
use wansan_tcp::delays::set_nagle;

/// How answers go to TCP, and acknowledgements to the initiator. Any other choice than the default
/// costs time; they are there to show what it costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sending {
    /// Whether Nagle's algorithm holds short segments back (RFC 1122 §4.2.3.4).
    pub nagle: bool,
    /// Whether the status of a read comes in a SCSI Response of its own although the last Data-In
    /// could bring it (RFC 7143 §11.7.3). At error recovery levels 1 and 2 it always does.
    pub separate_status: bool,
    /// Whether several PDUs go to the socket in one call.
    pub join_sends: bool,
    /// When what initiators send is acknowledged.
    pub delayed_ack: DelayedAck,
}

impl Default for Sending {
    fn default() -> Self {
        Sending {
            nagle: false,
            separate_status: false,
            join_sends: true,
            delayed_ack: DelayedAck::On,
        }
    }
}

impl Sending {
    /// Sets up the socket of a connection that has logged in.
    pub(super) fn prepare(self, stream: &TcpStream) -> io::Result<()> {
        set_nagle(stream, self.nagle)
    }
}
