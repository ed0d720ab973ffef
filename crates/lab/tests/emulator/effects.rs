//! Effects of paths on frames other than delay and loss.

use std::fs::read_to_string;
use std::net::{Ipv4Addr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_ip_tos;
use wansan_lab::emulator::Emulator;
use wansan_lab::world::World;
use wansan_path::{Counters, Effects, Probability};

use super::{LONG, check, clean, pattern, receive, socket, start, stop, transfer};

/// ECT(0), in the type-of-service byte.
const CAPABLE: u8 = 0b10;

fn share(share: f64) -> Probability {
    Probability::new(share).expect("a probability")
}

/// A counter of a host's kernel, as in /proc/net/snmp and /proc/net/netstat.
fn kernel_count(world: &World, host: usize, group: &str, name: &str) -> Result<u64, String> {
    let text = world.nodes()[host].namespace().run(|| {
        let snmp = read_to_string("/proc/thread-self/net/snmp")?;
        Ok(snmp + &read_to_string("/proc/thread-self/net/netstat")?)
    });
    let text = text.map_err(|error: std::io::Error| format!("the kernel's counters: {error}"))?;
    // A line of names is followed by a line of values.
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group));
    let names = lines.next().unwrap_or_default().split_whitespace();
    let values = lines.next().unwrap_or_default().split_whitespace();
    let mut found = names.zip(values).filter(|(known, _)| *known == name);
    let (_, value) = found.next().ok_or_else(|| format!("no {group} {name}"))?;
    value.parse().map_err(|_| format!("{name} = {value}"))
}

/// Sends a numbered datagram to the storage host.
fn send(client: &UdpSocket, to: Ipv4Addr, number: u64) -> Result<(), String> {
    client
        .send_to(&number.to_ne_bytes(), (to, 7))
        .map(drop)
        .map_err(|error| format!("send: {error}"))
}

/// The forward direction's counters, once none of that many packets is in transit.
fn when_quiet(emulator: &Emulator, packets: u64) -> Result<Counters, String> {
    let began = Instant::now();
    while began.elapsed() < LONG {
        let statistics = emulator.statistics();
        let counters = statistics.paths.first().map(|path| path.counters);
        match counters {
            Some(counters) if counters.entered.packets >= packets && counters.held.packets == 0 => {
                return Ok(counters);
            }
            _ => thread::sleep(Duration::from_millis(1)),
        }
    }
    Err(format!("{packets} packets never passed"))
}

pub(crate) fn marks_reach_capable_packets(world: &World) -> Result<(), String> {
    let emulator = start(
        world,
        &Effects {
            mark: share(1.0),
            ..clean()
        },
    )?;
    let (storage, address) = socket(world, 0)?;
    let (client, _) = socket(world, 1)?;
    let marks = || kernel_count(world, 0, "IpExt:", "InCEPkts");
    let before = marks()?;
    for (tos, numbers) in [(0, 0..20), (CAPABLE, 20..40)] {
        set_ip_tos(&client, tos).map_err(|error| format!("IP_TOS: {error}"))?;
        for number in numbers {
            send(&client, address, number)?;
        }
    }
    // A header with a wrong checksum is dropped; if all arrive, checksums are right.
    for number in 0..40 {
        check(receive(&storage)? == number, "another packet arrived")?;
    }
    let marked = marks()? - before;
    check(marked == 20, format!("{marked} of 20 arrived with CE"))?;
    let counters = stop(emulator)?.statistics.paths[0].counters;
    check(
        counters.marked.packets == 20,
        format!("{:?} counted as marked", counters.marked),
    )
}

