//! A small queueing network whose populations and limits are known: closed or paced loads, a command window, a link of
//! fixed rate, a sender with a limited number of answers in flight, and a store with servers of fixed service time. It
//! writes the records that real programs would.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::path::Path;

use rand_core::Rng;
use rand_pcg::Pcg32;
use wansan_insight::{Observed, Run};
use wansan_trace::event::CongestionState;
use wansan_trace::event::{self, Pdu, PduDirection, Tcp, TcpEvent};
use wansan_trace::{
    ConnectionId, Direction, Instant, Kinds, Layer, Recorder, Sample, SessionId, TaskTag, file,
};

pub(crate) const US: u64 = 1_000;
pub(crate) const MS: u64 = 1_000_000;
const BLOCK_BYTES: u64 = 4096;
const SAMPLE_NS: u64 = 5 * MS;

/// What stops the target's TCP once `answers_in_flight` answers are outstanding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    ReceiveWindow,
    SendBuffer,
    /// A full send buffer that TCP's own counter does not show, as that only starts at an acknowledgement that leaves
    /// no room.
    SendMemory,
    CongestionWindow,
    /// The initiator does not read: its window closes.
    SlowReader,
}

/// How the data of writes gets to the target. Each sequence is two Data-Out PDUs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writes {
    /// Immediate data, and unsolicited data in a Data-Out after the command.
    pub(crate) immediate_bytes: u32,
    pub(crate) unsolicited_bytes: u32,
    /// Number of R2Ts, and how many may be outstanding.
    pub(crate) r2ts: u32,
    pub(crate) outstanding: u32,
    pub(crate) sequence_bytes: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) sessions: usize,
    pub(crate) parallel: usize,
    /// Time between submissions of a session; `None`: a closed loop.
    pub(crate) pace_ns: Option<u64>,
    /// Submits `parallel` I/Os at once, and the next when all are done.
    pub(crate) batch: bool,
    pub(crate) command_window: u32,
    /// `None`: reads.
    pub(crate) writes: Option<Writes>,
    pub(crate) one_way_ns: u64,
    /// One connection per entry, with its one-way delay and the transmission time of an answer on its own link; if
    /// empty, a single one with `one_way_ns` and `link_ns`.
    pub(crate) routes_ns: Vec<(u64, u64)>,
    /// Commands go to the connection with the fewest in flight, instead of round robin.
    pub(crate) least_in_flight: bool,
    /// Transmission time of an answer on the link.
    pub(crate) link_ns: u64,
    /// The link is a router's VPN, which runs for this part of the time in which it has work, and waits for a processor
    /// for the rest.
    pub(crate) vpn_runs: Option<f64>,
    pub(crate) stop: Option<(usize, Stop)>,
    pub(crate) servers: usize,
    pub(crate) service_ns: u64,
    /// The initiator's thread is busy all of the time, as its records show.
    pub(crate) is_initiator_busy: bool,
    /// A path between other hosts is full.
    pub(crate) is_another_path_full: bool,
    /// Maximum random delay added to each way.
    pub(crate) jitter_ns: u64,
    pub(crate) duration_ns: u64,
    pub(crate) sample_path: bool,
    /// The I/Os that initiators record, and those that the target does, as their records of connections say; `None`: all,
    /// without such records.
    pub(crate) samples: Option<[Sample; 2]>,
}

