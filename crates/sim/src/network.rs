//! Connections over links, in virtual time.
//!
//! Events happen in time order, simultaneous ones in order of creation, so runs are deterministic.

mod end;
mod gro;
mod hop;
mod latency;
mod link;
mod lost;
mod pause;
mod schedule;
#[cfg(test)]
mod tests;
pub mod vpn;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use wansan_path::packet::Fate;
use wansan_path::record::Sampler;
use wansan_path::{
    Change, ChangeError, Counters, Ecn, Effects, EffectsError, ElementCounters, Packet,
};
use wansan_trace::{Instant, NameId, Recorder};

use crate::tcp::connection::Connection;
use crate::tcp::segment::Segment;
use latency::Draw;
use link::{Entry, Link};
use lost::Losses;
use pause::Coming;
use schedule::Schedule;
use vpn::{Thread, Tunnel, VpnUsage};

pub(crate) use end::End;
pub use end::Program;
pub use hop::Hop;
pub use latency::Latency;
pub use lost::Lost;
pub use pause::{Begins, Pause, Pauses};

/// Header sizes of IPv4 and Ethernet.
pub(crate) const IP_BYTES: u32 = 20;
const ETHERNET_BYTES: u32 = 14;

/// Maximum number of events at one instant of virtual time.
pub(crate) const MOST_AT_ONCE: u32 = 1_000_000;

/// Maximum number of packets held by all links: about 1 GiB of memory.
const MOST_HELD: u64 = 1 << 22;

/// Why a simulation cannot continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Runaway {
    /// Virtual time does not advance.
    #[error(
        "virtual time stands still at {} s: more than {MOST_AT_ONCE} things happen at one moment",
        seconds(*at)
    )]
    Stuck {
        /// The virtual time.
        at: Instant,
    },
    /// The number of packets in flight grows without bound.
    #[error(
        "{held} packets are on their way at {} s of virtual time, most of them on {link}: give it a rate and its queue \
         a bound, or less delay, or let fewer bytes be in flight",
        seconds(*at)
    )]
    Flooded {
        /// Packets in flight.
        held: u64,
        /// The link that holds most of them.
        link: String,
        /// The virtual time.
        at: Instant,
    },
}

fn seconds(at: Instant) -> f64 {
    at.ns() as f64 / 1e9
}

/// A packet in flight.
#[derive(Debug, Clone)]
pub(crate) struct Wire {
    pub(crate) to: u32,
    /// Index of the current hop in the route.
    hop: u32,
    pub(crate) segment: Segment,
    /// The tunnel direction that it is in, and the inner ECN codepoint, which the outer packet does not carry.
    pub(crate) sealed: Option<(u32, Ecn)>,
    /// Whether bits were corrupted on the way.
    is_spoiled: bool,
}

impl Wire {
    /// Length of its own (inner) IP packet.
    pub(crate) fn inner_bytes(&self) -> u32 {
        IP_BYTES + self.segment.header_bytes() + self.segment.bytes
    }
}

/// The subject of a scheduled event.
#[derive(Debug, Clone, Copy)]
enum Actor {
    Link(u32),
    End(u32),
    /// The host of an end, which processes what has arrived.
    Host(u32),
    /// A thread of a VPN program.
    Vpn(u32),
}

/// A network.
#[derive(Debug)]
#[expect(clippy::vec_box, reason = "it is the boxes that are kept")]
pub struct Network {
    pub(crate) links: Vec<Link>,
    pub(crate) ends: Vec<End>,
    threads: Vec<Thread>,
    /// The threads' program names in records.
    programs: Vec<NameId>,
    pub(crate) tunnels: Vec<Tunnel>,
    /// What each thread had done at each recording time.
    usages: Vec<(Instant, Vec<VpnUsage>)>,
    /// The actor behind each number in the schedule.
    actors: Vec<Actor>,
    schedule: Schedule,
    now_ns: u64,
    /// Events at the current instant so far, and the limit.
    at_once: u32,
    most_at_once: u32,
    packets: u64,
    /// Packets in links and queued at VPN programs, and the limit.
    held: u64,
    most_held: u64,
    latency: Draw,
    /// Until when hosts, and their programs, are paused.
    standstills: Vec<[u64; 2]>,
    /// Scratch: segments that an end processes now.
    taken: Vec<(Segment, Ecn)>,
    /// Scratch: packets that an end sends now.
    sent: Vec<Packet<Box<Wire>>>,
    /// Boxes of delivered or dropped packets, for reuse.
    spare: Vec<Box<Wire>>,
    /// Ends whose caller's program can read or write.
    ready: VecDeque<u32>,
    pub(crate) trace: Recorder,
}

