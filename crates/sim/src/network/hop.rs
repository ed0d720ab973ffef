//! The hops of packets.

use super::vpn::Side;

/// A step of the way from one end of a connection to the other, whose first one is a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// Over a link.
    Link {
        /// Its number.
        link: u32,
        /// The packet's class there, for queues with priorities: 0 goes first.
        class: u8,
    },
    /// Into a tunnel, by a router's program.
    Seal {
        /// Where the program takes it from.
        side: Side,
        /// The direction of the tunnel, by its number.
        tunnel: u32,
    },
    /// Out of the tunnel that it is in.
    Open {
        /// Where the program takes it from.
        side: Side,
    },
}

impl From<u32> for Hop {
    /// Over that link, in class 0.
    fn from(link: u32) -> Hop {
        Hop::Link { link, class: 0 }
    }
}
