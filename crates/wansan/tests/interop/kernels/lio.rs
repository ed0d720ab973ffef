//! The Linux kernel's target, LIO, with our initiator.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use libtest_mimic::Trial;
use serde_json::Value;
use wansan_peers::guest::Guest;
use wansan_peers::process::free_address;
use wansan_peers::wansan::command;

use super::relay::Relay;
use super::{image, kernel_trial};
use crate::stage::{LIMIT, Stop, WANSAN, load, require};

pub(super) const TARGET_NAME: &str = "iqn.2026-11.net.example:lio";
/// Where LIO listens in its guest.
pub(super) const PORT: u16 = 3260;
/// A RAM disk of 64 MiB, in pages of 4 KiB.
const DISK_PAGES: u32 = 16_384;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        kernel_trial("lio_serves_our_initiator_over_several_connections", serves),
        kernel_trial("lio_gets_lost_sessions_back", loses_connections),
        kernel_trial("lio_loses_one_of_two_routes", loses_a_route),
    ]
}

/// What is written to LIO is read back, over one, two and four connections of a session with error
/// recovery level 2.
fn serves() -> Result<(), Stop> {
    let address = free_address()?;
    let mut guest = Guest::boot(&image()?, &[], &[(address, PORT)])?;
    serve(&mut guest)?;
    let url = url(address);
    for connections in ["1", "2", "4"] {
        let session = ["--connections", connections, "--header-digest", "always"];
        negotiated(&url, &session)?;
        for (block, count) in [("4KiB", 2000), ("1MiB", 64)] {
            let block = ["--block", block, "--parallel", "16"];
            let load_of = ["--op", "mix", "--verify"];
            load(&url, count, &[&load_of[..], &block, &session].concat())
                .map_err(|stop| guest.beside(stop))?;
        }
    }
    Ok(())
}

/// Connections end under load, each of them with its session: another session takes its place and
/// what was under way is done again, so that no I/O fails and nothing is lost.
///
/// LIO of Linux 6.1 cannot move the tasks of one connection to another, although it grants error
/// recovery level 2: it answers TASK REASSIGN with 255 (rejected) when it has moved the task, and
/// with 0 (complete) when it does not know it (`iscsit_convert_tcm_tmr_rsp` takes the codes of
/// iSCSI for others), and the kernel dereferences a null pointer when such a session ends. It also walks
/// through the connections of a session that is lost or logged out while it waits for each of them to
/// end, and panics where another one goes meanwhile; so our initiator leaves ending them to it.
fn loses_connections() -> Result<(), Stop> {
    let address = free_address()?;
    let mut guest = Guest::boot(&image()?, &[], &[(address, PORT)])?;
    serve(&mut guest)?;
    let relay = Relay::to(address)?;
    let url = url(relay.address());
    let outcome = lose_under_load(&relay, &url);
    outcome.map_err(|stop| guest.beside(stop))
}

/// The load of [`loses_connections`], through the relay that ends its connections.
fn lose_under_load(relay: &Relay, url: &str) -> Result<(), Stop> {
    /// Of each size of block.
    const MOVED_BYTES: u64 = 64 << 20;
    const LOSSES: u64 = 2;
    for (block, block_bytes) in [("16KiB", 16 << 10), ("1MiB", 1 << 20)] {
        let passed_before = relay.passed_bytes();
        let printed = std::thread::scope(|scope| {
            let bench = scope.spawn(|| {
                let session = ["--connections", "4", "--error-recovery-level", "1"];
                let load_of = ["--op", "mix", "--verify", "--block", block];
                let count = MOVED_BYTES / block_bytes;
                load(url, count, &[&load_of[..], &session].concat())
            });
            for loss in 1..=LOSSES {
                let due = passed_before + MOVED_BYTES * loss / (LOSSES + 1);
                while relay.passed_bytes() < due && !bench.is_finished() {
                    std::thread::sleep(Duration::from_millis(1));
                }
                relay.end_oldest();
            }
            bench.join().expect("the bench does not panic")
        })?;
        let came_back = printed["recoveries"].as_u64() >= Some(LOSSES);
        require(came_back, || format!("no session was lost: {printed}"))?;
    }
    Ok(())
}

/// Two routes with a session each, of which one is cut and mended, and then the other one is cut: no I/O fails, and nothing
/// is lost.
fn loses_a_route() -> Result<(), Stop> {
    let address = free_address()?;
    let mut guest = Guest::boot(&image()?, &[], &[(address, PORT)])?;
    serve(&mut guest)?;
    let routes = [Relay::to(address)?, Relay::to(address)?];
    let outcome = lose_routes_under_load(&routes);
    outcome.map_err(|stop| guest.beside(stop))
}

