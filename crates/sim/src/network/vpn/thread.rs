//! A thread of a VPN program: its queues, and the order in which it serves them.

use std::collections::VecDeque;

use wansan_path::Packet;

use super::{Cost, VpnUsage};
use crate::network::Wire;

/// What is to be done with a packet.
#[derive(Debug, Clone, Copy)]
pub(in crate::network) struct Work {
    /// The queue in which it waits.
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

/// A thread of a VPN program. It sleeps while its queues are empty.
#[derive(Debug)]
pub(in crate::network) struct Thread {
    /// Its actor number in the schedule.
    pub(in crate::network) actor: u32,
    /// Since when it sleeps; `None` while it has work.
    slept_ns: Option<u64>,
    queues: Vec<Queue>,
    /// The queue being served, the packets taken from a queue per turn, and how many are left of this turn.
    at: usize,
    turn_packets: u32,
    left: u32,
    /// The packet being processed.
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

    /// Adds a queue of at most that many packets; returns its index.
    pub(in crate::network) fn add(&mut self, most_packets: Option<u32>) -> u32 {
        self.queues.push(Queue {
            most_packets,
            packets: VecDeque::new(),
        });
        self.queues.len() as u32 - 1
    }

    /// Queues a packet; returns it when the queue is full.
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

    /// Wakes it if it sleeps; returns how long it slept.
    pub(in crate::network) fn wake(&mut self, now_ns: u64) -> Option<u64> {
        let slept_ns = self.slept_ns.take()?;
        Some(now_ns - slept_ns)
    }

    /// Completes the current packet and begins the next one, or sleeps; returns the completed packet and when the next
    /// is done.
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

    /// Takes a packet from the queue whose turn it is, or else from the next non-empty one.
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

    /// Packets queued or being processed.
    pub(in crate::network) fn held(&self) -> u64 {
        let waiting = self.queues.iter().map(|queue| queue.packets.len() as u64);
        waiting.sum::<u64>() + u64::from(self.current.is_some())
    }
}
