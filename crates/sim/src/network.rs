//! Connections over links, in virtual time.
//!
//! Events happen in the order of their times, and at one time in the order in which they were made, so a network does
//! the same each time that it is run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use wansan_path::packet::Fate;
use wansan_path::{Chain, Change, ChangeError, Counters, Ecn, Effects, EffectsError, Packet};
use wansan_trace::Instant;

use crate::tcp::connection::Connection;
use crate::tcp::segment::Segment;

/// Bytes of an IPv4 header and of an Ethernet header.
const IP_BYTES: u32 = 20;
const ETHERNET_BYTES: u32 = 14;

/// What a program does with its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Reads all that is there, from a time on.
    Sink {
        /// That time, in nanoseconds.
        from_ns: u64,
    },
    /// Writes so many bytes as fast as there is room, then ends the stream.
    Source {
        /// Bytes that are left.
        bytes: u64,
    },
}

/// A packet on its way.
#[derive(Debug, Clone, Copy)]
struct Wire {
    to: u32,
    /// The link of the route that it is on.
    hop: u32,
    segment: Segment,
}

/// An end of a connection, its program and the links towards its peer.
#[derive(Debug)]
struct End {
    connection: Connection,
    program: Program,
    peer: u32,
    route: Vec<u32>,
    scheduled_ns: u64,
}

#[derive(Debug)]
struct Link {
    chain: Chain<Wire>,
    scheduled_ns: u64,
}

/// Who does something at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Actor {
    Link(u32),
    End(u32),
}

/// Not scheduled.
const NEVER: u64 = u64::MAX;

/// A network.
#[derive(Debug, Default)]
pub struct Network {
    links: Vec<Link>,
    ends: Vec<End>,
    events: BinaryHeap<Reverse<(u64, u64, Actor)>>,
    made: u64,
    now_ns: u64,
    packets: u64,
    /// Packets that an end sends at this moment.
    sent: Vec<(u32, Packet<Wire>)>,
}

impl Network {
    /// Adds a link in one direction, with these effects and this seed; its number.
    ///
    /// # Errors
    /// When the effects contradict themselves.
    pub fn link(&mut self, effects: &Effects, seed: u64) -> Result<u32, EffectsError> {
        self.links.push(Link {
            chain: effects.chain(seed)?,
            scheduled_ns: NEVER,
        });
        Ok(self.links.len() as u32 - 1)
    }

    /// Adds a connection, each end with its program and the links towards the other; the numbers of both ends. The
    /// first begins it at `begins_ns`.
    pub fn connect(
        &mut self,
        ends: [(Connection, Program, Vec<u32>); 2],
        begins_ns: u64,
    ) -> [u32; 2] {
        let first = self.ends.len() as u32;
        for (place, (connection, program, route)) in (0..).zip(ends) {
            self.ends.push(End {
                connection,
                program,
                peer: first + 1 - place,
                route,
                scheduled_ns: NEVER,
            });
        }
        self.schedule(Actor::End(first), begins_ns);
        [first, first + 1]
    }

    /// An end of a connection.
    #[must_use]
    pub fn end(&self, end: u32) -> &Connection {
        &self.ends[end as usize].connection
    }

    /// A link's counters now.
    #[must_use]
    pub fn counters(&self, link: u32) -> Counters {
        self.links[link as usize]
            .chain
            .counters(Instant::from_ns(self.now_ns))
    }

    /// Changes a link now.
    ///
    /// # Errors
    /// When its elements cannot be changed so.
    pub fn change(&mut self, link: u32, change: Change) -> Result<(), ChangeError> {
        let now = Instant::from_ns(self.now_ns);
        self.links[link as usize].chain.apply(now, change)?;
        self.wake(link);
        Ok(())
    }

    /// Now, in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Packets that links have carried or dropped.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Lets all happen that is due until a time.
    pub fn run_until(&mut self, until_ns: u64) {
        while let Some(&Reverse((at_ns, _, actor))) = self.events.peek()
            && at_ns <= until_ns
        {
            self.events.pop();
            let scheduled = match actor {
                Actor::Link(link) => &mut self.links[link as usize].scheduled_ns,
                Actor::End(end) => &mut self.ends[end as usize].scheduled_ns,
            };
            // It was put off or has been done.
            if *scheduled != at_ns {
                continue;
            }
            *scheduled = NEVER;
            self.now_ns = at_ns;
            match actor {
                Actor::Link(link) => self.deliver(link),
                Actor::End(end) => self.act(end),
            }
        }
        self.now_ns = until_ns;
    }

