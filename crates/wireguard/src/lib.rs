//! A router's ends of WireGuard tunnels (<https://www.wireguard.com/papers/wireguard.pdf>): per tunnel a TUN device, a
//! UDP socket and a session of the crate `boringtun`, all served by one thread, so that the process's CPU time is the
//! cost of the router's encryption.
//!
//! Create a [`Config`] for each end, and start one process per router that calls [`run`] with its config. It prints one
//! [`Event`] per line. The process creates the devices, which disappear with it; the caller brings them up and sets
//! routes into them.
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

/// Overhead per inner packet in bytes: outer IPv4 header (20), UDP header (8), WireGuard data header (16) and
/// authentication tag (16).
pub const OVERHEAD_BYTES: u32 = 20 + 8 + 16 + 16;

/// Why a router cannot serve its tunnels.
#[derive(Debug, thiserror::Error)]
pub enum WireGuardError {
    /// The TUN device cannot be created.
    #[error("cannot make the TUN device `{device}`: {source}; {}", remedy(source))]
    Device {
        /// The device's name.
        device: String,
        /// The cause.
        source: io::Error,
    },
    /// The UDP socket cannot be opened at the outer address.
    #[error("cannot open the UDP socket {address} of `{device}`: {source}")]
    Socket {
        /// The device of the tunnel.
        device: String,
        /// The outer address.
        address: std::net::SocketAddrV4,
        /// The cause.
        source: io::Error,
    },
    /// The kernel refused an operation of a running tunnel.
    #[error("cannot {action} of `{device}`: {source}")]
    Refused {
        /// The operation.
        action: &'static str,
        /// The device of the tunnel.
        device: String,
        /// The cause.
        source: io::Error,
    },
    /// Events cannot be written, or the configuration is invalid.
    #[error("cannot speak with the lab: {0}")]
    Control(#[source] io::Error),
}

/// How to fix the failure to create a device.
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
