//! The Linux kernel's multipathing over two ways to our target.

use std::path::Path;

use libtest_mimic::Trial;
use serde_json::Value;
use wansan_peers::guest::Guest;
use wansan_peers::wansan::{TARGET_NAME, Target};

use super::files;
use super::host_program;
use super::open_iscsi::{Node, start_daemon};
use super::relay::Relay;
use super::{image, kernel_trial, with_wansan};
use crate::stage::{Stop, WANSAN, empty_disk, folder, require, text};

const DISK_MIB: u64 = 256;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        kernel_trial(
            "dm_multipath_goes_on_when_a_path_is_cut",
            goes_on_when_a_path_is_cut,
        ),
        kernel_trial("unequal_routes_by_dm_multipath_and_by_ours", unequal_routes),
    ]
}

/// A file system is written over two paths, of which one is cut, mended, and then left alone by the
/// other one: no write fails, and all that was written is there.
fn goes_on_when_a_path_is_cut() -> Result<(), Stop> {
    let folder = folder()?;
    let disk = empty_disk(folder.path(), "disk.img", DISK_MIB)?;
    let unit = format!("file:{}", text(&disk));
    let target = Target::start(Path::new(WANSAN), &["--lun", &unit])?;
    let portal = target.address().parse().expect("a portal is an address");
    let paths = [Relay::to(portal)?, Relay::to(portal)?];

    let mut guest = Guest::boot(&image()?, &[], &[])?;
    guest.run(
        "modprobe -a iscsi_tcp sd_mod crc32c ext4 dm-multipath dm-service-time scsi_dh_alua",
    )?;
    guest.run("/lib/systemd/systemd-udevd --daemon && udevadm trigger && udevadm settle")?;
    start_daemon(&mut guest)?;
    guest.run(
        "printf 'defaults {\\n find_multipaths no\\n user_friendly_names yes\\n \
         path_grouping_policy multibus\\n polling_interval 1\\n no_path_retry queue\\n}\\n' \
         >/etc/multipath.conf",
    )?;
    guest.run("multipathd")?;
    for path in &paths {
        Node::new(&mut guest, path.address().port())?.log_in(&mut guest)?;
    }
    let active = |paths: u8| {
        format!(
            "until [ $(multipathd show paths format '%t %o' | grep -c '^active') = {paths} ]; do sleep 0.5; done"
        )
    };
    guest.run(&active(2))?;
    guest.run("until [ -b /dev/mapper/mpatha ]; do sleep 0.1; done")?;
    guest.run("mkfs.ext4 -q /dev/mapper/mpatha && mount /dev/mapper/mpatha /mnt")?;

    files::write(&mut guest)?;
    files::until_written(&mut guest, 5)?;
    paths[0].cut();
    files::until_written(&mut guest, 10)?;
    guest.run(&active(1))?;
    paths[0].mend();
    guest.run(&active(2))?;
    // From here on, everything goes over the path that came back.
    paths[1].cut();
    files::all_written(&mut guest)?;
    files::check(&mut guest, "/dev/mapper/mpatha")
}

/// The routes: one-way delay in ms and rate in Mbit/s. Rates are small, as a guest by software carries out far fewer
/// instructions than a computer.
const ROUTES: [(u32, u32); 2] = [(1, 20), (16, 10)];
/// How dm-multipath picks a path.
const SELECTORS: [&str; 3] = ["service-time", "queue-length", "round-robin"];
/// I/Os in flight: just as many as fill both routes, and more.
const IN_FLIGHT: [u32; 2] = [4, 24];
const BLOCK_KIB: u32 = 64;
const WARM_UP_S: u32 = 3;
const MEASURED_S: u32 = 6;
/// How much less than the best of the kernel's selectors ours may bring, for what two runs differ by.
const TOLERANCE: f64 = 0.03;

