//! An interval of packets as the page draws it: one column per property, so that a packet takes few bytes.

use wansan_schema::tables;
use wansan_trace::event::Verdict;

use super::ios::{ShownIo, shown};
use super::sessions::SessionNames;
use crate::analysis::Analysis;
use crate::cell::Cell;
use crate::opcode;
use crate::summary::CellSummary;
use crate::traffic::{Content, Flow, FlowDirection, Traffic};
use crate::transfer::{Stretch, Transfer, around, stretch};
use crate::window::Window;

tables! {
    /// Packets between the initiator's and the target's time line.
    PacketDiagram {
        /// When it begins, in seconds since measuring began.
        from_s: f64,
        /// The flows whose packets are in it; packets name them by their place.
        flows: Vec<PacketFlow>,
        /// What packets carry; packets name it by its place.
        kinds: Vec<PacketKind>,
        /// When each packet came to the first emulated path, in µs since the beginning; ascending.
        sent_us: Vec<f64>,
        /// How long it took to the end of the last path, or until it was dropped.
        transit_us: Vec<f64>,
        /// 0 when it arrived, 1 when a queue dropped it, 2 when it was lost.
        fate: Vec<u8>,
        /// 1 when it comes from the target, 0 when from the initiator.
        from_target: Vec<u8>,
        /// Its place in `flows`.
        flow: Vec<usize>,
        /// Its place in `kinds`.
        kind: Vec<usize>,
        /// Bytes of TCP payload; of an encrypted packet all that follows its outer header.
        payload_bytes: Vec<u16>,
        /// Where its payload begins in its direction's stream, from 0.
        place: Vec<Option<u64>>,
        /// Up to where it acknowledges the other direction's stream.
        acked: Vec<Option<u64>>,
        /// The TCP flags; 0 when it is encrypted.
        flags: Vec<u8>,
        /// The Initiator Task Tag of the PDU that fills most of it.
        task: Vec<Option<u32>>,
        /// PDUs that are in it, wholly or in part.
        pdus: Vec<usize>,
        /// Its row in `packet.parquet`, from 0.
        packet: Vec<usize>,
        /// Where PDUs begin in packets.
        boundaries: Vec<Boundary>,
        /// I/Os whose packets are in it, and their waits.
        ios: Vec<ShownIo>,
    }

    /// A PDU that begins in a packet.
    Boundary {
        /// The packet's place in the diagram.
        at: usize,
        /// Bytes of the payload before it.
        before_bytes: u64,
        /// The PDU's place in `kinds`.
        kind: usize,
    }

    /// One flow of a diagram.
    PacketFlow {
        /// Who speaks to whom.
        name: String,
        /// Whether it is a tunnel, inside which nothing can be seen.
        encrypted: bool,
    }

    /// What a packet carries.
    PacketKind {
        /// `pdu`; `data`: payload of which no PDU is known; `bare`: no payload; `encrypted`: nobody can see, but
        /// it is longer than an acknowledgement; `encrypted_short`: it is as short as one.
        is: String,
        /// The PDU's name; empty of anything else.
        name: String,
    }

    /// The packets around the costliest stall of a cause.
    StallPackets {
        /// The cause's name.
        cause: String,
        /// Its session's packets, from before it began until it was over.
        packets: PacketDiagram,
    }
}

/// A stall's diagram has at most a cell's number of packets divided by this.
const PART_OF_PACKETS: usize = 8;
/// A stall's diagram extends beyond the stall on both sides by its length divided by this, but at least by
/// [`LEAST_MARGIN_NS`].
const MARGIN_PARTS: u64 = 4;
const LEAST_MARGIN_NS: u64 = 100_000;

/// The diagram of the first measured I/Os, with at most `most` packets; `None` if no packets were recorded.
pub(super) fn diagram(analysis: &Analysis<'_>, most: usize) -> Option<PacketDiagram> {
    let Analysis {
        cell,
        window,
        traffic,
        ledger,
        ..
    } = analysis;
    let stretch = stretch(cell, traffic, *window, most)?;
    let mut diagram = drawn(cell, *window, traffic, &stretch);
    diagram.ios = shown(cell, ledger, traffic, &stretch, None);
    Some(diagram)
}

