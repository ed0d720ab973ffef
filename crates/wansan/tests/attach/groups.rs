//! Routes in several target portal groups: a lost session is ended by its key, as none can take its place.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use wansan_iscsi::scsi::opcode;
use wansan_nbd::client::Command;
use wansan_peers::trial::{Stop, require, trial};
use wansan_peers::wansan::Attach;

use crate::peer::{OWN, Peer, ROUTES, await_listed};
use crate::program::Program;
use crate::stage::{DISK_BYTES, LIMIT, Stage, WANSAN, pattern};
use crate::way::{self, Change};

pub(crate) fn trials() -> Vec<Trial> {
    let ended = |name: &str, trouble| trial(name, move || ended(trouble));
    vec![
        ended(
            "a lost session with another portal group is ended by its key",
            Trouble::None,
        ),
        ended(
            "a session that was ended by its key counts as ended when the answer was lost",
            Trouble::AnswerIsLost,
        ),
        ended(
            "a unit attention while a lost session is ended costs no route",
            Trouble::Attention,
        ),
        ended(
            "a lost session is ended over a route that has all commands",
            Trouble::Full,
        ),
    ]
}

const LOGIN_RESPONSE: u8 = 0x23;
const SCSI_COMMAND: u8 = 0x01;
const SCSI_RESPONSE: u8 = 0x21;
/// A service action of PERSISTENT RESERVE OUT (SPC-4 6.16.2).
const PREEMPT_AND_ABORT: u8 = 0x05;

/// Without being ended, a session is waited for twice as long.
const SOON: Duration = Duration::from_secs(60);

fn is_write(pdu: &[u8]) -> bool {
    way::opcode(pdu) == SCSI_COMMAND && [opcode::WRITE_10, opcode::WRITE_16].contains(&pdu[32])
}

/// A way that leads to a portal group of its own, and keeps what is sent from the first write on once it `holds`.
#[derive(Default)]
struct Other {
    held: Mutex<Held>,
    goes_on: Condvar,
    ends: Mutex<Vec<TcpStream>>,
}

#[derive(Default)]
struct Held {
    holds: bool,
    has_write: bool,
}

impl Change for Other {
    fn connected(&self, ends: [TcpStream; 2]) {
        let [near, _] = ends;
        self.ends.lock().expect("no panic").push(near);
    }

    fn asked(&self, _: u64, pdu: &mut [u8]) {
        let mut held = self.held();
        held.has_write |= held.holds && is_write(pdu);
        let is_kept = |held: &mut Held| held.holds && held.has_write;
        drop(
            self.goes_on
                .wait_timeout_while(held, LIMIT, is_kept)
                .expect("no panic"),
        );
    }

    fn answered(&self, _: u64, pdu: &mut [u8]) {
        const TAG: &[u8] = b"TargetPortalGroupTag=1";
        if way::opcode(pdu) == LOGIN_RESPONSE
            && let Some(at) = pdu.windows(TAG.len()).position(|text| text == TAG)
        {
            pdu[at + TAG.len() - 1] = b'2';
        }
    }
}

impl Other {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().expect("no panic")
    }

    fn hold(&self, holds: bool) {
        self.held().holds = holds;
        self.goes_on.notify_all();
    }

    /// The initiator loses what it has connected, and the target does not.
    fn cut(&self) {
        for end in self.ends.lock().expect("no panic").drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

/// What happens on the way over which the lost session is ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    None,
    /// The first PREEMPT AND ABORT is carried out, and given again: instead of its answer BUSY comes.
    AnswerIsLost,
    /// It is not, and MODE PARAMETERS CHANGED comes.
    Attention,
    /// All commands that a session may have are under way there.
    Full,
}

struct Own {
    trouble: Trouble,
    /// The tag of the first PREEMPT AND ABORT, until it is answered.
    fence: Mutex<Option<[u8; 4]>>,
    fences: Mutex<u32>,
    holds: Mutex<bool>,
    goes_on: Condvar,
}

fn tag(pdu: &[u8]) -> [u8; 4] {
    [pdu[16], pdu[17], pdu[18], pdu[19]]
}

impl Change for Own {
    fn asked(&self, _: u64, pdu: &mut [u8]) {
        let is_fence = way::opcode(pdu) == SCSI_COMMAND
            && pdu[32] == opcode::PERSISTENT_RESERVE_OUT
            && pdu[33] & 0x1f == PREEMPT_AND_ABORT;
        if is_fence {
            let mut fences = self.fences.lock().expect("no panic");
            *fences += 1;
            if *fences == 1 {
                *self.fence.lock().expect("no panic") = Some(tag(pdu));
                if self.trouble == Trouble::Attention {
                    const NO_OPCODE: u8 = 0xff;
                    pdu[32] = NO_OPCODE;
                }
            }
        }
        let holds = self.holds.lock().expect("no panic");
        let waited = self
            .goes_on
            .wait_timeout_while(holds, LIMIT, |holds| *holds);
        drop(waited.expect("no panic"));
    }

