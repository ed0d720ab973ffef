//! Flushes of a disk that several connections use.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use libtest_mimic::Trial;
use wansan_iscsi::scsi::opcode;
use wansan_nbd::client::Command;
use wansan_peers::trial::{Stop, require, trial};
use wansan_peers::wansan::Attach;

use crate::program::Program;
use crate::stage::{Stage, WANSAN};
use crate::way::{self, Change};

pub(crate) fn trials() -> Vec<Trial> {
    vec![trial(
        "a flush on one connection covers what was acknowledged on another",
        flushed_by_another,
    )]
}

/// Has each burst of data take its time on the way to the target.
struct Slow;

impl Change for Slow {
    fn asked(&self, _: u64, pdu: &mut [u8]) {
        const SCSI_COMMAND: u8 = 0x01;
        let is_write = [opcode::WRITE_10, opcode::WRITE_16].contains(&pdu[32]);
        if way::opcode(pdu) == SCSI_COMMAND && is_write {
            thread::sleep(Duration::from_millis(200));
        }
    }

    fn answered(&self, _: u64, _: &mut [u8]) {}
}

/// What `NBD_FLAG_CAN_MULTI_CONN` promises.
fn flushed_by_another() -> Result<(), Stop> {
    const BYTES: usize = 64 << 10;
    let stage = Stage::new()?;
    let target = stage.target.address();
    let to = target.parse().expect("an address");
    let way = way::open(to, Arc::new(Slow))?.to_string();
    let url = stage.target.url(0).replace(target, &way);
    for way in [&[][..], &["--write-through"]] {
        let attach = Attach::start(Path::new(WANSAN), &url, way)?;
        let mut writer = Program::connect(attach.socket())?;
        let mut flusher = Program::connect(attach.socket())?;
        for round in 1..=4_u8 {
            for number in 0..4 {
                // Apart from each other, so that they are no single burst.
                let write = Command::Write {
                    offset_bytes: number * 4 * BYTES as u64,
                    data: &[round; BYTES],
                    fua: false,
                };
                writer.submit(write, number)?;
                writer.answer()?;
            }
            flusher.submit(Command::Flush, 0)?;
            flusher.answer()?;
            let disk = stage.disk()?;
            for number in 0..4 {
                let there = &disk[number * 4 * BYTES..][..BYTES];
                require(there.iter().all(|byte| *byte == round), || {
                    format!("{way:?}: write {number} of round {round} is not there")
                })?;
            }
        }
        require(attach.stop()?.success(), || "attach failed".to_owned())?;
    }
    Ok(())
}
