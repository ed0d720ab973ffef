//! Derives from captured packets what a recording has in records of its own: connections, their keys and the path.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use wansan_insight::Cell;
use wansan_insight::capture::{Capture, CaptureEnd, MOST_KEPT};
use wansan_insight::opcode::{DATA_IN, DATA_OUT, FINAL_BIT, R2T, SCSI_COMMAND};
use wansan_insight::stall::Times;
use wansan_insight::wire::Carrier;
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::wire::BHS_BYTES;
use wansan_sim::tcp::receive::ReceiveConfig;
use wansan_sim::tcp::send::BufferConfig;
use wansan_trace::NameId;
use wansan_trace::event::{Connection, Packet, Pdu, PduDirection, Role};
use wansan_trace::file::{Names, Row, Table};

use super::Unfit;

/// The Target Transfer Tag of unsolicited data (RFC 7143 §11.7.4).
const UNSOLICITED: u32 = u32::MAX;
/// Linux accounts as much memory for a segment's overhead as for its data: a receive buffer offers half of its size
/// (`tcp_adv_win_scale`).
const BUFFER_OF_WINDOW: u64 = 2;
/// Amount of data whose acknowledgement times show a path's rate: 64 segments, acknowledged in pairs.
const RUN_BYTES: u32 = 64 * 1448;
/// Lower limit for that rate.
const LEAST_RATE_BITS_PER_S: u64 = 64_000;
/// Bytes of an Ethernet header.
const ETHERNET_BYTES: u64 = 14;
/// TCP flags.
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
/// The maximum window scale (RFC 7323 §2.3).
const MOST_SHIFT: u32 = 14;
/// The MSS that every host has to accept (RFC 9293 §3.7.1), and that of Ethernet with timestamps.
const LEAST_MSS_BYTES: u64 = 536;
const USUAL_MSS_BYTES: u64 = 1448;
/// PDUs with data of initiators, and of the target.
const WITH_DATA: [&[u8]; 2] = [&[SCSI_COMMAND, DATA_OUT], &[DATA_IN]];
/// Assumptions about a session beyond what its capture shows.
const TAKEN: [&str; 3] = [
    "TCP's settings at both ends: assumed to be CUBIC, Nagle's algorithm only at a target whose segments it held, delayed acknowledgements and Linux's send buffers",
    "the negotiated keys: assumed to be as far as the PDUs show them, without digests",
    "how many I/Os the application would keep in flight: assumed to be as many as the initiator had outstanding",
];

/// What the capture is known to lack.
pub(super) fn lacks(capture: &Capture) -> Vec<String> {
    let end = match &capture.end {
        CaptureEnd::Whole => None,
        CaptureEnd::CutOff => Some("the end of the capture, in the middle of a frame".to_owned()),
        CaptureEnd::Damaged(how) => Some(format!("the capture behind a damage: {how}")),
        CaptureEnd::Full => Some(format!(
            "the capture behind its first {MOST_KEPT} segments and PDUs"
        )),
    };
    let mut lacks: Vec<String> = end.into_iter().collect();
    if capture.unpaired > 0 {
        lacks.push(format!(
            "{} I/Os of which the capture has missed the command or the status",
            capture.unpaired
        ));
    }
    lacks
}

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
    // Without a captured SYN, the MSS is the longest payload. Where that holds a whole PDU, longer ones may be possible.
    let mss_bytes = match carrier.begin {
        Some(begin) if begin.times != Times::ByAcknowledgements => begin.mss_bytes[own],
        Some(begin) if begin.mss_bytes[own] < longest_pdu_bytes(cell, carrier, own) => {
            begin.mss_bytes[own]
        }
        begin => begin.map_or(0, |it| it.mss_bytes[own]).max(USUAL_MSS_BYTES),
    };
    let mss_bytes = match mss_bytes {
        LEAST_MSS_BYTES.. => mss_bytes,
        _ => USUAL_MSS_BYTES,
    };
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

/// Length of the longest PDU without digests that an end of a connection sent.
fn longest_pdu_bytes(cell: &Cell, carrier: &Carrier, own: usize) -> u64 {
    let rows = cell.pdu.iter().flat_map(|table| &table.rows);
    let sent = rows.map(|row| &row.record).filter(|pdu| {
        (pdu.session, pdu.connection) == (carrier.session, carrier.connection)
            && WITH_DATA[own].contains(&pdu.opcode)
    });
    let longest = sent.map(|pdu| u64::from(pdu.data_bytes)).max();
    BHS_BYTES as u64 + longest.unwrap_or(0)
}

