//! The targets that the suite is run against.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use wansan_iscsi::wire::Lun;
use wansan_peers::tgtd::{self, Tgtd};
use wansan_peers::trial::Stop;
use wansan_peers::wansan::{self, Target};

/// The binary under test.
pub(crate) const WANSAN: &str = env!("CARGO_BIN_EXE_wansan");

/// Length of every unit. It is full of zeros until a test writes there.
pub(crate) const UNIT_BYTES: u64 = 8 << 20;
/// Logical block size of every unit.
pub(crate) const BLOCK_BYTES: usize = 512;

/// The number of a unit of ours which takes [`SLOW_SERVICE`] for anything, one thing at a time.
pub(crate) const SLOW_UNIT: u16 = 1;
/// Long beside a login and a write to another unit.
const SLOW_SERVICE: &str = "2s";

/// How long a peer may take for one answer: generous, as the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same where it is known that the peer does not do as the standard says, which often means
/// that nothing comes.
const LITTLE_PATIENCE: Duration = Duration::from_secs(2);

/// Which implementation of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `wansan target`.
    Ours,
    /// Debian's `tgtd`.
    Tgtd,
}

/// Where a target is, and how long it may take.
#[derive(Debug, Clone)]
pub(crate) struct Portal {
    /// `ADDRESS:PORT`.
    pub(crate) address: String,
    pub(crate) target_name: &'static str,
    /// The unit that tests write to.
    pub(crate) lun: Lun,
    /// For one answer.
    pub(crate) patience: Duration,
}

/// A running target, for one test alone.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) portal: Portal,
    // Ends before its disk goes: fields drop in order.
    _process: Process,
    _disk: TempDir,
}

#[derive(Debug)]
#[expect(dead_code, reason = "kept only to end with the test")]
enum Process {
    Ours(Target),
    Tgtd(Tgtd),
}

impl Peer {
    /// Starts a target that allows up to eight connections and both digests, where it can.
    /// `deviates`: an answer that does not come is not waited for long.
    pub(crate) fn start(kind: Kind, deviates: bool) -> Result<Self, Stop> {
        let disk = TempDir::with_prefix("wansan-rfc7143-")?;
        let (process, address, target_name, lun) = match kind {
            Kind::Ours => ours()?,
            Kind::Tgtd => tgtd(disk.path())?,
        };
        Ok(Peer {
            portal: Portal {
                address,
                target_name,
                lun: Lun::single_level(lun).expect("0 and 1 have an encoding"),
                patience: if deviates { LITTLE_PATIENCE } else { PATIENCE },
            },
            _process: process,
            _disk: disk,
        })
    }
}

type Started = (Process, String, &'static str, u16);

fn ours() -> Result<Started, Stop> {
    let unit = format!("memory:{}MiB", UNIT_BYTES >> 20);
    let slow = format!("memory:1MiB,service-time={SLOW_SERVICE}");
    let target = Target::start(Path::new(WANSAN), &["--lun", &unit, "--lun", &slow])?;
    let address = target.address().to_owned();
    Ok((Process::Ours(target), address, wansan::TARGET_NAME, 0))
}

fn tgtd(folder: &Path) -> Result<Started, Stop> {
    let disk = folder.join("disk.img");
    File::create(&disk)?.set_len(UNIT_BYTES)?;
    let tgtd = Tgtd::start(&disk)?;
    for (key, value) in [
        ("MaxConnections", "8"),
        ("HeaderDigest", "None,CRC32C"),
        ("DataDigest", "None,CRC32C"),
        ("InitialR2T", "No"),
        ("MaxOutstandingR2T", "4"),
    ] {
        tgtd.set_parameter(key, value)?;
    }
    let address = tgtd.address().to_string();
    Ok((Process::Tgtd(tgtd), address, tgtd::TARGET_NAME, 1))
}
