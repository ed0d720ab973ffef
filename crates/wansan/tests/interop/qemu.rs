//! Our target under `qemu-img`: a whole image in and out again.

use std::process::Command;

use libtest_mimic::Trial;
use wansan_peers::process::{Finished, run};
use wansan_peers::program::find;

use crate::stage::{
    LIMIT, Stop, distinct_disk, empty_disk, folder, own_target, require, require_equal, text,
};
use crate::trial;

/// The size that the image has, and the unit too.
const IMAGE_MIB: u64 = 256;

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial(
        "qemu::an_image_goes_in_and_out_unchanged",
        in_and_out,
    )]
}

fn in_and_out() -> Result<(), Stop> {
    let folder = folder()?;
    let image = distinct_disk(folder.path(), "image", IMAGE_MIB)?;
    let disk = empty_disk(folder.path(), "disk.img", IMAGE_MIB)?;
    let back = folder.path().join("back");
    let target = own_target(&[&format!("file:{}", text(&disk))])?;
    let url = target.url(0);
    convert(&["-n", text(&image), &url])?;
    convert(&[&url, text(&back)])?;
    require_equal(&image, &back)?;
    let status = target.stop()?;
    require(status.success(), || {
        format!("the target ended with {status}")
    })?;
    require_equal(&image, &disk)
}

fn convert(arguments: &[&str]) -> Result<Finished, Stop> {
    let mut command = Command::new(find("qemu-img")?);
    command
        .args(["convert", "-f", "raw", "-O", "raw"])
        .args(arguments);
    let finished = run(&mut command, LIMIT)?;
    if finished.stderr.contains("Unknown protocol 'iscsi'") {
        let reason = "qemu-img has no iSCSI driver (Debian package qemu-block-extra)";
        return Err(Stop::NotRun(reason.to_owned()));
    }
    Ok(finished.success()?)
}