impl World {
    /// 16 ms each way, 1 Gbit/s, a quick store, one session.
    pub(crate) fn wan() -> World {
        World {
            sessions: 1,
            parallel: 16,
            pace_ns: None,
            batch: false,
            command_window: 1024,
            writes: None,
            one_way_ns: 16 * MS,
            routes_ns: Vec::new(),
            least_in_flight: false,
            link_ns: 33 * US,
            vpn_runs: None,
            stop: None,
            servers: 64,
            service_ns: 10 * US,
            is_initiator_busy: false,
            is_another_path_full: false,
            jitter_ns: 100 * US,
            duration_ns: 1_000 * MS,
            sample_path: true,
            samples: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Submit(usize),
    AtTarget(usize, u32),
    /// A data sequence has arrived, by its number.
    DataOut(usize, u32, u32),
    Stored(usize, u32),
    AtInitiator(usize, u32),
    Acknowledged(usize),
    Sample,
}

#[derive(Default)]
struct Session {
    next_tag: u32,
    in_flight: usize,
    queue: VecDeque<u32>,
    sent: u32,
    done: u32,
    granted: u32,
    /// Sequences requested and sequences received, by command.
    asked: BTreeMap<u32, (u32, u32)>,
    /// Answers that wait for TCP, and those in flight.
    unsent: VecDeque<u32>,
    under_way: usize,
    acked_bytes: u64,
    /// The route of each command that has a CmdSN, by tag, and the number in flight on each.
    route_of: BTreeMap<u32, usize>,
    on_route: Vec<usize>,
    route_free_ns: Vec<u64>,
    /// Answers sent on each route.
    route_answers: Vec<u64>,
    /// Commands that arrived at the target out of CmdSN order, and the next one to deliver.
    early: BTreeSet<u32>,
    next_delivered: u32,
    stopped_since: Option<u64>,
    stopped_ns: u64,
}

struct Simulation {
    world: World,
    now: u64,
    order: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sessions: Vec<Session>,
    initiators: Vec<Recorder>,
    target: Recorder,
    emulator: Recorder,
    store_queue: VecDeque<(usize, u32)>,
    store_busy: usize,
    link_free_ns: u64,
    link_busy_ns: u64,
    random: Pcg32,
}

/// Plays `world` and returns cell 0, read as a run without an index.
pub(crate) fn observe(world: &World, folder: &Path) -> Observed {
    play(world, folder);
    let run = Run::read(folder).expect("a run");
    run.observe(&run.cells[0]).expect("readable records")
}

/// Plays `world` and leaves its merged records in `folder`.
pub(crate) fn play(world: &World, folder: &Path) {
    let kinds = Kinds {
        packet: false,
        ..Kinds::ALL
    };
    let [by_initiators, by_target] = world.samples.unwrap_or_default();
    let recorder = |sample| Recorder::new(Kinds { sample, ..kinds }, 1 << 30);
    let mut simulation = Simulation {
        now: 1_000 * MS,
        order: 0,
        events: BinaryHeap::new(),
        sessions: (0..world.sessions).map(|_| Session::default()).collect(),
        initiators: { 0..world.sessions }
            .map(|_| recorder(by_initiators))
            .collect(),
        target: recorder(by_target),
        emulator: recorder(Sample::ALL),
        store_queue: VecDeque::new(),
        store_busy: 0,
        link_free_ns: 0,
        link_busy_ns: 0,
        random: Pcg32::new(7, 11),
        world: world.clone(),
    };
    simulation.run();
    for (place, initiator) in simulation.initiators.into_iter().enumerate() {
        file::write_part(folder, &format!("initiator-{place}"), &[initiator]).unwrap();
    }
    file::write_part(folder, "target", &[simulation.target]).unwrap();
    if world.sample_path {
        file::write_part(folder, "emulator", &[simulation.emulator]).unwrap();
    }
    file::merge_parts(folder).unwrap();
}

fn session_id(session: usize) -> SessionId {
    SessionId::new([0x80, 0, 0, 0, 0, session as u8], session as u16 + 1)
}

impl Simulation {
    fn run(&mut self) {
        let end = self.now + self.world.duration_ns;
        for session in 0..self.world.sessions {
            self.sessions[session].granted = self.world.command_window;
            self.sessions[session].on_route = vec![0; self.world.routes_ns.len().max(1)];
            self.sessions[session].route_free_ns = vec![0; self.world.routes_ns.len()];
            self.sessions[session].route_answers = vec![0; self.world.routes_ns.len()];
            let recorders = [&mut self.initiators[session], &mut self.target];
            for recorder in recorders
                .into_iter()
                .filter(|_| self.world.samples.is_some())
            {
                recorder.connection(event::Connection {
                    time: Instant::from_ns(self.now),
                    session: session_id(session),
                    sampled_one_in: recorder.sample().number(),
                    ..event::Connection::BLANK
                });
            }
            let at_once = match self.world.pace_ns {
                Some(_) => 1,
                None => self.world.parallel,
            };
            for place in 0..at_once {
                self.at(self.now + place as u64, Event::Submit(session));
            }
        }
        self.at(self.now, Event::Sample);
        while let Some(Reverse((time, _, event))) = self.events.pop() {
            if time > end {
                break;
            }
            self.now = time;
            match event {
                Event::Submit(session) => self.submit(session),
                Event::AtTarget(session, tag) => self.at_target(session, tag),
                Event::DataOut(session, tag, number) => self.data_out(session, tag, number),
                Event::Stored(session, tag) => self.stored(session, tag),
                Event::AtInitiator(session, tag) => self.at_initiator(session, tag),
                Event::Acknowledged(session) => {
                    self.sessions[session].under_way -= 1;
                    self.sessions[session].acked_bytes += BLOCK_BYTES;
                    self.transmit(session);
                }
                Event::Sample => self.sample(),
            }
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, event)));
    }

