//! A relay: accepts connections, opens an outgoing one for each, and forwards data between them.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;

use wansan_schema::RelayEnd;
use wansan_split::{
    Bound, CLIENT, Carrier, Direction, End, Fallback, Governor, Law, Memory, Order, Reading, Sides,
    Signals, TARGET, Taken, Turn,
};
use wansan_trace::event::{self, Ecn, Role, Tcp};
use wansan_trace::{ConnectionId, Recorder, SessionId};

use super::socket::{ConnectionConfig, Owner, Sockets};

/// Maximum bytes per read and per write.
const PIECE_BYTES: usize = 64 << 10;

/// The settings of a relay.
#[derive(Debug)]
pub struct RelayConfig {
    /// The addresses at which it listens, all of its host.
    pub listen: Vec<SocketAddr>,
    /// Template of its onward connections. Each flow has its own local port, counting up from this one's.
    pub onward: ConnectionConfig,
    /// Maximum bytes held per direction of a flow.
    pub buffer_bytes: usize,
    /// The delay bound for its backlogs.
    pub bound: Option<Bound>,
    /// Receive buffers to set on the client's and the target's side, in bytes.
    pub receive_buffers: [Option<usize>; 2],
    /// Where its records go.
    pub trace: Recorder,
}

/// A relay.
#[derive(Debug)]
pub(super) struct Relay {
    owner: Owner,
    config: RelayConfig,
    flows: Vec<Flow>,
    /// The flow to which each end belongs, by index.
    places: HashMap<u32, usize>,
    done: RelayEnd,
}

/// A client's connection and its onward connection.
#[derive(Debug)]
struct Flow {
    number: u64,
    /// On the client's side, and on the target's.
    ends: [u32; 2],
    /// From the client, and from the target.
    ways: [Way; 2],
    governor: Option<Governor>,
    /// ECE signals counted so far.
    signals: u64,
    is_recorded: bool,
    is_over: bool,
}

/// A direction and the bytes that it holds.
#[derive(Debug, Default)]
struct Way {
    state: Direction,
    held: VecDeque<u8>,
}

impl Relay {
    /// A relay with that index.
    pub(super) fn new(place: usize, config: RelayConfig) -> Relay {
        Relay {
            owner: Owner::Relay(place),
            config,
            flows: Vec::new(),
            places: HashMap::new(),
            done: RelayEnd {
                fallbacks: Fallback::ALL.map(|why| (why.name().to_owned(), 0)).into(),
                ..RelayEnd::default()
            },
        }
    }

    /// Begins the flow of a client whose connection is established.
    fn begin(&mut self, client: u32, sockets: &mut Sockets) -> usize {
        self.done.accepted += 1;
        let number = self.done.accepted;
        let onward = sockets.connect(&self.config.onward, self.owner);
        let [from, _] = &mut self.config.onward.addresses;
        from.set_port(from.port().wrapping_add(1));
        let buffers = self.config.receive_buffers;
        let bound = self.config.bound.as_ref();
        let place = self.flows.len();
        self.places.extend([(client, place), (onward, place)]);
        self.flows.push(Flow {
            number,
            ends: [client, onward],
            ways: Default::default(),
            governor: bound.map(|bound| Governor::new(bound, buffers, number)),
            signals: 0,
            is_recorded: false,
            is_over: false,
        });
        place
    }

    /// An end has become readable or writable. One without a flow is that of a client that has connected.
    pub(super) fn turn(&mut self, end: u32, sockets: &mut Sockets) {
        let known = self.places.get(&end).copied();
        let place = known.unwrap_or_else(|| self.begin(end, sockets));
        let flow = &mut self.flows[place];
        if !flow.is_over {
            flow.advance(self.config.buffer_bytes, sockets, &mut self.done);
        }
    }

