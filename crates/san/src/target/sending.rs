//! How a target sends responses over TCP.

use std::io;
use std::net::TcpStream;

use wansan_tcp::DelayedAck;
use wansan_tcp::delays::set_nagle;

/// How responses are sent over TCP, and data acknowledged. Any choice other than the default costs
/// performance; the others exist to measure that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Sending {
    /// Whether Nagle's algorithm delays short segments (RFC 1122 §4.2.3.4).
    pub nagle: bool,
    /// Whether the status of a read comes in a separate SCSI Response, not in the last Data-In (RFC 7143 §11.7.3).
    pub separate_status: bool,
    /// Whether one send call may carry several PDUs.
    pub join_sends: bool,
    /// Delayed acknowledgement of what initiators send.
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
