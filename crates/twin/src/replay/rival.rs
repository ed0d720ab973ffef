//! A Reno flow beside a twin's load: its throughput shows how fair the load is to other traffic.

use wansan_sim::storage::{ConnectionConfig, ReceiverConfig, StreamConfig};
use wansan_trace::Recorder;
use wansan_workload::LoadConfig;
use wansan_workload::sequence::Operation;

use super::{ReplayError, end, hops};
use crate::setup::{Connection, End, Setup};

/// Distance between its marks in the stream.
const MARK_EVERY_BYTES: u32 = 64 << 10;
/// Size of its receiver's reads.
const READ_BYTES: usize = 256 << 10;
/// Its ports, chargen (RFC 864) and discard (RFC 863), which recorded connections are unlikely to use.
const PORTS: [u16; 2] = [19, 9];

/// The flow's sender: the end that sends most of the first session's data.
pub(super) fn sender(setup: &Setup, links: &[u32], seed: u64) -> Result<StreamConfig, ReplayError> {
    let Connection {
        routes, addresses, ..
    } = setup.first_connection();
    let route = |places: &Vec<usize>| hops(places, links);
    let [there, back] = routes;
    let reads = reads_most(&setup.initiators[0].load);
    let (routes, mut addresses) = match reads {
        true => ([route(back), route(there)], [addresses[1], addresses[0]]),
        false => ([route(there), route(back)], *addresses),
    };
    for (address, port) in addresses.iter_mut().zip(PORTS) {
        address.set_port(port);
    }
    let reno = End::plain(
        "reno".to_owned(),
        setup.first_connection().ends[0].mss_bytes,
    );
    Ok(StreamConfig {
        connections: vec![ConnectionConfig {
            ends: [end(&reno, seed)?, end(&reno, seed)?],
            routes,
            addresses,
        }],
        every_bytes: MARK_EVERY_BYTES,
        rate_bytes_per_s: None,
        warmup: setup.warmup,
        time: setup.time,
        trace: Recorder::off(),
    })
}

/// Whether the load reads more data than it writes.
fn reads_most(load: &LoadConfig) -> bool {
    let bytes = |write: bool| -> u64 {
        let of_way = load.listed.iter().filter(|io| io.write == write);
        of_way.map(|io| u64::from(io.bytes)).sum()
    };
    match load.listed.is_empty() {
        true => load.operation != Operation::Write,
        false => bytes(false) >= bytes(true),
    }
}

/// The receiver for that sender.
pub(super) fn receiver(sender: &StreamConfig) -> ReceiverConfig {
    ReceiverConfig {
        listen: vec![sender.connections[0].addresses[1]],
        read_bytes: READ_BYTES,
    }
}
