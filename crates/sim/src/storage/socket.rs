//! Connections with the content of their bytes: the network itself only counts them.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use wansan_iscsi::tail::ends_record;
use wansan_split::Memory;
use wansan_trace::event::{self, Tcp};
use wansan_trace::{ConnectionId, Instant, Recorder, SessionId};

use super::coming::Coming;
use super::processors::Thread;
use crate::network::{Hop, Lost, Network, Pauses, Program};
use crate::tcp::congestion::Law;
use crate::tcp::connection::Connection;
use crate::tcp::receive::{Opening, ReceiveConfig};
use crate::tcp::send::SendConfig;

/// The settings of one end of a connection.
#[derive(Debug, Clone)]
pub struct EndConfig {
    /// The sending half.
    pub send: SendConfig,
    /// The receiving half.
    pub receive: ReceiveConfig,
    /// Its congestion control.
    pub law: Law,
    /// The kernel's name for it.
    pub law_name: String,
    /// Whether its program requests an acknowledgement at each read (TCP_QUICKACK).
    pub quick_acks: bool,
}

/// A connection; each pair has the active end first and the passive end second. It is accepted by the program that
/// listens at its second address: a relay, a receiver of streams, or else the target.
#[derive(Debug, Clone)]
pub struct ConnectionConfig {
    /// Both ends.
    pub ends: [EndConfig; 2],
    /// The routes to the passive end, and back.
    pub routes: [Vec<Hop>; 2],
    /// The addresses of both ends.
    pub addresses: [SocketAddr; 2],
}

/// The program that owns an end of a connection, by its index among those of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The target.
    Target,
    /// An initiator.
    Initiator(usize),
    /// A sender of streams.
    Sender(usize),
    /// A receiver of streams.
    Receiver(usize),
    /// A relay.
    Relay(usize),
}

/// The work of a program at its ends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Work {
    /// Calls that read or wrote something.
    pub(super) calls: u64,
    /// PDUs read and written.
    pub(super) pdus: u64,
    /// Bytes read and written.
    pub(super) bytes: u64,
}

/// One end.
#[derive(Debug)]
struct Socket {
    owner: Owner,
    peer: u32,
    /// What the peer has written and this end has not read yet.
    coming: Coming,
    quick_acks: bool,
    nagle: bool,
    /// Maximum sizes of its send and receive buffers.
    buffer_max_bytes: [u64; 2],
    law_name: String,
    addresses: [SocketAddr; 2],
    /// PDUs that have passed here.
    pdus: u64,
}

/// All connections of a simulation.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) network: Network,
    sockets: Vec<Socket>,
    /// Owners of listening addresses; connections to other addresses go to the target.
    listeners: Vec<(SocketAddr, Owner)>,
    /// Ends of connections yet to be accepted.
    waiting: VecDeque<u32>,
    /// The work of each thread since the last [`take_work`](Self::take_work); `None` if it is not counted.
    works: Option<Vec<(Thread, Work)>>,
}

impl Sockets {
    pub(super) fn new(network: Network) -> Sockets {
        Sockets {
            network,
            sockets: Vec::new(),
            listeners: Vec::new(),
            waiting: VecDeque::new(),
            works: None,
        }
    }

    /// Counts the work of threads from now on.
    pub(super) fn count_work(&mut self) {
        self.works = Some(Vec::new());
    }

    /// The work of each thread since the last call.
    pub(super) fn take_work(&mut self) -> impl Iterator<Item = (Thread, Work)> + use<> {
        let works = self.works.as_mut().map(std::mem::take);
        works.into_iter().flatten()
    }

    /// The thread that serves an end.
    pub(super) fn thread(&self, end: u32) -> Thread {
        let Socket { owner, peer, .. } = self.sockets[end as usize];
        Thread {
            owner,
            serves: (owner == Owner::Target).then(|| self.owner(peer)),
        }
    }

    fn count(&mut self, end: u32, done: Work) {
        if self.works.is_none() {
            return;
        }
        let thread = self.thread(end);
        let works = self.works.iter_mut().flatten();
        match { works }.find(|(known, _)| *known == thread) {
            Some((_, work)) => {
                work.calls += done.calls;
                work.pdus += done.pdus;
                work.bytes += done.bytes;
            }
            None => self.works.iter_mut().for_each(|it| it.push((thread, done))),
        }
    }

    fn count_call(&mut self, end: u32, bytes: usize) {
        let work = Work {
            calls: 1,
            pdus: 0,
            bytes: bytes as u64,
        };
        self.count(end, work);
    }

