//! Tunnels: their encapsulation, the paths that they take, and the connections inside.
//!
//! Of the traffic inside, only lengths are visible. Which connections a tunnel carries is inferred from byte counts.

use std::collections::{BTreeMap, HashSet};

use wansan_insight::opcode::is_request;
use wansan_insight::traffic::{Content, Flow, FlowDirection, Traffic};
use wansan_insight::{Cell, Window};
use wansan_sim::network::vpn::{Cost, Wrapping};
use wansan_trace::event::{Packet, Role, Verdict};
use wansan_trace::{ConnectionId, NameId, SessionId};

use super::Unfit;
use crate::setup::{Direction, HEADERS_BYTES, Tunnel};

/// A flow with a smaller share of the encrypted bytes is no data tunnel, but IPsec's key exchange, for example.
const LEAST_SHARE: f64 = 0.01;
/// Block sizes to which ciphers pad: AES-CBC, 3DES, and ESP itself (RFC 4303 §2.4).
const BLOCKS: [u32; 3] = [16, 8, 4];
/// ESP's pad length and next header fields, present only with padding.
const TRAILER_BYTES: u32 = 2;
/// A program has one thread for both directions if its busiest thread does this share of the work.
const ALONE: f64 = 0.98;
/// Maximum number of assignments of connections to tunnels that are tried.
const MOST_TRIES: usize = 1 << 16;
/// The basic header segment of a PDU (RFC 7143 §11.2).
const PDU_HEADER_BYTES: u64 = 48;

/// Identifies a connection of a session.
pub(super) type Of = (SessionId, ConnectionId);

/// A packet of a tunnel, with its direction in the tunnel and the index of the path direction that it crossed.
type Passed<'a> = (FlowDirection, Option<usize>, &'a Packet);

/// The tunnels of a cell.
#[derive(Debug, Default)]
pub(super) struct Tunnels {
    pub(super) tunnels: Vec<Tunnel>,
    ways: Vec<Ways>,
    /// Index of the tunnel of each connection that goes through one.
    through: BTreeMap<Of, usize>,
}

/// What the packets of a tunnel show, towards the target and back.
#[derive(Debug, Default)]
struct Ways {
    /// Indices of the path directions that it takes, in order.
    places: [Vec<usize>; 2],
    /// Bytes of TCP payload in it.
    bytes: [u64; 2],
    /// Times, sorted, at which its packets arrived at the first of the directions, and departed from the last.
    entered_ns: [Vec<u64>; 2],
    departed_ns: [Vec<u64>; 2],
}

impl Tunnels {
    /// Finds the tunnels of a cell; `in_clear` are the connections of which unencrypted packets were seen.
    pub(super) fn of(
        cell: &Cell,
        directions: &[Direction],
        window: Window,
        in_clear: &HashSet<Of>,
        unknown: &mut Vec<String>,
    ) -> Result<Tunnels, Unfit> {
        let threads = cell.thread.iter().flat_map(|table| &table.rows);
        let encrypts = { threads }.any(|row| row.record.role == Role::Vpn);
        let Some(packets) = &cell.packet else {
            return match encrypts {
                true => Err(Unfit::Tunnel),
                false => Ok(Tunnels::default()),
            };
        };
        let traffic = Traffic::of(cell);
        let mut flows: BTreeMap<usize, Vec<Passed<'_>>> = BTreeMap::new();
        for packet in packets.rows.iter().map(|row| &row.record) {
            if let Some((place, way)) = traffic.flow(packet)
                && traffic.flows[place].content == Content::Encrypted
            {
                let name = packets.names.get(packet.path);
                let direction = directions.iter().position(|it| it.name == name);
                let of_flow = flows.entry(place).or_default();
                of_flow.push((way, direction, packet));
            }
        }
        let amount = |packets: &[Passed<'_>]| -> u64 {
            packets.iter().map(|it| u64::from(it.2.ip_bytes)).sum()
        };
        let all: u64 = flows.values().map(|it| amount(it)).sum();
        flows.retain(|_, packets| amount(packets) as f64 >= LEAST_SHARE * all as f64);
        if flows.is_empty() {
            return Ok(Tunnels::default());
        }
        let connections = cell.connection.iter().flat_map(|table| &table.rows);
        let segment = connections.map(|row| row.record.mss_bytes).max();
        let inner_bytes = segment.unwrap_or(0) + HEADERS_BYTES;
        let mut found = Tunnels::default();
        for (place, packets) in flows {
            let wrapping = wrapping(&packets, inner_bytes);
            let Flow {
                initiator, target, ..
            } = traffic.flows[place];
            found.ways.push(Ways::of(&packets, wrapping));
            found.tunnels.push(Tunnel {
                wrapping,
                cost: Cost::default(),
                ends: [initiator, target],
                has_one_thread: true,
            });
        }
        let (cost, has_one_thread) = processors(cell, window, &found.ways, unknown);
        for tunnel in &mut found.tunnels {
            (tunnel.cost, tunnel.has_one_thread) = (cost, has_one_thread);
        }
        found.assign(cell, in_clear)?;
        Ok(found)
    }

