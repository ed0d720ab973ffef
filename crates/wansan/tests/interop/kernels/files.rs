//! Files that a guest writes to a disk while something happens to it, and what has become of them.

use wansan_peers::guest::Guest;

use crate::stage::Stop;

/// How many files are written.
const FILES: u32 = 24;
const FILE_BYTES: u32 = 2 << 20;

/// Begins to write files to the file system at `/mnt`, one after another, each of them on the disk
/// before the next. Their checksums are kept elsewhere.
pub(super) fn write(guest: &mut Guest) -> Result<(), Stop> {
    guest.run(&format!(
        "(for n in $(seq {FILES}); do \
           dd if=/dev/urandom of=/run/file bs={FILE_BYTES} count=1 iflag=fullblock \
           && sha256sum </run/file >/run/$n.sum && cp /run/file /mnt/$n && sync /mnt/$n \
           && touch /run/$n.done || touch /run/failed; \
         done; touch /run/all.done) >/run/log 2>&1 &"
    ))?;
    Ok(())
}

/// Waits until the file numbered `n`, from 1, is on the disk.
pub(super) fn until_written(guest: &mut Guest, n: u32) -> Result<(), Stop> {
    guest.run(&format!(
        "until [ -e /run/{n}.done ] || [ -e /run/failed ]; do sleep 0.1; done"
    ))?;
    Ok(())
}

/// Waits until all files are on the disk, and fails if one could not be written.
pub(super) fn all_written(guest: &mut Guest) -> Result<(), Stop> {
    guest.run(
        "until [ -e /run/all.done ]; do sleep 0.1; done; cat /run/log; [ ! -e /run/failed ]",
    )?;
    Ok(())
}

/// Unmounts the file system on `disk` and fails unless it is whole, and every file is on it.
pub(super) fn check(guest: &mut Guest, disk: &str) -> Result<(), Stop> {
    guest.run(&format!("umount /mnt && e2fsck -fn {disk}"))?;
    guest.run(&format!("mount -o ro {disk} /mnt"))?;
    guest.run(&format!(
        "for n in $(seq {FILES}); do \
           [ $(stat -c %s /mnt/$n) = {FILE_BYTES} ] && sha256sum </mnt/$n | cmp - /run/$n.sum \
           || exit 1; \
         done"
    ))?;
    guest.run("umount /mnt")?;
    Ok(())
}