    fn jitter(&mut self) -> u64 {
        u64::from(self.random.next_u32()) % (self.world.jitter_ns + 1)
    }

    /// The connection that carries a command; the first until one is chosen.
    fn connection(&self, session: usize, tag: u32) -> ConnectionId {
        let route = self.sessions[session].route_of.get(&tag);
        ConnectionId(1 + *route.unwrap_or(&0) as u16)
    }

    fn one_way_ns(&self, session: usize, tag: u32) -> u64 {
        let route = self.sessions[session].route_of.get(&tag);
        let way = route.and_then(|&route| self.world.routes_ns.get(route));
        way.map_or(self.world.one_way_ns, |&(one_way_ns, _)| one_way_ns)
    }

    /// Chooses the connection of a command.
    fn share_out(&mut self, session: usize, tag: u32) {
        let held = &mut self.sessions[session];
        let routes = 0..held.on_route.len();
        let route = if self.world.least_in_flight {
            routes
                .min_by_key(|&route| held.on_route[route])
                .unwrap_or(0)
        } else {
            held.sent as usize % held.on_route.len()
        };
        held.on_route[route] += 1;
        held.route_of.insert(tag, route);
    }

    fn cross(&mut self, session: usize, tag: u32, layer: Layer, direction: Direction) {
        let connection = self.connection(session, tag);
        let recorder = if layer <= Layer::Socket {
            &mut self.initiators[session]
        } else {
            &mut self.target
        };
        recorder.crossing(
            Instant::from_ns(self.now),
            session_id(session),
            connection,
            TaskTag(tag),
            layer,
            direction,
        );
    }

    fn submit(&mut self, session: usize) {
        if let Some(pace_ns) = self.world.pace_ns {
            self.at(self.now + pace_ns, Event::Submit(session));
        }
        if self.sessions[session].in_flight == self.world.parallel {
            return;
        }
        let tag = self.sessions[session].next_tag;
        self.sessions[session].next_tag += 1;
        self.sessions[session].in_flight += 1;
        for layer in [Layer::App, Layer::Scsi, Layer::Queue] {
            self.cross(session, tag, layer, Direction::Enter);
        }
        self.sessions[session].queue.push_back(tag);
        self.send_commands(session);
    }

    fn send_commands(&mut self, session: usize) {
        while self.sessions[session].sent < self.sessions[session].granted {
            let Some(tag) = self.sessions[session].queue.pop_front() else {
                return;
            };
            self.share_out(session, tag);
            self.sessions[session].sent += 1;
            for layer in [Layer::Window, Layer::Socket] {
                self.cross(session, tag, layer, Direction::Enter);
            }
            let cmd_sn = self.sessions[session].sent;
            self.pdu(session, tag, 0x01, cmd_sn, PduDirection::Sent);
            let arrival = self.now + self.one_way_ns(session, tag) + self.jitter();
            self.at(arrival, Event::AtTarget(session, tag));
        }
    }

    fn pdu(&mut self, session: usize, tag: u32, opcode: u8, sn: u32, direction: PduDirection) {
        let command = opcode == 0x01;
        let pdu = Pdu {
            time: Instant::from_ns(self.now),
            session: session_id(session),
            connection: self.connection(session, tag),
            direction,
            opcode,
            flags: if command { 0xc0 } else { 0x81 },
            task: TaskTag(tag),
            transfer_tag: u32::MAX,
            // Close to the wrap of serial numbers, on purpose.
            cmd_sn: if command { sn.wrapping_sub(50) } else { 0 },
            max_cmd_sn: if command { 0 } else { sn.wrapping_sub(50) },
            data_bytes: if command { 0 } else { BLOCK_BYTES as u32 },
            ..Pdu::BLANK
        };
        let initiator = &mut self.initiators[session];
        if initiator.keeps_pdu(pdu.task, pdu.opcode) {
            initiator.pdu(pdu);
        }
    }

