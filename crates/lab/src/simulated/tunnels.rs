//! A scenario's tunnels, and its routers' VPN programs, in the simulator.

use std::net::SocketAddr;

use wansan_schema::TunnelFacts;
use wansan_sim::network::Network;
use wansan_sim::network::vpn::{Cost, Side, Tunnel, VpnUsage};
use wansan_sim::tcp::receive::{ReceiveConfig, Truesize};
use wansan_wireguard::{RECEIVE_BUFFER_BYTES, TURN_PACKETS};

use crate::plan::Scenario;
use crate::vpn::{Cipher, Counters, Kind, Meter, Metered, Vpn};

/// Queue length of a TUN device, in packets (TUN_READQ_SIZE, drivers/net/tun.c).
const DEVICE_PACKETS: u32 = 500;

/// Processor time to encrypt or decrypt a packet, measured as described in docs/internals/simulator.md.
const fn cost(kind: Kind) -> Cost {
    let (packet_ns, byte_ps) = match kind {
        Kind::WireGuard => (4_500, 620),
        Kind::Ipsec(Cipher::AesGcm) => (13_700, 870),
        Kind::Ipsec(Cipher::AesCbc) => (18_200, 2_100),
        Kind::Ipsec(Cipher::TripleDes) => (30_800, 40_300),
    };
    Cost { packet_ns, byte_ps }
}

/// One direction of a route's tunnel.
#[derive(Debug, Clone, Copy)]
pub(super) struct Through {
    /// The queue before encryption.
    pub(super) seal: Side,
    /// Its number in the network.
    pub(super) tunnel: u32,
    /// The queue before decryption.
    pub(super) open: Side,
}

/// Both directions of each route's tunnel, and the programs that serve them.
#[derive(Debug)]
pub(super) struct Tunnels {
    /// Forward and back; `None` for a route without a tunnel, or not in use.
    routes: Vec<Option<[Through; 2]>>,
    programs: Vec<Program>,
}

/// The VPN program of a router.
#[derive(Debug)]
struct Program {
    router: String,
    vpn: Vpn,
    ciphers: Vec<&'static str>,
    threads: Threads,
}

/// Its threads, by number in the network.
#[derive(Debug, Clone, Copy)]
enum Threads {
    /// One thread serves a device and a socket per tunnel, as in `wansan wireguard`.
    One(u32),
    /// One thread encrypts for all tunnels and another decrypts, with unbounded queues, as in charon.
    Two([(u32, Side); 2]),
}

impl Tunnels {
    /// Adds the tunnels of all routes in use.
    pub(super) fn build(network: &mut Network, scenario: &Scenario) -> Tunnels {
        let mut tunnels = Tunnels {
            routes: Vec::new(),
            programs: Vec::new(),
        };
        let mut of_wireguard = 0;
        for planned in &scenario.routes {
            let both = planned.taken_tunnel().map(|tunnel| {
                let ends = [&tunnel.near, &tunnel.far];
                let kind = tunnel.kind;
                let port = kind.port(of_wireguard);
                of_wireguard += usize::from(kind == Kind::WireGuard);
                let outer = ends.map(|end| SocketAddr::from((end.outer, port)));
                let sides = ends.map(|end| {
                    let router = &scenario.topology.nodes[end.router].name;
                    tunnels.sides(network, router, kind, tunnel.mtu_bytes)
                });
                [[0, 1], [1, 0]].map(|[from, to]: [usize; 2]| Through {
                    seal: sides[from][0],
                    tunnel: network.add_tunnel(Tunnel {
                        wrapping: kind.wrapping(),
                        cost: cost(kind),
                        ends: [outer[from], outer[to]],
                    }),
                    open: sides[to][1],
                })
            });
            tunnels.routes.push(both);
        }
        tunnels
    }

    /// The tunnel of the route at that index, forward and back.
    pub(super) fn of_route(&self, place: usize) -> Option<[Through; 2]> {
        self.routes[place]
    }

