//! Connections with the bytes that they carry: the network itself knows only how many there are.

use std::collections::VecDeque;
use std::net::SocketAddr;

use wansan_trace::event;
use wansan_trace::{ConnectionId, Instant, Recorder, SessionId};

use crate::network::{Network, Program};
use crate::tcp::congestion::Law;
use crate::tcp::connection::Connection;
use crate::tcp::receive::{Opening, ReceiveConfig};
use crate::tcp::send::SendConfig;

/// The settings of one end of a connection.
#[derive(Debug, Clone)]
pub struct EndConfig {
    /// The half that sends.
    pub send: SendConfig,
    /// The half that receives.
    pub receive: ReceiveConfig,
    /// Its congestion control.
    pub law: Law,
    /// The kernel's name for it.
    pub law_name: String,
    /// Whether its program asks for an acknowledgement at each read (TCP_QUICKACK).
    pub quick_acks: bool,
}

/// A connection between an initiator and its target, in this order in each pair.
#[derive(Debug, Clone)]
pub struct ConnectionConfig {
    /// Both ends.
    pub ends: [EndConfig; 2],
    /// The links towards the target, and back.
    pub routes: [Vec<u32>; 2],
    /// The addresses of both.
    pub addresses: [SocketAddr; 2],
}

/// One end.
#[derive(Debug)]
struct Socket {
    peer: u32,
    /// What the peer has written and this end has not read.
    coming: VecDeque<u8>,
    quick_acks: bool,
    nagle: bool,
    /// What its buffers may grow to: for sending, and for receiving.
    buffer_max_bytes: [u64; 2],
    law_name: String,
    addresses: [SocketAddr; 2],
}

/// All connections of a world.
#[derive(Debug)]
pub(super) struct Sockets {
    pub(super) network: Network,
    sockets: Vec<Socket>,
}

impl Sockets {
    pub(super) fn new(network: Network) -> Sockets {
        Sockets {
            network,
            sockets: Vec::new(),
        }
    }

    /// Now.
    pub(super) fn now(&self) -> Instant {
        Instant::from_ns(self.network.now_ns())
    }

    /// Connects now; the initiator's end, and the target's.
    pub(super) fn connect(&mut self, config: &ConnectionConfig) -> [u32; 2] {
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
        for (place, addresses) in [[local, remote], [remote, local]].into_iter().enumerate() {
            debug_assert_eq!(ends[place] as usize, self.sockets.len());
            self.network.set_addresses(ends[place], addresses);
            self.sockets.push(Socket {
                peer: ends[1 - place],
                coming: VecDeque::new(),
                quick_acks: config.ends[place].quick_acks,
                nagle: !config.ends[place].send.nodelay,
                buffer_max_bytes: [
                    config.ends[place].send.buffer.wmem_bytes[2],
                    config.ends[place].receive.rmem_bytes[2],
                ],
                law_name: config.ends[place].law_name.clone(),
                addresses,
            });
        }
        ends
    }

    /// Reads into `space`; how many bytes.
    pub(super) fn read(&mut self, end: u32, space: &mut [u8]) -> usize {
        let bytes = self.network.read(end, space.len() as u64) as usize;
        if bytes > 0 {
            let socket = &mut self.sockets[end as usize];
            let (first, rest) = socket.coming.as_slices();
            let (head, tail) = space[..bytes].split_at_mut(bytes.min(first.len()));
            head.copy_from_slice(&first[..head.len()]);
            tail.copy_from_slice(&rest[..tail.len()]);
            socket.coming.drain(..bytes);
            if socket.quick_acks {
                self.network.acknowledge_now(end);
            }
            // A window that has become larger is announced.
            self.network.send(end);
        }
        bytes
    }

    /// Writes as much as fits; returns the number of bytes.
    pub(super) fn write(&mut self, end: u32, bytes: &[u8]) -> usize {
        let taken = self.network.write(end, bytes.len() as u64) as usize;
        if taken > 0 {
            let peer = self.sockets[end as usize].peer;
            self.sockets[peer as usize].coming.extend(&bytes[..taken]);
            // Each call goes to TCP by itself, which may have it leave as a segment of its own.
            self.network.send(end);
        }
        taken
    }

    /// Records that a connection carries one of a session, of which `known` is known.
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
            ..known
        };
        trace.connection(record);
    }

    /// Records the state of TCP at an end.
    pub(super) fn record_tcp(
        &self,
        end: u32,
        (session, connection): (SessionId, ConnectionId),
        trace: &mut Recorder,
    ) {
        if trace.tcp.is_kept() {
            let sender = self.network.end(end).sender();
            trace.tcp(sender.record(self.network.now_ns(), session, connection));
        }
    }
}