    /// Records the state of TCP on all its connections.
    pub(super) fn record_tcp(&mut self, sockets: &Sockets) {
        let trace = &mut self.config.trace;
        if !trace.tcp.is_kept() {
            return;
        }
        for flow in self.flows.iter_mut().filter(|flow| !flow.is_over) {
            let is_new = !flow.is_recorded && sockets.is_connected(flow.ends[TARGET]);
            flow.is_recorded |= is_new;
            for (place, id) in (0..flow.ends.len()).zip(0..) {
                let end = flow.ends[place];
                let ids = (SessionId(flow.number), ConnectionId(id));
                if is_new {
                    let known = event::Connection {
                        session: ids.0,
                        connection: ids.1,
                        role: Role::Relay,
                        ..event::Connection::BLANK
                    };
                    sockets.record_connection(end, known, trace);
                }
                let unread = sockets.memory(end).unread_bytes + flow.ways[place].held.len() as u64;
                let governor = flow.governor.as_ref();
                let asked = governor.filter(|governor| governor.asked_side() == Some(place));
                let signals = asked.map_or(0, Governor::signals);
                trace.tcp(Tcp {
                    unread_bytes: u32::try_from(unread).unwrap_or(u32::MAX),
                    ece_signals: u32::try_from(signals).unwrap_or(u32::MAX),
                    ..sockets.tcp(end, ids)
                });
            }
        }
    }

    /// The law that bounds its backlogs.
    fn law(&self) -> Law {
        self.config.bound.map_or(Law::None, |bound| bound.law)
    }

    /// Its report, its law, and its records.
    pub(super) fn end(self) -> (RelayEnd, Law, Recorder) {
        let law = self.law();
        let cut_off = self.flows.iter().filter(|flow| !flow.is_over).count();
        let done = RelayEnd {
            cut_off: cut_off as u64,
            ..self.done
        };
        (done, law, self.config.trace)
    }
}

impl Flow {
    /// Does everything that can be done now, and counts it.
    fn advance(&mut self, buffer_bytes: usize, sockets: &mut Sockets, done: &mut RelayEnd) {
        for side in [CLIENT, TARGET] {
            if sockets.is_lost(self.ends[side]) {
                // A reset on one side is passed on to the other.
                sockets.abort(self.ends[1 - side]);
                self.is_over = true;
                done.lost += 1;
                return;
            }
        }
        if !sockets.is_connected(self.ends[TARGET]) {
            return;
        }
        let moved = |ways: &[Way; 2]| ways.each_ref().map(|way| way.state.moved_bytes());
        let before = moved(&self.ways);
        let mut again = true;
        while std::mem::take(&mut again) {
            for from in [CLIENT, TARGET] {
                let governor = self.governor.as_ref();
                let limit = governor.map_or(buffer_bytes, |it| it.limit_bytes(from, buffer_bytes));
                again |=
                    self.ways[from].carry(self.ends[from], self.ends[1 - from], limit, sockets);
            }
        }
        let now = sockets.now();
        if let Some(governor) = &mut self.governor {
            let mut ends = Ends {
                ends: self.ends,
                sockets,
            };
            let ways = self.ways.each_ref().map(|way| &way.state);
            governor.govern(&mut ends, ways, now);
            let signals = governor.signals();
            done.ece_signals += signals - std::mem::replace(&mut self.signals, signals);
            if let Some(news) = governor.take_news() {
                *done
                    .fallbacks
                    .entry(news.why.name().to_owned())
                    .or_default() += 1;
            }
        }
        let after = moved(&self.ways);
        done.onward_bytes += after[CLIENT] - before[CLIENT];
        done.back_bytes += after[TARGET] - before[TARGET];
        if self.ways.iter().all(|way| way.state.is_over()) {
            self.is_over = true;
            done.finished += 1;
        }
    }
}

impl Way {
    /// Moves what can be moved; returns whether there is more to do.
    fn carry(&mut self, from: u32, to: u32, limit_bytes: usize, sockets: &mut Sockets) -> bool {
        if self.state.is_over() {
            return false;
        }
        let mut between = Between {
            held: &mut self.held,
            from,
            to,
            sockets,
        };
        match self.state.pump(&mut between, limit_bytes) {
            Turn::Waits => false,
            Turn::Again => true,
            Turn::Ended(_) => {
                sockets.shut(to);
                self.state.finish();
                false
            }
        }
    }
}

