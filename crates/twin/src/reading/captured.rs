//! What captured packets show of what a recording has in records of its own: the connections, their keys and the path.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wansan_insight::Cell;
use wansan_insight::opcode::{DATA_IN, DATA_OUT, FINAL_BIT, R2T, SCSI_COMMAND};
use wansan_insight::wire::Carrier;
use wansan_iscsi::keys::Wanted;
use wansan_sim::tcp::receive::ReceiveConfig;
use wansan_sim::tcp::send::BufferConfig;
use wansan_trace::NameId;
use wansan_trace::event::{Connection, Packet, Pdu, PduDirection, Role, Verdict};
use wansan_trace::file::{Names, Row, Table};

use super::Unfit;

/// The transfer tag of data that nobody asked for (RFC 7143 §11.7.4).
const UNASKED: u32 = u32::MAX;
/// Linux counts as much memory for a segment as for its data again: a receive buffer offers half of itself
/// (`tcp_adv_win_scale`).
const BUFFER_OF_WINDOW: u64 = 2;
/// Data that tells a path's rate by how soon it was acknowledged: 64 segments, of which every other one is.
const RUN_BYTES: u32 = 64 * 1448;
/// The least rate that is taken.
const LEAST_RATE_BITS_PER_S: u64 = 64_000;
/// Bytes of an Ethernet header.
const ETHERNET_BYTES: u64 = 14;
/// What is taken for a session of which the capture shows no more.
const TAKEN: [&str; 3] = [
    "TCP's settings at both ends: CUBIC, no Nagle's algorithm, delayed acknowledgements and Linux's send buffers are taken",
    "the negotiated keys: what the PDUs show of them is taken, and no digests",
    "how many I/Os the application would keep in flight: as many as the initiator had under way are taken",
];

/// A record for each end of each captured connection.
pub(super) fn connections(
    cell: &Cell,
    unknown: &mut Vec<String>,
) -> Result<Table<Connection>, Unfit> {
    let keys = keys(cell);
    let mut rows = Vec::new();
    for carrier in &cell.carriers {
        for (role, host) in [(Role::Initiator, NameId(0)), (Role::Target, NameId(1))] {
            rows.push(Row {
                host,
                record: end(cell, carrier, role, &keys),
            });
        }
    }
    if rows.is_empty() {
        return Err(Unfit::Filtered);
    }
    unknown.extend(TAKEN.map(str::to_owned));
    Ok(Table {
        rows,
        names: Names::default(),
        dropped: BTreeMap::new(),
    })
}

fn end(cell: &Cell, carrier: &Carrier, role: Role, keys: &Keys) -> Connection {
    let own = usize::from(role == Role::Target);
    let addresses = [carrier.initiator, carrier.target];
    let (local, remote) = (addresses[own], addresses[1 - own]);
    let scale = |end: usize| carrier.shifts[end].unwrap_or(0) as u8;
    let mss_bytes = carrier.begin.map_or(0, |begin| begin.mss_bytes[own]);
    let [_, _, send_most] = BufferConfig::default().wmem_bytes;
    let most_sent = [keys.longest_sent_bytes, keys.longest_received_bytes];
    Connection {
        session: carrier.session,
        connection: carrier.connection,
        role,
        local,
        remote,
        mss_bytes: mss_bytes as u32,
        local_window_scale: scale(own),
        remote_window_scale: scale(1 - own),
        send_buffer_max_bytes: send_most,
        receive_buffer_max_bytes: receive_buffer_bytes(cell, carrier, own),
        max_send_data_bytes: most_sent[own],
        max_receive_data_bytes: most_sent[1 - own],
        initial_r2t: keys.wanted.initial_r2t,
        immediate_data: keys.wanted.immediate_data,
        first_burst_bytes: keys.wanted.first_burst_bytes,
        max_burst_bytes: keys.wanted.max_burst_bytes,
        max_outstanding_r2t: keys.wanted.max_outstanding_r2t,
        data_sequence_in_order: true,
        ..Connection::BLANK
    }
}

