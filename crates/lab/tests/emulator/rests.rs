//! Processor time that a busy emulator leaves to others.

use std::thread;
use std::time::Duration;

use wansan_lab::emulator::Scheduling;
use wansan_lab::world::World;
use wansan_path::{Effects, Limit, Rate};
use wansan_trace::clock;

use crate::{LONG, check, clean, socket, start, stop};

/// With the headers of UDP, IP and Ethernet: 100 bytes.
const PAYLOAD: [u8; 58] = [0; 58];
/// At one per 25 µs they take longer than the second of which the kernel grants 950 ms to real-time threads, with no
/// time to sleep in between.
const PACKETS: u64 = 60_000;

pub(crate) fn a_busy_link_leaves_the_kernel_its_share(world: &World) -> Result<(), String> {
    let rate = Rate::from_bits_per_s(32_000_000).expect("not zero");
    let effects = Effects {
        capacity: rate.into(),
        queue_limit: Limit::bytes(8 << 20),
        ..clean()
    };
    let emulator = start(world, &effects)?;
    let (_storage, address) = socket(world, 0)?;
    let (client, _) = socket(world, 1)?;
    let before = emulator.statistics();
    for _ in 0..PACKETS {
        client
            .send_to(&PAYLOAD, (address, 7))
            .map_err(|error| format!("send: {error}"))?;
    }
    let left = || emulator.statistics().paths[0].counters.held.packets;
    let deadline = clock::now() + LONG;
    while left() > 0 && clock::now() < deadline {
        thread::sleep(Duration::from_millis(1));
    }
    let after = stop(emulator)?.statistics;
    if after.scheduling != Scheduling::RealTime {
        return Ok(());
    }
    let used_ns = after.cpu_ns - before.cpu_ns;
    let share = used_ns as f64 / (after.elapsed_ns - before.elapsed_ns) as f64;
    check(
        share < 0.95,
        format!("the emulator used {share:.3} of its processor's time"),
    )
}
