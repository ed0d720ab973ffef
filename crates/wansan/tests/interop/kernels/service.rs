//! The unit of `wansan attach` as it is shipped, under systemd, the first process of a guest.

use std::path::Path;

use libtest_mimic::Trial;
use wansan_peers::guest::{Guest, Image, OUTSIDE};
use wansan_peers::wansan::{TARGET_NAME, Target};

use super::{image, kernel_trial, with_wansan};
use crate::stage::{Stop, WANSAN, folder, require};

const UNIT: &str = include_str!("../../../../../setup/systemd/wansan-attach.service");

/// Carries out the test's commands, as the first process of other guests does.
const COMMANDS: &str = "[Service]\nExecStart=/usr/bin/sh /commands\n";
/// No more than that: nobody logs in.
const TARGET: &str = "[Unit]\nRequires=basic.target\nAfter=basic.target\n";

const UNITS: &str = "etc/systemd/system";

pub(crate) fn trials() -> Vec<Trial> {
    vec![kernel_trial(
        "systemd_starts_reloads_and_stops_attached_disks",
        runs,
    )]
}

/// `image` with systemd, the unit, and the folder for its file.
fn with_units(image: &Image, folder: &Path) -> Result<Image, Stop> {
    let image = image.with_files(folder, |archive| {
        archive.folder("etc/wansan")?;
        // Without one this would be the machine's first boot, at which questions are asked.
        archive.file(
            "etc/machine-id",
            0o444,
            b"0123456789abcdef0123456789abcdef\n",
        )?;
        archive.folder("etc/systemd")?;
        archive.folder(UNITS)?;
        let wanted = format!("{UNITS}/default.target.wants");
        archive.folder(&wanted)?;
        archive.link(&format!("{wanted}/commands.service"), "../commands.service")?;
        for (name, text) in [
            ("default.target", TARGET),
            ("commands.service", COMMANDS),
            ("wansan-attach.service", UNIT),
        ] {
            archive.file(&format!("{UNITS}/{name}"), 0o644, text.as_bytes())?;
        }
        Ok(())
    });
    Ok(image?)
}

/// The file of the unit, with these LUNs of a target of that name, the first one as a device as well.
fn write_file(guest: &mut Guest, target: &Target, name: &str, luns: &[u64]) -> Result<(), Stop> {
    let address = target.address();
    let port = address.rsplit(':').next().unwrap_or_default();
    let disks = luns.iter().map(|lun| {
        let url = format!("iscsi://{OUTSIDE}:{port}/{name}/{lun}");
        let device = if *lun == 0 {
            "device = \"/dev/nbd0\"\\n"
        } else {
            ""
        };
        format!("[[disk]]\\nurl = \"{url}\"\\nnbd = \"unix:/run/wansan/{lun}\"\\n{device}")
    });
    let text: String = disks.collect();
    guest.run(&format!("printf '{text}' >/etc/wansan/attach.toml"))?;
    Ok(())
}

/// Waits until the unit has these properties at one moment.
fn until(guest: &mut Guest, properties: &[(&str, &str)]) -> Result<(), Stop> {
    let names: Vec<&str> = properties.iter().map(|(name, _)| *name).collect();
    let are_there = properties
        .iter()
        .map(|(name, value)| format!("grep -qxF '{name}={value}' /run/shown"));
    guest.run(&format!(
        "i=0; until systemctl show -p {} wansan-attach >/run/shown && {}; do i=$((i + 1)); [ $i -lt 600 ] || \
         {{ cat /run/shown; journalctl -u wansan-attach; exit 1; }}; sleep 0.1; done",
        names.join(","),
        are_there.collect::<Vec<_>>().join(" && ")
    ))?;
    Ok(())
}

fn process(guest: &mut Guest) -> Result<String, Stop> {
    guest.run("systemctl show -P MainPID wansan-attach")
}

fn runs() -> Result<(), Stop> {
    let folder = folder()?;
    let units = ["--lun", "memory:16MiB", "--lun", "memory:16MiB"];
    let target = Target::start(Path::new(WANSAN), &units)?;
    let image = with_wansan(&with_units(&image()?, folder.path())?, folder.path())?;
    let mut guest = Guest::boot(&image, &[], &[])?;

    // Started, once the disk is there.
    write_file(&mut guest, &target, TARGET_NAME, &[0])?;
    guest.run("systemctl start wansan-attach || { journalctl -b; exit 1; }")?;
    until(
        &mut guest,
        &[
            ("Type", "notify"),
            ("ActiveState", "active"),
            ("SubState", "running"),
            ("StatusText", "serves unix:/run/wansan/0"),
        ],
    )?;
    guest.run("dd if=/dev/zero of=/dev/nbd0 bs=64k count=16 oflag=direct")?;
    let first = process(&mut guest)?;

    // Reloaded: it is the same process.
    write_file(&mut guest, &target, TARGET_NAME, &[0, 1])?;
    guest.run("systemctl reload wansan-attach")?;
    until(
        &mut guest,
        &[
            ("ActiveState", "active"),
            ("SubState", "running"),
            (
                "StatusText",
                "serves unix:/run/wansan/0, unix:/run/wansan/1",
            ),
        ],
    )?;
    let second = process(&mut guest)?;
    require(first == second, || format!("{first} became {second}"))?;

    // Killed, it is started again.
    guest.run("kill -9 $(systemctl show -P MainPID wansan-attach)")?;
    until(&mut guest, &[("ActiveState", "active"), ("NRestarts", "1")])?;
    let third = process(&mut guest)?;
    require(first != third, || "it was not killed".to_owned())?;
    guest.run("dd if=/dev/nbd0 of=/dev/null bs=64k count=16 iflag=direct")?;

    guest.run("systemctl stop wansan-attach")?;
    until(
        &mut guest,
        &[
            ("ActiveState", "inactive"),
            ("Result", "success"),
            ("ExecMainStatus", "0"),
        ],
    )?;
    guest.run("[ ! -e /run/wansan ] && [ $(cat /sys/block/nbd0/size) = 0 ]")?;

    // Refused by the target it has failed, and says why; it is tried again, and comes up when it is let in.
    let nobody = "iqn.2026-11.net.example:nobody";
    write_file(&mut guest, &target, nobody, &[0])?;
    guest.run("! systemctl start wansan-attach")?;
    until(
        &mut guest,
        &[
            ("SubState", "auto-restart"),
            ("Result", "exit-code"),
            ("ExecMainStatus", "2"),
        ],
    )?;
    guest.run(
        "journalctl -u wansan-attach | grep -q nobody || { journalctl -u wansan-attach; exit 1; }",
    )?;
    write_file(&mut guest, &target, TARGET_NAME, &[0])?;
    until(
        &mut guest,
        &[("ActiveState", "active"), ("SubState", "running")],
    )?;
    guest.run("systemctl stop wansan-attach")?;
    Ok(())
}
