//! A relay's counters and present state.

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

/// A relay's counters, collected from its threads while they run.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Sum over all threads and flows.
    pub meter: Meter,
    /// Open flows.
    pub flows_now: usize,
    /// The relay's own buffers, in bytes.
    pub memory_bytes: usize,
    /// Their high-water mark, in bytes.
    pub memory_bytes_max: usize,
    /// Buffer requests refused.
    pub memory_refusals: usize,
    /// Backlog of all flows, from the clients to the targets.
    pub onward: BacklogSum,
    /// Backlog of all flows, from the targets to the clients.
    pub back: BacklogSum,
    /// The flows with the highest rates or largest backlogs, at most 256 of each thread.
    pub flows: Vec<FlowSnapshot>,
}

/// A flow.
#[derive(Debug, Clone)]
pub struct FlowSnapshot {
    /// Its number, unique in the relay.
    pub number: u64,
    /// The listener's address as given.
    pub listen: String,
    /// The client's address.
    pub client: SocketAddr,
    /// The target's address.
    pub target: SocketAddr,
    /// The law that bounds its backlogs.
    pub law: Law,
    /// Outcome of signals to the signalled side, under a law that signals.
    pub ece: Option<EceSnapshot>,
    /// Time since it was accepted.
    pub age: Duration,
    /// The connection to the client.
    pub inward: Tcp,
    /// The connection to the target.
    pub outward: Tcp,
    /// The receive buffer of the connection to the client, under a law that bounds its window.
    pub inward_buffer: Option<ReceiveBuffer>,
    /// The same of the connection to the target.
    pub outward_buffer: Option<ReceiveBuffer>,
    /// From the client to the target.
    pub onward: DirectionSnapshot,
    /// From the target to the client.
    pub back: DirectionSnapshot,
}

/// ECE towards a side.
#[derive(Debug, Clone, Copy)]
pub struct EceSnapshot {
    /// Whether the target is signalled, not the client.
    pub asks_target: bool,
    /// Outcome of signals.
    pub signals: Signals,
    /// Why they have no effect now, so that the window alone bounds the backlog.
    pub fallback: Option<Fallback>,
}

/// One direction of a flow.
#[derive(Debug, Clone, Copy)]
pub struct DirectionSnapshot {
    /// Bytes written to the receiving socket.
    pub moved_bytes: u64,
    /// The most bytes that the relay itself held.
    pub held_bytes_max: usize,
    /// The backlog.
    pub backlog: Backlog,
    /// The limits of the backlog, where a law is in force and both sides have been measured.
    pub shares: Option<Shares>,
}

/// Backlog of one thread's flows.
#[derive(Debug)]
pub(crate) struct Part {
    /// By direction.
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
