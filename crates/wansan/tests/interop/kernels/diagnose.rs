//! `wansan diagnose` beside the kernel's initiator: it has to name the limit that was set, and the commands that it
//! prints, run as printed, have to lift it.

use std::path::Path;

use libtest_mimic::Trial;
use serde_json::Value;
use tempfile::TempDir;
use wansan_peers::guest::Guest;
use wansan_peers::process::free_address;
use wansan_peers::wansan::{TARGET_NAME, Target, bench};

use super::host_program;
use super::lio;
use super::multipath::{log_in, two_ways, write_configuration};
use super::open_iscsi::{Node, start_daemon};
use super::{image, kernel_trial, with_wansan};
use crate::stage::{LIMIT, Stop, WANSAN, empty_disk, folder, require};

/// Each I/O takes so long, however many there are.
const UNIT: &str = "memory:64MiB,service-time=50ms,servers=1024";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        kernel_trial(
            "diagnose_names_the_limits_of_open_iscsi_and_lifts_them",
            limits_of_open_iscsi,
        ),
        kernel_trial("diagnose_finds_the_command_window_of_lio", window_of_lio),
        kernel_trial("diagnose_knows_the_store_of_lio", store_of_lio),
        kernel_trial(
            "diagnose_tells_disks_of_one_session_apart",
            disks_of_a_session,
        ),
        kernel_trial(
            "diagnose_names_a_slow_path_of_dm_multipath_and_lifts_it",
            slow_path,
        ),
    ]
}

/// Each I/O of the store takes so long, in ms: far longer than the hypervisor's network, which waits for a processor.
const STORE_MS: f64 = 40.0;

/// On the target's host: LIO grants few commands, and gets an initiator that would send more.
fn window_of_lio() -> Result<(), Stop> {
    let folder = folder()?;
    let image = with_wansan(&image()?, folder.path())?;
    let address = free_address()?;
    let disk = empty_disk(folder.path(), "disk.img", 64)?;
    let mut guest = Guest::boot(&image, &[&disk], &[(address, lio::PORT)])?;
    lio::serve_slowly(&mut guest, STORE_MS)?;
    let group = format!(
        "/sys/kernel/config/target/iscsi/{}/tpgt_1",
        lio::TARGET_NAME
    );
    guest.run(&format!(
        "modprobe tcp_diag; echo 4 >{group}/attrib/default_cmdsn_depth"
    ))?;
    let url = lio::url(address);
    let told = std::thread::scope(|scope| {
        let bench = scope.spawn(|| {
            let arguments = ["--op", "read", "--parallel", "32", "--time", "15s"];
            bench(Path::new(WANSAN), &url, &arguments, LIMIT)
        });
        guest.run(
            "until wansan diagnose --for 100ms --json | grep -q command_window; do sleep 0.2; done",
        )?;
        let told = diagnosed(&mut guest);
        bench.join().expect("the bench does not panic")?;
        told
    })?;
    let as_printed = || format!("{told:#}");
    require(
        told["role"] == "target" && told["target"] == "lio",
        as_printed,
    )?;
    require(told["target_name"] == lio::TARGET_NAME, as_printed)?;
    let windows = told["bounds"].as_array().into_iter().flatten();
    let mut windows = windows.filter(|bound| bound["bound"] == "command_window");
    let is_found = windows.any(|window| {
        let closed = window["full_share"].as_f64().unwrap_or(0.0);
        window["commands"] == 4 && closed > 0.5
    });
    require(is_found, as_printed)
}

/// On the target's host: a store of LIO is slow, and known to be from its own tracepoints.
fn store_of_lio() -> Result<(), Stop> {
    let folder = folder()?;
    let image = with_wansan(&image()?, folder.path())?;
    let address = free_address()?;
    let disk = empty_disk(folder.path(), "disk.img", 64)?;
    let mut guest = Guest::boot(&image, &[&disk], &[(address, lio::PORT)])?;
    guest.run("modprobe tcp_diag")?;
    lio::serve_slowly(&mut guest, STORE_MS)?;
    let url = lio::url(address);
    for op in ["read", "write"] {
        let told = std::thread::scope(|scope| {
            let bench = scope.spawn(|| {
                let arguments = ["--op", op, "--parallel", "4", "--time", "15s"];
                bench(Path::new(WANSAN), &url, &arguments, LIMIT)
            });
            guest.run(
                "until wansan diagnose --for 200ms --json | grep -q store_service; do sleep 0.2; done",
            )?;
            let told = diagnosed(&mut guest);
            bench.join().expect("the bench does not panic")?;
            told
        })?;
        let as_printed = || format!("{op}: {told:#}");
        require(told["judgement"]["limit"] == "store", as_printed)?;
        let store = &told["stores"][0];
        let is_known = store["lun"] == 0
            && store["store"]["store"] == "iblock_0/disk"
            && store["store"]["path"] == "/dev/dm-0";
        require(is_known, as_printed)?;
        let took_ms = share_ns(&told, "store_service") / 1e6;
        let is_right = (0.9 * STORE_MS..2.0 * STORE_MS).contains(&took_ms);
        require(is_right, as_printed)?;
    }
    Ok(())
}

