//! Virtual Ethernet, addresses and neighbours, with rtnetlink(7).

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::RawFd;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::address::{AddressAttribute, AddressHeaderFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::RouteType;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use super::netlink::Netlink;

/// A MAC address.
pub(super) type Mac = [u8; 6];

/// One end of a pair: its name and address in its own namespace.
pub(super) struct End<'a> {
    pub(super) name: &'a str,
    pub(super) mac: Mac,
    /// Largest super-frame that it sends; `None` for the kernel's default.
    pub(super) super_frame_max_bytes: Option<u32>,
    /// Whether it sends single packets only, never super-frames, for any protocol.
    pub(super) one_by_one: bool,
}

impl End<'_> {
    fn attributes(&self, mtu_bytes: u32) -> Vec<LinkAttribute> {
        let mut attributes = vec![
            LinkAttribute::IfName(self.name.to_owned()),
            LinkAttribute::Address(self.mac.to_vec()),
            LinkAttribute::Mtu(mtu_bytes),
        ];
        attributes.extend(self.super_frame_max_bytes.map(LinkAttribute::GsoMaxSize));
        // The kernel segments larger super-frames before they reach the interface.
        attributes.extend(self.one_by_one.then_some(LinkAttribute::GsoMaxSegs(1)));
        attributes
    }
}

/// Creates a pair of virtual Ethernet interfaces: `here` in the calling thread's namespace, `there` in the namespace
/// behind `there_fd`.
pub(super) fn create_pair(
    here: &End<'_>,
    there: &End<'_>,
    there_fd: RawFd,
    mtu_bytes: u32,
) -> io::Result<()> {
    let mut peer = LinkMessage::default();
    peer.attributes = there.attributes(mtu_bytes);
    peer.attributes.push(LinkAttribute::NetNsFd(there_fd));
    let mut link = LinkMessage::default();
    link.attributes = here.attributes(mtu_bytes);
    link.attributes.push(LinkAttribute::LinkInfo(vec![
        LinkInfo::Kind(InfoKind::Veth),
        LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
    ]));
    let request = RouteNetlinkMessage::NewLink(link);
    Netlink::open()?.ask(request, NLM_F_CREATE | NLM_F_EXCL)
}

/// Brings an interface up, without ARP if all its neighbours are static.
pub(super) fn bring_up(name: &str, without_arp: bool) -> io::Result<()> {
    let mut flags = LinkFlags::Up;
    if without_arp {
        flags |= LinkFlags::Noarp;
    }
    let mut link = LinkMessage::default();
    link.header.index = index(name)?;
    link.header.flags = flags;
    link.header.change_mask = flags;
    Netlink::open()?.ask(RouteNetlinkMessage::SetLink(link), 0)
}

/// Sets an interface's MTU.
pub(super) fn set_mtu(name: &str, mtu_bytes: u32) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = index(name)?;
    link.attributes = vec![LinkAttribute::Mtu(mtu_bytes)];
    Netlink::open()?.ask(RouteNetlinkMessage::SetLink(link), 0)
}

/// Adds an address to an interface.
pub(super) fn add_address(name: &str, address: Ipv4Addr, prefix_bits: u8) -> io::Result<()> {
    let mut message = AddressMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.prefix_len = prefix_bits;
    message.header.flags = AddressHeaderFlags::Permanent;
    message.header.index = index(name)?;
    message.attributes = vec![
        AddressAttribute::Local(IpAddr::V4(address)),
        AddressAttribute::Address(IpAddr::V4(address)),
    ];
    let request = RouteNetlinkMessage::NewAddress(message);
    Netlink::open()?.ask(request, NLM_F_CREATE | NLM_F_EXCL)
}

/// Adds a permanent neighbour entry, so that no ARP is needed on the path.
pub(super) fn add_neighbour(name: &str, address: Ipv4Addr, mac: Mac) -> io::Result<()> {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.ifindex = index(name)?;
    message.header.state = NeighbourState::Permanent;
    message.header.kind = RouteType::Unspec;
    message.attributes = vec![
        NeighbourAttribute::Destination(NeighbourAddress::Inet(address)),
        NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
    ];
    let request = RouteNetlinkMessage::NewNeighbour(message);
    Netlink::open()?.ask(request, NLM_F_CREATE)
}

/// The index of an interface of the calling thread's namespace.
pub(super) fn index(name: &str) -> io::Result<u32> {
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        None,
    )?;
    Ok(rustix::net::netdevice::name_to_index(&socket, name)?)
}