    /// Delivers commands in CmdSN order, which is that of their tags. On one connection TCP keeps that order.
    fn at_target(&mut self, session: usize, tag: u32) {
        if self.world.routes_ns.is_empty() {
            self.deliver(session, tag);
            return;
        }
        self.target_pdu(session, tag, 0x01, 0, 0);
        self.sessions[session].early.insert(tag);
        while self.sessions[session].early.first() == Some(&self.sessions[session].next_delivered) {
            self.sessions[session].early.pop_first();
            self.deliver(session, self.sessions[session].next_delivered);
            self.sessions[session].next_delivered += 1;
        }
    }

    fn deliver(&mut self, session: usize, tag: u32) {
        self.cross(session, tag, Layer::Target, Direction::Enter);
        let Some(writes) = self.world.writes else {
            self.enter_device(session, tag);
            return;
        };
        self.target_pdu(session, tag, 0x01, 0, writes.immediate_bytes);
        if writes.unsolicited_bytes > 0 {
            self.target_pdu(session, tag, 0x05, u32::MAX, writes.unsolicited_bytes);
        }
        self.sessions[session].asked.insert(tag, (0, 0));
        self.ask_for_data(session, tag, writes);
    }

    /// Sends as many R2Ts as may be outstanding, or passes the command on when all data has arrived.
    fn ask_for_data(&mut self, session: usize, tag: u32, writes: Writes) {
        let (mut asked, done) = self.sessions[session].asked[&tag];
        if done == writes.r2ts {
            self.sessions[session].asked.remove(&tag);
            self.enter_device(session, tag);
            return;
        }
        while asked < writes.r2ts && asked < done + writes.outstanding {
            self.target_pdu(session, tag, 0x31, asked, 0);
            let arrival = self.now + 2 * self.one_way_ns(session, tag) + self.jitter();
            self.at(arrival, Event::DataOut(session, tag, asked));
            asked += 1;
        }
        self.sessions[session].asked.insert(tag, (asked, done));
    }

    fn data_out(&mut self, session: usize, tag: u32, number: u32) {
        let Some(writes) = self.world.writes else {
            return;
        };
        for last in [false, true] {
            let flags = if last { 0x80 } else { 0 };
            let bytes = writes.sequence_bytes / 2;
            self.flagged_pdu(session, tag, 0x05, flags, number, bytes);
        }
        let held = self.sessions[session].asked.get_mut(&tag);
        held.expect("it was asked for").1 += 1;
        self.ask_for_data(session, tag, writes);
    }

    fn enter_device(&mut self, session: usize, tag: u32) {
        self.cross(session, tag, Layer::Device, Direction::Enter);
        self.store_queue.push_back((session, tag));
        self.serve();
    }

    fn target_pdu(&mut self, session: usize, tag: u32, opcode: u8, transfer_tag: u32, bytes: u32) {
        self.flagged_pdu(session, tag, opcode, 0x80, transfer_tag, bytes);
    }

    /// A PDU of a write as the target records it.
    fn flagged_pdu(
        &mut self,
        session: usize,
        tag: u32,
        opcode: u8,
        flags: u8,
        transfer_tag: u32,
        data_bytes: u32,
    ) {
        let from_target = opcode >= 0x20;
        let granted = self.sessions[session].granted;
        let connection = self.connection(session, tag);
        let pdu = Pdu {
            time: Instant::from_ns(self.now),
            session: session_id(session),
            connection,
            direction: if from_target {
                PduDirection::Sent
            } else {
                PduDirection::Received
            },
            opcode,
            flags,
            task: TaskTag(tag),
            transfer_tag,
            max_cmd_sn: if from_target {
                granted.wrapping_sub(50)
            } else {
                0
            },
            data_bytes,
            ..Pdu::BLANK
        };
        if self.target.keeps_pdu(pdu.task, pdu.opcode) {
            self.target.pdu(pdu);
        }
    }

    fn serve(&mut self) {
        while self.store_busy < self.world.servers {
            let Some((session, tag)) = self.store_queue.pop_front() else {
                return;
            };
            self.store_busy += 1;
            self.cross(session, tag, Layer::Store, Direction::Enter);
            self.at(
                self.now + self.world.service_ns,
                Event::Stored(session, tag),
            );
        }
    }

