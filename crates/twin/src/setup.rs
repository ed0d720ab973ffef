//! The setup of a twin.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;

use wansan_iscsi::initiator::Schedule;
use wansan_iscsi::keys::Wanted;
use wansan_path::rate::Rate;
use wansan_path::{Capacity, Change, Limit, Listed, LossModel};
use wansan_sim::network::vpn::{Cost, Wrapping};
use wansan_sim::network::{Lost, Pauses};
use wansan_sim::storage::ProgramCost;
use wansan_sim::tcp::receive::ReceiveConfig;
use wansan_sim::tcp::send::BufferConfig;
use wansan_split::DEFAULT_BUFFER_BYTES;
use wansan_trace::Kinds;
use wansan_workload::LoadConfig;
use wansan_workload::service::Service;

use crate::loss::LossShare;

/// Index of the initiator among the ends of a connection, and of its edge among those of the path.
pub const INITIATOR: usize = 0;
/// Index of the target.
pub const TARGET: usize = 1;

/// Bytes of the IPv4 and TCP headers of a full segment with timestamps.
pub(crate) const HEADERS_BYTES: u32 = 20 + 20 + 12;

/// Everything that a twin simulates. All of it is derived from records, and any of it may be changed.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Directions of paths.
    pub directions: Vec<Direction>,
    /// Tunnels that connections go through.
    pub tunnels: Vec<Tunnel>,
    /// Commands per session that the target allows to be outstanding at once.
    pub command_window: u32,
    /// Whether the status of a read comes in a separate SCSI Response (RFC 7143 §11.4).
    pub separate_status: bool,
    /// Whether the target sends the PDUs that are ready together in one call.
    pub join_sends: bool,
    /// Service of the store; `None` if it responds at once.
    pub store: Option<Service>,
    /// CPU cost of initiators and of the target; `None` if negligible.
    pub costs: [Option<ProgramCost>; 2],
    /// The sessions.
    pub initiators: Vec<Initiator>,
    /// Time from the start of the loads to the start of the measurement.
    pub warmup: Duration,
    /// Duration of the measurement.
    pub time: Duration,
    /// Record kinds that it produces.
    pub kinds: Kinds,
    /// Congestion controls that relays use over the path: at the initiators' edge and at the target's. `None`: no
    /// relay.
    pub relays: [Option<String>; 2],
    /// Whether the application may queue more I/Os than the command window admits, which a capture does not show.
    pub hides_queue: bool,
    /// Whether a Reno flow shares the path with the load, in the direction of the first connection's data.
    pub has_rival: bool,
}

/// One direction of a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    /// Name in records, such as `wan:forward`.
    pub name: String,
    /// One-way delay.
    pub delay: Duration,
    /// Rate of the link; `None` if unlimited.
    pub rate_bits_per_s: Option<u64>,
    /// Limit of the queue in front of the link.
    pub queue: Limit,
    /// Changes of delay, rate and queue, in order of their times from the start of the loads.
    pub changes: Vec<(Duration, Change)>,
    /// Loss model if no drops are repeated.
    pub loss: LossModel,
    /// Share of packets lost at random.
    pub loss_share: LossShare,
    /// The recorded drops, as far as known.
    pub drops: Vec<Drop>,
    /// Which of them are repeated.
    pub repeats: Repeats,
    /// Bytes counted per packet beyond its Ethernet frame.
    pub overhead_bytes: u32,
}

/// A recorded packet drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drop {
    /// The packet.
    pub packet: Dropped,
    /// Whether the queue dropped it for lack of room.
    pub by_queue: bool,
}

/// Identifies a dropped packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// By the addresses of its connection and what it carried since the start of the loads: the same packet whatever
    /// other traffic does.
    Carrying([SocketAddr; 2], Lost),
    /// By its number among all packets that arrived at the direction, from 1.
    Number(u64),
}

/// Which of the recorded drops a direction repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// None: packets are lost at random.
    Nothing,
    /// Those not caused by the queue.
    Losses,
    /// All; any other packet finds room in the queue.
    All,
}

impl Direction {
    /// Losses ahead of the link, by packet number or at random, and the limit of the queue.
    pub(crate) fn losses(&self) -> (LossModel, Limit) {
        let numbers = self.repeated().filter_map(|drop| match drop.packet {
            Dropped::Number(number) => Some(number),
            Dropped::Carrying(..) => None,
        });
        let numbers = Listed::new(numbers.collect());
        let listed = || numbers.map_or(LossModel::NONE, LossModel::Listed);
        match self.repeats {
            Repeats::Nothing => (self.loss.clone(), self.queue),
            Repeats::Losses => (listed(), self.queue),
            Repeats::All => (listed(), Limit::bytes(u64::MAX)),
        }
    }

    /// Packets lost there by what they carry, for each connection.
    pub(crate) fn lost(&self) -> BTreeMap<[SocketAddr; 2], Vec<Lost>> {
        let mut lost: BTreeMap<_, Vec<Lost>> = BTreeMap::new();
        for drop in self.repeated() {
            if let Dropped::Carrying(flow, carried) = drop.packet {
                lost.entry(flow).or_default().push(carried);
            }
        }
        lost
    }

    fn repeated(&self) -> impl Iterator<Item = &Drop> {
        self.drops.iter().filter(|drop| match self.repeats {
            Repeats::Nothing => false,
            Repeats::Losses => !drop.by_queue,
            Repeats::All => true,
        })
    }
}

/// Capacity of a link of that rate, or of one without a rate.
pub(crate) fn capacity(rate_bits_per_s: Option<u64>) -> Capacity {
    let rate = rate_bits_per_s.and_then(Rate::from_bits_per_s);
    rate.map_or(Capacity::Unlimited, Capacity::Constant)
}

