//! Benchmarks the throughput of each kind of tunnel and its cost on each router: one TCP stream from host to host
//! through two routers over unlimited links, with no tunnel and with each kind in turn.
//!
//! ```text
//!   client ── near ══ far ── storage
//! ```
//!
//! `cargo bench -p wansan-lab --bench vpn [-- --json]`

mod stream;

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use wansan_lab::vpn::{self, Cipher, End, Kind, Traffic, TunnelSpec, Tunnels};
use wansan_lab::world::{
    Hop, IpRoute, Medium, NetworkSpec, Node, NodeSpec, Role, TcpSettings, Topology, World, isolate,
};
use wansan_trace::clock;

const KINDS: [Option<Kind>; 5] = [
    None,
    Some(Kind::WireGuard),
    Some(Kind::Ipsec(Cipher::AesGcm)),
    Some(Kind::Ipsec(Cipher::AesCbc)),
    Some(Kind::Ipsec(Cipher::TripleDes)),
];
/// Rounds over all kinds, so that drift of the machine affects all alike.
const ROUNDS: usize = 2;
const MTU_BYTES: u32 = 1500;
const MAIN_TABLE: u32 = 254;
const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 82, 0, 1);
const STORAGE: Ipv4Addr = Ipv4Addr::new(10, 82, 0, 4);

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // The lab starts `wansan wireguard` this way.
    if words.first().is_some_and(|word| word == "wireguard") {
        let Err(error) = wansan_wireguard::run(std::io::stdin(), std::io::stdout());
        eprintln!("{error}");
        return ExitCode::from(2);
    }
    let as_json = words.iter().any(|word| word == "--json");
    match measure_all() {
        Ok(results) if as_json => println!("{}", json!({"vpn": results})),
        Ok(results) => show(&results),
        Err(error) => {
            eprintln!("not run: {error}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

fn measure_all() -> Result<Vec<Value>, String> {
    isolate().map_err(|error| error.to_string())?;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut results = Vec::new();
    for kind in (0..ROUNDS).flat_map(|_| KINDS) {
        if let Some(kind) = kind
            && let Err(missing) = vpn::check(&[kind])
        {
            let missing = missing.to_string();
            results.push(json!({"tunnel": kind.cipher_name(), "not_run": missing}));
            continue;
        }
        results.push(measure(kind, &program)?);
    }
    Ok(results)
}

/// One stream in a fresh world.
fn measure(kind: Option<Kind>, program: &Path) -> Result<Value, String> {
    let world = build(kind).map_err(|error| error.to_string())?;
    let node = |name| world.node(name).expect("it was built");
    let mut tunnels = match kind {
        Some(kind) => Some(tunnel(kind, program, node("near"), node("far"))?),
        None => None,
    };
    let mut sample = || match &mut tunnels {
        Some(tunnels) => tunnels.sample().map_err(|error| error.to_string()),
        None => Ok(()),
    };
    let stream = stream::begin(node("client"), node("storage"), STORAGE)
        .map_err(|error| error.to_string())?;
    sample()?;
    let begin = (clock::now().ns(), stream.received_bytes());
    std::thread::sleep(stream::TIME);
    let end = (clock::now().ns(), stream.received_bytes());
    sample()?;
    stream.end();
    let seconds = (end.0 - begin.0) as f64 / 1e9;
    let usage = tunnels.map(|tunnels| tunnels.end().usage(begin.0, end.0));
    Ok(json!({
        "tunnel": kind.map_or("none", Kind::cipher_name),
        "bits_per_s": (end.1 - begin.1) as f64 * 8.0 / seconds,
        "routers": usage,
    }))
}

fn tunnel(kind: Kind, program: &Path, near: &Node, far: &Node) -> Result<Tunnels, String> {
    let end = |router, node| End {
        router,
        address: Topology::address(1, node),
    };
    let spec = TunnelSpec {
        name: "only".to_owned(),
        kind,
        near: end(near, 1),
        far: end(far, 2),
        outer_mtu_bytes: MTU_BYTES,
        traffic: vec![Traffic {
            near: CLIENT.into(),
            far: STORAGE.into(),
            near_ports: None,
        }],
    };
    let tunnels = Tunnels::start(program, &[spec], &AtomicBool::new(false))
        .map_err(|error| error.to_string())?;
    let tunnel = &tunnels.tunnels()[0];
    for (router, destination, device) in [
        (near, STORAGE, &tunnel.near_device),
        (far, CLIENT, &tunnel.far_device),
    ] {
        let route = route(destination, Hop::Device(device.clone()));
        router
            .set_route(&route)
            .map_err(|error| error.to_string())?;
    }
    Ok(tunnels)
}

/// Network `n` joins nodes `n` and `n + 1` by a wire.
fn build(kind: Option<Kind>) -> Result<World, wansan_lab::world::WorldError> {
    let by = |destination, network, node| route(destination, Hop::Neighbour { network, node });
    // TCP's segments fit into the tunnel from the start.
    let end_to_end = |source, route| IpRoute {
        source: Some(source),
        mtu_bytes: kind.map(|kind| kind.mtu_bytes(MTU_BYTES)),
        ..route
    };
    let node = |name: &str, role, own: &[Ipv4Addr], routes| NodeSpec {
        name: name.to_owned(),
        role,
        tcp: TcpSettings {
            congestion_control: "cubic".to_owned(),
            rmem_bytes: [4_096, 131_072, 6_291_456],
            wmem_bytes: [4_096, 16_384, 4_194_304],
            ecn: false,
        },
        addresses: own.to_vec(),
        routes,
        rules: Vec::new(),
    };
    let to_storage = end_to_end(CLIENT, by(STORAGE, 0, 1));
    let to_client = end_to_end(STORAGE, by(CLIENT, 2, 2));
    let near = vec![by(CLIENT, 0, 0), by(STORAGE, 1, 2)];
    let far = vec![by(STORAGE, 2, 3), by(CLIENT, 1, 1)];
    let wire = |place| NetworkSpec {
        members: vec![place, place + 1],
        medium: Medium::Wire,
    };
    World::build(&Topology {
        nodes: vec![
            node("client", Role::Host, &[CLIENT], vec![to_storage]),
            node("near", Role::Router, &[], near),
            node("far", Role::Router, &[], far),
            node("storage", Role::Host, &[STORAGE], vec![to_client]),
        ],
        networks: (0..3).map(wire).collect(),
        mtu_bytes: MTU_BYTES,
    })
}

fn route(destination: Ipv4Addr, hop: Hop) -> IpRoute {
    IpRoute {
        destination,
        table: MAIN_TABLE,
        hop,
        source: None,
        mtu_bytes: None,
    }
}

fn show(results: &[Value]) {
    println!("one TCP stream through two routers over wires, sender's side first");
    for kind in KINDS {
        let name = kind.map_or("none", Kind::cipher_name);
        let of_kind: Vec<&Value> = results
            .iter()
            .filter(|result| result["tunnel"] == name)
            .collect();
        let list = |pointer: &str, scale: f64, digits: usize| {
            let numbers = of_kind.iter().map(|result| {
                let number = result.pointer(pointer).and_then(Value::as_f64);
                number.map_or("–".to_owned(), |number| {
                    format!("{:.digits$}", number / scale)
                })
            });
            numbers.collect::<Vec<_>>().join(" ")
        };
        if let Some(reason) = of_kind.iter().find_map(|result| result["not_run"].as_str()) {
            println!("  {name:18} not run: {reason}");
            continue;
        }
        let cost = |router: &str| {
            let place = of_kind[0]["routers"]
                .as_array()
                .and_then(|routers| routers.iter().position(|usage| usage["router"] == router));
            place.map_or_else(
                || "–".to_owned(),
                |place| list(&format!("/routers/{place}/cpu_s_per_gib"), 1.0, 2),
            )
        };
        println!(
            "  {name:18} {} Mbit/s; CPU s/GiB near {}, far {}",
            list("/bits_per_s", 1e6, 0),
            cost("near"),
            cost("far"),
        );
    }
}
