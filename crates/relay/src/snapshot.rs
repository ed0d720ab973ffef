//! What a relay has done and has in hand.

use std::net::SocketAddr;
use std::time::Duration;

use wansan_split::{CLIENT, Fallback, Governor, Law, ReceiveBuffer, Shares, Signals, TARGET};
use wansan_tcp::TcpInfo;
use wansan_trace::event::Tcp;
use wansan_trace::{ConnectionId, SessionId, clock};

use crate::backlog::{Backlog, BacklogSum};
use crate::direction::Direction;
use crate::flow::Flow;
use crate::meter::Meter;

/// A relay's counters, gathered from its threads while they carry their flows.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Of all threads and flows.
    pub meter: Meter,
    /// Flows under way.
    pub flows_now: usize,
    /// What the relay's own buffers take, in bytes.
    pub memory_bytes: usize,
    /// The most that they took at once, in bytes.
    pub memory_bytes_max: usize,
    /// Times that they could have no more.
    pub memory_refusals: usize,
    /// What waits in all flows, from the clients to the targets.
    pub onward: BacklogSum,
    /// What waits in all flows, from the targets to the clients.
    pub back: BacklogSum,
    /// The flows that move most now, or have most waiting, at most 256 of each thread.
    pub flows: Vec<FlowSnapshot>,
}

/// A flow.
#[derive(Debug, Clone)]
pub struct FlowSnapshot {
    /// Its number, which no other flow of the relay has.
    pub number: u64,
    /// The listener's address, as it was given.
    pub listen: String,
    /// The client's address.
    pub client: SocketAddr,
    /// The target's address.
    pub target: SocketAddr,
    /// By what its backlogs are held.
    pub law: Law,
    /// What came of signals to the side that is asked, under a law that asks.
    pub ece: Option<EceSnapshot>,
    /// Since it was accepted.
    pub age: Duration,
    /// The connection to the client.
    pub inward: Tcp,
    /// The connection to the target.
    pub outward: Tcp,
    /// The receive buffer of the connection to the client, under a law that bounds its window.
    pub inward_buffer: Option<ReceiveBuffer>,
    /// That of the connection to the target.
    pub outward_buffer: Option<ReceiveBuffer>,
    /// From the client to the target.
    pub onward: DirectionSnapshot,
    /// From the target to the client.
    pub back: DirectionSnapshot,
}

/// ECE towards a side.
#[derive(Debug, Clone, Copy)]
pub struct EceSnapshot {
    /// Whether the target is asked, not the client.
    pub asks_target: bool,
    /// What came of signals.
    pub signals: Signals,
    /// Why they are of no use now, so that the window alone holds the backlog.
    pub fallback: Option<Fallback>,
}

/// One direction of a flow.
#[derive(Debug, Clone, Copy)]
pub struct DirectionSnapshot {
    /// Bytes that the receiving socket took.
    pub moved_bytes: u64,
    /// The most that the relay itself held at once, in bytes.
    pub held_bytes_max: usize,
    /// What waits.
    pub backlog: Backlog,
    /// What may wait, where a law is in force and both sides have been measured.
    pub shares: Option<Shares>,
}

/// What waits in one thread's flows.
#[derive(Debug)]
pub(crate) struct Part {
    /// By their directions.
    pub(crate) backlogs: [BacklogSum; 2],
    pub(crate) flows: Vec<FlowSnapshot>,
}

/// The snapshot of a flow.
pub(crate) fn of_flow(flow: &Flow) -> FlowSnapshot {
    let now = clock::now();
    let [inward, outward] = [CLIENT, TARGET].map(|side| {
        let side = &flow.sides[side];
        // A connection that is gone has no numbers.
        TcpInfo::of(side).map_or(Tcp::BLANK, |info| {
            info.record(now, SessionId(flow.number), ConnectionId(0))
        })
    });
    let governor = flow.governor.as_ref();
    let is_target = governor.and_then(Governor::asked_side) == Some(TARGET);
    let ece = |signals| EceSnapshot {
        asks_target: is_target,
        signals,
        fallback: governor.and_then(Governor::fallback),
    };
    let shares = |from| governor.and_then(|it| it.shares(from));
    let buffer = |side| governor.and_then(|it| it.buffer(side));
    let direction = |place: usize, receiving| {
        let way: &Direction = &flow.directions[place];
        let [from, to] = [place, 1 - place].map(|side| &flow.sides[side]);
        DirectionSnapshot {
            moved_bytes: way.state.moved_bytes(),
            held_bytes_max: way.state.held_bytes_max(),
            backlog: Backlog::of(from, way, to, receiving),
            shares: shares(place),
        }
    };
    FlowSnapshot {
        number: flow.number,
        listen: flow.route.config.listen.clone(),
        law: governor.map_or(Law::None, Governor::law),
        ece: flow.ece_signals().map(ece),
        client: flow.client,
        target: flow.target,
        age: now.since(flow.began),
        onward: direction(CLIENT, &outward),
        back: direction(TARGET, &inward),
        inward,
        outward,
        inward_buffer: buffer(CLIENT),
        outward_buffer: buffer(TARGET),
    }
}
