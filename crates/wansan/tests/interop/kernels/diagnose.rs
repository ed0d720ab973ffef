//! `wansan diagnose` beside the kernel's initiator: it has to name the limit that was set, and the commands that it
//! prints, run as printed, have to lift it.

use std::path::Path;

use libtest_mimic::Trial;
use serde_json::Value;
use wansan_peers::process::free_address;
use wansan_peers::wansan::{Target, bench};

use super::guest::Guest;
use super::host_program;
use super::image::image;
use super::kernel_trial;
use super::lio;
use super::netem::lean;
use super::open_iscsi::{Node, start_daemon};
use crate::stage::{LIMIT, Stop, WANSAN, folder, require};

/// Each I/O takes so long, however many there are.
const UNIT: &str = "memory:64MiB,service-time=50ms,servers=1024";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        kernel_trial(
            "diagnose_names_the_limits_of_open_iscsi_and_lifts_them",
            limits_of_open_iscsi,
        ),
        kernel_trial("diagnose_finds_the_command_window_of_lio", window_of_lio),
    ]
}

/// On the target's host: LIO grants few commands, and gets an initiator that would send more.
fn window_of_lio() -> Result<(), Stop> {
    let folder = folder()?;
    let image = image()?.with(&lean(&folder)?, folder.path())?;
    let address = free_address()?;
    let mut guest = Guest::boot_with(&image, &[], &[(address, lio::PORT)])?;
    lio::serve(&mut guest)?;
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

/// A limit of open-iscsi, or of its target.
struct Case {
    /// What is set in the node's record.
    set: &'static [(&'static str, &'static str)],
    /// Where it is the target's limit: its command window.
    window: &'static str,
    /// I/Os that fio keeps in flight.
    depth: u32,
    /// What has to be said.
    bound: &'static str,
    /// Whether the commands take the disk away and bring it again.
    logs_in_again: bool,
}

const CASES: [Case; 3] = [
    Case {
        set: &[("session.queue_depth", "2"), ("session.cmds_max", "128")],
        window: "1024",
        depth: 16,
        bound: "queue_depth",
        logs_in_again: false,
    },
    Case {
        set: &[("session.queue_depth", "64"), ("session.cmds_max", "32")],
        window: "1024",
        depth: 32,
        bound: "session_commands",
        logs_in_again: true,
    },
    Case {
        set: &[("session.queue_depth", "64"), ("session.cmds_max", "128")],
        window: "2",
        depth: 16,
        bound: "command_window",
        logs_in_again: false,
    },
];

fn limits_of_open_iscsi() -> Result<(), Stop> {
    let folder = folder()?;
    let plain = image()?;
    let image = host_program::with(&plain, "fio", folder.path())?;
    let image = image.with(&lean(&folder)?, folder.path())?;
    let mut guest = Guest::boot_with(&image, &[], &[])?;
    guest.run("modprobe -a iscsi_tcp sd_mod crc32c tcp_diag")?;
    start_daemon(&mut guest)?;
    for case in &CASES {
        let arguments = ["--lun", UNIT, "--command-window", case.window];
        let target = Target::start(Path::new(WANSAN), &arguments)?;
        let (_, port) = target
            .address()
            .rsplit_once(':')
            .expect("an address has a port");
        let node = Node::new(&mut guest, port.parse().expect("a port is a number"))?;
        for digest in ["HeaderDigest", "DataDigest"] {
            node.set(&mut guest, &format!("conn[0].iscsi.{digest}"), "None")?;
        }
        for (name, value) in case.set {
            node.set(&mut guest, name, value)?;
        }
        node.log_in(&mut guest)?;
        is_named_and_lifted(&mut guest, case)?;
        guest.run("iscsiadm -m node --logoutall=all && iscsiadm -m node -o delete")?;
    }
    Ok(())
}

fn is_named_and_lifted(guest: &mut Guest, case: &Case) -> Result<(), Stop> {
    load(guest, case.depth)?;
    let before = diagnosed(guest)?;
    let told = || format!("{before:#}");
    require(before["judgement"]["bound"]["bound"] == case.bound, told)?;
    require(before["initiator"] == "open_iscsi", told)?;
    if case.bound == "command_window" {
        // What to change is the target's, elsewhere.
        return stop(guest);
    }
    let commands = before["changes"].as_array().into_iter().flatten();
    let commands: Vec<&str> = commands
        .flat_map(|change| change["commands"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    if case.logs_in_again {
        stop(guest)?;
    }
    for command in commands {
        guest.run(command)?;
    }
    if case.logs_in_again {
        load(guest, case.depth)?;
    }
    let after = diagnosed(guest)?;
    let told = || format!("before: {before:#}\nafter: {after:#}");
    let iops = |of: &Value| of["iops"].as_f64().unwrap_or(0.0);
    require(iops(&after) > 1.5 * iops(&before), told)?;
    require(after["judgement"]["limit"] != "bound", told)?;
    stop(guest)
}

/// Has fio read at random.
fn load(guest: &mut Guest, depth: u32) -> Result<(), Stop> {
    guest.run("until [ -b /dev/sda ]; do sleep 0.1; done")?;
    guest.run(&format!(
        "fio --name=load --filename=/dev/sda --rw=randread --bs=4k --direct=1 --ioengine=libaio --iodepth={depth} \
         --runtime=600 --time_based >/run/fio.log 2>&1 & echo $! >/run/fio.pid; sleep 4"
    ))?;
    Ok(())
}

fn stop(guest: &mut Guest) -> Result<(), Stop> {
    guest.run(
        "kill $(cat /run/fio.pid); while [ -d /proc/$(cat /run/fio.pid) ]; do sleep 0.1; done",
    )?;
    Ok(())
}

/// What is said of the only session.
fn diagnosed(guest: &mut Guest) -> Result<Value, Stop> {
    let printed = guest.run("wansan diagnose --for 4s --json")?;
    let json = printed.find('{').map_or("", |at| &printed[at..]);
    let told: Value =
        serde_json::from_str(json).map_err(|error| Stop::Failed(format!("{error}: {printed}")))?;
    let sessions = told["sessions"].as_array().map_or(0, Vec::len);
    require(sessions == 1, || format!("{told:#}"))?;
    Ok(told["sessions"][0].clone())
}