    /// Index of the tunnel of a connection, if it goes through one.
    pub(super) fn through(&self, of: Of) -> Option<usize> {
        self.through.get(&of).copied()
    }

    /// The path directions that a tunnel takes, towards the target and back.
    pub(super) fn places(&self, tunnel: usize) -> &[Vec<usize>; 2] {
        &self.ways[tunnel].places
    }

    /// Whether a packet that crossed a path direction in clear, towards the target (0) or back (1), had yet to enter
    /// the tunnel: packets enter it right after they have left such a path, or come out right before they arrive at
    /// one.
    pub(super) fn is_ahead(&self, tunnel: usize, way: usize, packet: &Packet) -> bool {
        let ways = &self.ways[tunnel];
        let (came, left) = (packet.time.ns(), packet.departed.ns());
        let entered = &ways.entered_ns[way];
        let next = entered.get(entered.partition_point(|at| *at < left));
        let departed = &ways.departed_ns[way];
        let last = departed.partition_point(|at| *at <= came).checked_sub(1);
        let until = next.map_or(u64::MAX, |at| at - left);
        let since = last.map_or(u64::MAX, |place| came - departed[place]);
        until < since
    }

    /// Assigns connections to tunnels so that their bytes best match those of the tunnels.
    fn assign(&mut self, cell: &Cell, in_clear: &HashSet<Of>) -> Result<(), Unfit> {
        let connections: Vec<(Of, [u64; 2])> = sent_bytes(cell).into_iter().collect();
        let choices = |of: &Of| self.ways.len() + usize::from(in_clear.contains(of));
        let tries = connections
            .iter()
            .try_fold(1_usize, |tries, (of, _)| tries.checked_mul(choices(of)));
        let tries = tries.filter(|tries| *tries <= MOST_TRIES);
        let tries = tries.ok_or(Unfit::Tunnel)?;
        // The digits of a number are the choices for the connections.
        let chosen = |mut number: usize| {
            let digits = connections.iter().map(move |(of, _)| {
                let digit = number % choices(of);
                number /= choices(of);
                digit
            });
            digits.collect::<Vec<usize>>()
        };
        let unexplained = |number: &usize| -> u64 {
            let mut carried = vec![[0_u64; 2]; self.ways.len()];
            for ((_, bytes), tunnel) in connections.iter().zip(chosen(*number)) {
                if let Some(carried) = carried.get_mut(tunnel) {
                    carried[0] += bytes[0];
                    carried[1] += bytes[1];
                }
            }
            let off = self.ways.iter().zip(carried);
            off.map(|(way, carried)| {
                way.bytes[0].abs_diff(carried[0]) + way.bytes[1].abs_diff(carried[1])
            })
            .sum()
        };
        let best = (0..tries).min_by_key(unexplained).unwrap_or(0);
        let best = chosen(best);
        let each = connections.iter().zip(best);
        let through = each.filter(|(_, tunnel)| *tunnel < self.ways.len());
        self.through = through.map(|((of, _), tunnel)| (*of, tunnel)).collect();
        Ok(())
    }
}

