//! The Linux kernel's NBD devices, over disks that `wansan attach` serves.

use std::net::SocketAddr;
use std::path::Path;

use libtest_mimic::Trial;
use wansan_peers::guest::{Guest, OUTSIDE};
use wansan_peers::wansan::{TARGET_NAME, Target};

use super::files;
use super::host_program;
use super::relay::Relay;
use super::{image, kernel_trial, with_wansan};
use crate::stage::{Stop, WANSAN, empty_disk, folder, require, text};

const DISK_MIB: u64 = 256;

/// How long the path is cut.
const CUT_S: u32 = 30;

/// Writes blocks past the page cache, so slowly that the path is cut meanwhile, and reads back what they have.
const FIO: &str = "fio --name=verified --directory=/mnt --size=8m --rw=randwrite --bs=4k --direct=1 \
     --fsync=16 --rate_iops=60 --verify=crc32c --verify_fatal=1";

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        kernel_trial("an_attached_device_keeps_a_file_system", || outlives(&[])),
        kernel_trial(
            "an_attached_device_with_a_journal_keeps_a_file_system",
            || {
                outlives(&[
                    "--journal /run/journal --journal-size 128MiB",
                    // Requests that are open at the kill are sent again 30 s after this timeout.
                    "--replacement-timeout 40s",
                ])
            },
        ),
        kernel_trial(
            "an_attached_device_gets_back_connections_that_the_kernel_closed",
            closed,
        ),
    ]
}

/// The line of shell that makes the disk behind `relay` the guest's `/dev/nbd0`.
fn start(relay: &Relay, how: &str) -> String {
    let url = format!(
        "iscsi://{OUTSIDE}:{}/{TARGET_NAME}/0",
        relay.address().port()
    );
    format!(
        "wansan attach {url} --nbd unix:/run/disk --device /dev/nbd0 --json {how} >/run/attach 2>&1 & \
         echo $! >/run/attach.pid; \
         until grep -q attached /run/attach; do \
           [ -d /proc/$(cat /run/attach.pid) ] || {{ cat /run/attach; exit 1; }}; sleep 0.1; \
         done"
    )
}

/// A request that takes so long that the kernel gives its connection up is answered all the same.
fn closed() -> Result<(), Stop> {
    let folder = folder()?;
    let disk = empty_disk(folder.path(), "disk.img", DISK_MIB)?;
    let unit = format!("file:{}", text(&disk));
    let target = Target::start_at(Path::new(WANSAN), "127.0.0.1:0", &["--lun", &unit])?;
    let relay = Relay::to(target.address().parse().expect("an address"))?;
    let image = with_wansan(&image()?, folder.path())?;
    let mut guest = Guest::boot(&image, &[], &[])?;
    guest.run("modprobe nbd")?;
    // With a journal reads wait for as long as there is no session.
    let how = "--journal /run/journal --journal-size 64MiB --replacement-timeout 1s";
    guest.run(&start(&relay, how))?;
    relay.cut();
    guest.run(
        "(dd if=/dev/nbd0 of=/dev/null bs=4096 count=1 skip=4096 iflag=direct; echo $? >/run/read) \
         >/run/log 2>&1 &",
    )?;
    guest.run("until dmesg | grep -q 'timed out, retrying'; do sleep 1; done; sleep 3")?;
    guest.run("[ ! -e /run/read ]")?;
    relay.mend();
    guest.run(
        "until [ -s /run/read ]; do sleep 0.1; done; cat /run/log; [ $(cat /run/read) = 0 ]",
    )?;
    guest.run("wansan attach detach /dev/nbd0")?;
    Ok(())
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
    let plain = image()?;
    let image = host_program::with(&plain, "fio", folder.path())?;
    let image = with_wansan(&image, folder.path())?;
    let mut guest = Guest::boot(&image, &[], &[])?;
    guest.run("modprobe -a nbd crc32c ext4")?;
    let how = how.join(" ");
    let start = start(&relay, &how);
    guest.run(&start)?;
    guest.run("mkfs.ext4 -q /dev/nbd0 && mount /dev/nbd0 /mnt")?;

    guest.run(&format!(
        "({FIO} >/run/fio.log 2>&1; echo $? >/run/fio.status) &"
    ))?;
    files::write(&mut guest)?;
    files::until_written(&mut guest, 4)?;
    guest.run("[ ! -e /run/fio.status ]")?;
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
    guest.run(
        "until [ -s /run/fio.status ]; do sleep 0.1; done; cat /run/fio.log; [ $(cat /run/fio.status) = 0 ]",
    )?;
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
    let mut check = Guest::boot(&plain, &[&disk], &[])?;
    check.run("modprobe -a virtio_blk crc32c ext4")?;
    check.run("e2fsck -fn /dev/vda")?;
    Ok(())
}
