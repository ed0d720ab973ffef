//! Real frames through emulated paths, as root and as an ordinary user.
//!
//! Every test reruns this program in a role of its own.

mod effects;
mod rests;
mod segmented;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use libtest_mimic::Arguments;
use wansan_arms::{ROLE, end, one_arm};
use wansan_lab::emulator::{Config, Direction, Emulator, EmulatorError, Report, Route};
use wansan_lab::world::{Interface, TcpSettings, Topology, World, isolate};
use wansan_path::{Capacity, Effects, Limit, LossModel, Probability, Rate};
use wansan_trace::event::{self, Verdict};
use wansan_trace::{Kinds, Recorder, clock};

const DELAY: Duration = Duration::from_millis(20);
/// Longer than any machine takes for these tests.
const LONG: Duration = Duration::from_secs(20);

type Role = fn(&World) -> Result<(), String>;

const ROLES: [(&str, Role); 14] = [
    (
        "TCP's bytes arrive over a lossy path",
        tcp_over_a_lossy_path,
    ),
    (
        "packets that leave together arrive as one",
        packets_that_leave_together_arrive_as_one,
    ),
    (segmented::NAME, segmented::all_segments_arrive),
    ("no packet is early", no_packet_is_early),
    (
        "a seed drops the same packets again",
        a_seed_drops_the_same_packets,
    ),
    ("a link is shared by all who send on it", a_link_is_shared),
    ("records and counters agree", records_and_counters_agree),
    (
        "CE marks arrive on capable packets only",
        effects::marks_reach_capable_packets,
    ),
    (
        "corruption fails checksums",
        effects::corruption_fails_checksums,
    ),
    ("copies arrive", effects::copies_arrive),
    ("packets are held back", effects::packets_are_held_back),
    ("layer-2 overhead takes time", effects::overhead_takes_time),
    (
        "a busy link leaves the kernel its share",
        rests::a_busy_link_leaves_the_kernel_its_share,
    ),
    (
        "a wrong configuration is refused",
        a_wrong_configuration_is_refused,
    ),
];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some(ROLE) {
        return end(play(&arguments.next().unwrap_or_default()));
    }
    let arguments = Arguments::from_args();
    let arm = one_arm(|arm| arm.plays(&["isolate"]));
    let trials = ROLES
        .iter()
        .map(|(role, _)| arm.measuring(role, move || arm.plays(&[role])))
        .chain([segmented::on_debians_kernel()])
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn play(role: &str) -> Result<(), String> {
    isolate().map_err(|error| error.to_string())?;
    if role == "isolate" {
        return Ok(());
    }
    let (_, play) = ROLES
        .iter()
        .find(|(name, _)| *name == role)
        .ok_or_else(|| format!("no role `{role}`"))?;
    let tcp = TcpSettings {
        congestion_control: "reno".to_owned(),
        rmem_bytes: [4_096, 131_072, 6_291_456],
        wmem_bytes: [4_096, 16_384, 4_194_304],
        ecn: false,
    };
    let topology = Topology::flat(&["storage", "client-1", "client-2"], &tcp, 1500);
    let world = World::build(&topology).map_err(|error| error.to_string())?;
    play(&world)
}

/// A path with delay only.
fn clean() -> Effects {
    let rate = Rate::from_bits_per_s(1_000_000_000).expect("not zero");
    Effects {
        capacity: rate.into(),
        queue_limit: Limit::bytes(4 << 20),
        delay: DELAY,
        ..Effects::default()
    }
}

/// A path with this loss.
fn lossy(share: f64) -> Effects {
    let loss = Probability::new(share).expect("a probability");
    Effects {
        loss: LossModel::Bernoulli(loss),
        ..clean()
    }
}

/// The same effects in both directions between the storage host and its clients.
fn config(world: &World, effects: &Effects) -> Config {
    let direction = |name: &str, seed| Direction::new(name, effects.chain(seed).expect("they fit"));
    let interfaces = world.nodes().iter().flat_map(|node| node.interfaces());
    let ports = interfaces.filter_map(Interface::port);
    let routes = [1, 2].into_iter().flat_map(|client| {
        let route = |from, to, direction| Route {
            from,
            to,
            direction,
        };
        [route(client, 0, 0), route(0, client, 1)]
    });
    Config {
        ports: ports.collect(),
        directions: vec![direction("wan:forward", 1), direction("wan:back", 2)],
        routes: routes.collect(),
        mtu_bytes: 1500,
        sample_interval: Duration::from_millis(1),
        recorder: Recorder::new(Kinds::ALL, 64 << 20),
    }
}

fn start(world: &World, effects: &Effects) -> Result<Emulator, String> {
    Emulator::start(world.wan().handle(), config(world, effects)).map_err(|error| error.to_string())
}

fn stop(emulator: Emulator) -> Result<Report, String> {
    emulator.stop().map_err(|error| error.to_string())
}

fn check(holds: bool, what: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what.into()) }
}

