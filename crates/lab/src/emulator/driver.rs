//! The emulator's thread: receives frames from the rings, moves them through the chains, sends them when due, and
//! sleeps in between.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, clock_gettime};
use wansan_path::record::Sampler;
use wansan_path::{Boundary, Change, ChangeError, Departure, Fate, Packet};
use wansan_trace::clock::{self, Both};
use wansan_trace::time::duration_ns;
use wansan_trace::{Instant, Recorder, event};

use super::meter::{Delays, Lateness, Throughput};
use super::pairs;
use super::priority::{self, Scheduling};
use super::remote::Order;
use super::rest::Allowance;
use super::ring::PacketSocket;
use super::segment::Segment;
use super::superframe::{ETHERNET_BYTES, MAX_HEADER_BYTES, SuperFrame};
use super::transmit::{Due, Transmit};
use super::{
    Classes, Config, Direction, ElementStatistics, EmulatorError, Frame, PathStatistics, Report,
    Routed, Statistics, Tap, Watch, lacks,
};

/// Packets received in a row before due ones are sent; the last frame may exceed it.
const TAKEN_AT_ONCE: usize = 64;
/// Longest interval between polls of the rings while frames keep arriving.
const LONGEST_READ_INTERVAL: Duration = Duration::from_micros(500);
/// At shorter intervals, sleeping without polling the rings saves nothing.
const SHORTEST_READ_INTERVAL: Duration = Duration::from_micros(50);
/// Busy-wait before a deadline. A sleep costs 20 µs of processor time on a virtual machine (the hypervisor sets and
/// fires its timer), so a shorter one saves nothing and wakes late.
const SPIN: Duration = Duration::from_micros(30);

/// Shortest interval between sends. Packets that become due meanwhile are sent together, and those of one flow as one
/// frame: this more than halves the cost of a stream of small packets, and delays each by half of this on average. The
/// first after a pause is sent at once.
const TOGETHER: Duration = Duration::from_micros(20);

pub(super) struct Driver {
    ports: Vec<PortState>,
    directions: Vec<DirectionState>,
    /// `routes[from * ports + to]`: the direction.
    routes: Vec<Option<usize>>,
    recorder: Recorder,
    shown: Arc<Mutex<Statistics>>,
    orders: Receiver<Order>,
    /// The next order, until its time.
    order: Option<Order>,
    sample_interval: Duration,
    read_interval: Duration,
    scheduling: Scheduling,
    /// Only for a real-time thread.
    allowance: Option<Allowance>,
    began: Instant,
    ring_drops: u64,
    strays: u64,
    offloaded: u64,
    awake_ns: u64,
}

struct PortState {
    socket: PacketSocket,
    host_mac: [u8; 6],
    routed: Option<Routed>,
    transmit: Transmit,
}

struct DirectionState {
    name: String,
    chain: wansan_path::Chain<Frame>,
    overhead_bytes: u32,
    classes: Option<Classes>,
    tap: Option<Tap>,
    /// Captured elements, by index, and their watches.
    watches: Vec<(usize, Watch)>,
    lateness: Lateness,
    delays: Delays,
    throughput: Throughput,
    sampler: Sampler,
}