/// The mean of a wait, in ns.
pub(super) fn share_ns(told: &Value, wait: &str) -> f64 {
    let shares = told["shares"].as_array().into_iter().flatten();
    let mut of_it = shares.filter(|share| share["wait"] == wait);
    of_it
        .next()
        .and_then(|share| share["mean_ns"].as_f64())
        .unwrap_or(0.0)
}

/// Two disks share a session, and one of them has a small queue depth.
fn disks_of_a_session() -> Result<(), Stop> {
    let folder = folder()?;
    let mut guest = initiator(&folder)?;
    let arguments = ["--lun", UNIT, "--lun", UNIT, "--command-window", "1024"];
    let target = Target::start(Path::new(WANSAN), &arguments)?;
    node(&mut guest, &target)?.log_in(&mut guest)?;
    guest.run("until [ -b /dev/sdb ]; do sleep 0.1; done")?;
    let healthy = |told: &Value| {
        let limit = &told["judgement"]["limit"];
        let is_alarm = ["bound", "host_queue", "wire", "unknown"]
            .iter()
            .any(|alarm| limit == alarm);
        let commands = told["changes"].as_array().map_or(0, Vec::len);
        require(!is_alarm && commands == 0, || format!("{told:#}"))
    };
    // With two slots, sda's I/Os wait 350 ms for one: over both disks, 117 ms an I/O and 50 ms at the target. With 8 in
    // flight both would take 50 ms.
    load_of(&mut guest, "/dev/sda", 16)?;
    load_of(&mut guest, "/dev/sdb", 4)?;
    healthy(&diagnosed(&mut guest)?)?;
    guest.run("echo 2 >/sys/block/sda/device/queue_depth")?;
    let told = diagnosed(&mut guest)?;
    let as_printed = || format!("{told:#}");
    let bound = &told["judgement"]["bound"];
    require(bound["bound"] == "queue_depth", as_printed)?;
    require(bound["disk"] == "sda", as_printed)?;
    // The kernel names disks in the order in which it finds them, which is not always that of their LUNs.
    let queued_ms = |name: &str| {
        let mut disks = told["disks"].as_array().into_iter().flatten();
        let disk = disks.find(|disk| disk["disk"] == name);
        disk.and_then(|disk| disk["queued_ns"].as_f64())
            .map(|ns| ns / 1e6)
    };
    let are_apart = queued_ms("sda") > Some(250.0) && queued_ms("sdb").is_some_and(|ms| ms < 20.0);
    require(are_apart, as_printed)?;
    run_printed(&mut guest, &told)?;
    healthy(&diagnosed(&mut guest)?)
}

/// One-way delays of the two paths, in ms: a guest by software carries out few instructions.
const PATHS_MS: [u32; 2] = [2, 60];

