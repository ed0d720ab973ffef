//! A plan's measured streams in the simulator.

use std::net::SocketAddr;

use wansan_settings::usual;
use wansan_sim::storage::{ConnectionConfig, ReceiverConfig, StreamConfig};
use wansan_stream::TakingSettings;
use wansan_trace::Recorder;

use super::ends::Socket;
use super::network::{Directions, addresses};
use super::ports::Ports;
use crate::plan::{Cell, Receiver};

/// A receiver.
pub(super) fn receiver(cell: &Cell, receiver: &Receiver) -> ReceiverConfig {
    ReceiverConfig {
        listen: addresses(&cell.scenario, &receiver.host, receiver.listen),
        read_bytes: usual::<TakingSettings>().read.bytes(),
    }
}

/// The sender with index `place` among the cell's.
pub(super) fn sender(
    cell: &Cell,
    place: usize,
    directions: &Directions,
    ports: &mut Ports,
    seed: u64,
    trace: Recorder,
) -> StreamConfig {
    let (document, scenario) = (&cell.document, &cell.scenario);
    let stream = &scenario.streams[place];
    let table = &stream.table;
    let host = scenario.node(&stream.host);
    let (routes, own) = directions.straight(scenario, host, *stream.to.ip());
    let settings = &table.stream;
    let near = Socket {
        control: settings.congestion_control.as_deref(),
        send_buffer: settings.send_buffer,
        unsent: settings.unsent,
        ..Socket::PLAIN
    };
    let to = SocketAddr::V4(stream.to);
    let connections = (0..u64::from(table.flows)).map(|number| ConnectionConfig {
        ends: [
            near.end(document, seed + number),
            Socket::accepted(cell, to).end(document, seed + number),
        ],
        routes: routes.clone(),
        addresses: [SocketAddr::from((own, ports.next(host))), to],
    });
    StreamConfig {
        connections: connections.collect(),
        every_bytes: settings.every_bytes(),
        rate_bytes_per_s: settings.rate_bytes_per_s(),
        warmup: document.workload.warmup.0,
        time: document.workload.time.0,
        trace,
    }
}
