//! Routes in several target portal groups: a lost session is ended by its key, as none can take its place.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use libtest_mimic::Trial;
use wansan_nbd::client::Command;
use wansan_peers::trial::{Stop, require, trial};

use crate::peer::{OWN, Peer, ROUTES, await_listed};
use crate::program::Program;
use crate::stage::{Stage, pattern};
use crate::way::{self, Change};

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial(
        "a lost session with another portal group is ended by its key",
        ended,
    )]
}

const LOGIN_RESPONSE: u8 = 0x23;
const SCSI_COMMAND: u8 = 0x01;

/// A way that leads to a portal group of its own, and keeps what is sent once it `holds`.
#[derive(Default)]
struct Other {
    holds: Mutex<bool>,
    goes_on: Condvar,
    ends: Mutex<Vec<TcpStream>>,
    kept: Mutex<u32>,
}

impl Change for Other {
    fn connected(&self, ends: [TcpStream; 2]) {
        let [near, _] = ends;
        self.ends.lock().expect("no panic").push(near);
    }

    fn asked(&self, pdu: &mut [u8]) {
        let mut holds = self.holds.lock().expect("no panic");
        if *holds && way::opcode(pdu) == SCSI_COMMAND {
            *self.kept.lock().expect("no panic") += 1;
        }
        while *holds {
            holds = self.goes_on.wait(holds).expect("no panic");
        }
    }

    fn answered(&self, pdu: &mut [u8]) {
        const TAG: &[u8] = b"TargetPortalGroupTag=1";
        if way::opcode(pdu) == LOGIN_RESPONSE
            && let Some(at) = pdu.windows(TAG.len()).position(|text| text == TAG)
        {
            pdu[at + TAG.len() - 1] = b'2';
        }
    }
}

impl Other {
    fn hold(&self, holds: bool) {
        *self.holds.lock().expect("no panic") = holds;
        self.goes_on.notify_all();
    }

    /// The initiator loses what it has connected, and the target does not.
    fn cut(&self) {
        for end in self.ends.lock().expect("no panic").drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

/// Writes that were under way on a lost route do not hold later ones up, and are not carried out after them when they come
/// to the target at last.
fn ended() -> Result<(), Stop> {
    const BYTES: usize = 4096;
    const WRITES: u64 = 32;
    /// Without being ended, a session is waited for twice as long.
    const SOON: Duration = Duration::from_secs(60);
    let stage = Stage::new()?;
    let other = Arc::new(Other::default());
    let to = stage.target.address().parse().expect("an address");
    let way = way::open(to, Arc::clone(&other))?.to_string();
    let routes = [&way, "--multipath", "--write-through"];
    let attach = stage.attach(&[&routes[..], &["--reservation-key", OWN]].concat())?;
    let mut peer = Peer::connect(&stage.target.url(0))?;
    peer.has_keys(&ROUTES[..2])?;
    let mut program = Program::connect(attach.socket())?;
    let write_all = |program: &mut Program, seed: u64| {
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
        Ok::<_, Stop>(data)
    };
    let until_done = |program: &mut Program| {
        while program.open() > 0 {
            program.answer()?;
        }
        Ok::<_, Stop>(())
    };
    // Both routes are known to be of use.
    write_all(&mut program, 0)?;
    until_done(&mut program)?;
    other.hold(true);
    let mut seed = 1;
    let began = Instant::now();
    while *other.kept.lock().expect("no panic") == 0 {
        require(began.elapsed() < SOON, || "it is not used".to_owned())?;
        write_all(&mut program, seed)?;
        seed += 1;
        while program.open() > WRITES as usize {
            program.answer()?;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let began = Instant::now();
    other.cut();
    until_done(&mut program)?;
    let last = write_all(&mut program, seed)?;
    until_done(&mut program)?;
    let took = began.elapsed();
    require(took < SOON, || format!("{took:?}: {}", attach.log()))?;
    peer.has_keys(&ROUTES[..1])?;
    await_listed(&attach, "1 of 2 connections", true)?;
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