    /// Sets the number of PDUs that have passed at an end since its connection began.
    pub(super) fn count_pdus(&mut self, end: u32, pdus: u64) {
        let socket = &mut self.sockets[end as usize];
        let pdus = pdus.saturating_sub(std::mem::replace(&mut socket.pdus, pdus));
        let work = Work {
            pdus,
            ..Work::default()
        };
        self.count(end, work);
    }

    /// Lets a program accept connections to these addresses.
    pub(super) fn listen(&mut self, addresses: &[SocketAddr], owner: Owner) {
        let each = addresses.iter().map(|&address| (address, owner));
        self.listeners.extend(each);
    }

    /// The next end of a connection to be accepted, and its owner.
    pub(super) fn accept(&mut self) -> Option<(u32, Owner)> {
        let end = self.waiting.pop_front()?;
        Some((end, self.owner(end)))
    }

    /// The owner of an end.
    pub(super) fn owner(&self, end: u32) -> Owner {
        self.sockets[end as usize].owner
    }

    /// Pauses the ends of a program, and their peers.
    pub(super) fn pause(&mut self, owner: Owner, [own, peers]: &[Pauses; 2]) {
        let sockets = self.sockets.iter().zip(0..);
        let ends = sockets.filter(|(socket, _)| socket.owner == owner);
        let (ends, of_peers): (Vec<u32>, Vec<u32>) =
            ends.map(|(socket, end)| (end, socket.peer)).unzip();
        self.network.pause(&ends, own);
        self.network.pause(&of_peers, peers);
    }

    /// Drops packets between two addresses on a link.
    pub(super) fn lose(&mut self, flow: [SocketAddr; 2], link: u32, lost: &[Lost]) {
        let mut ends = self.sockets.iter().zip(0..);
        if let Some((_, end)) = ends.find(|(socket, _)| socket.addresses == flow) {
            self.network.lose(end, link, lost);
        }
    }

    /// The address of an end, and of its peer.
    pub(super) fn addresses(&self, end: u32) -> [SocketAddr; 2] {
        self.sockets[end as usize].addresses
    }

    /// The congestion control of an end, by the kernel's name for it.
    pub(super) fn law_name(&self, end: u32) -> &str {
        &self.sockets[end as usize].law_name
    }

    /// The current virtual time.
    pub(super) fn now(&self) -> Instant {
        Instant::from_ns(self.network.now_ns())
    }

    /// A program connects now; returns its end. The other end waits to be [accepted](Self::accept).
    pub(super) fn connect(&mut self, config: &ConnectionConfig, owner: Owner) -> u32 {
        let now_ns = self.network.now_ns();
        let openings = [Opening::Active, Opening::Passive];
        let [near, far] = [0, 1].map(|place| {
            let end = &config.ends[place];
            let connection = Connection::new(
                openings[place],
                end.send,
                &end.receive,
                end.law.clone(),
                now_ns,
            );
            (connection, Program::Callers, config.routes[place].clone())
        });
        let ends = self.network.connect([near, far], now_ns);
        let [local, remote] = config.addresses;
        let mut listeners = self.listeners.iter();
        let listener = listeners.find(|(address, _)| *address == remote);
        let taker = listener.map_or(Owner::Target, |(_, owner)| *owner);
        let each = [(owner, [local, remote]), (taker, [remote, local])];
        for (place, (owner, addresses)) in each.into_iter().enumerate() {
            debug_assert_eq!(ends[place] as usize, self.sockets.len());
            self.network.set_addresses(ends[place], addresses);
            self.sockets.push(Socket {
                owner,
                peer: ends[1 - place],
                coming: Coming::default(),
                quick_acks: config.ends[place].quick_acks,
                nagle: !config.ends[place].send.nodelay,
                buffer_max_bytes: [
                    config.ends[place].send.buffer.wmem_bytes[2],
                    config.ends[place].receive.rmem_bytes[2],
                ],
                law_name: config.ends[place].law_name.clone(),
                addresses,
                pdus: 0,
            });
        }
        self.waiting.push_back(ends[1]);
        ends[0]
    }

    /// Reads into `space`; returns the number of bytes.
    pub(super) fn read(&mut self, end: u32, space: &mut [u8]) -> usize {
        let bytes = self.network.read(end, space.len() as u64) as usize;
        if bytes > 0 {
            let socket = &mut self.sockets[end as usize];
            socket.coming.read(&mut space[..bytes]);
            if socket.quick_acks {
                self.network.acknowledge_now(end);
            }
            // Sends a window update if there is one.
            self.network.send(end);
            self.count_call(end, bytes);
        }
        bytes
    }

