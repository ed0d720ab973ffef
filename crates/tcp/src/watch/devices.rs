//! Network devices that go away, as the kernel tells by rtnetlink(7).

use std::io;

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::link::LinkAttribute;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// Devices that come, change and go (linux/rtnetlink.h).
const RTMGRP_LINK: u32 = 1;

/// So many names are reported at once; of more than that, as when a namespace is emptied, the first.
const MOST_NAMES: usize = 64;

/// A netlink socket that hears of the devices of one network namespace: that of the thread which
/// opened it.
pub(super) struct Devices {
    socket: Socket,
}

impl Devices {
    /// Begins to listen, in the calling thread's network namespace. No rights are needed.
    pub(super) fn open() -> io::Result<Devices> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind(&SocketAddr::new(0, RTMGRP_LINK))?;
        socket.set_non_blocking(true)?;
        Ok(Devices { socket })
    }

    /// The names of those that have gone since the last call.
    pub(super) fn gone(&mut self) -> Vec<String> {
        let mut names = Vec::new();
        // An error says that there is nothing more for now. Where so many came at once that some found
        // no room, those that follow are heard the next time.
        while let Ok((datagram, _)) = self.socket.recv_from_full() {
            names.extend(gone_in(&datagram));
        }
        names.truncate(MOST_NAMES);
        names
    }
}

/// The device that a message says has gone.
fn gone_in(datagram: &[u8]) -> Option<String> {
    let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(datagram).ok()?;
    let NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(device)) = message.payload else {
        return None;
    };
    // A bridge's own family says that a device has left the bridge, and is still there.
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
