//! A stretch of packets as the page draws it: a column for each property, so that a packet costs
//! few bytes.

use serde::Serialize;
use wansan_trace::event::{Tcp, Verdict};
use wansan_trace::file::Table;

use crate::cell::Cell;
use crate::opcode;
use crate::stall::Stall;
use crate::summary::CellSummary;
use crate::traffic::{Content, Flow, FlowDirection, Traffic};
use crate::transfer::{Stretch, Transfer, around, stretch};

/// Packets between the initiator's and the target's time line.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PacketDiagram {
    /// When it begins, in seconds since measuring began.
    pub from_s: f64,
    /// The flows whose packets are in it; packets name them by their place.
    pub flows: Vec<PacketFlow>,
    /// What packets carry; packets name it by its place.
    pub kinds: Vec<PacketKind>,
    /// When each packet came to the first emulated path, in µs since the beginning; ascending.
    pub sent_us: Vec<f64>,
    /// How long it took to the end of the last path, or until it was dropped.
    pub transit_us: Vec<f64>,
    /// 0 when it arrived, 1 when a queue dropped it, 2 when it was lost.
    pub fate: Vec<u8>,
    /// 1 when it comes from the target, 0 when from the initiator.
    pub from_target: Vec<u8>,
    /// Its place in `flows`.
    pub flow: Vec<usize>,
    /// Its place in `kinds`.
    pub kind: Vec<usize>,
    /// Bytes of TCP payload; of an encrypted packet all that follows its outer header.
    pub payload_bytes: Vec<u16>,
    /// Where its payload begins in its direction's stream, from 0.
    pub place: Vec<Option<u64>>,
    /// Up to where it acknowledges the other direction's stream.
    pub acked: Vec<Option<u64>>,
    /// The TCP flags; 0 when it is encrypted.
    pub flags: Vec<u8>,
    /// The Initiator Task Tag of the PDU that fills most of it.
    pub task: Vec<Option<u32>>,
    /// PDUs that are in it, wholly or in part.
    pub pdus: Vec<usize>,
    /// Its row in `packet.parquet`, from 0.
    pub packet: Vec<usize>,
    /// Where PDUs begin in packets.
    pub boundaries: Vec<Boundary>,
    /// Where I/Os stalled meanwhile.
    pub stalls: Vec<StallMark>,
}

/// A PDU that begins in a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Boundary {
    /// The packet's place in the diagram.
    pub at: usize,
    /// Bytes of the payload before it.
    pub before_bytes: u64,
    /// The PDU's place in `kinds`.
    pub kind: usize,
}

/// A stall at the time line of who waited.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StallMark {
    /// The cause's name.
    pub cause: &'static str,
    /// The cause in words.
    pub text: &'static str,
    /// The Initiator Task Tag of the I/O.
    pub task: u32,
    /// From when on it could have gone on, in µs since the diagram's beginning.
    pub from_us: f64,
    /// When it went on.
    pub to_us: f64,
    /// 1 when the target waited, 0 when the initiator did.
    pub from_target: u8,
    /// The packets that show it, by their rows in `packet.parquet`.
    pub packets: Vec<usize>,
}

/// One flow of a diagram.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PacketFlow {
    /// Who speaks to whom.
    pub name: String,
    /// Whether it is a tunnel, inside which nothing can be seen.
    pub encrypted: bool,
}

/// What a packet carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(tag = "is", content = "name", rename_all = "snake_case")]
pub enum PacketKind {
    /// A PDU, by its name.
    Pdu(&'static str),
    /// Payload of which no PDU is known.
    Data,
    /// No payload.
    Bare,
    /// Nobody can see, but it is longer than an acknowledgement.
    Encrypted,
    /// Nobody can see, and it is as short as an acknowledgement.
    EncryptedShort,
}

/// The packets around the costliest stall of a cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StallPackets {
    /// The cause's name.
    pub cause: &'static str,
    /// Its session's packets, from before it began until it was over.
    pub packets: PacketDiagram,
}