/// Sends `bytes` over TCP from client 1 to the storage host; returns what it received.
fn transfer(world: &World, bytes: Vec<u8>) -> Result<Vec<u8>, String> {
    let [storage, client, _] = world.nodes() else {
        return Err("three hosts".to_owned());
    };
    let address = storage.address();
    let listener = storage
        .namespace()
        .run(move || TcpListener::bind((address, 3260)));
    let listener = listener.map_err(|error| format!("listen: {error}"))?;
    let sender = client
        .namespace()
        .run(move || thread::spawn(move || TcpStream::connect((address, 3260))?.write_all(&bytes)));
    let mut received = Vec::new();
    let (mut stream, _) = listener
        .accept()
        .map_err(|error| format!("accept: {error}"))?;
    let read = stream.read_to_end(&mut received);
    read.map_err(|error| format!("read: {error}"))?;
    let sent = sender
        .join()
        .map_err(|_| "the sender panicked".to_owned())?;
    sent.map_err(|error| format!("send: {error}"))?;
    Ok(received)
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length)
        .map(|place| (place * 31 + place / 251) as u8)
        .collect()
}

fn tcp_over_a_lossy_path(world: &World) -> Result<(), String> {
    let emulator = start(world, &lossy(0.01))?;
    let bytes = pattern(1 << 20);
    check(
        transfer(world, bytes.clone())? == bytes,
        "other bytes arrived",
    )?;
    let statistics = stop(emulator)?.statistics;
    let lost = statistics.paths[0].counters.dropped_by_loss.packets;
    // 1 % of some 730 segments: the chance of no loss at all is 1 in 1500, and the seed is fixed.
    check(lost > 0, "nothing was lost, so nothing was tested")?;
    check(
        statistics.offloaded == 0 && statistics.send_failures == 0,
        format!("what hosts sent is not what they got: {statistics:?}"),
    )
}

fn packets_that_leave_together_arrive_as_one(world: &World) -> Result<(), String> {
    // Fast enough that a burst from a host leaves at once.
    let effects = Effects {
        capacity: Capacity::Unlimited,
        ..clean()
    };
    let emulator = start(world, &effects)?;
    let bytes = pattern(4 << 20);
    let received = transfer(world, bytes.clone())?;
    check(received == bytes, "other bytes arrived")?;
    let frames = world.nodes()[0].namespace().run(|| {
        let devices = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        let mut lines = devices.lines();
        let counters = lines.find_map(|line| line.trim().strip_prefix("wan:").map(str::to_owned));
        let frames = counters.and_then(|counters| counters.split_whitespace().nth(1)?.parse().ok());
        frames.unwrap_or(0u64)
    });
    let statistics = stop(emulator)?.statistics;
    let packets = statistics.paths[0].counters.delivered.packets;
    // A full packet of 1500 bytes carries 1448 bytes, and no packet on a path is longer.
    check(
        packets >= bytes.len() as u64 / 1448 && frames > 0 && frames < packets / 2,
        format!("{packets} packets went through the path, and {frames} frames came"),
    )?;
    check(
        statistics.offloaded == 0 && statistics.send_failures == 0,
        format!("what hosts sent is not what they got: {statistics:?}"),
    )
}

/// A socket of a host, by index in the world.
fn socket(world: &World, host: usize) -> Result<(UdpSocket, Ipv4Addr), String> {
    let address = world.nodes()[host].address();
    let socket = world.nodes()[host].namespace().run(move || {
        let socket = UdpSocket::bind((address, 7))?;
        socket.set_read_timeout(Some(LONG)).map(|()| socket)
    });
    socket
        .map(|socket| (socket, address))
        .map_err(|error| format!("bind: {error}"))
}

fn receive(socket: &UdpSocket) -> Result<u64, String> {
    let mut payload = [0; 8];
    let received = socket.recv(&mut payload);
    received.map_err(|error| format!("nothing arrives: {error}"))?;
    Ok(u64::from_ne_bytes(payload))
}

fn no_packet_is_early(world: &World) -> Result<(), String> {
    let emulator = start(world, &clean())?;
    let (storage, address) = socket(world, 0)?;
    for client in [1, 2] {
        let (client, _) = socket(world, client)?;
        for _ in 0..50 {
            let sent = clock::now();
            client
                .send_to(&sent.ns().to_ne_bytes(), (address, 7))
                .map_err(|error| format!("send: {error}"))?;
            check(receive(&storage)? == sent.ns(), "another packet arrived")?;
            let took = clock::now() - sent;
            check(took >= DELAY, format!("a packet took {took:?} only"))?;
        }
    }
    stop(emulator).map(drop)
}