fn lose_routes_under_load(routes: &[Relay; 2]) -> Result<(), Stop> {
    const BLOCK_BYTES: u64 = 16 << 10;
    const MOVED_BYTES: u64 = 96 << 20;
    let [first, second] = routes.each_ref().map(Relay::address);
    let url = url(first);
    let each = [first, second].map(|address| format!("0.0.0.0->{address}"));
    let session = ["--multipath", "--route", &each[0], "--route", &each[1]];
    // So slow that a route is back before all is done, however fast the guest is.
    let load_of = [
        "--op", "mix", "--verify", "--block", "16KiB", "--rate", "1000",
    ];
    let printed = std::thread::scope(|scope| {
        let bench = scope.spawn(|| {
            let count = MOVED_BYTES / BLOCK_BYTES;
            load(&url, count, &[&load_of[..], &session].concat())
        });
        let passed = |places: &[usize]| {
            let each = places.iter().map(|place| routes[*place].passed_bytes());
            each.sum::<u64>()
        };
        let until = |places: &[usize], bytes: u64| {
            while passed(places) < bytes && !bench.is_finished() {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        until(&[0, 1], MOVED_BYTES / 4);
        routes[0].cut();
        until(&[1], passed(&[1]) + MOVED_BYTES / 4);
        routes[0].mend();
        // It is used again.
        until(&[0], passed(&[0]) + BLOCK_BYTES * 16);
        routes[1].cut();
        bench.join().expect("the bench does not panic")
    })?;
    let lost = printed["recoveries"].as_u64();
    require(lost >= Some(2), || {
        format!("both routes were to be lost: {printed}")
    })
}

pub(super) fn url(address: SocketAddr) -> String {
    format!("iscsi://{address}/{TARGET_NAME}/0")
}

/// Fails unless LIO grants error recovery level 2 and as many connections as it is asked for.
fn negotiated(url: &str, session: &[&str]) -> Result<(), Stop> {
    let arguments = [&["initiator-check", url, "--json"][..], session].concat();
    let finished = command(Path::new(WANSAN), &arguments, LIMIT)?.success()?;
    let checked: Value = serde_json::from_str(&finished.stdout)
        .map_err(|error| finished.failure(format!("no JSON: {error}")))?;
    let keys = checked["keys"].as_array().into_iter().flatten();
    let in_force = |name: &str| {
        let mut keys = keys.clone();
        keys.find(|row| row["key"] == name)
            .and_then(|row| row["in_force"].as_str()?.parse::<u16>().ok())
    };
    let asked = session[1]
        .parse::<u16>()
        .expect("a session asks for connections");
    let granted = in_force("ErrorRecoveryLevel") == Some(2)
        && in_force("MaxConnections").is_some_and(|granted| granted >= asked);
    require(granted, || finished.output())
}

/// Lets LIO serve a RAM disk to everybody, with several connections in a session and error
/// recovery level 2.
pub(super) fn serve(guest: &mut Guest) -> Result<(), Stop> {
    serve_store(guest, "rd_mcp_0", &format!("rd_pages={DISK_PAGES}"))
}

/// Lets LIO serve the drive of 64 MiB that the guest has, of which each I/O takes so many milliseconds.
pub(super) fn serve_slowly(guest: &mut Guest, store_ms: f64) -> Result<(), Stop> {
    guest.run("modprobe -a virtio_blk dm-mod dm-delay")?;
    guest.run("until [ -b /dev/vda ]; do sleep 0.1; done")?;
    guest.run(&format!(
        "dmsetup create --noudevsync slow --table '0 131072 delay /dev/vda 0 {store_ms}'"
    ))?;
    serve_store(guest, "iblock_0", "udev_path=/dev/dm-0")?;
    // As targetcli does.
    guest.run("echo /dev/dm-0 >/sys/kernel/config/target/core/iblock_0/disk/udev_path")?;
    Ok(())
}

/// The same of a store of that kind, with what `control` says of it.
fn serve_store(guest: &mut Guest, kind: &str, control: &str) -> Result<(), Stop> {
    guest.run("modprobe -a target_core_mod iscsi_target_mod crc32c")?;
    guest.run("mount -t configfs config /sys/kernel/config")?;
    let core = format!("/sys/kernel/config/target/core/{kind}/disk");
    guest.run(&format!(
        "mkdir -p {core} && echo {control} >{core}/control && echo 1 >{core}/enable"
    ))?;
    serve_in_group(guest, &core, 1, PORT)
}

/// Lets LIO serve the RAM disk in another portal group as well.
pub(super) fn serve_group(guest: &mut Guest, tag: u16, port: u16) -> Result<(), Stop> {
    let core = "/sys/kernel/config/target/core/rd_mcp_0/disk";
    serve_in_group(guest, core, tag, port)
}

fn serve_in_group(guest: &mut Guest, core: &str, tag: u16, port: u16) -> Result<(), Stop> {
    let group = format!("/sys/kernel/config/target/iscsi/{TARGET_NAME}/tpgt_{tag}");
    guest.run(&format!(
        "mkdir -p {group}/lun/lun_0 {group}/np/0.0.0.0:{port} && ln -s {core} {group}/lun/lun_0/disk"
    ))?;
    for (setting, value) in [
        ("attrib/authentication", 0),
        ("attrib/generate_node_acls", 1),
        ("attrib/cache_dynamic_acls", 1),
        ("attrib/demo_mode_write_protect", 0),
        ("attrib/default_erl", 2),
        ("param/MaxConnections", 4),
        ("enable", 1),
    ] {
        guest.run(&format!("echo {value} >{group}/{setting}"))?;
    }
    Ok(())
}