impl Driver {
    pub(super) fn open(
        config: Config,
        shown: Arc<Mutex<Statistics>>,
        orders: Receiver<Order>,
    ) -> Result<Driver, EmulatorError> {
        let mut ports = Vec::with_capacity(config.ports.len());
        let count = config.ports.len();
        for (place, port) in config.ports.iter().enumerate() {
            let action = format!("open a packet socket on {}", port.interface);
            let pairs = port
                .routed
                .map(|routed| pairs::of(routed.host, place, &config));
            let socket = PacketSocket::open(&port.interface, count, pairs.as_deref());
            ports.push(PortState {
                socket: socket.map_err(lacks(&action))?,
                host_mac: port.host_mac,
                routed: port.routed,
                transmit: Transmit::new(),
            });
        }
        let mut recorder = config.recorder;
        let mut routes = vec![None; ports.len() * ports.len()];
        for route in config.routes {
            routes[route.from * ports.len() + route.to] = Some(route.direction);
        }
        let directions: Vec<DirectionState> = config
            .directions
            .into_iter()
            .map(|mut direction| DirectionState {
                watches: watch(&mut direction),
                sampler: Sampler::new(&direction.name, &direction.chain, &mut recorder),
                delays: Delays::since(Instant::ZERO, direction.chain.delay()),
                name: direction.name,
                chain: direction.chain,
                overhead_bytes: direction.overhead_bytes,
                classes: direction.classes,
                tap: direction.tap,
                lateness: Lateness::new(),
                throughput: Throughput::default(),
            })
            .collect();
        let read_interval = read_interval(&directions);
        let scheduling = priority::prefer();
        let began = clock::now();
        Ok(Driver {
            ports,
            directions,
            routes,
            recorder,
            shown,
            orders,
            order: None,
            sample_interval: config.sample_interval,
            read_interval,
            scheduling,
            allowance: (scheduling == Scheduling::RealTime)
                .then(|| Allowance::since(began, thread_cpu_ns())),
            began,
            ring_drops: 0,
            strays: 0,
            offloaded: 0,
            awake_ns: 0,
        })
    }

    /// Moves frames until `stop` is set.
    pub(super) fn run(mut self, stop: &AtomicBool) -> Result<Report, EmulatorError> {
        let mut next_sample = self.began;
        let mut last_taken = self.began;
        let mut awake_since: Option<Instant> = None;
        let mut next_round = self.began;
        while !stop.load(Ordering::Relaxed) {
            if self.rest()? {
                awake_since = None;
            }
            let taken = self.take_frames();
            let now = clock::now();
            let delivered = if now < next_round {
                0
            } else {
                self.deliver(now)
            };
            if delivered > 0 {
                next_round = now + TOGETHER;
            }
            if let Some(since) = awake_since.take()
                && taken + delivered == 0
            {
                self.awake_ns += (now - since).as_nanos() as u64;
            }
            self.obey(now);
            if now >= next_sample {
                self.sample(now)?;
                next_sample = (next_sample + self.sample_interval).max(now);
            }
            if taken >= TAKEN_AT_ONCE {
                continue;
            }
            if taken > 0 {
                last_taken = now;
            }
            // While frames keep arriving, polling the rings at intervals suffices: the kernel timestamps arrivals.
            let frames_keep_coming = now - last_taken < 2 * self.read_interval;
            let watch = !frames_keep_coming || self.read_interval < SHORTEST_READ_INTERVAL;
            let mut until = next_sample;
            if let Some(order) = &self.order {
                until = until.min(order.at);
            }
            if !watch {
                until = until.min(now + self.read_interval);
            }
            for direction in &self.directions {
                until = direction
                    .chain
                    .next_deadline()
                    .map_or(until, |due| until.min(due));
            }
            // Some left their paths while others were received.
            if self.ports.iter().any(|port| !port.transmit.is_empty()) {
                until = now;
            }
            until = until.max(next_round.min(next_sample));
            let present = clock::now();
            if until - present > SPIN {
                self.sleep(until - SPIN, watch)?;
            } else {
                awake_since = Some(present);
            }
        }
        let statistics = self.statistics(clock::now());
        Ok(Report {
            recorder: self.recorder,
            statistics,
        })
    }

    /// Sleeps if a real-time thread has to; returns whether it did.
    fn rest(&mut self) -> Result<bool, EmulatorError> {
        let now = clock::now();
        let allowance = self.allowance.as_mut();
        let Some(rest) = allowance.and_then(|each| each.rest(now, thread_cpu_ns)) else {
            return Ok(false);
        };
        self.sleep(now + rest, false)?;
        Ok(true)
    }

