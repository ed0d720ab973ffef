//! Connections over links, in virtual time.
//!
//! Events happen in the order of their times, and at one time in the order in which they were made, so a network does
//! the same each time that it is run.

mod latency;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::SocketAddr;
use std::time::Duration;

use wansan_path::packet::Fate;
use wansan_path::record::Sampler;
use wansan_path::{
    Chain, Change, ChangeError, Counters, Ecn, Effects, EffectsError, ElementCounters, Packet,
};
use wansan_trace::{Instant, Recorder};

use crate::tcp::connection::Connection;
use crate::tcp::segment::Segment;
use latency::Draw;

pub use latency::Latency;

/// Bytes of an IPv4 header and of an Ethernet header.
pub(crate) const IP_BYTES: u32 = 20;
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
    /// Is the caller's: [`Network::run`] says when it may read or write.
    Callers,
}

/// A packet on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wire {
    pub(crate) to: u32,
    /// The link of the route that it is on.
    hop: u32,
    pub(crate) segment: Segment,
}

/// An end of a connection, its program and the links towards its peer.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) connection: Connection,
    program: Program,
    pub(crate) peer: u32,
    route: Vec<u32>,
    /// What has arrived and its TCP has not taken.
    arrived: Vec<(Segment, Ecn)>,
    scheduled_ns: u64,
    /// Of a caller's program: whether it reads, whether it waits for room, whether that it may go on is yet
    /// to be reported.
    reads: bool,
    wants_room: bool,
    is_ready: bool,
    /// Its own address and the peer's, for records.
    pub(crate) addresses: Option<[SocketAddr; 2]>,
}

#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) chain: Chain<Wire>,
    /// When the host that sends into it last took what had arrived.
    awake_ns: u64,
    scheduled_ns: u64,
    /// Bytes of layer 2 that count for each packet beyond an Ethernet header.
    overhead_bytes: u32,
    /// Of one that has a name: how records name it and its elements.
    pub(crate) sampler: Option<Sampler>,
}

/// Who does something at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Actor {
    Link(u32),
    End(u32),
    /// The host of an end, which takes what has arrived.
    Host(u32),
}

/// Not scheduled.
const NEVER: u64 = u64::MAX;

/// A network.
#[derive(Debug)]
pub struct Network {
    pub(crate) links: Vec<Link>,
    pub(crate) ends: Vec<End>,
    events: BinaryHeap<Reverse<(u64, u64, Actor)>>,
    made: u64,
    now_ns: u64,
    packets: u64,
    latency: Draw,
    /// Segments that an end takes at this moment.
    taken: Vec<(Segment, Ecn)>,
    /// Packets that an end sends at this moment.
    sent: Vec<(u32, Packet<Wire>)>,
    /// Ends of callers' programs that may go on.
    ready: VecDeque<u32>,
    pub(crate) trace: Recorder,
}

impl Default for Network {
    fn default() -> Self {
        Network::recording(Recorder::off())
    }
}

impl Network {
    /// An empty network, whose packets and links are recorded there, as far as its kinds want them.
    #[must_use]
    pub fn recording(trace: Recorder) -> Network {
        Network {
            links: Vec::new(),
            ends: Vec::new(),
            events: BinaryHeap::new(),
            made: 0,
            now_ns: 0,
            packets: 0,
            latency: Draw::new(Latency::default(), 0),
            taken: Vec::new(),
            sent: Vec::new(),
            ready: VecDeque::new(),
            trace,
        }
    }

    /// Gives the hosts another latency; the seed is that of its times.
    pub fn set_latency(&mut self, latency: Latency, seed: u64) {
        self.latency = Draw::new(latency, seed);
    }

    /// Its records.
    #[must_use]
    pub fn into_records(self) -> Recorder {
        self.trace
    }

    /// Adds a link in one direction, with these effects and this seed; its number.
    ///
    /// # Errors
    /// When the effects contradict themselves.
    pub fn link(&mut self, effects: &Effects, seed: u64) -> Result<u32, EffectsError> {
        self.links.push(Link {
            chain: effects.chain(seed)?,
            awake_ns: 0,
            scheduled_ns: NEVER,
            overhead_bytes: 0,
            sampler: None,
        });
        Ok(self.links.len() as u32 - 1)
    }

