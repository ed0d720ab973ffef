//! Where TCP waits on purpose: Nagle's algorithm at the sender (RFC 896, RFC 1122 §4.2.3.4) and
//! delayed acknowledgements at the receiver (RFC 1122 §4.2.3.2).

use std::io;
use std::os::fd::AsFd;

use rustix::net::sockopt;
use serde::{Deserialize, Serialize};

/// When a receiver acknowledges.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DelayedAck {
    /// As the kernel has it: Linux waits up to 40 ms, and longer on long paths, for data to go along
    /// or for a second full segment.
    #[default]
    On,
    /// At once, as soon as the data were read (TCP_QUICKACK of tcp(7)).
    Quick,
}

impl DelayedAck {
    /// Keeps it in force on `socket`: to be called after each read, as the kernel goes back to its
    /// own mind by itself. Where acknowledgements wait, it sends them.
    ///
    /// # Errors
    /// Those of setsockopt(2).
    pub fn keep(self, socket: impl AsFd) -> io::Result<()> {
        match self {
            DelayedAck::On => Ok(()),
            DelayedAck::Quick => Ok(sockopt::set_tcp_quickack(socket, true)?),
        }
    }
}

/// Switches Nagle's algorithm, which lets a segment shorter than the longest one wait while another
/// such segment is not acknowledged.
///
/// # Errors
/// Those of setsockopt(2).
pub fn set_nagle(socket: impl AsFd, on: bool) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(socket, !on)?)
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
    }
}
