//! Routers' VPN programs: they encrypt and decrypt tunnelled packets one at a time, with a cost that depends on the
//! length.

mod thread;

use std::net::SocketAddr;

use wansan_path::{Ecn, Packet};
use wansan_trace::Instant;
use wansan_trace::event::{self, Role};

use super::{Actor, Network, Wire};
pub(super) use thread::Thread;
use thread::Work;

/// How a tunnel lengthens packets, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrapping {
    /// What stands around the encrypted part: outer headers, initialization vector, integrity check value.
    pub around_bytes: u32,
    /// What is encrypted with the packet, such as ESP's pad length and next header (RFC 4303 §2).
    pub trailer_bytes: u32,
    /// The encrypted part is padded to a multiple of this; 1 or more.
    pub block_bytes: u32,
}

impl Wrapping {
    /// The outer IP packet of an inner one.
    #[must_use]
    pub const fn outer_bytes(self, inner_bytes: u32) -> u32 {
        self.around_bytes + (inner_bytes + self.trailer_bytes).next_multiple_of(self.block_bytes)
    }

    /// The longest inner IP packet whose outer one has at most so many bytes.
    #[must_use]
    pub const fn inner_bytes(self, outer_bytes: u32) -> u32 {
        let encrypted = outer_bytes - self.around_bytes;
        encrypted - encrypted % self.block_bytes - self.trailer_bytes
    }
}

/// What a packet takes of a processor, to be encrypted or decrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Whatever its length, in nanoseconds.
    pub packet_ns: u64,
    /// For each byte of the inner IP packet, in picoseconds.
    pub byte_ps: u64,
}

impl Cost {
    fn of(self, inner_bytes: u32) -> u64 {
        self.packet_ns + u64::from(inner_bytes) * self.byte_ps / 1_000
    }
}

/// One direction of a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnel {
    /// How it lengthens packets.
    pub wrapping: Wrapping,
    /// What each of them takes, at either end.
    pub cost: Cost,
    /// The outer addresses, from which and to which its packets go.
    pub ends: [SocketAddr; 2],
}

/// Where a thread of a VPN program takes packets from: the device into which they are routed, or the socket to which
/// outer ones come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    thread: u32,
    place: u32,
}

/// What a thread has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VpnUsage {
    /// Bytes of inner IP packets that it has encrypted.
    pub sealed_bytes: u64,
    /// Bytes of inner IP packets that it has decrypted.
    pub opened_bytes: u64,
    /// Packets for which there was no room before they were encrypted.
    pub dropped_packets: u64,
    /// Packets for which there was no room before they were decrypted.
    pub dropped_sealed_packets: u64,
    /// How long it ran.
    pub ran_ns: u64,
}

impl Network {
    /// Adds a thread of the VPN program of a router, such as `far wireguard`, that takes so many packets from a side
    /// before the next has its turn, 1 or more; its number.
    pub fn add_vpn_thread(&mut self, program: &str, turn_packets: u32) -> u32 {
        let thread = self.threads.len() as u32;
        let actor = self.actor(Actor::Vpn(thread));
        self.threads.push(Thread::new(actor, turn_packets));
        self.programs.push(self.trace.name(program));
        thread
    }

    /// Adds a side from which a thread takes packets; so many wait there at most.
    pub fn add_vpn_side(&mut self, thread: u32, most_packets: Option<u32>) -> Side {
        let place = self.threads[thread as usize].add(most_packets);
        Side { thread, place }
    }

    /// Adds one direction of a tunnel; its number.
    pub fn add_tunnel(&mut self, tunnel: Tunnel) -> u32 {
        self.tunnels.push(tunnel);
        self.tunnels.len() as u32 - 1
    }

    /// What each thread of a VPN program had done, at each time at which links were recorded.
    #[must_use]
    pub fn vpn_usages(&self) -> &[(Instant, Vec<VpnUsage>)] {
        &self.usages
    }

    /// What the threads of VPN programs have done until now, for records and for [`vpn_usages`](Self::vpn_usages).
    pub(crate) fn record_vpn(&mut self, now: Instant) {
        if self.threads.is_empty() {
            return;
        }
        let usages: Vec<VpnUsage> = self.threads.iter().map(|thread| thread.usage).collect();
        for ((usage, program), thread) in usages.iter().zip(&self.programs).zip(1..) {
            self.trace.thread(event::Thread {
                time: now,
                program: *program,
                role: Role::Vpn,
                thread,
                ran_ns: usage.ran_ns,
                waited_ns: 0,
            });
        }
        self.usages.push((now, usages));
    }

    /// A packet is routed into a tunnel. The outer one is not capable of ECN, whatever the inner one is.
    pub(super) fn seal(&mut self, side: Side, tunnel: u32, mut packet: Packet<Box<Wire>>) {
        packet.payload.sealed = Some((tunnel, packet.ecn));
        packet.ecn = Ecn::NotCapable;
        self.queue(side, tunnel, true, packet);
    }

    /// A packet comes out of the tunnel that it is in.
    pub(super) fn open(&mut self, side: Side, packet: Packet<Box<Wire>>) {
        let sealed = packet.payload.sealed;
        let (tunnel, _) = sealed.expect("what goes out of a tunnel has gone into it");
        self.queue(side, tunnel, false, packet);
    }

    fn queue(&mut self, side: Side, tunnel: u32, seals: bool, packet: Packet<Box<Wire>>) {
        let work = Work {
            place: side.place,
            inner_bytes: packet.payload.inner_bytes(),
            cost: self.tunnels[tunnel as usize].cost,
            seals,
        };
        let thread = &mut self.threads[side.thread as usize];
        if let Some(dropped) = thread.take(packet, work) {
            self.spare.push(dropped);
            return;
        }
        self.held += 1;
        if let Some(slept_ns) = thread.wake(self.now_ns) {
            let awake_ns = self.now_ns + self.latency.next_ns(slept_ns);
            self.schedule.set(thread.actor, awake_ns);
        }
    }

    /// A thread of a VPN program has done with a packet, and begins with the next.
    pub(super) fn work(&mut self, thread: u32) {
        let thread = &mut self.threads[thread as usize];
        let (done, due_ns) = thread.go_on(self.now_ns);
        if let Some(due_ns) = due_ns {
            self.schedule.set(thread.actor, due_ns);
        }
        let Some((mut packet, work)) = done else {
            return;
        };
        self.held -= 1;
        if !work.seals
            && let Some((_, ecn)) = packet.payload.sealed.take()
        {
            packet.ecn = ecn;
        }
        let next = self.next_hop(&mut packet);
        self.go_on(next, packet);
    }

    /// The length of a packet's IP packet where it is: of the outer one in a tunnel.
    pub(crate) fn ip_bytes(&self, wire: &Wire) -> u32 {
        let inner_bytes = wire.inner_bytes();
        wire.sealed.map_or(inner_bytes, |(tunnel, _)| {
            let tunnel = &self.tunnels[tunnel as usize];
            tunnel.wrapping.outer_bytes(inner_bytes)
        })
    }
}