    fn schedule(&mut self, actor: Actor, at_ns: u64) {
        let scheduled = match actor {
            Actor::Link(link) => &mut self.links[link as usize].scheduled_ns,
            Actor::End(end) => &mut self.ends[end as usize].scheduled_ns,
        };
        let at_ns = at_ns.max(self.now_ns);
        if *scheduled <= at_ns {
            return;
        }
        *scheduled = at_ns;
        self.events.push(Reverse((at_ns, self.made, actor)));
        self.made += 1;
    }

    /// What has left a link goes on.
    fn deliver(&mut self, link: u32) {
        let now = Instant::from_ns(self.now_ns);
        while let Some(departure) = self.links[link as usize].chain.poll(now) {
            self.packets += 1;
            if departure.fate != Fate::Delivered {
                continue;
            }
            let mut packet = departure.packet;
            if departure.marked {
                packet.ecn = Ecn::Congestion;
            }
            let Wire { to, hop, segment } = packet.payload;
            packet.payload.hop += 1;
            let from = self.ends[to as usize].peer;
            if let Some(&next) = self.ends[from as usize].route.get(hop as usize + 1) {
                self.carry(next, packet);
            } else if departure.corrupted.is_none() {
                // A checksum finds the spoiled ones.
                let end = &mut self.ends[to as usize];
                end.connection.on_segment(self.now_ns, &segment, packet.ecn);
                self.act(to);
            }
        }
        self.wake(link);
    }

    fn carry(&mut self, link: u32, packet: Packet<Wire>) {
        let now = Instant::from_ns(self.now_ns);
        let chain = &mut self.links[link as usize].chain;
        if chain.next_deadline().is_some_and(|due| due <= now) {
            // What had left by now makes room.
            self.schedule(Actor::Link(link), self.now_ns);
        }
        self.links[link as usize].chain.enqueue(now, packet);
        self.wake(link);
    }

    fn wake(&mut self, link: u32) {
        if let Some(due) = self.links[link as usize].chain.next_deadline() {
            self.schedule(Actor::Link(link), due.ns());
        }
    }

    /// An end does what is due: its timers, its program, its packets.
    fn act(&mut self, end: u32) {
        let now_ns = self.now_ns;
        let mut sent = std::mem::take(&mut self.sent);
        let this = &mut self.ends[end as usize];
        this.connection.on_timer(now_ns);
        loop {
            let mut has_done = this.run_program(now_ns);
            while let Some((segment, ecn)) = this.connection.transmit(now_ns) {
                has_done = true;
                let wire = Wire {
                    to: this.peer,
                    hop: 0,
                    segment,
                };
                let bytes = ETHERNET_BYTES + IP_BYTES + segment.header_bytes() + segment.bytes;
                let packet = Packet {
                    ecn,
                    ..Packet::new(bytes, wire)
                };
                let link = this.route[0];
                sent.push((link, packet));
            }
            if !has_done {
                break;
            }
        }
        let due = this.next_ns(now_ns);
        for (link, packet) in sent.drain(..) {
            self.carry(link, packet);
        }
        self.sent = sent;
        if let Some(due_ns) = due {
            self.schedule(Actor::End(end), due_ns);
        }
    }
}

impl End {
    /// When it has something to do next.
    fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let timer = self.connection.next_timer();
        match self.program {
            Program::Sink { from_ns } if from_ns > now_ns => {
                Some(timer.map_or(from_ns, |timer| timer.min(from_ns)))
            }
            _ => timer,
        }
    }

    /// Whether its program did anything.
    fn run_program(&mut self, now_ns: u64) -> bool {
        let readable = match self.program {
            Program::Sink { from_ns } if from_ns > now_ns => 0,
            _ => self.connection.receiver().readable_bytes(),
        };
        if readable > 0 {
            self.connection.read(now_ns, readable);
        }
        let mut has_written = false;
        if let Program::Source { bytes } = &mut self.program
            && *bytes > 0
            && self.connection.is_established()
            && self.connection.sender().is_writable()
        {
            let taken = self.connection.write(now_ns, *bytes);
            *bytes -= taken;
            has_written = taken > 0;
            if *bytes == 0 {
                self.connection.shut();
            }
        }
        readable > 0 || has_written
    }
}