    /// Writes as much as fits; returns the number of bytes.
    pub(super) fn write(&mut self, end: u32, bytes: &[u8]) -> usize {
        let taken = self.write_more(end, bytes);
        if taken > 0 {
            // TCP gets each call separately, and may send it as a segment of its own.
            self.network.send(end);
        }
        taken
    }

    /// Like [`write`](Self::write), for everything that an end of a session has to send for now: may end a record after
    /// it.
    pub(super) fn write_all_pending(&mut self, end: u32, bytes: &[u8]) -> usize {
        let sender = self.network.end(end).sender();
        let least_us = sender.least_round_trip_us().unwrap_or(0);
        let ends = ends_record(Duration::from_micros(least_us), || sender.unsent_bytes());
        let taken = self.write_more(end, bytes);
        if ends && taken == bytes.len() {
            self.network.end_packet(end);
        }
        if taken > 0 {
            self.network.send(end);
        }
        taken
    }

    /// Like [`write`](Self::write), for bytes that others follow at once (MSG_MORE).
    pub(super) fn write_more(&mut self, end: u32, bytes: &[u8]) -> usize {
        let taken = self.network.write(end, bytes.len() as u64) as usize;
        let peer = self.sockets[end as usize].peer;
        self.sockets[peer as usize].coming.write(&bytes[..taken]);
        if taken > 0 {
            self.count_call(end, taken);
        }
        taken
    }

    /// Whether the handshake is complete.
    pub(super) fn is_connected(&self, end: u32) -> bool {
        self.network.end(end).is_established()
    }

    /// Whether a read returns something, or the end of the peer's stream.
    pub(super) fn is_readable(&self, end: u32) -> bool {
        self.network.is_readable(end)
    }

    /// Whether a write can take something.
    pub(super) fn is_writable(&self, end: u32) -> bool {
        self.network.is_writable(end)
    }

    /// Use of the receive buffer of an end.
    pub(super) fn memory(&self, end: u32) -> Memory {
        let receiver = self.network.end(end).receiver();
        let info = receiver.info();
        let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
        Memory {
            unread_bytes: receiver.readable_bytes(),
            taken_bytes: narrow(info.memory_bytes),
            buffer_bytes: narrow(info.buffer_bytes),
        }
    }

    /// Whether the peer has closed, and everything was read.
    pub(super) fn has_ended(&mut self, end: u32) -> bool {
        self.network.has_ended(end)
    }

    /// Resets a connection.
    pub(super) fn abort(&mut self, end: u32) {
        self.network.abort(end);
        self.sockets[end as usize].coming = Coming::default();
    }

    /// Whether the peer has reset the connection.
    pub(super) fn is_lost(&mut self, end: u32) -> bool {
        self.network.is_lost(end)
    }

    /// Closes the sending side.
    pub(super) fn shut(&mut self, end: u32) {
        self.network.shut(end);
    }

    /// Records a connection of a session: `known` completed by the state of TCP.
    pub(super) fn record_connection(
        &self,
        end: u32,
        known: event::Connection,
        trace: &mut Recorder,
    ) {
        if !trace.connection.is_kept() {
            return;
        }
        let socket = &self.sockets[end as usize];
        let [local, remote] = socket.addresses;
        let of = |end: u32| self.network.end(end);
        let [send_buffer_max_bytes, receive_buffer_max_bytes] = socket.buffer_max_bytes;
        let record = event::Connection {
            time: self.now(),
            local,
            remote,
            mss_bytes: of(end).sender().window().mss,
            local_window_scale: of(end).receiver().window_scale(),
            remote_window_scale: of(socket.peer).receiver().window_scale(),
            congestion_control: trace.name(&socket.law_name),
            nagle: socket.nagle,
            quick_ack: socket.quick_acks,
            send_buffer_max_bytes,
            receive_buffer_max_bytes,
            sampled_one_in: trace.sample().number(),
            ..known
        };
        trace.connection(record);
    }

    /// How many bytes of an end its peer's TCP has acknowledged, and the smoothed round-trip time; 0 before it was
    /// measured.
    pub(super) fn progress(&self, end: u32) -> (u64, Duration) {
        let sender = self.network.end(end).sender();
        let (srtt_us, _) = sender.round_trip();
        (sender.acknowledged_bytes(), Duration::from_micros(srtt_us))
    }

    /// The state of TCP at an end, as a record.
    pub(super) fn tcp(&self, end: u32, (session, connection): (SessionId, ConnectionId)) -> Tcp {
        let sender = self.network.end(end).sender();
        sender.record(self.network.now_ns(), session, connection)
    }
}