/// What the receive buffer of an end may grow to: twice the widest window that it has offered where that no longer
/// grew in the second half of the capture, else Linux's.
fn receive_buffer_bytes(cell: &Cell, carrier: &Carrier, own: usize) -> u64 {
    let address = [carrier.initiator, carrier.target][own];
    let shift = carrier.shifts[own].unwrap_or(0);
    let rows = cell.packet.iter().flat_map(|table| &table.rows);
    let offered: Vec<u64> = rows
        .map(|row| &row.record)
        .filter(|packet| packet.source == address)
        .map(|packet| u64::from(packet.window) << shift)
        .collect();
    let widest = |offered: &[u64]| offered.iter().copied().max().unwrap_or(0);
    let (first, second) = offered.split_at(offered.len() / 2);
    let bytes = BUFFER_OF_WINDOW * widest(&offered);
    let [_, _, usual] = ReceiveConfig::default().rmem_bytes;
    match widest(first) >= widest(second) {
        true => bytes,
        false => bytes.max(usual),
    }
}

/// What PDUs show of the keys of all sessions.
struct Keys {
    wanted: Wanted,
    /// The longest data segment of the initiators, and of the target.
    longest_sent_bytes: u32,
    longest_received_bytes: u32,
}

fn keys(cell: &Cell) -> Keys {
    let usual = Wanted::default();
    let rows = cell.pdu.iter().flat_map(|table| &table.rows);
    let sent: Vec<&Pdu> = rows
        .map(|row| &row.record)
        .filter(|pdu| pdu.direction == PduDirection::Sent)
        .collect();
    // The longest data segment, where one I/O took several: else nothing says how long they may be.
    let longest = |opcodes: &[u8]| {
        let of_way = || sent.iter().filter(|pdu| opcodes.contains(&pdu.opcode));
        let bytes = of_way().map(|pdu| pdu.data_bytes).max().unwrap_or(0);
        match of_way().any(|pdu| pdu.buffer_offset > 0) {
            true => bytes,
            false => bytes.max(usual.max_recv_data_bytes),
        }
    };
    let mut unasked: BTreeMap<_, u32> = BTreeMap::new();
    let mut bursts: BTreeMap<_, u32> = BTreeMap::new();
    for pdu in &sent {
        let task = (pdu.session, pdu.task);
        match pdu.opcode {
            SCSI_COMMAND => *unasked.entry(task).or_default() = pdu.data_bytes,
            DATA_OUT if pdu.transfer_tag == UNASKED => {
                *unasked.entry(task).or_default() += pdu.data_bytes;
            }
            DATA_OUT => *bursts.entry((task, pdu.transfer_tag)).or_default() += pdu.data_bytes,
            _ => {}
        }
    }
    let of = |opcode: u8| sent.iter().filter(move |pdu| pdu.opcode == opcode);
    let first_burst = unasked.values().copied().max().unwrap_or(0);
    let max_burst = bursts.values().copied().max();
    let max_burst = max_burst.unwrap_or(usual.max_burst_bytes).max(first_burst);
    Keys {
        longest_sent_bytes: longest(&[SCSI_COMMAND, DATA_OUT]),
        longest_received_bytes: longest(&[DATA_IN]),
        wanted: Wanted {
            initial_r2t: !of(DATA_OUT).any(|pdu| pdu.transfer_tag == UNASKED),
            immediate_data: of(SCSI_COMMAND).any(|pdu| pdu.data_bytes > 0),
            first_burst_bytes: first_burst.max(512),
            max_burst_bytes: max_burst,
            max_outstanding_r2t: most_outstanding_r2t(&sent),
            ..usual
        },
    }
}