    /// The queues of a router's program for a tunnel's packets, before encryption and before decryption.
    fn sides(
        &mut self,
        network: &mut Network,
        router: &str,
        kind: Kind,
        mtu_bytes: u32,
    ) -> [Side; 2] {
        let vpn = kind.vpn();
        let mut known = self.programs.iter();
        let known = known.position(|it| it.router == router && it.vpn == vpn);
        let place = known.unwrap_or_else(|| {
            self.programs.push(Program {
                router: router.to_owned(),
                vpn,
                ciphers: Vec::new(),
                threads: Threads::add(network, &format!("{router} {}", vpn.name()), vpn),
            });
            self.programs.len() - 1
        });
        let program = &mut self.programs[place];
        if !program.ciphers.contains(&kind.cipher_name()) {
            program.ciphers.push(kind.cipher_name());
        }
        match program.threads {
            Threads::One(thread) => [DEVICE_PACKETS, socket_packets(kind, mtu_bytes)]
                .map(|most| network.add_vpn_side(thread, Some(most))),
            Threads::Two(both) => both.map(|(_, side)| side),
        }
    }

    /// Each router's work over time.
    pub(super) fn meter(&self, network: &Network) -> Meter {
        let metered = self.programs.iter().map(|program| Metered {
            router: program.router.clone(),
            vpn: program.vpn,
            ciphers: program.ciphers.clone(),
        });
        let mut meter = Meter::new(metered.collect());
        for (at, usages) in network.vpn_usages() {
            let counters = self.programs.iter();
            let counters = counters.map(|program| program.threads.counters(usages));
            meter.note(at.ns(), counters.collect());
        }
        meter
    }
}

impl Threads {
    fn add(network: &mut Network, program: &str, vpn: Vpn) -> Threads {
        match vpn {
            Vpn::Ipsec => Threads::Two([(); 2].map(|()| {
                let thread = network.add_vpn_thread(program, 1);
                (thread, network.add_vpn_side(thread, None))
            })),
            Vpn::WireGuard | Vpn::None => {
                Threads::One(network.add_vpn_thread(program, TURN_PACKETS as u32))
            }
        }
    }

    /// Their combined counters.
    fn counters(self, usages: &[VpnUsage]) -> Counters {
        let own = match self {
            Threads::One(thread) => vec![thread],
            Threads::Two(both) => both.map(|(thread, _)| thread).to_vec(),
        };
        let own = own.into_iter().map(|thread| usages[thread as usize]);
        own.fold(Counters::default(), |sum, usage| Counters {
            cpu_ns: sum.cpu_ns + usage.ran_ns,
            sent_bytes: sum.sent_bytes + usage.sealed_bytes,
            received_bytes: sum.received_bytes + usage.opened_bytes,
            dropped_packets: sum.dropped_packets + usage.dropped_packets,
            dropped_sealed_packets: sum.dropped_sealed_packets + usage.dropped_sealed_packets,
        })
    }
}

/// How many of the longest packets fit into the buffer of a tunnel's socket, which is twice the requested size
/// (socket(7)).
fn socket_packets(kind: Kind, mtu_bytes: u32) -> u32 {
    let asked = (RECEIVE_BUFFER_BYTES as u64).min(ReceiveConfig::default().rmem_max_bytes);
    let longest = kind.wrapping().outer_bytes(mtu_bytes);
    (2 * asked / Truesize::default().of(longest)) as u32
}