pub(crate) fn corruption_fails_checksums(world: &World) -> Result<(), String> {
    let corrupt = |of| Effects {
        corrupt: share(of),
        ..clean()
    };
    let emulator = start(world, &corrupt(1.0))?;
    let (storage, address) = socket(world, 0)?;
    let (client, _) = socket(world, 1)?;
    for number in 0..50 {
        send(&client, address, number)?;
    }
    when_quiet(&emulator, 50)?;
    stop(emulator)?;
    storage
        .set_nonblocking(true)
        .map_err(|error| error.to_string())?;
    check(receive(&storage).is_err(), "a spoiled datagram arrived")?;
    drop((storage, client));

    let failed = || kernel_count(world, 0, "Tcp:", "InCsumErrors");
    let before = failed()?;
    let emulator = start(world, &corrupt(0.02))?;
    let bytes = pattern(1 << 20);
    check(
        transfer(world, bytes.clone())? == bytes,
        "other bytes arrived",
    )?;
    let counters = stop(emulator)?.statistics.paths[0].counters;
    let failed = failed()? - before;
    check(
        failed > 0 && failed <= counters.corrupted.packets,
        format!("{failed} checksums fail, {:?} spoiled", counters.corrupted),
    )
}

pub(crate) fn copies_arrive(world: &World) -> Result<(), String> {
    let emulator = start(
        world,
        &Effects {
            duplicate: share(1.0),
            ..clean()
        },
    )?;
    let (storage, address) = socket(world, 0)?;
    let (client, _) = socket(world, 1)?;
    for number in 0..50 {
        send(&client, address, number)?;
    }
    for number in 0..50 {
        let pair = (receive(&storage)?, receive(&storage)?);
        check(pair == (number, number), format!("{pair:?} arrived"))?;
    }
    let counters = stop(emulator)?.statistics.paths[0].counters;
    check(
        counters.duplicated.packets == 50 && counters.delivered.packets == 100,
        format!("{counters:?}"),
    )
}

pub(crate) fn packets_are_held_back(world: &World) -> Result<(), String> {
    let emulator = start(
        world,
        &Effects {
            delay: Duration::from_millis(1),
            reorder_share: share(0.1),
            // Longer than any machine takes to send them all.
            reorder_by: Duration::from_secs(2),
            ..clean()
        },
    )?;
    let (storage, address) = socket(world, 0)?;
    let (client, _) = socket(world, 1)?;
    for number in 0..100 {
        send(&client, address, number)?;
    }
    let arrived: Result<Vec<u64>, String> = (0..100).map(|_| receive(&storage)).collect();
    let arrived = arrived?;
    let held_back = stop(emulator)?.statistics.paths[0].counters.held_back;
    let last = arrived.len() - held_back.packets as usize;
    check(
        held_back.packets > 0
            && arrived[..last].is_sorted()
            && arrived[last..].is_sorted()
            && !arrived.is_sorted(),
        format!("{held_back:?} held back, and {arrived:?} arrived"),
    )?;
    let mut all = arrived;
    all.sort_unstable();
    check(all.into_iter().eq(0..100), "not every packet arrived once")
}

pub(crate) fn overhead_takes_time(world: &World) -> Result<(), String> {
    // One byte takes a microsecond: 50 bytes of frame and 450 of overhead.
    let rate = wansan_path::Rate::from_bits_per_s(8_000_000).expect("not zero");
    let effects = Effects {
        capacity: rate.into(),
        ..clean()
    };
    let mut config = super::config(world, &effects);
    for direction in &mut config.directions {
        direction.overhead_bytes = 450;
    }
    let emulator = Emulator::start(world.wan().handle(), config);
    let emulator = emulator.map_err(|error| error.to_string())?;
    let (storage, address) = socket(world, 0)?;
    let (client, _) = socket(world, 1)?;
    for number in 0..50 {
        send(&client, address, number)?;
    }
    for _ in 0..50 {
        receive(&storage)?;
    }
    let counters = stop(emulator)?.statistics.paths[0].counters;
    check(
        counters.delivered.bytes == 50 * 500 && counters.busy_ns == 25_000_000,
        format!("{counters:?}"),
    )
}
