//! Disks that lose data which was answered GOOD, under our target in the guest: no flush and no FUA
//! write is GOOD after that, until the target is started again.

use libtest_mimic::Trial;
use wansan_iscsi::initiator::Answer;
use wansan_iscsi::scsi::{AdditionalSense, SenseKey};

use super::kernel_trial;
use super::served::{Op, Served, is_good, sense};
use crate::stage::{BLOCK_BYTES, Stop, require};

const WRITE_ERROR: (SenseKey, AdditionalSense) =
    (SenseKey::MediumError, AdditionalSense::WRITE_ERROR);
const NO_SPACE: (SenseKey, AdditionalSense) = (
    SenseKey::DataProtect,
    AdditionalSense::SPACE_ALLOCATION_FAILED,
);
/// Commands at once: as many as the target has workers.
const PARALLEL: usize = 16;
const MIB_BLOCKS: u64 = (1 << 20) / BLOCK_BYTES;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        kernel_trial("no_flush_is_good_beside_a_failed_write_back", fails),
        kernel_trial("no_flush_is_good_after_a_thin_device_was_full", fills_up),
    ]
}

/// Data is cached, and the disk fails while 16 commands in parallel wait for it to reach the medium.
/// Linux gives the error to one of them.
fn fails() -> Result<(), Stop> {
    const SECTORS: u64 = 64 << 11;
    let mut served = Served::boot(&[64], "dm-delay")?;
    let working = format!("0 {SECTORS} linear /dev/vda 0");
    let failing = format!("0 {SECTORS} error");
    served.dmsetup(&format!("create medium --table '{working}'"))?;
    // Writes take long enough for all commands to be in the kernel by then.
    let medium = "/dev/mapper/medium";
    served.dmsetup(&format!(
        "create disk --table '0 {SECTORS} delay {medium} 0 0 {medium} 0 2000 {medium} 0 0'"
    ))?;
    for waiting in [flush as fn(u64) -> Op, fua, flush_or_fua] {
        served.start("file:/dev/mapper/disk")?;
        let mut session = served.session("one", PARALLEL)?;
        all_good(&session.run_all((0..8).map(plain).collect())?)?;
        served.change_table("medium", &failing)?;
        let answers = session.run_all((0..PARALLEL as u64).map(waiting).collect())?;
        none_good(&answers)?;
        none_good(&session.run_all(vec![flush(0), fua(1), plain(2)])?)?;
        all_good(&[session.run(Op::Read { lba: 0, blocks: 8 })?])?;
        served.change_table("medium", &working)?;
        // The disk works again, but that does not bring data back.
        none_good(&session.run_all(vec![flush(0), fua(1), plain(2)])?)?;
        drop(session);
        served.kill()?;
        served.start("file:/dev/mapper/disk")?;
        let mut session = served.session("one", PARALLEL)?;
        all_good(&session.run_all(vec![plain(0), fua(1), flush(0)])?)?;
        drop(session);
        served.kill()?;
    }
    Ok(())
}

/// A sparse file on an XFS, whose thin device has a fourth of the space that it shows. The file system
/// refuses a write when it is full itself, which harms nothing; the device refuses to take data that
/// was answered GOOD, which is lost, and XFS says ENOSPC to both.
fn fills_up() -> Result<(), Stop> {
    const POOL_MIB: u64 = 128;
    const THIN_SECTORS: u64 = (4 * POOL_MIB) << 11;
    let mut served = Served::boot(&[POOL_MIB, 8], "dm-thin-pool xfs")?;
    served.dmsetup(&format!(
        "create pool --table '0 {} thin-pool /dev/vdb /dev/vda 128 0 1 error_if_no_space'",
        POOL_MIB << 11
    ))?;
    served.dmsetup("message pool 0 'create_thin 0'")?;
    served.dmsetup(&format!(
        "create thin --table '0 {THIN_SECTORS} thin /dev/mapper/pool 0'"
    ))?;
    served
        .guest
        .run("mkfs.xfs -q -K /dev/mapper/thin && mount /dev/mapper/thin /mnt")?;
    served.start("file:/mnt/disk,size=300MiB")?;
    let mut session = served.session("one", PARALLEL)?;
    all_good(&session.run_all(vec![fua(0), flush(0)])?)?;

    // Space that is reserved in the file system takes none of the pool.
    served.guest.run(
        "free=$(df -k /mnt | awk 'END { print $4 }'); \
         until fallocate -l ${free}k /mnt/reserved; do free=$((free - 64)); done",
    )?;
    let refused = (1..64).find_map(|mib| match session.run(fua(mib * MIB_BLOCKS)) {
        Ok(answer) if is_good(&answer) => None,
        other => Some(other),
    });
    let refused =
        refused.ok_or_else(|| Stop::Failed("the file system is not full".to_owned()))??;
    require(sense(&refused) == Some(NO_SPACE), || format!("{refused:?}"))?;
    all_good(&session.run_all(vec![flush(0), fua(0), plain(1)])?)?;
    served.guest.run("rm /mnt/reserved")?;
    all_good(&session.run_all(vec![fua(64 * MIB_BLOCKS), flush(0)])?)?;

    for mib in 0..POOL_MIB {
        all_good(&[session.run(mebibyte(100 + mib))?])?;
    }
    // Writes back what is cached, and takes no error from the target.
    served.guest.run("sync")?;
    let full = served.dmsetup("status pool")?;
    require(full.contains("out_of_data_space"), || full.clone())?;
    // This block has had its place on the device from the start, so the error is of the others.
    let told = session.run(fua(0))?;
    none_good(&session.run_all(vec![flush(0), fua(0), plain(1)])?)?;
    require(sense(&told) == Some(WRITE_ERROR), || format!("{told:?}"))
}

fn plain(lba: u64) -> Op {
    let data = vec![1; BLOCK_BYTES as usize];
    Op::Write {
        lba,
        data,
        fua: false,
    }
}

fn fua(lba: u64) -> Op {
    let data = vec![2; BLOCK_BYTES as usize];
    Op::Write {
        lba,
        data,
        fua: true,
    }
}

fn flush(_: u64) -> Op {
    Op::Flush
}

fn flush_or_fua(n: u64) -> Op {
    match n % 2 {
        0 => flush(n),
        _ => fua(n),
    }
}

/// A write of the disk's MiB of that number.
fn mebibyte(number: u64) -> Op {
    Op::Write {
        lba: number * MIB_BLOCKS,
        data: vec![3; 1 << 20],
        fua: false,
    }
}

fn all_good(answers: &[Answer]) -> Result<(), Stop> {
    require(answers.iter().all(is_good), || format!("{answers:?}"))
}

fn none_good(answers: &[Answer]) -> Result<(), Stop> {
    let good = answers.iter().filter(|answer| is_good(answer)).count();
    require(good == 0, || {
        format!(
            "{good} of {} answered GOOD over lost data: {answers:?}",
            answers.len()
        )
    })
}
