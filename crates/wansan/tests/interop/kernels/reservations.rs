//! Disks of the Linux kernel's target, LIO, that are reserved for the host that has attached them.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use wansan_peers::guest::Guest;
use wansan_peers::process::{free_address, run};
use wansan_peers::program::find;
use wansan_peers::wansan::{Attach, command};

use super::lio::{self, PORT, serve, serve_group};
use super::relay::Relay;
use super::{image, kernel_trial};
use crate::stage::{LIMIT, Stop, WANSAN, require};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        kernel_trial("lio_is_reserved_over_two_routes", reserved),
        kernel_trial(
            "lio_ends_a_lost_session_in_another_portal_group_by_its_key",
            fenced,
        ),
    ]
}

/// What LIO keeps of the reservations of its disk.
const KEPT: &str = "/sys/kernel/config/target/core/rd_mcp_0/disk/pr";

/// The keys of a host's first two routes, as LIO shows them.
const OWN: [&str; 2] = ["0x000000000000000a", "0x010000000000000a"];
const OTHER_NAME: &str = "iqn.2026-01.net.example:other";
const OTHER: &str = "0x000000000000000b";

/// Waits until just these keys are registered.
fn await_keys(guest: &mut Guest, expected: &[&str]) -> Result<(), Stop> {
    let began = Instant::now();
    loop {
        let registered = guest.run(&format!("cat {KEPT}/res_pr_registered_i_pts"))?;
        let mut keys: Vec<&str> = registered
            .split_whitespace()
            .skip_while(|word| *word != "Key:")
            .filter(|word| word.starts_with("0x") && word.len() == 18)
            .collect();
        keys.sort_unstable();
        if keys == expected {
            return Ok(());
        }
        require(began.elapsed() < LIMIT, || {
            format!("not {expected:?}: {registered}")
        })?;
        thread::sleep(Duration::from_millis(100));
    }
}

/// What a program writes to an attached disk through qemu-io; whether that succeeds.
fn writes(attach: &Attach, commands: &[String]) -> Result<bool, Stop> {
    let mut qemu = Command::new(find("qemu-io")?);
    qemu.args(["-f", "raw", "-t", "none"]);
    for command in commands {
        qemu.args(["-c", command]);
    }
    let finished = run(qemu.arg(attach.uri()), LIMIT)?;
    let said = finished.output();
    let failed = ["failed", "error", "Pattern verification"];
    Ok(finished.status.success() && !failed.iter().any(|word| said.contains(word)))
}

fn must_write(attach: &Attach) -> Result<(), Stop> {
    let commands = ["write -P 3 0 1M", "flush", "read -P 3 0 1M"].map(str::to_owned);
    require(writes(attach, &commands)?, || attach.log())
}

/// Whether another initiator may write the unit.
fn other_writes(url: &str) -> Result<bool, Stop> {
    let bench = [
        "bench",
        url,
        "--op",
        "write",
        "--count",
        "1",
        "--initiator-name",
        OTHER_NAME,
    ];
    let finished = command(Path::new(WANSAN), &bench, LIMIT)?;
    let said = finished.output();
    let is_refused = said.to_lowercase().contains("reservation");
    require(finished.status.success() != is_refused, || said.clone())?;
    Ok(!is_refused)
}

/// Registered over each route, also where one comes back, and kept for a loss of power; taken over; and left.
fn reserved() -> Result<(), Stop> {
    let address = free_address()?;
    let mut guest = Guest::boot(&image()?, &[], &[(address, PORT)])?;
    serve(&mut guest)?;
    let url = lio::url(address);
    let attach = [
        "attach",
        &url,
        "--nbd",
        "127.0.0.1:0",
        "--reservation-key",
        "0xa",
    ];
    let refused = command(Path::new(WANSAN), &attach, LIMIT)?;
    require(refused.status.code() == Some(2), || refused.output())?;
    require(refused.stderr.contains("create /var/target/pr"), || {
        refused.output()
    })?;
    await_keys(&mut guest, &[])?;
    guest.run("mkdir -p /var/target/pr")?;
    reserve(&mut guest, &url, address).map_err(|stop| guest.beside(stop))
}

