//! Connections through routers, each over its own route in both directions: real namespaces and packets, as root and as
//! an ordinary user, with a stand-in for the programs on the hosts.
//!
//! Every test reruns this program in a role of its own.

#[path = "stand_in/programs.rs"]
mod stand_in;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use libtest_mimic::Arguments;
use rustix::net::{AddressFamily, SocketType, bind, connect, socket, sockopt};
use wansan_arms::{Arm, ROLE, end, one_arm};
use wansan_iscsi::text::send_targets::ISCSI_PORT;
use wansan_lab::hosts::Reach;
use wansan_lab::plan::{Link, Phase, Plan, Scenario};
use wansan_lab::run::{Observer, Options, run};
use wansan_lab::world::isolate;
use wansan_san::settings::BenchSettings;
use wansan_schema::{CellResult, Results};
use wansan_trace::event::Packet;
use wansan_trace::file::{self, Table};
use wansan_trace::{ConnectionId, Direction, Kinds, Layer, Recorder, SessionId, TaskTag, clock};

use stand_in::{ANSWER_BYTES, REQUEST_BYTES};

/// Requests on each connection of the stand-in, before and after it is reestablished.
const EXCHANGES: u32 = 20;

/// A test's name, the kind of routing, and further plan text.
const TESTS: [(&str, &str, Case); 9] = [
    ("by port", "port", UPPER_AND_LOWER),
    ("by the initiator's address", "source", UPPER_AND_LOWER),
    ("by the target's address", "prefix", UPPER_AND_LOWER),
    (
        "one connection by the target's address",
        "prefix",
        Case {
            routes: "routes = [\"lower\"]",
            ..UPPER_AND_LOWER
        },
    ),
    (
        "a route and a path of two initiators",
        "port",
        Case {
            clients: 2,
            routes: "routes = [\"upper\", \"straight\"]",
            ..UPPER_AND_LOWER
        },
    ),
    (
        "two initiators by their addresses",
        "source",
        Case {
            clients: 2,
            routes: "routes = [\"lower\", \"long\"]",
            ..UPPER_AND_LOWER
        },
    ),
    (
        "through tunnels by port",
        "port",
        Case {
            vpn: "wireguard",
            ..UPPER_AND_LOWER
        },
    ),
    (
        "through tunnels by the initiator's address",
        "source",
        Case {
            vpn: "wireguard",
            ..UPPER_AND_LOWER
        },
    ),
    (
        "through a tunnel over a router in between, of two initiators",
        "prefix",
        Case {
            clients: 2,
            routes: "routes = [\"long\", \"lower\"]",
            vpn: "wireguard",
        },
    ),
];

/// Three connections over two routes.
const UPPER_AND_LOWER: Case = Case {
    clients: 1,
    routes: "routes = [\"upper\", \"lower\"]\nconnections = 3",
    vpn: "none",
};

#[derive(Clone, Copy)]
struct Case {
    clients: u32,
    routes: &'static str,
    vpn: &'static str,
}

/// Two routers on the initiators' side, one on the target's, and another one on a third route.
fn plan(by: &str, case: Case) -> Plan {
    let Case {
        clients,
        routes,
        vpn,
    } = case;
    let text = format!(
        "title = \"Trial\"\n\
         [[host]]\nname = \"storage\"\n[[host]]\nname = \"client\"\ncount = {clients}\n\
         [[router]]\nname = \"near\"\ncount = 2\n\
         [[router]]\nname = \"middle\"\n[[router]]\nname = \"far\"\n\
         [[path]]\nname = \"to-upper\"\nbetween = [\"client\", \"near-1\"]\n\
         [[path]]\nname = \"to-lower\"\nbetween = [\"client\", \"near-2\"]\n\
         [[path]]\nname = \"upper\"\nbetween = [\"near-1\", \"far\"]\ndelay = \"1ms\"\n\
         [[path]]\nname = \"lower\"\nbetween = [\"near-2\", \"far\"]\ndelay = \"2ms\"\n\
         [[path]]\nname = \"to-middle\"\nbetween = [\"near-1\", \"middle\"]\n\
         [[path]]\nname = \"long\"\nbetween = [\"middle\", \"far\"]\ndelay = \"0ms\"\n\
         [[path]]\nname = \"site\"\nbetween = [\"far\", \"storage\"]\n\
         [[path]]\nname = \"straight\"\nbetween = [\"client\", \"storage\"]\ndelay = \"1ms\"\n\
         [[route]]\nname = \"upper\"\nvia = [\"near-1\", \"far\"]\nvpn = \"{vpn}\"\n\
         [[route]]\nname = \"lower\"\nvia = [\"near-2\", \"far\"]\nvpn = \"{vpn}\"\n\
         [[route]]\nname = \"long\"\nvia = [\"near-1\", \"middle\", \"far\"]\nvpn = \"{vpn}\"\n\
         [routing]\nby = \"{by}\"\n\
         [target]\nhost = \"storage\"\nluns = [\"memory:1MiB\"]\n\
         [[initiator]]\nhost = \"client\"\n{routes}\n\
         [workload]\nop = \"read\"\nblock = \"4KiB\"\ntime = \"300ms\"\nwarmup = \"50ms\"\n\
         [trace]\nkinds = [\"io\", \"path\", \"packet\"]\nmemory = \"32MiB\"\n"
    );
    Plan::parse(Path::new("trial.toml"), &text).expect("the trial's plan is right")
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let played = match arguments.first().map(String::as_str) {
        Some(ROLE) => play(&arguments[1]),
        Some("target") => target(),
        Some("bench") => bench(&arguments),
        // The lab starts `wansan wireguard` this way.
        Some("wireguard") => {
            let Err(error) = wansan_wireguard::run(std::io::stdin(), std::io::stdout());
            Err(error.to_string())
        }
        _ => return test(),
    };
    end(played)
}