/// Maximum receive buffer of an end: twice the largest window that it offered, if that did not grow in the second half
/// of the capture; otherwise at least Linux's default. Windows in SYNs are not scaled (RFC 7323 §2.2), and without a
/// captured SYN the scale of the others is unknown.
fn receive_buffer_bytes(cell: &Cell, carrier: &Carrier, own: usize) -> u64 {
    let [_, _, usual] = ReceiveConfig::default().rmem_bytes;
    let Some(shift) = carrier.shifts[own] else {
        return usual;
    };
    let address = [carrier.initiator, carrier.target][own];
    let rows = cell.packet.iter().flat_map(|table| &table.rows);
    let offered: Vec<u64> = rows
        .map(|row| &row.record)
        .filter(|packet| packet.source == address && packet.flags & SYN == 0)
        .map(|packet| u64::from(packet.window) << shift.min(MOST_SHIFT))
        .collect();
    let widest = |offered: &[u64]| offered.iter().copied().max().unwrap_or(0);
    let (first, second) = offered.split_at(offered.len() / 2);
    let bytes = BUFFER_OF_WINDOW * widest(&offered);
    match widest(first) >= widest(second) && bytes > 0 {
        true => bytes,
        false => bytes.max(usual),
    }
}

/// What PDUs show of the keys, over all sessions.
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
    // The longest data segment, if an I/O took several; otherwise the limit is unknown and at least the default.
    let longest = |opcodes: &[u8]| {
        let of_way = || sent.iter().filter(|pdu| opcodes.contains(&pdu.opcode));
        let bytes = of_way().map(|pdu| pdu.data_bytes).max().unwrap_or(0);
        match of_way().any(|pdu| pdu.buffer_offset > 0) {
            true => bytes,
            false => bytes.max(usual.max_recv_data_bytes),
        }
    };
    // Tags are reused: a command or an R2T begins a new sum.
    let (mut unasked, mut bursts) = (BTreeMap::new(), BTreeMap::new());
    let (mut first_burst, mut asked_burst) = (0_u32, 0_u32);
    for pdu in &sent {
        let task = (pdu.session, pdu.task);
        let sum: &mut u32 = match pdu.opcode {
            SCSI_COMMAND => {
                unasked.insert(task, 0);
                unasked.entry(task).or_default()
            }
            R2T => {
                bursts.insert((task, pdu.transfer_tag), 0);
                continue;
            }
            DATA_OUT if pdu.transfer_tag == UNSOLICITED => unasked.entry(task).or_default(),
            DATA_OUT => bursts.entry((task, pdu.transfer_tag)).or_default(),
            _ => continue,
        };
        *sum = sum.saturating_add(pdu.data_bytes);
        let is_asked = pdu.opcode == DATA_OUT && pdu.transfer_tag != UNSOLICITED;
        let most = if is_asked {
            &mut asked_burst
        } else {
            &mut first_burst
        };
        *most = (*most).max(*sum);
    }
    let of = |opcode: u8| sent.iter().filter(move |pdu| pdu.opcode == opcode);
    let max_burst = match asked_burst {
        0 => usual.max_burst_bytes,
        most => most,
    };
    Keys {
        longest_sent_bytes: longest(WITH_DATA[0]),
        longest_received_bytes: longest(WITH_DATA[1]),
        wanted: Wanted {
            initial_r2t: !of(DATA_OUT).any(|pdu| pdu.transfer_tag == UNSOLICITED),
            immediate_data: of(SCSI_COMMAND).any(|pdu| pdu.data_bytes > 0),
            first_burst_bytes: first_burst.max(512),
            max_burst_bytes: max_burst.max(first_burst),
            max_outstanding_r2t: most_outstanding_r2t(&sent),
            ..usual
        },
    }
}

/// The maximum number of R2Ts of a task whose data was outstanding at once, at least one.
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
            DATA_OUT if pdu.transfer_tag != UNSOLICITED && pdu.flags & FINAL_BIT != 0 => {
                let count = count.or_default();
                *count = count.saturating_sub(1);
            }
            _ => {}
        }
    }
    most
}