/// A stall is shown with so many of the packets that a cell is shown with, one part of …
const PART_OF_PACKETS: usize = 8;
/// … and with what was sent so long before and after it, a part of its length and at least.
const MARGIN_PARTS: u64 = 4;
const LEAST_MARGIN_NS: u64 = 100_000;

/// The diagram of the first I/Os that were measured, of at most `most` packets, if any were
/// recorded.
pub(super) fn diagram(
    cell: &Cell,
    summary: &CellSummary,
    stalls: &[Stall],
    most: usize,
) -> Option<PacketDiagram> {
    let traffic = Traffic::of(cell);
    let stretch = stretch(cell, &traffic, summary.window, most)?;
    Some(drawn(cell, summary, stalls, &traffic, &stretch))
}

/// The diagram of the costliest stall of each cause that shows in packets, the costliest cause first,
/// where a cell is shown with `most` packets.
pub(super) fn stall_diagrams(
    cell: &Cell,
    summary: &CellSummary,
    stalls: &[Stall],
    most: usize,
) -> Vec<StallPackets> {
    let traffic = Traffic::of(cell);
    let causes = summary.stalls.iter().flat_map(|stalls| &stalls.causes);
    let diagrams = causes.filter_map(|of_cause| {
        let of_it = stalls.iter().filter(|s| s.cause.name() == of_cause.cause);
        let stall = of_it.max_by_key(|stall| stall.cost_ns())?;
        let shown = stall.evidence.iter().map(|shown| shown.sent_ns);
        let first_ns = shown.clone().min()?.min(stall.from_ns);
        let last_ns = shown.max()?.max(stall.to_ns);
        let margin_ns = ((last_ns - first_ns) / MARGIN_PARTS).max(LEAST_MARGIN_NS);
        let span = (first_ns.saturating_sub(margin_ns), last_ns + margin_ns);
        let stretch = around(cell, &traffic, stall.session, span, most / PART_OF_PACKETS)?;
        let of_session = stalls.iter().filter(|other| other.session == stall.session);
        let of_session: Vec<Stall> = of_session.cloned().collect();
        Some(StallPackets {
            cause: stall.cause.name(),
            packets: drawn(cell, summary, &of_session, &traffic, &stretch),
        })
    });
    diagrams.collect()
}

/// A stretch as the page draws it.
fn drawn(
    cell: &Cell,
    summary: &CellSummary,
    stalls: &[Stall],
    traffic: &Traffic,
    stretch: &Stretch,
) -> PacketDiagram {
    let mut diagram = PacketDiagram {
        from_s: (stretch.from_ns as f64 - summary.window.from_ns as f64) / 1e9,
        flows: Vec::new(),
        kinds: Vec::new(),
        sent_us: Vec::new(),
        transit_us: Vec::new(),
        fate: Vec::new(),
        from_target: Vec::new(),
        flow: Vec::new(),
        kind: Vec::new(),
        payload_bytes: Vec::new(),
        place: Vec::new(),
        acked: Vec::new(),
        flags: Vec::new(),
        task: Vec::new(),
        pdus: Vec::new(),
        packet: Vec::new(),
        boundaries: Vec::new(),
        stalls: stall_marks(stalls, stretch),
    };
    let mut flows: Vec<usize> = Vec::new();
    for (at, packet) in stretch.packets.iter().enumerate() {
        for pdu in &packet.begins {
            let kind = PacketKind::Pdu(opcode::name(pdu.opcode));
            diagram.boundaries.push(Boundary {
                at,
                before_bytes: pdu.offset - packet.place.unwrap_or(pdu.offset),
                kind: place_of(&mut diagram.kinds, kind),
            });
        }
        diagram.packet.push(packet.packet);
        let flow = place_of(&mut flows, packet.flow);
        let kind = place_of(&mut diagram.kinds, kind(packet, traffic));
        diagram
            .sent_us
            .push(micros(packet.sent_ns - stretch.from_ns));
        diagram
            .transit_us
            .push(micros(packet.ended_ns - packet.sent_ns));
        diagram.fate.push(match packet.verdict {
            Verdict::Delivered => 0,
            Verdict::DroppedByQueue => 1,
            Verdict::DroppedByLoss | Verdict::DroppedByOutage => 2,
        });
        let from_target = packet.way == FlowDirection::ToInitiator;
        diagram.from_target.push(u8::from(from_target));
        diagram.flow.push(flow);
        diagram.kind.push(kind);
        diagram.payload_bytes.push(packet.payload_bytes);
        diagram.place.push(packet.place);
        diagram.acked.push(packet.acked);
        diagram.flags.push(packet.flags);
        diagram.task.push(packet.task().map(|task| task.0));
        diagram
            .pdus
            .push(packet.carried.map_or(0, |carried| carried.pdus));
    }
    diagram.flows = flows
        .into_iter()
        .map(|flow| named(&traffic.flows[flow], cell.tcp.as_ref()))
        .collect();
    diagram
}