fn a_seed_drops_the_same_packets(world: &World) -> Result<(), String> {
    let survivors = || {
        let effects = Effects {
            delay: Duration::from_millis(1),
            ..lossy(0.2)
        };
        let emulator = start(world, &effects)?;
        let (storage, address) = socket(world, 0)?;
        let (client, _) = socket(world, 1)?;
        for number in 0..200u64 {
            client
                .send_to(&number.to_ne_bytes(), (address, 7))
                .map_err(|error| format!("send: {error}"))?;
        }
        let lost = || {
            emulator
                .statistics()
                .paths
                .first()
                .map(|path| path.counters)
        };
        let arrived = loop {
            match lost() {
                Some(counters) if counters.entered.packets == 200 && counters.held.packets == 0 => {
                    break counters.delivered.packets;
                }
                _ => thread::sleep(Duration::from_millis(1)),
            }
        };
        let survivors: Result<Vec<u64>, String> = (0..arrived).map(|_| receive(&storage)).collect();
        stop(emulator)?;
        survivors
    };
    let first = survivors()?;
    check(
        (100..200).contains(&first.len()),
        format!("{} of 200 survive 20 % loss", first.len()),
    )?;
    check(first == survivors()?, "the same seed dropped other packets")
}

fn a_link_is_shared(world: &World) -> Result<(), String> {
    // One byte takes one microsecond: a simultaneous burst from both clients queues.
    let rate = Rate::from_bits_per_s(8_000_000).expect("not zero");
    let effects = Effects {
        capacity: rate.into(),
        ..clean()
    };
    let emulator = start(world, &effects)?;
    let (storage, address) = socket(world, 0)?;
    let payload = [0; 958];
    let began = clock::now();
    for client in [1, 2] {
        let (client, _) = socket(world, client)?;
        for _ in 0..50 {
            client
                .send_to(&payload, (address, 7))
                .map_err(|error| format!("send: {error}"))?;
        }
    }
    for _ in 0..100 {
        receive(&storage)?;
    }
    let took = clock::now() - began;
    let ideal = DELAY + Duration::from_millis(100);
    check(took >= ideal, format!("100 packets took {took:?} only"))?;
    let counters = stop(emulator)?.statistics.paths[0].counters;
    check(
        counters.busy_ns == 100_000_000 && counters.delivered.bytes == 100_000,
        format!(
            "the link was sending {} bytes for {} ns",
            counters.delivered.bytes, counters.busy_ns
        ),
    )
}

fn records_and_counters_agree(world: &World) -> Result<(), String> {
    let emulator = start(world, &lossy(0.01))?;
    let bytes = pattern(300_000);
    transfer(world, bytes.clone())?;
    let report = stop(emulator)?;
    let recorder = &report.recorder;

    let forward: Vec<event::Packet> = recorder
        .packet
        .iter()
        .filter(|packet| recorder.name_of(packet.path) == "wan:forward")
        .collect();
    let count = |verdict| {
        forward
            .iter()
            .filter(|packet| packet.verdict == verdict)
            .count() as u64
    };
    let counters = report.statistics.paths[0].counters;
    check(
        count(Verdict::Delivered) == counters.delivered.packets
            && count(Verdict::DroppedByLoss) == counters.dropped_by_loss.packets,
        format!("{} records, but {counters:?}", forward.len()),
    )?;
    let delivered = forward
        .iter()
        .filter(|packet| packet.verdict == Verdict::Delivered);
    let early = delivered
        .clone()
        .filter(|packet| packet.departed - packet.time < DELAY);
    check(early.count() == 0, "a record says that a packet was early")?;
    let payload: usize = delivered
        .map(|packet| usize::from(packet.payload_bytes))
        .sum();
    check(
        payload >= bytes.len(),
        format!("{payload} bytes of payload recorded"),
    )?;
    let opening = forward.first().ok_or("no record")?;
    check(
        opening.flags == 0x02 && opening.destination.port() == 3260,
        format!("the first segment is no SYN: {opening:?}"),
    )?;

    let samples: Vec<event::Path> = recorder
        .path
        .iter()
        .filter(|sample| recorder.name_of(sample.path) == "wan:forward")
        .collect();
    check(
        samples.is_sorted_by_key(|sample| (sample.time, sample.in_bytes, sample.out_bytes)),
        "samples do not follow each other",
    )?;
    let last = samples.last().ok_or("no sample")?;
    check(
        last.out_packets > 0 && last.busy_ns > 0 && last.out_bytes <= last.in_bytes,
        format!("the last sample is {last:?}"),
    )
}

fn a_wrong_configuration_is_refused(world: &World) -> Result<(), String> {
    let refused = |spoil: &dyn Fn(&mut Config)| {
        let mut config = config(world, &clean());
        spoil(&mut config);
        Emulator::start(world.wan().handle(), config).err()
    };
    let misuses: [&dyn Fn(&mut Config); 4] = [
        &|config| config.routes[0].to = 3,
        &|config| config.routes[0].direction = 2,
        &|config| config.ports[1].host_mac = config.ports[0].host_mac,
        &|config| config.sample_interval = Duration::ZERO,
    ];
    for (number, misuse) in misuses.into_iter().enumerate() {
        let error = refused(misuse);
        check(
            matches!(error, Some(EmulatorError::CallerMisused(_))),
            format!("misuse {number} gives {error:?}"),
        )?;
    }
    let error = refused(&|config| config.ports[0].interface = "nowhere".to_owned());
    let message = error.map(|error| error.to_string()).unwrap_or_default();
    check(
        message.contains("nowhere"),
        format!("a missing link gives `{message}`"),
    )
}
