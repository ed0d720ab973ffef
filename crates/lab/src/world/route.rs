//! A node's routes and policy rules, with rtnetlink(7).

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteMetric, RouteProtocol,
    RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage, RulePortRange};
use netlink_packet_route::{AddressFamily, IpProtocol, RouteNetlinkMessage};

use super::link;
use super::netlink::Netlink;
use super::topology::Selector;

/// The local table (RT_TABLE_LOCAL).
const LOCAL_TABLE: u8 = 255;

/// The next hop of a route: over `device`, via `gateway` if there is one.
pub(super) struct NextHop<'a> {
    pub(super) device: &'a str,
    pub(super) gateway: Option<Ipv4Addr>,
}

/// Adds the route to `destination`, replacing the table's route to the same address.
pub(super) fn set_route(
    destination: Ipv4Addr,
    table: u32,
    hop: &NextHop<'_>,
    source: Option<Ipv4Addr>,
    mtu_bytes: Option<u32>,
) -> io::Result<()> {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: AddressFamily::Inet,
        destination_prefix_length: 32,
        protocol: RouteProtocol::Static,
        scope: match hop.gateway {
            Some(_) => RouteScope::Universe,
            None => RouteScope::Link,
        },
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    message.attributes = vec![
        RouteAttribute::Destination(RouteAddress::Inet(destination)),
        RouteAttribute::Table(table),
        RouteAttribute::Oif(link::index(hop.device)?),
    ];
    let address = |address| RouteAddress::Inet(address);
    let gateway = hop.gateway.map(address).map(RouteAttribute::Gateway);
    let source = source.map(address).map(RouteAttribute::PrefSource);
    let mtu = mtu_bytes.map(|mtu| RouteAttribute::Metrics(vec![RouteMetric::Mtu(mtu)]));
    message
        .attributes
        .extend([gateway, source, mtu].into_iter().flatten());
    let request = RouteNetlinkMessage::NewRoute(message);
    Netlink::open()?.ask(request, NLM_F_CREATE | NLM_F_REPLACE)
}

/// Removes the kernel's local route to an address.
pub(super) fn remove_local_route(address: Ipv4Addr) -> io::Result<()> {
    let mut message = RouteMessage::default();
    message.header = RouteHeader {
        address_family: AddressFamily::Inet,
        destination_prefix_length: 32,
        table: LOCAL_TABLE,
        kind: RouteType::Local,
        scope: RouteScope::Host,
        ..RouteHeader::default()
    };
    message.attributes = vec![RouteAttribute::Destination(RouteAddress::Inet(address))];
    Netlink::open()?.ask(RouteNetlinkMessage::DelRoute(message), 0)
}

/// Adds a rule: packets that match `selector` use `table`. Rules of a lower `priority` are tried first.
pub(super) fn add_rule(selector: &Selector, table: u32, priority: u32) -> io::Result<()> {
    let mut message = RuleMessage::default();
    message.header.family = AddressFamily::Inet;
    message.header.action = RuleAction::ToTable;
    message.attributes = vec![
        RuleAttribute::Table(table),
        RuleAttribute::Priority(priority),
    ];
    match selector {
        Selector::FromPorts(ports) => message.attributes.extend([
            RuleAttribute::IpProtocol(IpProtocol::Tcp),
            RuleAttribute::SourcePortRange(range(ports)),
        ]),
        Selector::ToPorts(ports) => message.attributes.extend([
            RuleAttribute::IpProtocol(IpProtocol::Tcp),
            RuleAttribute::DestinationPortRange(range(ports)),
        ]),
        Selector::FromAddresses(address, bits) => {
            message.header.src_len = *bits;
            let address = RuleAttribute::Source(IpAddr::V4(*address));
            message.attributes.push(address);
        }
        Selector::ToAddresses(address, bits) => {
            message.header.dst_len = *bits;
            let address = RuleAttribute::Destination(IpAddr::V4(*address));
            message.attributes.push(address);
        }
    }
    let request = RouteNetlinkMessage::NewRule(message);
    Netlink::open()?.ask(request, NLM_F_CREATE | NLM_F_EXCL)
}

fn range(ports: &RangeInclusive<u16>) -> RulePortRange {
    RulePortRange {
        start: *ports.start(),
        end: *ports.end(),
    }
}
