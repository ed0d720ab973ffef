//! The Linux kernel's initiator with our target.

use std::path::Path;

use libtest_mimic::Trial;
use wansan_peers::wansan::{TARGET_NAME, Target};

use super::files;
use super::guest::{Guest, OUTSIDE};
use super::kernel_trial;
use crate::stage::{Stop, WANSAN, empty_disk, folder, text};

const DISK_MIB: u64 = 256;

pub(crate) fn trials() -> Vec<Trial> {
    vec![kernel_trial(
        "open_iscsi_keeps_a_file_system_while_the_target_is_killed",
        file_system_outlives_the_target,
    )]
}

/// A file system that is written while the target is killed and started again is whole, and so is
/// every file on it.
fn file_system_outlives_the_target() -> Result<(), Stop> {
    let folder = folder()?;
    let disk = empty_disk(folder.path(), "disk.img", DISK_MIB)?;
    let unit = format!("file:{}", text(&disk));
    let serve = |listen: &str| Target::start_at(Path::new(WANSAN), listen, &["--lun", &unit]);
    let mut target = serve("127.0.0.1:0")?;
    let address = target.address().to_owned();
    let (_, port) = address.rsplit_once(':').expect("an address has a port");
    let port = port.parse().expect("a port is a number");

    let mut guest = Guest::boot(&[])?;
    guest.run("modprobe -a iscsi_tcp sd_mod crc32c ext4")?;
    start_daemon(&mut guest)?;
    log_in(&mut guest, port)?;
    guest.run("until [ -b /dev/sda ]; do sleep 0.1; done")?;
    guest.run("mkfs.ext4 -q /dev/sda && mount /dev/sda /mnt")?;

    files::write(&mut guest)?;
    for written in [4, 9, 14] {
        files::until_written(&mut guest, written)?;
        // Dropping kills it (SIGKILL).
        drop(target);
        target = serve(&address)?;
    }
    files::all_written(&mut guest)?;
    files::check(&mut guest, "/dev/sda")?;
    guest.run("iscsiadm -m node --logoutall=all")?;
    Ok(())
}

/// Starts the daemon of open-iscsi.
pub(super) fn start_daemon(guest: &mut Guest) -> Result<(), Stop> {
    guest.run("mkdir -p /etc/iscsi /run/lock/iscsi")?;
    guest
        .run("echo InitiatorName=iqn.2026-11.net.example:guest >/etc/iscsi/initiatorname.iscsi")?;
    guest.run("iscsid")?;
    Ok(())
}

/// Logs in to our target at `port` of the computer outside, with both digests. Its own address,
/// which SendTargets gives, is of no use in a guest.
pub(super) fn log_in(guest: &mut Guest, port: u16) -> Result<(), Stop> {
    let node = format!("iscsiadm -m node -T {TARGET_NAME} -p {OUTSIDE}:{port}");
    guest.run(&format!("{node} -o new"))?;
    for digest in ["HeaderDigest", "DataDigest"] {
        guest.run(&format!(
            "{node} -o update -n node.conn[0].iscsi.{digest} -v CRC32C"
        ))?;
    }
    guest.run(&format!("{node} --login"))?;
    Ok(())
}
