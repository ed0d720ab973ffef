//! The hops of packets.

use super::vpn::Side;

/// A hop on the route from one end of a connection to the other. The first hop is a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// Over a link.
    Link {
        /// The link's number.
        link: u32,
        /// The packet's class there, for priority queues: 0 is the highest.
        class: u8,
    },
    /// Into a tunnel, through a router's VPN program.
    Seal {
        /// The program's queue.
        side: Side,
        /// The number of the tunnel direction.
        tunnel: u32,
    },
    /// Out of its tunnel.
    Open {
        /// The program's queue.
        side: Side,
    },
}

impl From<u32> for Hop {
    /// Over that link, in class 0.
    fn from(link: u32) -> Hop {
        Hop::Link { link, class: 0 }
    }
}