fn reserve(guest: &mut Guest, url: &str, address: SocketAddr) -> Result<(), Stop> {
    let relay = Relay::to(address)?;
    let way = relay.address().to_string();
    let routes = [&way, "--multipath", "--write-through"];
    let own = ["--reservation-key", "0xa"];
    let first = Attach::start(Path::new(WANSAN), url, &[&routes[..], &own].concat())?;
    await_keys(guest, &OWN)?;
    let persistent = guest.run(&format!("cat {KEPT}/res_aptpl_active"))?;
    require(persistent.contains("Activated"), || {
        format!("persistent: {persistent}")
    })?;
    let kind = guest.run(&format!("cat {KEPT}/res_pr_type"))?;
    require(
        kind.contains("Write Exclusive Access, All Registrants"),
        || kind.clone(),
    )?;
    must_write(&first)?;
    require(!other_writes(url)?, || "another one may write".to_owned())?;
    relay.cut();
    must_write(&first)?;
    relay.mend();
    await_keys(guest, &OWN)?;
    must_write(&first)?;
    // Of one name, LIO takes only sessions for registered whose ISIDs are like the holder's in the first four bytes.
    let takes = [
        "--preempt",
        "--reservation-key",
        "0xb",
        "--initiator-name",
        OTHER_NAME,
    ];
    let second = Attach::start(Path::new(WANSAN), url, &takes)?;
    await_keys(guest, &[OTHER])?;
    let commands = ["write -P 4 0 64k".to_owned()];
    require(!writes(&first, &commands)?, || "both can write".to_owned())?;
    must_write(&second)?;
    drop(first);
    require(second.stop()?.success(), || "attach failed".to_owned())?;
    await_keys(guest, &[])?;
    require(other_writes(url)?, || "it is still reserved".to_owned())?;
    // One that is down at the end is unregistered, too.
    let third = Attach::start(Path::new(WANSAN), url, &[&routes[..], &own].concat())?;
    await_keys(guest, &OWN)?;
    relay.cut();
    must_write(&third)?;
    require(third.stop()?.success(), || "attach failed".to_owned())?;
    await_keys(guest, &[])
}

/// Writes that a lost session had under way do not hold later ones of the same blocks up.
fn fenced() -> Result<(), Stop> {
    const ROUNDS: u32 = 150;
    const WRITES: u32 = 32;
    /// Without its end, a session would be waited for twice as long.
    const SOON: Duration = Duration::from_secs(60);
    let [first, second] = [free_address()?, free_address()?];
    let mut guest = Guest::boot(&image()?, &[], &[(first, PORT), (second, PORT + 1)])?;
    serve(&mut guest)?;
    serve_group(&mut guest, 2, PORT + 1)?;
    guest.run("mkdir -p /var/target/pr")?;
    let relay = Relay::to(second)?;
    let way = relay.address().to_string();
    let routes = [&way, "--multipath", "--write-through"];
    let own = ["--reservation-key", "0xa"];
    let url = lio::url(first);
    let attach = Attach::start(Path::new(WANSAN), &url, &[&routes[..], &own].concat())?;
    await_keys(&mut guest, &OWN)?;
    must_write(&attach)?;
    let round = |round: u32| {
        let pattern = round % 250 + 1;
        let write = move |at: u32| format!("aio_write -q -P {pattern} {}k 32k", at * 32);
        let each = (0..WRITES).map(write);
        each.chain(["aio_flush".to_owned()])
    };
    let commands: Vec<String> = (0..ROUNDS).flat_map(round).collect();
    let took = thread::scope(|scope| {
        let writer = scope.spawn(|| writes(&attach, &commands));
        let before = relay.passed_bytes();
        while relay.passed_bytes() < before + (8 << 20) && !writer.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        require(!writer.is_finished(), || "it was over too soon".to_owned())?;
        relay.cut();
        let began = Instant::now();
        let written = writer.join().expect("the writer does not panic")?;
        require(written, || attach.log())?;
        Ok::<_, Stop>(began.elapsed())
    });
    let took = took.map_err(|stop| guest.beside(stop))?;
    require(took < SOON, || format!("{took:?}: {}", attach.log()))?;
    println!("done {took:?} after a route was cut");
    await_keys(&mut guest, &OWN[..1])?;
    relay.mend();
    await_keys(&mut guest, &OWN)?;
    let last = (ROUNDS - 1) % 250 + 1;
    let check = [format!("read -P {last} 0 {}k", WRITES * 32)];
    require(writes(&attach, &check)?, || {
        "an earlier write was carried out after a later one".to_owned()
    })?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    await_keys(&mut guest, &[])
}
