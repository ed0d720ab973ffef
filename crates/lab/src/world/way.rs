//! How this computer reaches another one over Ethernet, with rtnetlink(7).

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use netlink_packet_route::link::{LinkAttribute, LinkLayerType, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use rustix::net::netdevice;

use super::link::Mac;
use super::netlink::Netlink;

/// Timeout for resolving the next hop's MAC address.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// Poll interval for that.
const POLL: Duration = Duration::from_millis(10);
/// The discard port (RFC 863), for a datagram that only makes the kernel resolve that address.
const DISCARD_PORT: u16 = 9;
/// Flag of a complete ARP entry (linux/if_arp.h, ATF_COM).
const IS_COMPLETE: u32 = 2;

/// The first hop to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Way {
    /// The outgoing interface.
    pub(crate) interface: String,
    /// Its MAC address.
    pub(crate) own_mac: Mac,
    /// The next hop's MAC address: the host's, or a gateway's.
    pub(crate) next_mac: Mac,
}

/// Why a host cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum NoWay {
    /// The kernel has no route.
    #[error("there is no route to {to}: {source}")]
    Route {
        /// The host's address.
        to: Ipv4Addr,
        /// The kernel's error.
        source: io::Error,
    },
    /// The address is this computer's own, or not unicast.
    #[error("{0} is not the address of another computer here")]
    NotAnother(Ipv4Addr),
    /// The interface is not Ethernet.
    #[error("the route to {to} leads over {interface}, which is not an Ethernet interface")]
    NotEthernet {
        /// The host's address.
        to: Ipv4Addr,
        /// The interface.
        interface: String,
    },
    /// The next hop does not answer ARP.
    #[error("{next} does not answer ARP on {interface}, which leads to {to}")]
    Silent {
        /// The next hop.
        next: Ipv4Addr,
        /// The interface.
        interface: String,
        /// The host's address.
        to: Ipv4Addr,
    },
}

/// The first hop to a host, as the kernel would route packets.
///
/// # Errors
/// [`NoWay`].
pub(crate) fn way_to(to: Ipv4Addr) -> Result<Way, NoWay> {
    let unknown = |source| NoWay::Route { to, source };
    let route = route(to).map_err(unknown)?;
    if route.header.kind != RouteType::Unicast {
        return Err(NoWay::NotAnother(to));
    }
    let (mut interface, mut next) = (0, to);
    for attribute in &route.attributes {
        match attribute {
            RouteAttribute::Oif(index) => interface = *index,
            RouteAttribute::Gateway(RouteAddress::Inet(gateway)) => next = *gateway,
            _ => {}
        }
    }
    let link = link(interface).map_err(unknown)?;
    let interface = name_of(interface).map_err(unknown)?;
    let is_ethernet = link.header.link_layer_type == LinkLayerType::Ether;
    let own_mac = link
        .attributes
        .iter()
        .find_map(|attribute| match attribute {
            LinkAttribute::Address(address) => Mac::try_from(&address[..]).ok(),
            _ => None,
        });
    let Some(own_mac) = own_mac.filter(|_| is_ethernet) else {
        return Err(NoWay::NotEthernet { to, interface });
    };
    match neighbour(to, next, &interface).map_err(unknown)? {
        Some(next_mac) => Ok(Way {
            interface,
            own_mac,
            next_mac,
        }),
        None => Err(NoWay::Silent {
            next,
            interface,
            to,
        }),
    }
}

fn route(to: Ipv4Addr) -> io::Result<RouteMessage> {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: AddressFamily::Inet,
        destination_prefix_length: 32,
        ..RouteHeader::default()
    };
    message.attributes = vec![RouteAttribute::Destination(RouteAddress::Inet(to))];
    match Netlink::open()?.get(RouteNetlinkMessage::GetRoute(message))? {
        RouteNetlinkMessage::NewRoute(route) => Ok(route),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn link(index: u32) -> io::Result<LinkMessage> {
    let mut message = LinkMessage::default();
    message.header.index = index;
    match Netlink::open()?.get(RouteNetlinkMessage::GetLink(message))? {
        RouteNetlinkMessage::NewLink(link) => Ok(link),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

fn name_of(index: u32) -> io::Result<String> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    Ok(netdevice::index_to_name(&socket, index)?)
}

/// The MAC address of the next hop to a host; the kernel resolves it when a packet is sent.
fn neighbour(to: Ipv4Addr, next: Ipv4Addr, interface: &str) -> io::Result<Option<Mac>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let deadline = Instant::now() + ANSWER_LIMIT;
    loop {
        let table = std::fs::read_to_string("/proc/self/net/arp")?;
        let known = table.lines().find_map(|line| known(line, next, interface));
        if known.is_some() || Instant::now() > deadline {
            return Ok(known);
        }
        // If the kernel has given up, this returns the error, and the next send retries.
        let _ = socket.send_to(&[], (to, DISCARD_PORT));
        thread::sleep(POLL);
    }
}

/// The address in a line of /proc/net/arp, if it is that neighbour's and complete.
fn known(line: &str, next: Ipv4Addr, interface: &str) -> Option<Mac> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [address, _, flags, mac, _, device] = words[..] else {
        return None;
    };
    let is_it = address.parse() == Ok(next) && device == interface;
    let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
    if !is_it || flags & IS_COMPLETE == 0 {
        return None;
    }
    let bytes: Result<Vec<u8>, _> = mac
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16))
        .collect();
    Mac::try_from(bytes.ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_read_where_they_are_complete() {
        let (next, interface) = (Ipv4Addr::new(192, 0, 2, 7), "eth1");
        let line = |flags: &str, device: &str| {
            format!(
                "192.0.2.7        0x1         {flags}         52:54:00:0a:ff:07     *        {device}"
            )
        };
        let mac = [0x52, 0x54, 0x00, 0x0a, 0xff, 0x07];
        assert_eq!(known(&line("0x2", "eth1"), next, interface), Some(mac));
        assert_eq!(known(&line("0x6", "eth1"), next, interface), Some(mac));
        assert_eq!(known(&line("0x0", "eth1"), next, interface), None);
        assert_eq!(known(&line("0x2", "eth0"), next, interface), None);
        let head = "IP address       HW type     Flags       HW address            Mask     Device";
        assert_eq!(known(head, next, interface), None);
    }

    #[test]
    fn the_own_address_is_no_way_to_another_computer() {
        let found = way_to(Ipv4Addr::LOCALHOST);
        assert!(matches!(found, Err(NoWay::NotAnother(_))), "{found:?}");
    }
}