    /// Executes the orders that are due.
    fn obey(&mut self, now: Instant) {
        loop {
            self.order = self.order.take().or_else(|| self.orders.try_recv().ok());
            let Some(order) = self.order.take_if(|order| order.at <= now) else {
                return;
            };
            let mut changes = order.changes.into_iter();
            let done = changes
                .try_for_each(|(direction, change)| self.directions[direction].apply(now, change));
            self.read_interval = read_interval(&self.directions);
            // The issuer may be gone.
            let _ = order.done.try_send(done.map(|()| now));
        }
    }

    /// Receives frames from all rings in order of kernel timestamp; returns the number of packets.
    fn take_frames(&mut self) -> usize {
        let both = Both::now();
        let mut now = both.monotonic;
        let mut taken = 0;
        while taken < TAKEN_AT_ONCE {
            let heads = self.ports.iter().enumerate().filter_map(|(from, port)| {
                let frame = port.socket.oldest()?;
                Some((frame.realtime_ns, from))
            });
            let Some((realtime_ns, from)) = heads.min() else {
                break;
            };
            // The kernel timestamps frames with CLOCK_REALTIME, which may be set meanwhile: clamp to the present.
            let came = Instant::from_ns(realtime_ns.saturating_add_signed(-both.ahead_ns()));
            if came > now {
                now = clock::now();
            }
            taken += self.take(from, came.min(now));
            self.ports[from].socket.release();
        }
        taken
    }

    /// Puts the packets of a ring's oldest frame into their chain; returns their number.
    fn take(&mut self, from: usize, came: Instant) -> usize {
        let Some(received) = self.ports[from].socket.oldest() else {
            return 0;
        };
        let Some((to, direction)) = self.route(from, received.bytes) else {
            self.strays += 1;
            return 1;
        };
        let mut bytes = received.bytes.to_vec();
        let next = &self.ports[to];
        if let Some(routed) = &next.routed {
            bytes.truncate(pairs::unpadded_bytes(&bytes));
            // As a router forwards: from its own MAC address to the next hop's.
            let (destination, rest) = bytes.split_at_mut(next.host_mac.len());
            destination.copy_from_slice(&next.host_mac);
            rest[..routed.own_mac.len()].copy_from_slice(&routed.own_mac);
        }
        let whole = received
            .offload
            .and_then(|offload| SuperFrame::new(bytes, offload));
        let Some(whole) = whole else {
            self.offloaded += 1;
            return 1;
        };
        let packets = usize::from(whole.segments());
        self.drain(direction, came);
        let ecn = whole.ecn();
        let direction = &mut self.directions[direction];
        let classes = direction.classes.as_ref();
        let class = classes.map_or(0, |classes| classes.of(whole.bytes()));
        for frame in Frame::cut(whole, to as u16) {
            let packet = Packet {
                size_bytes: frame.size_bytes() + direction.overhead_bytes,
                ecn,
                class,
                payload: frame,
            };
            direction.chain.enqueue(came, packet);
        }
        direction.show_watched();
        packets
    }

    fn route(&self, from: usize, frame: &[u8]) -> Option<(usize, usize)> {
        if frame.len() < ETHERNET_BYTES {
            return None;
        }
        let is_routed = self.ports[from].routed.is_some();
        let to = self.ports.iter().position(|port| match port.routed {
            Some(routed) if is_routed => Some(routed.host) == pairs::destination(frame),
            _ => frame.starts_with(&port.host_mac),
        })?;
        let direction = self.routes[from * self.ports.len() + to]?;
        Some((to, direction))
    }

    /// Sends all due packets; returns how many left their paths.
    fn deliver(&mut self, now: Instant) -> usize {
        let directions = 0..self.directions.len();
        let left = directions.map(|direction| self.drain(direction, now)).sum();
        for port in 0..self.ports.len() {
            self.flush(port);
        }
        left
    }

    /// Takes the packets that have left a chain by `now`; returns their number.
    fn drain(&mut self, direction: usize, now: Instant) -> usize {
        let mut left = 0;
        while let Some(departure) = self.directions[direction].chain.poll(now) {
            self.leave(direction, departure);
            left += 1;
        }
        self.directions[direction].show_watched();
        left
    }

