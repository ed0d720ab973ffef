//! Deliberate delays of TCP: Nagle's algorithm at the sender (RFC 896, RFC 1122 §4.2.3.4) and delayed acknowledgements
//! at the receiver (RFC 1122 §4.2.3.2).

use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt;
use serde::{Deserialize, Serialize};

/// When a receiver acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DelayedAck {
    /// The kernel's default: Linux delays up to 40 ms, longer on long paths, for data to piggyback on or a second full
    /// segment.
    #[default]
    On,
    /// As soon as the data are read (TCP_QUICKACK of tcp(7)).
    Quick,
}

impl DelayedAck {
    /// Keeps the mode in force on `socket`: call it after each read, because the kernel returns to its own mode. Sends
    /// a delayed acknowledgement, if any.
    ///
    /// # Errors
    /// Errors of setsockopt(2).
    pub fn keep(self, socket: impl AsFd) -> io::Result<()> {
        match self {
            DelayedAck::On => Ok(()),
            DelayedAck::Quick => Ok(sockopt::set_tcp_quickack(socket, true)?),
        }
    }
}

/// Enables or disables Nagle's algorithm, which holds a segment shorter than the MSS while another such segment is
/// unacknowledged.
///
/// # Errors
/// Errors of setsockopt(2).
pub fn set_nagle(socket: impl AsFd, on: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, !on)?)
}

/// Lets the next data sent carry the acknowledgement of what arrives, also that of a SYN-ACK on a socket that is to
/// connect: the kernel then waits up to 200 ms for such data (TCP_QUICKACK of tcp(7), switched off).
///
/// # Errors
/// Errors of setsockopt(2).
pub fn await_data_to_ack(socket: impl AsFd) -> io::Result<()> {
    Ok(sockopt::set_tcp_quickack(socket, false)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn the_kernel_has_what_was_asked_for() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        for on in [true, false, true] {
            set_nagle(&socket, on).unwrap();
            assert_eq!(sockopt::tcp_nodelay(&socket).unwrap(), !on);
        }
        sockopt::set_tcp_quickack(&socket, false).unwrap();
        DelayedAck::On.keep(&socket).unwrap();
        assert!(!sockopt::tcp_quickack(&socket).unwrap());
        DelayedAck::Quick.keep(&socket).unwrap();
        assert!(sockopt::tcp_quickack(&socket).unwrap());
        await_data_to_ack(&socket).unwrap();
        assert!(!sockopt::tcp_quickack(&socket).unwrap());
    }
}
