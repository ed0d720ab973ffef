//! Tunnels between routers whose programs take CPU time for each packet.

use std::net::SocketAddr;
use std::time::Duration;

use wansan_path::{Effects, Limit, Probability};
use wansan_sim::network::vpn::{Cost, Side, Tunnel, VpnUsage, Wrapping};
use wansan_sim::network::{Hop, Latency, Network, Program};
use wansan_sim::tcp::congestion::Law;
use wansan_sim::tcp::connection::Connection;
use wansan_sim::tcp::jiffies::Hz;
use wansan_sim::tcp::receive::{Opening, ReceiveConfig};
use wansan_sim::tcp::send::SendConfig;

use crate::world::SECOND_NS;

/// ESP with AES-128-GCM over UDP.
const WRAPPING: Wrapping = Wrapping {
    around_bytes: 60,
    trailer_bytes: 2,
    block_bytes: 4,
};

/// The longest packet that enters the tunnel, and its payload.
const INNER_BYTES: u32 = 1400;
const MSS: u32 = INNER_BYTES - 52;

/// A sender and a receiver, each behind a router, and a tunnel between the routers.
struct World {
    cost: Cost,
    /// Maximum number of packets queued for encryption.
    most_packets: Option<u32>,
    ecn: bool,
    /// Of the forward links: to the first router, the tunnel, and from the second router on.
    effects: [Effects; 3],
}

impl Default for World {
    fn default() -> Self {
        World {
            cost: Cost {
                packet_ns: 10_000,
                byte_ps: 20_000,
            },
            most_packets: None,
            ecn: false,
            effects: [link(0), link(5), link(0)],
        }
    }
}

fn link(delay_ms: u64) -> Effects {
    Effects {
        delay: Duration::from_millis(delay_ms),
        queue_limit: Limit::bytes(1 << 30),
        ..Effects::default()
    }
}

/// The network, the sender's end and the forward links; each router has a thread, the sender's first.
fn network(world: &World) -> (Network, u32, [u32; 3]) {
    let mut network = Network::default();
    network.set_latency(Latency::default(), 1);
    let mut side = |router: &str| {
        let thread = network.add_vpn_thread(router, 64);
        [world.most_packets, None].map(|most| network.add_vpn_side(thread, most))
    };
    let [near, far] = ["near vpn", "far vpn"].map(&mut side);
    let address = |last: u8| SocketAddr::from(([10, 0, 0, last], 4500));
    let mut way = |effects: &[Effects; 3], from: [Side; 2], to: [Side; 2], ends: [u8; 2]| {
        let tunnel = network.add_tunnel(Tunnel {
            wrapping: WRAPPING,
            cost: world.cost,
            ends: ends.map(address),
        });
        let links = [0, 1, 2].map(|place| network.link(&effects[place], 1).expect("a link"));
        let hops = vec![
            links[0].into(),
            Hop::Seal {
                side: from[0],
                tunnel,
            },
            links[1].into(),
            Hop::Open { side: to[1] },
            links[2].into(),
        ];
        (hops, links)
    };
    let (out, links) = way(&world.effects, near, far, [1, 2]);
    let back = [link(0), link(5), link(0)];
    let (home, _) = way(&back, far, near, [2, 1]);
    let end = |opening| {
        let send = SendConfig {
            mss: MSS,
            ecn: world.ecn,
            ..SendConfig::default()
        };
        let receive = ReceiveConfig {
            mss: MSS,
            ecn: world.ecn,
            ..ReceiveConfig::default()
        };
        let law = Law::named("reno", Hz::default(), 1).expect("a law");
        Connection::new(opening, send, &receive, law, 0)
    };
    let source = Program::Source {
        bytes: u64::MAX >> 1,
    };
    let sink = Program::Sink { from_ns: 0 };
    let ends = [
        (end(Opening::Active), source, out),
        (end(Opening::Passive), sink, home),
    ];
    let [sender, _] = network.connect(ends, 0);
    (network, sender, links)
}

