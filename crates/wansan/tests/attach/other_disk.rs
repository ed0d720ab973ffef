//! Another disk where an attached one was.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use wansan_iscsi::scsi::{opcode, vpd};
use wansan_nbd::client::Command;
use wansan_peers::trial::{Stop, require, trial};
use wansan_peers::wansan::Attach;

use crate::faults::kill;
use crate::program::Program;
use crate::stage::{LIMIT, Stage, WANSAN};
use crate::way::{self, Change};

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial(
        "nothing is written to another disk that a recovered session leads to",
        other_disk,
    )]
}

const SCSI_COMMAND: u8 = 0x01;
const DATA_IN: u8 = 0x25;
/// Where the CDB begins in a SCSI Command PDU, and the data in a Data-In PDU.
const CDB: usize = 32;
const DATA: usize = 48;

/// What tells one disk from another.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trait {
    /// The first designator of page 83h, an NAA name: its last byte.
    Name,
    /// The last LBA: one of its higher bytes, so that the disk is smaller.
    Size,
}

impl Trait {
    fn is_asked(self, cdb: &[u8]) -> bool {
        match self {
            Trait::Name => {
                cdb[0] == opcode::INQUIRY && cdb[1] == 1 && cdb[2] == vpd::IDENTIFICATION
            }
            Trait::Size => cdb[0] == opcode::SERVICE_ACTION_IN_16 && cdb[1] == 0x10,
        }
    }

    fn change(self, data: &mut [u8]) {
        match self {
            Trait::Name => data[4 + 4 + 7] ^= 1,
            Trait::Size => data[5] = 0,
        }
    }
}

/// Has the disk seem to be another one while it is on.
struct Disguise {
    of: Trait,
    is_on: AtomicBool,
    changed: AtomicU64,
    /// The commands that ask for it and have got no data yet, by connection and tag: sessions over several routes use the
    /// same tags.
    asked: Mutex<HashSet<(u64, [u8; 4])>>,
}

fn tag(pdu: &[u8]) -> [u8; 4] {
    [pdu[16], pdu[17], pdu[18], pdu[19]]
}

impl Disguise {
    fn new(of: Trait) -> Arc<Disguise> {
        Arc::new(Disguise {
            of,
            is_on: AtomicBool::new(false),
            changed: AtomicU64::new(0),
            asked: Mutex::default(),
        })
    }
}

impl Change for Disguise {
    fn asked(&self, connection: u64, pdu: &mut [u8]) {
        if way::opcode(pdu) == SCSI_COMMAND && self.of.is_asked(&pdu[CDB..DATA]) {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.insert((connection, tag(pdu)));
        }
    }

    fn answered(&self, connection: u64, pdu: &mut [u8]) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if way::opcode(pdu) != DATA_IN || !asked.remove(&(connection, tag(pdu))) {
            return;
        }
        if self.is_on.load(Ordering::Relaxed) {
            self.of.change(&mut pdu[DATA..]);
            self.changed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A write waits while the target has another disk in its place, and is carried out when the right one is back.
fn other_disk() -> Result<(), Stop> {
    let arms = [
        (Trait::Name, &[][..]),
        (Trait::Size, &[]),
        (Trait::Name, &["--replacement-timeout", "1s"]),
        (Trait::Name, &["--multipath"]),
        (Trait::Size, &["--connections", "2"]),
    ];
    for (of, arguments) in arms {
        let mut stage = Stage::new()?;
        let target = stage.target.address();
        let to: SocketAddr = target.parse().expect("an address");
        let disguise = Disguise::new(of);
        let way = way::open(to, Arc::clone(&disguise))?.to_string();
        let url = stage.target.url(0).replace(target, &way);
        let routes = [way.as_str()];
        let own = ["--write-through"];
        let routes = match arguments.contains(&"--multipath") {
            true => &routes[..],
            false => &[],
        };
        let arguments = [arguments, &own, routes].concat();
        let attach = Attach::start(WANSAN.as_ref(), &url, &arguments)?;
        let mut program = Program::connect(attach.socket())?;
        let write = |data: &'static [u8; 4096]| Command::Write {
            offset_bytes: 0,
            data,
            fua: true,
        };
        program.submit(write(&[1; 4096]), 1)?;
        program.answer()?;
        disguise.is_on.store(true, Ordering::Relaxed);
        // With the target, its sessions go.
        kill(stage.target.id())?;
        stage.target = Stage::serve(stage.folder.path(), &to.to_string())?;
        // Without a session for so short a time, requests would fail.
        let may_fail = arguments.contains(&"1s");
        if !may_fail {
            program.submit(write(&[2; 4096]), 2)?;
        }
        let began = Instant::now();
        // The second attempt begins after the first has been refused.
        let is_refused = || disguise.changed.load(Ordering::Relaxed) >= 3;
        let is_told = || !may_fail || attach.log().contains("is another disk now");
        while !is_refused() || !is_told() {
            require(began.elapsed() < LIMIT, || {
                format!("{of:?} {arguments:?}: {}", attach.log())
            })?;
            thread::sleep(Duration::from_millis(20));
        }
        require(program.poll_answer()?.is_none(), || {
            format!("{of:?} {arguments:?}: a write to another disk is acknowledged")
        })?;
        require(stage.disk()?[..4096] == [1; 4096], || {
            format!("{of:?} {arguments:?}: another disk was written")
        })?;
        require(
            attach.log().contains("another unit than the one in use") || may_fail,
            || format!("{of:?} {arguments:?}: {}", attach.log()),
        )?;
        disguise.is_on.store(false, Ordering::Relaxed);
        if may_fail {
            let is_back = || attach.log().contains("the session is back");
            while !is_back() {
                require(began.elapsed() < LIMIT, || attach.log())?;
                thread::sleep(Duration::from_millis(20));
            }
            program.submit(write(&[2; 4096]), 2)?;
        }
        program.answer()?;
        require(stage.disk()?[..4096] == [2; 4096], || {
            format!("{of:?} {arguments:?}: the write is not at the disk")
        })?;
        require(attach.stop()?.success(), || "attach failed".to_owned())?;
    }
    Ok(())
}