/// Of two paths below dm-multipath one is slow, and gets half of the I/Os.
fn slow_path() -> Result<(), Stop> {
    let folder = folder()?;
    let image = host_program::with(&image()?, "fio", folder.path())?;
    let image = with_wansan(&image, folder.path())?;
    let mut guest = Guest::boot(&image, &[], &[])?;
    guest.run(
        "modprobe -a veth sch_netem iscsi_tcp sd_mod crc32c tcp_diag dm-multipath dm-service-time \
         dm-round-robin scsi_dh_alua",
    )?;
    guest.run("/lib/systemd/systemd-udevd --daemon && udevadm trigger && udevadm settle")?;
    two_ways(&mut guest, &PATHS_MS.map(|ms| format!("delay {ms}ms")))?;
    guest.run(&format!(
        "/bin/ip netns exec storage wansan target --listen 0.0.0.0:3260 --name {TARGET_NAME} \
         --lun memory:64MiB >/run/target 2>&1 & until grep -q LUN /run/target; do sleep 0.1; done"
    ))?;
    start_daemon(&mut guest)?;
    write_configuration(&mut guest, "round-robin")?;
    guest.run("multipathd")?;
    for place in 0..PATHS_MS.len() {
        log_in(&mut guest, place)?;
    }
    guest.run(
        "until [ $(multipathd show paths format '%t %o' | grep -c '^active') = 2 ] && \
         [ -b /dev/mapper/mpatha ] && dmsetup table mpatha | grep -q 'round-robin 0 2'; do sleep 0.5; done",
    )?;
    load_of(&mut guest, "/dev/mapper/mpatha", 8)?;
    let before = whole(&mut guest)?;
    let told = || format!("{before:#}");
    let multipath = &before["multipaths"][0];
    require(multipath["name"] == "mpatha", told)?;
    let selector = &multipath["table"]["groups"][0]["selector"];
    require(selector == "round-robin", told)?;
    let slow = &multipath["paths"][0];
    require(slow["portal"] == "10.0.1.2:3260", told)?;
    require(multipath["slow"] == slow["disk"], told)?;
    run_printed(&mut guest, multipath)?;
    guest.run("sleep 2")?;
    let after = whole(&mut guest)?;
    let told = || format!("before: {before:#}\nafter: {after:#}");
    let iops = |of: &Value| {
        let paths = of["multipaths"][0]["paths"]
            .as_array()
            .into_iter()
            .flatten();
        paths.filter_map(|path| path["iops"].as_f64()).sum::<f64>()
    };
    require(iops(&after) > 1.5 * iops(&before), told)?;
    require(after["multipaths"][0]["slow"].is_null(), told)
}

/// A limit of open-iscsi, of the block layer, or of its target.
struct Case {
    /// What is set in the node's record.
    set: &'static [(&'static str, &'static str)],
    /// What is set once the disk is there.
    of_disk: &'static str,
    /// Where it is the target's limit: its command window.
    window: &'static str,
    /// I/Os that fio keeps in flight.
    depth: u32,
    /// What has to be said: the bound, or the limit if that is none.
    bound: &'static str,
    /// Whether the commands take the disk away and bring it again.
    logs_in_again: bool,
}

const CASES: [Case; 5] = [
    Case {
        set: &[("session.queue_depth", "2"), ("session.cmds_max", "128")],
        of_disk: "true",
        window: "1024",
        depth: 16,
        bound: "queue_depth",
        logs_in_again: false,
    },
    Case {
        set: &[("session.queue_depth", "64"), ("session.cmds_max", "128")],
        of_disk: "echo mq-deadline >/sys/block/sda/queue/scheduler && echo 4 >/sys/block/sda/queue/nr_requests",
        window: "1024",
        depth: 16,
        bound: "requests",
        logs_in_again: false,
    },
    Case {
        set: &[("session.queue_depth", "64"), ("session.cmds_max", "128")],
        // One at a time.
        of_disk: "modprobe bfq && echo bfq >/sys/block/sda/queue/scheduler && \
                  echo 1 >/sys/block/sda/queue/iosched/strict_guarantees",
        window: "1024",
        depth: 16,
        bound: "host_queue",
        logs_in_again: false,
    },
    Case {
        set: &[("session.queue_depth", "64"), ("session.cmds_max", "32")],
        of_disk: "true",
        window: "1024",
        depth: 48,
        bound: "session_commands",
        logs_in_again: true,
    },
    Case {
        set: &[("session.queue_depth", "64"), ("session.cmds_max", "128")],
        of_disk: "true",
        window: "2",
        depth: 16,
        bound: "command_window",
        logs_in_again: false,
    },
];

/// A guest with the kernel's initiator, and fio.
fn initiator(folder: &TempDir) -> Result<Guest, Stop> {
    let image = host_program::with(&image()?, "fio", folder.path())?;
    let image = with_wansan(&image, folder.path())?;
    let mut guest = Guest::boot(&image, &[], &[])?;
    guest.run("modprobe -a iscsi_tcp sd_mod crc32c tcp_diag")?;
    start_daemon(&mut guest)?;
    Ok(guest)
}

/// The target in the records of open-iscsi, without digests.
fn node(guest: &mut Guest, target: &Target) -> Result<Node, Stop> {
    let (_, port) = target
        .address()
        .rsplit_once(':')
        .expect("an address has a port");
    let node = Node::new(guest, port.parse().expect("a port is a number"))?;
    for digest in ["HeaderDigest", "DataDigest"] {
        node.set(guest, &format!("conn[0].iscsi.{digest}"), "None")?;
    }
    Ok(node)
}

