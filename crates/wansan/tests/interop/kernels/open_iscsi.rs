//! The Linux kernel's initiator with our target.

use std::path::Path;

use libtest_mimic::Trial;
use wansan_peers::guest::{Guest, OUTSIDE};
use wansan_peers::wansan::{TARGET_NAME, Target};

use super::files;
use super::{image, kernel_trial};
use crate::chap::{SECRET, Secrets, TARGET_SECRET, TARGET_USER, USER, WRONG, borrowed};
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
    let secrets = Secrets::new()?;
    let chap = secrets.both(TARGET_SECRET)?;
    let arguments = [&["--lun", &unit][..], &borrowed(&chap)].concat();
    let serve = |listen: &str| Target::start_at(Path::new(WANSAN), listen, &arguments);
    let mut target = serve("127.0.0.1:0")?;
    let address = target.address().to_owned();
    let (_, port) = address.rsplit_once(':').expect("an address has a port");
    let port = port.parse().expect("a port is a number");

    let mut guest = Guest::boot(&image()?, &[], &[])?;
    guest.run("modprobe -a iscsi_tcp sd_mod crc32c ext4")?;
    start_daemon(&mut guest)?;
    let node = Node::new(&mut guest, port)?;
    node.demand_chap(&mut guest)?;
    node.log_in(&mut guest)?;
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

/// Our target in the records of open-iscsi.
pub(super) struct Node {
    /// `iscsiadm` for this target.
    iscsiadm: String,
}

impl Node {
    /// Records our target at `port` of the computer outside, with both digests. Its own address,
    /// which SendTargets gives, is of no use in a guest.
    pub(super) fn new(guest: &mut Guest, port: u16) -> Result<Self, Stop> {
        let iscsiadm = format!("iscsiadm -m node -T {TARGET_NAME} -p {OUTSIDE}:{port}");
        guest.run(&format!("{iscsiadm} -o new"))?;
        let node = Self { iscsiadm };
        for digest in ["HeaderDigest", "DataDigest"] {
            node.set(guest, &format!("conn[0].iscsi.{digest}"), "CRC32C")?;
        }
        Ok(node)
    }

    /// Sets a value of the record.
    pub(super) fn set(&self, guest: &mut Guest, name: &str, value: &str) -> Result<(), Stop> {
        let Self { iscsiadm } = self;
        guest.run(&format!("{iscsiadm} -o update -n node.{name} -v {value}"))?;
        Ok(())
    }

    /// Has both ends prove by CHAP that they know a secret, with the strongest algorithm that iscsid
    /// knows. No login succeeds without, or with a wrong one.
    fn demand_chap(&self, guest: &mut Guest) -> Result<(), Stop> {
        // Statuses of iscsiadm: the target refuses, or iscsid itself gives up.
        const REFUSED: u8 = 24;
        const GIVEN_UP: u8 = 19;
        // It forgoes the stage in which it would have to prove something.
        self.fails(guest, REFUSED)?;
        let auth = |name| format!("session.auth.{name}");
        for (name, value) in [
            ("authmethod", "CHAP"),
            ("chap_algs", "SHA3-256,SHA256,SHA1,MD5"),
            ("username", USER),
            ("password", WRONG),
            ("username_in", TARGET_USER),
            ("password_in", TARGET_SECRET),
        ] {
            self.set(guest, &auth(name), value)?;
        }
        self.fails(guest, REFUSED)?;
        self.set(guest, &auth("password"), SECRET)?;
        self.set(guest, &auth("password_in"), WRONG)?;
        self.fails(guest, GIVEN_UP)?;
        self.set(guest, &auth("password_in"), TARGET_SECRET)
    }

    /// Fails unless the login fails with `status`.
    fn fails(&self, guest: &mut Guest, status: u8) -> Result<(), Stop> {
        let Self { iscsiadm } = self;
        guest.run(&format!("{iscsiadm} --login; [ $? = {status} ]"))?;
        Ok(())
    }

    /// Logs in.
    pub(super) fn log_in(&self, guest: &mut Guest) -> Result<(), Stop> {
        guest.run(&format!("{} --login", self.iscsiadm))?;
        Ok(())
    }
}
