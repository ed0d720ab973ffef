//! A stretch of packets as the page draws it: a column for each property, so that a packet costs
//! few bytes.

use serde::Serialize;
use wansan_trace::event::{Tcp, Verdict};
use wansan_trace::file::Table;

use crate::cell::Cell;
use crate::opcode;
use crate::summary::CellSummary;
use crate::traffic::{Content, Flow, Traffic, Way};
use crate::transfer::{Transfer, stretch};

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

/// The diagram of the first I/Os that were measured, of at most `most` packets, if any were
/// recorded.
pub(super) fn diagram(cell: &Cell, summary: &CellSummary, most: usize) -> Option<PacketDiagram> {
    let traffic = Traffic::of(cell);
    let stretch = stretch(cell, &traffic, summary.window, most)?;
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
    };
    let mut flows: Vec<usize> = Vec::new();
    for packet in &stretch.packets {
        let flow = place_of(&mut flows, packet.flow);
        let kind = place_of(&mut diagram.kinds, kind(packet, &traffic));
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
        let from_target = packet.way == Way::ToInitiator;
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
    Some(diagram)
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
