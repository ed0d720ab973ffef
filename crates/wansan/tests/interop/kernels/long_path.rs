//! `wansan diagnose` beside the kernel's initiator over a long path: what TCP and iSCSI wait for on it is named, and the
//! commands that it prints, run as printed, lift that.

use libtest_mimic::Trial;
use serde_json::Value;
use tempfile::TempDir;
use wansan_peers::guest::Guest;
use wansan_peers::wansan::TARGET_NAME;

use super::diagnose::{diagnosed, run_printed, share_ns, stop};
use super::host_program;
use super::multipath::two_ways;
use super::open_iscsi::start_daemon;
use super::{image, kernel_trial, with_wansan};
use crate::stage::{Stop, folder, require};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        kernel_trial(
            "diagnose_names_what_open_iscsi_waits_for_on_a_long_path_and_lifts_it",
            long_path,
        ),
        kernel_trial(
            "diagnose_names_the_delayed_acknowledgement_that_nagle_waits_for_and_lifts_it",
            delayed_acknowledgement,
        ),
    ]
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
        // More data in flight than BBR sends at such a loss would wait for its window again, as the diagnosis then says.
        load: "--rw=randwrite --bs=64k --iodepth=3",
    },
];

/// A guest whose initiator reaches wansan's target, with these options, over paths with this delay each way.
fn guest(folder: &TempDir, delay_ms: u32, target: &str) -> Result<Guest, Stop> {
    let image = host_program::with(&image()?, "fio", folder.path())?;
    let image = with_wansan(&image, folder.path())?;
    let mut guest = Guest::boot(&image, &[], &[])?;
    guest.run("modprobe -a veth sch_netem iscsi_tcp sd_mod crc32c tcp_diag")?;
    let delay = format!("delay {delay_ms}ms");
    two_ways(&mut guest, &[delay.clone(), delay])?;
    guest.run(&format!(
        "/bin/ip netns exec storage wansan target --listen 0.0.0.0:3260 --name {TARGET_NAME} \
         --lun memory:64MiB {target} >/run/target 2>&1 & until grep -q LUN /run/target; do sleep 0.1; done"
    ))?;
    start_daemon(&mut guest)?;
    Ok(guest)
}

fn long_path() -> Result<(), Stop> {
    let folder = folder()?;
    let mut guest = guest(&folder, DELAY_MS, "")?;
    for case in &CASES {
        is_named_and_lifted(&mut guest, case)?;
        guest.run("iscsiadm -m node --logoutall=all && iscsiadm -m node -o delete")?;
    }
    is_not_advised_again(&mut guest)
}

/// With more in flight than BBR carries over the lossy path of the last case, its window limits again: what the printed
/// commands have set is not to be set once more.
fn is_not_advised_again(guest: &mut Guest) -> Result<(), Stop> {
    guest.run(&format!(
        "iscsiadm -m node -T {TARGET_NAME} -p 10.0.0.2:3260 -o new && iscsiadm -m node --login"
    ))?;
    let told = loaded(guest, "--rw=randwrite --bs=64k --iodepth=8")?;
    require(told["judgement"]["limit"] == "wire", || format!("{told:#}"))?;
    let changes = told["changes"].to_string();
    require(
        !told["changes"][0].is_null() && !changes.contains("tcp_congestion_control"),
        || format!("{told:#}"),
    )
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
    let before = loaded(guest, case.load)?;
    let judgement = &before["judgement"];
    require(
        judgement["limit"] == "wire" && judgement["of"] == case.of,
        || format!("not {}: {before:#}", case.of),
    )?;
    run_printed(guest, &before)?;
    let after = loaded(guest, case.load)?;
    let told = || format!("before: {before:#}\nafter: {after:#}");
    // Twice as many would be, if the guest's processor took nothing, which also has other work than the test's.
    require(iops(&after) > 1.25 * iops(&before), told)?;
    require(after["judgement"]["of"] != case.of, told)
}

/// A target without TCP_NODELAY sends the data of a read, then its status, and Nagle's algorithm holds that back until the
/// initiator's host acknowledges the data, and that waits for more to acknowledge.
fn delayed_acknowledgement() -> Result<(), Stop> {
    const STALL: &str = "nagle_against_delayed_ack";
    const READS: &str = "--rw=randread --bs=1k --iodepth=1";
    let folder = folder()?;
    let mut guest = guest(&folder, 1, "--nagle on --status separate --join-sends off")?;
    guest.run(&format!(
        "iscsiadm -m node -T {TARGET_NAME} -p 10.0.0.2:3260 -o new && iscsiadm -m node --login"
    ))?;
    let before = loaded(&mut guest, READS)?;
    let judgement = &before["judgement"];
    let is_named = judgement["limit"] == "wire" && judgement["of"] == "stalls";
    // The kernel delays an acknowledgement by 40 ms at least.
    let is_found = is_named && share_ns(&before, STALL) > 20e6;
    require(is_found, || format!("{before:#}"))?;
    run_printed(&mut guest, &before)?;
    let after = loaded(&mut guest, READS)?;
    let told = || format!("before: {before:#}\nafter: {after:#}");
    require(iops(&after) > 2.0 * iops(&before), told)?;
    require(
        share_ns(&after, STALL) < 0.1 * share_ns(&before, STALL),
        told,
    )
}

fn iops(told: &Value) -> f64 {
    told["iops"].as_f64().unwrap_or(0.0)
}

/// What is said under load.
fn loaded(guest: &mut Guest, load: &str) -> Result<Value, Stop> {
    guest.run(&format!(
        "until [ -b /dev/sda ]; do sleep 0.1; done; \
         fio --name=load --filename=/dev/sda --direct=1 --ioengine=libaio {load} --runtime=600 --time_based \
         >/run/fio.log 2>&1 & echo $! >/run/fio.pid; sleep 6"
    ))?;
    let told = diagnosed(guest)?;
    stop(guest)?;
    Ok(told)
}