/// Facts about a scenario's tunnels, for the manifest.
pub(crate) fn facts(scenario: &Scenario) -> Vec<TunnelFacts> {
    let taken = scenario.routes.iter();
    let taken = taken.filter_map(|planned| Some((planned, planned.taken_tunnel()?)));
    let facts = taken.map(|(planned, tunnel)| {
        let Cost { packet_ns, byte_ps } = cost(tunnel.kind);
        let mtu_bytes = tunnel.mtu_bytes;
        TunnelFacts {
            program: format!(
                "simulated: {packet_ns} ns for each packet and {byte_ps} ps for each of its bytes"
            ),
            mtu_bytes,
            overhead_bytes: tunnel.kind.wrapping().outer_bytes(mtu_bytes) - mtu_bytes,
            ..tunnel.kind.facts(&planned.name)
        }
    });
    facts.collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::plan::{Phase, Plan};
    use crate::simulated;

    const PLAN: &str = r#"
title = "Two routes through tunnels"
[world]
kind = "sim"
[[host]]
name = "client"
[[host]]
name = "storage"
[[router]]
name = "near"
count = 2
[[router]]
name = "far"
[[path]]
name = "one"
between = ["client", "near-1"]
[[path]]
name = "two"
between = ["client", "near-2"]
[[path]]
name = "upper"
between = ["near-1", "far"]
delay = "2ms"
rate = "20Mbit/s"
[[path]]
name = "lower"
between = ["near-2", "far"]
delay = "2ms"
rate = "20Mbit/s"
[[path]]
name = "site"
between = ["far", "storage"]
[[route]]
name = "upper"
via = ["near-1", "far"]
vpn = "wireguard"
[[route]]
name = "lower"
via = ["near-2", "far"]
vpn = "ipsec"
cipher = "aes-cbc"
[routing]
by = "port"
[target]
host = "storage"
luns = ["memory:64MiB"]
[[initiator]]
host = "client"
routes = ["upper", "lower"]
[workload]
op = "read"
block = "64KiB"
parallel = 8
warmup = "500ms"
time = "1s"
[trace]
kinds = ["io", "packet", "thread"]
"#;

    /// The initiator's router decrypts what the target's router encrypts, as far as the paths carry it; the processor
    /// time follows from the packets.
    #[test]
    fn each_router_s_program_is_metered() {
        let plan = Plan::parse(Path::new("trial.toml"), PLAN).unwrap();
        let cell = &plan.cells(Phase::Planned, &[]).unwrap()[0];
        let folder = tempfile::tempdir().unwrap();
        let run = simulated::run(cell, 1, folder.path(), &mut |_| true);
        let run = run.unwrap().expect("it goes on");
        let report = &run.reports[0];
        let from_ns = report.measured_from_ns;
        let usages = run.vpns.usage(from_ns, report.measured_to_ns);
        let of = |router: &str, vpn: Vpn| {
            let mut usages = usages.iter();
            let found = usages.find(|it| it.router == router && it.vpn == vpn.name());
            found.expect("a router's program")
        };
        assert_eq!(usages.len(), 4);
        for (near, kind) in [
            ("near-1", Kind::WireGuard),
            ("near-2", Kind::Ipsec(Cipher::AesCbc)),
        ] {
            let (near, far) = (of(near, kind.vpn()), of("far", kind.vpn()));
            assert_eq!(near.ciphers, [kind.cipher_name()]);
            // 20 Mbit/s of frames for a second, of which inner packets are a part.
            let longest = kind.mtu_bytes(1500);
            let frame_bytes = 14 + kind.wrapping().outer_bytes(longest);
            let expected = 2_500_000.0 * f64::from(longest) / f64::from(frame_bytes);
            let ratio = near.received_bytes as f64 / expected;
            assert!((ratio - 1.0).abs() < 0.01, "{near:?}");
            // Packets dropped by the path's queue have been encrypted all the same.
            assert!(far.sent_bytes + 10_000 > near.received_bytes, "{far:?}");
            let longest = u64::from(longest);
            let Cost { packet_ns, byte_ps } = cost(kind);
            // As if everything encrypted were of full length, and nothing were decrypted.
            let least_ns = far.sent_bytes / longest * packet_ns + far.sent_bytes * byte_ps / 1_000;
            let most_ns = 2 * least_ns;
            assert!(
                (least_ns * 9 / 10..most_ns).contains(&far.cpu_ns),
                "{far:?}"
            );
        }
    }

    /// WireGuard adds 60 bytes; ESP with AES-CBC and SHA-256 turns 1400 into 1476.
    #[test]
    fn the_manifest_says_what_tunnels_were_simulated_with() {
        let plan = Plan::parse(Path::new("trial.toml"), PLAN).unwrap();
        let cell = &plan.cells(Phase::Planned, &[]).unwrap()[0];
        let told: Vec<_> = facts(&cell.scenario)
            .into_iter()
            .map(|it| (it.name, it.vpn, it.mtu_bytes, it.overhead_bytes))
            .collect();
        let of =
            |name: &str, vpn: &str, mtu, overhead| (name.to_owned(), vpn.to_owned(), mtu, overhead);
        assert_eq!(
            told,
            [
                of("upper", "wireguard", 1440, 60),
                of("lower", "ipsec", 1400, 76)
            ]
        );
    }
}