/// The bytes that a direction holds, and its ends.
struct Between<'a> {
    held: &'a mut VecDeque<u8>,
    from: u32,
    to: u32,
    sockets: &'a mut Sockets,
}

impl Carrier for Between<'_> {
    fn is_lost(&self) -> bool {
        false
    }

    fn is_readable(&self) -> bool {
        self.sockets.is_readable(self.from)
    }

    fn is_writable(&self) -> bool {
        self.sockets.is_writable(self.to)
    }

    fn has_room(&self, _limit_bytes: usize) -> bool {
        true
    }

    fn write(&mut self) -> usize {
        let (oldest, _) = self.held.as_slices();
        let piece = &oldest[..oldest.len().min(PIECE_BYTES)];
        let written = self.sockets.write(self.to, piece);
        self.held.drain(..written);
        written
    }

    fn read(&mut self, room: usize, _held_bytes: usize) -> Taken {
        let mut piece = [0; PIECE_BYTES];
        let wanted = room.min(PIECE_BYTES);
        let held_bytes = self.sockets.read(self.from, &mut piece[..wanted]);
        self.held.extend(&piece[..held_bytes]);
        let has_ended = held_bytes == 0 && self.sockets.has_ended(self.from);
        Taken {
            held_bytes,
            passed_bytes: 0,
            end: has_ended.then_some(End::Fin),
        }
    }
}

/// The governor's access to both ends of a flow.
struct Ends<'a> {
    ends: [u32; 2],
    sockets: &'a mut Sockets,
}

impl Sides for Ends<'_> {
    fn reading(&self, side: usize) -> Option<Reading> {
        let end = self.ends[side];
        let tcp = self.sockets.tcp(end, (SessionId(0), ConnectionId(0)));
        let receiver = self.sockets.network.end(end).receiver();
        let info = receiver.info();
        Some(Reading {
            cwnd_packets: tcp.cwnd_packets,
            mss_bytes: tcp.mss_bytes,
            advertised_mss_bytes: receiver.advertised_mss(),
            srtt_ns: tcp.srtt_ns,
            min_rtt_ns: tcp.min_rtt_ns,
            receiver_rtt_ns: info.round_trip_us.unwrap_or(0) * 1000,
            peer_window_bytes: tcp.rwnd_bytes,
            offered_window_bytes: Some(u32::try_from(info.window_bytes).unwrap_or(u32::MAX)),
            pacing_bytes_per_s: tcp.pacing_bytes_per_s,
            acked_bytes: tcp.acked_bytes,
            received_bytes: receiver.received_bytes(),
            unsent_bytes: tcp.unsent_bytes,
            busy_ns: tcp.busy_ns,
            rwnd_limited_ns: tcp.rwnd_limited_ns,
            has_ecn: tcp.ecn != Ecn::Off,
        })
    }

    fn memory(&self, side: usize) -> Option<Memory> {
        Some(self.sockets.memory(self.ends[side]))
    }

    fn set_receive_buffer(&mut self, side: usize, bytes: u64) -> u64 {
        self.sockets
            .network
            .set_receive_buffer(self.ends[side], bytes);
        bytes
    }

    fn set_window_clamp(&mut self, side: usize, bytes: u32) {
        let end = self.ends[side];
        self.sockets.network.set_window_clamp(end, u64::from(bytes));
    }

    fn set_most_unsent(&mut self, side: usize, bytes: u32) {
        let end = self.ends[side];
        self.sockets.network.set_most_unsent(end, u64::from(bytes));
    }

    fn order(&mut self, side: usize, order: &Order) {
        self.sockets.network.order_ece(self.ends[side], *order);
    }

    fn signals(&self, side: usize) -> Signals {
        self.sockets.network.ece_signals(self.ends[side])
    }
}