fn test() -> ExitCode {
    let arguments = Arguments::from_args();
    let arm = one_arm(|arm| arm.plays(&["isolate"]));
    // An ordinary user can seldom create tunnel devices.
    let with_tunnels = Arm::of_suite();
    let trials = TESTS
        .map(|(name, _, case)| match case.vpn {
            "none" => arm.trial(name, move || arm.plays(&[name])),
            _ => with_tunnels.tunnel_trial(name, move || with_tunnels.plays(&[name])),
        })
        .into();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn play(role: &str) -> Result<(), String> {
    let rights = isolate().map_err(|error| error.to_string())?;
    let Some((_, by, case)) = TESTS.iter().find(|(name, ..)| *name == role) else {
        return Ok(());
    };
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let options = Options {
        program: std::env::current_exe().map_err(|error| error.to_string())?,
        out: scratch.path().join("runs"),
        rights,
        reach: Reach::default(),
        on: None,
        budget: None,
        stop: &AtomicBool::new(false),
    };
    let plan = plan(by, *case);
    let outcome = run(&plan, &options, &mut Nobody).map_err(|error| error.to_string())?;
    let cells = plan.cells(Phase::Planned, &[]).map_err(|e| e.to_string())?;
    let packets: Table<Packet> = file::read(&outcome.folder.join("cell-000/packet.parquet"))
        .map_err(|error| error.to_string())?;
    every_packet_keeps_to_its_route(&cells[0].scenario, &packets)?;
    let manifest = std::fs::read_to_string(outcome.folder.join("manifest.json"));
    manifest_shows_the_way(&manifest.map_err(|error| error.to_string())?)
}

struct Nobody;

impl Observer for Nobody {
    fn phase(&mut self, _phase: Phase, _cells: usize, _left: Duration) {}
    fn progress(&mut self, _done: usize, _cells: usize, _left: Duration) {}
    fn cell(&mut self, _result: &CellResult) {}
    fn found(&mut self, _results: &Results) {}
}

/// Checks that each connection's packets, in both directions, passed the emulated paths of its route, encapsulated
/// where it has a tunnel, and no other path.
fn every_packet_keeps_to_its_route(
    scenario: &Scenario,
    packets: &Table<Packet>,
) -> Result<(), String> {
    // The addresses of the packets on each direction of a path.
    let mut expected: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for initiator in &scenario.initiators {
        let host = scenario.topology.nodes.iter();
        let host = host
            .enumerate()
            .find(|(_, node)| node.name == initiator.host);
        let (host, _) = host.ok_or("no such host")?;
        for connection in &initiator.connections {
            let to = SocketAddrV4::new(connection.target, ISCSI_PORT).to_string();
            let from = match connection.source.port() {
                0 => connection.source.ip().to_string(),
                _ => connection.source.to_string(),
            };
            // The paths of the connection, each with the addresses of packets there.
            let mut passed: Vec<(&Link, [String; 2])> = Vec::new();
            match connection.route_place {
                None => {
                    let mut links = scenario.links.iter();
                    let path = links.find(|link| link.name == connection.route);
                    passed.push((path.ok_or("no such path")?, [from, to]));
                }
                Some(place) => {
                    let planned = &scenario.routes[place];
                    let mut links = scenario.links.iter();
                    let first = links.find(|link| link.joins(host, planned.via[0]));
                    passed.push((first.ok_or("no first path")?, [from.clone(), to.clone()]));
                    let (last, between) = planned.networks.split_last().ok_or("no networks")?;
                    let inside = match &planned.tunnel {
                        Some(tunnel) => [&tunnel.near, &tunnel.far].map(|e| e.outer.to_string()),
                        None => [from.clone(), to.clone()],
                    };
                    for network in between {
                        passed.push((&scenario.links[*network], inside.clone()));
                    }
                    passed.push((&scenario.links[*last], [from, to]));
                }
            }
            for (link, [from, to]) in passed.into_iter().filter(|(link, _)| !link.wire) {
                let forward = expected.entry(format!("{}:forward", link.name));
                forward.or_default().push(format!("{from} {to}"));
                let back = expected.entry(format!("{}:back", link.name));
                back.or_default().push(format!("{to} {from}"));
            }
        }
    }
    let by_port = scenario.initiators.iter().flat_map(|i| &i.connections);
    let ports: Vec<u16> = by_port
        .map(|c| c.source.port())
        .filter(|p| *p != 0)
        .collect();
    let shown = |end: SocketAddr| {
        if end.port() == ISCSI_PORT || ports.contains(&end.port()) {
            end.to_string()
        } else {
            end.ip().to_string()
        }
    };
    let mut seen: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in &packets.rows {
        let packet = &row.record;
        let ends = format!("{} {}", shown(packet.source), shown(packet.destination));
        let path = packets.names.get(packet.path).to_owned();
        let of_path = seen.entry(path).or_default();
        if !of_path.contains(&ends) {
            of_path.push(ends);
        }
    }
    for ends in seen.values_mut().chain(expected.values_mut()) {
        ends.sort();
        ends.dedup();
    }
    if seen == expected {
        Ok(())
    } else {
        Err(format!(
            "expected {expected:#?}, and there passed {seen:#?}"
        ))
    }
}

/// Checks that the manifest lists hosts and routers with their addresses and routes.
fn manifest_shows_the_way(manifest: &str) -> Result<(), String> {
    let manifest: serde_json::Value =
        serde_json::from_str(manifest).map_err(|error| error.to_string())?;
    let cell = &manifest["cells"][0];
    let nodes = cell["nodes"].as_array().ok_or("no nodes")?;
    let far = nodes.iter().find(|node| node["name"] == "far");
    let far = far.ok_or("`far` is not in the manifest")?;
    let routed = far["routes"]
        .as_array()
        .is_some_and(|routes| routes.len() >= 2);
    let forwards = far["settings"]["net.ipv4.ip_forward"] == "1";
    if far["role"] != "router" || !routed || !forwards {
        return Err(format!("`far` is {far}"));
    }
    for name in ["emulator_ring_drops", "emulator_strays"] {
        if cell[name] != 0 {
            return Err(format!("{name} is {}", cell[name]));
        }
    }
    Ok(())
}

/// Answers all requests.
fn target() -> Result<(), String> {
    let listener = stand_in::listen(("0.0.0.0", ISCSI_PORT));
    let answered = listener.and_then(stand_in::answer);
    answered.map_err(|error| error.to_string())
}

/// Opens a connection over each route, and then again with the same addresses and ports.
fn bench(arguments: &[String]) -> Result<(), String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let kinds = Kinds {
        io: true,
        ..Kinds::NONE
    };
    let mut recorder = Recorder::new(kinds, 1 << 20);
    let session = SessionId::new([0; 6], std::process::id() as u16);
    let settings: BenchSettings = stand_in::settings(arguments)?;
    let routes = &settings.initiator.connections.route;
    stand_in::wait_to_begin().map_err(|error| text(&error))?;
    let from = clock::now();
    let mut asked = 0u32;
    for _ in 0..2 {
        let mut streams = Vec::new();
        for route in routes {
            streams.push(dial(&route.to_string()).map_err(|error| format!("{route}: {error}"))?);
        }
        let mut answer = vec![0; ANSWER_BYTES];
        for _ in 0..EXCHANGES {
            for stream in &mut streams {
                let mut cross = |direction| {
                    let (now, task) = (clock::now(), TaskTag(asked));
                    let connection = ConnectionId(0);
                    recorder.crossing(now, session, connection, task, Layer::App, direction);
                };
                cross(Direction::Enter);
                stream
                    .write_all(&[0; REQUEST_BYTES])
                    .map_err(|e| text(&e))?;
                stream.read_exact(&mut answer).map_err(|e| text(&e))?;
                cross(Direction::Leave);
                asked += 1;
            }
        }
    }
    stand_in::report(&settings, recorder, from, asked)
}

/// Connects over a route in the syntax of `--route`.
fn dial(route: &str) -> Result<TcpStream, Box<dyn std::error::Error>> {
    let (from, to) = route.split_once("->").ok_or("no route")?;
    let source: SocketAddrV4 = from.parse().or_else(|_| format!("{from}:0").parse())?;
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&stream, true)?;
    // As an initiator closes a lost connection, so that the next one can reuse its port.
    sockopt::set_socket_linger(&stream, Some(Duration::ZERO))?;
    bind(&stream, &source)?;
    connect(&stream, &to.parse::<SocketAddrV4>()?)?;
    Ok(stream.into())
}
