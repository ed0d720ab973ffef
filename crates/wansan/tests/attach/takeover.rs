//! A disk is taken over from a host that is alive and writes over several routes.

use std::sync::{Arc, Mutex};
use std::thread;

use libtest_mimic::Trial;
use wansan_iscsi::scsi::opcode;
use wansan_nbd::client::Command;
use wansan_peers::trial::{Stop, require, trial};
use wansan_peers::wansan::Attach;

use crate::peer::{OTHER, OWN, Peer, ROUTES, await_listed, must_write, writes};
use crate::program::Program;
use crate::reserved::write_until_refused;
use crate::stage::{Stage, WANSAN, pattern};
use crate::way::{self, Change};

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial(
        "a host that writes over several routes loses them all at once",
        at_once,
    )]
}

const SCSI_COMMAND: u8 = 0x01;
const SCSI_RESPONSE: u8 = 0x21;
/// A service action of PERSISTENT RESERVE OUT (SPC-4 6.16.2).
const PREEMPT_AND_ABORT: u8 = 0x05;

/// Looks which keys are there after each PREEMPT AND ABORT, before the host that has sent it knows of it.
struct Look {
    peer: Mutex<Peer>,
    /// The tag of the one that is under way.
    under_way: Mutex<Option<[u8; 4]>>,
    found: Mutex<Vec<Vec<u64>>>,
}

fn tag(pdu: &[u8]) -> [u8; 4] {
    [pdu[16], pdu[17], pdu[18], pdu[19]]
}

impl Change for Look {
    fn asked(&self, _: u64, pdu: &mut [u8]) {
        let preempts = way::opcode(pdu) == SCSI_COMMAND
            && pdu[32] == opcode::PERSISTENT_RESERVE_OUT
            && pdu[33] & 0x1f == PREEMPT_AND_ABORT;
        if preempts {
            *self.under_way.lock().expect("no panic") = Some(tag(pdu));
        }
    }

    fn answered(&self, _: u64, pdu: &mut [u8]) {
        let mut under_way = self.under_way.lock().expect("no panic");
        if way::opcode(pdu) == SCSI_RESPONSE && under_way.take_if(|it| *it == tag(pdu)).is_some() {
            let keys = self.peer.lock().expect("no panic").keys();
            let found = keys.unwrap_or_default();
            self.found.lock().expect("no panic").push(found);
        }
    }
}

/// With one route after the other, the host would register those again that it has lost, as long as it has others.
fn at_once() -> Result<(), Stop> {
    const BYTES: usize = 1 << 20;
    let stage = Stage::new()?;
    let target = stage.target.address();
    let look = Arc::new(Look {
        peer: Mutex::new(Peer::connect(&stage.target.url(0))?),
        under_way: Mutex::default(),
        found: Mutex::default(),
    });
    let way = way::open(target.parse().expect("an address"), Arc::clone(&look))?;
    let url = stage.target.url(0).replace(target, &way.to_string());
    let several = ["--write-through", "--multipath", "--connections", "3"];
    let arguments = |key: &'static str| [&several[..], &["--reservation-key", key]].concat();
    let first = stage.attach(&arguments(OWN))?;
    must_write(&first)?;
    look.peer.lock().expect("no panic").has_keys(&ROUTES)?;
    let data = pattern(BYTES as u64, 5);
    let second = thread::scope(|scope| {
        let writer = scope.spawn(|| write_until_refused(first.socket()));
        let second = || {
            let preempts = [&arguments(OTHER)[..], &["--preempt"]].concat();
            let second = Attach::start(WANSAN.as_ref(), &url, &preempts)?;
            // Where the first one writes, and as soon as that is possible.
            let mut program = Program::connect(second.socket())?;
            let write = Command::Write {
                offset_bytes: 0,
                data: &data,
                fua: true,
            };
            program.submit(write, 0)?;
            program.answer()?;
            Ok::<_, Stop>(second)
        };
        let second = second();
        let written = writer.join();
        written.map_err(|_| Stop::Failed("the writer panicked".to_owned()))??;
        second
    })?;
    await_listed(&first, "preempted", true)?;
    require(!writes(&first)?, || "both can write".to_owned())?;
    let found = look.found.lock().expect("no panic").clone();
    require(!found.is_empty(), || "none was removed".to_owned())?;
    for keys in found {
        let others = keys.iter().filter(|key| *key & 0xff != 0xb).count();
        require(others == 0, || format!("{keys:x?} were left"))?;
    }
    let disk = stage.disk()?;
    require(disk[..BYTES] == data, || {
        "the first host has written after the second".to_owned()
    })?;
    require(second.stop()?.success(), || "attach failed".to_owned())
}
