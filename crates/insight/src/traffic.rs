//! The flows of packets on the emulated paths, and their directions.

use foldhash::HashMap;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use wansan_trace::event::{Packet, Pdu};
use wansan_trace::file::Row;
use wansan_trace::{ConnectionId, SessionId};

use crate::cell::Cell;
use crate::opcode::{DATA_IN, DATA_OUT, SCSI_COMMAND};

/// TCP flags.
const SYN: u8 = 0x02;
/// TCP flags.
const ACK: u8 = 0x10;
/// Maximum length of an encrypted IP packet that is taken for a bare acknowledgement. An acknowledgement with TCP
/// timestamps has 52 bytes, a command 100; WireGuard and ESP in tunnel mode make these 112 to 128 and 160 to 184 bytes.
const ENCRYPTED_ACK_BYTES: u16 = 144;

/// What the packets of a flow carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A connection of a session.
    Session(SessionId, ConnectionId),
    /// A TCP connection without known PDUs.
    Tcp,
    /// A tunnel: only packet lengths are visible.
    Encrypted,
}

/// The direction of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FlowDirection {
    /// From the initiator to the target.
    ToTarget,
    /// From the target to the initiator.
    ToInitiator,
}

impl FlowDirection {
    /// Both directions.
    pub const ALL: [FlowDirection; 2] = [FlowDirection::ToTarget, FlowDirection::ToInitiator];

    /// The direction with that name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<FlowDirection> {
        FlowDirection::ALL
            .into_iter()
            .find(|way| way.name() == name)
    }

    /// Its name in results.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FlowDirection::ToTarget => "to_target",
            FlowDirection::ToInitiator => "to_initiator",
        }
    }
}

/// Packets between two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flow {
    /// What they carry.
    pub content: Content,
    /// The initiator's end, or that of its router.
    pub initiator: SocketAddr,
    /// The target's end, or that of its router.
    pub target: SocketAddr,
}

/// The addresses and ports of a source and a destination as numbers, which hash in three steps: every packet is looked
/// up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Ends(u128, u128, u32);

impl Ends {
    pub(crate) fn of(source: SocketAddr, destination: SocketAddr) -> Ends {
        let address = |end: SocketAddr| match end.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().to_bits(),
            IpAddr::V6(ip) => ip.to_bits(),
        };
        let ports = u32::from(source.port()) << 16 | u32::from(destination.port());
        Ends(address(source), address(destination), ports)
    }

    /// The same value for both directions: the lesser end comes first.
    pub(crate) fn between(one: SocketAddr, other: SocketAddr) -> Ends {
        let Ends(source, destination, ports) = Ends::of(one, other);
        let back = ports.rotate_left(16);
        match (source, ports >> 16) <= (destination, back >> 16) {
            true => Ends(source, destination, ports),
            false => Ends(destination, source, back),
        }
    }
}

/// The flows of a cell.
#[derive(Debug, Default)]
pub struct Traffic {
    /// The flows, those of sessions first.
    pub flows: Vec<Flow>,
    of: HashMap<Ends, (usize, FlowDirection)>,
}

impl Traffic {
    /// The flows whose SYN was seen, those of [`Cell::carriers`], and the tunnels.
    ///
    /// A tunnel does not show which end is the target's. The direction of the data decides: if at least as much was
    /// read as written, or no PDUs were recorded, the end that sends more is the target's.
    #[must_use]
    pub fn of(cell: &Cell) -> Traffic {
        let mut traffic = Traffic::default();
        for carrier in &cell.carriers {
            traffic.add(Flow {
                content: Content::Session(carrier.session, carrier.connection),
                initiator: carrier.initiator,
                target: carrier.target,
            });
        }
        let Some(packets) = &cell.packet else {
            return traffic;
        };
        let mut tunnels: BTreeMap<(SocketAddr, SocketAddr), (u64, u64)> = BTreeMap::new();
        packets.for_each(|packet| {
            let ends = (packet.source, packet.destination);
            if is_encrypted(packet) {
                let bytes = u64::from(packet.ip_bytes);
                match tunnels.get_mut(&(ends.1, ends.0)) {
                    Some((_, back)) => *back += bytes,
                    None => tunnels.entry(ends).or_default().0 += bytes,
                }
            } else if packet.flags & (SYN | ACK) == SYN
                && !traffic.of.contains_key(&Ends::of(ends.0, ends.1))
            {
                traffic.add(Flow {
                    content: Content::Tcp,
                    initiator: ends.0,
                    target: ends.1,
                });
            }
        });
        if tunnels.is_empty() {
            return traffic;
        }
        let reads = cell.pdu.as_ref().is_none_or(|pdus| reads(&pdus.rows));
        for ((one, other), (sent, came)) in tunnels {
            let other_is_target = (came > sent) == reads;
            let (initiator, target) = if other_is_target {
                (one, other)
            } else {
                (other, one)
            };
            traffic.add(Flow {
                content: Content::Encrypted,
                initiator,
                target,
            });
        }
        traffic
    }

    /// The index of a packet's flow in [`Traffic::flows`], and its direction.
    #[must_use]
    pub fn flow(&self, packet: &Packet) -> Option<(usize, FlowDirection)> {
        self.between(packet.source, packet.destination)
    }

    /// The same for packets from `source` to `destination`.
    pub(crate) fn between(
        &self,
        source: SocketAddr,
        destination: SocketAddr,
    ) -> Option<(usize, FlowDirection)> {
        // With a single flow, comparing is faster than hashing.
        if let [flow] = &self.flows[..] {
            return match flow.initiator == source && flow.target == destination {
                true => Some((0, FlowDirection::ToTarget)),
                false => (flow.initiator == destination && flow.target == source)
                    .then_some((0, FlowDirection::ToInitiator)),
            };
        }
        self.of.get(&Ends::of(source, destination)).copied()
    }

    fn add(&mut self, flow: Flow) {
        let place = self.flows.len();
        let (initiator, target) = (flow.initiator, flow.target);
        self.of.insert(
            Ends::of(initiator, target),
            (place, FlowDirection::ToTarget),
        );
        let back = (place, FlowDirection::ToInitiator);
        self.of.insert(Ends::of(target, initiator), back);
        self.flows.push(flow);
    }
}

/// Whether only the packet's length is visible: every TCP segment has a flag set.
#[must_use]
pub fn is_encrypted(packet: &Packet) -> bool {
    packet.flags == 0
}

/// Whether the packet carries more than an acknowledgement, judged by length if it is encrypted.
#[must_use]
pub fn carries_data(packet: &Packet) -> bool {
    if is_encrypted(packet) {
        packet.ip_bytes > ENCRYPTED_ACK_BYTES
    } else {
        packet.payload_bytes > 0
    }
}

/// Whether at least as much data went to the initiator as came from it.
fn reads(pdus: &[Row<Pdu>]) -> bool {
    let bytes = |of: &[u8]| -> u64 {
        let moved = pdus.iter().filter(|row| of.contains(&row.record.opcode));
        moved.map(|row| u64::from(row.record.data_bytes)).sum()
    };
    bytes(&[DATA_IN]) >= bytes(&[SCSI_COMMAND, DATA_OUT])
}
