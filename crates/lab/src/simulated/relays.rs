//! A plan's relays in the simulator.

use std::net::SocketAddr;

use wansan_relay::SideSettings;
use wansan_sim::storage::{ConnectionConfig, RelayConfig};
use wansan_trace::Recorder;

use super::ends::Socket;
use super::network::{Directions, addresses};
use super::ports::Ports;
use crate::plan::{Cell, Relay};

/// A relay.
pub(super) fn relay(
    cell: &Cell,
    relay: &Relay,
    directions: &Directions,
    ports: &mut Ports,
    seed: u64,
    trace: Recorder,
) -> RelayConfig {
    let (document, scenario) = (&cell.document, &cell.scenario);
    let host = scenario.node(&relay.host);
    let (routes, own) = directions.straight(scenario, host, *relay.to.ip());
    let flow = relay.table.flow(&document.tcp);
    let to = SocketAddr::V4(relay.to);
    let bound = flow.best_bound();
    RelayConfig {
        listen: addresses(scenario, &relay.host, relay.listen),
        onward: ConnectionConfig {
            ends: [
                Socket::of_relay(&flow.out).end(document, seed),
                Socket::accepted(cell, to).end(document, seed),
            ],
            routes,
            addresses: [SocketAddr::from((own, ports.next(host))), to],
        },
        buffer_bytes: flow.buffer.bytes(),
        bound: bound.expect("plans are checked for settings that contradict each other"),
        receive_buffers: flow.receive_buffers(),
        trace,
    }
}

impl<'a> Socket<'a> {
    /// The options of a relay's socket towards one side.
    pub(super) fn of_relay(side: &'a SideSettings) -> Socket<'a> {
        Socket {
            control: side.congestion_control.as_deref(),
            send_buffer: side.send_buffer,
            receive_buffer: side.receive_buffer,
            mss: side.mss,
            ..Socket::PLAIN
        }
    }
}
