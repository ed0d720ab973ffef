//! One router's ends of WireGuard tunnels (<https://www.wireguard.com/papers/wireguard.pdf>): for
//! each tunnel a TUN device, a UDP socket and a session of the crate `boringtun`, all served by one
//! thread, so that the CPU time of the process is the cost of the router's encryption.
//!
//! Create a [`Config`] for each end, and start one process per router that calls [`run`] with its
//! config. It prints one [`Event`] per line. The process creates the devices, which
//! end with it; the caller brings them up and routes into them.
//!
//! ```text
//!   host ── router's forwarding ── TUN device ─┐                ┌─ UDP socket ── outer path
//!                                              └─ noise::Tunn ──┘
//! ```

mod config;
mod device;
mod router;
mod tunnel;

use std::io;

pub use config::{Config, Key, TunnelConfig};
pub use router::{Event, run};
pub use tunnel::{RECEIVE_BUFFER_BYTES, TURN_PACKETS};

/// Bytes that an inner packet grows by: outer IPv4 header (20), UDP header (8), WireGuard's data
/// header (16) and authentication tag (16).
pub const OVERHEAD_BYTES: u32 = 20 + 8 + 16 + 16;

/// Why a router cannot serve its tunnels.
#[derive(Debug, thiserror::Error)]
pub enum WireGuardError {
    /// The TUN device cannot be made.
    #[error("cannot make the TUN device `{device}`: {source}; {}", remedy(source))]
    Device {
        /// Its name.
        device: String,
        /// Why.
        source: io::Error,
    },
    /// The UDP socket cannot be opened at the outer address.
    #[error("cannot open the UDP socket {address} of `{device}`: {source}")]
    Socket {
        /// The device of the tunnel.
        device: String,
        /// The outer address.
        address: std::net::SocketAddrV4,
        /// Why.
        source: io::Error,
    },
    /// The kernel refused what a running tunnel needs.
    #[error("cannot {action} of `{device}`: {source}")]
    Refused {
        /// What was tried.
        action: &'static str,
        /// The device of the tunnel.
        device: String,
        /// Why.
        source: io::Error,
    },
    /// Events cannot be written to their reader, or its configuration is invalid.
    #[error("cannot speak with the lab: {0}")]
    Control(#[source] io::Error),
}

/// What to do about a device that cannot be made.
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound => "load the driver with `sudo modprobe tun`",
        io::ErrorKind::PermissionDenied => {
            "it takes CAP_NET_ADMIN in the network namespace and read and write access to \
             /dev/net/tun"
        }
        _ => "is there a device of that name already?",
    }
}