    fn leave(&mut self, direction: usize, departure: Departure<Frame>) {
        if self.recorder.packet.is_kept() {
            self.record(direction, &departure);
        }
        if let Some(tap) = &self.directions[direction].tap {
            capture(tap, &departure);
        }
        if departure.fate != Fate::Delivered {
            return;
        }
        let (departed, delayed) = (departure.departed, departure.delayed);
        let frame = as_it_left(departure);
        let to = frame.to();
        let transmit = &mut self.ports[to].transmit;
        transmit.push(Due {
            frame,
            direction,
            departed,
            delayed,
        });
        if transmit.is_full() {
            self.flush(to);
        }
    }

    fn flush(&mut self, port: usize) {
        let PortState {
            socket, transmit, ..
        } = &mut self.ports[port];
        transmit.flush(socket.as_fd(), |due, sent| {
            self.directions[due.direction].sent(&due, sent);
        });
    }

    fn record(&mut self, direction: usize, departure: &Departure<Frame>) {
        let mut room = [0; MAX_HEADER_BYTES];
        let frame = &departure.packet.payload;
        let headers = match frame.write_header(&mut room) {
            0 => frame.payload(),
            header_bytes => &room[..header_bytes],
        };
        let Some(segment) = Segment::parse(headers).or_else(|| Segment::sealed(headers)) else {
            return;
        };
        self.recorder.packet(event::Packet {
            time: departure.entered,
            departed: departure.departed,
            path: self.directions[direction].sampler.id(),
            source: segment.source,
            destination: segment.destination,
            seq: segment.seq,
            ack: segment.ack,
            payload_bytes: segment.payload_bytes,
            ip_bytes: segment.ip_bytes,
            window: segment.window,
            flags: segment.flags,
            ecn: segment.ecn,
            verdict: departure.fate.into(),
        });
    }

    fn sample(&mut self, now: Instant) -> Result<(), EmulatorError> {
        for port in &self.ports {
            let drops = port.socket.take_drops();
            self.ring_drops += drops.map_err(lacks("ask for a ring's drops"))?;
        }
        for direction in &mut self.directions {
            direction.throughput.sample(direction.chain.sent());
            if self.recorder.path.is_kept() {
                let lateness_ns = direction.lateness.take_recent_mean_ns();
                let (chain, recorder) = (&direction.chain, &mut self.recorder);
                direction.sampler.sample(now, chain, lateness_ns, recorder);
            }
        }
        let statistics = self.statistics(now);
        // If a reader holds the lock, it sees the previous statistics: this thread never waits.
        if let Ok(mut shown) = self.shown.try_lock() {
            *shown = statistics;
        }
        Ok(())
    }

    fn statistics(&self, now: Instant) -> Statistics {
        let paths = self.directions.iter().map(|direction| {
            let elements = direction.chain.element_counters(now);
            PathStatistics {
                name: direction.name.clone(),
                counters: direction.chain.counters(now),
                overhead_bytes: direction.overhead_bytes,
                is_down: direction.chain.is_down(),
                delay_ns: duration_ns(direction.chain.delay()),
                delay_asked_ns: direction.delays.asked_ns(),
                delay_achieved_ns: direction.delays.achieved_ns(),
                lateness_p50_ns: direction.lateness.quantile_ns(0.5),
                lateness_p99_ns: direction.lateness.quantile_ns(0.99),
                lateness_max_ns: direction.lateness.max_ns(),
                bits_per_s: direction.chain.bits_per_s(),
                peak_bits_per_s: direction.throughput.peak_bits_per_s(),
                elements: elements.map(ElementStatistics::of).collect(),
            }
        });
        Statistics {
            elapsed_ns: (now - self.began).as_nanos() as u64,
            paths: paths.collect(),
            ring_drops: self.ring_drops,
            strays: self.strays,
            offloaded: self.offloaded,
            send_failures: self.ports.iter().map(|port| port.transmit.failed()).sum(),
            cpu_ns: thread_cpu_ns(),
            awake_ns: self.awake_ns,
            scheduling: self.scheduling,
        }
    }

