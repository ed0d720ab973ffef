//! One plan by wansan's own emulator and by the kernel's netem, on a kernel that has both.

use libtest_mimic::Trial;
use serde_json::Value;
use wansan_peers::guest::Guest;

use super::{image, kernel_trial, plan, with_wansan};
use crate::stage::{Stop, folder, require};

pub(crate) fn trials() -> Vec<Trial> {
    vec![kernel_trial("netem_agrees_with_our_emulator", agrees)]
}

/// A read every half second meets no other on its way. Rates and times are small, as a guest by
/// software carries out far fewer instructions than a computer.
const PLAN: &str = r#"
title = "One path by both emulators"
seed = 1
host = [{ name = "client" }, { name = "storage" }]

[[path]]
between = ["client", "storage"]

[target]
host = "storage"
luns = ["memory:16MiB"]

[[initiator]]
host = "client"

[workload]
op = "read"
block = "4KiB"
time = "5s"
warmup = "1s"

[trace]
kinds = ["io", "pdu", "tcp"]
memory = "16MiB"

[[case]]
name = "wire"
set = { "workload.rate" = "2IOPS" }

[[case]]
name = "delay"
set = { "path.wan.delay" = "200ms", "workload.rate" = "2IOPS" }

[[case]]
name = "rate"
set = { "path.wan.delay" = "20ms", "path.wan.rate" = "1Mbit/s", "path.wan.queue" = "100packets", "workload.parallel" = 16 }

[[case]]
name = "loss"
set = { "path.wan.delay" = "2ms", "path.wan.loss" = "2%", "workload.block" = "64KiB", "workload.parallel" = 8, "workload.time" = "2s" }

[sweep]
case = ["CASE"]
"world.emulator" = ["user", "netem"]
"#;
const EMULATORS: [&str; 2] = ["user", "netem"];
/// There and back.
const ROUND_TRIP_NS: f64 = 400e6;
/// How far what a path adds to the median read may be from the round trip, and how far the emulators
/// may be from each other.
const DELAY_TOLERANCE_NS: f64 = 1e6;
/// What the path carries: 1448 bytes of TCP's data in each frame of 1514 bytes, and 4096 bytes of data
/// behind each header of 48.
const RATE_BYTES_PER_S: f64 = 125e3 * 1448.0 / 1514.0 * 4096.0 / 4144.0;
/// How far the rates may be from that: the bursts at the ends of the measured time.
const RATE_TOLERANCE: f64 = 0.03;
const LOSS: f64 = 0.02;
/// Standard deviations that what is lost may be off.
const LOSS_SIGMAS: f64 = 4.0;
/// Fewer would say little of the loss.
const LEAST_PACKETS: f64 = 1000.0;
/// Hosts give packets to netem one by one.
const LONGEST_FRAME_BYTES: f64 = 1514.0;

fn agrees() -> Result<(), Stop> {
    let folder = folder()?;
    let image = with_wansan(&image()?, folder.path())?;
    let mut guest = Guest::boot_on_own_time(&image)?;
    guest.run("modprobe -a veth sch_netem sch_ingress cls_matchall act_mirred")?;
    let mut measured = |case: &str| measure(&mut guest, case);
    let [wires, delays, rates, losses] = [
        measured("wire")?,
        measured("delay")?,
        measured("rate")?,
        measured("loss")?,
    ];

    // A wire is one for both: what programs and kernel take of the guest's time.
    let wires = wires.map(|cell| number(&cell, "latency_p50_ns"));
    let delays = delays.map(|cell| number(&cell, "latency_p50_ns"));
    let added = [delays[0] - wires[0], delays[1] - wires[1]];
    println!("reads over {EMULATORS:?}: {delays:?} ns, over a wire {wires:?} ns");
    let holds =
        |is_so: bool, what: &str| require(is_so, || format!("{what} {EMULATORS:?}: {added:?} ns"));
    for added in added {
        let off_ns = added - ROUND_TRIP_NS;
        holds(off_ns.abs() <= DELAY_TOLERANCE_NS, "delay by")?;
    }
    let apart_ns = (added[0] - added[1]).abs();
    holds(apart_ns <= DELAY_TOLERANCE_NS, "delays apart by")?;

    let rates = rates.map(|cell| number(&cell, "bytes_per_s"));
    println!("bytes/s by {EMULATORS:?}: {rates:?}");
    for rate in rates {
        let off = rate / RATE_BYTES_PER_S - 1.0;
        require(off.abs() <= RATE_TOLERANCE, || {
            format!("bytes/s by {EMULATORS:?}: {rates:?}")
        })?;
    }

    let [_, by_netem] = &losses;
    let bytes = sum(&by_netem["netem"], "out_bytes") / sum(&by_netem["netem"], "out_packets");
    require(bytes <= LONGEST_FRAME_BYTES, || {
        format!("netem's packets are {bytes} bytes long on average")
    })?;
    let losses = losses.map(|cell| lost(&cell));
    println!("(packets, lost) by {EMULATORS:?}: {losses:?}");
    for (packets, lost) in losses {
        let sigma = (packets * LOSS * (1.0 - LOSS)).sqrt();
        let is_right = (lost - packets * LOSS).abs() <= LOSS_SIGMAS * sigma;
        require(packets >= LEAST_PACKETS && is_right, || {
            format!("(packets, lost) by {EMULATORS:?}: {losses:?}")
        })?;
    }
    Ok(())
}

/// The plan's cells of that case, by each of the emulators.
fn measure(guest: &mut Guest, case: &str) -> Result<[Value; 2], Stop> {
    let results = plan::run(guest, case, &PLAN.replace("CASE", case))?.results;
    let cell = |place: usize, emulator: &str| {
        let cell = &results["cells"][place];
        let is_right = cell["emulator"] == emulator && cell["failure"].is_null();
        require(is_right, || format!("{case} by {emulator}: {results}"))?;
        Ok::<_, Stop>(cell.clone())
    };
    Ok([cell(0, EMULATORS[0])?, cell(1, EMULATORS[1])?])
}

/// A number of a cell.
fn number(cell: &Value, name: &str) -> f64 {
    cell[name].as_f64().unwrap_or(f64::NAN)
}

/// The packets that came to the paths of a cell, and those that were lost.
fn lost(cell: &Value) -> (f64, f64) {
    let netem = &cell["netem"];
    let lost = cell["path_dropped"].as_f64().unwrap_or(f64::NAN);
    let left = sum(netem, "out_packets") + sum(netem, "held_packets");
    if cell["emulator"] == "netem" {
        (left + lost, lost)
    } else {
        (sum(&cell["paths"], "in_packets"), lost)
    }
}

fn sum(list: &Value, name: &str) -> f64 {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| item[name].as_f64()).sum()
}
