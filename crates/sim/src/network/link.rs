//! A link of the network, and the network interface that sends into it.

use std::collections::VecDeque;

use wansan_path::packet::Departure;
use wansan_path::record::Sampler;
use wansan_path::{Chain, Packet};
use wansan_trace::Instant;

use super::Wire;

/// Speed of the hosts' network interfaces, which a path without a rate of its own has: 10 Gbit/s.
const LINE_BITS_PER_S: u64 = 10_000_000_000;

/// A unidirectional link, and what waits to enter it.
#[derive(Debug)]
pub(crate) struct Link {
    /// Packets are boxed, so that moving one between elements moves only a pointer.
    pub(crate) chain: Chain<Box<Wire>>,
    /// When the host that sends into this link last processed received packets, or will.
    pub(super) awake_ns: u64,
    /// Without a rate: packets that the network interface still has to send into this link, and when each enters it.
    pub(super) line: VecDeque<(Instant, Entry)>,
    /// When that interface is idle again.
    pub(super) line_idle_ns: u64,
    pub(super) actor: u32,
    /// Layer 2 bytes per packet beyond the Ethernet header.
    pub(super) overhead_bytes: u32,
    /// For a named link: how records name it and its elements.
    pub(crate) sampler: Option<Sampler>,
}

/// A packet that is to enter a link.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) packet: Packet<Box<Wire>>,
    /// Whether it is dropped there.
    pub(super) is_lost: bool,
}

impl Link {
    fn enter(&mut self, at: Instant, entry: Entry) {
        match entry.is_lost {
            true => self.chain.lose(at, entry.packet),
            false => self.chain.enqueue(at, entry.packet),
        }
    }

    /// Lets a packet enter: at once if the link has a rate, else after those that the interface has to send before.
    /// Otherwise the packets of a window would all arrive at one moment, and a receiver that measures how much it reads
    /// in a round trip would measure nothing.
    pub(super) fn take(&mut self, now_ns: u64, entry: Entry) {
        if self.line.is_empty() && self.chain.bits_per_s().is_some() {
            return self.enter(Instant::from_ns(now_ns), entry);
        }
        let lasts_ns = u64::from(entry.packet.size_bytes) * 8 * 1_000_000_000 / LINE_BITS_PER_S;
        self.line_idle_ns = self.line_idle_ns.max(now_ns) + lasts_ns;
        self.line
            .push_back((Instant::from_ns(self.line_idle_ns), entry));
    }

    /// The next packet that has entered, or was dropped, or left by `now`.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Departure<Box<Wire>>> {
        loop {
            let departure = self.chain.poll(now);
            if departure.is_some() {
                return departure;
            }
            if self.line.front()?.0 > now {
                return None;
            }
            let (at, entry) = self.line.pop_front()?;
            self.enter(at, entry);
        }
    }

    /// When to poll next; `None` while no packet is on its way.
    pub(super) fn next_ns(&self) -> Option<u64> {
        let enters = self.line.front().map(|(at, _)| at.ns());
        let leaves = self.chain.next_exit().map(Instant::ns);
        enters.into_iter().chain(leaves).min()
    }
}