/// For each cause with packet evidence, the diagram of its costliest stall, costliest cause first. `most` is the packet
/// limit of a cell's diagram.
pub(super) fn stall_diagrams(
    analysis: &Analysis<'_>,
    summary: &CellSummary,
    most: usize,
) -> Vec<StallPackets> {
    let Analysis {
        cell,
        window,
        traffic,
        stalls,
        ledger,
        ..
    } = analysis;
    let causes = summary.stalls.iter().flat_map(|stalls| &stalls.causes);
    let diagrams = causes.filter_map(|of_cause| {
        let of_it = stalls.iter().filter(|s| s.cause.name() == of_cause.cause);
        let stall = of_it.max_by_key(|stall| stall.cost_ns())?;
        let evidence = stall.evidence.iter().map(|shown| shown.sent_ns);
        let first_ns = evidence.clone().min()?.min(stall.from_ns);
        let last_ns = evidence.max()?.max(stall.to_ns);
        let margin_ns = ((last_ns - first_ns) / MARGIN_PARTS).max(LEAST_MARGIN_NS);
        let span = (first_ns.saturating_sub(margin_ns), last_ns + margin_ns);
        let stretch = around(cell, traffic, stall.session, span, most / PART_OF_PACKETS)?;
        let mut packets = drawn(cell, *window, traffic, &stretch);
        packets.ios = shown(cell, ledger, traffic, &stretch, Some(stall));
        Some(StallPackets {
            cause: stall.cause.name().to_owned(),
            packets,
        })
    });
    diagrams.collect()
}

/// A stretch's packets as the page draws them.
fn drawn(cell: &Cell, window: Window, traffic: &Traffic, stretch: &Stretch) -> PacketDiagram {
    let mut diagram = PacketDiagram {
        from_s: (stretch.from_ns as f64 - window.from_ns as f64) / 1e9,
        ..PacketDiagram::default()
    };
    let mut flows: Vec<usize> = Vec::new();
    for (at, packet) in stretch.packets.iter().enumerate() {
        for pdu in &packet.begins {
            let kind = pdu_kind(pdu.opcode);
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
    let names = SessionNames::of(cell.connection.as_ref());
    diagram.flows = flows
        .into_iter()
        .map(|flow| named(&traffic.flows[flow], &names))
        .collect();
    diagram
}

/// The index of `item`, which is added if new.
fn place_of<T: PartialEq>(items: &mut Vec<T>, item: T) -> usize {
    let known = items.iter().position(|other| *other == item);
    known.unwrap_or_else(|| {
        items.push(item);
        items.len() - 1
    })
}

/// Microseconds, rounded to a tenth: the accuracy of a user-space emulator's clock.
pub(super) fn micros(time_ns: u64) -> f64 {
    (time_ns as f64 / 100.0).round() / 10.0
}

fn pdu_kind(opcode: u8) -> PacketKind {
    PacketKind {
        is: "pdu".to_owned(),
        name: opcode::name(opcode).to_owned(),
    }
}

fn kind(packet: &Transfer, traffic: &Traffic) -> PacketKind {
    let encrypted = traffic.flows[packet.flow].content == Content::Encrypted;
    let is = match packet.carried {
        _ if encrypted && packet.data => "encrypted",
        _ if encrypted => "encrypted_short",
        Some(carried) => return pdu_kind(carried.most.opcode),
        None if packet.payload_bytes > 0 => "data",
        None => "bare",
    };
    PacketKind {
        is: is.to_owned(),
        name: String::new(),
    }
}

/// Names a session's connection by its session, any other flow by its addresses.
fn named(flow: &Flow, names: &SessionNames<'_>) -> PacketFlow {
    let ends = format!("{} – {}", flow.initiator, flow.target);
    let name = match flow.content {
        Content::Session(session, connection) => {
            format!("{}, connection {}", names.name(session), connection.0)
        }
        Content::Tcp => ends,
        Content::Encrypted => format!("tunnel {ends}"),
    };
    PacketFlow {
        name,
        encrypted: flow.content == Content::Encrypted,
    }
}