/// The stalls that touch a stretch.
fn stall_marks(stalls: &[Stall], stretch: &Stretch) -> Vec<StallMark> {
    let from_ns = stretch.from_ns;
    let to_ns = stretch.packets.last().map_or(from_ns, |last| last.sent_ns);
    let touches = |stall: &&Stall| stall.to_ns >= from_ns && stall.from_ns <= to_ns;
    let mark = |stall: &Stall| StallMark {
        cause: stall.cause.name(),
        text: stall.cause.in_words(),
        task: stall.task.0,
        from_us: micros(stall.from_ns.saturating_sub(from_ns)),
        to_us: micros(stall.to_ns - from_ns),
        from_target: u8::from(stall.way == FlowDirection::ToInitiator),
        packets: stall.evidence.iter().map(|shown| shown.packet).collect(),
    };
    stalls.iter().filter(touches).map(mark).collect()
}

/// The place of `item`, which is added when it is new.
fn place_of<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    let known = items.iter().position(|other| *other == item);
    known.unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    })
}

/// To a tenth: what the clock of an emulator in user space is good for.
fn micros(time_ns: u64) -> f64 {
    (time_ns as f64 / 100.0).round() / 10.0
}

fn kind(packet: &Transfer, traffic: &Traffic) -> PacketKind {
    let encrypted = traffic.flows[packet.flow].content == Content::Encrypted;
    match packet.carried {
        _ if encrypted && packet.data => PacketKind::Encrypted,
        _ if encrypted => PacketKind::EncryptedShort,
        Some(carried) => PacketKind::Pdu(opcode::name(carried.most.opcode)),
        None if packet.payload_bytes > 0 => PacketKind::Data,
        None => PacketKind::Bare,
    }
}

/// A session's connection by the hosts that recorded it, anything else by its addresses.
fn named(flow: &Flow, tcp: Option<&Table<Tcp>>) -> PacketFlow {
    let ends = format!("{} – {}", flow.initiator, flow.target);
    let name = match flow.content {
        Content::Session(session, connection) => {
            let mut hosts: Vec<&str> = tcp.map_or_else(Vec::new, |tcp| {
                let of_session = tcp.rows.iter().filter(|row| row.record.session == session);
                of_session.map(|row| tcp.names.get(row.host)).collect()
            });
            hosts.sort_unstable();
            hosts.dedup();
            match hosts[..] {
                [one, other] => format!("{one} and {other}, connection {}", connection.0),
                _ => format!("session {session}, connection {}", connection.0),
            }
        }
        Content::Tcp => ends,
        Content::Encrypted => format!("tunnel {ends}"),
    };
    PacketFlow {
        name,
        encrypted: flow.content == Content::Encrypted,
    }
}