    /// Sleeps until `until`, or until a frame arrives if the rings are watched.
    fn sleep(&self, until: Instant, watch: bool) -> Result<(), EmulatorError> {
        let slept = if watch {
            let ports = self.ports.iter();
            let mut rings: Vec<PollFd<'_>> = ports
                .map(|port| PollFd::new(&port.socket, PollFlags::IN))
                .collect();
            let left = until - clock::now();
            poll(&mut rings, Some(&timespec(left))).map(|_| {
                for ring in &rings {
                    if ring.revents().contains(PollFlags::ERR) {
                        // The host and its link are gone. Reading the error clears it, so that it does not wake us
                        // again.
                        let _ = socket_error(ring);
                    }
                }
            })
        } else {
            clock_nanosleep_absolute(ClockId::Monotonic, &timespec(until - Instant::ZERO))
        };
        match slept {
            Ok(()) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(lacks("wait for frames")(errno.into())),
        }
    }
}

/// Makes the chain report packets at captured elements.
fn watch(direction: &mut Direction) -> Vec<(usize, Watch)> {
    let watches = std::mem::take(&mut direction.watches).into_iter();
    let placed = watches.filter_map(|watch| Some((direction.chain.watch(&watch.element)?, watch)));
    placed.collect()
}

/// A departing frame, marked and corrupted as its chain decided.
fn as_it_left(departure: Departure<Frame>) -> Frame {
    let mut frame = departure.packet.payload;
    if departure.marked {
        frame = frame.marked();
    }
    if let Some(bit) = departure.corrupted {
        frame = frame.corrupted(bit);
    }
    frame
}

fn capture(tap: &Tap, departure: &Departure<Frame>) {
    tap.take(departure.departed, departure.fate, || {
        as_it_left(departure.clone()).wire_bytes()
    });
}

impl DirectionState {
    /// Applies a change. Statistics of delay and rate restart at a change, so that the configured and the achieved
    /// values refer to the same period.
    fn apply(&mut self, now: Instant, change: Change) -> Result<(), ChangeError> {
        let of_delay = matches!(change, Change::Delay(_) | Change::Jitter(_));
        let of_rate = matches!(change, Change::Rate(_));
        self.chain.apply(now, change)?;
        if of_delay {
            self.delays = Delays::since(now, self.chain.delay());
        }
        if of_rate {
            self.throughput = Throughput::default();
        }
        Ok(())
    }

    /// Captures packets at watched elements since the last call.
    fn show_watched(&mut self) {
        while let Some(sighting) = self.chain.sighting() {
            let mut watches = self.watches.iter();
            if let Some((_, watch)) = watches.find(|(place, _)| *place == sighting.place) {
                let tap = match sighting.boundary {
                    Boundary::Ingress => &watch.before,
                    Boundary::Egress => &watch.after,
                };
                capture(tap, &sighting.packet);
            }
        }
    }

    /// A packet was handed to the kernel at `sent`.
    fn sent(&mut self, due: &Due, sent: Instant) {
        self.lateness.record(due.departed, sent);
        self.delays.record(due.departed, due.delayed, sent);
    }
}

/// Longest poll interval of the rings while frames keep arriving: a frame must enter its chain before it is due there,
/// and half of the smallest delay leaves time for that.
fn read_interval(directions: &[DirectionState]) -> Duration {
    let delays = directions.iter().map(|each| each.chain.least_delay());
    (delays.min().unwrap_or_default() / 2).min(LONGEST_READ_INTERVAL)
}

/// Processor time used by this thread.
fn thread_cpu_ns() -> u64 {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    used.tv_sec as u64 * 1_000_000_000 + used.tv_nsec as u64
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        // No clock here exceeds 2^63 seconds.
        tv_sec: time.as_secs() as i64,
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}