    fn answered(&self, _: u64, pdu: &mut [u8]) {
        const BUSY: u8 = 0x08;
        const UNIT_ATTENTION: u8 = 0x06;
        const MODE_PARAMETERS_CHANGED: [u8; 2] = [0x2a, 0x01];
        /// Behind its length.
        const SENSE_AT: usize = 48 + 2;
        let mut fence = self.fence.lock().expect("no panic");
        if way::opcode(pdu) != SCSI_RESPONSE || *fence != Some(tag(pdu)) {
            return;
        }
        *fence = None;
        match self.trouble {
            Trouble::AnswerIsLost => pdu[3] = BUSY,
            Trouble::Attention => {
                pdu[SENSE_AT + 2] = UNIT_ATTENTION;
                pdu[SENSE_AT + 12..][..2].copy_from_slice(&MODE_PARAMETERS_CHANGED);
            }
            Trouble::None | Trouble::Full => {}
        }
    }
}

impl Own {
    fn hold(&self, holds: bool) {
        *self.holds.lock().expect("no panic") = holds;
        self.goes_on.notify_all();
    }
}

const BYTES: usize = 4096;
const WRITES: u64 = 32;

fn write_all(program: &mut Program, seed: u64) -> Result<Vec<u8>, Stop> {
    let data = pattern(WRITES * BYTES as u64, seed);
    for number in 0..WRITES {
        let from = number as usize * BYTES;
        let write = Command::Write {
            offset_bytes: from as u64,
            data: &data[from..][..BYTES],
            fua: false,
        };
        program.submit(write, number)?;
    }
    Ok(data)
}

fn until_done(program: &mut Program, began: Instant) -> Result<(), Stop> {
    while program.open() > 0 {
        require(began.elapsed() < SOON, || "it takes too long".to_owned())?;
        program.answer()?;
    }
    Ok(())
}

/// Writes until the other way has kept a write; returns the next seed.
fn until_kept(program: &mut Program, other: &Other) -> Result<u64, Stop> {
    let mut seed = 1;
    let began = Instant::now();
    while !other.held().has_write {
        require(began.elapsed() < SOON, || "it is not used".to_owned())?;
        while program.poll_answer()?.is_some() {}
        if program.open() <= WRITES as usize {
            write_all(program, seed)?;
            seed += 1;
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(seed)
}

/// Has more reads under way than a session may have commands, of which none is answered until the other one is lost.
fn fill(program: &mut Program, own: &Own) -> Result<(), Stop> {
    const READS: u64 = 400;
    own.hold(true);
    for number in 0..READS {
        // None of a stream that would be read ahead.
        let offset_bytes = number * 7919 % (DISK_BYTES / BYTES as u64) * BYTES as u64;
        let buffer = vec![0; BYTES];
        let read = Command::Read {
            offset_bytes,
            buffer,
        };
        program.submit(read, WRITES + number)?;
    }
    // They are taken at once, and this is no test if they are not.
    thread::sleep(Duration::from_millis(200));
    Ok(())
}

/// Writes that were under way on a lost route do not hold later ones up, and are not carried out after them when they come
/// to the target at last.
fn ended(trouble: Trouble) -> Result<(), Stop> {
    let stage = Stage::new()?;
    let target = stage.target.address();
    let to = target.parse().expect("an address");
    let own = Arc::new(Own {
        trouble,
        fence: Mutex::default(),
        fences: Mutex::default(),
        holds: Mutex::default(),
        goes_on: Condvar::default(),
    });
    let other = Arc::new(Other::default());
    let first = way::open(to, Arc::clone(&own))?.to_string();
    let second = way::open(to, Arc::clone(&other))?.to_string();
    let url = stage.target.url(0).replace(target, &first);
    let arguments = [
        &second,
        "--multipath",
        "--write-through",
        "--reservation-key",
        OWN,
    ];
    let attach = Attach::start(WANSAN.as_ref(), &url, &arguments)?;
    let mut peer = Peer::connect(&stage.target.url(0))?;
    peer.has_keys(&ROUTES[..2])?;
    let mut program = Program::connect(attach.socket())?;
    // Both routes are known to be of use.
    write_all(&mut program, 0)?;
    until_done(&mut program, Instant::now())?;
    other.hold(true);
    let seed = until_kept(&mut program, &other)?;
    if trouble == Trouble::Full {
        fill(&mut program, &own)?;
    }
    let began = Instant::now();
    other.cut();
    if trouble == Trouble::Full {
        await_listed(&attach, "1 of 2 connections", true)?;
        own.hold(false);
    }
    until_done(&mut program, began)?;
    let last = write_all(&mut program, seed)?;
    until_done(&mut program, began)?;
    peer.has_keys(&ROUTES[..1])?;
    await_listed(&attach, "1 of 2 connections", true)?;
    let fences = *own.fences.lock().expect("no panic");
    let expected = match trouble {
        Trouble::None | Trouble::Full => 1,
        // Each is given a second time.
        Trouble::AnswerIsLost | Trouble::Attention => 2,
    };
    require(fences == expected, || format!("it is ended {fences} times"))?;
    for never in [
        "no other route is in its target portal group",
        "is not registered",
        &format!("route {first} is lost"),
    ] {
        require(!attach.log().contains(never), || attach.log())?;
    }
    // What the lost route has kept comes to the target now, in its session.
    other.hold(false);
    peer.await_keys(&ROUTES[..2])?;
    await_listed(&attach, "1 of 2 connections", false)?;
    require(attach.stop()?.success(), || "attach failed".to_owned())?;
    peer.has_keys(&[])?;
    let disk = stage.disk()?;
    require(disk[..last.len()] == last, || {
        "an earlier write was carried out after a later one".to_owned()
    })
}
