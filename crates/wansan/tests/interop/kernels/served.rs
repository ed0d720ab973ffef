//! Our target in a guest, on a disk of the guest's device mapper, and sessions with it from outside.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use wansan_iscsi::initiator::{Answer, Command, Schedule, Transfer};
use wansan_iscsi::keys::Wanted;
use wansan_iscsi::scsi::{AdditionalSense, Cdb, Sense, SenseKey, cdb};
use wansan_iscsi::wire::{Lun, ScsiStatus, TaskAttribute};
use wansan_peers::guest::Guest;
use wansan_peers::process::free_address;
use wansan_peers::wansan::TARGET_NAME;
use wansan_san::url::IscsiUrl;
use wansan_san::{DelayedAck, Initiator, InitiatorConfig, Route};
use wansan_trace::{Instant, Recorder, clock};

use super::{image, with_wansan};
use crate::stage::{BLOCK_BYTES, LIMIT, Stop, empty_disk, folder};

/// Where the target listens in its guest.
const PORT: u16 = 3260;

/// A guest with our binary and empty drives.
pub(super) struct Served {
    pub(super) guest: Guest,
    address: SocketAddr,
    drives: Vec<PathBuf>,
    // Goes last: the guest uses it.
    _folder: TempDir,
}

impl Served {
    /// Boots the guest, with drives of so many MiB as `/dev/vda` and so on, and loads `modules`.
    pub(super) fn boot(drives_mib: &[u64], modules: &str) -> Result<Self, Stop> {
        let folder = folder()?;
        let image = with_wansan(&image()?, folder.path())?;
        let drives = (0..)
            .zip(drives_mib)
            .map(|(n, mib)| empty_disk(folder.path(), &format!("drive-{n}"), *mib))
            .collect::<Result<Vec<_>, _>>()?;
        let paths: Vec<&Path> = drives.iter().map(PathBuf::as_path).collect();
        let address = free_address()?;
        let mut guest = Guest::boot(&image, &paths, &[(address, PORT)])?;
        guest.run(&format!("modprobe -a virtio_blk crc32c dm-mod {modules}"))?;
        // Dirty pages go to the disk when somebody flushes them, not before.
        guest.run("echo 0 >/proc/sys/vm/dirty_writeback_centisecs")?;
        Ok(Self {
            guest,
            address,
            drives,
            _folder: folder,
        })
    }

    /// The file of a drive, on this computer.
    pub(super) fn drive(&self, n: usize) -> &Path {
        &self.drives[n]
    }

    /// Has `dmsetup` do something, without udev, which does not run here.
    pub(super) fn dmsetup(&mut self, arguments: &str) -> Result<String, Stop> {
        self.guest
            .run(&format!("DM_DISABLE_UDEV=1 dmsetup {arguments}"))
    }

    /// Has the device `name` use `table` from now on, with what waits in it and in the page cache.
    pub(super) fn change_table(&mut self, name: &str, table: &str) -> Result<(), Stop> {
        self.dmsetup(&format!("reload {name} --table '{table}'"))?;
        self.dmsetup(&format!("suspend --noflush --nolockfs {name}"))?;
        self.dmsetup(&format!("resume {name}"))?;
        Ok(())
    }

    /// Where the target is reached.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Starts the target on `unit`, as `--lun` takes it.
    pub(super) fn start(&mut self, unit: &str) -> Result<(), Stop> {
        self.start_with(&format!("--lun {unit}"))
    }

    /// Starts the target with these arguments, its units among them.
    pub(super) fn start_with(&mut self, arguments: &str) -> Result<(), Stop> {
        self.guest.run(&format!(
            "wansan target --json --listen 0.0.0.0:{PORT} --name {TARGET_NAME} {arguments} \
             >/run/target 2>&1 & echo $! >/run/target.pid"
        ))?;
        self.guest.run(
            "until grep -q listening /run/target; do \
               [ -d /proc/$(cat /run/target.pid) ] || { cat /run/target; exit 1; }; sleep 0.1; \
             done",
        )?;
        Ok(())
    }

    /// Kills the target (SIGKILL) and waits until it has let go of its disk.
    pub(super) fn kill(&mut self) -> Result<(), Stop> {
        self.end("KILL")
    }

    /// Sends the target a signal that ends it, and waits until it has let go of its disk.
    pub(super) fn end(&mut self, signal: &str) -> Result<(), Stop> {
        self.guest.run(&format!(
            "pid=$(cat /run/target.pid); kill -{signal} $pid; while [ -d /proc/$pid ]; do sleep 0.1; done"
        ))?;
        Ok(())
    }