/// A tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnel {
    /// How it encapsulates packets.
    pub wrapping: Wrapping,
    /// CPU cost of a packet at either end.
    pub cost: Cost,
    /// Its outer addresses, the initiator's side first.
    pub ends: [SocketAddr; 2],
    /// Whether one thread encrypts and decrypts at either end.
    pub has_one_thread: bool,
}

/// Path of a connection through a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    /// Index of the tunnel.
    pub tunnel: usize,
    /// The parts of [`Connection::routes`] inside it.
    pub inside: [Range<usize>; 2],
}

/// An initiator with its session and its load.
#[derive(Debug, Clone)]
pub struct Initiator {
    /// Its ISID (RFC 7143 §11.12.5).
    pub isid: [u8; 6],
    /// The negotiated keys. MaxRecvDataSegmentLength is the initiator's.
    pub keys: Wanted,
    /// The target's MaxRecvDataSegmentLength (§13.12).
    pub target_max_recv_data_bytes: u32,
    /// Connections of the session, at least one.
    pub connections: Vec<Connection>,
    /// How commands are distributed over the connections.
    pub schedule: Schedule,
    /// The load; its times are those of the [`Setup`].
    pub load: LoadConfig,
    /// Pauses of the initiator, and of the target in serving it, from the start of the loads.
    pub pauses: [Pauses; 2],
}

/// An iSCSI connection.
#[derive(Debug, Clone)]
pub struct Connection {
    /// TCP at the initiator's end and at the target's.
    pub ends: [End; 2],
    /// Indices of the directions towards the target, and back.
    pub routes: [Vec<usize>; 2],
    /// The tunnel that it goes through, if any.
    pub through: Option<Through>,
    /// The recorded relay in between, if any.
    pub relay: Option<Relay>,
    /// Addresses of both ends.
    pub addresses: [SocketAddr; 2],
}

/// A recorded relay: it accepts the initiator's connection and opens one to the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    /// TCP at its end towards the initiator and at the one towards the target.
    pub ends: [End; 2],
    /// The address where it listens, and the one from which it connects.
    pub addresses: [SocketAddr; 2],
    /// How many directions of each of [`Connection::routes`] precede it.
    pub after: [usize; 2],
}

/// TCP settings of one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Name of the congestion control.
    pub congestion_control: String,
    /// Payload of a full segment, in bytes.
    pub mss_bytes: u32,
    /// Whether Nagle's algorithm is on.
    pub nagle: bool,
    /// Whether each read requests an immediate acknowledgement.
    pub quick_ack: bool,
    /// Whether ECN is used.
    pub ecn: bool,
    /// Send buffer: initial and maximum size, in bytes.
    pub send_buffer_bytes: [u64; 2],
    /// Headroom that its kernel reserves for headers in front of a packet ([`BufferConfig::header_bytes`]).
    pub header_bytes: u64,
    /// The largest packet that its device accepts ([`BufferConfig::gso_max_bytes`]).
    pub gso_max_bytes: u64,
    /// Receive buffer: initial and maximum size, in bytes.
    pub receive_buffer_bytes: [u64; 2],
}

impl End {
    /// End of a program that sets nothing but the congestion control, on Linux with default settings.
    #[must_use]
    pub fn plain(congestion_control: String, mss_bytes: u32) -> End {
        let usual = BufferConfig::default();
        let [_, first_send, most_send] = usual.wmem_bytes;
        let [_, first_receive, most_receive] = ReceiveConfig::default().rmem_bytes;
        End {
            congestion_control,
            mss_bytes,
            nagle: true,
            quick_ack: false,
            ecn: false,
            send_buffer_bytes: [first_send, most_send],
            header_bytes: usual.header_bytes,
            gso_max_bytes: usual.gso_max_bytes,
            receive_buffer_bytes: [first_receive, most_receive],
        }
    }

    /// Maximum of both buffers together, in bytes.
    fn buffer_bytes(&self) -> u64 {
        self.send_buffer_bytes[1] + self.receive_buffer_bytes[1]
    }
}

impl Setup {
    /// All connections of all sessions.
    pub fn connections_mut(&mut self) -> impl Iterator<Item = &mut Connection> {
        let initiators = self.initiators.iter_mut();
        initiators.flat_map(|initiator| &mut initiator.connections)
    }

    /// Upper bound on the memory for the buffers of all connections and the data of commands, at both ends and in
    /// relays together, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> i64 {
        let initiators = self.initiators.iter();
        let plain = End::plain(String::new(), 0);
        let relay_flow = 2 * (plain.buffer_bytes() + DEFAULT_BUFFER_BYTES as u64);
        let each = initiators.map(|initiator| {
            let connections = || initiator.connections.iter();
            let ends = connections().flat_map(|connection| &connection.ends);
            let buffers: u64 = ends.map(End::buffer_bytes).sum();
            let flows = self.relays.iter().flatten().count() * initiator.connections.len();
            let recorded = connections().filter_map(|connection| connection.relay.as_ref());
            let recorded = recorded.map(|relay| {
                let buffers = relay.ends.iter().map(End::buffer_bytes);
                buffers.sum::<u64>() + 2 * DEFAULT_BUFFER_BYTES as u64
            });
            let load = &initiator.load;
            let commands = load.parallel.min(self.command_window as usize) as u64;
            // The data of an I/O is held by the initiator, and also by the target once its command is there.
            let data = u64::from(load.block_bytes) * (load.parallel as u64 + commands);
            buffers + data + flows as u64 * relay_flow + recorded.sum::<u64>()
        });
        i64::try_from(each.sum::<u64>()).unwrap_or(i64::MAX)
    }

    /// The first connection of the first session; there always is one.
    #[must_use]
    pub fn first_connection(&self) -> &Connection {
        &self.initiators[0].connections[0]
    }
}
