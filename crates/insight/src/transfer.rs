//! An interval of a cell's packets: when each was sent, when it arrived or where it was
//! lost, and which PDU it carried. The data of a packet transfer diagram.

use foldhash::HashMap;

use wansan_trace::event::{Packet, Pdu, PduDirection, Verdict};
use wansan_trace::file::Row;
use wansan_trace::{NameId, SessionId, TaskTag};

use crate::cell::Cell;
use crate::opcode::SCSI_COMMAND;
use crate::pdu_stream::{Carried, PduStreams, Placed};
use crate::traffic::{self, Content, Ends, Flow, FlowDirection, Traffic};
use crate::window::Window;
use crate::wire::Carrier;

/// A stretch continues until this many of the I/Os submitted in it have completed …
const IOS: usize = 10;
/// … and it has at least this many packets.
const MIN_PACKETS: usize = 400;
/// TCP flags.
const SYN: u8 = 0x02;
/// The ECN codepoint Congestion Experienced (RFC 3168 §5).
const CE: u8 = 0b11;

/// One packet on its way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Its row in `packet.parquet`, from 0.
    pub packet: usize,
    /// When it arrived at the first emulated path.
    pub sent_ns: u64,
    /// When it left the last path, or was dropped.
    pub ended_ns: u64,
    /// Whether it was delivered or dropped.
    pub verdict: Verdict,
    /// Its flow's index in [`Traffic::flows`].
    pub flow: usize,
    /// Its direction.
    pub way: FlowDirection,
    /// Offset of its first payload byte in its direction's stream, from 0; `None` if it is encrypted or the
    /// connection's beginning was not seen.
    pub place: Option<u64>,
    /// Offset up to which it acknowledges the other direction's stream.
    pub acked: Option<u64>,
    /// Bytes of TCP payload; for an encrypted packet, all bytes after its outer header.
    pub payload_bytes: u16,
    /// The TCP flags; 0 if it is encrypted.
    pub flags: u8,
    /// Whether it carries more than an acknowledgement, if that is visible.
    pub data: bool,
    /// Whether it was marked with ECN CE before it arrived.
    pub ce: bool,
    /// The PDUs in it, where they are known.
    pub carried: Option<Carried>,
    /// The PDUs that begin in it.
    pub begins: Vec<Placed>,
}

/// An interval of packets, in sending order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stretch {
    /// Its beginning, such as the first command of the window.
    pub from_ns: u64,
    /// Its packets.
    pub packets: Vec<Transfer>,
}

/// The stretch of the first I/Os of `window`, with at most `most` packets; `None` if no packets were recorded in it.
///
/// A packet that passes several emulated paths unchanged is one transfer from the first to the last. Packets of a
/// tunnel are left out if the connections inside it are also seen before and after the tunnel.
#[must_use]
pub fn stretch(cell: &Cell, traffic: &Traffic, window: Window, most: usize) -> Option<Stretch> {
    let pdus = cell.pdu.as_ref().map_or(&[][..], |table| &table.rows);
    let from_ns = first_command_ns(pdus, window).unwrap_or(window.from_ns);
    let done_ns = done_ns(cell, from_ns).unwrap_or(window.to_ns);
    let is_enough = |sent_ns: u64, found: usize| {
        let complete = sent_ns >= done_ns && found >= MIN_PACKETS;
        complete || found >= most || sent_ns >= window.to_ns
    };
    transfers(cell, traffic, from_ns, |_| true, is_enough)
}

/// The packets of a session sent from `from_ns` to `to_ns`; if there are more than `most`, only the first and the last
/// half of that number.
#[must_use]
pub fn around(
    cell: &Cell,
    traffic: &Traffic,
    session: SessionId,
    (from_ns, to_ns): (u64, u64),
    most: usize,
) -> Option<Stretch> {
    let is_of_session =
        |flow: &Flow| matches!(flow.content, Content::Session(of, _) if of == session);
    let is_enough = |sent_ns: u64, _| sent_ns > to_ns;
    let mut stretch = transfers(cell, traffic, from_ns, is_of_session, is_enough)?;
    let (first, last) = (most / 2, most - most / 2);
    if stretch.packets.len() > most {
        let from_last = stretch.packets.len() - last;
        stretch.packets.drain(first..from_last);
    }
    Some(stretch)
}