impl Ways {
    fn of(packets: &[Passed<'_>], wrapping: Wrapping) -> Ways {
        let mut ways = Ways::default();
        let around = wrapping.outer_bytes(HEADERS_BYTES);
        for &(way, direction, packet) in packets {
            let way = usize::from(way == FlowDirection::ToInitiator);
            let Some(direction) = direction else { continue };
            let places = &mut ways.places[way];
            if !places.contains(&direction) {
                places.push(direction);
            }
            if places.first() == Some(&direction) {
                ways.entered_ns[way].push(packet.time.ns());
                let data = u32::from(packet.ip_bytes).saturating_sub(around);
                ways.bytes[way] += u64::from(data);
            }
            if places.last() == Some(&direction) && packet.verdict == Verdict::Delivered {
                ways.departed_ns[way].push(packet.departed.ns());
            }
        }
        let times = ways.entered_ns.iter_mut().chain(&mut ways.departed_ns);
        times.for_each(|times| times.sort_unstable());
        ways
    }

    /// Packets that entered it in the window, and their bytes before encryption.
    fn passed(&self, way: usize, window: Window) -> [f64; 2] {
        let entered = &self.entered_ns[way];
        let from = entered.partition_point(|at| *at < window.from_ns);
        let to = entered.partition_point(|at| *at < window.to_ns);
        let packets = (to - from) as f64;
        // Packets in the window are assumed to have the average length.
        let data = self.bytes[way] as f64 / entered.len().max(1) as f64;
        [packets, packets * (data + f64::from(HEADERS_BYTES))]
    }
}

/// Encapsulation of a tunnel whose full-sized inner packets have `inner_bytes` bytes, from the outer length that
/// carries most bytes, and the block size that divides all differences of lengths.
fn wrapping(packets: &[Passed<'_>], inner_bytes: u32) -> Wrapping {
    let mut lengths: BTreeMap<u32, u64> = BTreeMap::new();
    for (_, _, packet) in packets {
        let bytes = u32::from(packet.ip_bytes);
        *lengths.entry(bytes).or_default() += u64::from(bytes);
    }
    let most = lengths.iter().max_by_key(|(_, carried)| **carried);
    let outer_bytes = most.map_or(inner_bytes, |(bytes, _)| *bytes);
    let fits = |block: &&u32| {
        lengths
            .keys()
            .all(|it| it.abs_diff(outer_bytes) % **block == 0)
    };
    let block = BLOCKS.iter().find(fits).copied();
    let trailer_bytes = block.map_or(0, |_| TRAILER_BYTES);
    let block_bytes = block.unwrap_or(1);
    let encrypted = (inner_bytes + trailer_bytes).next_multiple_of(block_bytes);
    Wrapping {
        around_bytes: outer_bytes.saturating_sub(encrypted),
        trailer_bytes,
        block_bytes,
    }
}

/// CPU cost of a packet at either end of a tunnel, and whether one thread handles both directions there.
///
/// If each direction has a thread, the times of the busier threads and of the rest give the costs per packet and per
/// byte: the directions differ in mean packet length, since acknowledgements are short.
fn processors(
    cell: &Cell,
    window: Window,
    ways: &[Ways],
    unknown: &mut Vec<String>,
) -> (Cost, bool) {
    let mut programs: BTreeMap<NameId, BTreeMap<u32, [u64; 2]>> = BTreeMap::new();
    let samples = cell.thread.iter().flat_map(|table| &table.rows);
    let samples = samples.map(|row| &row.record);
    for it in samples.filter(|it| it.role == Role::Vpn && window.contains(it.time.ns())) {
        let threads = programs.entry(it.program).or_default();
        let [_, last] = threads.entry(it.thread).or_insert([it.ran_ns; 2]);
        *last = it.ran_ns;
    }
    if programs.is_empty() {
        unknown.push("the CPU time of a tunnel's packets: assumed to be none".to_owned());
        return (Cost::default(), true);
    }
    let ran = |[first, last]: &[u64; 2]| (last - first) as f64;
    let all: f64 = programs.values().flat_map(BTreeMap::values).map(ran).sum();
    let busiest = programs.values();
    let busiest = busiest.map(|threads| threads.values().map(ran).fold(0.0, f64::max));
    let busiest: f64 = busiest.sum();
    let passed = [0, 1].map(|way| {
        let each = ways.iter().map(|ways| ways.passed(way, window));
        each.fold([0.0; 2], |sum, it| [sum[0] + it[0], sum[1] + it[1]])
    });
    // Each packet is encrypted and decrypted.
    let twice = passed.map(|[packets, bytes]| [2.0 * packets, 2.0 * bytes]);
    let [[packets, bytes], other] = match twice[0][1] >= twice[1][1] {
        true => twice,
        false => [twice[1], twice[0]],
    };
    let mean = Cost {
        packet_ns: (all / (packets + other[0]).max(1.0)) as u64,
        byte_ps: 0,
    };
    if busiest >= ALONE * all {
        return (mean, true);
    }
    // The busier direction takes `busiest`, the other the rest.
    let rest = all - busiest;
    let determinant = packets * other[1] - other[0] * bytes;
    let packet_ns = (busiest * other[1] - rest * bytes) / determinant;
    let byte_ns = (packets * rest - other[0] * busiest) / determinant;
    let is_told = packet_ns.is_finite() && packet_ns >= 0.0 && byte_ns >= 0.0;
    let told = Cost {
        packet_ns: packet_ns as u64,
        byte_ps: (byte_ns * 1e3) as u64,
    };
    (if is_told { told } else { mean }, false)
}

/// Bytes of PDUs that each connection carried, towards the target and back.
fn sent_bytes(cell: &Cell) -> BTreeMap<Of, [u64; 2]> {
    let mut sent: BTreeMap<Of, [u64; 2]> = BTreeMap::new();
    let connections = cell.connection.iter().flat_map(|table| &table.rows);
    let connections = connections.map(|row| &row.record);
    for of in connections.filter(|it| it.role == Role::Initiator) {
        sent.insert((of.session, of.connection), [0; 2]);
    }
    for pdu in cell.pdu.iter().flat_map(|table| &table.rows) {
        let pdu = &pdu.record;
        if let Some(bytes) = sent.get_mut(&(pdu.session, pdu.connection)) {
            let end = pdu.stream_offset + PDU_HEADER_BYTES + u64::from(pdu.data_bytes);
            let way = &mut bytes[usize::from(!is_request(pdu.opcode))];
            *way = end.max(*way);
        }
    }
    sent
}
