//! Routers' VPN programs: they encrypt and decrypt tunnelled packets one at a time, at a cost that depends on packet
//! length.

mod thread;

use std::net::SocketAddr;

use wansan_path::{Ecn, Packet};
use wansan_trace::Instant;
use wansan_trace::event::{self, Role};

use super::{Actor, Network, Wire};
pub(super) use thread::Thread;
use thread::Work;

/// The overhead that a tunnel adds to packets, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wrapping {
    /// Around the encrypted part: outer headers, initialization vector, integrity check value.
    pub around_bytes: u32,
    /// Encrypted together with the packet, such as ESP's pad length and next header (RFC 4303 §2).
    pub trailer_bytes: u32,
    /// The encrypted part is padded to a multiple of this; 1 or more.
    pub block_bytes: u32,
}

impl Wrapping {
    /// Length of the outer IP packet for an inner one.
    #[must_use]
    pub const fn outer_bytes(self, inner_bytes: u32) -> u32 {
        self.around_bytes + (inner_bytes + self.trailer_bytes).next_multiple_of(self.block_bytes)
    }

    /// Length of the longest inner IP packet whose outer packet fits in `outer_bytes`.
    #[must_use]
    pub const fn inner_bytes(self, outer_bytes: u32) -> u32 {
        let encrypted = outer_bytes - self.around_bytes;
        encrypted - encrypted % self.block_bytes - self.trailer_bytes
    }
}

/// The CPU time for encrypting or decrypting a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Per packet, in nanoseconds.
    pub packet_ns: u64,
    /// Per byte of the inner IP packet, in picoseconds.
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
    /// Its overhead per packet.
    pub wrapping: Wrapping,
    /// The CPU time per packet, at either end.
    pub cost: Cost,
    /// The outer source and destination addresses.
    pub ends: [SocketAddr; 2],
}

/// A queue from which a thread of a VPN program takes packets: of the tunnel device into which they are routed, or of
/// the socket at which outer packets arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Side {
    thread: u32,
    place: u32,
}

/// What a thread has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VpnUsage {
    /// Bytes of inner IP packets encrypted.
    pub sealed_bytes: u64,
    /// Bytes of inner IP packets decrypted.
    pub opened_bytes: u64,
    /// Packets dropped before encryption because the queue was full.
    pub dropped_packets: u64,
    /// Packets dropped before decryption because the queue was full.
    pub dropped_sealed_packets: u64,
    /// CPU time used.
    pub ran_ns: u64,
}

impl Network {
    /// Adds a thread of a router's VPN program, such as `far wireguard`, that takes up to `turn_packets` packets (1 or
    /// more) from a queue before it serves the next; returns its number.
    pub fn add_vpn_thread(&mut self, program: &str, turn_packets: u32) -> u32 {
        let thread = self.threads.len() as u32;
        let actor = self.actor(Actor::Vpn(thread));
        self.threads.push(Thread::new(actor, turn_packets));
        self.programs.push(self.trace.name(program));
        thread
    }

    /// Adds a queue of at most `most_packets` to a thread.
    pub fn add_vpn_side(&mut self, thread: u32, most_packets: Option<u32>) -> Side {
        let place = self.threads[thread as usize].add(most_packets);
        Side { thread, place }
    }

    /// Adds one direction of a tunnel; returns its number.
    pub fn add_tunnel(&mut self, tunnel: Tunnel) -> u32 {
        self.tunnels.push(tunnel);
        self.tunnels.len() as u32 - 1
    }

    /// What each VPN thread had done at each time at which links were recorded.
    #[must_use]
    pub fn vpn_usages(&self) -> &[(Instant, Vec<VpnUsage>)] {
        &self.usages
    }

    /// Records what the VPN threads have done so far, also for [`vpn_usages`](Self::vpn_usages).
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

    /// A packet is routed into a tunnel. The outer packet is not ECN-capable, whatever the inner one is.
    pub(super) fn seal(&mut self, side: Side, tunnel: u32, mut packet: Packet<Box<Wire>>) {
        packet.payload.sealed = Some((tunnel, packet.ecn));
        packet.ecn = Ecn::NotCapable;
        self.queue(side, tunnel, true, packet);
    }

    /// A packet reaches the end of its tunnel.
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

    /// A VPN thread completes a packet and begins the next one.
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

    /// Length of a packet's IP packet at its current hop: of the outer one inside a tunnel.
    pub(crate) fn ip_bytes(&self, wire: &Wire) -> u32 {
        let inner_bytes = wire.inner_bytes();
        wire.sealed.map_or(inner_bytes, |(tunnel, _)| {
            let tunnel = &self.tunnels[tunnel as usize];
            tunnel.wrapping.outer_bytes(inner_bytes)
        })
    }
}