impl Default for Network {
    fn default() -> Self {
        Network::recording(Recorder::off())
    }
}

impl Network {
    /// An empty network. `trace` records its packets and links, if it keeps these kinds.
    #[must_use]
    pub fn recording(trace: Recorder) -> Network {
        Network {
            links: Vec::new(),
            ends: Vec::new(),
            threads: Vec::new(),
            programs: Vec::new(),
            tunnels: Vec::new(),
            usages: Vec::new(),
            actors: Vec::new(),
            schedule: Schedule::default(),
            now_ns: 0,
            at_once: 0,
            most_at_once: MOST_AT_ONCE,
            packets: 0,
            held: 0,
            most_held: MOST_HELD,
            latency: Draw::new(Latency::default(), 0),
            standstills: Vec::new(),
            taken: Vec::new(),
            sent: Vec::new(),
            spare: Vec::new(),
            ready: VecDeque::new(),
            trace,
        }
    }

    /// Sets the hosts' latency and the seed of its random times.
    pub fn set_latency(&mut self, latency: Latency, seed: u64) {
        self.latency = Draw::new(latency, seed);
    }

    /// Returns its records.
    #[must_use]
    pub fn into_records(self) -> Recorder {
        self.trace
    }

    /// Adds a unidirectional link with these effects and this seed; returns its number. Without a rate, packets enter
    /// it at the speed of a host's network interface, 10 Gbit/s.
    ///
    /// # Errors
    /// When the effects contradict each other.
    pub fn link(&mut self, effects: &Effects, seed: u64) -> Result<u32, EffectsError> {
        let chain = effects.chain(seed)?;
        let link = self.links.len() as u32;
        let actor = self.actor(Actor::Link(link));
        self.links.push(Link {
            chain,
            awake_ns: 0,
            line: VecDeque::new(),
            line_idle_ns: 0,
            actor,
            overhead_bytes: 0,
            sampler: None,
        });
        Ok(link)
    }

    fn actor(&mut self, actor: Actor) -> u32 {
        self.actors.push(actor);
        self.schedule.add()
    }

    /// Records a link under this name, such as `wan:forward`.
    pub fn name_link(&mut self, link: u32, name: &str) {
        let link = &mut self.links[link as usize];
        link.sampler = Some(Sampler::new(name, &link.chain, &mut self.trace));
    }

    /// Counts this many bytes per packet on a link in addition to the Ethernet frame.
    pub fn set_overhead(&mut self, link: u32, bytes: u32) {
        self.links[link as usize].overhead_bytes = bytes;
    }

    /// A link's current delay and rate in bits per second.
    #[must_use]
    pub fn conditions(&self, link: u32) -> (Duration, Option<u64>) {
        let chain = &self.links[link as usize].chain;
        (chain.delay(), chain.bits_per_s())
    }

