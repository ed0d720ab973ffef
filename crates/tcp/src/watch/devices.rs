//! Network devices that are removed, by rtnetlink(7).

use std::io;

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::link::LinkAttribute;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// Notifications about links (linux/rtnetlink.h).
const RTMGRP_LINK: u32 = 1;

/// Most names reported at once; further ones, as when a namespace is emptied, are left out.
const MOST_NAMES: usize = 64;

/// A netlink socket that is notified of the devices in the network namespace of the thread that opened it.
pub(super) struct Devices {
    socket: Socket,
}

impl Devices {
    /// Subscribes in the calling thread's network namespace. Needs no privileges.
    pub(super) fn open() -> io::Result<Devices> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, RTMGRP_LINK))?;
        socket.set_non_blocking(true)?;
        Ok(Devices { socket })
    }

    /// The names of devices removed since the last call.
    pub(super) fn gone(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        // An error ends this round. After an overrun the messages that follow are read the next time.
        while let Ok((datagram, _)) = self.socket.recv_from_full() {
            names.extend(gone_in(&datagram));
        }
        names.truncate(MOST_NAMES);
        names
    }
}

/// The removed device that a message names.
fn gone_in(datagram: &[u8]) -> Option<String> {
    let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram).ok()?;
    let NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(device)) = message.payload else {
        return None;
    };
    // The bridge family reports a device that left its bridge, and still exists.
    if device.header.interface_family != AddressFamily::Unspec {
        return None;
    }
    device
        .attributes
        .into_iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::IfName(name) => Some(name),
            _ => None,
        })
}