/// The most R2Ts of a task of which the data was not yet sent, one at least.
fn most_outstanding_r2t(sent: &[&Pdu]) -> u16 {
    let mut open: BTreeMap<_, u16> = BTreeMap::new();
    let mut most = 1;
    for pdu in sent {
        let count = open.entry((pdu.session, pdu.task));
        match pdu.opcode {
            SCSI_COMMAND => *count.or_default() = 0,
            R2T => {
                let count = count.or_default();
                *count = count.saturating_add(1);
                most = most.max(*count);
            }
            DATA_OUT if pdu.transfer_tag != UNASKED && pdu.flags & FINAL_BIT != 0 => {
                let count = count.or_default();
                *count = count.saturating_sub(1);
            }
            _ => {}
        }
    }
    most
}

/// The packets towards the targets, or those back.
fn packets(cell: &Cell, is_there: bool) -> impl Iterator<Item = &Packet> {
    let is_target = |end: SocketAddr| cell.carriers.iter().any(|it| it.target == end);
    let rows = cell.packet.iter().flat_map(|table| &table.rows);
    let packets = rows.map(|row| &row.record);
    packets.filter(move |packet| is_target(packet.destination) == is_there)
}

/// The share of the packets that was lost on a way, 0 to 1.
pub(super) fn loss_share(cell: &Cell, is_there: bool) -> f64 {
    let lost = packets(cell, is_there).filter(|packet| packet.verdict != Verdict::Delivered);
    lost.count() as f64 / packets(cell, is_there).count().max(1) as f64
}

/// The least time that a packet took on a way, in ns; 0 where none tells.
pub(super) fn least_transit_ns(cell: &Cell, is_there: bool) -> u64 {
    let took =
        packets(cell, is_there).map(|packet| packet.departed.ns().saturating_sub(packet.time.ns()));
    took.filter(|ns| *ns > 0).min().unwrap_or(0)
}

/// The rate at which the receiver on a way acknowledged data that came close together, in bits of layer 2 per second: what
/// the way can carry, where more was ever sent than that. `None` where less came together than tells.
pub(super) fn rate_bits_per_s(cell: &Cell, is_there: bool) -> Option<u64> {
    let mut acks: BTreeMap<SocketAddr, Vec<(u64, u32)>> = BTreeMap::new();
    for packet in packets(cell, !is_there) {
        acks.entry(packet.source)
            .or_default()
            .push((packet.time.ns(), packet.ack));
    }
    let data = packets(cell, is_there).filter(|packet| packet.payload_bytes > 0);
    let (payload, frames) = data.fold((0, 0), |(payload, frames), packet| {
        let frame = u64::from(packet.ip_bytes) + ETHERNET_BYTES;
        (payload + u64::from(packet.payload_bytes), frames + frame)
    });
    let rates = acks.values().filter_map(|acks| fastest_run(acks));
    let fastest = rates.max_by(f64::total_cmp)?;
    let bits = fastest * 8.0 * frames as f64 / payload.max(1) as f64;
    Some((bits as u64).max(LEAST_RATE_BITS_PER_S))
}

/// The most bytes per second of any [`RUN_BYTES`] that were acknowledged one after the other.
fn fastest_run(acks: &[(u64, u32)]) -> Option<f64> {
    let mut first = 0;
    let mut fastest: Option<f64> = None;
    for (last, &(at_ns, ack)) in acks.iter().enumerate() {
        // Sequence numbers wrap.
        let since = |place: usize| (ack.wrapping_sub(acks[place].1) as i32).max(0) as u32;
        while first + 1 < last && since(first + 1) >= RUN_BYTES {
            first += 1;
        }
        let bytes = since(first);
        if bytes >= RUN_BYTES {
            let took_ns = at_ns.saturating_sub(acks[first].0).max(1);
            let rate = f64::from(bytes) * 1e9 / took_ns as f64;
            fastest = Some(fastest.map_or(rate, |fastest| fastest.max(rate)));
        }
    }
    fastest
}
