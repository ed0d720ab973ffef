//! The Linux kernel's multipathing over two ways to our target.

use std::path::Path;

use libtest_mimic::Trial;
use wansan_peers::wansan::Target;

use super::files;
use super::guest::Guest;
use super::kernel_trial;
use super::open_iscsi::{Node, start_daemon};
use super::relay::Relay;
use crate::stage::{Stop, WANSAN, empty_disk, folder, text};

const DISK_MIB: u64 = 256;

pub(crate) fn trials() -> Vec<Trial> {
    vec![kernel_trial(
        "dm_multipath_goes_on_when_a_path_is_cut",
        goes_on_when_a_path_is_cut,
    )]
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

    let mut guest = Guest::boot(&[])?;
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
