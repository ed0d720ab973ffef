//! The units of systemd.

use std::fs::{read_to_string, write};
use std::path::Path;
use std::process::Command;

use libtest_mimic::Trial;
use tempfile::TempDir;
use wansan_peers::process::run;
use wansan_peers::program::find;
use wansan_peers::trial::{Stop, require, trial};

use crate::{LIMIT, REPOSITORY, WANSAN};

/// Each unit, and the exposure to which `systemd-analyze security` says it comes, in tenths: 0 is none, 100 all.
/// That of attached disks is greater, as the kernel has devices made by root alone.
const UNITS: [(&str, u32); 3] = [
    ("wansan-attach.service", 28),
    ("wansan-relay.service", 20),
    ("wansan-target.service", 17),
];

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("systemd_understands_each_line_of_the_units", verify),
        trial("units_are_no_more_exposed_than_they_were", security),
    ]
}

fn path(unit: &str) -> std::path::PathBuf {
    Path::new(REPOSITORY).join("setup/systemd").join(unit)
}

fn verify() -> Result<(), Stop> {
    let analyze = find("systemd-analyze")?;
    let folder = TempDir::with_prefix("wansan-test-")?;
    for (unit, _) in UNITS {
        let text = read_to_string(path(unit))?;
        let command = "ExecStart=wansan ";
        require(text.contains(command), || format!("no {command} in {unit}"))?;
        // It looks for the program, which is not installed here.
        let text = text.replace(command, &format!("ExecStart={WANSAN} "));
        let copy = folder.path().join(unit);
        write(&copy, text)?;
        let done = run(
            Command::new(&analyze)
                .args(["verify", "--man=no"])
                .arg(copy),
            LIMIT,
        )?
        .success()?;
        // What it does not know it only complains about.
        require(done.output().trim().is_empty(), || done.output())?;
    }
    Ok(())
}

fn security() -> Result<(), Stop> {
    let analyze = find("systemd-analyze")?;
    for (unit, exposure) in UNITS {
        run(
            Command::new(&analyze)
                .args(["security", "--offline=true", "--no-pager"])
                .arg(format!("--threshold={exposure}"))
                .arg(path(unit)),
            LIMIT,
        )?
        .success()?;
    }
    Ok(())
}