/// One unit over two unequal routes in one guest: through dm-multipath over open-iscsi, by each of its path selectors,
/// and by `wansan bench --multipath`.
fn unequal_routes() -> Result<(), Stop> {
    let folder = folder()?;
    let image = host_program::with(&image()?, "fio", folder.path())?;
    let image = with_wansan(&image, folder.path())?;
    let mut guest = Guest::boot_on_own_time(&image)?;
    guest.run(
        "modprobe -a veth sch_netem iscsi_tcp sd_mod crc32c dm-multipath dm-service-time \
         dm-queue-length dm-round-robin scsi_dh_alua",
    )?;
    guest.run("/lib/systemd/systemd-udevd --daemon && udevadm trigger && udevadm settle")?;
    two_ways(
        &mut guest,
        &ROUTES.map(|(delay, rate)| format!("delay {delay}ms rate {rate}mbit")),
    )?;
    guest.run(&format!(
        "/bin/ip netns exec storage wansan target --listen 0.0.0.0:3260 --name {TARGET_NAME} \
         --lun memory:64MiB >/run/target 2>&1 & \
         until grep -q LUN /run/target; do sleep 0.1; done"
    ))?;
    start_daemon(&mut guest)?;
    let mut worst = (f64::INFINITY, String::new());
    for selector in SELECTORS {
        write_configuration(&mut guest, selector)?;
        if selector == SELECTORS[0] {
            guest.run("multipathd")?;
            for place in 0..ROUTES.len() {
                log_in(&mut guest, place)?;
            }
            guest.run("until [ -b /dev/mapper/mpatha ]; do sleep 0.1; done")?;
        }
        guest.run("multipathd reconfigure >/dev/null; sleep 2")?;
        guest.run(&format!(
            "until [ $(multipathd show paths format '%t %o' | grep -c '^active') = 2 ] && \
             dmsetup table mpatha | grep -q '{selector} 0'; do sleep 0.5; done"
        ))?;
        for (op, in_flight) in ["read", "write"]
            .into_iter()
            .flat_map(|op| IN_FLIGHT.map(|in_flight| (op, in_flight)))
        {
            let theirs = by_dm_multipath(&mut guest, op, in_flight)?;
            let ours = by_wansan(&mut guest, op, in_flight)?;
            println!(
                "{op}s of {BLOCK_KIB} KiB, {in_flight} in flight: {selector} {:.2} Mbit/s, ours {:.2}",
                theirs * 8e-6,
                ours * 8e-6
            );
            let share = ours / theirs;
            if share < worst.0 {
                worst = (share, format!("{op}s, {in_flight} in flight, {selector}"));
            }
        }
    }
    require(worst.0 >= 1.0 - TOLERANCE, || {
        format!("{:.3} of dm-multipath's throughput: {}", worst.0, worst.1)
    })
}

/// A namespace `storage` that two ways lead to, at 10.0.0.2 and 10.0.1.2, with what netem does to each direction of these.
pub(super) fn two_ways(guest: &mut Guest, netem: &[String; 2]) -> Result<(), Stop> {
    guest.run(
        "mkdir -p /run/netns && /bin/ip netns add storage && /bin/ip -n storage link set lo up",
    )?;
    for (place, netem) in netem.iter().enumerate() {
        let netem = format!("root netem {netem} limit 1000");
        guest.run(&format!(
            "/bin/ip link add r{place} type veth peer name s{place} netns storage && \
             /bin/ip addr add 10.0.{place}.1/24 dev r{place} && \
             /bin/ip link set r{place} up gso_max_segs 1 && \
             /bin/ip -n storage addr add 10.0.{place}.2/24 dev s{place} && \
             /bin/ip -n storage link set s{place} up gso_max_segs 1 && \
             /sbin/tc qdisc add dev r{place} {netem} && /sbin/tc -n storage qdisc add dev s{place} {netem}"
        ))?;
    }
    Ok(())
}

pub(super) fn write_configuration(guest: &mut Guest, selector: &str) -> Result<(), Stop> {
    guest.run(&format!(
        "printf 'defaults {{\\n find_multipaths no\\n user_friendly_names yes\\n \
         path_grouping_policy multibus\\n path_selector \"{selector} 0\"\\n}}\\n' \
         >/etc/multipath.conf"
    ))?;
    Ok(())
}

pub(super) fn log_in(guest: &mut Guest, place: usize) -> Result<(), Stop> {
    let node = format!("iscsiadm -m node -T {TARGET_NAME} -p 10.0.{place}.2:3260");
    guest.run(&format!(
        "{node} -o new && {node} -o update -n node.session.queue_depth -v 64 && {node} --login"
    ))?;
    Ok(())
}

/// What fio gets through dm-multipath, in bytes per second.
fn by_dm_multipath(guest: &mut Guest, op: &str, in_flight: u32) -> Result<f64, Stop> {
    let printed = guest.run(&format!(
        "fio --name=x --filename=/dev/mapper/mpatha --ioengine=libaio --direct=1 --rw=rand{op} \
         --bs={BLOCK_KIB}k --iodepth={in_flight} --time_based --ramp_time={WARM_UP_S} \
         --runtime={MEASURED_S} --output-format=json"
    ))?;
    number(&printed, |found| &found["jobs"][0][op]["bw_bytes"])
}

/// The same by ours, over a session for each route.
fn by_wansan(guest: &mut Guest, op: &str, in_flight: u32) -> Result<f64, Stop> {
    let route = |place: usize| format!("--route '10.0.{place}.1->10.0.{place}.2'");
    let printed = guest.run(&format!(
        "wansan bench --multipath {} {} iscsi://10.0.0.2/{TARGET_NAME}/0 --op {op} \
         --pattern random --block {BLOCK_KIB}KiB --parallel {in_flight} --warmup {WARM_UP_S}s \
         --time {MEASURED_S}s --json",
        route(0),
        route(1)
    ))?;
    number(&printed, |found| &found["bytes_per_s"])
}

/// A number in what a program printed as JSON.
fn number(printed: &str, of: impl Fn(&Value) -> &Value) -> Result<f64, Stop> {
    let json = printed.find('{').map_or("", |at| &printed[at..]);
    let found: Value =
        serde_json::from_str(json).map_err(|error| Stop::Failed(format!("{error}: {printed}")))?;
    let number = of(&found).as_f64();
    number.ok_or_else(|| Stop::Failed(format!("no number in {printed}")))
}