/// The packets of the chosen flows sent from `from_ns` on, until there are enough.
fn transfers(
    cell: &Cell,
    traffic: &Traffic,
    from_ns: u64,
    is_shown: impl Fn(&Flow) -> bool,
    is_enough: impl Fn(u64, usize) -> bool,
) -> Option<Stretch> {
    let packets = &cell.packet.as_ref()?.rows;
    let pdus = cell.pdu.as_ref().map_or(&[][..], |table| &table.rows);
    let streams = PduStreams::of(pdus);
    let of_session = |flow: &Flow| matches!(flow.content, Content::Session(..));
    let inside_seen = traffic.flows.iter().any(of_session);
    let mut places = Places::of(traffic, &cell.carriers);
    let mut under_way: HashMap<Alike, (usize, NameId)> = HashMap::default();
    let mut found: Vec<Transfer> = Vec::new();
    for (number, row) in packets.iter().enumerate() {
        let packet = &row.record;
        let Some((flow, way)) = traffic.flow(packet) else {
            continue;
        };
        if inside_seen && traffic.flows[flow].content == Content::Encrypted {
            continue;
        }
        let (place, acked) = places.see((flow, way), packet);
        let sent_ns = packet.time.ns();
        if sent_ns < from_ns || !is_shown(&traffic.flows[flow]) {
            continue;
        }
        if let Some((before, path)) = under_way.get_mut(&Alike::of(packet))
            && *path != packet.path
            && found[*before].verdict == Verdict::Delivered
            && found[*before].ended_ns <= sent_ns
        {
            *path = packet.path;
            found[*before].ended_ns = packet.departed.ns();
            found[*before].verdict = packet.verdict;
            found[*before].ce |= packet.ecn == CE;
            continue;
        }
        if is_enough(sent_ns, found.len()) {
            break;
        }
        let (mut carried, mut begins) = (None, Vec::new());
        if let (Content::Session(session, connection), Some(start)) =
            (traffic.flows[flow].content, place)
            && packet.payload_bytes > 0
        {
            let bytes = (start, start + u64::from(packet.payload_bytes));
            carried = streams.carried(session, connection, way, bytes);
            begins = streams.beginning(session, connection, way, bytes).to_vec();
        }
        if !traffic::is_encrypted(packet) {
            under_way.insert(Alike::of(packet), (found.len(), packet.path));
        }
        found.push(Transfer {
            packet: number,
            sent_ns,
            ended_ns: packet.departed.ns(),
            verdict: packet.verdict,
            flow,
            way,
            place,
            acked,
            payload_bytes: packet.payload_bytes,
            flags: packet.flags,
            data: traffic::carries_data(packet),
            ce: packet.ecn == CE,
            carried,
            begins,
        });
    }
    (!found.is_empty()).then_some(Stretch {
        from_ns,
        packets: found,
    })
}

/// When the initiator sent the first command of the window.
fn first_command_ns(pdus: &[Row<Pdu>], window: Window) -> Option<u64> {
    let commands = pdus.iter().map(|row| &row.record).filter(|pdu| {
        pdu.opcode == SCSI_COMMAND
            && pdu.direction == PduDirection::Sent
            && window.contains(pdu.time.ns())
    });
    commands.map(|pdu| pdu.time.ns()).min()
}

/// When enough of the I/Os submitted from `from_ns` on had completed to show the pattern: [`IOS`], or all if fewer.
fn done_ns(cell: &Cell, from_ns: u64) -> Option<u64> {
    let top = cell.joined.top()?;
    let spans = cell
        .joined
        .tasks
        .iter()
        .filter_map(|task| task.both_ns(top));
    let mut done: Vec<u64> = spans
        .filter(|(enter_ns, _)| *enter_ns >= from_ns)
        .map(|(_, leave_ns)| leave_ns)
        .collect();
    done.sort_unstable();
    done.get(IOS - 1).or(done.last()).copied()
}

/// The header fields that identify a segment on every path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Alike {
    ends: Ends,
    seq: u32,
    ack: u32,
    payload_bytes: u16,
    window: u16,
    flags: u8,
}

impl Alike {
    pub(crate) fn of(packet: &Packet) -> Alike {
        Alike {
            ends: Ends::of(packet.source, packet.destination),
            seq: packet.seq,
            ack: packet.ack,
            payload_bytes: packet.payload_bytes,
            window: packet.window,
            flags: packet.flags,
        }
    }
}

/// Converts sequence numbers, which wrap, to stream offsets counted from their direction's SYN or known beginning.
#[derive(Debug)]
pub(crate) struct Places {
    /// The first sequence number and the highest offset seen, for both directions of each flow.
    streams: Vec<[Option<(u32, u64)>; 2]>,
}

impl Places {
    /// Starts with the known beginnings of `carriers`; no packet has been seen yet.
    pub(crate) fn of(traffic: &Traffic, carriers: &[Carrier]) -> Places {
        let mut streams = vec![[None; 2]; traffic.flows.len()];
        for carrier in carriers {
            let flow = traffic.between(carrier.initiator, carrier.target);
            if let (Some((flow, way)), Some(begin)) = (flow, carrier.begin) {
                let [requests, answers] = begin.first;
                streams[flow][way as usize] = Some((requests, 0));
                streams[flow][1 - way as usize] = Some((answers, 0));
            }
        }
        Places { streams }
    }

    /// The stream offset of a packet's payload, and the offset up to which it acknowledges.
    pub(crate) fn see(
        &mut self,
        (flow, way): (usize, FlowDirection),
        packet: &Packet,
    ) -> (Option<u64>, Option<u64>) {
        let (own, other) = (way as usize, 1 - way as usize);
        let streams = &mut self.streams[flow];
        if packet.flags & SYN != 0 {
            streams[own] = Some((packet.seq.wrapping_add(1), 0));
            return (None, None);
        }
        if traffic::is_encrypted(packet) {
            return (None, None);
        }
        let place = streams[own].as_mut().and_then(|(base, highest)| {
            let place = from_base(*base, *highest, packet.seq)?;
            *highest = (*highest).max(place + u64::from(packet.payload_bytes));
            Some(place)
        });
        let acked = streams[other].and_then(|(base, highest)| from_base(base, highest, packet.ack));
        (place, acked)
    }
}

/// The stream offset of a sequence number near the highest one so far.
fn from_base(base: u32, highest: u64, seq: u32) -> Option<u64> {
    let expected = base.wrapping_add(highest as u32);
    highest.checked_add_signed(i64::from(seq.wrapping_sub(expected) as i32))
}

impl Transfer {
    /// The Initiator Task Tag of the PDU with the most bytes in the packet.
    #[must_use]
    pub fn task(&self) -> Option<TaskTag> {
        self.carried.map(|carried| carried.most.task)
    }
}
