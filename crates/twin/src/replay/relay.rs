//! Relays between a twin's initiators and its target: recorded ones, and additional ones at the edges of the path.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use wansan_path::Effects;
use wansan_sim::network::{Hop, Network};
use wansan_sim::storage::{ConnectionConfig, RelayConfig};
use wansan_split::DEFAULT_BUFFER_BYTES;
use wansan_trace::Recorder;

use super::tunnel::Tunnels;
use super::{ReplayError, end};
use crate::setup::{End, INITIATOR, Relay, Setup, TARGET};

/// Congestion control of relays towards the host at their edge, where there is no delay and no loss.
const NEAR_LAW: &str = "cubic";
/// Addresses of the relays at both edges, from a range reserved for documentation (RFC 5737 §3), so no recorded host
/// has them.
const ADDRESSES: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2)),
];
/// The first port that they listen on, one for each connection of the twin, and the first one that they connect from.
const LISTEN_PORT: u16 = 1;
const CONNECT_PORT: u16 = 32_769;

/// The link between a relay and the host at its edge, without delay or limits.
pub(super) fn near_link(network: &mut Network, seed: u64) -> Result<u32, ReplayError> {
    let link = network.link(&Effects::default(), seed);
    link.map_err(|source| ReplayError::Effects {
        path: "to a relay".to_owned(),
        source,
    })
}

/// Splits a connection at its recorded relay. Returns the initiator's part, and the relay with the other.
pub(super) fn recorded(
    connection: ConnectionConfig,
    relay: &Relay,
    ways: &Tunnels,
    seed: u64,
    trace: Recorder,
) -> Result<(ConnectionConfig, RelayConfig), ReplayError> {
    let ConnectionConfig {
        ends: [first, last],
        routes: [mut there, mut back],
        addresses: [client, target],
    } = connection;
    let [listen, from] = relay.addresses;
    let onward = there.split_off(relay.after[0]);
    let home = back.split_off(relay.after[1]);
    let [inward, outward] = &relay.ends;
    let near = ConnectionConfig {
        ends: [first, end(inward, seed)?],
        routes: [
            ways.begin_with_link(there, INITIATOR),
            ways.begin_with_link(home, TARGET),
        ],
        addresses: [client, listen],
    };
    let onward = ConnectionConfig {
        ends: [end(outward, seed)?, last],
        routes: [
            ways.begin_with_link(onward, INITIATOR),
            ways.begin_with_link(back, TARGET),
        ],
        addresses: [from, target],
    };
    let relay = RelayConfig {
        listen: vec![listen],
        onward,
        buffer_bytes: DEFAULT_BUFFER_BYTES,
        bound: None,
        receive_buffers: [None, None],
        trace,
    };
    Ok((near, relay))
}

/// Splits connection `number` of the twin at the relays of the setup. Returns the initiator's part, and the relays.
pub(super) fn split(
    connection: ConnectionConfig,
    setup: &Setup,
    number: u16,
    near_link: u32,
    seed: u64,
) -> Result<(ConnectionConfig, Vec<RelayConfig>), ReplayError> {
    let mss_bytes = setup.first_connection().ends[0].mss_bytes;
    let socket = |law: &str| {
        let plain = End::plain(law.to_owned(), mss_bytes);
        end(
            &End {
                nagle: false,
                ..plain
            },
            seed,
        )
    };
    let near_routes = || [vec![Hop::from(near_link)], vec![Hop::from(near_link)]];
    let mut relays = Vec::new();
    let mut client = connection;
    // From the target's edge to the initiator's: each splits the part left by the one before.
    for edge in [TARGET, INITIATOR] {
        let Some(law) = &setup.relays[edge] else {
            continue;
        };
        let at = |port: u16| SocketAddr::new(ADDRESSES[edge], port + number);
        let (listen, from) = (at(LISTEN_PORT), at(CONNECT_PORT));
        let ConnectionConfig {
            ends: [first, last],
            routes,
            addresses: [client_address, target_address],
        } = client;
        let (laws, routes) = match edge {
            TARGET => ([law.as_str(), NEAR_LAW], [routes, near_routes()]),
            _ => ([NEAR_LAW, law.as_str()], [near_routes(), routes]),
        };
        let [towards_client, onward] = laws;
        let [client_routes, onward_routes] = routes;
        client = ConnectionConfig {
            ends: [first, socket(towards_client)?],
            routes: client_routes,
            addresses: [client_address, listen],
        };
        relays.push(RelayConfig {
            listen: vec![listen],
            onward: ConnectionConfig {
                ends: [socket(onward)?, last],
                routes: onward_routes,
                addresses: [from, target_address],
            },
            buffer_bytes: DEFAULT_BUFFER_BYTES,
            bound: None,
            receive_buffers: [None, None],
            trace: Recorder::off(),
        });
    }
    Ok((client, relays))
}