    fn stored(&mut self, session: usize, tag: u32) {
        self.store_busy -= 1;
        for layer in [Layer::Store, Layer::Device, Layer::Target] {
            self.cross(session, tag, layer, Direction::Leave);
        }
        if self.world.writes.is_some() {
            self.target_pdu(session, tag, 0x21, 0, 0);
        }
        self.sessions[session].unsent.push_back(tag);
        self.transmit(session);
        self.serve();
    }

    fn transmit(&mut self, session: usize) {
        let most = self.world.stop.map_or(usize::MAX, |(most, _)| most);
        while self.sessions[session].under_way < most {
            let Some(tag) = self.sessions[session].unsent.pop_front() else {
                break;
            };
            self.sessions[session].under_way += 1;
            let sent_ns = self.transmission(session, tag);
            let arrival = sent_ns + self.one_way_ns(session, tag) + self.jitter();
            self.at(arrival, Event::AtInitiator(session, tag));
        }
        let now = self.now;
        let held = &mut self.sessions[session];
        match (held.unsent.is_empty(), held.stopped_since) {
            (false, None) => held.stopped_since = Some(now),
            (true, Some(since)) => {
                held.stopped_ns += now - since;
                held.stopped_since = None;
            }
            _ => {}
        }
    }

    /// Puts an answer on its link; returns the time at which it has been sent.
    fn transmission(&mut self, session: usize, tag: u32) -> u64 {
        let route = self.sessions[session].route_of.get(&tag).copied();
        let own = route.and_then(|route| Some((route, self.world.routes_ns.get(route)?.1)));
        let (free_ns, link_ns) = match own {
            Some((route, link_ns)) => {
                self.sessions[session].route_answers[route] += 1;
                (&mut self.sessions[session].route_free_ns[route], link_ns)
            }
            None => {
                self.link_busy_ns += self.world.link_ns;
                (&mut self.link_free_ns, self.world.link_ns)
            }
        };
        *free_ns = self.now.max(*free_ns) + link_ns;
        *free_ns
    }

    fn at_initiator(&mut self, session: usize, tag: u32) {
        self.sessions[session].done += 1;
        self.sessions[session].granted = self.sessions[session].done + self.world.command_window;
        self.cross(session, tag, Layer::Socket, Direction::Leave);
        let max_cmd_sn = self.sessions[session].granted;
        self.pdu(session, tag, 0x25, max_cmd_sn, PduDirection::Received);
        for layer in [Layer::Window, Layer::Queue, Layer::Scsi, Layer::App] {
            self.cross(session, tag, layer, Direction::Leave);
        }
        self.sessions[session].in_flight -= 1;
        let one_way_ns = self.one_way_ns(session, tag);
        self.at(self.now + one_way_ns, Event::Acknowledged(session));
        if let Some(route) = self.sessions[session].route_of.remove(&tag) {
            self.sessions[session].on_route[route] -= 1;
        }
        if self.world.batch {
            if self.sessions[session].in_flight == 0 {
                for place in 0..self.world.parallel {
                    self.at(self.now + US + place as u64, Event::Submit(session));
                }
            }
        } else if self.world.pace_ns.is_none() {
            self.at(self.now + US, Event::Submit(session));
        }
        self.send_commands(session);
    }