fn limits_of_open_iscsi() -> Result<(), Stop> {
    let folder = folder()?;
    let mut guest = initiator(&folder)?;
    for case in &CASES {
        let arguments = ["--lun", UNIT, "--command-window", case.window];
        let target = Target::start(Path::new(WANSAN), &arguments)?;
        let node = node(&mut guest, &target)?;
        for (name, value) in case.set {
            node.set(&mut guest, name, value)?;
        }
        node.log_in(&mut guest)?;
        guest.run("until [ -b /dev/sda ]; do sleep 0.1; done")?;
        guest.run(case.of_disk)?;
        is_named_and_lifted(&mut guest, case)?;
        guest.run("iscsiadm -m node --logoutall=all && iscsiadm -m node -o delete")?;
    }
    Ok(())
}

fn is_named_and_lifted(guest: &mut Guest, case: &Case) -> Result<(), Stop> {
    load(guest, case.depth)?;
    let before = diagnosed(guest)?;
    let told = || format!("{before:#}");
    let judgement = &before["judgement"];
    let is_named = judgement["bound"]["bound"] == case.bound || judgement["limit"] == case.bound;
    require(is_named, told)?;
    // Not from counters: each of the block layer's I/Os was found among the packets.
    let is_traced = share_ns(&before, "sending") > 0.0 && share_ns(&before, "host") == 0.0;
    require(is_traced, told)?;
    require(before["initiator"] == "open_iscsi", told)?;
    if case.bound == "command_window" {
        // What to change is the target's, elsewhere.
        return stop(guest);
    }
    if case.logs_in_again {
        stop(guest)?;
    }
    run_printed(guest, &before)?;
    if case.logs_in_again {
        load(guest, case.depth)?;
    }
    let after = diagnosed(guest)?;
    let told = || format!("before: {before:#}\nafter: {after:#}");
    let iops = |of: &Value| of["iops"].as_f64().unwrap_or(0.0);
    require(iops(&after) > 1.5 * iops(&before), told)?;
    let limit = &after["judgement"]["limit"];
    require(limit != "bound" && limit != "host_queue", told)?;
    stop(guest)
}

/// Runs all commands that are printed, as they are.
pub(super) fn run_printed(guest: &mut Guest, told: &Value) -> Result<(), Stop> {
    let changes = told["changes"].as_array().into_iter().flatten();
    let commands = changes.flat_map(|change| change["commands"].as_array().into_iter().flatten());
    for command in commands.filter_map(Value::as_str) {
        // The guest's shell would run busybox's ip, which has fewer options than Debian's.
        guest.run(&format!("ip() {{ /bin/ip \"$@\"; }}; {command}"))?;
    }
    Ok(())
}

/// Has fio read at random.
fn load(guest: &mut Guest, depth: u32) -> Result<(), Stop> {
    guest.run("until [ -b /dev/sda ]; do sleep 0.1; done")?;
    load_of(guest, "/dev/sda", depth)
}

/// The same from that disk.
fn load_of(guest: &mut Guest, disk: &str, depth: u32) -> Result<(), Stop> {
    guest.run(&format!(
        "fio --name=load --filename={disk} --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth={depth} \
         --runtime=600 --time_based >/run/fio.log 2>&1 & echo $! >/run/fio.pid; sleep 4"
    ))?;
    Ok(())
}

pub(super) fn stop(guest: &mut Guest) -> Result<(), Stop> {
    guest.run(
        "kill $(cat /run/fio.pid); while [ -d /proc/$(cat /run/fio.pid) ]; do sleep 0.1; done",
    )?;
    Ok(())
}

/// What is said of the only session.
pub(super) fn diagnosed(guest: &mut Guest) -> Result<Value, Stop> {
    let told = whole(guest)?;
    let sessions = told["sessions"].as_array().map_or(0, Vec::len);
    require(sessions == 1, || format!("{told:#}"))?;
    Ok(told["sessions"][0].clone())
}

/// All that is said.
fn whole(guest: &mut Guest) -> Result<Value, Stop> {
    let printed = guest.run("wansan diagnose --for 4s --json")?;
    let json = printed.find('{').map_or("", |at| &printed[at..]);
    serde_json::from_str(json).map_err(|error| Stop::Failed(format!("{error}: {printed}")))
}