/// Bytes that a sender delivers from 2 s on for `seconds`, and the routers' usage in that time.
fn steady(network: &mut Network, sender: u32, seconds: u64) -> (u64, Vec<VpnUsage>) {
    let mut until = |s: u64| {
        network.run_until(s * SECOND_NS).expect("it goes on");
        network.record_links();
        let usages = network.vpn_usages().last().expect("recorded").1.clone();
        let acked = network.end(sender).sender().acknowledged_bytes();
        (acked, usages)
    };
    let (before, after) = (until(2), until(2 + seconds));
    let since = |(before, after): (&VpnUsage, &VpnUsage)| VpnUsage {
        sealed_bytes: after.sealed_bytes - before.sealed_bytes,
        opened_bytes: after.opened_bytes - before.opened_bytes,
        dropped_packets: after.dropped_packets - before.dropped_packets,
        dropped_sealed_packets: after.dropped_sealed_packets - before.dropped_sealed_packets,
        ran_ns: after.ran_ns - before.ran_ns,
    };
    let usages = before.1.iter().zip(&after.1).map(since).collect();
    (after.0 - before.0, usages)
}

/// A full packet takes 10 µs plus 20 ns for each of its 1400 bytes: 38 µs. An ACK of 52 bytes takes less than a third
/// of that, and a host that receives packets one by one sends one for every two.
#[test]
fn a_tunnel_carries_what_its_busiest_router_encrypts() {
    let world = World {
        most_packets: Some(500),
        ..World::default()
    };
    let (mut network, sender, _) = network(&world);
    let (bytes, usages) = steady(&mut network, sender, 20);
    let packets = bytes as f64 / f64::from(MSS);
    let most = 20.0 / (38e-6 + 11e-6 / 2.0);
    assert!(
        (0.93..1.01).contains(&(packets / most)),
        "{packets} of {most}"
    );
    let busy = usages[0].ran_ns as f64 / (20 * SECOND_NS) as f64;
    assert!((0.98..=1.001).contains(&busy), "{busy}");
    assert!(usages[0].dropped_packets > 0, "{usages:?}");
    let opened = usages[1].opened_bytes as f64 / f64::from(INNER_BYTES);
    assert!(
        (opened / packets - 1.0).abs() < 0.01,
        "{opened} of {packets}"
    );
}

/// Tunnelled packets are longer by ESP's overhead: 1464 bytes of IP for 1400 inside, and the Ethernet header.
#[test]
fn packets_are_longer_in_the_tunnel() {
    let (mut network, sender, [_, between, _]) = network(&World::default());
    network.run_until(SECOND_NS).expect("it goes on");
    let early = network.counters(between).delivered;
    let before = network.end(sender).sender().counts().sent;
    network.run_until(2 * SECOND_NS).expect("it goes on");
    let late = network.counters(between).delivered;
    let sent = network.end(sender).sender().counts().sent - before;
    assert!(sent > 1_000, "{sent}");
    let each = (late.bytes - early.bytes) as f64 / (late.packets - early.packets) as f64;
    assert!((each - 1_478.0).abs() < 1.0, "{each}");
}

/// A link that marks ECN-capable packets finds none inside the tunnel, but does outside.
#[test]
fn outer_packets_are_not_capable_of_ecn() {
    for place in [0, 1, 2] {
        let mut world = World {
            ecn: true,
            ..World::default()
        };
        world.effects[place].mark = Probability::new(0.01).expect("a probability");
        let (mut network, sender, links) = network(&world);
        network.run_until(5 * SECOND_NS).expect("it goes on");
        assert!(network.end(sender).sender().uses_ecn());
        let marked = network.counters(links[place]).marked.packets;
        let counts = network.end(sender).sender().counts();
        let is_inside = place == 1;
        assert_eq!(marked == 0, is_inside, "{place}: {marked}");
        assert_eq!(counts.reductions == 0, is_inside, "{place}: {counts:?}");
    }
}
