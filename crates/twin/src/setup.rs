//! What a twin is made of.

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

/// The initiator's place among the ends of a connection, and of its edge among those of the path.
pub const INITIATOR: usize = 0;
/// The target's.
pub const TARGET: usize = 1;

/// Bytes of the IPv4 and TCP headers of a full segment, with timestamps.
pub(crate) const HEADERS_BYTES: u32 = 20 + 20 + 12;

/// Everything that a twin simulates. All of it comes from records, and any of it may be changed.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The directions of paths.
    pub directions: Vec<Direction>,
    /// The tunnels that connections go through.
    pub tunnels: Vec<Tunnel>,
    /// Commands per session that the target lets be outstanding at once.
    pub command_window: u32,
    /// Whether the status of a read comes in a SCSI Response of its own (RFC 7143 §11.4).
    pub separate_status: bool,
    /// How the store serves; `None` of one that answers at once.
    pub store: Option<Service>,
    /// What an initiator takes of a processor, and the target; `None` of what takes nothing.
    pub costs: [Option<ProgramCost>; 2],
    /// The sessions.
    pub initiators: Vec<Initiator>,
    /// From the beginning of the loads to that of the measurement.
    pub warmup: Duration,
    /// How long is measured.
    pub time: Duration,
    /// Which kinds of record are made of it.
    pub kinds: Kinds,
    /// The congestion controls with which relays send over the path: of one at the initiators' edge, and of one at the
    /// target's. `None` where there is no relay.
    pub relays: [Option<String>; 2],
    /// Whether the application may have more I/Os than the command window admits, which a capture does not show.
    pub hides_queue: bool,
    /// Whether a flow by Reno's congestion control goes where the first connection's data do, beside the load.
    pub has_rival: bool,
}

/// One direction of a path.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    /// As records name it: `wan:forward`.
    pub name: String,
    /// One-way delay.
    pub delay: Duration,
    /// The link's rate; `None` where it is unlimited.
    pub rate_bits_per_s: Option<u64>,
    /// What may wait for the link.
    pub queue: Limit,
    /// What is changed of these three, in the order of their times from the beginning of the loads.
    pub changes: Vec<(Duration, Change)>,
    /// Which packets are lost where it repeats none.
    pub loss: LossModel,
    /// The share of the packets that is lost at random.
    pub loss_share: LossShare,
    /// The packets that were dropped, as far as records tell.
    pub drops: Vec<Drop>,
    /// Which of these are dropped again.
    pub repeats: Repeats,
    /// Bytes that count for each packet beyond its Ethernet frame.
    pub overhead_bytes: u32,
}

/// A packet that was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drop {
    /// Which packet.
    pub packet: Dropped,
    /// Whether it was for want of room in the queue.
    pub by_queue: bool,
}

/// Which packet was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// By what it carried since the beginning of the loads, between the addresses of a connection: the same packet whatever
    /// others do meanwhile.
    Carrying([SocketAddr; 2], Lost),
    /// By its number among all that came to the direction, from 1.
    Number(u64),
}

/// Which of the recorded drops a direction repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repeats {
    /// None: packets are lost by chance.
    Nothing,
    /// Those that did not depend on what waited for the link.
    Losses,
    /// All, and whatever comes besides finds room in the queue.
    All,
}

impl Direction {
    /// Which packets are lost before the link by their numbers or by chance, and what may wait for it.
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

    /// The packets of each connection that are lost there for what they carry.
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

/// The capacity of a link that has that rate, or none.
pub(crate) fn capacity(rate_bits_per_s: Option<u64>) -> Capacity {
    let rate = rate_bits_per_s.and_then(Rate::from_bits_per_s);
    rate.map_or(Capacity::Unlimited, Capacity::Constant)
}

/// A tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnel {
    /// How it lengthens packets.
    pub wrapping: Wrapping,
    /// What a packet takes of a processor at either end.
    pub cost: Cost,
    /// Its own addresses, of the initiator's side first.
    pub ends: [SocketAddr; 2],
    /// Whether one thread encrypts and decrypts at either end.
    pub has_one_thread: bool,
}

/// How a connection goes through a tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Through {
    /// Which.
    pub tunnel: usize,
    /// What of [`Connection::routes`] is inside.
    pub inside: [Range<usize>; 2],
}

/// An initiator with its session and its load.
#[derive(Debug, Clone)]
pub struct Initiator {
    /// Its ISID (RFC 7143 §11.12.5).
    pub isid: [u8; 6],
    /// The session's keys in force. MaxRecvDataSegmentLength is the initiator's.
    pub keys: Wanted,
    /// The target's MaxRecvDataSegmentLength (§13.12).
    pub target_max_recv_data_bytes: u32,
    /// The connections of the session, one at least.
    pub connections: Vec<Connection>,
    /// How commands are distributed over them.
    pub schedule: Schedule,
    /// What is asked of the unit; its times are those of the [`Setup`].
    pub load: LoadConfig,
    /// When it, and the target in what it does for it, stood still, from the beginning of the loads.
    pub pauses: [Pauses; 2],
}

/// A connection.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The initiator's end, and the target's.
    pub ends: [End; 2],
    /// Places of the directions towards the target, and back.
    pub routes: [Vec<usize>; 2],
    /// The tunnel that it goes through, if there is one.
    pub through: Option<Through>,
    /// The relay in between, if one was recorded.
    pub relay: Option<Relay>,
    /// The addresses of both ends.
    pub addresses: [SocketAddr; 2],
}

/// A relay that was recorded: it takes the initiator's connection and makes one to the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    /// Its end towards the initiator, and the one towards the target.
    pub ends: [End; 2],
    /// Where it listens, and from where it connects.
    pub addresses: [SocketAddr; 2],
    /// How many of the directions of each of [`Connection::routes`] are before it.
    pub after: [usize; 2],
}

/// TCP at one end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// The congestion control's name.
    pub congestion_control: String,
    /// Data of a full segment, in bytes.
    pub mss_bytes: u32,
    /// Whether Nagle's algorithm is on.
    pub nagle: bool,
    /// Whether each read asks for an acknowledgement.
    pub quick_ack: bool,
    /// Whether ECN is used.
    pub ecn: bool,
    /// The send buffer: first and greatest size, in bytes.
    pub send_buffer_bytes: [u64; 2],
    /// What its kernel sets aside for headers in front of a packet ([`BufferConfig::header_bytes`]).
    pub header_bytes: u64,
    /// The largest packet that its device takes ([`BufferConfig::gso_max_bytes`]).
    pub gso_max_bytes: u64,
    /// The receive buffer: the same.
    pub receive_buffer_bytes: [u64; 2],
}

impl End {
    /// One of a program that sets nothing but the congestion control, on Linux as it comes.
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

    /// What both buffers hold at most, in bytes.
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

    /// The most memory for what the buffers of all connections and the data of commands may hold, at both ends
    /// and in relays together, in bytes.
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
            // The data of an I/O is with the initiator, and with the target once its command is.
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