    /// The current counters of a link's elements.
    pub fn element_counters(&mut self, link: u32) -> impl Iterator<Item = ElementCounters<'_>> {
        let now = Instant::from_ns(self.now_ns);
        let chain = &mut self.links[link as usize].chain;
        chain.advance(now);
        chain.element_counters(now)
    }

    /// Sets the addresses of an end and of its peer in records.
    pub fn set_addresses(&mut self, end: u32, addresses: [SocketAddr; 2]) {
        self.ends[end as usize].addresses = Some(addresses);
    }

    /// Adds a connection, each end with its program and its route to the other; returns the numbers of both ends. The
    /// first end opens it at `begins_ns`.
    ///
    /// # Panics
    /// When a route does not begin with a link.
    pub fn connect(
        &mut self,
        ends: [(Connection, Program, Vec<Hop>); 2],
        begins_ns: u64,
    ) -> [u32; 2] {
        let first = self.ends.len() as u32;
        for (place, (connection, program, route)) in (0..).zip(ends) {
            let actor = self.actor(Actor::End(first + place));
            let host = self.actor(Actor::Host(first + place));
            let Some(&Hop::Link { link: access, .. }) = route.first() else {
                panic!("a way begins with a link");
            };
            self.ends.push(End {
                connection,
                program,
                peer: first + 1 - place,
                route,
                access,
                arrived: Vec::new(),
                actor,
                host,
                standstill: None,
                coming: Coming::default(),
                reads: true,
                wants_room: true,
                is_ready: false,
                knows_end: false,
                losses: Losses::default(),
                ece: None,
                addresses: None,
            });
        }
        self.schedule
            .set(self.ends[first as usize].actor, begins_ns.max(self.now_ns));
        [first, first + 1]
    }

    /// Delays the program of an end, which could continue now, until `at_ns`.
    pub(crate) fn postpone(&mut self, end: u32, at_ns: u64) {
        let host = self.ends[end as usize].host;
        self.schedule.set(host, at_ns);
    }

    /// Pauses the host of these ends, and the caller's program there, as `pauses` says.
    pub fn pause(&mut self, ends: &[u32], pauses: &Pauses) {
        let standstill = self.standstills.len();
        self.standstills.push([0; 2]);
        for &end in ends {
            let end = &mut self.ends[end as usize];
            end.standstill = Some(standstill);
            if let Some([own, peers]) = end.addresses {
                let places = end.places();
                end.coming.add(self.now_ns, [peers, own], places, pauses);
            }
        }
    }

    /// Until when the host of an end, and its program, are paused; a time in the past if they run.
    fn runs_ns(&self, end: u32) -> [u64; 2] {
        let standstill = self.ends[end as usize].standstill;
        standstill.map_or([0; 2], |place| self.standstills[place])
    }

    /// Drops packets that the end sends from now on, on a link of its route.
    pub fn lose(&mut self, end: u32, link: u32, lost: &[Lost]) {
        let end = &mut self.ends[end as usize];
        let places = end.places();
        for lost in lost {
            end.losses.add(link, places, *lost);
        }
    }

    /// An end of a connection.
    #[must_use]
    pub fn end(&self, end: u32) -> &Connection {
        &self.ends[end as usize].connection
    }

    /// A link's current counters.
    #[must_use]
    pub fn counters(&mut self, link: u32) -> Counters {
        let now = Instant::from_ns(self.now_ns);
        let chain = &mut self.links[link as usize].chain;
        chain.advance(now);
        chain.counters(now)
    }

    /// Changes a link now.
    ///
    /// # Errors
    /// When its elements do not allow the change.
    pub fn change(&mut self, link: u32, change: Change) -> Result<(), ChangeError> {
        let now = Instant::from_ns(self.now_ns);
        self.links[link as usize].chain.apply(now, change)?;
        self.wake(link);
        Ok(())
    }

    /// The current virtual time in nanoseconds.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Packets that have left links, delivered or dropped.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Runs all events due by `until_ns`, for networks without callers' programs.
    ///
    /// # Errors
    /// [`Runaway`].
    pub fn run_until(&mut self, until_ns: u64) -> Result<(), Runaway> {
        while self.run(until_ns)?.is_some() {}
        Ok(())
    }

    /// Runs all events due by `until_ns`, or until an end of a caller's program becomes readable, or writable while it
    /// waits for room; returns that end. After its [`read`](Self::read)s and [`write`](Self::write)s, at this or other
    /// ends, the caller must call [`send`](Self::send) for each of these ends.
    ///
    /// # Errors
    /// [`Runaway`].
    pub fn run(&mut self, until_ns: u64) -> Result<Option<u32>, Runaway> {
        loop {
            if let Some(end) = self.ready.pop_front() {
                self.ends[end as usize].is_ready = false;
                return Ok(Some(end));
            }
            let Some((at_ns, actor)) = self.schedule.pop(until_ns) else {
                break;
            };
            self.at_once = match self.now_ns == at_ns {
                true => self.at_once + 1,
                false => 0,
            };
            self.now_ns = at_ns;
            match self.actors[actor as usize] {
                Actor::Link(link) => self.deliver(link),
                Actor::End(end) => self.act(end),
                Actor::Host(end) => self.take(end),
                Actor::Vpn(thread) => self.work(thread),
            }
            if self.at_once > self.most_at_once || self.held > self.most_held {
                return Err(self.runaway());
            }
        }
        self.now_ns = self.now_ns.max(until_ns);
        Ok(None)
    }

    /// Finds out why the simulation cannot continue.
    fn runaway(&self) -> Runaway {
        let at = Instant::from_ns(self.now_ns);
        if self.held <= self.most_held {
            return Runaway::Stuck { at };
        }
        let held = |link: &Link| link.chain.counters(at).held.packets + link.line.len() as u64;
        let fullest = self.links.iter().max_by_key(|link| held(link));
        let most = fullest.map_or(0, held);
        let busiest = self.threads.iter().zip(&self.programs);
        let busiest = busiest.max_by_key(|(thread, _)| thread.held());
        let busiest = busiest.filter(|(thread, _)| thread.held() > most);
        let sampler = fullest.and_then(|link| link.sampler.as_ref());
        let name = busiest.map(|(_, name)| *name).or(sampler.map(Sampler::id));
        let link = match name {
            Some(name) => format!("`{}`", self.trace.name_of(name)),
            None => "a wire".to_owned(),
        };
        let held = self.held;
        Runaway::Flooded { held, link, at }
    }

    /// When the next event is due, in nanoseconds.
    #[must_use]
    pub fn next_ns(&self) -> Option<u64> {
        if !self.ready.is_empty() {
            return Some(self.now_ns);
        }
        self.schedule.next_ns()
    }

    /// The program of an end reads up to `most_bytes`; returns how many it got. With zero, the end is not reported as
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

    /// The program of an end writes `bytes`; returns how many fit. The end is reported once there is room for the rest.
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

    /// Ends the last packet of the send buffer at what the program of an end has written so far (MSG_EOR).
    pub fn end_packet(&mut self, end: u32) {
        let end = &mut self.ends[end as usize];
        end.connection.sender_mut().end_packet();
    }

    /// The program of an end aborts its connection.
    pub fn abort(&mut self, end: u32) {
        let this = &mut self.ends[end as usize];
        this.connection.abort();
        (this.reads, this.wants_room) = (false, false);
        self.act(end);
    }

    /// Whether the peer of an end has aborted the connection.
    pub fn is_lost(&mut self, end: u32) -> bool {
        let end = &mut self.ends[end as usize];
        end.knows_end |= end.connection.was_reset();
        end.connection.was_reset()
    }

    /// Whether the program of an end has read all that the peer has sent, up to its FIN.
    pub fn has_ended(&mut self, end: u32) -> bool {
        let end = &mut self.ends[end as usize];
        let has_ended = end.has_ended();
        end.knows_end |= has_ended;
        has_ended
    }

    /// Whether the program of an end has data to read, or has yet to learn that the peer has sent everything.
    #[must_use]
    pub fn is_readable(&self, end: u32) -> bool {
        let end = &self.ends[end as usize];
        end.connection.receiver().readable_bytes() > 0 || !end.knows_end && end.has_ended()
    }

    /// Whether the program of an end can write. After a short write, this needs as much free space as the kernel
    /// requires (`sk_stream_is_writeable`).
    #[must_use]
    pub fn is_writable(&self, end: u32) -> bool {
        let end = &self.ends[end as usize];
        !end.wants_room || end.connection.is_established() && end.connection.sender().is_writable()
    }

    /// Sets the receive buffer of an end (SO_RCVBUF), in bytes.
    pub fn set_receive_buffer(&mut self, end: u32, bytes: u64) {
        let receiver = self.ends[end as usize].connection.receiver_mut();
        receiver.set_buffer(bytes);
    }

    /// Limits the window offered to the peer of an end to this many bytes beyond what has arrived (TCP_WINDOW_CLAMP).
    pub fn set_window_clamp(&mut self, end: u32, bytes: u64) {
        let receiver = self.ends[end as usize].connection.receiver_mut();
        receiver.set_window_clamp(bytes);
    }

    /// Limits the unsent bytes in the send buffer of an end (TCP_NOTSENT_LOWAT).
    pub fn set_most_unsent(&mut self, end: u32, bytes: u64) {
        let sender = self.ends[end as usize].connection.sender_mut();
        sender.set_most_unsent(bytes);
    }

    /// Makes an end signal ECE to slow down its peer, as `order` says.
    pub fn order_ece(&mut self, end: u32, order: wansan_split::Order) {
        let ece = &mut self.ends[end as usize].ece;
        ece.get_or_insert_default().order(order);
    }

    /// What the end's ECE orders led to.
    #[must_use]
    pub fn ece_signals(&self, end: u32) -> wansan_split::Signals {
        let ece = self.ends[end as usize].ece.as_ref();
        ece.map(wansan_split::Receiver::signals).unwrap_or_default()
    }

    /// The program of an end closes its sending side: a FIN follows what it has written.
    pub fn shut(&mut self, end: u32) {
        let this = &mut self.ends[end as usize];
        this.connection.shut();
        this.wants_room = false;
        self.act(end);
    }

    /// Acknowledges at once what an end has received, if an acknowledgement is pending (TCP_QUICKACK).
    pub fn acknowledge_now(&mut self, end: u32) {
        let now_ns = self.now_ns;
        let receiver = self.ends[end as usize].connection.receiver_mut();
        if receiver.acknowledge_at().is_some() {
            receiver.acknowledge_now(now_ns);
        }
    }

    /// Sends what became possible by the program's reads and writes at an end.
    pub fn send(&mut self, end: u32) {
        self.act(end);
    }

    /// Forwards packets that have left a link, and schedules the next departure.
    fn deliver(&mut self, link: u32) {
        self.drain(link);
        self.wake(link);
    }

    /// Forwards packets that have left a link.
    fn drain(&mut self, link: u32) {
        let now = Instant::from_ns(self.now_ns);
        while let Some(departure) = self.links[link as usize].poll(now) {
            self.packets += 1;
            self.held -= u64::from(!departure.copy);
            self.record_packet(link, &departure);
            let mut packet = departure.packet;
            if departure.marked {
                packet.ecn = Ecn::Congestion;
            }
            packet.payload.is_spoiled |= departure.corrupted.is_some();
            let next = self.next_hop(&mut packet);
            // A corrupted packet is detected by the tunnel's integrity check, or by the receiver's checksum.
            let is_found =
                packet.payload.is_spoiled && matches!(next, Some(Hop::Open { .. }) | None);
            match departure.fate {
                Fate::Delivered if !is_found => self.go_on(next, packet),
                _ => self.spare.push(packet.payload),
            }
        }
    }

    /// Completes a hop of a packet; returns the next one, or `None` at its destination.
    fn next_hop(&self, packet: &mut Packet<Box<Wire>>) -> Option<Hop> {
        packet.payload.hop += 1;
        let Wire { to, hop, .. } = *packet.payload;
        let from = self.ends[to as usize].peer;
        self.ends[from as usize].route.get(hop as usize).copied()
    }

    /// Forwards a packet over its next hop, or delivers it.
    fn go_on(&mut self, next: Option<Hop>, mut packet: Packet<Box<Wire>>) {
        match next {
            Some(Hop::Link { link, class }) => {
                packet.class = class;
                self.carry(link, packet);
            }
            Some(Hop::Seal { side, tunnel }) => self.seal(side, tunnel, packet),
            Some(Hop::Open { side }) => self.open(side, packet),
            None => {
                let Wire { to, segment, .. } = *packet.payload;
                self.arrive(to, segment, packet.ecn);
                self.spare.push(packet.payload);
            }
        }
    }

    /// A packet arrives at an end's host, which processes it after its latency.
    fn arrive(&mut self, to: u32, segment: Segment, ecn: Ecn) {
        let end = &mut self.ends[to as usize];
        let lasts_ns = end.coming.take(self.now_ns, &segment);
        if let Some(place) = end.standstill {
            let until_ns = &mut self.standstills[place];
            *until_ns = [0, 1].map(|kind| until_ns[kind].max(self.now_ns + lasts_ns[kind]));
        }
        let [runs_ns, _] = self.runs_ns(to);
        let end = &mut self.ends[to as usize];
        let next = (segment, ecn);
        if let Some(last) = end.arrived.last_mut() {
            if !gro::joins(last, &next) {
                end.arrived.push(next);
            }
        } else {
            end.arrived.push(next);
            // All ends that send into the same link share a host.
            let host = &mut self.links[end.access as usize];
            let idle_ns = self.now_ns.saturating_sub(host.awake_ns);
            host.awake_ns = runs_ns.max(self.now_ns) + self.latency.next_ns(idle_ns);
            self.schedule.set(end.host, host.awake_ns);
        }
    }

    fn carry(&mut self, link: u32, mut packet: Packet<Box<Wire>>) {
        // Packets that have left by now make room.
        self.drain(link);
        let overhead_bytes = self.links[link as usize].overhead_bytes;
        packet.size_bytes = ETHERNET_BYTES + self.ip_bytes(&packet.payload) + overhead_bytes;
        let from = self.ends[packet.payload.to as usize].peer;
        let losses = &mut self.ends[from as usize].losses;
        let is_lost = losses.take(link, &packet.payload.segment);
        self.links[link as usize].take(self.now_ns, Entry { packet, is_lost });
        self.held += 1;
        self.wake(link);
    }

    fn wake(&mut self, link: u32) {
        let link = &self.links[link as usize];
        if let Some(due_ns) = link.next_ns() {
            self.schedule.set(link.actor, due_ns.max(self.now_ns));
        }
    }

    /// An end processes what has arrived, or its program continues after a pause.
    fn take(&mut self, end: u32) {
        let [runs_ns, _] = self.runs_ns(end);
        if runs_ns > self.now_ns {
            // A pause has begun in the meantime.
            self.schedule.set(self.ends[end as usize].host, runs_ns);
            return;
        }
        let mut taken = std::mem::take(&mut self.taken);
        std::mem::swap(&mut taken, &mut self.ends[end as usize].arrived);
        for (segment, ecn) in taken.drain(..) {
            let this = &mut self.ends[end as usize];
            this.connection.on_segment(self.now_ns, &segment, ecn);
            // The kernel reports only data in ECN-capable packets.
            if segment.bytes > 0 && ecn.is_capable() {
                this.judge(self.now_ns);
            }
            self.act(end);
        }
        self.taken = taken;
        self.notify(end);
    }

    /// An end does what is due: timers, its program, transmission.
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
                    sealed: None,
                    is_spoiled: false,
                };
                let payload = match self.spare.pop() {
                    Some(mut spare) => {
                        *spare = wire;
                        spare
                    }
                    None => Box::new(wire),
                };
                sent.push(Packet {
                    ecn,
                    ..Packet::new(0, payload)
                });
            }
            if !has_done {
                break;
            }
        }
        let due = this.next_ns(now_ns);
        let first = this.route[0];
        for packet in sent.drain(..) {
            self.go_on(Some(first), packet);
        }
        self.sent = sent;
        if let Some(due_ns) = due {
            let actor = self.ends[end as usize].actor;
            self.schedule.set(actor, due_ns.max(self.now_ns));
        }
        self.notify(end);
    }

    /// Reports to the caller that an end's program can continue, after its pause if there is one.
    fn notify(&mut self, end: u32) {
        let [_, runs_ns] = self.runs_ns(end);
        let this = &mut self.ends[end as usize];
        if this.is_ready || !this.may_go_on() {
            return;
        }
        match runs_ns > self.now_ns {
            true => self.schedule.set(this.host, runs_ns),
            false => {
                this.is_ready = true;
                self.ready.push_back(end);
            }
        }
    }
}
