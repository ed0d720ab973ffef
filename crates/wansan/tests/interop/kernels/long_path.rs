//! `wansan diagnose` beside the kernel's initiator over a long path: what TCP and iSCSI wait for on it is named, and the
//! commands that it prints, run as printed, lift that.

use libtest_mimic::Trial;
use serde_json::Value;
use wansan_peers::wansan::TARGET_NAME;

use super::diagnose::{diagnosed, run_printed, stop};
use super::guest::Guest;
use super::host_program;
use super::image::image;
use super::kernel_trial;
use super::multipath::two_ways;
use super::netem::lean;
use super::open_iscsi::start_daemon;
use crate::stage::{Stop, folder, require};

pub(crate) fn trials() -> Vec<Trial> {
    vec![kernel_trial(
        "diagnose_names_what_open_iscsi_waits_for_on_a_long_path_and_lifts_it",
        long_path,
    )]
}

/// What limits the initiator over the path.
struct Case {
    /// As the diagnosis names it.
    of: &'static str,
    /// What is set on the initiator's host before it logs in.
    set: &'static str,
    /// What is set in the node's record.
    record: &'static [(&'static str, &'static str)],
    /// What netem does to packets on their way to the target, beside delaying them.
    loss: &'static str,
    /// fio's load.
    load: &'static str,
}

/// One-way delay of the path, in ms: a guest by software carries out few instructions, which take little beside it.
const DELAY_MS: u32 = 50;

const CASES: [Case; 3] = [
    Case {
        of: "r2t_round_trips",
        set: "true",
        record: &[
            ("session.iscsi.InitialR2T", "Yes"),
            ("session.iscsi.ImmediateData", "No"),
        ],
        loss: "",
        load: "--rw=randwrite --bs=64k --iodepth=4",
    },
    Case {
        of: "receive_window",
        set: "sysctl -qw net.ipv4.tcp_rmem='4096 65536 65536'",
        record: &[("conn[0].tcp.window_size", "32768")],
        loss: "",
        load: "--rw=randread --bs=64k --iodepth=8",
    },
    Case {
        of: "congestion_window",
        set: "sysctl -qw net.ipv4.tcp_congestion_control=cubic",
        record: &[],
        loss: "loss 2%",
        load: "--rw=randwrite --bs=64k --iodepth=8",
    },
];

fn long_path() -> Result<(), Stop> {
    let folder = folder()?;
    let image = host_program::with(&image()?, "fio", folder.path())?;
    let image = image.with(&lean(&folder)?, folder.path())?;
    let mut guest = Guest::boot_with(&image, &[], &[])?;
    guest.run("modprobe -a veth sch_netem iscsi_tcp sd_mod crc32c tcp_diag")?;
    let delay = format!("delay {DELAY_MS}ms");
    two_ways(&mut guest, &[delay.clone(), delay])?;
    guest.run(&format!(
        "/bin/ip netns exec storage wansan target --listen 0.0.0.0:3260 --name {TARGET_NAME} \
         --lun memory:64MiB >/run/target 2>&1 & until grep -q LUN /run/target; do sleep 0.1; done"
    ))?;
    start_daemon(&mut guest)?;
    for case in &CASES {
        is_named_and_lifted(&mut guest, case)?;
        guest.run("iscsiadm -m node --logoutall=all && iscsiadm -m node -o delete")?;
    }
    Ok(())
}

fn is_named_and_lifted(guest: &mut Guest, case: &Case) -> Result<(), Stop> {
    let netem = format!("root netem delay {DELAY_MS}ms {} limit 1000", case.loss);
    guest.run(&format!(
        "/sbin/tc qdisc change dev r0 {netem} && {}",
        case.set
    ))?;
    let node = format!("iscsiadm -m node -T {TARGET_NAME} -p 10.0.0.2:3260");
    guest.run(&format!("{node} -o new"))?;
    for (name, value) in case.record {
        guest.run(&format!("{node} -o update -n 'node.{name}' -v {value}"))?;
    }
    guest.run(&format!("{node} --login"))?;
    let before = loaded(guest, case)?;
    let judgement = &before["judgement"];
    require(
        judgement["limit"] == "wire" && judgement["of"] == case.of,
        || format!("not {}: {before:#}", case.of),
    )?;
    run_printed(guest, &before)?;
    let after = loaded(guest, case)?;
    let told = || format!("before: {before:#}\nafter: {after:#}");
    let iops = |of: &Value| of["iops"].as_f64().unwrap_or(0.0);
    // Twice as many would be, if the guest's processor took nothing, which also has other work than the test's.
    require(iops(&after) > 1.25 * iops(&before), told)?;
    require(after["judgement"]["of"] != case.of, told)
}

/// What is said under load.
fn loaded(guest: &mut Guest, case: &Case) -> Result<Value, Stop> {
    guest.run(&format!(
        "until [ -b /dev/sda ]; do sleep 0.1; done; \
         fio --name=load --filename=/dev/sda --direct=1 --ioengine=libaio {} --runtime=600 --time_based \
         >/run/fio.log 2>&1 & echo $! >/run/fio.pid; sleep 6",
        case.load
    ))?;
    let told = diagnosed(guest)?;
    stop(guest)?;
    Ok(told)
}