/// Packets towards the targets if `is_there`, else packets back.
pub(super) fn packets(cell: &Cell, is_there: bool) -> impl Iterator<Item = &Packet> {
    let is_target = |end: SocketAddr| cell.carriers.iter().any(|it| it.target == end);
    let rows = cell.packet.iter().flat_map(|table| &table.rows);
    let packets = rows.map(|row| &row.record);
    packets.filter(move |packet| is_target(packet.destination) == is_there)
}

/// The minimum transit time of packets in one direction, in ns; 0 if unknown.
pub(super) fn least_transit_ns(cell: &Cell, is_there: bool) -> u64 {
    let took =
        packets(cell, is_there).map(|packet| packet.departed.ns().saturating_sub(packet.time.ns()));
    took.filter(|ns| *ns > 0).min().unwrap_or(0)
}

/// The rate at which the receiver of one direction acknowledged data that arrived close together, in bits per second
/// on layer 2: the direction's capacity, if more was ever sent. `None` if too little data arrived together.
pub(super) fn rate_bits_per_s(cell: &Cell, is_there: bool) -> Option<u64> {
    let mut acks: BTreeMap<(SocketAddr, SocketAddr), Vec<Acked>> = BTreeMap::new();
    let tells = |packet: &&Packet| packet.flags & (SYN | RST | ACK) == ACK;
    for packet in packets(cell, !is_there).filter(tells) {
        acks.entry((packet.source, packet.destination))
            .or_default()
            .push(Acked {
                at_ns: packet.time.ns(),
                ack: packet.ack,
                is_pure: packet.payload_bytes == 0,
            });
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

/// An acknowledgement.
#[derive(Clone, Copy)]
struct Acked {
    at_ns: u64,
    ack: u32,
    is_pure: bool,
}

/// The highest rate, in bytes per second, of any [`RUN_BYTES`] acknowledged in sequence. Data acknowledged after a
/// duplicate had arrived earlier, so a run starts again there.
fn fastest_run(acks: &[Acked]) -> Option<f64> {
    let mut first = 0;
    let mut fastest: Option<f64> = None;
    let mut was_duplicate = false;
    for (last, acked) in acks.iter().enumerate() {
        // Sequence numbers wrap.
        let since = |place: usize| (acked.ack.wrapping_sub(acks[place].ack) as i32).max(0) as u32;
        let is_duplicate = last > 0 && acked.is_pure && since(last - 1) == 0;
        if was_duplicate && !is_duplicate {
            first = last;
        }
        was_duplicate = is_duplicate;
        while first + 1 < last && since(first + 1) >= RUN_BYTES {
            first += 1;
        }
        let bytes = since(first);
        if bytes >= RUN_BYTES {
            let took_ns = acked.at_ns.saturating_sub(acks[first].at_ns).max(1);
            let rate = f64::from(bytes) * 1e9 / took_ns as f64;
            fastest = Some(fastest.map_or(rate, |fastest| fastest.max(rate)));
        }
    }
    fastest
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Acknowledgements of two segments each, 200 µs apart, starting at that sequence number.
    fn steady(from: u32, count: u32) -> Vec<Acked> {
        let each = (0..count).map(|n| Acked {
            at_ns: u64::from(n) * 200_000,
            ack: from.wrapping_add(n * 2896),
            is_pure: true,
        });
        each.collect()
    }

    #[test]
    fn the_rate_is_that_of_a_run_also_where_sequence_numbers_wrap() {
        for from in [0, u32::MAX - 50_000] {
            let rate = fastest_run(&steady(from, 100)).unwrap();
            assert!((rate / (2896.0 * 5000.0) - 1.0).abs() < 0.01, "{rate}");
        }
        // Too little data.
        assert_eq!(fastest_run(&steady(0, 20)), None);
        assert_eq!(fastest_run(&[]), None);
    }

    #[test]
    fn what_a_retransmission_releases_is_no_rate() {
        let mut acks = steady(0, 100);
        // The 50th segment is missing for 20 acknowledgements; then all data is acknowledged at once.
        for place in 50..70 {
            acks[place].ack = acks[49].ack;
        }
        let rate = fastest_run(&acks).unwrap();
        assert!((rate / (2896.0 * 5000.0) - 1.0).abs() < 0.05, "{rate}");
    }
}
