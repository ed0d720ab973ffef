//! A target that registers initiators, and refuses their writes all the same.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use libtest_mimic::Trial;
use wansan_iscsi::scsi::opcode;
use wansan_nbd::client::Command;
use wansan_peers::trial::{Stop, require, trial};
use wansan_peers::wansan::Attach;

use crate::peer::{OWN, Peer};
use crate::program::Program;
use crate::stage::{Stage, WANSAN};
use crate::way::{self, Change};

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial(
        "writes that a registered session is refused end",
        refused,
    )]
}

const SCSI_COMMAND: u8 = 0x01;
const SCSI_RESPONSE: u8 = 0x21;
/// A status (SAM-5 5.3.1).
const RESERVATION_CONFLICT: u8 = 0x18;

/// Answers each write with RESERVATION CONFLICT; the tags of those that are under way.
#[derive(Default)]
struct Refuse(Mutex<HashSet<[u8; 4]>>);

fn tag(pdu: &[u8]) -> [u8; 4] {
    [pdu[16], pdu[17], pdu[18], pdu[19]]
}

impl Change for Refuse {
    fn asked(&self, pdu: &mut [u8]) {
        let is_write = [opcode::WRITE_10, opcode::WRITE_16].contains(&pdu[32]);
        if way::opcode(pdu) == SCSI_COMMAND
            && is_write
            && let Ok(mut writes) = self.0.lock()
        {
            writes.insert(tag(pdu));
        }
    }

    fn answered(&self, pdu: &mut [u8]) {
        if way::opcode(pdu) == SCSI_RESPONSE
            && let Ok(mut writes) = self.0.lock()
            && writes.remove(&tag(pdu))
        {
            pdu[3] = RESERVATION_CONFLICT;
        }
    }
}

fn refused() -> Result<(), Stop> {
    for routes in [&[][..], &["--multipath", "--connections", "2"]] {
        let stage = Stage::new()?;
        let target = stage.target.address();
        let to = target.parse().expect("an address");
        let way = way::open(to, Arc::new(Refuse::default()))?.to_string();
        let url = stage.target.url(0).replace(target, &way);
        let own = ["--write-through", "--reservation-key", OWN];
        let attach = Attach::start(WANSAN.as_ref(), &url, &[routes, &own].concat())?;
        let mut program = Program::connect(attach.socket())?;
        for number in 0..8 {
            let write = Command::Write {
                offset_bytes: 0,
                data: &[7; 4096],
                fua: false,
            };
            program.submit(write, number)?;
            match program.answer() {
                Err(Stop::Failed(why)) if why.contains("not permitted") => {}
                other => return Err(Stop::Failed(format!("{other:?}: {}", attach.log()))),
            }
        }
        program.read(0, 4096)?;
        let says = "refuses writes of this host with RESERVATION CONFLICT";
        require(attach.log().matches(says).count() == 1, || attach.log())?;
        let mut peer = Peer::connect(&stage.target.url(0))?;
        peer.is_kept_off(true)?;
        require(attach.stop()?.success(), || "attach failed".to_owned())?;
        peer.has_keys(&[])?;
    }
    Ok(())
}
