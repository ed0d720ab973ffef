//! A target that refuses what it is asked: for a reservation of its initiator's own, or for a reason of its own.

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
    vec![
        trial("writes that a registered session is refused end", refused),
        trial("each error of the target is that of NBD", errors),
    ]
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
    fn asked(&self, _: u64, pdu: &mut [u8]) {
        let is_write = [opcode::WRITE_10, opcode::WRITE_16].contains(&pdu[32]);
        if way::opcode(pdu) == SCSI_COMMAND
            && is_write
            && let Ok(mut writes) = self.0.lock()
        {
            writes.insert(tag(pdu));
        }
    }

    fn answered(&self, _: u64, pdu: &mut [u8]) {
        if way::opcode(pdu) == SCSI_RESPONSE
            && let Ok(mut writes) = self.0.lock()
            && writes.remove(&tag(pdu))
        {
            pdu[3] = RESERVATION_CONFLICT;
        }
    }
}

/// Has one command fail, with a sense key and an additional sense code.
struct Fail {
    opcodes: [u8; 2],
    sense: [u8; 3],
    under_way: Mutex<HashSet<[u8; 4]>>,
}

impl Change for Fail {
    fn asked(&self, _: u64, pdu: &mut [u8]) {
        const NO_OPCODE: u8 = 0xff;
        if way::opcode(pdu) == SCSI_COMMAND && self.opcodes.contains(&pdu[32]) {
            pdu[32] = NO_OPCODE;
            self.under_way.lock().expect("no panic").insert(tag(pdu));
        }
    }

    fn answered(&self, _: u64, pdu: &mut [u8]) {
        /// Behind its length.
        const SENSE_AT: usize = 48 + 2;
        let mut under_way = self.under_way.lock().expect("no panic");
        if way::opcode(pdu) == SCSI_RESPONSE && under_way.remove(&tag(pdu)) {
            let [key, code, qualifier] = self.sense;
            pdu[SENSE_AT + 2] = key;
            pdu[SENSE_AT + 12..][..2].copy_from_slice(&[code, qualifier]);
        }
    }
}

fn errors() -> Result<(), Stop> {
    const BYTES: usize = 4096;
    const WRITE: [u8; 2] = [opcode::WRITE_10, opcode::WRITE_16];
    const READ: [u8; 2] = [opcode::READ_10, opcode::READ_16];
    const WRITE_SAME: [u8; 2] = [opcode::WRITE_SAME_10, opcode::WRITE_SAME_16];
    let write = || Command::Write {
        offset_bytes: 0,
        data: &[7; BYTES],
        fua: false,
    };
    let read = || Command::Read {
        offset_bytes: 0,
        buffer: vec![0; BYTES],
    };
    let zero = |fast| Command::WriteZeroes {
        offset_bytes: 0,
        length_bytes: BYTES as u64,
        fua: false,
        may_unmap: false,
        fast,
    };
    // DATA PROTECT with SPACE ALLOCATION FAILED WRITE PROTECT and with WRITE PROTECTED, MEDIUM ERROR with WRITE ERROR and
    // UNRECOVERED READ ERROR, HARDWARE ERROR, ILLEGAL REQUEST with INVALID COMMAND OPERATION CODE (SPC-4 Annex D).
    let cases = [
        (WRITE, [0x7, 0x27, 0x07], write(), Some("NBD_ENOSPC")),
        (WRITE, [0x7, 0x27, 0x00], write(), Some("NBD_EPERM")),
        (WRITE, [0x3, 0x0c, 0x00], write(), Some("NBD_EIO")),
        (READ, [0x3, 0x11, 0x00], read(), Some("NBD_EIO")),
        (READ, [0x4, 0x44, 0x00], read(), Some("NBD_EIO")),
        (
            WRITE_SAME,
            [0x5, 0x20, 0x00],
            zero(true),
            Some("NBD_ENOTSUP"),
        ),
        // Without WRITE SAME, zeros are written.
        (WRITE_SAME, [0x5, 0x20, 0x00], zero(false), None),
    ];
    for (opcodes, sense, command, expected) in cases {
        let stage = Stage::new()?;
        let target = stage.target.address();
        let to = target.parse().expect("an address");
        let fail = Fail {
            opcodes,
            sense,
            under_way: Mutex::default(),
        };
        let way = way::open(to, Arc::new(fail))?.to_string();
        let url = stage.target.url(0).replace(target, &way);
        let attach = Attach::start(WANSAN.as_ref(), &url, &["--write-through"])?;
        let mut program = Program::connect(attach.socket())?;
        program.submit(command, 0)?;
        let answer = program.answer();
        let is_it = match (&answer, expected) {
            (Err(Stop::Failed(why)), Some(errno)) => why.contains(errno),
            (Ok(_), None) => true,
            _ => false,
        };
        require(is_it, || {
            format!("{opcodes:x?} {sense:x?}: {answer:?}, not {expected:?}")
        })?;
        require(attach.stop()?.success(), || "attach failed".to_owned())?;
    }
    Ok(())
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
        let says = "rejects writes of this host with RESERVATION CONFLICT";
        require(attach.log().matches(says).count() == 1, || attach.log())?;
        let mut peer = Peer::connect(&stage.target.url(0))?;
        peer.is_kept_off(true)?;
        require(attach.stop()?.success(), || "attach failed".to_owned())?;
        peer.has_keys(&[])?;
    }
    Ok(())
}
