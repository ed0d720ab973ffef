//! What the emulator achieves, measured from outside: UDP senders and receivers on two hosts, with
//! times of their own in every packet.
//!
//! - *rate*: both hosts offer 1.05 Gbit/s of 1500-byte packets to a path of 1 Gbit/s; what the
//!   interfaces' counters say has arrived, and how much of one core the emulator takes for it;
//! - *delay*: both hosts offer 500 Mbit/s; how much later the receiving host's kernel has each
//!   packet than an ideal path would deliver it.
//!
//! `cargo bench -p wansan-lab --bench emulator [-- --json]`

mod probe;
mod stamped;

use std::process::ExitCode;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde_json::{Value, json};
use wansan_lab::emulator::{Config, Direction, Emulator, Port, Route, Statistics};
use wansan_lab::world::{TcpSettings, Topology, World, isolate};
use wansan_path::{Effects, Limit, Rate};
use wansan_trace::{Kinds, Recorder};

use probe::Flow;

const LINK_BITS_PER_S: u64 = 1_000_000_000;
const DELAY: Duration = Duration::from_millis(16);
const QUEUE_BYTES: u64 = 1 << 20;
const MTU_BYTES: u32 = 1500;
/// An IP packet of the MTU and its Ethernet header.
const FRAME_BYTES: u32 = MTU_BYTES + 14;
const RUN: Duration = Duration::from_secs(3);
const REPEATS: usize = 3;

fn main() -> ExitCode {
    let json = std::env::args().any(|argument| argument == "--json");
    let world = isolate().and_then(|_| World::build(&topology()));
    let world = match world {
        Ok(world) => world,
        Err(error) => {
            eprintln!("not run: {error}");
            return ExitCode::from(2);
        }
    };
    let rates: Vec<Value> = (0..REPEATS).map(|_| rate(&world)).collect();
    let delays: Vec<Value> = (0..REPEATS).map(|_| delay(&world)).collect();
    let results = json!({"emulator": {"rate": rates, "delay": delays}});
    if json {
        println!("{results}");
        return ExitCode::SUCCESS;
    }
    println!("emulator, 1 Gbit/s and 16 ms each way, both ways at once, 1500-byte packets");
    for rate in &rates {
        let mbit = |way: usize| rate["delivered_bits_per_s"][way].as_u64().unwrap_or(0) / 1_000_000;
        println!(
            "  rate   {} + {} Mbit/s; {} % of a core; ring drops {}; {}",
            mbit(0),
            mbit(1),
            rate["core_percent"],
            rate["ring_drops"],
            rate["scheduling"],
        );
    }
    for delay in &delays {
        let us = |quantile| delay["late_ns"][quantile].as_u64().unwrap_or(0) / 1_000;
        println!(
            "  delay  late by p50 {} µs, p99 {} µs, p99.9 {} µs, at most {} µs; {} of {} lost; \
             {} % of a core",
            us("p50"),
            us("p99"),
            us("p99_9"),
            us("max"),
            delay["lost"],
            delay["sent"],
            delay["core_percent"],
        );
    }
    ExitCode::SUCCESS
}

fn topology() -> Topology {
    let tcp = TcpSettings {
        congestion_control: "cubic".to_owned(),
        rmem_bytes: [4_096, 131_072, 6_291_456],
        wmem_bytes: [4_096, 16_384, 4_194_304],
        ecn: false,
    };
    Topology::flat(&["west", "east"], &tcp, MTU_BYTES)
}

