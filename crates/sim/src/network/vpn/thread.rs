//! A thread of a VPN program: what waits for it, and in which order it takes that.

use std::collections::VecDeque;

use wansan_path::Packet;

use super::{Cost, VpnUsage};
use crate::network::Wire;

/// What is to be done with a packet.
#[derive(Debug, Clone, Copy)]
pub(in crate::network) struct Work {
    /// Where it waits.
    pub(in crate::network) place: u32,
    /// The length of the inner IP packet.
    pub(in crate::network) inner_bytes: u32,
    pub(in crate::network) cost: Cost,
    pub(in crate::network) seals: bool,
}

type Waiting = (Packet<Box<Wire>>, Work);

/// A queue in front of a thread.
#[derive(Debug)]
struct Queue {
    most_packets: Option<u32>,
    packets: VecDeque<Waiting>,
}

/// A thread of a VPN program. It sleeps while nothing has come.
#[derive(Debug)]
pub(in crate::network) struct Thread {
    /// Which of the schedule's it is.
    pub(in crate::network) actor: u32,
    /// Since when it has slept; `None` while it has something to do.
    slept_ns: Option<u64>,
    queues: Vec<Queue>,
    /// The side whose turn it is, how many packets it takes in a turn, and what is left of this one.
    at: usize,
    turn_packets: u32,
    left: u32,
    /// What it works on.
    current: Option<Waiting>,
    pub(in crate::network) usage: VpnUsage,
}

impl Thread {
    pub(in crate::network) fn new(actor: u32, turn_packets: u32) -> Thread {
        Thread {
            actor,
            slept_ns: Some(0),
            queues: Vec::new(),
            at: 0,
            turn_packets,
            left: turn_packets,
            current: None,
            usage: VpnUsage::default(),
        }
    }

    /// Adds a side that holds so many packets at most; its place.
    pub(in crate::network) fn add(&mut self, most_packets: Option<u32>) -> u32 {
        self.queues.push(Queue {
            most_packets,
            packets: VecDeque::new(),
        });
        self.queues.len() as u32 - 1
    }

    /// A packet comes; back when there is no room for it.
    pub(in crate::network) fn take(
        &mut self,
        packet: Packet<Box<Wire>>,
        work: Work,
    ) -> Option<Box<Wire>> {
        let queue = &mut self.queues[work.place as usize];
        let waiting = queue.packets.len() as u32;
        if queue.most_packets.is_some_and(|most| waiting >= most) {
            match work.seals {
                true => self.usage.dropped_packets += 1,
                false => self.usage.dropped_sealed_packets += 1,
            }
            return Some(packet.payload);
        }
        queue.packets.push_back((packet, work));
        None
    }

    /// If it sleeps, it does no longer; how long it has.
    pub(in crate::network) fn wake(&mut self, now_ns: u64) -> Option<u64> {
        let slept_ns = self.slept_ns.take()?;
        Some(now_ns - slept_ns)
    }

    /// The packet that it has worked on is done, and it begins with the next, or sleeps; when that is done.
    pub(in crate::network) fn go_on(&mut self, now_ns: u64) -> (Option<Waiting>, Option<u64>) {
        let done = self.current.take();
        if let Some((_, work)) = &done {
            let bytes = u64::from(work.inner_bytes);
            match work.seals {
                true => self.usage.sealed_bytes += bytes,
                false => self.usage.opened_bytes += bytes,
            }
        }
        self.current = self.next();
        let takes_ns = self
            .current
            .as_ref()
            .map(|(_, work)| work.cost.of(work.inner_bytes));
        self.usage.ran_ns += takes_ns.unwrap_or(0);
        if takes_ns.is_none() {
            self.slept_ns = Some(now_ns);
        }
        (done, takes_ns.map(|takes_ns| now_ns + takes_ns))
    }

    /// From the side whose turn it is, or the next that has something.
    fn next(&mut self) -> Option<Waiting> {
        if self.left == 0 {
            self.turn();
        }
        for _ in 0..self.queues.len() {
            if let Some(next) = self.queues[self.at].packets.pop_front() {
                self.left -= 1;
                return Some(next);
            }
            self.turn();
        }
        None
    }

    fn turn(&mut self) {
        self.at = (self.at + 1) % self.queues.len();
        self.left = self.turn_packets;
    }

    /// Packets that wait or are worked on.
    pub(in crate::network) fn held(&self) -> u64 {
        let waiting = self.queues.iter().map(|queue| queue.packets.len() as u64);
        waiting.sum::<u64>() + u64::from(self.current.is_some())
    }
}
