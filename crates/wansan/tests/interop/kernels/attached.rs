//! The Linux kernel's NBD devices, over disks that `wansan attach` serves.

use std::net::SocketAddr;
use std::path::Path;

use libtest_mimic::Trial;
use wansan_peers::wansan::{TARGET_NAME, Target};

use super::files;
use super::guest::{Guest, OUTSIDE};
use super::image::image;
use super::kernel_trial;
use super::netem::lean;
use super::relay::Relay;
use crate::stage::{Stop, WANSAN, empty_disk, folder, require, text};

const DISK_MIB: u64 = 256;

/// How long the path is cut.
const CUT_S: u32 = 30;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        kernel_trial("an_attached_device_keeps_a_file_system", || outlives(&[])),
        kernel_trial(
            "an_attached_device_with_a_journal_keeps_a_file_system",
            || outlives(&["--journal /run/journal --journal-size 128MiB"]),
        ),
    ]
}

/// A file system on `/dev/nbd0` that is written while the path is cut and the target is killed is whole, and so is
/// every file on it.
fn outlives(how: &[&str]) -> Result<(), Stop> {
    let folder = folder()?;
    let disk = empty_disk(folder.path(), "disk.img", DISK_MIB)?;
    let unit = format!("file:{}", text(&disk));
    let serve = |listen: &str| Target::start_at(Path::new(WANSAN), listen, &["--lun", &unit]);
    let target = serve("127.0.0.1:0")?;
    let address = target.address().to_owned();
    let portal: SocketAddr = address.parse().expect("an address");
    let relay = Relay::to(portal)?;
    let image = image()?.with(&lean(&folder)?, folder.path())?;
    let mut guest = Guest::boot_with(&image, &[], &[])?;
    guest.run("modprobe -a nbd crc32c ext4")?;
    let url = format!(
        "iscsi://{OUTSIDE}:{}/{TARGET_NAME}/0",
        relay.address().port()
    );
    let how = how.join(" ");
    let start = format!(
        "wansan attach {url} --nbd unix:/run/disk --device /dev/nbd0 --json {how} >/run/attach 2>&1 & \
         echo $! >/run/attach.pid; \
         until grep -q attached /run/attach; do \
           [ -d /proc/$(cat /run/attach.pid) ] || {{ cat /run/attach; exit 1; }}; sleep 0.1; \
         done"
    );
    guest.run(&start)?;
    guest.run("mkfs.ext4 -q /dev/nbd0 && mount /dev/nbd0 /mnt")?;

    files::write(&mut guest)?;
    files::until_written(&mut guest, 4)?;
    relay.cut();
    // Dropping kills it (SIGKILL).
    drop(target);
    let _target = serve(&address)?;
    guest.run(&format!("sleep {CUT_S}"))?;
    relay.mend();
    if !how.is_empty() {
        // What a journal has survives the process, and the device waits for the next one.
        files::until_written(&mut guest, 14)?;
        guest.run("kill -9 $(cat /run/attach.pid); sleep 2")?;
        guest.run(&start)?;
    }
    files::all_written(&mut guest)?;
    // What is mounted is not detached.
    let refused = guest.run("wansan attach detach /dev/nbd0 2>&1; [ $? = 2 ]")?;
    require(refused.contains("is in use"), || refused.clone())?;
    files::check(&mut guest, "/dev/nbd0")?;
    guest.run("wansan attach detach /dev/nbd0")?;
    guest.run("while [ -d /proc/$(cat /run/attach.pid) ]; do sleep 0.1; done")?;
    // Detached, the target has it all.
    require(relay.passed_bytes() > 0, || {
        "nothing went through".to_owned()
    })?;
    let mut check = Guest::boot_with(&image, &[&disk], &[])?;
    check.run("modprobe -a virtio_blk crc32c ext4")?;
    check.run("e2fsck -fn /dev/vda")?;
    Ok(())
}