/// Has `probe` send a packet every so long both ways, which makes `bits_per_s` of frames, through
/// a fresh emulator.
fn run<T>(
    world: &World,
    bits_per_s: u64,
    probe: impl FnOnce(&World, Duration, Duration) -> T,
) -> (T, Statistics) {
    let rate = Rate::from_bits_per_s(LINK_BITS_PER_S).expect("not zero");
    let effects = Effects {
        capacity: rate.into(),
        queue_limit: Limit::bytes(QUEUE_BYTES),
        delay: DELAY,
        ..Effects::default()
    };
    let direction = |name: &str| Direction::new(name, effects.chain(0).expect("they fit"));
    let interfaces = world.nodes().iter().flat_map(|node| node.interfaces());
    let ports = interfaces.filter_map(Port::of);
    let config = Config {
        ports: ports.collect(),
        directions: vec![direction("wan:forward"), direction("wan:back")],
        routes: vec![
            Route {
                from: 0,
                to: 1,
                direction: 0,
            },
            Route {
                from: 1,
                to: 0,
                direction: 1,
            },
        ],
        mtu_bytes: MTU_BYTES as usize,
        sample_interval: Duration::from_millis(10),
        recorder: Recorder::new(
            Kinds {
                path: true,
                ..Kinds::NONE
            },
            64 << 20,
        ),
    };
    let emulator = Emulator::start(world.wan().handle(), config).expect("an emulator");
    let gap = Duration::from_nanos(u64::from(FRAME_BYTES) * 8 * 1_000_000_000 / bits_per_s);
    let measured = probe(world, gap, RUN);
    let report = emulator.stop().expect("it ran");
    (measured, report.statistics)
}

fn rate(world: &World) -> Value {
    let offered_bits_per_s = LINK_BITS_PER_S / 100 * 105;
    let (rates, statistics) = run(world, offered_bits_per_s, probe::through_interfaces);
    let mut result = facts(&statistics);
    result["delivered_bits_per_s"] = rates.into();
    result
}

fn delay(world: &World) -> Value {
    let (flows, statistics) = run(world, LINK_BITS_PER_S / 2, probe::both_ways);
    let sent: usize = flows.iter().map(|flow| flow.sent_ns.len()).sum();
    let arrived: usize = flows.iter().map(|flow| flow.arrivals.len()).sum();
    let mut result = facts(&statistics);
    result["late_ns"] = errors(&flows);
    result["sent"] = sent.into();
    result["lost"] = (sent - arrived).into();
    result
}

/// What the emulator tells of itself.
fn facts(statistics: &Statistics) -> Value {
    let paths = statistics.paths.iter();
    let through: Vec<u64> = paths
        .map(|path| path.counters.entered.bytes * 8 * 1_000_000_000 / statistics.elapsed_ns.max(1))
        .collect();
    json!({
        "mean_entered_bits_per_s": through,
        "ring_drops": statistics.ring_drops,
        "core_percent": statistics.cpu_ns * 100 / statistics.elapsed_ns.max(1),
        "scheduling": statistics.scheduling.name(),
    })
}

/// How much later packets arrived than an ideal path would deliver them, given when they were
/// sent: each one waits for those before it, is sent at the link's rate and delayed.
fn errors(flows: &[Flow]) -> Value {
    let sending_ns = f64::from(FRAME_BYTES) * 8e9 / LINK_BITS_PER_S as f64;
    let mut late = Histogram::<u64>::new_with_bounds(1, 10_000_000_000, 3).expect("valid bounds");
    let mut early = 0u64;
    for flow in flows {
        let mut free_at_ns = 0.0;
        let ideal_ns: Vec<f64> = flow
            .sent_ns
            .iter()
            .map(|&sent_ns| {
                free_at_ns = f64::max(free_at_ns, sent_ns as f64) + sending_ns;
                free_at_ns + DELAY.as_nanos() as f64
            })
            .collect();
        for arrival in &flow.arrivals {
            let error_ns = arrival.stamped_ns as f64 - ideal_ns[arrival.number];
            early += u64::from(error_ns < 0.0);
            late.saturating_record(error_ns.max(0.0) as u64);
        }
    }
    json!({
        "early": early,
        "p50": late.value_at_quantile(0.5),
        "p99": late.value_at_quantile(0.99),
        "p99_9": late.value_at_quantile(0.999),
        "max": late.max(),
    })
}