    fn sample(&mut self) {
        self.at(self.now + SAMPLE_NS, Event::Sample);
        let path = self.emulator.name("down");
        let backlog_ns = self.link_free_ns.saturating_sub(self.now);
        let busy_ns = self.link_busy_ns - backlog_ns;
        if let Some(runs) = self.world.vpn_runs {
            let ran_ns = (busy_ns as f64 * runs) as u64;
            let program = self.emulator.name("far wireguard");
            self.emulator.thread(event::Thread {
                time: Instant::from_ns(self.now),
                program,
                role: event::Role::Vpn,
                thread: 77,
                ran_ns,
                waited_ns: busy_ns - ran_ns,
            });
        }
        if self.world.is_initiator_busy {
            let program = self.emulator.name("client initiator");
            self.emulator.thread(event::Thread {
                time: Instant::from_ns(self.now),
                program,
                role: event::Role::Initiator,
                thread: 78,
                ran_ns: self.now,
                waited_ns: 0,
            });
        }
        if self.world.is_another_path_full {
            let path = self.emulator.name("elsewhere");
            self.emulator.path(event::Path {
                time: Instant::from_ns(self.now),
                path,
                busy_ns: self.now,
                out_bytes: self.now / 1_000_000,
                ..event::Path::BLANK
            });
        }
        let is_link = self.world.vpn_runs.is_none();
        let down = event::Path {
            time: Instant::from_ns(self.now),
            path,
            queue_packets: if is_link {
                (backlog_ns / self.world.link_ns.max(1)) as u32
            } else {
                0
            },
            busy_ns: if is_link { busy_ns } else { 0 },
            out_bytes: busy_ns / self.world.link_ns.max(1) * BLOCK_BYTES,
            bits_per_s: if is_link {
                BLOCK_BYTES * 8_000_000_000 / self.world.link_ns.max(1)
            } else {
                0
            },
            ..event::Path::BLANK
        };
        self.emulator.path(down);
        for route in 0..self.world.routes_ns.len() {
            let path = self.emulator.name(&format!("route-{route}"));
            let sessions = self.sessions.iter();
            let answers: u64 = sessions.map(|held| held.route_answers[route]).sum();
            self.emulator.path(event::Path {
                path,
                out_bytes: answers * BLOCK_BYTES,
                ..down
            });
        }
        for session in 0..self.world.sessions {
            let held = &self.sessions[session];
            let stopped_ns =
                held.stopped_ns + held.stopped_since.map_or(0, |since| self.now - since);
            let stop = self.world.stop.map(|(_, stop)| stop);
            let counted = |kind| if stop == Some(kind) { stopped_ns } else { 0 };
            let is_stopped = held.stopped_since.is_some();
            let is_memory_used = is_stopped && stop == Some(Stop::SendMemory);
            let unsent_bytes = match stop {
                Some(Stop::SendBuffer | Stop::SendMemory) => 0,
                _ => (held.unsent.len() as u64 * BLOCK_BYTES) as u32,
            };
            let sample = Tcp {
                time: Instant::from_ns(self.now),
                session: session_id(session),
                connection: ConnectionId(1),
                event: TcpEvent::Sample,
                congestion_state: CongestionState::OPEN,
                cwnd_packets: held.under_way.max(10) as u32,
                ssthresh_packets: i32::MAX as u32,
                mss_bytes: 1448,
                in_flight_packets: held.under_way as u32,
                srtt_ns: 2 * self.world.one_way_ns + backlog_ns,
                min_rtt_ns: 2 * self.world.one_way_ns,
                rwnd_bytes: if is_stopped && stop == Some(Stop::SlowReader) {
                    0
                } else {
                    65_535
                },
                unsent_bytes,
                // Each connection's part.
                acked_bytes: held.acked_bytes / self.world.routes_ns.len().max(1) as u64,
                send_buffer_bytes: 100_000,
                send_memory_bytes: if is_memory_used { 90_000 } else { 10_000 },
                pacing_bytes_per_s: u64::MAX,
                delivery_bytes_per_s: BLOCK_BYTES * 1_000_000_000 / self.world.link_ns.max(1),
                busy_ns: self.now,
                rwnd_limited_ns: counted(Stop::ReceiveWindow) + counted(Stop::SlowReader),
                sndbuf_limited_ns: counted(Stop::SendBuffer),
                ..Tcp::BLANK
            };
            let of_headers = Tcp {
                acked_bytes: u64::from(held.done) * 48,
                unsent_bytes: 0,
                rwnd_limited_ns: 0,
                sndbuf_limited_ns: 0,
                ..sample
            };
            let (reader, writer) = match self.world.writes {
                None => (of_headers, sample),
                Some(_) => (sample, of_headers),
            };
            for (cid, connection) in (1..).zip(&self.sessions[session].on_route) {
                let route = self.world.routes_ns.get(usize::from(cid) - 1);
                let way_ns = route.map_or(self.world.one_way_ns, |&(way_ns, _)| way_ns);
                let of_connection = |tcp: Tcp| Tcp {
                    connection: ConnectionId(cid),
                    in_flight_packets: (*connection).min(tcp.in_flight_packets as usize) as u32,
                    srtt_ns: 2 * way_ns + backlog_ns,
                    min_rtt_ns: 2 * way_ns,
                    ..tcp
                };
                self.target.tcp(of_connection(writer));
                self.initiators[session].tcp(of_connection(reader));
            }
        }
    }
}