    /// A session with the target, of an initiator called `name`, that takes `tasks` at once.
    pub(super) fn session(&self, name: &str, tasks: usize) -> Result<Session, Stop> {
        Session::connect(self.address, name, tasks)
    }
}

/// A session with LUN 0.
pub(super) struct Session(Initiator);

/// A command, as tests of disks need it.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Read { lba: u64, blocks: u32 },
    Write { lba: u64, data: Vec<u8>, fua: bool },
    Flush,
}

impl Op {
    fn command(self, user: u64) -> Command {
        let blocks = |bytes: usize| (bytes as u64 / BLOCK_BYTES) as u32;
        let (cdb, transfer) = match self {
            Op::Read { lba, blocks } => {
                let buffer = vec![0; blocks as usize * BLOCK_BYTES as usize];
                (cdb::read(lba, blocks, false), Transfer::Read(buffer))
            }
            Op::Write { lba, data, fua } => {
                let cdb = cdb::write(lba, blocks(data.len()), fua);
                (cdb, Transfer::Write(data))
            }
            Op::Flush => (cdb::synchronize_cache(0, 0, false), Transfer::None),
        };
        command(cdb, transfer, user)
    }
}

fn command(cdb: Cdb, transfer: Transfer, user: u64) -> Command {
    Command {
        lun: Lun::default(),
        cdb,
        attribute: TaskAttribute::Simple,
        transfer,
        user,
    }
}

impl Session {
    fn connect(address: SocketAddr, name: &str, tasks: usize) -> Result<Self, Stop> {
        let failed = |what: &dyn std::fmt::Display| Stop::Failed(format!("session: {what}"));
        let url: IscsiUrl = format!("iscsi://{address}/{TARGET_NAME}/0")
            .parse()
            .map_err(|error| failed(&error))?;
        let config = InitiatorConfig {
            name: format!("iqn.2026-11.net.example:{name}"),
            isid: [0x80, 0, 0, 0, 0, 1],
            chap: None,
            wanted: Wanted::default(),
            tasks,
            routes: vec![Route::to(&url)],
            multipath: false,
            reservation: None,
            schedule: Schedule::default(),
            congestion_control: None,
            delayed_ack: DelayedAck::On,
            patience: LIMIT,
            // A guest by software on a busy computer may be silent for long.
            replacement_timeout: LIMIT,
            tcp_interval: Duration::from_secs(1),
        };
        let mut initiator =
            Initiator::connect(&url, &config, Recorder::off()).map_err(|error| failed(&error))?;
        // The first commands are told of the unit's past.
        for _ in 0..8 {
            let test = command(cdb::test_unit_ready(), Transfer::None, 0);
            initiator.execute(test).map_err(|error| failed(&error))?;
        }
        Ok(Self(initiator))
    }

    /// Sends a command whose answer comes under the number `user`.
    ///
    /// # Panics
    /// When the session has as many as it takes.
    pub(super) fn submit(&mut self, op: Op, user: u64) {
        let submitted = self.0.submit(op.command(user), clock::now());
        assert!(submitted.is_ok(), "more commands than the session takes");
    }

    /// The next answer that comes.
    pub(super) fn next(&mut self) -> Result<(u64, Answer), Stop> {
        loop {
            if let Some(done) = self.0.poll_completion(clock::now()) {
                let answer = done
                    .outcome
                    .map_err(|error| Stop::Failed(error.to_string()))?;
                return Ok((done.user, answer));
            }
            self.0
                .turn(Instant::FAR_FUTURE)
                .map_err(|error| Stop::Failed(error.to_string()))?;
        }
    }

    /// Sends `ops` at once and takes their answers.
    pub(super) fn run_all(&mut self, ops: Vec<Op>) -> Result<Vec<Answer>, Stop> {
        let count = ops.len();
        for (user, op) in (0..).zip(ops) {
            self.submit(op, user);
        }
        (0..count).map(|_| Ok(self.next()?.1)).collect()
    }

    pub(super) fn run(&mut self, op: Op) -> Result<Answer, Stop> {
        self.submit(op, 0);
        Ok(self.next()?.1)
    }
}

pub(super) fn is_good(answer: &Answer) -> bool {
    answer.status == ScsiStatus::Good
}

/// The sense of an answer that carries some.
pub(super) fn sense(answer: &Answer) -> Option<(SenseKey, AdditionalSense)> {
    let sense = Sense::parse(&answer.sense).ok()?;
    Some((sense.key, sense.additional))
}
