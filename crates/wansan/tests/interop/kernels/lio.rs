//! The Linux kernel's target, LIO, with our initiator.

use libtest_mimic::Trial;
use wansan_peers::process::free_address;

use super::guest::Guest;
use super::kernel_trial;
use crate::stage::{Stop, load};

const TARGET_NAME: &str = "iqn.2026-11.net.example:lio";
/// Where LIO listens in its guest.
const PORT: u16 = 3260;
/// A RAM disk of 64 MiB, in pages of 4 KiB.
const DISK_PAGES: u32 = 16_384;

pub(crate) fn trials() -> Vec<Trial> {
    vec![kernel_trial(
        "lio_serves_our_initiator_over_several_connections",
        serves,
    )]
}

/// What is written to LIO is read back, over one, two and four connections.
fn serves() -> Result<(), Stop> {
    let address = free_address()?;
    let mut guest = Guest::boot(&[(address, PORT)])?;
    serve(&mut guest)?;
    let url = format!("iscsi://{address}/{TARGET_NAME}/0");
    for connections in ["1", "2", "4"] {
        for (block, count) in [("4KiB", 2000), ("1MiB", 64)] {
            let block = ["--block", block, "--parallel", "16"];
            let session = ["--connections", connections, "--header-digest", "always"];
            let load_of = ["--op", "mix", "--verify"];
            load(&url, count, &[&load_of[..], &block, &session].concat())?;
        }
    }
    Ok(())
}

/// Lets LIO serve a RAM disk to everybody, with several connections in a session and error
/// recovery level 2.
fn serve(guest: &mut Guest) -> Result<(), Stop> {
    guest.run("modprobe -a target_core_mod iscsi_target_mod crc32c")?;
    guest.run("mount -t configfs config /sys/kernel/config")?;
    let core = "/sys/kernel/config/target/core/rd_mcp_0/disk";
    guest.run(&format!(
        "mkdir -p {core} && echo rd_pages={DISK_PAGES} >{core}/control && echo 1 >{core}/enable"
    ))?;
    let group = format!("/sys/kernel/config/target/iscsi/{TARGET_NAME}/tpgt_1");
    guest.run(&format!(
        "mkdir -p {group}/lun/lun_0 {group}/np/0.0.0.0:{PORT} && ln -s {core} {group}/lun/lun_0/disk"
    ))?;
    for (setting, value) in [
        ("attrib/authentication", 0),
        ("attrib/generate_node_acls", 1),
        ("attrib/cache_dynamic_acls", 1),
        ("attrib/demo_mode_write_protect", 0),
        ("param/ErrorRecoveryLevel", 2),
        ("param/MaxConnections", 4),
        ("enable", 1),
    ] {
        guest.run(&format!("echo {value} >{group}/{setting}"))?;
    }
    Ok(())
}