    /// Has a link recorded under that name, such as `wan:forward`.
    pub fn name_link(&mut self, link: u32, name: &str) {
        let link = &mut self.links[link as usize];
        link.sampler = Some(Sampler::new(name, &link.chain, &mut self.trace));
    }

    /// Has so many bytes count on a link for each packet, beyond its Ethernet header and what that holds.
    pub fn set_overhead(&mut self, link: u32, bytes: u32) {
        self.links[link as usize].overhead_bytes = bytes;
    }

    /// A link's delay and its rate in bits per second, as they are now.
    #[must_use]
    pub fn conditions(&self, link: u32) -> (Duration, Option<u64>) {
        let chain = &self.links[link as usize].chain;
        (chain.delay(), chain.bits_per_s())
    }

    /// The counters of a link's elements now.
    pub fn element_counters(&self, link: u32) -> impl Iterator<Item = ElementCounters<'_>> {
        let now = Instant::from_ns(self.now_ns);
        self.links[link as usize].chain.element_counters(now)
    }

    /// The address of an end and of its peer in records.
    pub fn set_addresses(&mut self, end: u32, addresses: [SocketAddr; 2]) {
        self.ends[end as usize].addresses = Some(addresses);
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
                arrived: Vec::new(),
                scheduled_ns: NEVER,
                reads: true,
                wants_room: true,
                is_ready: false,
                addresses: None,
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

    /// Lets all happen that is due until a time, where no program is the caller's.
    pub fn run_until(&mut self, until_ns: u64) {
        while self.run(until_ns).is_some() {}
    }

    /// Lets all happen that is due until a time, or until an end of a caller's program has something to read,
    /// or room that it waits for; that end. After its [`read`](Self::read)s and [`write`](Self::write)s, at
    /// this or other ends, [`send`](Self::send) is called for each of these ends.
    pub fn run(&mut self, until_ns: u64) -> Option<u32> {
        loop {
            if let Some(end) = self.ready.pop_front() {
                self.ends[end as usize].is_ready = false;
                return Some(end);
            }
            let Some(&Reverse((at_ns, _, actor))) = self.events.peek() else {
                break;
            };
            if at_ns > until_ns {
                break;
            }
            self.events.pop();
            if let Some(scheduled) = self.scheduled(actor) {
                // It was put off or has been done.
                if *scheduled != at_ns {
                    continue;
                }
                *scheduled = NEVER;
            }
            self.now_ns = at_ns;
            match actor {
                Actor::Link(link) => self.deliver(link),
                Actor::End(end) => self.act(end),
                Actor::Host(end) => self.take(end),
            }
        }
        self.now_ns = self.now_ns.max(until_ns);
        None
    }

    /// When something happens next by itself, in nanoseconds.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        if !self.ready.is_empty() {
            return Some(self.now_ns);
        }
        self.events.peek().map(|Reverse((at_ns, _, _))| *at_ns)
    }

    /// The program of an end reads at most so many bytes; how many it got. Zero stops it from being reported as
    /// readable until it reads again.
    pub fn read(&mut self, end: u32, most_bytes: u64) -> u64 {
        let now_ns = self.now_ns;
        let end = &mut self.ends[end as usize];
        end.reads = most_bytes > 0;
        match most_bytes.min(end.connection.receiver().readable_bytes()) {
            0 => 0,
            bytes => end.connection.read(now_ns, bytes),
        }
    }

    /// The program of an end writes so many bytes; how many there was room for. It is reported when there is room
    /// for the rest.
    pub fn write(&mut self, end: u32, bytes: u64) -> u64 {
        let now_ns = self.now_ns;
        let end = &mut self.ends[end as usize];
        let taken = match end.connection.is_established() {
            true => end.connection.write(now_ns, bytes),
            false => 0,
        };
        end.wants_room = taken < bytes;
        taken
    }

    /// The program of an end has what it has received acknowledged at once, if that is yet to be (TCP_QUICKACK).
    pub fn acknowledge_now(&mut self, end: u32) {
        let now_ns = self.now_ns;
        let receiver = self.ends[end as usize].connection.receiver_mut();
        if receiver.acknowledge_at().is_some() {
            receiver.acknowledge_now(now_ns);
        }
    }

    /// Sends what follows from what the program of an end has read and written.
    pub fn send(&mut self, end: u32) {
        self.act(end);
    }

    /// When an actor does something next, if that may change.
    fn scheduled(&mut self, actor: Actor) -> Option<&mut u64> {
        match actor {
            Actor::Link(link) => Some(&mut self.links[link as usize].scheduled_ns),
            Actor::End(end) => Some(&mut self.ends[end as usize].scheduled_ns),
            Actor::Host(_) => None,
        }
    }

    fn schedule(&mut self, actor: Actor, at_ns: u64) {
        let at_ns = at_ns.max(self.now_ns);
        if let Some(scheduled) = self.scheduled(actor) {
            if *scheduled <= at_ns {
                return;
            }
            *scheduled = at_ns;
        }
        self.events.push(Reverse((at_ns, self.made, actor)));
        self.made += 1;
    }

    /// What has left a link goes on.
    fn deliver(&mut self, link: u32) {
        let now = Instant::from_ns(self.now_ns);
        while let Some(departure) = self.links[link as usize].chain.poll(now) {
            self.packets += 1;
            self.record_packet(link, &departure);
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
                self.arrive(to, segment, packet.ecn);
            }
        }
        self.wake(link);
    }

    /// A packet arrives at an end's host, which takes it a little later.
    fn arrive(&mut self, to: u32, segment: Segment, ecn: Ecn) {
        let end = &mut self.ends[to as usize];
        end.arrived.push((segment, ecn));
        if end.arrived.len() == 1 {
            // Who sends into one link shares a host.
            let host = &mut self.links[end.route[0] as usize];
            let idle_ns = self.now_ns.saturating_sub(host.awake_ns);
            host.awake_ns = self.now_ns + self.latency.next_ns(idle_ns);
            let takes_ns = host.awake_ns;
            self.schedule(Actor::Host(to), takes_ns);
        }
    }

    fn carry(&mut self, link: u32, mut packet: Packet<Wire>) {
        // What has left by now makes room.
        self.deliver(link);
        let segment = &packet.payload.segment;
        packet.size_bytes = ETHERNET_BYTES
            + IP_BYTES
            + segment.header_bytes()
            + segment.bytes
            + self.links[link as usize].overhead_bytes;
        let now = Instant::from_ns(self.now_ns);
        self.links[link as usize].chain.enqueue(now, packet);
        self.wake(link);
    }

    fn wake(&mut self, link: u32) {
        if let Some(due) = self.links[link as usize].chain.next_deadline() {
            self.schedule(Actor::Link(link), due.ns());
        }
    }

    /// An end takes what has arrived.
    fn take(&mut self, end: u32) {
        let mut taken = std::mem::take(&mut self.taken);
        std::mem::swap(&mut taken, &mut self.ends[end as usize].arrived);
        for (segment, ecn) in taken.drain(..) {
            let connection = &mut self.ends[end as usize].connection;
            connection.on_segment(self.now_ns, &segment, ecn);
            self.act(end);
        }
        self.taken = taken;
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
                let packet = Packet {
                    ecn,
                    ..Packet::new(0, wire)
                };
                let link = this.route[0];
                sent.push((link, packet));
            }
            if !has_done {
                break;
            }
        }
        let due = this.next_ns(now_ns);
        if !this.is_ready && this.may_go_on() {
            this.is_ready = true;
            self.ready.push_back(end);
        }
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
    /// Whether a caller's program has something to do.
    fn may_go_on(&self) -> bool {
        let connection = &self.connection;
        self.program == Program::Callers
            && connection.is_established()
            && (self.reads && connection.receiver().readable_bytes() > 0
                || self.wants_room && connection.sender().is_writable())
    }

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
        if self.program == Program::Callers {
            return false;
        }
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
